"""`dyno memory --snapshot` writes what PyTorch's memory viewer opens: read with Python's pickle, which may
load nothing of a program, and with PyTorch's own reader and plots where there is PyTorch. DYNO_TORCH_PYTHON
names an interpreter that has it; else it is the running one."""
import os
import pickle
import subprocess
import sys
import tempfile

from cases import Skip, run_all

DYNO = os.path.join(os.environ["DYNO_BUILD"], "dyno")
MODEL = "--layers 2 --d-model 32 --heads 2 --d-ff 64 --vocab 64 --batch 2 --context 16".split()
TORCH_PYTHON = os.environ.get("DYNO_TORCH_PYTHON", sys.executable)


class Plain(pickle.Unpickler):
    """Loads dicts, lists, texts and numbers; whatever names a class or a function is refused."""

    def find_class(self, module, name):
        raise AssertionError(f"the file names {module}.{name}")

    def persistent_load(self, pid):
        raise AssertionError(f"the file has a persistent id, {pid}")


def write_snapshot(folder, *arguments):
    path = os.path.join(folder, "snapshot.pickle")
    result = subprocess.run([DYNO, "memory", *MODEL, *arguments, "--snapshot", path, "--format", "json"],
                            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                            env=dict(os.environ, DYNO_DEVICE="cpu"))
    assert result.returncode == 0, result.stderr
    return path


def load(*arguments):
    with tempfile.TemporaryDirectory() as folder, \
            open(write_snapshot(folder, *arguments), "rb") as file:
        loaded = Plain(file).load()
        assert file.read() == b""
        return loaded


WAYS = (["--device", "cpu"], ["--mode", "compiled", "--precision", "bf16", "--target", "h200"],
        ["--pass", "forward", "--device", "cpu"], ["--measure", "--device", "cpu"])


def replay(events):
    """Allocates and releases as the viewer does, by address; returns what is left and the largest sum."""
    living, total, peak = {}, 0, 0
    requested = None
    for event in events:
        if event["action"] == "alloc":
            begin, end = event["addr"], event["addr"] + event["size"]
            assert event["addr"] not in living, event
            assert all(end <= other or other + size <= begin for other, size in living.items()), event
            living[begin] = event["size"]
            total += event["size"]
            peak = max(peak, total)
        elif event["action"] == "free_requested":
            requested = event["addr"]
        elif event["action"] == "free_completed":
            assert requested == event["addr"], "the viewer joins the two when they follow each other"
            total -= living.pop(event["addr"])
    return living, peak


def every_allocation_is_released_or_in_the_segment():
    for way in WAYS:
        snapshot = load(*way)
        (segment,), (events,) = snapshot["segments"], snapshot["device_traces"]
        living, peak = replay(events)
        active = {block["address"]: block["size"] for block in segment["blocks"]
                  if block["state"] == "active_allocated"}
        assert active == living, way
        assert segment["allocated_size"] == sum(living.values())
        assert peak <= segment["total_size"]
        at = segment["address"]
        for block in segment["blocks"]:  # the viewer adds the sizes up to find the addresses
            assert block["address"] == at
            assert 0 <= block["requested_size"] <= block["size"]
            at += block["size"]
        assert at == segment["address"] + segment["total_size"]


def events_have_what_the_viewer_reads():
    for way in WAYS:
        (events,) = load(*way)["device_traces"]
        assert events[0]["action"] == "segment_alloc"
        assert "unknown" in {event["category"] for event in events}, "the page fails without it"
        times = [event["time_us"] for event in events]
        assert times == sorted(times)
        for event in events:
            assert event["addr"] + event["size"] < 2 ** 53, "JavaScript counts no further"
            for frame in event["frames"]:
                assert set(frame) == {"filename", "line", "name"}
        stacks = [event["frames"][0] for event in events if event["action"] == "alloc"]
        assert any(frame["filename"].startswith("layers.1.") and " -> " in frame["name"]
                   for frame in stacks), stacks[:3]


def a_measured_step_is_the_predicted_one():
    assert load("--device", "cpu") == load("--device", "cpu", "--measure")


def a_file_that_is_there_is_kept():
    with tempfile.TemporaryDirectory() as folder:
        path = write_snapshot(folder, "--device", "cpu")
        with open(path, "rb") as file:
            before = file.read()
        again = [DYNO, "memory", *MODEL, "--device", "cpu", "--pass", "forward", "--snapshot", path]
        refused = subprocess.run(again, capture_output=True, text=True, check=False)
        assert refused.returncode == 2 and "exists" in refused.stderr, refused.stderr
        with open(path, "rb") as file:
            assert file.read() == before
        subprocess.run(again + ["--force"], capture_output=True, check=True)
        with open(path, "rb") as file:
            assert file.read() != before
        assert os.listdir(folder) == ["snapshot.pickle"]


READER = """
import pickle, sys
try:
    from torch.cuda import _memory_viz as viz
except ImportError as error:
    sys.exit(f"no torch: {error}")
with open(sys.argv[1], "rb") as file:
    data = pickle.load(file)
print(viz.segsum(data))
print(viz.trace(data))
frames = []
viz.segments(data, format_flamegraph=frames.append)
viz.memory(data, format_flamegraph=frames.append)
assert len(frames) == 2 and all("layers" in text or "parameter" in text for text in frames), frames
for plot in (viz.trace_plot(data), viz.trace_plot(data, plot_segments=True), viz.segment_plot(data)):
    assert "snapshot.pickle" in plot and len(plot) > 1000
viz.trace_plot(data, filter_freed=True)
"""


def pytorchs_own_reader_renders_it():
    for way in WAYS:
        with tempfile.TemporaryDirectory() as folder:
            path = write_snapshot(folder, *way)
            result = subprocess.run([TORCH_PYTHON, "-c", READER, path], capture_output=True, text=True,
                                    check=False)
        if "no torch: " in result.stderr:
            raise Skip("it cannot be tested here: there is no PyTorch for the Python that runs this "
                       "(DYNO_TORCH_PYTHON names one)")
        assert result.returncode == 0, result.stderr
        assert "total_reserved" in result.stdout and "cudaMalloc" in result.stdout, result.stdout


run_all(every_allocation_is_released_or_in_the_segment,
        events_have_what_the_viewer_reads,
        a_measured_step_is_the_predicted_one,
        a_file_that_is_there_is_kept,
        pytorchs_own_reader_renders_it)
