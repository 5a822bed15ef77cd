"""Runs `dyno profile --from` as a user does: on the traces of tests/traces, on exports of Nsight Systems
that are made here with what differs between versions and programs, and on files that are not traces."""
import csv
import gzip
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile

from cases import ROOT, run_all, write_file

DYNO = os.path.join(os.environ.get("DYNO_BUILD", os.path.join(ROOT, "build")), "dyno")
TRACES = os.path.join(ROOT, "tests", "traces")
sys.path.insert(0, TRACES)
import make_handmade  # noqa: E402


def profile(*arguments, **more):
    return subprocess.run([DYNO, "profile", *arguments], text=True, stdin=subprocess.DEVNULL,
                          capture_output=True, check=False, **more)


def trace(name):
    return os.path.join(TRACES, name)


def rows_of(*arguments):
    result = profile(*arguments, "--format", "csv")
    assert result.returncode == 0, result.stderr
    return list(csv.DictReader(io.StringIO(result.stdout)))


def phases_of(path):
    """phase -> (count, time in ms)"""
    return {row["phase"]: (int(row["count"]), float(row["time ms"])) for row in rows_of("--from", path, "--by", "phase")}


def expect_refused(code, part, *arguments):
    result = profile(*arguments)
    assert result.returncode == code and part in result.stderr, result
    assert result.stdout == "" and result.stderr.count("\n") <= 3, result


class Export:
    """An .sqlite file with the tables that it is given."""

    def __init__(self, folder, name="export.sqlite"):
        self.path = os.path.join(folder, name)
        self.database = sqlite3.connect(self.path)

    def table(self, name, columns, *rows):
        self.database.execute(f"CREATE TABLE {name} ({columns})")
        for row in rows:
            self.database.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)

    def close(self):
        self.database.commit()
        self.database.close()
        return self.path


THREAD = make_handmade.global_id(make_handmade.MAIN)
OTHER = make_handmade.global_id(make_handmade.AUTOGRAD)
OTHER_PROCESS = (77 << 24) | 77
KERNEL = "start, end, correlationId, globalPid, shortName"
CALL = "start, end, globalTid, correlationId"
RANGE = "start, end, eventType, text, globalTid"


def make_export(folder, kernels=(), calls=(), ranges=(), strings=((1, "k"),), range_columns=RANGE):
    """An export with these rows; each is one that nsys would have."""
    made = Export(folder)
    made.table("CUPTI_ACTIVITY_KIND_KERNEL", KERNEL, *kernels)
    made.table("CUPTI_ACTIVITY_KIND_RUNTIME", CALL, *calls)
    made.table("NVTX_EVENTS", range_columns, *ranges)
    made.table("StringIds", "id INTEGER PRIMARY KEY, value", *strings)
    return made.close()


def export(**rows):
    with tempfile.TemporaryDirectory() as folder:
        return phases_of(make_export(folder, **rows))


def host_of(path):
    """phase -> time of the host in its ranges, in ms; "all" is the steps"""
    result = profile("--from", path, "--format", "json")
    assert result.returncode == 0, result.stderr
    cell = json.loads(result.stdout)["cells"][0]
    found = {row["keys"][0]: row["values"][0] / 1e6 for row in cell["breakdowns"]["ranges"]["rows"]}
    return {**found, "all": cell["metrics"].get("marked_steps_ns", {"value": 0})["value"] / 1e6}


def write_json_trace(folder, *events, begin=""):
    path = os.path.join(folder, "trace.json")
    write_file(path, begin + json.dumps({"traceEvents": events}))
    return path


def json_event(category, name, begin, duration, thread=1, process=1, **arguments):
    return {"ph": "X", "cat": category, "name": name, "pid": process, "tid": thread, "ts": begin, "dur": duration,
            "args": arguments}


# ---- the same program in every format ----

