"""Runs dyno on terminals of several widths: no line is wider, and what is left out is said."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import tempfile
import termios

from cases import run_all

DYNO = os.path.join(os.environ["DYNO_BUILD"], "dyno")
MODEL = "--layers 1 --d-model 16 --heads 2 --d-ff 32 --vocab 32 --context 8"
VERBS = ("doctor", "list", "plan", "memory", "bench", "profile", "attention", "allreduce", "precision",
         "init", "step", "show")
LEFT_OUT = "left out to fit"


def on_terminal(arguments, columns, environment=None):
    """What `dyno ARGUMENTS` prints on a terminal that says it has so many columns (0: it does not say)."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    settings = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    settings.update(NO_COLOR="1", DYNO_DEVICE="cpu", **(environment or {}))
    with subprocess.Popen([DYNO] + arguments.split(), stdin=subprocess.DEVNULL, stdout=inner,
                          stderr=subprocess.PIPE, env=settings) as process:
        os.close(inner)
        output = b""
        while True:
            try:
                part = os.read(outer, 65536)
            except OSError:  # how Linux says that nobody has the terminal open any more
                part = b""
            if not part:
                break
            output += part
        assert process.wait() == 0, (arguments, process.stderr.read(), output)
    os.close(outer)
    return output.decode().replace("\r\n", "\n")


def piped(arguments):
    return subprocess.run([DYNO] + arguments.split(), check=True, capture_output=True, text=True,
                          env=dict(os.environ, DYNO_DEVICE="cpu", COLUMNS="40")).stdout


def widest(output):
    return max(len(line) for line in output.splitlines())


def tables_fit_the_terminal():
    with tempfile.TemporaryDirectory() as folder:
        piped(f"bench {MODEL} --mode eager,compiled --steps 1 --breakdown --out {folder}/bench")
        piped("attention --impl naive,flash --seq 8,16 --head-dim 8 --batch 1 --reps 1 "
              f"--out {folder}/attention")
        for columns in (80, 100, 200):
            for arguments in (f"show {folder}/bench --plot", f"show {folder}/attention",
                              f"plan {MODEL} --memory 1KiB", f"memory {MODEL} --memory 1KiB", "list", "precision"):
                output = on_terminal(arguments, columns)
                assert widest(output) <= columns, (arguments, columns, widest(output))
        bench = on_terminal(f"show {folder}/bench", 80)
        table = bench[:bench.index("by_class")]
        assert "median ms" in table and f"{LEFT_OUT} 80 columns: " in table, table
        assert re.search(r"^model \w.*, context 8, batch 4", table, re.MULTILINE), table


def wide_and_files_have_every_column():
    plan = f"plan {MODEL} --mode eager,compiled"
    whole = piped(plan)
    assert widest(whole) > 100 and LEFT_OUT not in whole
    assert on_terminal(plan + " --wide", 80) == whole
    assert on_terminal("list ops --wide", 80) == piped("list ops")
    for form in ("md", "csv"):
        shown = on_terminal(f"{plan} --format {form}", 80)
        assert shown.splitlines() == piped(f"{plan} --format {form}").splitlines(), shown


def the_width_is_the_terminals_then_that_of_columns_then_100():
    assert 60 < widest(on_terminal("list ops", 72, {"COLUMNS": "200"})) <= 72
    assert 100 < widest(on_terminal("list ops", 0, {"COLUMNS": "150"})) <= 150
    for bad in ("", "many", "-5", "0", "99999999999999999999"):
        assert 80 < widest(on_terminal("list ops", 0, {"COLUMNS": bad})) <= 100, bad
    assert 80 < widest(on_terminal("list ops", 0)) <= 100


def help_fits_the_terminal():
    for columns in (60, 80, 100):
        assert widest(on_terminal("--help", columns)) <= columns
        for verb in VERBS:
            output = on_terminal(f"{verb} --help", columns)
            assert widest(output) <= columns, (verb, columns)
    # A file has each example in one line.
    assert "--memory 32GiB --map\n" in piped("plan --help")


run_all(tables_fit_the_terminal, wide_and_files_have_every_column,
        the_width_is_the_terminals_then_that_of_columns_then_100, help_fits_the_terminal)
