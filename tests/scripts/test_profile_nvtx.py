"""`dyno profile --nvtx` tells NVTX of steps, phases and scopes: heard by tests/support/nvtx_recorder.c, which NVTX loads
as it loads the libraries of nsys and ncu. DYNO_NVTX_RECORDER names the recorder; else it is that of the build.
DYNO_DEVICE=cuda runs all of it on a GPU."""
import functools
import json
import os
import re
import subprocess
import tempfile

from cases import Skip, run_all, write_file
from trace_rules import Trace

BUILD = os.environ["DYNO_BUILD"]
DYNO = os.path.join(BUILD, "dyno")
RECORDER = os.environ.get("DYNO_NVTX_RECORDER", os.path.join(BUILD, "tests", "libnvtx_recorder.so"))
DEVICE = os.environ.get("DYNO_DEVICE", "cpu")
MODEL = "--layers 2 --d-model 32 --heads 2 --d-ff 64 --vocab 64 --batch 2 --context 16 --threads 1".split()
STEPS = 3
WAYS = (("--pass", "step", "--mode", "eager"), ("--pass", "step", "--mode", "compiled"),
        ("--pass", "forward", "--mode", "eager"))


class Range:
    def __init__(self, name):
        self.name = name
        self.inner = []

    def tree(self):
        return self.name, [inner.tree() for inner in self.inner]

    def paths(self):
        """Every range in it: its name behind those of the ranges around it, with dots between."""
        return {path for inner in self.inner for path in {inner.name, *(f"{inner.name}.{path}" for path in inner.paths())}}