def phases_are_the_same_in_every_format():
    expected = {"forward": (6, 0.12), "backward": (10, 0.223), "optimizer": (6, 0.0234), "load": (2, 0.004),
                "(unattributed)": (3, 0.002777)}
    for name in ("kineto-gpu.json", "nsys.sqlite", "nsys-old.sqlite"):
        found = phases_of(trace(name))
        assert found.keys() == expected.keys(), (name, found)
        for phase, (count, ms) in expected.items():
            assert found[phase][0] == count and abs(found[phase][1] - ms) < 1e-9, (name, phase, found)


def what_scripts_made_is_what_is_committed():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-B", trace("make_handmade.py"), "--out", folder], check=True)
        with open(os.path.join(folder, "kineto-gpu.json"), encoding="utf-8") as made, \
                open(trace("kineto-gpu.json"), encoding="utf-8") as kept:
            assert made.read() == kept.read()
        for name in ("nsys.sqlite", "nsys-old.sqlite", "nsys-bare.sqlite"):
            dumps = []
            for path in (os.path.join(folder, name), trace(name)):
                with sqlite3.connect(path) as database:
                    dumps.append(list(database.iterdump()))
                database.close()
            assert dumps[0] == dumps[1], name


def totals_and_counts_are_those_of_key_averages():
    for way in ("cpu-ranges", "cpu-plain", "cuda-ranges", "cuda-plain", "cuda-graph"):
        path = trace(f"pytorch-{way}.json.gz")
        with open(trace(f"pytorch-{way}.averages.json"), encoding="utf-8") as file:
            truth = [row for row in json.load(file)["rows"] if not row["is_user_annotation"]]
        device, time = ("CPU", "self_cpu_us") if way.startswith("cpu") else ("CUDA", "self_device_us")
        truth = {row["key"]: row for row in truth if row["device"] == device}
        found = {row["Name"]: row for row in rows_of("--from", path, "--by", "kernel")}
        assert found.keys() == truth.keys(), way
        for name, row in found.items():
            assert int(row["Instances"]) == truth[name]["count"], (way, name)
            assert abs(float(row["Total ms"]) - truth[name][time] / 1e3) < 1e-6, (way, name)


# ---- Nsight Systems ----

def kernel_belongs_to_the_range_of_its_launch_and_not_of_its_time():
    found = export(kernels=[(500, 600, 1, THREAD, 1)], calls=[(10, 20, THREAD, 1)],
                   ranges=[(0, 100, 59, "forward", THREAD), (400, 900, 59, "backward", THREAD)])
    assert found == {"forward": (1, 0.0001)}, found


def range_of_another_thread_counts_only_where_the_launching_thread_has_none():
    ranges = [(0, 1000, 59, "main", THREAD)]
    found = export(kernels=[(500, 600, 1, OTHER, 1)], calls=[(10, 20, OTHER, 1)], ranges=ranges)
    assert found == {"main": (1, 0.0001)}, found
    ranges.append((2000, 3000, 59, "own", OTHER))
    found = export(kernels=[(500, 600, 1, OTHER, 1)], calls=[(10, 20, OTHER, 1)], ranges=ranges)
    assert found == {"(unattributed)": (1, 0.0001)}, found


def ids_of_another_process_are_not_ours():
    found = export(kernels=[(500, 600, 1, OTHER_PROCESS, 1)], calls=[(10, 20, THREAD, 1)],
                   ranges=[(0, 100, 59, "forward", THREAD)])
    assert found == {"(unattributed)": (1, 0.0001)}, found


