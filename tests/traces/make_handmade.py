#!/usr/bin/env python3
"""make_handmade.py [--out DIR] - writes traces of an imagined program, as two profilers would have them.

  kineto-gpu.json    PyTorch's profiler
  nsys.sqlite        Nsight Systems, of today
  nsys-old.sqlite    an old one: names as texts, no process ids, no graph nodes
  nsys-bare.sqlite   only kernels were recorded: no calls, no ranges, no names

The program is the same in all, and so is what it did (tests/profile/test_foreign_handmade.c knows it).
Two steps, each of which holds what has misled people:

  - the device runs behind: the forward's kernels run while the host is in the backward's range;
  - the backward is launched from a thread of its own, on which the program has no ranges;
  - a loader thread has a range of its own, and copies in it;
  - a copy is launched between two ranges: it belongs to none;
  - the optimizer is one launch of a CUDA graph: three kernels have one correlation id;
  - and once, a kernel runs whose call was not recorded.
"""
import argparse
import json
import os
import sqlite3

PROCESS, MAIN, AUTOGRAD, LOADER = 4242, 4242, 4300, 4301
GEMM = "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(T1::Params)"
SOFTMAX = "void softmax_warp_forward<float, float, float, 7, false, false>(float*, float const*, int)"
ADD = "void vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>(int, CUDAFunctor_add<float>)"
FILL = "void vectorized_elementwise_kernel<4, FillFunctor<float>>(int, FillFunctor<float>)"
ADAM = "void multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor>()"
TO_DEVICE, TO_HOST = 1, 2


class Program:
    """Ranges: thread, name, begin, end. Calls: thread, begin, end, correlation. Work: name, begin, end,
    correlation, and where it has them the kind of a copy or the node of a graph."""

    def __init__(self):
        self.ranges, self.calls, self.work, self.ops = [], [], [], []
        self.correlation = 100
        for step in (1, 2):
            self.add_step(step, step * 1_000_000)
        # Nobody knows who launched this one.
        self.work.append({"name": ADD, "begin": 2_900_000, "end": 2_900_777, "correlation": 9999})

    def launch(self, thread, at, call, *work):
        self.correlation += 1
        self.calls.append((thread, at, at + 4_000, self.correlation, call))
        for kernel in work:
            self.work.append(dict(kernel, correlation=self.correlation))

    def op(self, thread, name, begin, end, sequence=None, forward_thread=0):
        self.ops.append((thread, name, begin, end, sequence, forward_thread))

    def add_step(self, step, base):
        def at(offset):
            return base + offset

        def kernel(name, begin, took, **more):
            return dict(name=name, begin=at(begin), end=at(begin) + took, **more)

        self.ranges += [(MAIN, f"step {step}", at(0), at(900_000)),
                        (LOADER, "load", at(0), at(30_000)),
                        (MAIN, "forward", at(10_000), at(110_000)),
                        (MAIN, "attention", at(35_000), at(70_000)),
                        (MAIN, "backward", at(120_000), at(320_000)),
                        (MAIN, "optimizer", at(330_000), at(400_000))]
        self.launch(LOADER, at(5_000), "cudaMemcpyAsync",
                    kernel("copy", 8_000, 2_000, copy=TO_DEVICE, bytes=65536))
        sequence = 10 * step
        self.op(MAIN, "aten::mm", at(18_000), at(30_000), sequence)
        self.launch(MAIN, at(20_000), "cudaLaunchKernel", kernel(GEMM, 130_000, 30_000))
        self.op(MAIN, "aten::_softmax", at(38_000), at(48_000), sequence + 1)
        self.launch(MAIN, at(40_000), "cudaLaunchKernel", kernel(SOFTMAX, 160_000, 10_000))
        self.op(MAIN, "aten::bmm", at(58_000), at(68_000), sequence + 2)
        self.launch(MAIN, at(60_000), "cudaLaunchKernel", kernel(GEMM, 170_000, 20_000))
        self.op(MAIN, "aten::item", at(111_000), at(119_000))
        self.launch(MAIN, at(114_000), "cudaMemcpyAsync",
                    kernel("copy", 190_000, 1_000, copy=TO_HOST, bytes=4))
        self.op(MAIN, "aten::ones_like", at(123_000), at(130_000))
        self.launch(MAIN, at(125_000), "cudaLaunchKernel", kernel(FILL, 192_000, 1_500))
        for i, (name, node, took) in enumerate(((GEMM, "BmmBackward0", 25_000),
                                                (GEMM, "BmmBackward0", 26_000),
                                                (ADD, "SoftmaxBackward0", 9_000),
                                                (GEMM, "MmBackward0", 50_000))):
            begin = at(150_000 + 30_000 * i)
            of = sequence + {"B": 2, "S": 1, "M": 0}[node[0]]
            self.op(AUTOGRAD, f"autograd::engine::evaluate_function: {node}", begin, begin + 20_000, of, 1)
            self.op(AUTOGRAD, node, begin + 1_000, begin + 19_000, of, 1)
            self.launch(AUTOGRAD, begin + 5_000, "cudaLaunchKernel", kernel(name, 200_000 + 60_000 * i, took))
        self.launch(MAIN, at(340_000), "cudaGraphLaunch",
                    kernel(ADAM, 500_000, 5_000, node=1 << 32 | 1),
                    kernel(ADAM, 506_000, 6_000, node=1 << 32 | 2),
                    kernel(FILL, 513_000, 700, node=1 << 32 | 3))


