#!/usr/bin/env python3
"""A PyTorch worker for attention alone on a GPU, for interleaved timing: one command per line.

Prints one JSON line when it is ready (versions, GPU), then answers each line with one:
    load BATCH HEADS SEQ HEAD_SIZE causal|full PRECISION   -> {}; what was loaded before goes
    time PEER PASS COUNT   -> {"ms": [...], "captured": bool}; PASS: forward, backward, both
    unload, quit
A failure answers {"error": ...} and leaves the worker usable; out of memory says "OOM".

Peers: flash2, cudnn and efficient are the kernels behind scaled_dot_product_attention, naive is
eager PyTorch with the scores in memory, compile the same through torch.compile.

A pass is captured into a CUDA graph and each replay is timed by events on the GPU, behind a short
wait that keeps the GPU busy until the replay is enqueued: kernels are timed, not launches. What
cannot be captured is called instead, timed the same way. The backward starts from a given dO, as
dyno's does; nothing else is in it.
"""

from __future__ import annotations

import gc
import json
import math
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32,
         "tf32": torch.float32}
WAIT_CYCLES = 200_000  # about a tenth of a millisecond


def answer(**fields) -> None:
    print(json.dumps(fields), flush=True)


def fused(backend):
    def run(q, k, v, is_causal):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    return run


def naive(q, k, v, is_causal):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if is_causal:
        seq = q.shape[-2]
        visible = torch.ones(seq, seq, dtype=torch.bool, device=q.device).tril()
        scores = torch.where(visible, scores, float("-inf"))
    return torch.softmax(scores, -1) @ v


PEERS = {"flash2": fused(SDPBackend.FLASH_ATTENTION), "cudnn": fused(SDPBackend.CUDNN_ATTENTION),
         "efficient": fused(SDPBackend.EFFICIENT_ATTENTION), "naive": naive,
         "compile": torch.compile(naive, dynamic=False)}


class Problem:
    """Operands of one shape, and the passes that were captured on them."""

    def __init__(self, batch, heads, seq, head_size, mask, precision) -> None:
        torch.manual_seed(0)
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        shape, kind = (batch, heads, seq, head_size), TYPES[precision]
        self.is_causal = mask == "causal"
        self.operands = [torch.randn(shape, device="cuda", dtype=kind, requires_grad=True)
                         for _ in range(3)]
        self.above = torch.randn(shape, device="cuda", dtype=kind)
        self.stream = torch.cuda.Stream()  # forward and backward must be on one to be captured
        self.stream.wait_stream(torch.cuda.current_stream())
        self.runs: dict[tuple[str, str], tuple] = {}

    def make(self, peer: str, name: str):
        """The pass as a function, and what must live as long as it does."""
        def forward():
            return PEERS[peer](*self.operands, self.is_causal)

        def backward(made):
            torch.autograd.grad(made, self.operands, self.above, retain_graph=name == "backward")

        if name == "forward":
            def run():
                with torch.no_grad():
                    forward()
            return run
        if name == "backward":
            made = forward()
            return lambda: backward(made)
        return lambda: backward(forward())

    def prepare(self, peer: str, name: str) -> tuple:
        if (peer, name) not in self.runs:
            with torch.cuda.stream(self.stream):
                run = self.make(peer, name)
                for _ in range(3):
                    run()
            torch.cuda.synchronize()
            is_captured = True
            try:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=self.stream):
                    run()
                self.runs[peer, name] = graph.replay, True, (graph, run)
            except RuntimeError:
                is_captured = False
                torch.cuda.synchronize()
                self.runs[peer, name] = run, is_captured, (run,)
        return self.runs[peer, name]

    def time(self, peer: str, name: str, count: int) -> tuple[list[float], bool]:
        run, is_captured, _ = self.prepare(peer, name)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        samples = []
        with torch.cuda.stream(self.stream):
            for i in range(count + 3):
                torch.cuda._sleep(WAIT_CYCLES)
                begin.record()
                run()
                end.record()
                end.synchronize()
                if i >= 3:
                    samples.append(begin.elapsed_time(end))
        return samples, is_captured


def main() -> None:
    answer(torch=torch.__version__, cuda=torch.version.cuda,
           cudnn=torch.backends.cudnn.version(), gpu=torch.cuda.get_device_name())
    problem: Problem | None = None
    for line in sys.stdin:
        words = line.split()
        try:
            if words[0] == "quit":
                return
            if words[0] in ("load", "unload"):
                problem = None
                gc.collect()
                torch.cuda.empty_cache()
            if words[0] == "load":
                problem = Problem(*map(int, words[1:5]), words[5], words[6])
                answer()
            elif words[0] == "time":
                ms, is_captured = problem.time(words[1], words[2], int(words[3]))
                answer(ms=ms, captured=is_captured)
            else:
                answer()
        except torch.cuda.OutOfMemoryError:
            answer(error="OOM")
        except Exception as error:  # whatever a peer does, the others go on
            answer(error=f"{type(error).__name__}: {str(error).splitlines()[0][:200]}")


if __name__ == "__main__":
    main()