def ranges_may_be_open_at_the_end_or_started_and_ended_by_hand():
    found = export(kernels=[(500, 600, 1, THREAD, 1)], calls=[(10, 20, THREAD, 1)],
                   ranges=[(0, None, 59, "still open", THREAD)])
    assert found == {"still open": (1, 0.0001)}, found
    # They overlap: the one that began first is the outermost, as long as it lasts.
    with tempfile.TemporaryDirectory() as folder:
        path = make_export(folder, kernels=[(500, 600, n, THREAD, 1) for n in (1, 2, 3)],
                           calls=[(10, 15, THREAD, 1), (50, 60, THREAD, 2), (80, 90, THREAD, 3)],
                           ranges=[(0, 70, 60, "a", THREAD), (40, 100, 60, "b", THREAD), (75, 85, 60, "c", THREAD)])
        found, host = phases_of(path), host_of(path)
        scopes = {row["scope"]: row["phase"] for row in rows_of("--from", path, "--by", "scope")}
    assert found == {"a": (2, 0.0002), "b": (1, 0.0001)}, found
    assert host == {"a": 0.00007, "b": 0.00003, "all": 0}, host
    assert "b" in scopes and "c" in scopes and "a.b" not in scopes, scopes


def events_from_before_and_behind_the_recording_are_cut_off():
    found = export(kernels=[(500, 600, 1, THREAD, 1)], calls=[(10, None, THREAD, 1)],
                   ranges=[(-70, 100, 59, "forward", THREAD)])
    assert found == {"forward": (1, 0.0001)}, found


def ranges_of_emit_nvtx_are_operations():
    found = export(kernels=[(500, 600, 1, THREAD, 1), (600, 700, 2, OTHER, 1)],
                   calls=[(10, 20, THREAD, 1), (210, 220, OTHER, 2)],
                   ranges=[(5, 30, 59, "aten::mm, seq = 4, op_id = 8", THREAD),
                           (200, 300, 59, "autograd::engine::evaluate_function: MmBackward0, seq = 4, op_id = 9",
                            OTHER)])
    assert found == {"forward": (1, 0.0001), "backward": (1, 0.0001)}, found


def domains_of_libraries_name_no_phases():
    rows = [(0, 5, 75, "NCCL", THREAD, 3), (0, 5, 75, "cubes", THREAD, 4), (0, 5, 75, "cuBLAS", OTHER_PROCESS, 4),
            (0, 100, 59, "a collective", THREAD, 3), (200, 300, 59, "forward", THREAD, 4),
            (400, 500, 59, "default", THREAD, None)]
    with tempfile.TemporaryDirectory() as folder:
        path = make_export(folder, kernels=[(600 + n, 601 + n, n, THREAD, 1) for n in (1, 2, 3)],
                           calls=[(10, 20, THREAD, 1), (210, 220, THREAD, 2), (410, 420, THREAD, 3)],
                           ranges=rows, range_columns=RANGE + ", domainId")
        found = phases_of(path)
        scopes = {row["scope"] for row in rows_of("--from", path, "--by", "scope")}
    assert found == {"(unattributed)": (1, 1e-6), "forward": (1, 1e-6), "default": (1, 1e-6)}, found
    assert "a collective" in scopes, scopes
    # Where the export does not name the domain, the function does.
    found = export(kernels=[(500, 600, 1, THREAD, 1)], calls=[(10, 20, THREAD, 1)],
                   ranges=[(0, 100, 59, "ncclAllReduce", THREAD)])
    assert found == {"(unattributed)": (1, 0.0001)}, found
    found = export(kernels=[(500, 600, 1, THREAD, 1)], calls=[(10, 20, THREAD, 1)],
                   ranges=[(0, 100, 59, "nccl tests", THREAD)])
    assert found == {"nccl tests": (1, 0.0001)}, found


def the_host_of_several_processes_counts_once():
    with tempfile.TemporaryDirectory() as folder:
        ranges = [(step * 100 + begin, step * 100 + end, 59, name, thread)
                  for thread in (THREAD, OTHER_PROCESS) for step in range(2)
                  for begin, end, name in ((0, 90, f"step {step}"), (10, 50, "forward"))]
        ranges += [(20, 60, 59, "forward", OTHER)]  # beside the other thread of its process
        path = make_export(folder, kernels=[(500, 600, 1, THREAD, 1)], calls=[(20, 30, THREAD, 1)], ranges=ranges)
        assert host_of(path) == {"forward": 0.00009, "all": 0.00018}, host_of(path)


