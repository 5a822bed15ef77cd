"""Builds small trees, good and bad, and runs scripts/check-includes on them."""
import os
import tempfile

from cases import ROOT, run_all, run_script, write_file

HEADERS = ["base/status.h", "tensor/shape.h", "graph/graph.h", "ops/op.h", "plan/plan.h",
           "compiler/pipeline.h", "runtime/executor.h", "profile/launch_log.h", "profile/cupti.h",
           "model/transformer.h", "measure/keys.h", "measure/results.h", "measure/sweep.h",
           "report/table.h", "train/trainer.h", "experiments/shared_flags.h",
           "experiments/sweep.h", "cli/verbs.h"]


def check(file, text):
    """Puts `text` into src/<file> of a tree with HEADERS; returns what check-includes says."""
    with tempfile.TemporaryDirectory() as root:
        for header in HEADERS:
            write_file(os.path.join(root, "src", header), "")
        write_file(os.path.join(root, "src", file), text)
        return run_script("check-includes", root)


def expect_allowed(file, *headers):
    result = check(file, "".join(f'#include "{header}"\n' for header in headers))
    assert (result.returncode, result.stdout) == (0, ""), result


def expect_refused(file, header):
    result = check(file, f'/* The first line. */\n#include "{header}"\n')
    assert result.returncode == 1, result
    assert result.stdout.startswith(f"src/{file}:2: "), result
    assert header in result.stdout and result.stdout.count("\n") == 1, result


def this_repository_keeps_its_directions():
    result = run_script("check-includes", ROOT)
    assert (result.returncode, result.stdout) == (0, ""), result.stdout


def downward_includes_are_allowed():
    expect_allowed("base/text.c", "base/status.h", "dyno.h")
    expect_allowed("ops/matmul/matmul.c", "ops/op.h", "graph/graph.h", "base/status.h")
    expect_allowed("compiler/passes/fuse.c", "ops/op.h", "plan/plan.h", "tensor/shape.h")
    expect_allowed("runtime/cpu/run.c", "ops/op.h", "plan/plan.h", "profile/launch_log.h")
    expect_allowed("train/loop.c", "compiler/pipeline.h", "model/transformer.h", "profile/cupti.h")
    expect_allowed("api/trainer.c", *(header for header in HEADERS if header != "cli/verbs.h"))
    expect_allowed("cli/bench.c", "cli/verbs.h", "dyno.h", "base/status.h",
                   "experiments/shared_flags.h")


def upward_includes_are_refused():
    expect_refused("base/text.c", "tensor/shape.h")
    expect_refused("graph/print.c", "ops/op.h")
    expect_refused("plan/costs.c", "graph/graph.h")
    expect_refused("train/loop.c", "measure/sweep.h")
    expect_refused("measure/sweep.c", "cli/verbs.h")
    expect_refused("formats/safetensors.c", "train/trainer.h")
    expect_refused("experiments/bench.c", "cli/verbs.h")
    expect_refused("api/trainer.c", "cli/verbs.h")


def the_command_line_is_made_of_the_public_header():
    for header in ("experiments/sweep.h", "train/trainer.h", "measure/results.h",
                   "report/table.h", "tensor/shape.h"):
        expect_refused("cli/bench.c", header)


def compiler_runtime_and_model_stay_apart():
    expect_refused("compiler/passes/fuse.c", "runtime/executor.h")
    expect_refused("compiler/passes/fuse.c", "model/transformer.h")
    expect_refused("runtime/run.c", "compiler/pipeline.h")
    expect_refused("runtime/run.c", "model/transformer.h")
    expect_refused("model/config.c", "plan/plan.h")
    expect_refused("model/config.c", "compiler/pipeline.h")


def one_header_of_a_directory_opens_only_itself():
    expect_allowed("report/html.c", "measure/keys.h", "measure/results.h", "base/status.h")
    expect_refused("report/html.c", "measure/sweep.h")
    expect_refused("report/html.c", "plan/plan.h")
    expect_refused("runtime/run.c", "profile/cupti.h")


def spacing_and_angle_brackets_hide_nothing():
    result = check("base/text.c", "#  include  <stdio.h>\n  #\tinclude  <tensor/shape.h>\n")
    assert result.returncode == 1 and "src/base/text.c:2: " in result.stdout, result


def paths_not_relative_to_src_are_refused():
    expect_refused("tensor/dtype.c", "shape.h")
    expect_refused("tensor/dtype.c", "../base/status.h")
    expect_refused("tensor/dtype.c", "base/no_such.h")
    expect_refused("model/config.c", "ops/../runtime/executor.h")


def unknown_directory_is_refused():
    result = check("misc/helpers.c", "")
    assert result.returncode == 1 and result.stdout.startswith("src/misc/helpers.c:1: "), result


def tree_without_sources_is_a_usage_error():
    with tempfile.TemporaryDirectory() as root:
        assert run_script("check-includes", root).returncode == 2


run_all(this_repository_keeps_its_directions, downward_includes_are_allowed,
        upward_includes_are_refused,
        the_command_line_is_made_of_the_public_header, compiler_runtime_and_model_stay_apart,
        one_header_of_a_directory_opens_only_itself, spacing_and_angle_brackets_hide_nothing,
        paths_not_relative_to_src_are_refused, unknown_directory_is_refused,
        tree_without_sources_is_a_usage_error)
