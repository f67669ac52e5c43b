"""lora_files.py: what the tests of adapters share: the cases, and files of adapters read, written and changed."""
import json
import re
import shutil
import struct
import subprocess

import runs

LLAMA, GPT2 = runs.GOLDEN / "lora-llama", runs.GOLDEN / "lora-gpt2"
ADAPTER_FILES = ["adapter_config.json", "adapter_model.safetensors"]


def read(path):
    """name -> (dtype, shape, values as floats) of F32, F16 and BF16 tensors."""
    raw = path.read_bytes()
    (size, ) = struct.unpack("<Q", raw[:8])
    found = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        data, dtype = raw[begin:end], entry["dtype"]
        if dtype == "BF16":
            wide = bytearray(2 * len(data))
            wide[2::4], wide[3::4] = data[0::2], data[1::2]
            data = bytes(wide)
        code = "e" if dtype == "F16" else "f"
        found[name] = (dtype, entry["shape"],
                       struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))
    return found


def write(path, tensors):
    """An fp32 file of name -> (dtype, shape, values)."""
    header, data = {}, b""
    for name, (_, shape, values) in tensors.items():
        header[name] = {
            "dtype": "F32", "shape": shape,
            "data_offsets": [len(data), len(data) + 4 * len(values)]
        }
        data += struct.pack(f"<{len(values)}f", *values)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def shell(*arguments):
    return subprocess.run([str(runs.COMMAND), *map(str, arguments)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=240)


def base_of(case):
    return (case / re.search(r"path: (\S+/model)",
                             (case / "run.yaml").read_text()).group(1)).resolve()


def changed(adapter, config=None, tensors=None, name="changed"):
    """A copy of the adapter with other keys in its configuration and its tensors passed through a function."""
    folder = runs.fresh(name)
    shutil.copytree(adapter, folder)
    for path in folder.iterdir():
        path.chmod(0o644)
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **(config or {})}))
    if tensors:
        write(folder / ADAPTER_FILES[1], tensors(read(folder / ADAPTER_FILES[1])))
    return folder