def a_range_may_have_the_name_of_a_row():
    for name in ("(unattributed)", "(all)"):
        found = export(kernels=[(500, 600, 1, THREAD, 1), (600, 700, 2, THREAD, 1)],
                       calls=[(10, 20, THREAD, 1), (300, 310, THREAD, 2)], ranges=[(0, 100, 59, name, THREAD)])
        assert found == {f"{name}, as a range": (1, 0.0001), "(unattributed)": (1, 0.0001)}, found


def marks_and_domains_are_no_ranges():
    found = export(kernels=[(500, 600, 1, THREAD, 1)], calls=[(10, 20, THREAD, 1)],
                   ranges=[(0, 100, 34, "mark", THREAD), (0, 100, 75, "domain", THREAD)])
    assert found == {"(unattributed)": (1, 0.0001)}, found


def export_without_ranges_strings_or_calls_is_read():
    rows = rows_of("--from", trace("nsys-bare.sqlite"), "--by", "kernel")
    assert [row["Name"] for row in rows] == ["(kernel without a name)"] and rows[0]["Instances"] == "23", rows


def export_with_copies_only_is_read():
    with tempfile.TemporaryDirectory() as folder:
        made = Export(folder)
        made.table("CUPTI_ACTIVITY_KIND_MEMCPY", "start, end, correlationId, bytes, copyKind",
                   (1, 11, 1, 8, 1), (20, 25, 2, 8, 2), (30, 31, 3, 8, 77))
        made.table("CUPTI_ACTIVITY_KIND_MEMSET", "start, end, correlationId, bytes, value", (40, 44, 4, 16, 0))
        made.table("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "start, end, correlationId, graphId", (50, 57, 5, 1))
        rows = rows_of("--from", made.close(), "--by", "kernel")
    assert {row["Name"]: float(row["Avg us"]) for row in rows} == {
        "[CUDA memcpy Host-to-Device]": 0.01, "[CUDA memcpy Device-to-Host]": 0.005, "[CUDA memcpy]": 0.001,
        "[CUDA memset]": 0.004, "[CUDA graph, recorded as a whole]": 0.007}, rows


def hostile_exports_get_an_error():
    cases = {
        "no column start": ("CUPTI_ACTIVITY_KIND_KERNEL", "a", (1,)),
        "no table of kernels": ("somebody", "a", (1,)),
        "is from 10 to 5 ns": ("CUPTI_ACTIVITY_KIND_KERNEL", KERNEL, (10, 5, 1, 0, 1)),
        "is from -3 to 5 ns": ("CUPTI_ACTIVITY_KIND_KERNEL", KERNEL, (-3, 5, 1, 0, 1)),
    }
    for part, (table, columns, row) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            made = Export(folder)
            made.table(table, columns, row)
            expect_refused(1, part, "--from", made.close())


def values_that_are_no_numbers_are_refused_and_named():
    kernels, calls, ranges = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
    bad = {"NULL": "NULL", "'abc'": "a text", "x'0102'": "a blob", "1.5": "a fraction"}
    cases = [(table, column, value) for value in bad
             for table, column in ((kernels, "start"), (kernels, "end"), (calls, "start"), (ranges, "start"))]
    cases += [(table, column, "'abc'") for table, column in ((kernels, "graphNodeId"), (kernels, "gridX"),
                                                             (kernels, "correlationId"), (calls, "correlationId"),
                                                             (kernels, "deviceId"), (kernels, "globalPid"),
                                                             (calls, "globalTid"), (calls, "end"), (ranges, "end"),
                                                             ("CUPTI_ACTIVITY_KIND_MEMCPY", "bytes"))]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.sqlite")
        for table, column, value in cases:
            shutil.copy(trace("nsys.sqlite"), path)
            with sqlite3.connect(path) as database:
                database.execute(f'UPDATE {table} SET "{column}" = {value} WHERE rowid = 2')
            database.close()
            expect_refused(1, f"'{path}', table {table}: row 2 has {bad[value]} as its {column}", "--from", path)


def values_that_an_export_may_lack_are_not_asked_for():
    kernels, ranges = "CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.sqlite")
        for table, column in ((kernels, "graphNodeId"), (kernels, "globalPid"), (kernels, "gridX"),
                              (kernels, "demangledName"), (ranges, "endGlobalTid"), (ranges, "textId"),
                              (ranges, "eventType"), ("CUPTI_ACTIVITY_KIND_RUNTIME", "end")):
            shutil.copy(trace("nsys.sqlite"), path)
            with sqlite3.connect(path) as database:
                database.execute(f'UPDATE {table} SET "{column}" = NULL WHERE rowid = 2')
            database.close()
            assert sum(count for count, _ in phases_of(path).values()) == 27, (table, column)


