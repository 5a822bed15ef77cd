#!/usr/bin/env python3
"""Training steps of torch.nn.parallel.DistributedDataParallel over gloo: the milliseconds of every timed step, the
slowest rank's, as JSON: {"torch": version, "parameters": n, "ms": [...]}.

The model is that of torch_lm.py. `--mode eager` is PyTorch as it comes, `--mode tuned` takes fused attention and
fused AdamW. Buckets are DistributedDataParallel's own, 25 MB unless said otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from torch_lm import LM, PRESETS

VOCAB = 10000


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def slowest(seconds: float) -> float:
    found = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(found, op=dist.ReduceOp.MAX)
    return found.item()


def work(rank: int, port: int, given: argparse.Namespace) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    cores = sorted(os.sched_getaffinity(0))
    own = cores[rank * given.threads:(rank + 1) * given.threads]
    if len(cores) >= given.ranks * given.threads:
        os.sched_setaffinity(0, own)
    torch.set_num_threads(given.threads)
    dist.init_process_group("gloo", rank=rank, world_size=given.ranks)
    torch.manual_seed(0)
    tuned = given.mode == "tuned"
    model = LM(*PRESETS[given.model], context=given.context, vocab=VOCAB,
               attention="sdpa" if tuned else "naive")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=tuned)
    parallel = DistributedDataParallel(model, bucket_cap_mb=given.bucket)
    torch.manual_seed(1 + rank)
    ids, targets = (torch.randint(VOCAB, (given.batch, given.context)) for _ in range(2))
    times = []
    for step in range(given.warmup + given.steps):
        dist.barrier()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(parallel(ids).view(-1, VOCAB), targets.view(-1)).backward()
        optimizer.step()
        took = slowest(time.perf_counter() - begin)
        if step >= given.warmup:
            times.append(took * 1e3)
    if rank == 0:
        print(json.dumps({"torch": torch.__version__, "ms": times,
                          "parameters": sum(p.numel() for p in model.parameters())}), flush=True)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each rank")
    parser.add_argument("--model", choices=PRESETS, default="small")
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--batch", type=int, default=4, help="sequences of each rank")
    parser.add_argument("--bucket", type=float, default=25, help="MB of a bucket")
    parser.add_argument("--mode", choices=("eager", "tuned"), default="tuned")
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3)
    given = parser.parse_args()
    mp.spawn(work, (free_port(), given), nprocs=given.ranks)


if __name__ == "__main__":
    main()
