#!/usr/bin/env python3
"""Check that no message advises to destroy what Shardwise has not written.

    advice.py FOLDER ...

Every string of the sources that speaks of removing, deleting or overwriting stands in ALLOWED, with the reason why nobody can lose anything by
following it. A string that is allowed and no longer there is an error too.
"""
import pathlib
import re
import sys

# (file, what the string has in it): why
ALLOWED = {
    ("src/base/file.c", "exists already and is not overwritten"): "says that nothing is lost",
    ("src/checkpoint/load.c", "was removed while it was opened"): "says what another process did",
    ("src/checkpoint/steps_prune.c", ".removed"): "a name of a folder",
    ("src/cli/arguments.c", "remove one"): "a flag that is given twice",
    ("src/base/yaml.c", "remove one"): "a key of the text that is given twice",
    ("src/base/yaml.c", "remove it"): "a tag in the text",
    ("src/config/value.c", "remove the quotes"): "quotes in the text",
    ("src/cli/checkpoint.c", "remove old checkpoints"): "what prune does, with checkpoints of its own writing",
    ("src/cli/checkpoint_steps.c", "remove old checkpoints"): "what prune does, with checkpoints of its own writing",
    ("src/cli/checkpoint_steps.c", "removed"): "what prune does, with checkpoints of its own writing",
    ("src/cli/checkpoint_steps.c", "would be removed"): "what prune would do",
    ("src/cli/checkpoint_steps.c", "print what would be removed"): "what prune would do",
    ("src/cli/checkpoint_steps.c", "nothing to remove"): "what prune has not done",
    ("src/data/jinja/attributes.c", "remove"): "a method of Python's lists",
    ("src/data/jinja/text_methods.c", "removeprefix"): "a method of Python's strings",
    ("src/data/jinja/text_methods.c", "removesuffix"): "a method of Python's strings",
    ("src/tokenizer/pretokenize.c", "Removed"): "a word of tokenizer.json",
}
WORDS = re.compile(
    r"remov|delet|overwr|eras(e|ing)\b|\bwip(e|ing)\b|discard|\brm\b|unlink|destroy|clean up|get rid|throw away",
    re.IGNORECASE)
TEXT = r'"(?:\\.|[^"\\\n])*"'
TEXTS = re.compile(rf"{TEXT}(?:\s*(?:PRI\w+\s*)?{TEXT})*")  # neighbours are one
CODE = re.compile(rf"//[^\n]*|/\*.*?\*/|^[ \t]*#[ \t]*include[^\n]*|{TEXT}|'(?:\\.|[^'\\])+'",
                  re.DOTALL | re.MULTILINE)


def strings(text):
    """The strings of a C file."""
    bare = CODE.sub(lambda match: match.group(0) if match.group(0).startswith('"') else " ", text)
    return [match.group(0) for match in TEXTS.finditer(bare)]


def main():
    wrong, used, n = [], set(), 0
    root = pathlib.Path(sys.argv[1])
    for path in sorted(path for folder in ("src", "include")
                       for path in (root / folder).rglob("*.[ch]")):
        name = str(path.relative_to(root))
        for text in strings(path.read_text()):
            n += 1
            if not WORDS.search(text):
                continue
            found = [key for key in ALLOWED if key[0] == name and key[1] in text]
            used.update(found)
            if not found:
                wrong.append(
                    f"{name}: {text!r}: could somebody lose something by this? If not, say why in {__file__}"
                )
    wrong += [
        f"{file}: {text!r} is allowed, and not there" for file, text in sorted(set(ALLOWED) - used)
    ]
    print("\n".join(wrong) or f"{n} strings, {len(used)} kinds of them speak of removing")
    return 1 if wrong or n < 2000 else 0


sys.exit(main())