def what_has_no_correlation_is_attributed_to_nothing():
    before = phases_of(trace("nsys.sqlite"))["(unattributed)"][0]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.sqlite")
        for tables in (("CUPTI_ACTIVITY_KIND_KERNEL",), ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME")):
            shutil.copy(trace("nsys.sqlite"), path)
            with sqlite3.connect(path) as database:
                for table in tables:
                    database.execute(f"UPDATE {table} SET correlationId = NULL WHERE rowid = 2")
            database.close()
            phases = phases_of(path)
            assert sum(count for count, _ in phases.values()) == 27, phases
            assert phases["(unattributed)"][0] > before, phases


def strings_with_the_same_id_do_not_multiply_kernels():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.sqlite")
        shutil.copy(trace("nsys.sqlite"), path)
        with sqlite3.connect(path) as database:
            for sql in ("CREATE TABLE twice AS SELECT id, value FROM StringIds",
                        "INSERT INTO twice SELECT id, value || '!' FROM StringIds", "DROP TABLE StringIds",
                        "ALTER TABLE twice RENAME TO StringIds"):
                database.execute(sql)
        database.close()
        assert phases_of(path) == phases_of(trace("nsys.sqlite"))
        rows = rows_of("--from", path, "--by", "kernel")
        assert rows[0]["Name"] and "!" not in rows[0]["Name"], rows


def view_in_place_of_a_table_is_not_looked_into():
    with tempfile.TemporaryDirectory() as folder:
        made = Export(folder)
        made.database.execute("CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE x(start) AS (SELECT 1 "
                              "UNION ALL SELECT start + 1 FROM x) SELECT start, start AS end FROM x")
        path = made.close()
        result = profile("--from", path, timeout=60)
        assert result.returncode == 1 and "no table of kernels" in result.stderr, result


def view_among_the_tables_is_refused_and_not_dropped():
    with tempfile.TemporaryDirectory() as folder:
        for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "StringIds"):
            path = os.path.join(folder, table)
            shutil.copy(trace("nsys.sqlite"), path)
            with sqlite3.connect(path) as database:
                database.execute(f"ALTER TABLE {table} RENAME TO rows_of_it")
                database.execute(f"CREATE VIEW {table} AS SELECT * FROM rows_of_it")
            database.close()
            expect_refused(1, f"its {table} is a view", "--from", path)


def trace_without_work_is_refused():
    with tempfile.TemporaryDirectory() as folder:
        made = Export(folder)
        made.table("CUPTI_ACTIVITY_KIND_KERNEL", KERNEL)
        made.table("CUPTI_ACTIVITY_KIND_RUNTIME", CALL, (10, 20, THREAD, 1))
        made.table("NVTX_EVENTS", RANGE, (0, 100, 59, "forward", THREAD))
        expect_refused(1, "have no rows", "--from", made.close())
        path = os.path.join(folder, "a.json")
        write_file(path, json.dumps({"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": "forward", "pid": 1,
                                                      "tid": 1, "ts": 1, "dur": 2}]}))
        expect_refused(1, "no operations or kernels among its 1 events, only ranges", "--from", path)


