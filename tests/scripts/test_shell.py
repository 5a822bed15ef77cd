"""Tests what dyno gives to a shell: completion, manual pages, and --watch, which follows a run."""
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time

from cases import ROOT, Skip, run_all

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


def fill(folder):
    """Names that a shell could mistake for a value of any flag."""
    os.mkdir(os.path.join(folder, "small dir"))
    for name in ("small file", "forward.json"):
        with open(os.path.join(folder, name), "w", encoding="utf-8"):
            pass


def complete(*words):
    """What bash offers behind these words, in a folder with a file and a directory of names like values."""
    script = (dyno("completion", "bash") +
              'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dyno; printf "%s\\n" "${COMPREPLY[@]}"\n')
    with tempfile.TemporaryDirectory() as folder:
        fill(folder)
        result = subprocess.run(["bash", "-c", script, "bash", "dyno", *words], text=True, check=True,
                                capture_output=True, cwd=folder)
    assert not result.stderr, (words, result.stderr)
    return [line for line in result.stdout.split("\n") if line]  # names may have spaces


def type_in_zsh(line):
    """What zsh has on its screen after `line` and a tab, in the same folder."""
    with tempfile.TemporaryDirectory() as folder:
        fill(folder)
        functions = os.path.join(folder, ".functions")
        os.mkdir(functions)
        with open(os.path.join(functions, "_dyno"), "w", encoding="utf-8") as file:
            file.write(dyno("completion", "zsh"))
        setup = (f"PS1='> '; fpath=({functions} $fpath); autoload -U compinit; compinit -u -D; cd {folder}; "
                 "setopt NO_BEEP LIST_AMBIGUOUS; LISTMAX=0; zstyle ':completion:*' menu no\n")
        return talk(["zsh", "-f", "-i"], setup, line + "\t")


def talk(command, setup, typed):
    """What the shell answers to `typed`; it is typed once `setup` is done."""
    process, terminal = pty.fork()
    if process == 0:
        os.environ.update(TERM="dumb", COLUMNS="200", LINES="50", HOME="/nowhere")
        os.execvp(command[0], command)
    try:
        os.write(terminal, (setup + "print ready$((1 + 1))\n").encode())
        read(terminal, 60, until="ready2")
        read(terminal, 1)  # the prompt
        os.write(terminal, typed.encode())
        return read(terminal, 3)
    finally:
        os.close(terminal)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def read(terminal, seconds, until=None):
    """Until nothing came for so long, or `until` did."""
    seen = ""
    while not (until and until in seen) and select.select([terminal], [], [], seconds)[0]:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the shell has ended
            break
        if not piece:
            break
        seen += piece.decode(errors="replace")
    return seen


def bash_completes_verbs_flags_and_choices():
    assert complete("be") == ["bench"]
    assert set(verbs()) <= set(complete(""))
    assert complete("bench", "--conte") == ["--context"]
    assert complete("bench", "--mode", "") == ["eager", "compiled"]
    assert complete("show", "DIR", "--wat") == ["--watch"]
    assert complete("compare", "--format", "m") == ["md"]
    assert complete("bench", "--nothing") == []
    assert "--context" in complete("bench", "") and "--top" in complete("profile", "--pass", "step", "")


def bash_completes_every_value_that_is_known():
    presets = [line.split(",")[0] for line in dyno("list", "presets", "--format", "csv").splitlines()[1:]]
    for verb in ("bench", "plan", "memory", "profile", "scale", "init"):
        assert complete(verb, "--model", "") == presets, verb
    for verb in ("bench", "plan", "memory", "profile"):
        assert complete(verb, "--pass", "for") == ["forward", "forward+backward"], verb
    assert complete("attention", "--pass", "") == ["forward", "backward", "both"]
    assert complete("step", "--device", "c") == ["cpu", "cuda"]
    assert "h200" in complete("plan", "--target", "h")
    assert "zero1" in complete("bench", "--parallel", "z") and "full" in complete("step", "--recompute", "")
    assert complete("profile", "--by", "ke") == ["kernel"]
    for number in ("--context", "--batch", "--timeout", "--memory"):  # not file names
        assert complete("bench", number, "") == [], number
    assert complete("suite", "quick", "--budget", "") == []