def profile(*arguments, library, calls, **more):
    """Runs with this injection library, which writes to the file `calls`, and with more in the environment."""
    environment = {**os.environ, "NVTX_INJECTION64_PATH": library, "NVTX_RECORDER_FILE": calls, **more}
    result = subprocess.run([DYNO, "profile", *MODEL, "--device", DEVICE, "--steps", str(STEPS), *arguments], text=True,
                            stdin=subprocess.DEVNULL, capture_output=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    return result


def nest(calls):
    """The outermost ranges of dyno for each thread. Each is closed by its own thread, and nothing else is closed."""
    threads = {}
    with open(calls, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    for process, thread, call, domain, name in lines:
        if domain != "dyno" or call == "domain":  # the CUDA libraries have domains of their own
            continue
        outermost, stack = threads.setdefault((process, thread), ([], []))
        assert call in ("push", "pop"), call
        if call == "push":
            assert name, "a range has a name"
            made = Range(name)
            (stack[-1].inner if stack else outermost).append(made)
            stack.append(made)
        else:
            assert stack, "closed, but not open"
            stack.pop()
    for _, stack in threads.values():
        assert not stack, [left.name for left in stack]
    return [outermost for outermost, _ in threads.values()]


@functools.lru_cache(None)
def record(way):
    """What a recorder hears of a run: its steps. What the run itself says: its trace, and its tables."""
    need_recorder()
    with tempfile.TemporaryDirectory() as folder:
        calls, trace = os.path.join(folder, "calls"), os.path.join(folder, "trace.json")
        result = profile(*way, "--nvtx", "--trace", trace, "--format", "json", library=RECORDER, calls=calls)
        threads = nest(calls)
        assert len(threads) == 1, "the thread that launches is one"
        return threads[0], Trace(trace), json.loads(result.stdout)["cells"][0]["breakdowns"]


def need_recorder():
    if not os.path.exists(RECORDER):
        raise Skip(f"it cannot be tested here: there is no {RECORDER}, which takes nvtx3/nvToolsExt.h to build")


def host_ranges(trace):
    """Steps of a trace, with the ranges that the host's thread has in them."""
    made = {}
    for piece in sorted(trace.of_category("user_annotation"), key=lambda piece: (piece.begin, -piece.end)):
        made[piece] = Range(piece.name)
        around = [parent for parent in piece.parents() if parent in made]
        if around:
            made[around[0]].inner.append(made[piece])
    return [made[step] for step in trace.steps()]


def is_replayed(way):
    """A GPU replays a compiled step as one graph, of which the host knows one call."""
    return DEVICE != "cpu" and "compiled" in way


def agree(heard, told):
    """A GPU has no record of a launch that has nothing to do; the host launches it all the same."""
    return heard == told if DEVICE == "cpu" else heard >= told


def steps_are_numbered_and_outermost():
    """Untraced steps and traced ones by turns, the first of each run twice; on a GPU with CUPTI, every one."""
    for way in WAYS:
        steps, trace, _ = record(way)
        assert [step.name for step in steps] == [f"step {i}" for i in range(len(steps))], way
        assert len(trace.steps()) == STEPS, way
        assert len(steps) in ([2 * STEPS + 2] if DEVICE == "cpu" else [2 * STEPS + 2, 4 * STEPS]), (way, len(steps))


def ranges_in_a_step_are_those_of_the_trace():
    for way in WAYS:
        steps, trace, _ = record(way)
        for told in host_ranges(trace):
            for step in steps:
                if DEVICE == "cpu":
                    assert step.tree()[1] == told.tree()[1], (way, step.name)
                if step.inner or not is_replayed(way):
                    assert agree(step.paths(), told.paths()), (way, step.name)
        assert is_replayed(way) == any(not step.inner for step in steps), way


def ranges_in_a_step_are_phases_and_scopes_of_the_tables():
    for way in WAYS:
        steps, _, tables = record(way)
        phases, scopes = ({row["keys"][0] for row in tables[name]["rows"]} for name in ("by_phase", "by_scope"))
        assert phases == ({"forward"} if "forward" in way else {"forward", "backward", "optimizer"}), (way, phases)
        told = {".".join(scope.split(".")[:count + 1]) for scope in scopes for count in range(scope.count(".") + 1)}
        for step in (step for step in steps if step.inner):
            assert {inner.name for inner in step.inner} == phases, (way, step.name)
            paths = {path for phase in step.inner for path in phase.paths()}
            for layer in range(2):
                assert f"layers.{layer}.mlp.down" in paths, (way, step.name)
            heard = {re.sub(r"layers\.\d+", "layers.*", path) for path in paths}
            assert agree(heard, told), (way, heard ^ told)


def without_the_flag_nothing_is_told():
    need_recorder()
    with tempfile.TemporaryDirectory() as folder:
        calls = os.path.join(folder, "calls")
        profile("--pass", "step", library=RECORDER, calls=calls)
        assert not os.path.exists(calls) or nest(calls) == [], "no range is of dyno"


def a_library_that_cannot_be_loaded_is_no_error():
    with tempfile.TemporaryDirectory() as folder:
        broken, calls = os.path.join(folder, "broken.so"), os.path.join(folder, "calls")
        write_file(broken, "This is no library.\n")
        for library in (broken, os.path.join(folder, "missing.so"), folder, "", "libm.so.6"):
            result = profile("--pass", "forward", "--nvtx", library=library, calls=calls)
            assert "forward" in result.stdout, (library, result)


def a_tool_that_refuses_is_told_nothing():
    need_recorder()
    with tempfile.TemporaryDirectory() as folder:
        calls = os.path.join(folder, "calls")
        profile("--pass", "forward", "--nvtx", library=RECORDER, calls=calls, NVTX_RECORDER_REFUSES="1")
        assert not os.path.exists(calls)


run_all(steps_are_numbered_and_outermost,
        ranges_in_a_step_are_those_of_the_trace,
        ranges_in_a_step_are_phases_and_scopes_of_the_tables,
        without_the_flag_nothing_is_told,
        a_library_that_cannot_be_loaded_is_no_error,
        a_tool_that_refuses_is_told_nothing)
