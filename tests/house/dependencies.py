#!/usr/bin/env python3
"""Check what the folders of src/ know of one another.

    dependencies.py SRC_FOLDER

MAY_SEE is the table of the rooms: each sees base/ and what it names, all of it above itself. ONLY_HEADERS narrows what is seen of
a folder to a few headers. Inside a folder, a file and its header are one, and no more than two such
may lead to each other.
"""
import pathlib
import re
import sys

MAY_SEE = {
    "base": "",
    "optim": "",
    "config": "optim",
    "device": "optim",
    "comm": "device",
    "graph": "device comm",
    "model": "graph",
    "shard": "optim device comm graph",
    "observe": "",
    "formats": "",
    "tokenizer": "",
    "data": "formats tokenizer",
    "hf": "model shard formats data",
    "checkpoint": "device comm graph model shard observe formats hf",
    "plan": "config device comm model shard observe tokenizer hf checkpoint",
    "launch": "comm",
    "execute": "optim device comm shard launch",
    "faults": "comm observe execute",
    "infer": "device comm graph model shard tokenizer data hf plan launch execute",
    "train": "optim config device comm observe tokenizer data hf checkpoint plan launch execute faults",
    "embed": "config device checkpoint plan execute infer train",
    "cli": "config device comm shard observe formats tokenizer data hf checkpoint plan launch execute faults infer train embed",
}
ONLY_HEADERS = {
    ("graph", "device"): {"device/kernel.h", "device/operands.h"},
    ("graph", "comm"): {"comm/mesh.h"},
    ("shard", "device"): {"device/device.h", "device/operands.h"},
    ("shard", "comm"): {"comm/mesh.h", "comm/lane.h"},
}
# What these come to is the same on every machine, however long it takes there.
WITHOUT_CLOCK = {"graph", "model", "shard", "plan"}
# An interpreter's parts are one: an expression may call a macro, whose body prints expressions.
MAY_GO_ROUND = {"data/jinja"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def circles(leads_to):
    """Sets of more than two names that each lead to each (Tarjan's strongly connected components)."""
    index, low, stack, found = {}, {}, [], []

    def visit(name):
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(leads_to.get(name, ())):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            part = stack[stack.index(name):]
            del stack[stack.index(name):]
            if len(part) > 2:
                found.append(sorted(part))

    for name in sorted(leads_to):
        if name not in index:
            visit(name)
    return found


def main():
    source = pathlib.Path(sys.argv[1])
    order = list(MAY_SEE)
    wrong = [
        f"MAY_SEE: {room} comes before {seen}, which it may see" for room in order
        for seen in MAY_SEE[room].split() if order.index(seen) > order.index(room)
    ]
    n_files, used, leads_to = 0, set(), {}
    for path in sorted(source.rglob("*.[ch]")):
        n_files += 1
        name = path.relative_to(source)
        folder = name.parts[0]
        if folder not in MAY_SEE:
            wrong.append(f"{path}: folder {folder} is not in the table of rooms {order}")
            continue
        allowed = set(MAY_SEE[folder].split()) | {"base", folder}
        for included in INCLUDE.findall(path.read_text()):
            seen = pathlib.PurePath(included).parts[0]
            used.add((folder, seen))
            stem = str(pathlib.PurePath(included).with_suffix(""))
            if (seen == folder and stem != str(name.with_suffix(""))
                    and str(name.parent) not in MAY_GO_ROUND):
                leads_to.setdefault(str(name.with_suffix("")), set()).add(stem)
            if included == "base/clock.h" and folder in WITHOUT_CLOCK:
                wrong.append(f"{path}: looks at a clock; {folder}/ must not depend on time")
            if not (source / included).is_file():
                wrong.append(f'{path}: "{included}" is not a path from src/')
            elif seen not in allowed:
                wrong.append(f'{path}: includes "{included}"; {folder}/ may see {sorted(allowed)}')
            elif included not in ONLY_HEADERS.get((folder, seen), {included}):
                wrong.append(
                    f'{path}: includes "{included}"; of {seen}/, {folder}/ may see {sorted(ONLY_HEADERS[folder, seen])}'
                )
    wrong += [
        f"MAY_SEE: {folder} may see {seen}, and does not" for folder in order
        for seen in MAY_SEE[folder].split() if (folder, seen) not in used
    ]
    wrong += [f"these lead to each other: {', '.join(part)}" for part in circles(leads_to)]
    print("\n".join(wrong) or f"{n_files} files in order")
    return 1 if wrong or n_files == 0 else 0


sys.exit(main())