def damaged_database_is_refused_and_nothing_is_written_beside_it():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.sqlite")
        with open(trace("nsys.sqlite"), "rb") as file:
            whole = file.read()
        for damage in (whole[:3000], whole[:100] + b"\xff" * 900 + whole[1000:]):
            with open(path, "wb") as file:
                file.write(damage)
            expect_refused(1, "no sound SQLite database", "--from", path)
        shutil.copy(trace("nsys.sqlite"), path)
        phases_of(path)
        assert os.listdir(folder) == ["a.sqlite"], os.listdir(folder)
        write_file(path + "-wal", "not yet in the file")
        expect_refused(2, "is being written", "--from", path)


def kernels_without_flops_have_no_rate():
    rows = {row["Name"]: row for row in rows_of("--from", trace("pytorch-cuda-ranges.json.gz"), "--by", "kernel")}
    rate = {part: [row["GFLOP/s"] for name, row in rows.items() if part in name]
            for part in ("sgemm_largek", "scal_kernel", "cublasLt::epilogue", "splitKreduce")}
    assert 100 < float(rate["sgemm_largek"][0]) < 1000, rate
    assert rate["scal_kernel"] == rate["cublasLt::epilogue"] == rate["splitKreduce"] == [""], rate


# ---- PyTorch ----

def kernel_without_a_correlation_joins_no_call():
    with tempfile.TemporaryDirectory() as folder:
        path = write_json_trace(folder, json_event("user_annotation", "load", 0, 50),
                                json_event("cuda_runtime", "cudaLaunchKernel", 10, 5),
                                json_event("cuda_runtime", "cudaLaunchKernel", 20, 5, correlation=1),
                                json_event("kernel", "k", 100, 2), json_event("kernel", "k", 110, 3, correlation=1))
        assert phases_of(path) == {"(unattributed)": (1, 0.002), "load": (1, 0.003)}, phases_of(path)


def a_range_elsewhere_does_not_take_the_forward_its_phase():
    operation = {"correlation": 1, "External id": 7}
    events = [json_event("cpu_op", "aten::mm", 10, 9, **{"External id": 7, "Sequence number": 4}),
              json_event("cuda_runtime", "cudaLaunchKernel", 11, 5, **operation),
              json_event("kernel", "gemm", 100, 2, **operation)]
    with tempfile.TemporaryDirectory() as folder:
        assert phases_of(write_json_trace(folder, *events)) == {"forward": (1, 0.002)}
        path = write_json_trace(folder, *events, json_event("user_annotation", "save", 500, 50))
        assert phases_of(path) == {"forward": (1, 0.002)}, phases_of(path)


def a_byte_order_mark_is_read_past():
    with tempfile.TemporaryDirectory() as folder:
        path = write_json_trace(folder, json_event("kernel", "k", 1, 2, correlation=1), begin="\ufeff")
        assert phases_of(path) == {"(unattributed)": (1, 0.002)}


def launches_of_others_have_no_column_of_names():
    rows = rows_of("--from", trace("kineto-gpu.json"), "--by", "launch")
    assert rows and "launch" not in rows[0] and rows[0]["kernel"], rows[0]


# ---- the command ----

def strange_names_of_files_are_read():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a b%20?#ü'.sqlite")
        shutil.copy(trace("nsys.sqlite"), path)
        assert phases_of(path)["forward"][0] == 6


def all_tables_are_printed_in_all_formats():
    for name in ("kineto-gpu.json", "nsys.sqlite", "pytorch-cpu-ranges.json.gz"):
        shown = profile("--from", trace(name)).stdout
        for title in ("host against device", "kernels", "other than matrix products", "matrix products and the rest",
                      "inside attention", "scopes", "how launches were attributed"):
            assert f"{title}: " in shown or f"{title}, " in shown, (name, title)
        for how in ("md", "csv", "json"):
            result = profile("--from", trace(name), "--format", how)
            assert result.returncode == 0 and "forward" in result.stdout, (name, how, result)
        json.loads(profile("--from", trace(name), "--format", "json").stdout)