# ---- PyTorch ----

def write_kineto(program, path):
    events = []

    def add(category, name, process, thread, begin, end, **arguments):
        events.append({"ph": "X", "cat": category, "name": name, "pid": process, "tid": thread,
                       "ts": begin / 1000, "dur": (end - begin) / 1000, "args": arguments})

    for thread, name, begin, end in program.ranges:
        name = name.replace("step ", "ProfilerStep#")
        add("user_annotation", name, PROCESS, thread, begin, end)
        # The same once more over its kernels: this is no work of a device.
        add("gpu_user_annotation", name, 0, 7, begin + 200_000, end + 300_000, device=0, stream=7)
    for number, (thread, name, begin, end, sequence, forward_thread) in enumerate(program.ops, 1):
        arguments = {"External id": number}
        if sequence is not None:
            arguments.update({"Sequence number": sequence, "Fwd thread id": forward_thread})
        if name == "aten::mm":
            arguments.update({"Input Dims": [[64, 32], [32, 16]], "Input type": ["float", "float"]})
        add("cpu_op", name, PROCESS, thread, begin, end, **arguments)
    for thread, begin, end, correlation, name in program.calls:
        add("cuda_runtime", name, PROCESS, thread, begin, end, cbid=211, correlation=correlation)
    for work in program.work:
        arguments = {"device": 0, "context": 1, "stream": 7, "correlation": work["correlation"]}
        if "copy" in work:
            name = "Memcpy HtoD (Pinned -> Device)" if work["copy"] == TO_DEVICE else "Memcpy DtoH (Device -> Pinned)"
            add("gpu_memcpy", name, 0, 7, work["begin"], work["end"], bytes=work["bytes"], **arguments)
            continue
        if "node" in work:
            arguments.update({"graph id": 1, "graph node id": work["node"]})
        add("kernel", work["name"], 0, 7, work["begin"], work["end"],
            **{"grid": [24, 4, 1], "block": [128, 1, 1], "registers per thread": 40, "shared memory": 4096},
            **arguments)
    # Kernels first: a reader must not count on any order.
    events.sort(key=lambda event: event["cat"] != "kernel")
    events.append({"ph": "i", "name": "Iteration Start: PyTorch Profiler", "pid": "Traces", "tid": "Trace", "ts": 1})
    events.append({"ph": "M", "name": "process_name", "pid": "Spans", "tid": 0, "ts": 1, "args": {"name": "python"}})
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "imagined"}],\n'
                   '"distributedInfo": {"rank": 0}, "displayTimeUnit": "ms",\n'
                   '"baseTimeNanoseconds": 1790857026000000000, "traceEvents": [\n')
        file.write(",\n".join(json.dumps(event) for event in events))
        file.write('\n], "traceName": "kineto-gpu.json"}\n')


# ---- Nsight Systems ----

PUSH_POP, START_END, MARK, DOMAIN = 59, 60, 34, 75


def global_id(thread):
    """1 in the place of the machine, which may not be taken for a part of the process."""
    return 1 << 56 | PROCESS << 24 | thread


class Strings:
    def __init__(self):
        self.ids = {}

    def id(self, text):
        return self.ids.setdefault(text, len(self.ids) + 1)


