"""Train a Hugging Face model a few steps with PyTorch's FSDP2, for bench/versus-pytorch to compare with.

    torchrun --nproc-per-node N fsdp2_step.py --model DIR --tokens FILE.npy ...

Every block and the root are sharded with fully_shard, resharded after forward (ZeRO stage 3); gloo between the ranks. Rank 0 prints one
JSON object on the last line: loss and seconds of every step, begin (time of day at which step 1 began), versions.
"""
import argparse
import json
import time

import numpy as np
import torch
import torch.distributed as dist
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def parameters_of(model, weight_decay):
    return [
        {"params": [p for p in model.parameters() if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokens", required=True)
    parser.add_argument("--dtype", choices=["fp32", "bf16"], required=True)
    for name in ("micro-batch", "sequence", "steps", "threads"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--learning-rate", type=float, required=True)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    dist.init_process_group("gloo")
    rank, n_ranks = dist.get_rank(), dist.get_world_size()

    model = transformers.AutoModelForCausalLM.from_pretrained(options.model, attn_implementation="sdpa", dtype=torch.float32)
    model.config.use_cache = False
    model.train()
    keep = {"mesh": init_device_mesh("cpu", (n_ranks,)), "reshard_after_forward": True}
    if options.dtype == "bf16":
        keep["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    inner = getattr(model, "model", None) or model.transformer
    for block in inner.layers if hasattr(inner, "layers") else inner.h:
        fully_shard(block, **keep)
    fully_shard(model, **keep)
    optimizer = torch.optim.AdamW(parameters_of(model, 0.1), lr=options.learning_rate, betas=(0.9, 0.95), eps=1e-8, fused=True)

    stream = np.load(options.tokens, mmap_mode="r")
    length, rows = options.sequence, options.micro_batch * n_ranks
    losses, seconds, begin = [], [], None
    for step in range(options.steps):
        started = time.perf_counter()
        begin = begin or time.time()
        first = step * rows + rank * options.micro_batch
        ids = np.stack([stream[row * length : (row + 1) * length + 1].astype(np.int64) for row in range(first, first + options.micro_batch)])
        inputs, targets = torch.from_numpy(ids[:, :-1].copy()), torch.from_numpy(ids[:, 1:].copy())
        logits = model(input_ids=inputs, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        total = loss.detach().clone()
        del logits, loss
        dist.all_reduce(total)
        losses.append(total.item() / n_ranks)
        seconds.append(time.perf_counter() - started)
    if rank == 0:
        versions = {"torch": torch.__version__, "transformers": transformers.__version__, "cpu": torch.backends.cpu.get_cpu_capability()}
        print(json.dumps({"loss": losses, "seconds": seconds, "begin": begin, "versions": versions}), flush=True)
    dist.destroy_process_group()


main()
