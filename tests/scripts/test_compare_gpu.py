"""Runs bench/compare-gpu with stand-ins for dyno and for the PyTorch worker."""
from cases import run_all, run_compare

DYNO = r"""#!/usr/bin/env python3
import json, sys
if "--version" in sys.argv:
    print("dyno 1.2.3")
    sys.exit()
model = sys.argv[sys.argv.index("--model") + 1]
if sys.argv[sys.argv.index("--device") + 1] == "cuda:9":
    print("dyno bench: no GPU", file=sys.stderr)
    sys.exit(1)
if model == "unknown":
    print("dyno bench: no preset is called 'unknown'", file=sys.stderr)
    sys.exit(2)
status = "OOM" if model == "2.7B" else "OK"
cell = {"status": status, "reason": "needs 9 GiB", "metrics": {
            "reserved_bytes": {"unit": "B", "value": 2**31}},
        "samples": {"step": {"unit": "ns", "values": [3e6, 2e6, 4e6]}}}
print(json.dumps({"cells": [cell]}))
"""
TORCH = r"""#!/usr/bin/env python3
import json, sys
def say(**fields):
    print(json.dumps(fields), flush=True)
say(torch="9.9", cuda="13.0", cudnn=1, python="3", gpu="none")
for line in sys.stdin:
    words = line.split()
    if words[:2] == ["load", "xl"]:
        say(error="OOM")
    elif words[0] == "time":
        say(ms=[4.0] * int(words[2]), peak_bytes=2**30)
    elif words[0] == "floor":
        say(step_ms=1.5)
    else:
        say()
"""


def compare(models, *flags, torch=TORCH):
    return run_compare("compare-gpu", DYNO, torch, "--model", models, "--context", "64", "--rounds",
                       "2", *flags)


def row(result, model):
    found = [line for line in result.stdout.splitlines() if line.startswith(f"| {model} ")]
    assert len(found) == 1, result
    return [cell.strip() for cell in found[0].strip("|").split("|")]


def a_row_has_both_times_their_ratio_and_the_floor():
    result = compare("small")
    assert result.returncode == 0, result
    assert row(result, "small")[1:6] == [
        "4.00 (4.00..4.00)", "3.00 (2.00..4.00)", "0.75 (0.75..0.75)", "1.50", ""], result
    assert row(result, "small")[6:] == ["1.0", "2.0"], result
    assert "dyno 1.2.3" in result.stdout and "PyTorch 9.9" in result.stdout, result


def what_fails_on_one_side_leaves_the_other():
    result = compare("unknown,xl,2.7B,small")
    assert result.returncode == 0, result
    assert row(result, "unknown")[1:4] == ["4.00 (4.00..4.00)", "", ""], result
    assert row(result, "xl")[1:4] == ["", "3.00 (2.00..4.00)", ""], result
    assert row(result, "2.7B")[2] == "", result
    assert row(result, "small")[3] == "0.75 (0.75..0.75)", result
    for note in ("no preset is called 'unknown'", "PyTorch: OOM", "OOM: needs 9 GiB"):
        assert note in result.stdout, (note, result)


def what_cannot_be_is_refused():
    for flags in (("--context", "abc"), ("--context", "0"), ("--rounds", "0"), ("--steps", "0")):
        result = compare("small", *flags)
        assert result.returncode == 2 and "error: --" in result.stderr, result


def is_one_line(result, line):
    return result.returncode == 1 and result.stdout == "" and result.stderr == line + "\n"


def what_concerns_all_cells_is_said_once():
    for torch in (TORCH, "#!/bin/sh\nexit 1\n"):
        result = compare("small,medium", "--device", "cuda:9", torch=torch)
        assert is_one_line(result, "compare-gpu: dyno bench: no GPU"), result
    result = compare("small,medium", "--dyno", "/nowhere")
    assert is_one_line(result, "compare-gpu: cannot start /nowhere: No such file or directory; "
                               "build it, or name another with --dyno"), result


def dyno_is_timed_where_there_is_no_torch():
    for torch in ("#!/bin/sh\nexit 1\n", "#!/bin/sh\necho '{\"error\": \"no GPU\"}'\n"):
        result = compare("small", torch=torch)
        assert result.returncode == 0, result
        assert row(result, "small")[1:4] == ["", "3.00 (2.00..4.00)", ""], result
        assert "without PyTorch" in result.stderr, result


def nothing_measured_is_a_failure():
    assert compare("unknown").returncode == 1


run_all(a_row_has_both_times_their_ratio_and_the_floor, what_fails_on_one_side_leaves_the_other,
        what_cannot_be_is_refused, what_concerns_all_cells_is_said_once,
        dyno_is_timed_where_there_is_no_torch, nothing_measured_is_a_failure)
