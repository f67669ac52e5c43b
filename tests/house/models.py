#!/usr/bin/env python3
"""Check that models name functions that exist, and that the design page names the models.

    models.py SOURCE_FOLDER

A model's first comment says what it stands for: `stands for: function, function (file); function (file)`.
"""
import pathlib
import re
import sys


def main():
    source = pathlib.Path(sys.argv[1])
    page = (source / "docs/design/shared-memory-transport.md").read_text()
    wrong, n_functions = [], 0
    for model in sorted((source / "docs/design/models").glob("*.pml")):
        comment = model.read_text().partition("*/")[0].replace("\n *", " ")
        stands_for = re.search(r"stands for: (.*?)(?= right: )", comment)
        if not stands_for:
            wrong.append(f"{model}: its first comment does not say what it stands for")
            continue
        for names, path in re.findall(r"([\w,\s]+)\(([\w/.]+)\)", stands_for[1]):
            text = (source / path).read_text() if (source / path).is_file() else ""
            for name in re.findall(r"\w+", names):
                n_functions += 1
                if not re.search(rf"^[a-z][^;=]*\b{name}\([^;]*\{{$", text, re.MULTILINE):
                    wrong.append(f"{model}: {path} has no function {name}")
        if model.name not in page:
            wrong.append(f"{model}: docs/design/shared-memory-transport.md does not name it")
    print("\n".join(wrong) or f"{n_functions} functions are there")
    return 1 if wrong or n_functions == 0 else 0


sys.exit(main())
