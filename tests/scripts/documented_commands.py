"""documented_commands.py - finds the `dyno` commands of README, docs/, examples/ and the help of every verb,
and makes each small enough to be run by a test.

A command stands in a block (fenced or indented), where it must work as it is written, or in `backquotes` in
a sentence, where it may be no more than a name with the flags that the sentence is about.
"""
import glob
import os
import re
import shlex

from cases import ROOT

# docs/decisions record what was so when they were written, commands included.
PAGES = ["README.md", "ARCHITECTURE.md", "bench/README.md"] + sorted(
    os.path.relpath(path, ROOT) for pattern in ("docs/*.md", "examples/*.c")
    for path in glob.glob(os.path.join(ROOT, pattern)))
# Their blocks need the sources that the page adds: test_walks.py follows them.
WALKS = ("docs/adding-a-kernel.md", "docs/adding-a-pass.md", "docs/adding-an-op.md")

FENCED = re.compile(r"^```[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^    (.*)$", re.MULTILINE)
QUOTED = re.compile(r"`([^`]+)`")
COMMAND = re.compile(r"(?:build/)?dyno +(?!\w+:)\S")  # "dyno bench: ..." is what a verb says

# What stands for something that the reader fills in.
PLACEHOLDERS = {"VERB": "plan", "$n": "2", "...": None, "[presets|ops|kernels|targets|suites]": None}


class Command:
    """One command as it is documented, and as it is run."""

    def __init__(self, page, text, is_quoted):
        self.page, self.text = page, text
        words = [word for word in shlex.split(text, comments=True)[1:]]
        for old, new in PLACEHOLDERS.items():
            words = [word.replace(old, new or "") for word in words]
        self.words = shrink([word for word in words if word], is_quoted)

    def __repr__(self):
        return f"{self.page}: {self.text}\n    run as: dyno {' '.join(self.words)}"


def block_commands(block):
    """Lines that begin with dyno; a backslash continues one, three blanks or # end it."""
    joined = re.sub(r"\\\n\s*", "", block)
    lines = (re.split(r"\s{3,}|\s\|\s", line.strip())[0] for line in joined.splitlines())
    return [line for line in lines if COMMAND.match(line)]


