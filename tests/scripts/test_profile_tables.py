"""bench/profile-tables: every cell that was asked for is in its tables, and nothing is measured twice."""
import os
import subprocess
import sys
import tempfile

from cases import ROOT, run_all

DYNO = os.path.join(os.environ["DYNO_BUILD"], "dyno")
TINY = "--layers 2 --d-model 32 --heads 2 --d-ff 64 --vocab 128"


def run_tables(folder, *arguments):
    return subprocess.run([sys.executable, "-B", os.path.join(ROOT, "bench", "profile-tables"), folder, "--dyno", DYNO,
                           "--device", "cpu", "--model", "small", "--context", "8,16", "--detail", "16", "--steps", "1",
                           "--dyno-flags", TINY, *arguments], text=True, capture_output=True, check=False)


def tables_have_every_context_and_way():
    with tempfile.TemporaryDirectory() as folder:
        result = run_tables(folder)
        assert result.returncode == 0, result.stderr
        tables = result.stdout.rstrip("\n").split("\n\n")
        assert len(tables) == 6, len(tables)
        for table, lines in zip(tables, (2, 2, 4, 4, 4, 2)):
            assert len(table.splitlines()) == 2 + lines, table
        for line in tables[4].splitlines()[2:]:  # products are part of every step, and none of the optimizer
            shares = [float(share) for share in line.split("|")[2:-1]]
            assert all(0 < share <= 100 for share in shares[:4]) and shares[4] == 0, line
        for line in tables[5].splitlines()[2:]:
            assert all(float(number) > 0 for number in line.split("|")[5:-1]), line
        assert run_tables(folder, "--dyno", "/bin/false").stdout == result.stdout  # all of it is in the records


def what_dyno_refuses_ends_it():
    with tempfile.TemporaryDirectory() as folder:
        result = run_tables(folder, "--device", "abacus")
        assert result.returncode == 1 and "abacus" in result.stderr, result


run_all(tables_have_every_context_and_way, what_dyno_refuses_ends_it)
