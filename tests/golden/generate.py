#!/usr/bin/env python3
"""Makes the golden vectors that check `dyno step`, or compares them with what is committed.

    generate.py            writes tests/golden/<case>/ for every case
    generate.py --check    regenerates in memory and compares; exit code 1 on a difference

Two facts to know before trusting a number in here:

1. The source of truth is the plain float64 model in this file (`logits_of`), not transformers.
   LlamaForCausalLM loaded as float64 still computes RMSNorm, the RoPE angles and the attention
   softmax in float32, so its results carry float32 errors.
2. The plain model is held against LlamaForCausalLM (eager attention), which loads the very
   directory that is written: once as float64 (with those inner casts), once as float32. Logits,
   losses, gradients and the weights after the last step must agree within CROSS_CHECK_LIMIT in
   both.

Seeds are chosen, and `noise_response` holds them to it: AdamW divides a gradient by its own size,
so one element that happens to lie near zero turns rounding into a whole step of lr, and with a
careless seed no float32 engine meets the limits of check.py. Here noise of NOISE (relative to the
root mean square of each gradient, about twice the error of float32) moves no weight tensor by more
than NOISE_LIMIT. Nothing but this condition went into the choice.

A case directory holds
    config.json, model.safetensors (or shards and their index)   a Hugging Face directory
    tokens.bin            raw little-endian uint16, steps * batch * context + 1 tokens; step k
                          reads inputs [k*B*T, (k+1)*B*T) and, as targets, the same one further
    case.json             batch, context, steps and the settings of AdamW; clip 0 means none
    expected.safetensors  float64: `logits` [B,T,V] and `g.<name>` (before clipping) of the first
                          step, `loss.<k>` [] of each step, `w.<name>` after the last step

Weights come from a frozen random stream (numpy.random.RandomState) and are exact in their stored
type. Decay acts on every parameter, norms and embedding included.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save

HERE = Path(__file__).resolve().parent
CROSS_CHECK_LIMIT = 1e-5  # against transformers
NOISE, NOISE_LIMIT = 1e-6, 1e-6
CHECK_LIMIT = 1e-11  # against the committed vectors: other CPUs add in another order

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Case:
    name: str
    seed: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    vocab: int
    batch: int
    context: int
    kv_heads: int = 0  # 0: as many as heads
    head_dim: int = 0  # 0: hidden / heads, and config.json does not say it
    clip: float = 0.0
    shards: int = 1
    dtype: torch.dtype = torch.float32  # of the stored weights
    nested_rope: bool = False  # config.json in the form that transformers 5 writes
    steps: int = 5
    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    weight_decay: float = 0.1
    norm_eps: float = 1e-5
    theta: float = 10000.0

    @property
    def key_heads(self) -> int:
        return self.kv_heads or self.heads

    @property
    def head_size(self) -> int:
        return self.head_dim or self.hidden // self.heads


CASES = [
    Case("tiny", 1, hidden=64, intermediate=160, layers=2, heads=4, vocab=97, batch=2, context=16),
    Case("grouped", 44, hidden=48, intermediate=96, layers=2, heads=6, kv_heads=2, vocab=131,
         batch=3, context=11),
    Case("one-token", 9, hidden=32, intermediate=64, layers=2, heads=2, vocab=50, batch=1,
         context=1),
    Case("clipped", 52, hidden=40, intermediate=72, layers=2, heads=4, kv_heads=1, head_dim=16,
         vocab=61, batch=2, context=13, clip=0.5),
    Case("sharded", 29, hidden=32, intermediate=64, layers=2, heads=4, vocab=64, batch=2,
         context=12, shards=3, dtype=torch.bfloat16, nested_rope=True),
    Case("long", 24, hidden=32, intermediate=64, layers=1, heads=2, vocab=64, batch=2, context=70),
]


def config_of(case: Case) -> dict:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "hidden_act": "silu",
        "hidden_size": case.hidden,
        "intermediate_size": case.intermediate,
        "max_position_embeddings": 128,
        "mlp_bias": False,
        "num_attention_heads": case.heads,
        "num_hidden_layers": case.layers,
        "num_key_value_heads": case.key_heads,
        "rms_norm_eps": case.norm_eps,
        "tie_word_embeddings": False,
        "vocab_size": case.vocab,
    }
    if case.head_dim:
        config["head_dim"] = case.head_dim
    dtype_name = str(case.dtype).removeprefix("torch.")
    if case.nested_rope:
        config["dtype"] = dtype_name
        config["rope_parameters"] = {"rope_theta": case.theta, "rope_type": "default"}
    else:
        config["torch_dtype"] = dtype_name
        config["rope_theta"] = case.theta
    return config


def settings_of(case: Case) -> dict:
    names = ("batch", "context", "steps", "lr", "beta1", "beta2", "eps", "weight_decay", "clip")
    return {name: getattr(case, name) for name in names}


def draw_weights(case: Case) -> Tensors:
    """Matrices of gain one and norms away from 1, so that every gradient is of a sane size."""
    stream = np.random.RandomState(case.seed)
    query, key = case.heads * case.head_size, case.key_heads * case.head_size
    weights: Tensors = {}

    def draw(name: str, *shape: int, mean: float = 0.0, scale: float = 0.0) -> None:
        scale = scale or 1.0 / math.sqrt(shape[-1])
        values = mean + scale * stream.standard_normal(shape)
        weights[name] = torch.from_numpy(values).to(case.dtype)

    draw("model.embed_tokens.weight", case.vocab, case.hidden, scale=1.0)
    for i in range(case.layers):
        layer = f"model.layers.{i}."
        draw(layer + "input_layernorm.weight", case.hidden, mean=1.0, scale=0.2)
        draw(layer + "self_attn.q_proj.weight", query, case.hidden)
        draw(layer + "self_attn.k_proj.weight", key, case.hidden)
        draw(layer + "self_attn.v_proj.weight", key, case.hidden)
        draw(layer + "self_attn.o_proj.weight", case.hidden, query)
        draw(layer + "post_attention_layernorm.weight", case.hidden, mean=1.0, scale=0.2)
        draw(layer + "mlp.gate_proj.weight", case.intermediate, case.hidden)
        draw(layer + "mlp.up_proj.weight", case.intermediate, case.hidden)
        draw(layer + "mlp.down_proj.weight", case.hidden, case.intermediate)
    draw("model.norm.weight", case.hidden, mean=1.0, scale=0.2)
    draw("lm_head.weight", case.vocab, case.hidden)
    return weights


def draw_tokens(case: Case) -> np.ndarray:
    stream = np.random.RandomState(1000 + case.seed)
    count = case.steps * case.batch * case.context + 1
    return stream.randint(0, case.vocab, count).astype("<u2")


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def rotate(x: torch.Tensor, theta: float) -> torch.Tensor:
    """RoPE over [B, heads, T, head_dim]: element i pairs with element i + head_dim/2."""
    length, size = x.shape[-2:]
    frequency = theta ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    cos, sin = angle.cos(), angle.sin()
    a, b = x[..., : size // 2], x[..., size // 2 :]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def logits_of(case: Case, w: Tensors, ids: torch.Tensor) -> torch.Tensor:
    batch, length = ids.shape
    future = torch.ones(length, length, dtype=torch.bool).triu(1)

    def heads_of(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return (x @ weight.T).view(batch, length, -1, case.head_size).transpose(1, 2)

    x = w["model.embed_tokens.weight"][ids]
    for i in range(case.layers):
        layer = f"model.layers.{i}."
        h = rms_norm(x, w[layer + "input_layernorm.weight"], case.norm_eps)
        q = rotate(heads_of(h, w[layer + "self_attn.q_proj.weight"]), case.theta)
        k = rotate(heads_of(h, w[layer + "self_attn.k_proj.weight"]), case.theta)
        v = heads_of(h, w[layer + "self_attn.v_proj.weight"])
        group = case.heads // case.key_heads
        k, v = (t.repeat_interleave(group, dim=1) for t in (k, v))
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(case.head_size)
        mixed = scores.masked_fill(future, -math.inf).softmax(-1) @ v
        mixed = mixed.transpose(1, 2).reshape(batch, length, -1)
        x = x + mixed @ w[layer + "self_attn.o_proj.weight"].T
        h = rms_norm(x, w[layer + "post_attention_layernorm.weight"], case.norm_eps)
        gate = F.silu(h @ w[layer + "mlp.gate_proj.weight"].T)
        up = h @ w[layer + "mlp.up_proj.weight"].T
        x = x + (gate * up) @ w[layer + "mlp.down_proj.weight"].T
    logits = rms_norm(x, w["model.norm.weight"], case.norm_eps) @ w["lm_head.weight"].T
    assert logits.dtype == torch.float64
    return logits


def train(case: Case, parameters: Tensors, forward, tokens: np.ndarray) -> Tensors:
    """Runs all steps on `parameters` in place; answers what expected.safetensors holds."""
    results: Tensors = {}
    optimizer = torch.optim.AdamW(
        parameters.values(), lr=case.lr, betas=(case.beta1, case.beta2), eps=case.eps,
        weight_decay=case.weight_decay)
    stream = torch.from_numpy(tokens.astype(np.int64))
    count = case.batch * case.context
    for k in range(case.steps):
        ids = stream[k * count : (k + 1) * count].view(case.batch, case.context)
        targets = stream[k * count + 1 : (k + 1) * count + 1]
        optimizer.zero_grad(set_to_none=True)
        logits = forward(ids)
        loss = F.cross_entropy(logits.reshape(count, case.vocab), targets)
        loss.backward()
        results[f"loss.{k}"] = loss
        if k == 0:
            results["logits"] = logits
            results.update({f"g.{name}": p.grad for name, p in parameters.items()})
        results = {name: t.detach().to(torch.float64).clone() for name, t in results.items()}
        if case.clip > 0:
            norm = torch.nn.utils.clip_grad_norm_(parameters.values(), case.clip)
            assert norm > case.clip, f"{case.name}: clipping at {case.clip} has no effect"
        optimizer.step()
    results.update({f"w.{name}": p.detach().double().clone() for name, p in parameters.items()})
    return results


def expected_of(case: Case, weights: Tensors, tokens: np.ndarray) -> Tensors:
    parameters = {name: t.double().requires_grad_() for name, t in weights.items()}
    return train(case, parameters, lambda ids: logits_of(case, parameters, ids), tokens)


def noise_response(case: Case, weights: Tensors, tokens: np.ndarray, expected: Tensors) -> float:
    """How far noise in the gradients, as float32 makes it, moves the last weights."""
    source = torch.Generator().manual_seed(0)

    def disturb(gradient: torch.Tensor) -> torch.Tensor:
        noise = torch.randn(gradient.shape, generator=source, dtype=torch.float64)
        noise *= NOISE * gradient.square().mean().sqrt()
        return gradient + noise * (gradient != 0)  # what is zero by structure stays so

    worst = 0.0
    for _ in range(3):
        parameters = {name: t.double().requires_grad_() for name, t in weights.items()}
        for parameter in parameters.values():
            parameter.register_hook(disturb)
        noisy = train(case, parameters, lambda ids: logits_of(case, parameters, ids), tokens)
        worst = max(worst, worst_errors(noisy, expected)["w"])
    return worst


def transformers_results(
    case: Case, folder: Path, tokens: np.ndarray, dtype: torch.dtype
) -> Tensors:
    model = transformers.LlamaForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager")
    parameters = dict(model.named_parameters())
    return train(case, parameters, lambda ids: model(ids, use_cache=False).logits, tokens)


def relative_error(ours: torch.Tensor, reference: torch.Tensor) -> float:
    """||ours - reference|| / ||reference||; the plain norm where the reference is zero."""
    scale = reference.norm().item()
    return (ours - reference).norm().item() / (scale or 1.0)


def worst_errors(ours: Tensors, reference: Tensors) -> dict[str, float]:
    """The largest relative error of each kind: logits, loss, g, w."""
    if ours.keys() != reference.keys():
        raise SystemExit(f"tensors differ in name: {sorted(ours.keys() ^ reference.keys())}")
    worst: dict[str, float] = {}
    for name, tensor in reference.items():
        kind = name.partition(".")[0]
        worst[kind] = max(worst.get(kind, 0.0), relative_error(ours[name], tensor))
    return worst


def write_model(case: Case, folder: Path, weights: Tensors) -> None:
    if case.shards == 1:
        write_tensors(folder / "model.safetensors", weights)
        return
    sizes = {name: t.numel() * t.element_size() for name, t in weights.items()}
    total = sum(sizes.values())
    shards: list[Tensors] = [{} for _ in range(case.shards)]
    weight_map, before = {}, 0
    for name, tensor in weights.items():
        shard = before * case.shards // total
        shards[shard][name] = tensor
        weight_map[name] = f"model-{shard + 1:05}-of-{case.shards:05}.safetensors"
        before += sizes[name]
    for number, shard in enumerate(shards, 1):
        write_tensors(folder / f"model-{number:05}-of-{case.shards:05}.safetensors", shard)
    write_json(folder / "model.safetensors.index.json",
               {"metadata": {"total_size": total}, "weight_map": weight_map})


def write_tensors(path: Path, tensors: Tensors) -> None:
    path.write_bytes(save(tensors, metadata={"format": "pt"}))


def write_json(path: Path, value: dict) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")


def write_case(case: Case, folder: Path) -> Tensors:
    """Writes a whole case after checking it against transformers; answers the expected tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    weights, tokens = draw_weights(case), draw_tokens(case)
    write_json(folder / "config.json", config_of(case))
    write_json(folder / "case.json", settings_of(case))
    write_model(case, folder, weights)
    (folder / "tokens.bin").write_bytes(tokens.tobytes())
    expected = expected_of(case, weights, tokens)
    for dtype in (torch.float64, torch.float32):
        errors = worst_errors(transformers_results(case, folder, tokens, dtype), expected)
        listing = "  ".join(f"{kind} {error:.1e}" for kind, error in errors.items())
        print(f"{case.name:10} against transformers in {str(dtype)[6:]}: {listing}")
        if max(errors.values()) >= CROSS_CHECK_LIMIT:
            raise SystemExit(f"{case.name}: the limit is {CROSS_CHECK_LIMIT}")
    response = noise_response(case, weights, tokens, expected)
    print(f"{case.name:10} gradient noise of {NOISE} moves the weights by {response:.1e}")
    if response > NOISE_LIMIT:
        raise SystemExit(f"{case.name}: the limit is {NOISE_LIMIT}; choose another seed")
    write_tensors(folder / "expected.safetensors", expected)
    return expected


def check_case(case: Case, committed: Path) -> bool:
    """True if a fresh copy of the case equals the committed one."""
    with tempfile.TemporaryDirectory() as name:
        fresh = Path(name)
        expected = write_case(case, fresh)
        good = True
        files = {path.name for folder in (fresh, committed) for path in folder.iterdir()}
        for file in sorted(files - {"expected.safetensors"}):
            pair = [folder / file for folder in (fresh, committed)]
            contents = [path.read_bytes() if path.exists() else None for path in pair]
            if contents[0] != contents[1]:
                print(f"{case.name}: {file} differs")
                good = False
    errors = worst_errors(load_file(committed / "expected.safetensors"), expected)
    if max(errors.values()) > CHECK_LIMIT:
        print(f"{case.name}: expected.safetensors differs: {errors}")
        good = False
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description="golden vectors for `dyno step`")
    parser.add_argument("--check", action="store_true",
                        help="compare with the committed vectors and write nothing")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if not arguments.check:
        for case in CASES:
            write_case(case, HERE / case.name)
        return 0
    good = [check_case(case, HERE / case.name) for case in CASES]
    print("all cases equal the committed ones" if all(good) else "some cases differ")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
