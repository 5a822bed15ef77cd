"""Runs scripts/gpu-check on a pack of stand-ins: a dyno that prints what it is told, and test
programs that pass, fail, crash and hang."""
import os
import shutil
import subprocess
import tempfile

from cases import ROOT, run_all, run_script, write_file

DOCTOR_LINE = "cuda:0    bf16 TFLOP/s   700.0  large products"
# Losses of `dyno step`: those of the CPU, times $OFF on a GPU. `dyno init` makes its directory.
DYNO = r"""#!/bin/bash
case $1 in
doctor) echo "%(doctor)s" ;;
init) mkdir -p "${@: -1}" ;;
step)
    device=cpu steps=1
    while [[ $# -gt 0 ]]; do
        [[ $1 == --device ]] && device=$2
        [[ $1 == --steps ]] && steps=$2
        shift
    done
    awk -v n="$steps" -v off="$([[ $device == cpu ]] && echo 1 || echo %(off)s)" \
        'BEGIN { for (i = 0; i < n; i++) printf "step %%d  loss %%.6f\n", i, 5 * off / (1 + i) }'
    ;;
esac
"""
PASSES = "echo '[ RUN      ] a'; echo '[       OK ] a'"
FAILS = "echo '[ RUN      ] b'; echo 'ERROR: b is wrong'; echo '[  FAILED  ] b'; exit 1"
CRASHES = "echo '[ RUN      ] c'; kill -SEGV $$"
SKIPS = ("echo 'no cuda here: there is no CUDA driver'; echo '[ RUN      ] d'; "
         "echo '[  SKIPPED ] d'; echo '[  SKIPPED ] 1 test(s), listed below:'; "
         "echo '[  SKIPPED ] d'")


# Runs the program, then finds errors, hangs or is broken, depending on the tool and the program.
SANITIZER = r"""#!/bin/bash
tool=$2
while [[ $1 == -* ]]; do shift 2; done
"$@"
status=$?
case "$tool ${1##*/}" in
"racecheck test_cuda_kernels" | "racecheck test_cuda_model")
    echo '========= Error: Race reported between Write access at nvjet_sm90_tst+0x10'
    echo '=========     and Read access at nvjet_sm90_tst+0x20 [16 hazards]'
    [[ $1 == *_kernels ]] || echo '========= Error: Race reported between Write access at backward+0x30'
    echo '========= RACECHECK SUMMARY: 2 hazards displayed (2 errors)'
    exit 9
    ;;
"synccheck test_cuda_model") exec sleep 100 ;;
"memcheck test_cuda_products") echo 'cannot attach'; exit 1 ;;
*) echo '========= ERROR SUMMARY: 0 errors' ;;
esac
exit $status
"""


def check(only, tests=None, doctor=DOCTOR_LINE, off="1", cpu=None):
    with tempfile.TemporaryDirectory() as folder:
        pack = os.path.join(folder, "pack")
        write_file(os.path.join(pack, "dyno"), DYNO % {"doctor": doctor, "off": off}, mode=0o755)
        for name, body in (tests or {}).items():
            write_file(os.path.join(pack, f"test_cuda_{name}"), f"#!/bin/bash\n{body}\n", mode=0o755)
        for name, body in (cpu or {}).items():
            write_file(os.path.join(pack, "cpu", name), f"#!/bin/bash\n{body}\n", mode=0o755)
        environment = {name: value for name, value in os.environ.items()
                       if name != "DYNO_TEST_DEVICE"}
        tools = os.path.join(folder, "tools")
        write_file(os.path.join(tools, "compute-sanitizer"), SANITIZER, mode=0o755)
        environment["PATH"] = tools + ":" + environment["PATH"]
        environment["SANITIZE_SECONDS"] = "2"
        return run_script("gpu-check", "--dir", pack, "--only", only, "--out",
                          os.path.join(folder, "out"), env=environment)


