"""Runs bench/compare-torch with stand-ins for dyno and for the PyTorch worker."""
from cases import run_all, run_compare

DYNO = r"""#!/usr/bin/env python3
import json, sys
if "--version" in sys.argv:
    print("dyno 1.2.3")
    sys.exit()
if sys.argv[sys.argv.index("--model") + 1] == "unknown":
    print("dyno bench: no preset is called 'unknown'", file=sys.stderr)
    sys.exit(2)
print(json.dumps({"cells": [
    {"status": "OK", "reason": "", "parameters": {"pass": name},
     "samples": {"step": {"unit": "ns", "values": [2e6] * 3}}}
    for name in ("forward", "forward+backward", "step")]}))
"""
TORCH = r"""#!/usr/bin/env python3
import json, sys
def say(**fields):
    print(json.dumps(fields), flush=True)
say(torch="9.9", mode="eager", precision="fp32", threads=1, cpu_capability="none", python="3")
for line in sys.stdin:
    if line.strip() == "quit":
        say(peak_rss_bytes=2**30)
        break
    say(ms=4.0)
"""


def compare(*flags, torch=TORCH):
    return run_compare("compare-torch", DYNO, torch, "--rounds", "1", *flags)


def failure(result):
    """What it says last; before it are rounds that began."""
    assert result.returncode == 1 and result.stdout == "", result
    lines = result.stderr.splitlines()
    assert all(line.startswith("warm-up: ") for line in lines[:-1]), result
    return lines[-1]


def a_row_has_both_times_and_their_ratio():
    result = compare()
    assert result.returncode == 0, result
    assert "| step | 4.0 (4.0..4.0) | 2.0 (2.0..2.0) | 2.00 (2.00..2.00) |" in result.stdout, result


def what_is_missing_is_said_in_one_line():
    dead = "#!/bin/sh\necho 'Traceback' >&2\necho 'no module named torch' >&2\nexit 1\n"
    result = compare(torch=dead)
    assert failure(result) == "compare-torch: the PyTorch worker ended with 1 and said: no module " \
        "named torch; --torch-python names an interpreter that has torch", result
    result = compare("--dyno", "/nowhere")
    assert failure(result) == "compare-torch: cannot start /nowhere: No such file or directory; " \
        "build it, or name another with --dyno", result
    result = compare("--model", "unknown")
    assert failure(result) == "compare-torch: dyno ended with 2 and said: dyno bench: no preset is " \
        "called 'unknown'", result


run_all(a_row_has_both_times_and_their_ratio, what_is_missing_is_said_in_one_line)