def joins_by_process_and_the_top_kernels_are_told():
    shown = profile("--from", trace("kineto-gpu.json")).stdout
    assert "8  29.6  to the range open in the process" in shown, shown
    assert "the top kernel of the forward is void cutlass" in shown, shown
    assert "the top kernels of forward and backward are the same" in shown, shown
    assert "6 of them are of CUDA graphs" in shown, shown
    assert "the softmax takes 0.020 ms and the two products 0.100 ms" in shown, shown


def one_launch_and_one_step_are_told_in_the_singular():
    shown = profile("--from", trace("nsys.sqlite")).stdout
    assert "2 steps are marked; 1 launch is in none of them" in shown, shown
    with tempfile.TemporaryDirectory() as folder:
        made = Export(folder)
        made.table("CUPTI_ACTIVITY_KIND_KERNEL", KERNEL, (500, 600, 1, THREAD, 1), (700, 800, 2, THREAD, 1))
        made.table("CUPTI_ACTIVITY_KIND_RUNTIME", CALL, (310, 320, THREAD, 1), (330, 340, THREAD, 2))
        made.table("NVTX_EVENTS", RANGE, (0, 100, 59, "step 1", THREAD), (300, 350, 59, "forward", THREAD))
        shown = profile("--from", made.close()).stdout
    assert "1 step is marked; 2 launches are in none of them" in shown, shown


def each_grouping_has_the_same_time():
    for name in ("kineto-gpu.json", "nsys.sqlite"):
        for by in ("kernel", "class", "op", "scope", "launch"):
            rows = rows_of("--from", trace(name), "--by", by)
            time, count = ("Total ms", "Instances") if by == "kernel" else ("time ms", "count")
            assert abs(sum(float(row[time]) for row in rows) - 0.373177) < 1e-9, (name, by)
            assert sum(int(row[count]) for row in rows) == 27, (name, by)


def classes_of_a_file_come_first():
    with tempfile.TemporaryDirectory() as folder:
        rules = os.path.join(folder, "rules")
        write_file(rules, "# ours\ncutlass*sgemm, our products\n")
        rows = rows_of("--from", trace("nsys.sqlite"), "--classes", rules, "--by", "class")
        found = {row["class"]: int(row["count"]) for row in rows}
        assert found["our products"] == 10 and "matmul" not in found, found
        write_file(rules, "a, b\nno comma here\n")
        expect_refused(2, "line 2: 'no comma here' has no comma", "--from", trace("nsys.sqlite"), "--classes", rules)
        expect_refused(1, "cannot open", "--from", trace("nsys.sqlite"), "--classes", os.path.join(folder, "none"))


def run_is_kept_and_shown_again():
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "run")
        first = profile("--from", trace("nsys.sqlite"), "--out", out)
        assert first.returncode == 0, first
        again = subprocess.run([DYNO, "show", out], text=True, capture_output=True, check=False)
        assert again.returncode == 0 and again.stdout.splitlines()[:8] == first.stdout.splitlines()[:8], again
        with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
            run = json.load(file)
        assert run["complete"] and run["cells"][0]["metrics"]["joined_by_process"]["value"] == 8, run


def flags_that_do_not_go_together_are_usage_errors():
    expect_refused(2, "--model is for runs of dyno's own models", "--from", trace("nsys.sqlite"), "--model", "small")
    expect_refused(2, "--steps is for runs", "--from", trace("nsys.sqlite"), "--steps", "3")
    expect_refused(2, "--classes is for kernels of other programs", "--classes", "x")
    expect_refused(2, "--by", "--from", trace("nsys.sqlite"), "--by", "colour")


