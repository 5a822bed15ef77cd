"""Gives scripts/count-tests records as ctest writes them."""
import os
import tempfile
from xml.sax.saxutils import escape

from cases import run_all, run_script, write_file

TWO_PASSED = """[==========] Running 2 test(s).
[ RUN      ] first
[       OK ] first
[ RUN      ] second
[       OK ] second
[==========] 2 test(s) run.
[  PASSED  ] 2 test(s).
"""
ONE_OF_TWO_FAILED = """[==========] Running 2 test(s).
[ RUN      ] first
[       OK ] first
[ RUN      ] second
[  ERROR   ] --- 0x1 != 0x2
[   LINE   ] --- test.c:9: error: Failure!
[  FAILED  ] second
[==========] 2 test(s) run.
[  PASSED  ] 1 test(s).
[  FAILED  ] 1 test(s), listed below:
[  FAILED  ] second

 1 FAILED TEST(S)
"""
ONE_SKIPPED = """[ RUN      ] first
[  SKIPPED ] first
[ RUN      ] second
[       OK ] second
[  PASSED  ] 1 test(s).
[  SKIPPED ] 1 test(s), listed below:
[  SKIPPED ] first
"""
CRASHED_IN_SECOND = """[ RUN      ] first
[       OK ] first
[ RUN      ] second
"""
NOTHING_STARTED = """[==========] Running 7 test(s).
[  FAILED  ] GROUP SETUP
[  ERROR   ] group
"""


def run_count(*programs, ctest_status=None):
    """Each program is (status, output), and its name and seconds where they matter."""
    cases = ""
    for status, output, *more in programs:
        name, seconds = more or ("p", "0.5")
        cases += (f'<testcase name="{name}" time="{seconds}" status="{status}">'
                  f"<system-out>{escape(output)}</system-out></testcase>")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "results.xml")
        write_file(path, f"<testsuite>{cases}</testsuite>")
        return run_script("count-tests", path, *([ctest_status] if ctest_status else []))


def count(*programs, ctest_status=None):
    """Returns exit code and last line."""
    result = run_count(*programs, ctest_status=ctest_status)
    return result.returncode, result.stdout.splitlines()[-1]


def cases_are_summed_over_programs():
    assert count(("run", TWO_PASSED), ("run", TWO_PASSED)) == (0, "4 passed, 0 failed")


def failed_case_is_counted_once():
    assert count(("run", TWO_PASSED), ("fail", ONE_OF_TWO_FAILED)) == (1, "3 passed, 1 failed")


def skipped_case_is_neither_passed_nor_failed():
    assert count(("run", ONE_SKIPPED)) == (0, "1 passed, 0 failed")


def case_that_was_running_at_a_crash_has_failed():
    assert count(("fail", CRASHED_IN_SECOND)) == (1, "1 passed, 1 failed")


def program_that_fails_without_a_failed_case_is_a_failure():
    assert count(("fail", TWO_PASSED)) == (1, "2 passed, 1 failed")
    assert count(("fail", NOTHING_STARTED)) == (1, "0 passed, 1 failed")
    assert count(("fail", "")) == (1, "0 passed, 1 failed")


def program_without_cases_is_one_case():
    assert count(("run", "fine\n")) == (0, "1 passed, 0 failed")


def failure_of_ctest_itself_is_a_failure():
    assert count(("run", TWO_PASSED), ctest_status="8") == (1, "2 passed, 1 failed")
    assert count(("run", TWO_PASSED), ctest_status="0") == (0, "2 passed, 0 failed")


def missing_record_is_a_failure():
    result = run_script("count-tests", "/nonexistent/results.xml")
    assert result.returncode == 1, result
    assert result.stdout.splitlines()[-1] == "0 passed, 1 failed", result


def the_ten_slowest_programs_are_named():
    programs = [("run", TWO_PASSED, f"test_{i}", f"{i * 1.5}") for i in range(12)]
    lines = run_count(*programs).stdout.splitlines()
    assert lines[0] == "the 10 slowest of 12 test programs:", lines
    assert lines[1] == "    16.5 s  test_11" and lines[10] == "     3.0 s  test_2", lines
    assert lines[11:] == ["24 passed, 0 failed"], lines


def skipped_cases_are_grouped_by_reason():
    no_gpu = "no cuda here: there is no CUDA driver (libcuda.so.1); install it\n" + ONE_SKIPPED
    lines = run_count(("run", no_gpu, "test_cuda_a", "1"), ("run", no_gpu, "test_cuda_b", "1"),
                      ("run", ONE_SKIPPED, "test_c", "1")).stdout.splitlines()
    assert lines[-4:] == [
        "3 skipped:",
        "       2    no cuda here: there is no CUDA driver (test_cuda_a, test_cuda_b)",
        "       1    for a reason not given (test_c: first)",
        "3 passed, 0 failed"], lines


def cases_of_one_program_have_their_own_reasons():
    output = """[ RUN      ] first
it cannot be tested here: there is no GPU
[  SKIPPED ] first
[ RUN      ] second
[  SKIPPED ] second
[  SKIPPED ] 2 test(s), listed below:
[  SKIPPED ] first
[  SKIPPED ] second
"""
    lines = run_count(("run", output, "test_c", "1")).stdout.splitlines()
    assert lines[-4:] == [
        "2 skipped:",
        "       1    it cannot be tested here: there is no GPU (test_c)",
        "       1    for a reason not given (test_c: second)",
        "0 passed, 0 failed"], lines


run_all(cases_are_summed_over_programs, failed_case_is_counted_once,
        skipped_case_is_neither_passed_nor_failed, case_that_was_running_at_a_crash_has_failed,
        program_that_fails_without_a_failed_case_is_a_failure, program_without_cases_is_one_case,
        failure_of_ctest_itself_is_a_failure, missing_record_is_a_failure,
        the_ten_slowest_programs_are_named, skipped_cases_are_grouped_by_reason,
        cases_of_one_program_have_their_own_reasons)
