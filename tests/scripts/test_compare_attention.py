"""Runs bench/compare-attention with stand-ins for dyno and for the PyTorch worker."""
from cases import run_all, run_compare

DYNO = r"""#!/usr/bin/env python3
import json, sys
if "--version" in sys.argv:
    print("dyno 1.2.3")
    sys.exit()
def flag(name):
    return sys.argv[sys.argv.index(name) + 1]
assert sys.argv[1] == "attention" and flag("--impl") == "flash"
if flag("--seq") == "7":
    print("dyno attention: not of that length", file=sys.stderr)
    sys.exit(1)
if flag("--device") == "cuda:9":
    print("dyno attention: no GPU", file=sys.stderr)
    sys.exit(1)
def cell(name, **ms):
    return {"status": "OOM" if flag("--seq") == "9" else "OK", "reason": "needs 9 GiB",
            "parameters": {"pass": name},
            "samples": {key: {"unit": "ns", "values": [v * 1e6] * 3} for key, v in ms.items()}}
print(json.dumps({"cells": [cell("forward", step=1.0),
                            cell("forward+backward", step=3.0, backward=2.5)]}))
"""
TORCH = r"""#!/usr/bin/env python3
import json, sys
def say(**fields):
    print(json.dumps(fields), flush=True)
say(torch="9.9", cuda="13.0", cudnn=1, gpu="none")
for line in sys.stdin:
    words = line.split()
    if words[0] != "time":
        say()
    elif words[1] == "cudnn" and words[2] == "backward":
        say(error="OOM")
    else:
        say(ms=[2.0] * int(words[3]), captured=words[1] != "naive")
"""


def compare(*flags, torch=TORCH):
    return run_compare("compare-attention", DYNO, torch, "--rounds", "2", *flags)


def row(result, name, kind):
    found = [line for line in result.stdout.splitlines()
             if line.startswith(f"| {name} ") and f"| {kind} " in line]
    assert len(found) == 1, result
    return [cell.strip() for cell in found[0].strip("|").split("|")]


def every_pass_has_times_rates_and_ratios():
    result = compare("1,1,1000,100,full,bf16", "--peers", "flash2")
    assert result.returncode == 0, result
    name = "b1 h1 n1000 d100 full bf16"
    assert row(result, name, "forward")[2:] == ["1.0000 (0)", "2.0000 (0)", "0.50"], result
    assert row(result, name, "backward")[2:] == ["2.5000 (0)", "2.0000 (0)", "1.25"], result
    assert row(result, name, "both")[2:] == ["3.0000 (0)", "2.0000 (1)", "1.50"], result


def the_rate_counts_half_the_scores_of_a_causal_mask():
    full = compare("10,100,1000,100,full,bf16", "--no-torch")
    causal = compare("10,100,1000,100,causal,bf16", "--no-torch")
    assert row(full, "b10 h100 n1000 d100 full bf16", "forward")[2] == "1.0000 (400)", full
    assert row(causal, "b10 h100 n1000 d100 causal bf16", "forward")[2] == "1.0000 (200)", causal


def a_peer_that_fails_leaves_the_others():
    result = compare("1,2,3,4,causal,bf16")
    assert result.returncode == 0, result
    assert "cudnn: OOM" in result.stdout, result
    cells = row(result, "b1 h2 n3 d4 causal bf16", "both")
    assert cells[3].startswith("2.0000") and cells[5] == "1.50" and cells[6] == "", cells


def what_could_not_be_captured_is_said():
    result = compare("1,2,3,4,causal,fp32")
    assert "naive forward could not be captured" in result.stdout, result
    assert "efficient forward could" not in result.stdout, result


def a_row_that_dyno_cannot_do_says_why():
    result = compare("1,1,7,4,full,bf16", "1,1,8,4,full,bf16", "--no-torch")
    assert result.returncode == 0 and "said: dyno attention: not of that" in result.stdout, result
    assert row(result, "b1 h1 n8 d4 full bf16", "forward")[2] == "1.0000 (0)", result
    result = compare("1,1,7,4,full,bf16", "--no-torch")
    assert result.returncode == 1 and "said: dyno attention: not of that" in result.stdout, result
    result = compare("1,1,9,4,full,bf16", "--no-torch")
    assert result.returncode == 1 and "OOM: needs 9 GiB" in result.stdout, result


def is_one_line(result, line):
    return result.returncode == 1 and result.stdout == "" and result.stderr == line + "\n"


def what_concerns_all_rows_is_said_once():
    rows = ("1,1,5,4,full,bf16", "1,1,6,4,full,bf16")
    for torch in (TORCH, "#!/bin/sh\nexit 1\n"):
        result = compare(*rows, "--device", "cuda:9", torch=torch)
        assert is_one_line(result, "compare-attention: dyno attention: no GPU"), result
    result = compare(*rows, "--dyno", "/nothing")
    assert is_one_line(result, "compare-attention: cannot start /nothing: No such file or "
                               "directory; build it, or name another with --dyno"), result


def without_torch_dyno_is_timed_and_it_is_said_once():
    dead = "#!/bin/sh\necho 'no module named torch' >&2\nexit 1\n"
    dying = "#!/bin/sh\necho '{\"torch\": \"9\", \"cuda\": \"1\", \"cudnn\": 1}'\nexit 3\n"
    rows = ("1,1,5,4,full,bf16", "1,1,6,4,full,bf16")
    result = compare(*rows, torch=dead)
    assert result.returncode == 0 and result.stderr.count("without PyTorch") == 1, result
    assert "ended with 1 and said: no module named torch; --torch-python" in result.stderr, result
    result = compare(*rows, torch=dying)
    assert result.returncode == 0 and result.stdout.count("- b1 h1 n5") == 1, result
    assert "- b1 h1 n6" not in result.stdout, result


def rows_that_are_none_are_refused():
    for word in ("1,2,3", "1,2,3,4,causal", "1,2,3,4,some,bf16", "1,2,3,4,full,fp8", "a,2,3,4,full,bf16",
                 "0,2,3,4,full,bf16"):
        result = compare(word)
        assert result.returncode == 2 and "is no row" in result.stderr, result


run_all(every_pass_has_times_rates_and_ratios, the_rate_counts_half_the_scores_of_a_causal_mask,
        a_peer_that_fails_leaves_the_others, what_could_not_be_captured_is_said,
        a_row_that_dyno_cannot_do_says_why, what_concerns_all_rows_is_said_once,
        without_torch_dyno_is_timed_and_it_is_said_once, rows_that_are_none_are_refused)