def files_that_are_no_traces_are_refused():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file")
        os.mkfifo(os.path.join(folder, "pipe"))
        expect_refused(1, "cannot open", "--from", path)
        expect_refused(2, "not a regular file", "--from", folder)
        expect_refused(2, "not a regular file", "--from", os.path.join(folder, "pipe"))
        for content, part in (("", "is empty"), ("hello", "is neither"), ("{}", "no \"traceEvents\""),
                              ('{"traceEvents": [{"ph": "X", "cat"', "line 1"), ('{"a": ' + "[" * 1000, "deeper than")):
            write_file(path, content)
            expect_refused(1, part, "--from", path)
        with open(path, "wb") as file:
            file.write(gzip.compress(b'{"traceEvents": []}' * 100)[:-20])
        expect_refused(1, "file", "--from", path)


def memory_does_not_grow_with_what_is_not_kept():
    """100 MB of events that are of no use, and long texts, in a process that may use 600 MB of addresses."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.json.gz")
        with gzip.open(path, "wt", compresslevel=1) as file:
            file.write('{"traceEvents": [')
            filler = json.dumps({"ph": "X", "cat": "python_function", "name": "x" * 100_000, "ts": 1, "dur": 1,
                                 "args": {"stack": "y" * 900_000}})
            for _ in range(100):
                file.write(filler + ",\n")
            file.write('{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "args": {"correlation": 1}}]}')
        limited = f"ulimit -v 600000; exec '{DYNO}' profile --from '{path}' --by phase --format csv"
        if os.environ.get("DYNO_SANITIZE"):
            limited = limited.split("; ")[1]
        result = subprocess.run(["bash", "-c", limited], text=True, capture_output=True, check=False,
                                env=dict(os.environ, OMP_NUM_THREADS="1"))
        assert result.returncode == 0 and "(unattributed),1,0.002," in result.stdout, result


run_all(phases_are_the_same_in_every_format, what_scripts_made_is_what_is_committed,
        totals_and_counts_are_those_of_key_averages,
        kernel_belongs_to_the_range_of_its_launch_and_not_of_its_time,
        range_of_another_thread_counts_only_where_the_launching_thread_has_none, ids_of_another_process_are_not_ours,
        ranges_may_be_open_at_the_end_or_started_and_ended_by_hand,
        events_from_before_and_behind_the_recording_are_cut_off, ranges_of_emit_nvtx_are_operations,
        domains_of_libraries_name_no_phases, the_host_of_several_processes_counts_once,
        a_range_may_have_the_name_of_a_row, marks_and_domains_are_no_ranges, export_without_ranges_strings_or_calls_is_read,
        export_with_copies_only_is_read, hostile_exports_get_an_error,
        values_that_are_no_numbers_are_refused_and_named, values_that_an_export_may_lack_are_not_asked_for,
        what_has_no_correlation_is_attributed_to_nothing,
        strings_with_the_same_id_do_not_multiply_kernels, view_in_place_of_a_table_is_not_looked_into,
        view_among_the_tables_is_refused_and_not_dropped, trace_without_work_is_refused,
        damaged_database_is_refused_and_nothing_is_written_beside_it, kernels_without_flops_have_no_rate,
        kernel_without_a_correlation_joins_no_call, a_range_elsewhere_does_not_take_the_forward_its_phase,
        a_byte_order_mark_is_read_past, launches_of_others_have_no_column_of_names,
        strange_names_of_files_are_read,
        all_tables_are_printed_in_all_formats, joins_by_process_and_the_top_kernels_are_told,
        one_launch_and_one_step_are_told_in_the_singular, each_grouping_has_the_same_time, classes_of_a_file_come_first, run_is_kept_and_shown_again,
        flags_that_do_not_go_together_are_usage_errors, files_that_are_no_traces_are_refused,
        memory_does_not_grow_with_what_is_not_kept)