def write_nsys(program, path, is_old=False, is_bare=False):
    if os.path.exists(path):
        os.unlink(path)
    strings = Strings()
    database = sqlite3.connect(path)
    database.execute("PRAGMA page_size = 1024")
    kernel_columns = ["start", "end", "deviceId", "contextId", "streamId", "correlationId"]
    if not is_bare:
        kernel_columns += ["gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread",
                           "staticSharedMemory", "dynamicSharedMemory", "shortName"]
    if not is_old and not is_bare:
        kernel_columns += ["globalPid", "demangledName", "mangledName", "graphNodeId"]
    create(database, "CUPTI_ACTIVITY_KIND_KERNEL", kernel_columns)
    copy_columns = ["start", "end", "deviceId", "contextId", "streamId", "correlationId", "bytes", "copyKind"]
    copy_columns += [] if is_old else ["globalPid"]
    if not is_bare:
        create(database, "CUPTI_ACTIVITY_KIND_MEMCPY", copy_columns)
    for work in program.work:
        row = {"start": work["begin"], "end": work["end"], "deviceId": 0, "contextId": 1, "streamId": 7,
               "correlationId": work["correlation"], "globalPid": global_id(0)}
        if "copy" in work:
            if not is_bare:
                insert(database, "CUPTI_ACTIVITY_KIND_MEMCPY", copy_columns, copyKind=work["copy"],
                       bytes=work["bytes"], **row)
            continue
        name = work["name"]
        insert(database, "CUPTI_ACTIVITY_KIND_KERNEL", kernel_columns, gridX=24, gridY=4, gridZ=1, blockX=128,
               blockY=1, blockZ=1, registersPerThread=40, staticSharedMemory=0, dynamicSharedMemory=4096,
               shortName=strings.id(name if is_old else name.split("<")[0].split(" ")[-1]),
               demangledName=strings.id(name), mangledName=strings.id("_Z" + str(len(name))),
               graphNodeId=work.get("node"), **row)
    if not is_bare:
        write_host(database, program, strings, is_old)
        database.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
        database.executemany("INSERT INTO StringIds VALUES (?, ?)",
                             [(number, text) for text, number in strings.ids.items()])
    if not is_old:
        create(database, "META_DATA_EXPORT", ["name", "value"])
        insert(database, "META_DATA_EXPORT", ["name", "value"], name="EXPORT_SCHEMA_VERSION", value="3.17.3")
    database.commit()
    database.close()


def write_host(database, program, strings, is_old):
    call_columns = ["start", "end", "eventClass", "globalTid", "correlationId", "nameId", "returnValue"]
    create(database, "CUPTI_ACTIVITY_KIND_RUNTIME", call_columns)
    for thread, begin, end, correlation, name in program.calls:
        insert(database, "CUPTI_ACTIVITY_KIND_RUNTIME", call_columns, start=begin, end=end, eventClass=0,
               globalTid=global_id(thread), correlationId=correlation, nameId=strings.id(name), returnValue=0)
    columns = ["start", "end", "eventType", "text", "globalTid"]
    columns += [] if is_old else ["textId", "domainId", "endGlobalTid", "rangeId", "color"]
    create(database, "NVTX_EVENTS", columns)
    for number, (thread, name, begin, end) in enumerate(program.ranges):
        by_id = not is_old and number % 2 == 0
        insert(database, "NVTX_EVENTS", columns, start=begin, end=end, eventType=PUSH_POP,
               text=None if by_id else name, textId=strings.id(name) if by_id else None,
               globalTid=global_id(thread), domainId=0)
    insert(database, "NVTX_EVENTS", columns, start=1, end=None, eventType=DOMAIN, text="NCCL",
           globalTid=global_id(MAIN), domainId=1)
    insert(database, "NVTX_EVENTS", columns, start=1_050_000, end=None, eventType=MARK, text="a mark",
           globalTid=global_id(MAIN), domainId=0)


def create(database, table, columns):
    kinds = {"text": "TEXT", "name": "TEXT", "value": "TEXT"}
    database.execute(f"CREATE TABLE {table} (" +
                     ", ".join(f'"{column}" {kinds.get(column, "INTEGER")}' for column in columns) + ")")


def insert(database, table, columns, **row):
    database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})",
                     [row.get(column) for column in columns])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.path.dirname(os.path.abspath(__file__)))
    directory = parser.parse_args().out
    program = Program()
    write_kineto(program, os.path.join(directory, "kineto-gpu.json"))
    write_nsys(program, os.path.join(directory, "nsys.sqlite"))
    write_nsys(program, os.path.join(directory, "nsys-old.sqlite"), is_old=True)
    write_nsys(program, os.path.join(directory, "nsys-bare.sqlite"), is_old=True, is_bare=True)


if __name__ == "__main__":
    main()
