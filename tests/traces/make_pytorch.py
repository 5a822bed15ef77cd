#!/usr/bin/env python3
"""make_pytorch.py --device cpu|cuda [--out DIR] - makes the traces of PyTorch that the tests read.

Runs training steps of a small Transformer under torch.profiler and writes for each way of running them

  pytorch-DEVICE-WAY.json.gz         the trace, without the arguments of events that dyno does not read
  pytorch-DEVICE-WAY.averages.json   what PyTorch's own key_averages() says of the same trace

  ranges   the program marks forward, backward and optimizer
  plain    it marks nothing: sequence numbers tell the forward from the backward
  graph    (cuda) forward and backward are replayed from a CUDA graph, the optimizer is not

The second file is the truth that tests/traces are held to (tests/profile/test_foreign_pytorch.c,
tests/scripts/test_profile_from.py). Needs PyTorch 2; the committed files were made with 2.11.
"""
import argparse
import gzip
import json
import os
import sys
import tempfile

import torch
from torch import nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile, record_function, schedule

VOCABULARY, WIDTH, HEADS, BATCH, CONTEXT = 64, 64, 4, 2, 32
STEPS = 2
# Arguments of events that a reader may use; the rest is most of a trace's bytes.
KEPT = ("External id", "Sequence number", "Fwd thread id", "correlation", "device", "context", "stream",
        "grid", "block", "registers per thread", "shared memory", "graph id", "graph node id", "bytes",
        "Input Dims", "Input type")
LEFT_OUT = ("ac2g", "fwdbwd", "python_function", "overhead")


class Block(nn.Module):
    """Attention as the write-ups have it: products and a softmax, no fused kernel."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def attend(self, x):
        batch, context, _ = x.shape
        q, k, v = (part.view(batch, context, HEADS, -1).transpose(1, 2)
                   for part in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        mask = torch.ones(context, context, dtype=torch.bool, device=x.device).tril()
        weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, context, WIDTH))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Program:
    def __init__(self, device, way):
        torch.manual_seed(0)
        self.way, self.device = way, device
        self.model = nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), Block(),
                                   nn.Linear(WIDTH, VOCABULARY)).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), foreach=device == "cuda")
        self.tokens = torch.randint(0, VOCABULARY, (BATCH, CONTEXT), device=device)
        if way == "graph":
            self.capture()

    def forward(self):
        logits = self.model(self.tokens)
        return F.cross_entropy(logits.flatten(0, 1), self.tokens.flatten())

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.optimizer.zero_grad()
                self.forward().backward()
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.forward().backward()

    def step(self):
        if self.way == "graph":
            with record_function("replay"):
                self.graph.replay()
            with record_function("optimizer"):
                self.optimizer.step()
        elif self.way == "ranges":
            with record_function("forward"):
                loss = self.forward()
            with record_function("backward"):
                loss.backward()
            with record_function("optimizer"):
                self.optimizer.step()
                self.optimizer.zero_grad()
        else:
            self.forward().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        if self.device == "cuda":
            torch.cuda.synchronize()


def trim(trace):
    events = []
    for event in trace["traceEvents"]:
        if event.get("cat") in LEFT_OUT and not event.get("name", "").startswith("nn.Module: "):
            continue
        if "args" in event and event["ph"] == "X":
            event["args"] = {key: value for key, value in event["args"].items() if key in KEPT}
        events.append(event)
    trace["traceEvents"] = events
    trace.pop("ERROR", None)
    trace["traceName"] = "trace.json"
    return trace


def averages(profiler):
    rows = []
    for row in profiler.key_averages():
        rows.append({"key": row.key, "count": row.count, "device": row.device_type.name,
                     "is_user_annotation": row.is_user_annotation, "flops": row.flops,
                     "self_cpu_us": row.self_cpu_time_total, "cpu_us": row.cpu_time_total,
                     "self_device_us": row.self_device_time_total, "device_us": row.device_time_total})
    return rows


def record(device, way, directory):
    program = Program(device, way)
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device == "cuda" else [])
    name = os.path.join(directory, f"pytorch-{device}-{way}")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        found = []

        def finish(profiler):
            profiler.export_chrome_trace(path)
            found.extend(averages(profiler))

        with profile(activities=activities, schedule=schedule(wait=0, warmup=2, active=STEPS, repeat=1),
                     record_shapes=True, with_flops=True, on_trace_ready=finish) as profiler:
            for _ in range(2 + STEPS):
                program.step()
                profiler.step()
        with open(path, encoding="utf-8") as file:
            trace = trim(json.load(file))
    with gzip.GzipFile(f"{name}.json.gz", "wb", mtime=0) as file:
        file.write(json.dumps(trace, separators=(",", ":")).encode())
    with open(f"{name}.averages.json", "w", encoding="utf-8") as file:
        json.dump({"torch": torch.__version__, "steps": STEPS, "rows": found}, file, indent=0)
        file.write("\n")
    print(f"{name}.json.gz: {len(trace['traceEvents'])} events, "
          f"{os.path.getsize(name + '.json.gz')} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", default=os.path.dirname(os.path.abspath(__file__)))
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("make_pytorch.py: PyTorch sees no GPU here")
    torch.set_num_threads(1)
    os.makedirs(options.out, exist_ok=True)
    for way in ("ranges", "plain") + (("graph",) if options.device == "cuda" else ()):
        record(options.device, way, options.out)


if __name__ == "__main__":
    main()
