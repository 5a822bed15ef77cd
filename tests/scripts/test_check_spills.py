"""Gives scripts/check-spills what ptxas says, and scripts/keep-ptxas-output compilers to listen to."""
import os
import tempfile

from cases import run_all, run_script, write_file

ENTRY = """ptxas info    : Compiling entry function '{0}' for 'sm_90a'
ptxas info    : Function properties for {0}
    {1} bytes stack frame, {1} bytes spill stores, {2} bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers
"""


def check(**files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            write_file(os.path.join(root, "deep", name + ".cu.o.ptxas"), text)
        return run_script("check-spills", root)


def kernels_without_spills_pass():
    result = check(a=ENTRY.format("one", 0, 0) + ENTRY.format("two", 0, 0), b=ENTRY.format("x", 0, 0))
    assert result.returncode == 0, result
    assert result.stdout == "3 kernels, 0 spill\n", result


def a_kernel_that_spills_is_named():
    result = check(a=ENTRY.format("good", 0, 0) + ENTRY.format("bad", 16, 24))
    assert result.returncode == 1, result
    assert result.stdout == "a.cu.o: bad for sm_90a spills 40 bytes\n2 kernels, 1 spill\n", result


def functions_that_are_not_kernels_do_not_count():
    device = "ptxas info    : Function properties for helper\n" \
             "    8 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\n"
    result = check(a=ENTRY.format("good", 0, 0) + device)
    assert result.returncode == 0, result


def nothing_to_read_is_a_failure():
    assert check().returncode == 1
    assert run_script("check-spills", "/nowhere").returncode == 2


def what_ptxas_says_is_kept_and_the_rest_is_shown():
    with tempfile.TemporaryDirectory() as root:
        compiler, target = os.path.join(root, "nvcc"), os.path.join(root, "a.o")
        write_file(compiler, "#!/bin/sh\ncat >&2 <<'END'\n" + ENTRY.format("one", 0, 0) +
                   "a.cu(3): warning: unused\nEND\nexit 3\n", 0o755)
        result = run_script("keep-ptxas-output", compiler, "-c", "a.cu", "-o", target)
        assert result.returncode == 3, result
        assert result.stderr == "a.cu(3): warning: unused\n", result
        with open(target + ".ptxas", encoding="utf-8") as kept:
            assert kept.read() == ENTRY.format("one", 0, 0)


run_all(kernels_without_spills_pass, a_kernel_that_spills_is_named,
        functions_that_are_not_kernels_do_not_count, nothing_to_read_is_a_failure,
        what_ptxas_says_is_kept_and_the_rest_is_shown)
