"""scripts/measure-compare: once with real runs, else with a program in place of dyno whose verdicts are known."""
import json
import os
import tempfile

from cases import run_all, run_script, write_file

DYNO = os.path.join(os.environ["DYNO_BUILD"], "dyno")
TINY = "bench --layers 1 --d-model 16 --d-ff 32 --heads 2 --vocab 64 --context 4 --pass step --steps 2 --peaks none"
# Asked to compare a command with itself, it prints the rows of the file beside it. Asked to compare the rounds
# again, it says SLOWER if B's steps of 100 ns became 103.
FAKE = """#!/usr/bin/env python3
import json, os, sys
words = sys.argv[2:]
if words[0] == "--run":
    kept = words[words.index("--out") + 1]
    for side in "ab":
        os.makedirs(f"{kept}/{side}/1")
        with open(f"{kept}/{side}/1/run.json", "w") as file:
            json.dump({"cells": [{"samples": {"step": {"unit": "ns", "values": [100]}}}]}, file)
    print(open(os.path.dirname(sys.argv[0]) + "/rows.json").read())
else:
    step = json.load(open(f"{words[1]}/1/run.json"))["cells"][0]["samples"]["step"]["values"]
    print(json.dumps([{"verdict": "SLOWER" if step == [103] else "SAME", "ratio": 1.03}]))
"""


def rows_of(text):
    """The Markdown tables in it, each a list of rows of texts."""
    tables = [block.splitlines() for block in text.strip().split("\n\n") if block.startswith("|")]
    return [[[cell.strip() for cell in line.strip("|").split("|")] for line in table] for table in tables]


def run_fake(rows, *arguments):
    """Each row is a verdict and a ratio."""
    with tempfile.TemporaryDirectory() as folder:
        write_file(f"{folder}/dyno", FAKE, mode=0o755)
        write_file(f"{folder}/rows.json", json.dumps([{"verdict": verdict, "ratio": ratio}
                                                      for verdict, ratio in rows]))
        return run_script("measure-compare", "--dyno", f"{folder}/dyno", *arguments)


def real_runs_give_a_table_of_verdicts_and_one_of_ratios():
    result = run_script("measure-compare", "--dyno", DYNO, "--tries", "1", "--rounds", "2", "--command", TINY,
                        timeout=300, env=dict(os.environ, DYNO_DEVICE="cpu"))
    assert result.returncode in (0, 1), result.stderr
    assert "try 1 of 1: with itself" in result.stderr, result.stderr
    assert TINY in result.stdout and "1 tries of 2 rounds" in result.stdout, result.stdout
    verdicts, ratios = rows_of(result.stdout)
    assert verdicts[0] == ["compared", "SAME", "UNDECIDED", "SLOWER", "FASTER", "right"], verdicts
    assert [row[0] for row in verdicts[2:]] == ["with itself", "3 % slower"], verdicts
    for row in verdicts[2:]:
        assert sum(int(count) for count in row[1:5]) == 1, row
        assert row[5] in ("0 %", "100 %"), row
    assert ratios[0] == ["B/A with itself", "5th percentile", "median", "95th percentile"], ratios
    low, median, high = (float(value) for value in ratios[2][1:])
    assert 0 < low == median == high, ratios


def verdicts_are_counted_and_ratios_summed_up():
    rows = [("SAME", 1 + i / 1000) for i in range(-10, 10)] + [("UNDECIDED", 1.01)]
    result = run_fake(rows, "--tries", "2")
    assert result.returncode == 0, result
    verdicts, ratios = rows_of(result.stdout)
    assert verdicts[2] == ["with itself", "40", "2", "0", "0", "100 %"], verdicts
    assert verdicts[3] == ["3 % slower", "0", "0", "2", "0", "100 %"], verdicts
    assert ratios[2] == ["over the tries", "0.9910", "1.0000", "1.0090"], ratios


def a_limit_that_is_missed_gives_exit_code_1():
    right = [("SAME", 1)] * 19
    assert run_fake(right + [("FASTER", 0.97)], "--tries", "1").returncode == 0  # 95 %
    result = run_fake(right + [("FASTER", 0.97), ("SLOWER", 1.03)], "--tries", "1")
    assert result.returncode == 1 and rows_of(result.stdout)[0][2][5] == "90 %", result
    result = run_fake(right, "--tries", "1", "--slow", "4")  # the program takes only 3 % for slower
    assert result.returncode == 1 and rows_of(result.stdout)[0][3] == ["4 % slower", "1", "0", "0", "0", "0 %"]


def bad_flags_and_failing_commands_give_exit_code_2():
    for words in (["--tries", "0"], ["--tries", "many"], ["--rounds", "1"], ["--slow", "0"], ["--slow", "nan"],
                  ["--dyno", "/no/such/program"], ["--dyno", "/"], ["--unknown"], ["something"]):
        result = run_script("measure-compare", "--dyno", DYNO, *words)
        assert result.returncode == 2 and result.stderr and not result.stdout, (words, result)
    result = run_script("measure-compare", "--dyno", DYNO, "--tries", "1", "--command", "bench --no-such-flag")
    assert result.returncode == 2 and "no-such-flag" in result.stderr, result


run_all(real_runs_give_a_table_of_verdicts_and_one_of_ratios, verdicts_are_counted_and_ratios_summed_up,
        a_limit_that_is_missed_gives_exit_code_1, bad_flags_and_failing_commands_give_exit_code_2)
