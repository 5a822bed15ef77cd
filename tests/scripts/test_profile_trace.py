"""`dyno profile --trace` writes what trace viewers open: the file follows the rules of trace_rules.py, says the same as the
tables of the run that wrote it, is read back by `dyno profile --from`, and by Holistic Trace Analysis where there is one.
DYNO_HTA_PYTHON names an interpreter that has it; else it is the running one. DYNO_DEVICE=cuda runs all of it on a GPU."""
import csv
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import tempfile

from cases import Skip, run_all
from trace_rules import Trace, load

DYNO = os.path.join(os.environ["DYNO_BUILD"], "dyno")
DEVICE = os.environ.get("DYNO_DEVICE", "cpu")
STEP = "--layers 2 --d-model 32 --heads 2 --d-ff 64 --vocab 64 --batch 2 --context 16".split()
MODEL = [*STEP, "--threads", "1"]
HTA_PYTHON = os.environ.get("DYNO_HTA_PYTHON", sys.executable)
WAYS = (["--mode", "eager"], ["--mode", "compiled"], ["--pass", "forward", "--mode", "compiled"])
# Holistic Trace Analysis rounds to microseconds, so its kernels are longer than those.
LARGER = "--layers 1 --d-model 256 --heads 4 --d-ff 1024 --vocab 1024 --batch 2 --context 128 --threads 1".split()


