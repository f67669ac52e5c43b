"""Train a Hugging Face model a few steps with PyTorch, for bench/versus-pytorch to compare with.

    torchrun --nproc-per-node N peer_step.py --how fsdp2 --model DIR --tokens FILE.npy ...
    python peer_step.py --how single --threads N ...

--how  fsdp2   every block and the root sharded with fully_shard, resharded after forward (ZeRO stage 3); gloo between the ranks
       ddp     DistributedDataParallel over gloo, gradients as views of its buckets
       single  one process with all rows of the step; --compile: by torch.compile
bf16   fsdp2: parameters are gathered and computed in bf16, with fp32 masters, gradients reduced in fp32; others: autocast to bf16

Rank 0 prints a line "step N SECONDS" after each step, and one JSON object on the last line: loss and seconds of every step, begin (time of
day at which step 1 began), versions.
"""
import argparse
import contextlib
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


def shard(model, dtype, n_ranks):
    keep = {"mesh": init_device_mesh("cpu", (n_ranks, )), "reshard_after_forward": True}
    if dtype == "bf16":
        keep["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16,
                                                 reduce_dtype=torch.float32)
    inner = getattr(model, "model", None) or model.transformer
    for block in inner.layers if hasattr(inner, "layers") else inner.h:
        fully_shard(block, **keep)
    fully_shard(model, **keep)
    return model


def prepare(options, n_ranks):
    model = transformers.AutoModelForCausalLM.from_pretrained(options.model,
                                                              attn_implementation="sdpa",
                                                              dtype=torch.float32)
    model.config.use_cache = False
    if options.recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    for module in model.modules(
    ):  # the configuration of a new model may ask for dropout, which would be other work and another loss
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    if options.how == "fsdp2":
        model = shard(model, options.dtype, n_ranks)
    elif options.how == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    return torch.compile(model) if options.compile else model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--how", choices=["fsdp2", "ddp", "single"], required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokens", required=True)
    parser.add_argument("--dtype", choices=["fp32", "bf16"], required=True)
    for name in ("rows", "sequence", "steps", "threads"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rank, n_ranks = 0, 1
    if options.how != "single":
        dist.init_process_group("gloo")
        rank, n_ranks = dist.get_rank(), dist.get_world_size()
    model = prepare(options, n_ranks)
    optimizer = torch.optim.AdamW(parameters_of(model, 0.1), lr=options.learning_rate,
                                  betas=(0.9, 0.95), eps=1e-8, fused=True)
    narrow = options.dtype == "bf16" and options.how != "fsdp2"

    stream = np.load(options.tokens, mmap_mode="r")
    length, losses, seconds, begin = options.sequence, [], [], None
    for step in range(options.steps):
        started = time.perf_counter()
        begin = begin or time.time()
        first = (step * n_ranks + rank) * options.rows
        ids = np.stack([
            stream[row * length:(row + 1) * length + 1].astype(np.int64)
            for row in range(first, first + options.rows)
        ])
        inputs, targets = torch.from_numpy(ids[:, :-1].copy()), torch.from_numpy(ids[:, 1:].copy())
        with torch.autocast("cpu", torch.bfloat16) if narrow else contextlib.nullcontext():
            logits = model(input_ids=inputs, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.float().view(-1, logits.shape[-1]),
                                                 targets.reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        total = loss.detach().clone()
        del logits, loss
        if n_ranks > 1:
            dist.all_reduce(total)
        losses.append(total.item() / n_ranks)
        seconds.append(time.perf_counter() - started)
        if rank == 0:
            print(f"step {step + 1} {seconds[-1]:.4f}", flush=True)
    if rank == 0:
        versions = {
            "torch": torch.__version__, "transformers": transformers.__version__,
            "cpu": torch.backends.cpu.get_cpu_capability()
        }
        print(
            json.dumps({"loss": losses, "seconds": seconds, "begin": begin, "versions": versions}),
            flush=True)
    if n_ranks > 1:
        dist.destroy_process_group()


main()
