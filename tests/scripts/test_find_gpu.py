"""Runs cmake/find-gpu.cmake with stand-ins for nvidia-smi and for what the driver shows in /proc."""
import os
import subprocess
import tempfile
import time

from cases import ROOT, run_all, write_file

SCRIPT = """set(NVIDIA_SMI_SECONDS 1)
set(NVIDIA_PROC_GPUS {folder}/gpus)
include({root}/cmake/find-gpu.cmake)
find_gpu_architectures(found)
message("found: ${{found}}")
"""


def find(nvidia_smi=None, in_proc=False):
    """What is found where nvidia-smi is this shell script (None: it is not installed)."""
    with tempfile.TemporaryDirectory() as folder:
        write_file(os.path.join(folder, "find.cmake"), SCRIPT.format(folder=folder, root=ROOT))
        path = os.environ["PATH"]
        if nvidia_smi is not None:
            write_file(os.path.join(folder, "bin", "nvidia-smi"), f"#!/bin/bash\n{nvidia_smi}\n",
                       mode=0o755)
            path = os.path.join(folder, "bin") + ":" + path
        if in_proc:
            os.makedirs(os.path.join(folder, "gpus", "0000:01:00.0"))
        result = subprocess.run(["cmake", "-P", os.path.join(folder, "find.cmake")], text=True,
                                env={**os.environ, "PATH": path}, capture_output=True, check=False)
        assert result.returncode == 0, result
        return result.stderr.strip().removeprefix("found:").strip()


def code_is_built_for_the_gpu_that_is_there():
    for capability, architecture in (("8.0", "80-real"), ("8.6", "80-real"), ("8.9", "89-real"),
                                     ("9.0", "90a-real"), ("10.0", "90-virtual"),
                                     ("12.0", "90-virtual")):
        assert find(f"echo {capability}", in_proc=True) == architecture, capability


def several_gpus_are_named_once_each():
    assert find("printf '9.0\\n9.0\\n8.9\\n'") == "90a-real;89-real"


def a_gpu_that_is_too_old_is_none():
    assert find("echo 7.5", in_proc=True) == ""


def a_driver_without_a_gpu_is_none():
    assert find("echo 'NVIDIA-SMI has failed: driver 535.1 is not loaded'; exit 9") == ""
    assert find("echo 'No devices were found'; exit 6") == ""


def a_gpu_that_does_not_say_what_it_is_gets_all():
    assert find("echo '[N/A]'", in_proc=True) == "all"
    assert find("exit 1", in_proc=True) == "all"


def nvidia_smi_that_hangs_is_left():
    start = time.monotonic()
    assert find("exec sleep 60") == ""
    assert time.monotonic() - start < 30


run_all(code_is_built_for_the_gpu_that_is_there, several_gpus_are_named_once_each,
        a_gpu_that_is_too_old_is_none, a_driver_without_a_gpu_is_none,
        a_gpu_that_does_not_say_what_it_is_gets_all, nvidia_smi_that_hangs_is_left)