def profile(*arguments):
    return subprocess.run([DYNO, "profile", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)


def run(folder, *arguments, name="trace.json", steps=3, out=False, model=MODEL):
    """Profiles and writes a trace; returns its path, and the run as it was recorded with `out`."""
    path, kept = os.path.join(folder, name), os.path.join(folder, "kept")
    given = list(arguments) if "--pass" in arguments else ["--pass", "step", *arguments]
    result = profile(*model, "--device", DEVICE, "--steps", str(steps), *given, "--trace", path, "--format", "json",
                     *(["--out", kept, "--force"] if out else []))
    assert result.returncode == 0, result.stderr
    assert f"events of {steps} steps are in {path}" in result.stderr, result.stderr
    return (path, json.loads(result.stdout)["cells"][0]) if out else path


def breakdown(cell, name):
    """key -> (count per step, running ns per step)"""
    found = cell["breakdowns"][name]
    columns = [column["name"] for column in found["columns"]]
    count, running = columns.index("count"), columns.index("running")
    return {row["keys"][0]: (row["values"][count], row["values"][running]) for row in found["rows"]}


def every_way_follows_the_rules():
    for way in WAYS:
        with tempfile.TemporaryDirectory() as folder:
            trace = Trace(run(folder, *way))
            trace.check_is_of_dyno()
            assert len(trace.steps()) == 3, way
            assert len(trace.of_kind("C")) >= 3 and len(trace.document["deviceProperties"]) == 1
            base = trace.document["baseTimeNanoseconds"]
            assert base > 1_700_000_000_000_000_000, base  # nanoseconds since 1970
            assert min(piece.begin for piece in trace.slices) == 0, way


def kernels_take_as_long_as_the_tables_say():
    for way in WAYS:
        with tempfile.TemporaryDirectory() as folder:
            path, cell = run(folder, *way, out=True)
            found, told = Trace(path).sums("kernel"), breakdown(cell, "by_kernel")
            assert found.keys() == told.keys(), way
            for kernel, (count, ns) in found.items():
                assert count == 3 * told[kernel][0], (way, kernel)
                assert abs(ns - 3 * told[kernel][1]) < 1, (way, kernel)


def a_trace_is_read_back_with_the_same_sums():
    for way in WAYS:
        with tempfile.TemporaryDirectory() as folder:
            path, cell = run(folder, *way, out=True)
            for by, name in (("kernel", "by_kernel"), ("phase", "by_phase"), ("class", "by_class"), ("op", "by_op"),
                             ("scope", "by_scope")):
                result = profile("--from", path, "--by", by, "--format", "json")
                assert result.returncode == 0, result.stderr
                read, told = breakdown(json.loads(result.stdout)["cells"][0], name), breakdown(cell, name)
                assert read.keys() == told.keys(), (way, by, read, told)
                for key, (count, ns) in read.items():
                    assert count == 3 * told[key][0], (way, by, key)
                    assert abs(ns - 3 * told[key][1]) < 1, (way, by, key)


def attention_of_a_trace_is_told_by_the_scopes_of_its_kernels():
    for way, parts in ((["--mode", "eager"], {"scores", "softmax", "values"}),
                       (["--mode", "compiled", "--attention", "naive"], {"scores", "softmax", "values"}),
                       (["--mode", "compiled"], {"fused"})):
        with tempfile.TemporaryDirectory() as folder:
            path = run(folder, *way)
            result = profile("--from", path, "--format", "json")
            assert result.returncode == 0, result.stderr
            table = json.loads(result.stdout)["cells"][0]["breakdowns"]["attention_parts"]
            assert {row["keys"][0] for row in table["rows"]} == parts, (way, table)
            assert "inside attention, forward" in profile("--from", path).stdout
            kernels = Trace(path).of_category("kernel")
            if parts == {"fused"}:
                continue
            softmax = sum(piece.end - piece.begin for piece in kernels if piece.arguments["phase"] == "forward"
                          and piece.arguments["scope"].split(".")[-1] in ("scores", "scale", "mask", "softmax", "values")
                          and piece.arguments["class"] != "matmul")
            told = {row["keys"][0]: row["values"][0] for row in table["rows"]}
            assert abs(told["softmax"] - softmax) < 1, (way, told, softmax)


def phases_of_a_replayed_graph_are_read_from_its_kernels():
    """Of which the host knows one call and no ranges, and a launch may do work of two phases."""
    with tempfile.TemporaryDirectory() as folder:
        path, cell = run(folder, "--mode", "compiled", out=True)
        with open(path, encoding="utf-8") as file:
            trace = json.load(file)
        assert any("backward part" in event.get("args", {}) for event in trace["traceEvents"])
        trace["traceEvents"] = [event for event in trace["traceEvents"]
                                if event.get("cat") not in ("cpu_op", "user_annotation")]
        for event in trace["traceEvents"]:
            event.get("args", {}).pop("External id", None)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(trace, file)
        result = profile("--from", path, "--by", "phase", "--format", "json")
        assert result.returncode == 0, result.stderr
        found = json.loads(result.stdout)["cells"][0]
        read, told = breakdown(found, "by_phase"), breakdown(cell, "by_phase")
        assert read.keys() == told.keys(), (read, told)
        assert all(abs(ns - 3 * told[phase][1]) < 1 for phase, (_, ns) in read.items()), (read, told)
        assert found["metrics"]["joined_by_record"]["value"] == found["metrics"]["records"]["value"]


def memory_is_that_of_the_plan_at_every_launch():
    with tempfile.TemporaryDirectory() as folder:
        trace = Trace(run(folder, "--mode", "eager"))
    planned = subprocess.run([DYNO, "memory", *STEP, "--device", DEVICE, "--part", "timeline", "--format", "csv"],
                             capture_output=True, text=True, check=True)
    rows = [{key[:-2]: int(row[key]) for key in row if key.endswith(" B")}
            for row in csv.DictReader(io.StringIO(planned.stdout)) if int(row["launch"]) >= 0]
    counters = trace.of_kind("C")
    assert len(counters) == 3 * len(rows)
    for i, event in enumerate(counters):
        row = rows[i % len(rows)]
        assert event["args"] == {role: row[role] for role in event["args"]}, (i, event, row)
        assert sum(event["args"].values()) == row["all"], (i, event, row)


def a_name_with_gz_is_compressed():
    with tempfile.TemporaryDirectory() as folder:
        path = run(folder, name="trace.json.gz")
        with open(path, "rb") as file:
            assert file.read(2) == b"\x1f\x8b"
        with gzip.open(path) as file:
            assert json.load(file)["schemaVersion"] == 1
        Trace(path).check_is_of_dyno()
        assert profile("--from", path, "--by", "phase").returncode == 0
        assert os.listdir(folder) == ["trace.json.gz"]


def what_cannot_be_written_is_refused_before_anything_runs():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        given = [*MODEL, "--device", DEVICE, "--trace", path]
        for code, part, arguments in (
                (2, "--trace is of one cell, but 2 are asked for", given),
                (2, "--trace is of one cell, but 2 are asked for", [*given, "--pass", "step", "--mode", "eager,compiled"]),
                (2, "ends in .json or .json.gz", [*MODEL, "--pass", "step", "--trace", os.path.join(folder, "trace.txt")]),
                (2, "--trace is for runs", ["--from", "nothing.json", "--trace", path])):
            refused = profile(*arguments)
            assert refused.returncode == code and part in refused.stderr and refused.stdout == "", refused
        assert os.listdir(folder) == []


def a_file_that_is_there_is_kept():
    with tempfile.TemporaryDirectory() as folder:
        path = run(folder)
        before, _ = load(path)
        again = [*MODEL, "--device", DEVICE, "--pass", "forward", "--steps", "2", "--trace", path]
        refused = profile(*again)
        assert refused.returncode == 2 and "exists" in refused.stderr, refused.stderr
        assert load(path)[0] == before
        replaced = profile(*again, "--force")
        assert replaced.returncode == 0, replaced.stderr
        assert len(Trace(path).steps()) == 2
        assert os.listdir(folder) == ["trace.json"]


def a_disk_that_is_full_is_an_error_and_leaves_nothing():
    if not os.path.exists("/dev/full"):
        raise Skip("it cannot be tested here: there is no /dev/full")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("trace.json", "trace.json.gz"):
            path = os.path.join(folder, name)
            os.symlink("/dev/full", path)
            result = profile(*MODEL, "--device", DEVICE, "--pass", "forward", "--steps", "1", "--trace", path)
            assert result.returncode == 1 and "No space left" in result.stderr, result
            assert "launches" in result.stdout, "what was profiled is shown all the same"


def a_cell_without_steps_has_no_trace():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        result = profile(*MODEL, "--device", DEVICE, "--pass", "step", "--memory", "64KiB", "--trace", path)
        assert result.returncode == 1 and "was not written" in result.stderr, result
        assert "OOM" in result.stdout and os.listdir(folder) == [], result


def an_interrupted_run_leaves_no_trace():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        running = subprocess.Popen([DYNO, "profile", *MODEL, "--device", DEVICE, "--pass", "step", "--steps", "1000000",
                                    "--trace", path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            running.wait(timeout=2)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGINT)
        _, error = running.communicate(timeout=60)
        assert running.returncode == 130, error
        assert os.listdir(folder) == [], error


ANALYSIS = """
import json, os, sys, warnings
warnings.filterwarnings("ignore")
try:
    from hta.trace_analysis import TraceAnalysis
except ImportError as error:
    sys.exit(f"no HTA: {error}")
path = sys.argv[1]
analysis = TraceAnalysis(trace_files={0: path}, trace_dir=os.path.dirname(path))
trace = analysis.t.get_trace(0)
work = trace[trace.stream >= 0]
launch = trace.set_index("index").loc[work.index_correlation] if "index" in trace else None
breakdown = analysis.get_temporal_breakdown(visualize=False)
kinds, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000)
print("RESULT" + json.dumps({
    "steps": sorted(int(step) for step in trace.iteration.dropna().unique() if step >= 0),
    "kernels": len(work), "joined": int((work.index_correlation > 0).sum()),
    "before_call": int((work.ts.values < launch.ts.values).sum()),
    "names": sorted(set(kernels.name)), "ranks": breakdown["rank"].tolist(), "kinds": kinds.kernel_type.tolist()}))
"""


def holistic_trace_analysis_reads_it():
    """It leaves out the last step and rounds to microseconds, so it is asked for counts."""
    for way in WAYS[:2]:
        with tempfile.TemporaryDirectory() as folder:
            path, cell = run(folder, *way, out=True, model=LARGER)
            result = subprocess.run([HTA_PYTHON, "-c", ANALYSIS, path], capture_output=True, text=True, check=False)
            if "no HTA: " in result.stderr:
                raise Skip("it cannot be tested here: there is no Holistic Trace Analysis (HolisticTraceAnalysis, psutil) "
                           "for the Python that runs this (DYNO_HTA_PYTHON names one)")
            assert result.returncode == 0, result.stderr
            told = json.loads(result.stdout.split("RESULT")[1])
        launches = sum(count for count, _ in breakdown(cell, "by_kernel").values())
        assert told["steps"] == [0, 1] and told["ranks"] == [0], told
        assert told["kernels"] == told["joined"] == 2 * launches, (told, launches)
        assert told["before_call"] == 0, told
        assert "COMPUTATION" in told["kinds"] and set(told["names"]) <= set(breakdown(cell, "by_kernel")), told


run_all(every_way_follows_the_rules,
        kernels_take_as_long_as_the_tables_say,
        a_trace_is_read_back_with_the_same_sums,
        attention_of_a_trace_is_told_by_the_scopes_of_its_kernels,
        phases_of_a_replayed_graph_are_read_from_its_kernels,
        memory_is_that_of_the_plan_at_every_launch,
        a_name_with_gz_is_compressed,
        what_cannot_be_written_is_refused_before_anything_runs,
        a_file_that_is_there_is_kept,
        a_disk_that_is_full_is_an_error_and_leaves_nothing,
        a_cell_without_steps_has_no_trace,
        an_interrupted_run_leaves_no_trace,
        holistic_trace_analysis_reads_it)
