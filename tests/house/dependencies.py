#!/usr/bin/env python3
"""Check that includes between the folders of src/ point one way only.

    dependencies.py SRC_FOLDER

ORDER is the order of the folders; ONLY narrows what some may see. The command's folder comes last and sees everything.
"""
import pathlib
import re
import sys

ORDER = "base optim config device comm graph model shard data checkpoint observe run plan cli".split()
ONLY = {"optim": {"base"}, "config": {"base", "optim"}, "observe": {"base"}, "data": {"base"}, "model": {"base", "optim", "device", "graph"}, "graph": {"base", "device"}}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def main():
    source = pathlib.Path(sys.argv[1])
    wrong, n_files = [], 0
    for path in sorted(source.rglob("*.[ch]")):
        n_files += 1
        folder = path.relative_to(source).parts[0]
        if folder not in ORDER:
            wrong.append(f"{path}: folder {folder} has no place in the order {ORDER}")
            continue
        allowed = ONLY.get(folder, set(ORDER[: ORDER.index(folder)])) | {folder}
        for included in INCLUDE.findall(path.read_text()):
            if not (source / included).is_file():
                wrong.append(f'{path}: "{included}" is not a path from src/')
            elif pathlib.PurePath(included).parts[0] not in allowed:
                wrong.append(f'{path}: includes "{included}"; {folder}/ may see {sorted(allowed)}')
    print("\n".join(wrong) or f"{n_files} files in order")
    return 1 if wrong or n_files == 0 else 0


sys.exit(main())
