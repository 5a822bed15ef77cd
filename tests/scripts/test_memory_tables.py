"""bench/memory-tables: every cell that was asked for is in its tables, with a unit and its status."""
import os
import subprocess
import sys

from cases import ROOT, run_all

DYNO = os.path.join(os.environ["DYNO_BUILD"], "dyno")


def run_tables(*arguments):
    return subprocess.run([sys.executable, "-B", os.path.join(ROOT, "bench", "memory-tables"), "--dyno", DYNO,
                           *arguments], text=True, capture_output=True, check=False)


def tables_have_every_model_way_and_context():
    result = run_tables("--model", "small,medium", "--context", "64,4096", "--detail", "64", "--target", "4090")
    assert result.returncode == 0, result.stderr
    tables = result.stdout.rstrip("\n").split("\n\n")
    assert len(tables) == 5, len(tables)
    for table in tables[:2]:  # forward and step: two models in four ways
        lines = table.splitlines()
        assert "reserved GiB | context 64 | context 4096" in lines[0], lines[0]
        assert len(lines) == 2 + 2 * 4, table
    assert " OOM |" in tables[1] and " OOM |" not in tables[0].splitlines()[2], tables
    assert "| small | 4 x 4096 x 768 x 4 B | 48.00 |" in tables[2], tables[2]
    assert len(tables[3].splitlines()) == len(tables[4].splitlines()) == 2 + 2 * 2


def what_dyno_refuses_ends_it():
    result = run_tables("--target", "abacus")
    assert result.returncode == 1 and "abacus" in result.stderr, result


run_all(tables_have_every_model_way_and_context, what_dyno_refuses_ends_it)
