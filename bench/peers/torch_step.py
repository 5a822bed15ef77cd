#!/usr/bin/env python3
"""A PyTorch worker for interleaved timing: stays alive, runs one pass per command.

Prints one JSON line when it is ready (versions, settings), then reads a command per line:
    forward             loss without gradients           -> {"ms": ...}
    forward+backward    gradients, no update             -> {"ms": ...}
    step                gradients and AdamW              -> {"ms": ...}
    quit                                                 -> {"peak_rss_bytes": ...}, and ends
Between commands it blocks on stdin and uses no CPU. An unknown command answers {"error": ...}.

`--mode eager` is PyTorch as it comes: naive attention, AdamW of the default implementation.
`--mode tuned` takes what it offers without a compiler: fused attention and fused AdamW.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import sys
import time

import torch
import torch.nn.functional as F

from torch_lm import LM, PRESETS

VOCAB = 10000


def answer(**fields) -> None:
    print(json.dumps(fields), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="PyTorch worker, driven over stdin")
    parser.add_argument("--model", choices=PRESETS, default="small")
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--threads", type=int, default=0, help="0: PyTorch's own choice")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32",
                        help="bf16 is autocast over fp32 weights")
    parser.add_argument("--mode", choices=("eager", "tuned"), default="eager")
    arguments = parser.parse_args()

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    tuned = arguments.mode == "tuned"
    model = LM(*PRESETS[arguments.model], context=arguments.context, vocab=VOCAB,
               attention="sdpa" if tuned else "naive")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=tuned)
    ids, targets = (torch.randint(VOCAB, (arguments.batch, arguments.context)) for _ in range(2))

    def loss() -> torch.Tensor:
        cast = (torch.autocast("cpu", torch.bfloat16) if arguments.precision == "bf16"
                else contextlib.nullcontext())
        with cast:
            return F.cross_entropy(model(ids).view(-1, VOCAB).float(), targets.view(-1))

    def forward() -> None:
        with torch.no_grad():
            loss()

    def forward_backward() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss().backward()

    def step() -> None:
        forward_backward()
        optimizer.step()

    passes = {"forward": forward, "forward+backward": forward_backward, "step": step}
    answer(torch=torch.__version__, python=sys.version.split()[0],
           threads=torch.get_num_threads(), mode=arguments.mode, precision=arguments.precision,
           parameters=sum(p.numel() for p in model.parameters()),
           cpu_capability=torch.backends.cpu.get_cpu_capability())

    for line in sys.stdin:
        command = line.strip()
        if command == "quit":
            break
        if command not in passes:
            answer(error=f"unknown command '{command}'; known: {', '.join(passes)}, quit")
            continue
        begin = time.perf_counter()
        passes[command]()
        answer(ms=(time.perf_counter() - begin) * 1e3)
    answer(peak_rss_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    return 0


if __name__ == "__main__":
    sys.exit(main())
