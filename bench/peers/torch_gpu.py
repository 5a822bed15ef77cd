#!/usr/bin/env python3
"""A PyTorch worker on the GPU for interleaved timing: stays alive, does one command per line.

Prints one JSON line when it is ready (versions, GPU), then answers each line with one:
    load MODEL CONTEXT BATCH MODE   -> {"setup_s", "parameters"}; what was loaded before goes first
    time PASS COUNT                 -> {"ms": [...], "peak_bytes"} of forward, forward+backward, step
    floor MODEL CONTEXT BATCH       -> {"step_ms", ...}: see floor() below
    copy                            -> {"tb_s"}: bandwidth of a large copy, read plus written
    unload, quit
A failure answers {"error": ...} and leaves nothing loaded; out of memory says "OOM".

Modes: eager-fp32, eager-tf32, eager-bf16 (attention materialised, AdamW as it comes), compile-bf16
(compiled block by block, autocast, fused attention, fused AdamW), graph-bf16 (the same, and the
whole pass captured into one CUDA graph by hand: the best that PyTorch gives).
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import time
import warnings

import torch
import torch.nn.functional as F

from torch_lm import LM, PRESETS

VOCAB = 10000
MODES = ("eager-fp32", "eager-tf32", "eager-bf16", "compile-bf16", "graph-bf16")
LOW = torch.bfloat16


def answer(**fields) -> None:
    print(json.dumps(fields), flush=True)


class Cell:
    """One model, ready to run its passes in one mode."""

    def __init__(self, name: str, context: int, batch: int, mode: str) -> None:
        if mode not in MODES:
            raise ValueError(f"there is no mode '{mode}'; there are {', '.join(MODES)}")
        begin = time.perf_counter()
        torch.manual_seed(0)
        torch.cuda.reset_peak_memory_stats()
        torch.backends.cuda.matmul.allow_tf32 = mode == "eager-tf32"
        self.is_graph = mode.startswith("graph")
        is_fast = self.is_graph or mode.startswith("compile")
        with torch.device("cuda"):
            self.model = LM(*PRESETS[name], context=context, vocab=VOCAB,
                            attention="sdpa" if is_fast else "naive")
            self.ids, self.targets = (torch.randint(VOCAB, (batch, context)) for _ in range(2))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=is_fast,
                                           capturable=self.is_graph)
        self.cast = ((lambda: torch.autocast("cuda", LOW)) if mode.endswith("bf16")
                     else contextlib.nullcontext)
        self.head = self.loss_of
        if is_fast:  # block by block: the same kernels, a fraction of the time to compile
            for block in self.model.blocks:
                block.compile(dynamic=False)
            self.head = torch.compile(self.loss_of, dynamic=False)
        self.captured: dict[str, torch.cuda.CUDAGraph] = {}
        self.parameters = sum(p.numel() for p in self.model.parameters())
        self.run("step")  # compiles all of it
        torch.cuda.synchronize()
        self.setup_s = time.perf_counter() - begin

    def loss_of(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.model.head(self.model.norm(x)).view(-1, VOCAB)
        return F.cross_entropy(logits.float(), self.targets.view(-1))

    def loss(self) -> torch.Tensor:
        model = self.model
        with self.cast():
            x = model.embedding(self.ids)
            for block in model.blocks:
                x = block(x, model.cos, model.sin, model.mask)
            return self.head(x)

    def forward(self) -> None:
        with torch.no_grad():
            self.loss()

    def backward(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.loss().backward()

    def step(self) -> None:
        self.backward()
        self.optimizer.step()

    def capture(self, run) -> torch.cuda.CUDAGraph:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        return graph

    def run(self, name: str) -> None:
        run = {"forward": self.forward, "forward+backward": self.backward, "step": self.step}[name]
        if not self.is_graph:
            run()
            return
        if name not in self.captured:
            self.captured[name] = self.capture(run)
        self.captured[name].replay()

    def time(self, name: str, count: int) -> list[float]:
        for _ in range(3):
            self.run(name)
        torch.cuda.synchronize()
        samples = []
        for _ in range(count):
            begin = time.perf_counter()
            self.run(name)
            torch.cuda.synchronize()
            samples.append((time.perf_counter() - begin) * 1e3)
        return samples


# ---- the floor ----

def graph_ms(run, least_ms: float = 15) -> float:
    """Median time of one of many replays."""
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    samples: list[float] = []
    while len(samples) < 5 or sum(samples) < least_ms and len(samples) < 200:
        events[0].record()
        graph.replay()
        events[1].record()
        events[1].synchronize()
        samples.append(events[0].elapsed_time(events[1]))
    return sorted(samples)[len(samples) // 2]


_copy: list[float] = []


def copy_tb_s() -> float:
    if not _copy:
        a = torch.empty(2**29, device="cuda", dtype=torch.float32)
        b = torch.empty_like(a)
        _copy.append(2 * a.numel() * 4 / graph_ms(lambda: torch.neg(a, out=b), 60) / 1e9)
        del a, b
        torch.cuda.empty_cache()
    return _copy[0]


def product_ms(m: int, n: int, k: int) -> tuple[float, float]:
    """A linear layer of m tokens, k in, n out: forward, and both products of its backward."""
    x, w, y = (torch.randn(s, device="cuda", dtype=LOW) for s in ((m, k), (n, k), (m, n)))
    outputs = [torch.empty_like(t) for t in (y, x, w)]
    runs = (lambda: torch.mm(x, w.t(), out=outputs[0]), lambda: torch.mm(y, w, out=outputs[1]),
            lambda: torch.mm(y.t(), x, out=outputs[2]))
    times = [graph_ms(run) for run in runs]
    return times[0], times[1] + times[2]


def floor(name: str, context: int, batch: int) -> dict[str, float]:
    """What a step in bf16 cannot go below when its parts run one after the other: products at
    cuBLAS's rate for each shape, attention at the fused kernel's (backward 2.5 times the forward),
    all else at the bytes that no fusion avoids over the bandwidth of a copy."""
    d, ff, layers, heads = PRESETS[name]
    tokens = batch * context
    forward = backward = 0.0
    for (n, k), count in (((3 * d, d), layers), ((d, d), layers), ((2 * ff, d), layers),
                          ((d, ff), layers), ((VOCAB, d), 1)):
        there, back = product_ms(tokens, n, k)
        forward += there * count
        backward += back * count
    q, k, v = (torch.randn(batch, heads, context, d // heads, device="cuda", dtype=LOW)
               for _ in range(3))
    with torch.no_grad():
        attention = layers * graph_ms(
            lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    # Per layer: two norms read and written, RoPE in place, SwiGLU (reads 2 ff, writes ff); the
    # backward about twice that. AdamW: weight, two moments read and written, gradient in bf16
    # read, copy in bf16 written.
    moved = layers * tokens * (2 * 2 * d * 2 + 2 * d * 2 * 2 + 3 * ff * 2)
    parameters = 2 * VOCAB * d + layers * (4 * d * d + 3 * d * ff + 2 * d) + d
    rate = copy_tb_s() * 1e9
    parts = {"products_ms": forward + backward, "attention_ms": 3.5 * attention,
             "elementwise_ms": 3 * moved / rate, "optimizer_ms": parameters * 28 / rate}
    return {"step_ms": sum(parts.values()), **parts}


# ---- commands ----

def main() -> int:
    warnings.simplefilter("ignore")
    if not torch.cuda.is_available():
        answer(error="PyTorch sees no GPU")
        return 1
    answer(torch=torch.__version__, cuda=torch.version.cuda, python=sys.version.split()[0],
           cudnn=torch.backends.cudnn.version(), gpu=torch.cuda.get_device_name())
    cell = None

    def unload() -> None:
        nonlocal cell
        cell = None
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()

    for line in sys.stdin:
        words = line.split()
        try:
            match words:
                case ["load", name, context, batch, mode]:
                    unload()
                    cell = Cell(name, int(context), int(batch), mode)
                    answer(setup_s=cell.setup_s, parameters=cell.parameters)
                case ["time", name, count]:
                    ms = cell.time(name, int(count))
                    answer(ms=ms, peak_bytes=torch.cuda.max_memory_allocated())
                case ["floor", name, context, batch]:
                    answer(**floor(name, int(context), int(batch)))
                case ["copy"]:
                    answer(tb_s=copy_tb_s())
                case ["unload"]:
                    unload()
                    answer()
                case ["quit"]:
                    break
                case _:
                    answer(error=f"unknown command '{line.strip()}'")
        except torch.cuda.OutOfMemoryError:
            unload()
            answer(error="OOM")
        except Exception as error:  # of any kind: the other side decides what it means
            unload()
            answer(error=f"{type(error).__name__}: {str(error)[:300]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
