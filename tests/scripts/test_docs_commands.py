"""Runs every `dyno` command of README, docs/, examples/ and the help of every verb (documented_commands.py
says how they are made small): what is documented works."""
import concurrent.futures
import os
import random
import shutil
import struct
import subprocess
import tempfile

from cases import ROOT, run_all
from documented_commands import PAGES, Command, commands_of, commands_of_help

DYNO = os.path.join(os.environ["DYNO_BUILD"], "dyno")
VERBS = ("doctor", "list", "plan", "memory", "bench", "profile", "attention", "allreduce", "scale",
         "precision", "init", "step", "show", "compare", "suite", "report", "completion", "man")
TINY = "--layers 1 --d-model 16 --d-ff 32 --heads 2 --vocab 64".split()
TOKENS = 8192


def run(words, folder, cache):
    environment = dict(os.environ, DYNO_DEVICE="cpu", OMP_WAIT_POLICY="passive", XDG_CACHE_HOME=cache,
                       PATH=f"{os.path.dirname(DYNO)}:{os.environ['PATH']}")  # commands in commands
    return subprocess.run([DYNO] + words, cwd=folder, env=environment, text=True, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=300)


class Sandbox:
    """What commands read: a model, tokens, runs, and the golden cases. Each command has its own copy."""

    def __init__(self, folder):
        self.inputs, self.cache = os.path.join(folder, "inputs"), os.path.join(folder, "cache")
        self.folder, self.count = folder, 0
        os.makedirs(self.inputs)
        self.prepare(["init", *TINY, "--out", "llama"])
        self.prepare(["bench", *TINY, "--context", "4", "--steps", "1", "--out", "runs/grid"])
        for copy in ("runs/small", "runs/attention", "results/small"):
            shutil.copytree(self.path("runs/grid"), self.path(copy))
        self.prepare(["allreduce", "--ranks", "2", "--bytes", "1kB", "--reps", "1", "--out", "runs/allreduce"])
        self.prepare("profile --layers 2 --d-model 32 --d-ff 64 --heads 4 --vocab 64 --context 4 --batch 2 --pass step "
                     "--mode compiled --steps 1 --out runs/h200".split())
        numbers = random.Random(0)
        with open(self.path("text.bin"), "wb") as file:
            file.write(struct.pack(f"<{TOKENS}H", *(numbers.randrange(64) for _ in range(TOKENS))))
        # What a reader fills in: DIR is a model in one command and a run in another.
        shutil.copytree(self.path("llama"), self.path("DIR"))
        shutil.copy(self.path("runs/grid/run.json"), self.path("DIR"))
        shutil.copy(self.path("text.bin"), self.path("FILE"))
        os.makedirs(self.path("tests"))
        shutil.copytree(os.path.join(ROOT, "tests/golden/tiny"), self.path("tests/golden/tiny"))
        shutil.copytree(os.path.join(ROOT, "tests/traces"), self.path("tests/traces"))
        shutil.copy(self.path("tests/traces/pytorch-cpu-ranges.json.gz"), self.path("trace.json.gz"))
        shutil.copy(self.path("tests/traces/nsys.sqlite"), self.path("report.sqlite"))
        with open(self.path("kernels.txt"), "w", encoding="utf-8") as file:
            file.write("my_*_kernel, mine\n")

    def path(self, name):
        return os.path.join(self.inputs, name)

    def prepare(self, words):
        result = run(words, self.inputs, self.cache)
        assert result.returncode == 0, (words, result.stdout)

    def run(self, number, words):
        """A --out that a command writes is not there before; a --tune keeps its choices to itself."""
        folder = os.path.join(self.folder, str(number))
        shutil.copytree(self.inputs, folder)
        if "--out" in words:
            shutil.rmtree(os.path.join(folder, words[words.index("--out") + 1]), ignore_errors=True)
        cache = os.path.join(folder, "cache") if "--tune" in words else self.cache
        result = run(words, folder, cache)
        shutil.rmtree(folder)
        return result


def find_commands():
    found = [command for page in PAGES for command in commands_of(page)]
    for verb in VERBS:
        shown = subprocess.run([DYNO, verb, "--help"], text=True, check=True, capture_output=True).stdout
        found += commands_of_help(verb, shown)
    return found


def failures_of(commands):
    """Each distinct command is run once, on one core: those side by side do not wait for each other."""
    distinct = {tuple(command.words): command for command in commands}
    cores = sorted(os.sched_getaffinity(0))
    free = iter(cores)
    with tempfile.TemporaryDirectory() as folder:
        sandbox = Sandbox(folder)
        with concurrent.futures.ThreadPoolExecutor(
                len(cores), initializer=lambda: os.sched_setaffinity(0, {next(free)})) as pool:
            jobs = [pool.submit(sandbox.run, number, list(words))
                    for number, words in enumerate(distinct)]
            results = [job.result() for job in jobs]
    return [f"{command}\n{result.stdout[-600:]}"
            for command, result in zip(distinct.values(), results) if result.returncode != 0]


def every_documented_command_works():
    failures = failures_of(find_commands())
    assert not failures, "\n".join(failures)


def commands_are_found_where_they_stand():
    commands = find_commands()
    assert len(commands) > 100, len(commands)
    for page in ("README.md", "docs/gpu.md", "docs/memory.md", "docs/precision.md",
                 "docs/attention.md", *(f"dyno {verb} --help" for verb in VERBS)):
        assert any(command.page == page for command in commands), page
    shown = [command.words for command in commands if command.page == "docs/benchmark.md"]
    assert ["show", "runs/grid", "--format", "md"] in shown, shown
    # A command over two lines is one.
    assert any("--recompute" in command.words and "--vocab" in command.words
               for command in commands if command.page == "docs/gpu.md")


def a_command_that_does_not_work_is_found():
    wrong = ["dyno bench --contxt 128", "dyno step --load llama --tokens text.bin",  # wants --out
             "dyno show runs/none"]
    right = Command("a page", "dyno step --dump weights", True)  # a sentence leaves the rest out
    failures = failures_of([Command("a page", text, False) for text in wrong] + [right])
    assert [failure.splitlines()[0] for failure in failures] == [f"a page: {text}" for text in wrong]


run_all(every_documented_command_works, commands_are_found_where_they_stand,
        a_command_that_does_not_work_is_found)
