"""Runs bench/check-simulator with a stand-in for dyno."""
import os
import subprocess
import sys
import tempfile

from cases import ROOT, run_all, write_file

# Real steps take 10 ms a rank, of which another rank than 0 is slowest; simulated ones 9.5 ms, or as told.
DYNO = r"""#!/usr/bin/env python3
import json, os, sys
def value(flag):
    return sys.argv[sys.argv.index(flag) + 1]
verb = sys.argv[1]
if verb == "allreduce":
    assert value("--ranks") == "2,4", sys.argv
elif verb == "bench":
    ranks, ways = int(value("--ranks")), value("--parallel").split(",")
    cells = []
    for way in ways:
        samples = {"step": {"values": [1e6] * 3}}
        samples |= {f"rank.{r}": {"values": [2e6, ranks * 10e6 if r == ranks - 1 else 3e6]} for r in range(ranks)}
        if ranks == 1:
            samples["step"]["values"] = [10e6, 11e6]
        else:
            samples[f"rank.{ranks - 1}"]["values"][0] = 99e6
        cells.append({"status": os.environ.get("BENCH", "OK"), "reason": "no memory", "parameters": {"parallel": way},
                      "samples": samples})
    print(json.dumps({"cells": cells}))
else:
    print("ranks,parallel,status,step ms")
    for way in value("--parallel").split(","):
        for ranks in value("--ranks").split(","):
            print(f"{ranks},{way},OK,{float(os.environ.get('SIMULATED', 9.5)) * int(ranks)}")
"""


def check(*flags, **environment):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "dyno")
        write_file(path, DYNO, mode=0o755)
        return subprocess.run([sys.executable, "-B", os.path.join(ROOT, "bench", "check-simulator"), "--dyno", path,
                               "--rounds", "1", *flags], text=True, stdin=subprocess.DEVNULL, capture_output=True,
                              check=False, env=dict(os.environ, **environment))


def steps_that_agree_pass():
    result = check("--parallel", "ddp-flat,fsdp")
    assert result.returncode == 0, result
    assert "| 1 |  | 10.00 | 9.50 | -5.0 |" in result.stdout, result.stdout
    assert "| 4 | fsdp | 40.00 | 38.00 | -5.0 |" in result.stdout, result.stdout
    assert "the worst is 5.0 %, the limit 15 %" in result.stdout and "others used" in result.stdout


def steps_that_are_too_far_off_fail():
    result = check(SIMULATED="12")
    assert result.returncode == 1 and "the worst is 20.0 %" in result.stdout, result
    assert check("--limit", "25", SIMULATED="12").returncode == 0


def a_cell_that_is_not_ok_is_named():
    result = check(BENCH="OOM")
    assert result.returncode == 1 and "is OOM: no memory" in result.stderr, result


def wrong_flags_are_refused():
    assert check("--rounds", "0").returncode == 2
    assert "cannot start" in check("--dyno", "/nowhere/dyno").stderr


run_all(steps_that_agree_pass, steps_that_are_too_far_off_fail, a_cell_that_is_not_ok_is_named, wrong_flags_are_refused)