def bash_completes_behind_a_comma():
    assert complete("bench", "--pass", "forward,") == ["forward,forward+backward", "forward,step", "forward,backward"]
    assert complete("bench", "--pass", "forward,s") == ["forward,step"]
    assert complete("bench", "--model", "small,medium,x") == ["small,medium,xl"]
    assert complete("plan", "--mode", "compiled,") == ["compiled,eager"]
    assert complete("plan", "--mode", "compiled,eager,") == []  # all are there
    assert complete("step", "--on-nan", "stop,") == []  # no list


def bash_completes_behind_an_equals_sign():
    """readline makes three words of --mode=eager, and of --mode= two."""
    assert complete("bench", "--mode", "=", "com") == ["compiled"]
    assert complete("bench", "--mode", "=") == ["eager", "compiled"]
    assert complete("bench", "--pass", "=", "forward,st") == ["forward,step"]
    assert complete("bench", "--context", "128", ":") == []


def bash_completes_file_names_where_a_path_is_meant():
    assert sorted(complete("bench", "--config", "sm")) == ["small dir", "small file"]
    assert complete("bench", "--out", "sm") == ["small dir"]
    assert complete("profile", "--from", "for") == ["forward.json"]
    assert sorted(complete("show", "sm")) == ["small dir", "small file"]
    assert complete("compare", "small dir", "for") == ["forward.json"]
    assert complete("bench", "sm") == []


def bash_completes_what_is_given_without_a_flag():
    assert complete("list", "") == ["presets", "ops", "kernels", "targets", "suites"]
    assert complete("man", "be") == ["bench"]
    assert set(verbs()) <= set(complete("man", ""))
    assert complete("precision", "") == ["accumulation", "policy"]
    assert complete("completion", "") == ["bash", "zsh"]
    assert sorted(complete("suite", "s")) == ["sample", "small dir", "small file", "systems"]
    assert complete("suite", "--d") == ["--device", "--dry-run"]


def zsh_completes_values_lists_and_paths():
    if not shutil.which("zsh"):
        raise Skip("it cannot be tested here: zsh is not installed")
    assert "dyno bench --mode compiled" in type_in_zsh("dyno bench --mode com")
    assert "dyno bench --pass forward,step" in type_in_zsh("dyno bench --pass forward,s")
    assert "dyno plan --model=small,xl" in type_in_zsh("dyno plan --model=small,x")
    assert "ddp-bucket:25" in type_in_zsh("dyno bench --parallel ddp-b").replace("\\", "")
    shown = type_in_zsh("dyno bench --pass ")
    assert "forward+backward" in shown and "forward.json" not in shown, shown
    assert "small" not in type_in_zsh("dyno bench --batch ")
    shown = type_in_zsh("dyno list ")
    assert "presets" in shown and "kernels" in shown and "small" not in shown, shown
    assert "dyno man bench" in type_in_zsh("dyno man ben")
    shown = type_in_zsh("dyno suite s")
    assert "sample" in shown and "systems" in shown and "small" in shown, shown
    shown = type_in_zsh("dyno profile --from f")
    assert "forward.json" in shown, shown


def zsh_has_every_verb_and_flag():
    script = dyno("completion", "zsh")
    assert script.startswith("#compdef dyno\n")
    for verb in verbs():
        assert f"\n    {verb}) _arguments" in script, verb
    assert "'--mode=[" in script and "_sequence compadd - eager compiled'" in script
    assert "'--by=[" in script and "(kernel class op scope phase launch)'" in script
    if shutil.which("zsh"):
        subprocess.run(["zsh", "-n"], input=script, text=True, check=True)


