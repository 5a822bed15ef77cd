"""Tests what scripts/attack takes for a bad end, and that its shim lets calls fail."""
import importlib.machinery
import importlib.util
import os
import struct
import subprocess
import tempfile

from cases import ROOT, run_all, run_script


def load():
    path = os.path.join(ROOT, "scripts", "attack")
    loader = importlib.machinery.SourceFileLoader("attack", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("attack", loader))
    loader.exec_module(module)
    return module


ATTACK = load()
GOOD = {"tree/in": b"in", "tree/out": b"out"}


def judge(files, code=0, said=""):
    """What check says of a run that ended so and left these files; "" where all is well."""
    with tempfile.TemporaryDirectory() as folder:
        ATTACK.clear(folder, files)
        result = subprocess.CompletedProcess([], code, b"", said.encode())
        try:
            ATTACK.check(result, folder, {"tree/in": b"in"}, GOOD)
        except ATTACK.Found as found:
            return str(found)
    return ""


def a_success_or_a_message_is_a_good_end():
    assert judge(GOOD) == ""
    assert judge({"tree/in": b"in"}, 1, "dyno: no space") == ""
    assert judge(GOOD, 1, "dyno: no space") == ""


def crashes_and_silence_are_found():
    assert "exit code -11" in judge(GOOD, -11, "dyno: x")
    assert "without a message" in judge(GOOD, 1)
    assert "Sanitizer" in judge(GOOD, 1, "dyno: x\nAddressSanitizer: leak")


def files_that_are_torn_lost_or_left_over_are_found():
    assert "tree/in is lost" in judge({}, 1, "dyno: x")
    assert "tree/in is torn" in judge({"tree/in": b"i"}, 1, "dyno: x")
    assert "tree/out is torn" in judge({"tree/in": b"in", "tree/out": b"ou"}, 1, "dyno: x")
    assert "left over" in judge({"tree/in": b"in", "tree/out.tmp-1": b""}, 1, "dyno: x")
    assert "left over" in judge({"tree/in": b"in", "tmp/dyno-build-1/log": b""}, 1, "dyno: x")
    assert "is not there" in judge({"tree/in": b"in"})


def whole_files_are_known_by_their_format():
    header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    tensors = struct.pack("<Q", len(header)) + header + b"abcd"
    assert ATTACK.is_whole("tree/a.safetensors", tensors, None)
    assert not ATTACK.is_whole("tree/a.safetensors", tensors[:-1], None)
    assert ATTACK.is_whole("tree/r/run.json", b'{"a": 1}', b'{"a": 2}')
    assert not ATTACK.is_whole("tree/r/run.json", b'{"a": 1', b'{"a": 2}')
    assert not ATTACK.is_whole("tree/r/run.json", b'{"b": 1}', b'{"a": 2}')


def the_shim_lets_the_call_fail_that_it_is_told():
    with tempfile.TemporaryDirectory() as folder:
        shim, log = os.path.join(folder, "shim.so"), os.path.join(folder, "log")
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", shim,
                        os.path.join(ROOT, "tests", "attack", "shim.c"), "-ldl"], check=True)
        for call, code in (("0", 0), ("1", 1), ("2", 1), ("99", 0)):
            if os.path.exists(log):
                os.unlink(log)
            result = subprocess.run(
                ["mkdir", f"{folder}/a{call}", f"{folder}/b{call}"], stderr=subprocess.PIPE, text=True,
                env=dict(os.environ, LC_ALL="C", LD_PRELOAD=shim, ATTACK_CALL=call, ATTACK_ERROR="28",
                         ATTACK_LOG=log), check=False)
            assert result.returncode == code, (call, result)
            assert ("No space left" in result.stderr) == (code == 1), result
            assert os.path.isdir(f"{folder}/a{call}") == (call != "1")
            with open(log, encoding="utf-8") as file:
                assert file.read().count("call mkdir") == 2


def parts_are_listed_and_chosen_by_name():
    listed = run_script("attack", "--list").stdout.split()
    assert {"mutations:config", "allocations:plan", "calls:bench"} <= set(listed), listed
    one = run_script("attack", "--list", "--only", "calls:bench", "--only", "mutations").stdout.split()
    assert "calls:bench" in one and "mutations:run" in one and "calls:plan" not in one, one
    wrong = run_script("attack", "--only", "nothing")
    assert wrong.returncode and "there is no 'nothing'" in wrong.stderr, wrong


run_all(a_success_or_a_message_is_a_good_end, crashes_and_silence_are_found,
        files_that_are_torn_lost_or_left_over_are_found, whole_files_are_known_by_their_format,
        the_shim_lets_the_call_fail_that_it_is_told, parts_are_listed_and_chosen_by_name)
