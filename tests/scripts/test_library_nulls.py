"""Checks that tests/api/test_library_bad_calls.c passes NULL for every pointer of include/dyno.h that
may not be NULL, so that a new function is tested as well."""
import os
import re

from cases import ROOT, run_all

FUNCTION = re.compile(r"^dyno_status (dyno_\w+)\(([^;]*)\);", re.MULTILINE)
# Pointers of which the header says that they may be NULL.
OPTIONAL = {("dyno_list", "what"), ("dyno_list", "options"), ("dyno_plan_fits", "advice"),
            ("dyno_trainer_evaluate", "logits"), ("dyno_results_render", "options"),
            ("dyno_save_check", "loaded"), ("dyno_compare", "options"), ("dyno_comparison_render", "options"),
            ("dyno_suite_render", "options"),
            ("dyno_tensor_file_redeclare", "note")}


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def pointers():
    for function, parameters in FUNCTION.findall(read("include/dyno.h")):
        for parameter in parameters.split(","):
            if "*" in parameter:
                yield function, re.search(r"(\w+)\s*$", parameter).group(1)


def every_pointer_is_passed_as_null():
    tested = set(re.findall(r"NAMED\((\w+), (\w+),", read("tests/api/test_library_bad_calls.c")))
    wanted = set(pointers()) - OPTIONAL
    assert len(wanted) > 50, wanted
    assert wanted <= tested, sorted(wanted - tested)


def optional_pointers_exist():
    assert OPTIONAL <= set(pointers()), sorted(OPTIONAL - set(pointers()))


run_all(every_pointer_is_passed_as_null, optional_pointers_exist)