def other_shells_are_refused():
    dyno("completion", "fish", code=2)
    dyno("completion", code=2)


def every_verb_has_a_manual_page():
    for verb in verbs():
        page = dyno("man", verb)
        assert page.startswith(f".TH DYNO-{verb} 1 "), verb
        for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "FLAGS", "EXAMPLES", "SEE ALSO"):
            assert f"\n.SH {heading}\n" in page, (verb, heading)
        assert re.search(rf"\n\.SH NAME\ndyno\\-{verb} \\- [^\n]*[^ .\n]\n", page), verb  # for whatis
        if shutil.which("groff"):
            result = subprocess.run(["groff", "-man", "-Tascii", "-ww"], input=page, text=True, check=True,
                                    capture_output=True)
            plain = re.sub(r".\x08|\x1b\[[\d;]*m", "", result.stdout)  # bold, one way or the other
            assert not result.stderr and "--help" in plain, (verb, result.stderr)
    dyno("man", "bnch", code=2)


def the_page_of_dyno_lists_verbs_by_question():
    page = dyno("man")
    assert page.startswith(".TH DYNO 1 ")
    plain = page.replace("\\-", "-")
    listed = [line.strip() for line in dyno("--help").splitlines() if line.endswith("?")]
    assert listed == re.findall(r"^\.SS (.*)$", plain, re.M)
    assert verbs() == re.findall(r"^\.TP\n\.BR dyno-(\w+) \(1\)$", plain, re.M)
    for heading in ("NAME", "SYNOPSIS", "EXIT STATUS", "ENVIRONMENT", "FILES", "SEE ALSO"):
        assert f"\n.SH {heading}\n" in page, heading


def the_page_of_dyno_names_every_variable_of_the_environment():
    page = dyno("man")
    for folder, _, files in os.walk(os.path.join(ROOT, "src")):
        for name in files:
            with open(os.path.join(folder, name), encoding="utf-8") as source:
                for variable in re.findall(r'getenv\("(\w+)"\)', source.read()):
                    assert variable in page, (name, variable)


def pages_refer_to_pages_that_are_there_and_are_well_formed():
    with tempfile.TemporaryDirectory() as folder:
        dyno("man", "--out", os.path.join(folder, "man1"))
        pages = {f"dyno-{verb}.1" for verb in verbs()} | {"dyno.1"}
        assert set(os.listdir(os.path.join(folder, "man1"))) == pages
        for name in pages:
            path = os.path.join(folder, "man1", name)
            with open(path, encoding="utf-8") as file:
                text = file.read().replace("\\-", "-")
            for other in re.findall(r"^\.BR ([\w-]+) \((\d)\)", text, re.M):
                assert ".".join(other) in pages, (name, other)
            if shutil.which("mandoc"):
                said = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", path], text=True, check=False,
                                      capture_output=True).stdout
                # A date would make every build another one.
                assert not [line for line in said.splitlines() if "missing date" not in line], said
    dyno("man", "bench", "--out", "/nowhere", code=2)
    dyno("man", "--out", "/proc/none", code=1)


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


run_all(bash_completes_verbs_flags_and_choices, bash_completes_every_value_that_is_known,
        bash_completes_behind_a_comma, bash_completes_behind_an_equals_sign,
        bash_completes_file_names_where_a_path_is_meant, bash_completes_what_is_given_without_a_flag,
        zsh_has_every_verb_and_flag, zsh_completes_values_lists_and_paths, other_shells_are_refused,
        every_verb_has_a_manual_page, the_page_of_dyno_lists_verbs_by_question,
        the_page_of_dyno_names_every_variable_of_the_environment,
        pages_refer_to_pages_that_are_there_and_are_well_formed, help_groups_verbs_by_question, watch_follows_a_run_until_it_is_complete)
