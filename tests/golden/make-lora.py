"""make-lora.py: the cases lora-llama and lora-gpt2: adapters on every linear layer, against PyTorch in fp64.

Run here with torch, transformers, numpy and safetensors. The base models and tokens are those of the cases llama-schedule and gpt2; an
adapter is the formula y = W x + scale B A x written around the layer's output, nothing of PEFT. What is computed is in README.md.
"""
import json
import math
import os
import pathlib

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy
import torch
import transformers
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
STEPS, BATCH, LENGTH, RATE, DECAY, BETAS, EPSILON = 4, 12, 64, 0.004, 0.1, (0.9, 0.95), 1e-6
CASES = {
    "lora-llama": dict(
        base="llama-schedule", rank=3, alpha=5, rslora=False, seed=1,
        targets=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]),
    "lora-gpt2": dict(base="gpt2", rank=4, alpha=3, rslora=True, seed=2,
                      targets=["c_attn", "c_proj", "c_fc"]),
}


def adapt(model, case):
    """Hooks on the targets; name -> parameter."""
    generator = torch.Generator().manual_seed(case["seed"])
    scale = case["alpha"] / (math.sqrt(case["rank"]) if case["rslora"] else case["rank"])
    parameters = {}
    for name, module in model.named_modules():
        if name.split(".")[-1] not in case["targets"]:
            continue
        out_in = module.weight.shape if isinstance(module,
                                                   torch.nn.Linear) else module.weight.shape[::-1]
        a, b = (0.1 * torch.randn(shape, generator=generator)
                for shape in ((case["rank"], out_in[1]), (out_in[0], case["rank"])))
        a, b = (torch.nn.Parameter(x.double()) for x in (a, b))  # values that fp32 holds
        parameters[f"base_model.model.{name}.lora_A.weight"] = a
        parameters[f"base_model.model.{name}.lora_B.weight"] = b
        module.register_forward_hook(lambda _, inputs, y, a=a, b=b: y + scale *
                                     (inputs[0] @ a.T @ b.T))
    return parameters


def summary(tensors):
    return {name: {"norm": float(x.norm()), "sum": float(x.sum())} for name, x in tensors.items()}


def make(name, case):
    folder, base = HERE / name, HERE / case["base"]
    model = transformers.AutoModelForCausalLM.from_pretrained(base / "model", dtype=torch.float64,
                                                              attn_implementation="eager").eval()
    for p in model.parameters():
        p.requires_grad_(False)
    parameters = adapt(model, case)
    (folder / "adapter").mkdir(parents=True, exist_ok=True)
    save_file({k: p.detach().float().contiguous()
               for k, p in parameters.items()}, folder / "adapter" / "adapter_model.safetensors")
    config = {
        "base_model_name_or_path": f"../{case['base']}/model", "bias": "none",
        "fan_in_fan_out": "gpt2" in case["base"], "lora_alpha": case["alpha"], "lora_dropout": 0.0,
        "peft_type": "LORA", "r": case["rank"], "task_type": "CAUSAL_LM",
        "target_modules": case["targets"], "use_rslora": case["rslora"]
    }
    (folder / "adapter" / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")
    tokens = torch.from_numpy(numpy.load(base / "tokens.npy").astype(numpy.int64))
    moments = {k: (torch.zeros_like(p), torch.zeros_like(p)) for k, p in parameters.items()}
    steps = []
    for step in range(STEPS):
        rows = [tokens[(step * BATCH + r) * LENGTH:][:LENGTH + 1] for r in range(BATCH)]
        batch = torch.stack(rows)
        logits = model(batch[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        gradients = dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values()))))
        norm = math.sqrt(sum(float((g * g).sum()) for g in gradients.values()))
        factor = min(1.0, 1.0 / (norm + 1e-6))
        if step == 0:
            first = summary(gradients)
        with torch.no_grad():
            for key, p in parameters.items():
                g, (m, v) = gradients[key] * factor, moments[key]
                p.mul_(1 - RATE * DECAY)
                m.mul_(BETAS[0]).add_((1 - BETAS[0]) * g)
                v.mul_(BETAS[1]).add_((1 - BETAS[1]) * g * g)
                t = step + 1
                p.sub_(RATE / (1 - BETAS[0]**t) * m /
                       (v.sqrt() / math.sqrt(1 - BETAS[1]**t) + EPSILON))
        steps.append({
            "step": step, "loss": float(loss), "grad_norm": norm,
            "grad_norm_clipped": norm * factor, "learning_rate": RATE, "tokens": BATCH * LENGTH,
            "supervised_tokens": BATCH * LENGTH
        })
    expect = {
        "case": name, "about": f"LoRA on every linear layer of {case['base']}",
        "made_with": {"torch": torch.__version__,
                      "transformers": transformers.__version__}, "compare": {
                          "with": "fp64", "loss": 1e-4, "grad_norm": 1e-4, "learning_rate": 1e-4,
                          "parameters": 1e-3
                      }, "zero_gradients": [], "fp64": {
                          "steps": steps, "gradients": first,
                          "parameters": summary({k: p.detach()
                                                 for k, p in parameters.items()})
                      }
    }
    (folder / "expect.json").write_text(json.dumps(expect, indent=1) + "\n")
    (folder / "run.yaml").write_text(f"""# {expect['about']}: see make-lora.py.
model:
  path: ../{case['base']}/model
  train: lora
  lora: {{rank: {case['rank']}, alpha: {case['alpha']}, rslora: {str(case['rslora']).lower()}, targets: [{', '.join(case['targets'])}], adapter: adapter}}
data:
  train: [../{case['base']}/tokens.npy]
  shuffle: false
  sequence_length: {LENGTH}
  packing: false
train: {{steps: {STEPS}, batch_size: {BATCH}, micro_batch_size: 1}}
optimizer: {{name: adamw, learning_rate: {RATE}, betas: [{BETAS[0]}, {BETAS[1]}], epsilon: {EPSILON}, weight_decay: {DECAY}, clip_norm: 1.0, schedule: constant}}
shard: {{ranks: 1, param_dtype: fp32}}
checkpoint: {{path: run}}
log: {{every: 1}}
""")
    print(name, [s["loss"] for s in steps], [s["grad_norm"] for s in steps])


for name, case in CASES.items():
    make(name, case)