def commands_of(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        text = file.read()
    if page.endswith(".c"):  # in its comments
        return [Command(page, line, False) for line in
                re.findall(r"^[ /]\*? +(dyno .*)$", text, re.MULTILINE)]
    sentences = FENCED.sub("", text)
    blocks = FENCED.findall(text) + ["\n".join(INDENTED.findall(sentences))]
    sentences = INDENTED.sub("", sentences)
    found = [] if page in WALKS else [Command(page, line, False) for block in blocks
                                      for line in block_commands(block)]
    quoted = (" ".join(text.split()) for text in QUOTED.findall(sentences))
    return found + [Command(page, text, True) for text in quoted if COMMAND.match(text)]


def commands_of_help(verb, help_text):
    examples = help_text[help_text.index("\nEXAMPLES\n"):]
    return [Command(f"dyno {verb} --help", line.strip(), False)
            for line in examples.splitlines() if line.startswith("  dyno ")]


# ---- making them small ----

def value_of(words, flag):
    return words[words.index(flag) + 1] if flag in words else None


def put(words, flag, value):
    """Sets the flag, wherever it is."""
    if flag in words:
        words[words.index(flag) + 1] = value
    else:
        words += [flag, value]


def drop(words, flag):
    if flag in words:
        at = words.index(flag)
        del words[at:at + 2]


def divide_lengths(words, flag, fallback):
    """128:1024:*2 becomes 2:16:*2; the longest become equal."""
    def divide(number):
        return str(max(1, min(256, int(number.group()) // 64)))
    given = value_of(words, flag)
    put(words, flag, fallback if given is None else re.sub(r"(?<![*+\d])\d+", divide, given))


def put_tiny_model(words):
    """A step of any preset takes seconds and gigabytes; every preset takes other sizes. There are as many
    layers as --recompute speaks of."""
    segments = re.findall(r":(\d+)", value_of(words, "--recompute") or "")
    put(words, "--layers", str(1 + max([1] + [int(number) for number in segments])))
    for flag, value in (("--d-model", "32"), ("--d-ff", "64"), ("--heads", "4"), ("--vocab", "64")):
        put(words, flag, value)


def run_on_cpu(words):
    """The machine that tests may have no GPU, and what needs one is tested on one (docs/gpu.md)."""
    if (value_of(words, "--device") or "").startswith("cuda"):
        drop(words, "--device")
    if "hopper" in (value_of(words, "--tiles") or ""):
        put(words, "--tiles", "auto")
    precision = value_of(words, "--precision")
    if precision:  # there is no tf32 on a CPU
        put(words, "--precision", ",".join(dict.fromkeys(
            "fp32" if item == "tf32" else item for item in precision.split(","))))


def shrink_bench(words):
    run_on_cpu(words)
    put_tiny_model(words)
    divide_lengths(words, "--context", "4")
    put(words, "--batch", "2")
    put(words, "--steps", "1")


def shrink_profile(words):
    """With --from nothing runs; FILE, which is tokens elsewhere, is a trace there."""
    if "--from" not in words:
        shrink_bench(words)
    elif value_of(words, "--from") == "FILE":
        put(words, "--from", "trace.json.gz")


def shrink_attention(words):
    run_on_cpu(words)
    divide_lengths(words, "--seq", "8,16")
    put(words, "--batch", "1")
    drop(words, "--seconds")
    put(words, "--reps", "1")
    if "--preset" in words:
        put(words, "--head-dim", "16")


def shrink_allreduce(words):
    """Kilobytes in place of gigabytes, and few ranks."""
    given = value_of(words, "--bytes") or "1MB"
    put(words, "--bytes", re.sub(r"\d+[kMG]i?B", lambda size: f"{4 * len(size.group())}kB", given))
    put(words, "--ranks", re.sub(r"\d+", lambda number: str(min(3, int(number.group()))),
                                 value_of(words, "--ranks") or "2"))
    drop(words, "--seconds")
    put(words, "--reps", "1")


def shrink_plan(words):
    """Any size answers at once, but not with sanitizers."""
    if (value_of(words, "--device") or "").startswith("cuda"):  # a plan for a GPU needs none
        drop(words, "--device")
        put(words, "--target", "h100")
    if "--layers" not in words:
        segments = re.findall(r":(\d+)", value_of(words, "--recompute") or "")
        put(words, "--layers", str(1 + max([1] + [int(number) for number in segments])))


def shrink_memory(words):
    """Nothing runs without --measure."""
    if "--measure" in words:
        shrink_bench(words)
        drop(words, "--steps")
    else:
        shrink_plan(words)


def shrink_scale(words):
    """The profile of runs/h200 is that of this model."""
    put_tiny_model(words)
    if "--profile" in words:
        drop(words, "--model")
        put(words, "--context", "4")
        put(words, "--batch", "2")
        put(words, "--precision", "fp32")
    if "--measure" in words:
        put(words, "--context", "4")
        put(words, "--steps", "1")


def shrink_step(words):
    run_on_cpu(words)
    if int(value_of(words, "--steps") or 1) > 2:
        put(words, "--steps", "2")


SHRINK = {"bench": shrink_bench, "profile": shrink_profile, "attention": shrink_attention,
          "allreduce": shrink_allreduce, "plan": shrink_plan, "memory": shrink_memory, "scale": shrink_scale,
          "step": shrink_step, "init": put_tiny_model}
# Verbs that a sentence may name without what they cannot run without.
REQUIRED = {"step": ["--load", "llama", "--tokens", "text.bin", "--out", "out.safetensors"],
            "init": ["--out", "out"], "show": ["DIR"], "compare": ["DIR", "DIR"], "report": ["DIR"], "man": ["bench"], "completion": ["bash"],
            "suite": ["quick", "--out", "study", "--dry-run"]}


def shrink(words, is_quoted):
    verb, rest = words[0], words[1:]
    if "--help" in rest:
        return words
    if verb == "compare" and is_quoted and "--run" in rest:
        rest = []  # a sentence leaves the commands out
    if is_quoted and verb in REQUIRED and not set(REQUIRED[verb]) & set(rest):
        rest = rest if verb in ("show", "report") and rest else rest + REQUIRED[verb]
    if verb == "suite" and "--dry-run" not in rest:  # it takes as long as its budget
        rest = [word.replace("./mine.json", "quick") for word in rest] + ["--dry-run"]
    if verb == "report" and any(word.endswith(".pdf") for word in rest):  # takes Chromium
        rest = [word.replace(".pdf", ".html") for word in rest]
    if verb in SHRINK:
        SHRINK[verb](rest)
    return [verb] + rest