# Stands in for both calls of cmake: notes the call, and "builds" what a pack holds.
CMAKE = r"""#!/bin/bash
echo "cmake $*" >> calls
[[ $1 == --build ]] || exit 0
for made in dyno libdyno_cuda.so tests/test_cuda_a tests/test_b tests/libnvtx_recorder.so; do
    install -D "$(type -P true)" "$2/$made"
done
"""


def make_pack(install_deps="exit 0"):
    """Makes a pack in a tree that holds gpu-check alone. Returns the result, what was called in
    turn, and what is in the pack."""
    with tempfile.TemporaryDirectory() as tree:
        write_file(os.path.join(tree, "scripts", "install-deps"),
                   f'#!/bin/bash\necho "install-deps $*" >> calls\n{install_deps}\n', mode=0o755)
        write_file(os.path.join(tree, "tools", "cmake"), CMAKE, mode=0o755)
        write_file(os.path.join(tree, "tests", "ops", "test_b.c"), "")
        script = shutil.copy(os.path.join(ROOT, "scripts", "gpu-check"), os.path.join(tree, "scripts"))
        path = os.path.join(tree, "tools") + ":" + os.environ["PATH"]
        result = subprocess.run([script, "--pack", "pack", "--arch", "90a"], text=True, cwd=tree,
                                env={**os.environ, "PATH": path}, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        with open(os.path.join(tree, "calls"), encoding="utf-8") as calls:
            called = calls.read().splitlines()
        pack = os.path.join(tree, "pack")
        return result, called, sorted(
            os.path.relpath(os.path.join(folder, name), pack)
            for folder, _, names in os.walk(pack) for name in names)


def lines_with(result, text):
    return [line for line in result.stdout.splitlines() if text in line]


def all_that_passes_is_said_at_the_end():
    result = check("doctor,tests", {"kernels": PASSES, "memory": PASSES})
    assert result.returncode == 0, result
    assert result.stdout.endswith("gpu-check: all checks passed\n"), result.stdout
    assert len(lines_with(result, "1 passed, 0 failed, 0 skipped")) == 2, result.stdout


def a_failure_is_shown_and_fails_the_whole():
    result = check("tests", {"kernels": PASSES, "model": FAILS})
    assert result.returncode == 1, result
    assert lines_with(result, "ERROR: b is wrong"), result.stdout
    assert "FAILED" in lines_with(result, "tests     test_cuda_model")[0], result.stdout
    assert "ok" in lines_with(result, "tests     test_cuda_kernels")[0], result.stdout


def kernels_of_the_cpu_are_tested_on_this_host():
    result = check("cpu", cpu={"test_gemm": PASSES, "test_matmul": FAILS})
    assert result.returncode == 1, result
    assert "ok" in lines_with(result, "cpu       test_gemm")[0], result.stdout
    assert "FAILED" in lines_with(result, "cpu       test_matmul")[0], result.stdout
    result = check("cpu")
    assert result.returncode == 1 and lines_with(result, "there is none in"), result.stdout


def traces_and_ranges_of_profiles_are_tested_on_the_gpu():
    result = check("traces")  # the stand-in for dyno writes no trace
    assert result.returncode == 1, result
    assert "FAILED" in lines_with(result, "traces    test_profile_nvtx")[0], result.stdout
    assert "FAILED" in lines_with(result, "traces    test_profile_trace")[0], result.stdout


def a_crash_counts_as_a_failure():
    result = check("tests", {"model": CRASHES})
    assert result.returncode == 1, result
    assert lines_with(result, "0 passed, 1 failed"), result.stdout


def a_machine_without_a_gpu_does_not_pass():
    result = check("tests", {"model": SKIPS})
    assert result.returncode == 1, result
    assert lines_with(result, "there is no CUDA driver"), result.stdout
    result = check("doctor", doctor="gpu  GPUs  none  there is no CUDA driver")
    assert result.returncode == 1, result


def losses_are_compared_with_those_of_the_cpu():
    assert check("step,train").returncode == 0
    result = check("step,train", off="1.001")  # too far for fp32, near enough for bf16
    assert result.returncode == 1, result
    assert all("FAILED" in line for line in lines_with(result, "dyno step,")), result.stdout
    assert all("ok" in line for line in lines_with(result, "300 steps,")), result.stdout
    result = check("train", off="1.02")
    assert result.returncode == 1, result


def sanitizers_are_clean_find_errors_or_do_not_end():
    result = check("sanitize", {"kernels": PASSES, "memory": PASSES, "model": PASSES,
                                "products": PASSES, "quick": "test -n \"$DYNO_TEST_QUICK\""})
    assert result.returncode == 1, result
    rows = {line[10:54].strip(): line[55:] for line in lines_with(result, "sanitize  ")}
    assert len(rows) == 3 * (2 + 5), rows
    assert rows["test_cuda_model, racecheck"].startswith("FAILED  errors: 2 hazards"), rows
    assert rows["test_cuda_kernels, racecheck"].startswith("ok      clean but for cuBLASLt"), rows
    assert rows["test_cuda_model, synccheck"].startswith("did not end in 2 s"), rows
    assert rows["test_cuda_products, memcheck"].startswith("does not work here: cannot"), rows
    clean = [name for name, row in rows.items() if row.startswith("ok      clean")]
    assert len(clean) == 3 * 7 - 3, rows
    result = check("sanitize", {"kernels": FAILS})
    assert result.returncode == 1, result
    assert "the program ended with 1" in lines_with(result, "test_cuda_kernels, memcheck")[0], result


def an_unknown_section_is_refused():
    result = check("docter")
    assert result.returncode == 2, result
    assert "there is no section 'docter'" in result.stderr, result
    assert result.stdout == "", result  # said before anything is built or run


def what_cannot_be_is_refused_before_anything_is_built():
    for flags, said in ((["--bogus"], "there is no flag '--bogus'"),
                        (["doctor"], "there is no flag 'doctor'"),
                        (["--only"], "--only wants a value"),
                        (["--only", "bench,foo"], "there is no section 'foo'"),
                        (["--torch-seconds", "soon"], "'soon' is no whole number"),
                        (["--dir", "/nowhere"], "there is no dyno in '/nowhere'")):
        result = run_script("gpu-check", *flags)
        assert result.returncode == 2 and said in result.stderr, result
        assert result.stdout == "", result


def what_a_pack_needs_is_installed_before_it_is_built():
    result, called, pack = make_pack()
    assert result.returncode == 0, result
    assert called[0] == "install-deps test" and len(called) == 3, called
    assert " -DDYNO_CUDA=on " in called[1] and "-DDYNO_CUDA_ARCHITECTURES=90a-real" in called[1], called
    assert called[2].startswith("cmake --build") and "cuda_tests cpu_tests" in called[2], called
    assert {"dyno", "libdyno_cuda.so", "libnvtx_recorder.so", "libcmocka.so.0", "test_cuda_a", "cpu/test_b",
            "PACK"} <= set(pack), pack


def a_pack_is_not_begun_where_its_needs_cannot_be_installed():
    result, called, pack = make_pack(install_deps="exit 1")
    assert result.returncode == 2 and "make a pack elsewhere" in result.stderr, result
    assert called == ["install-deps test"] and pack == [], called


run_all(all_that_passes_is_said_at_the_end, a_failure_is_shown_and_fails_the_whole,
        kernels_of_the_cpu_are_tested_on_this_host,
        traces_and_ranges_of_profiles_are_tested_on_the_gpu,
        a_crash_counts_as_a_failure, a_machine_without_a_gpu_does_not_pass,
        losses_are_compared_with_those_of_the_cpu, sanitizers_are_clean_find_errors_or_do_not_end,
        an_unknown_section_is_refused, what_cannot_be_is_refused_before_anything_is_built,
        what_a_pack_needs_is_installed_before_it_is_built,
        a_pack_is_not_begun_where_its_needs_cannot_be_installed)
