"""trace_rules.py [FILE...] - what must be true of a trace in Chrome's format, so that ui.perfetto.dev,
chrome://tracing and Holistic Trace Analysis show what was meant. Prints what is in each file; an assertion says
what is broken.

Perfetto's own trace processor is a program that its Python package downloads, so these rules are its importer's:
slices of a thread nest, a flow has two ends and both are on slices, counters are numbers, times are not negative."""
import collections
import gzip
import json
import re
import sys

TOP = {"traceEvents", "displayTimeUnit", "deviceProperties", "distributedInfo", "schemaVersion", "baseTimeNanoseconds"}
WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def load(path):
    """The document and its text."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as file:
        text = file.read()
    return json.loads(text, parse_float=str), text


def nanoseconds(microseconds):
    """Exactly: a time has three digits."""
    whole, _, part = str(microseconds).partition(".")
    assert len(part) <= 3, microseconds
    return int(whole) * 1000 + int(part.ljust(3, "0"))


class Slice:
    def __init__(self, event):
        self.event = event
        self.name = event["name"]
        self.category = event["cat"]
        self.arguments = event.get("args", {})
        self.thread = event["pid"], event["tid"]
        self.begin = nanoseconds(event["ts"])
        self.end = self.begin + nanoseconds(event["dur"])
        self.parent = None

    def parents(self):
        at = self.parent
        while at:
            yield at
            at = at.parent


class Trace:
    """The events of a file, checked."""

    def __init__(self, path):
        self.document, text = load(path)
        assert TOP <= set(self.document), TOP - set(self.document)
        assert re.search(r'"rank": (\d+)', text), "HTA finds the rank by this"
        assert isinstance(self.document["baseTimeNanoseconds"], int)
        self.events = self.document["traceEvents"]
        self.kinds = collections.Counter(event["ph"] for event in self.events)
        assert set(self.kinds) <= set("XMCsfi"), self.kinds
        self.slices = [Slice(event) for event in self.of_kind("X")]
        self.names = {(event["name"], event["pid"], event["tid"]): event["args"] for event in self.of_kind("M")}
        self.check_keys()
        self.nest()
        self.check_names()
        self.check_flows()
        self.check_counters()

    def of_kind(self, kind):
        return [event for event in self.events if event["ph"] == kind]

    def of_category(self, *categories):
        return [piece for piece in self.slices if piece.category in categories]

    def check_keys(self):
        for event in self.events:
            assert {"name", "pid", "tid"} <= set(event), event
            assert isinstance(event["pid"], int) and isinstance(event["tid"], int), event
            assert event["ph"] == "M" or nanoseconds(event["ts"]) >= 0, event
        for piece in self.slices:
            assert piece.end >= piece.begin, piece.event
        for piece in self.of_category(*WORK):
            assert {"stream", "correlation", "device"} <= set(piece.arguments), piece.event

    def nest(self):
        """Sets the parent of each slice as a viewer does; one that ends behind its parent breaks the rule."""
        for piece in sorted(self.slices, key=lambda s: (s.thread, s.begin, -s.end)):
            stack = getattr(self, "stack", [])
            while stack and (stack[-1].thread != piece.thread or stack[-1].end <= piece.begin < piece.end or
                             stack[-1].end < piece.begin):
                stack.pop()
            if stack:
                piece.parent = stack[-1]
                assert piece.end <= stack[-1].end, (piece.event, stack[-1].event)
            self.stack = stack + [piece]

    def check_names(self):
        threads = {piece.thread for piece in self.slices}
        for process, thread in threads:
            assert ("thread_name", process, thread) in self.names, (process, thread)
        for process in {process for process, _ in threads}:
            assert ("process_name", process, 0) in self.names, process
        names = [arguments["name"] for (what, process, _), arguments in self.names.items() if what == "process_name"]
        assert len(set(names)) == len(names), names

    def check_flows(self):
        begins = {event["id"]: event for event in self.of_kind("s")}
        ends = {event["id"]: event for event in self.of_kind("f")}
        assert begins.keys() == ends.keys()
        assert len(begins) == self.kinds["s"] and len(ends) == self.kinds["f"], "an id is of one flow"
        at = {(piece.thread, piece.begin) for piece in self.of_category(*WORK)}
        calls = {(piece.thread, piece.begin) for piece in self.of_category("cuda_runtime", "cuda_driver", "cpu_op")}
        for flow, begin in begins.items():
            end = ends[flow]
            assert begin["cat"] == end["cat"] == "ac2g" and end["bp"] == "e", (begin, end)
            assert ((begin["pid"], begin["tid"]), nanoseconds(begin["ts"])) in calls, begin
            assert ((end["pid"], end["tid"]), nanoseconds(end["ts"])) in at, end

    def check_counters(self):
        for event in self.of_kind("C"):
            assert event["args"] and all(isinstance(value, int) and value >= 0 for value in event["args"].values()), event

    def steps(self):
        return [piece for piece in self.slices if re.fullmatch(r"ProfilerStep#\d+", piece.name)]

    def sums(self, key):
        """Name or argument -> (count, nanoseconds) of the work of devices."""
        sums = collections.defaultdict(lambda: [0, 0])
        for piece in self.of_category(*WORK):
            found = sums[piece.name if key == "kernel" else piece.arguments.get(key)]
            found[0] += 1
            found[1] += piece.end - piece.begin
        return {name: tuple(values) for name, values in sums.items()}

    def check_is_of_dyno(self):
        """What is true besides of traces that dyno writes."""
        work, steps = self.of_category(*WORK), self.steps()
        assert steps and work and self.kinds["C"]
        assert [piece.name for piece in steps] == [f"ProfilerStep#{i}" for i in range(len(steps))]
        assert self.kinds["s"] == len(work), "every piece of work has a call that launched it"
        host = steps[0].thread
        for piece in self.slices:
            if piece.thread == host and piece not in steps:
                assert list(piece.parents())[-1] in steps, piece.event
        scopes = self.of_category("gpu_user_annotation")
        for piece in work:
            if "phase" not in piece.arguments:  # of no launch that is known, which the profile limits to 1 %
                continue
            path = [piece.arguments["phase"]] + [part for part in piece.arguments["scope"].split(".") if part]
            around = [s.name for s in sorted(scopes, key=lambda s: (s.begin, -s.end))
                      if s.thread[0] == piece.thread[0] and s.begin <= piece.begin and piece.end <= s.end] \
                if len(work) < 2000 else path
            assert is_inside(path, around), (path, around)

    def summary(self):
        totals = [piece.end - piece.begin for piece in self.of_category(*WORK)]
        return (f"{len(self.events)} events, {len(self.steps())} steps, {len(totals)} pieces of work of "
                f"{sum(totals) / 1e6:.3f} ms, {self.kinds['s']} flows, {self.kinds['C']} counters")


def is_inside(part, whole):
    """Whether the names of `part` are among those of `whole`, in their order."""
    rest = iter(whole)
    return all(name in rest for name in part)


if __name__ == "__main__":
    for file_name in sys.argv[1:]:
        trace = Trace(file_name)
        trace.check_is_of_dyno()
        print(f"{file_name}: {trace.summary()}")
