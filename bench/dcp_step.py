"""Save and load the state of FSDP2 training with PyTorch's distributed checkpoints, for bench/checkpoint to compare with.

    torchrun --nproc-per-node N dcp_step.py --model DIR --folder FOLDER --rounds N

The same state as ours: fp32 parameters and both moments of AdamW after one step, sharded over the ranks (fully_shard on every block and the
root, gloo). Rank 0 prints one JSON object: the seconds of every save, synced to the disk, and of every load, from the disk and not from
the page cache; bytes written; versions.
"""
import argparse
import json
import pathlib
import shutil
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import transformers
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import measure


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    model = transformers.AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32)
    mesh = init_device_mesh("cpu", (dist.get_world_size(), ))
    for block in model.model.layers:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    model(input_ids=torch.ones((1, 8), dtype=torch.long), labels=torch.ones(
        (1, 8), dtype=torch.long)).loss.backward()
    optimizer.step()
    optimizer.zero_grad()

    saves, loads, written = [], [], 0
    for _ in range(options.rounds):
        if rank == 0:
            shutil.rmtree(options.folder, ignore_errors=True)
        dist.barrier()
        begin = time.perf_counter()
        parameters, moments = get_state_dict(model, optimizer)
        dcp.save({"model": parameters, "optimizer": moments},
                 storage_writer=dcp.FileSystemWriter(options.folder, sync_files=True))
        dist.barrier()
        saves.append(time.perf_counter() - begin)
        if rank == 0:
            measure.leave_page_cache(options.folder)
        dist.barrier()
        written = sum(file.stat().st_size for file in options.folder.rglob("*") if file.is_file())
        begin = time.perf_counter()
        parameters, moments = get_state_dict(model, optimizer)
        state = {"model": parameters, "optimizer": moments}
        dcp.load(state, checkpoint_id=options.folder)
        set_state_dict(model, optimizer, model_state_dict=state["model"],
                       optim_state_dict=state["optimizer"])
        dist.barrier()
        loads.append(time.perf_counter() - begin)
    if rank == 0:
        print(
            json.dumps({
                "save_seconds": saves, "load_seconds": loads, "bytes": written,
                "versions": {"torch": torch.__version__, "transformers": transformers.__version__}
            }))
    dist.destroy_process_group()


main()
