"""Tests what dyno gives to a shell: completion, manual pages, and --watch, which follows a run."""
import os
import re
import shutil
import subprocess
import tempfile
import time

from cases import run_all

DYNO = os.path.join(os.environ["DYNO_BUILD"], "dyno")
TINY = "--layers 1 --d-model 16 --d-ff 32 --heads 2 --vocab 64".split()


def dyno(*words, code=0):
    result = subprocess.run([DYNO, *words], text=True, capture_output=True, check=False,
                            env=dict(os.environ, DYNO_DEVICE="cpu"), timeout=120)
    assert result.returncode == code, (words, result.returncode, result.stderr)
    return result.stdout


def verbs():
    lines = dyno("--help").splitlines()
    return [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]


def complete(*words):
    """What bash offers behind these words."""
    script = (dyno("completion", "bash") +
              'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dyno; printf "%s\\n" "${COMPREPLY[@]}"\n')
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(["bash", "-c", script, "bash", "dyno", *words], text=True, check=True,
                              capture_output=True, cwd=folder).stdout.split()


def bash_completes_verbs_flags_and_choices():
    assert complete("be") == ["bench"]
    assert set(verbs()) <= set(complete(""))
    assert complete("bench", "--conte") == ["--context"]
    assert complete("bench", "--mode", "") == ["eager", "compiled"]
    assert complete("show", "DIR", "--wat") == ["--watch"]
    assert complete("compare", "--format", "m") == ["md"]
    assert complete("bench", "--nothing") == []


def zsh_has_every_verb_and_flag():
    script = dyno("completion", "zsh")
    assert script.startswith("#compdef dyno\n")
    for verb in verbs():
        assert f"\n    {verb}) _arguments" in script, verb
    assert "'--mode[" in script and "(eager compiled)'" in script
    if shutil.which("zsh"):
        subprocess.run(["zsh", "-n"], input=script, text=True, check=True)


def other_shells_are_refused():
    dyno("completion", "fish", code=2)
    dyno("completion", code=2)


def every_verb_has_a_manual_page():
    for verb in verbs():
        page = dyno("man", verb)
        assert page.startswith(f".TH DYNO-{verb} 1 "), verb
        for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "FLAGS", "EXAMPLES"):
            assert f"\n.SH {heading}\n" in page, (verb, heading)
        if shutil.which("groff"):
            result = subprocess.run(["groff", "-man", "-Tascii", "-ww"], input=page, text=True, check=True,
                                    capture_output=True)
            plain = re.sub(r".\x08|\x1b\[[\d;]*m", "", result.stdout)  # bold, one way or the other
            assert not result.stderr and "--help" in plain, (verb, result.stderr)
    dyno("man", "bnch", code=2)


def help_groups_verbs_by_question():
    questions = [line for line in dyno("--help").splitlines() if line.endswith("?")]
    assert len(questions) >= 5, questions


def watch_follows_a_run_until_it_is_complete():
    with tempfile.TemporaryDirectory() as folder:
        run = [DYNO, "bench", *TINY, "--context", "4,8,16,32,64,128", "--steps", "40", "--out", folder]
        with subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=dict(os.environ, DYNO_DEVICE="cpu")) as process:
            for _ in range(600):
                if os.path.exists(f"{folder}/run.json") or process.poll() is not None:
                    break
                time.sleep(0.05)
            shown = dyno("show", folder, "--watch", "--format", "csv")
            assert process.wait() == 0
        last = shown[shown.rindex("model,"):]
        for context in ("4", "8", "16", "32", "64", "128"):
            assert f",{context}," in last, context
        assert dyno("show", folder, "--watch") == dyno("show", folder)  # complete: once
    dyno("show", "/nowhere", "--watch", code=1)


run_all(bash_completes_verbs_flags_and_choices, zsh_has_every_verb_and_flag, other_shells_are_refused,
        every_verb_has_a_manual_page, help_groups_verbs_by_question, watch_follows_a_run_until_it_is_complete)
