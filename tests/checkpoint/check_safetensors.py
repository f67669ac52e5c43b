#!/usr/bin/env python3
"""Does Python read the files of a checkpoint, to the bit, and without our code?  check_safetensors.py CHECKPOINT_FOLDER

The state is that of saved_run.h, whose formula is repeated here. Files are read with the standard library alone, and once more with
safetensors where it is installed. The manifest is JSON, names the files and the checksums of ranges that cover them.
"""
import json
import pathlib
import struct
import sys

KINDS = {"parameters.safetensors": 0, "first_moment.safetensors": 1, "second_moment.safetensors": 2}
MASK = (1 << 64) - 1


def bits_of(kind, parameter, n, step):
    for element in range(n):
        x = (element * 0x9E3779B97F4A7C15 & MASK) ^ parameter << 40 ^ kind << 56 ^ step << 20
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
        x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
        yield x >> 32


def read_plainly(path):
    """Names to (shape, bytes), by what the format's description says."""
    data = path.read_bytes()
    (header_bytes, ) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + header_bytes])
    assert header.pop("__metadata__") == {"format": "pt"}
    begin = 8 + header_bytes
    assert all(entry["dtype"] == "F32" for entry in header.values())
    return {
        name: (e["shape"], data[begin + e["data_offsets"][0]:begin + e["data_offsets"][1]])
        for name, e in header.items()
    }


def read_with_package(path):
    try:
        from safetensors import deserialize
    except ImportError:
        return None
    return {
        name: (entry["shape"], bytes(entry["data"]))
        for name, entry in deserialize(path.read_bytes())
    }


def main():
    folder = pathlib.Path(sys.argv[1])
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["format"] == "shardwise checkpoint" and manifest["version"] == 1
    assert {entry["name"] for entry in manifest["files"]} == set(KINDS)
    for entry in manifest["files"]:
        path = folder / entry["name"]
        end = 0
        for offset, n_bytes, checksum in entry["ranges"]:
            assert offset == end and len(checksum) == 16
            end += n_bytes
        assert end == entry["bytes"] == path.stat().st_size
        kind = KINDS[entry["name"]]
        tensors = read_plainly(path)
        expected = [(i, p) for i, p in enumerate(manifest["parameters"])
                    if kind == 0 or p["trainable"]]
        assert list(tensors) == [p["name"] for _, p in expected]
        for i, parameter in expected:
            shape, data = tensors[parameter["name"]]
            n = len(data) // 4
            assert shape == parameter["shape"]
            assert data == struct.pack(f"<{n}I", *bits_of(kind, i, n,
                                                          manifest["step"])), parameter["name"]
        package = read_with_package(path)
        assert package is None or package == tensors
    print("read" if package is None else "read, by safetensors too")


main()
