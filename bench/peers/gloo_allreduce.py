"""all_reduce of torch.distributed over gloo, in place: for each size the time of every repetition, the slowest
rank's, as JSON: {"1000000": [seconds, ...], ...}."""
import argparse
import json
import os
import socket
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def measure(bytes_, warmup, reps):
    data = torch.ones(bytes_ // 4)
    times = []
    for repetition in range(warmup + reps):
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(data)
        slowest = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        if repetition >= warmup:
            times.append(slowest.item())
    return times


def work(rank, world, port, sizes, warmup, reps):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    found = {str(size): measure(size, warmup, reps) for size in sizes}
    if rank == 0:
        print(json.dumps(found), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--bytes", required=True, help="sizes, separated by commas")
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--reps", type=int, default=5)
    given = parser.parse_args()
    mp.spawn(work, (given.ranks, free_port(), [int(size) for size in given.bytes.split(",")],
                    given.warmup, given.reps), nprocs=given.ranks)
