"""walk.py - follows a page of docs/ that adds something to dyno: it applies the page's blocks to a copy
of the sources, builds what the page runs, and compares what that prints.

A fenced block whose info string has file=PATH is a new file; with after="TEXT", before="TEXT" or
replace="TEXT" its lines go behind, before or in place of the one line of PATH that contains TEXT. A block
of sh is run line by line, where `make` builds; a block of text behind it says what it prints.

Building everything would take minutes. Only what the page changes, and what includes that, is compiled,
by the commands of the build that is tested (compile_commands.json) without optimization; the rest is
linked from its archives, in which a member is taken only for symbols that nothing before it defines.
"""
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess

from cases import ROOT, write_file

BLOCK = re.compile(r"^```(\w+) ?(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(command, folder, shell=False):
    result = subprocess.run(command, cwd=folder, shell=shell, text=True, check=False,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)
    assert result.returncode == 0, f"{command} failed:\n{result.stdout[-4000:]}"
    return result.stdout


class Walk:
    def __init__(self, page, build, tree):
        self.build, self.tree = build, tree
        with open(os.path.join(ROOT, "docs", page), encoding="utf-8") as file:
            self.blocks = BLOCK.findall(file.read())
        for folder in ("src", "include", "scripts", "tests"):
            shutil.copytree(os.path.join(ROOT, folder), os.path.join(tree, folder),
                            ignore=shutil.ignore_patterns("golden", "fuzz", "__pycache__"))
        with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
            self.commands = {os.path.relpath(entry["file"], ROOT): entry
                             for entry in json.load(file)}
        self.changed = []
        self.objects = {}  # what was compiled, by its source

    def follow(self):
        output = ""
        for language, info, body in self.blocks:
            places = dict(word.split("=", 1) for word in shlex.split(info))
            if "file" in places:
                self.apply(places.pop("file"), places, body)
            elif language == "sh":
                output = "".join(self.command(line) for line in body.splitlines())
            elif language == "text":
                self.expect(output, body)

    def apply(self, name, places, body):
        path = os.path.join(self.tree, name)
        if name not in self.changed:
            self.changed.append(name)
        if not places:
            assert not os.path.exists(path), f"{name} is there already"
            write_file(path, body)
            return
        (where, text), = places.items()
        with open(path, encoding="utf-8") as file:
            lines = file.readlines()
        found = [i for i, line in enumerate(lines) if text in line]
        assert len(found) == 1, f"'{text}' is in {len(found)} lines of {name}"
        begin, end = {"before": (found[0], found[0]), "after": (found[0] + 1, found[0] + 1),
                      "replace": (found[0], found[0] + 1)}[where]
        lines[begin:end] = [body]
        write_file(path, "".join(lines))

    def command(self, line):
        if line == "make":
            self.compile_changes()
            return ""
        for program in re.findall(r"build/(\S+)", line):
            self.link(program)
        return run(line, self.tree, shell=True)

    @staticmethod
    def expect(output, wanted):
        words = " ".join(output.split())
        for line in wanted.splitlines():
            assert " ".join(line.split()) in words, f"'{line}' is not in:\n{output}"

    # ---- building ----

    def built_object(self, entry):
        command = shlex.split(entry["command"])
        return os.path.join(entry["directory"], command[command.index("-o") + 1])

    def includes_change(self, entry):
        """Whether the file was compiled with one of the changed headers."""
        try:
            with open(self.built_object(entry) + ".d", encoding="utf-8") as file:
                names = {os.path.normpath(os.path.join(entry["directory"], name))  # ccache's are relative
                         for name in file.read().split()}
        except FileNotFoundError:
            return False
        return any(os.path.join(ROOT, name) in names for name in self.changed)

    def compile(self, name, pattern):
        """Compiles a file of the tree as the build compiled `pattern`; returns the object."""
        entry = self.commands[pattern]
        target = os.path.join(self.tree, "objects", name + ".o")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        command = entry["command"].replace(entry["file"], os.path.join(self.tree, name))
        for folder in ("src", "include", "tests"):
            command = command.replace(f"-I{ROOT}/{folder} ", f"-I{self.tree}/{folder} ")
        words = [word for word in shlex.split(command) if word != "-O3"]
        words[words.index("-o") + 1] = target
        run(words, entry["directory"])
        return target

    def pattern_for(self, name):
        """A file that is compiled as a new one would be; None where the build compiles none."""
        folder, ending = name.split("/")[0], os.path.splitext(name)[1]
        same = [other for other in self.commands if other.startswith(folder + "/")
                and other.endswith(ending) and os.path.dirname(other) == os.path.dirname(name)]
        other = [other for other in self.commands if other.startswith(folder + "/graph/")]
        return (same or (other if ending == ".c" else []) or [None])[0]

    def compile_changes(self):
        jobs = {name: name for name, entry in self.commands.items()
                if (name.startswith("src/") and not name.startswith("src/runtime/cuda/")
                    or name.startswith("tests/support/")) and name.endswith(".c")
                and (name in self.changed or self.includes_change(entry))}
        for name in self.changed:
            if name.endswith((".c", ".cu")) and name not in self.commands:
                jobs[name] = self.pattern_for(name)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            done = {name: pool.submit(self.compile, name, pattern)
                    for name, pattern in jobs.items() if pattern}
        self.objects = {name: job.result() for name, job in done.items()}

    def link(self, program):
        """Links build/PROGRAM of the tree, by the command of the build where that has it."""
        target = os.path.join(self.tree, "build", program)
        if os.path.exists(target):
            return
        os.makedirs(os.path.dirname(target), exist_ok=True)
        folder, name = os.path.split(os.path.join(self.build, program))
        known = os.path.join(folder, "CMakeFiles", f"{name}.dir", "link.txt")
        like = known if os.path.exists(known) else os.path.join(
            folder, "CMakeFiles", "test_verify.dir", "link.txt")
        with open(like, encoding="utf-8") as file:
            words = shlex.split(file.read())
        words[words.index("-o") + 1] = target
        unused = "src/cli/" if program.startswith("tests/") else "tests/"
        mine = [made for source, made in self.objects.items() if source.endswith(".c")
                and not source.startswith(unused)
                and not os.path.basename(source).startswith("test_")]
        if like != known:  # a new test takes the place of the other
            own = next(i for i, word in enumerate(words) if word.endswith("test_verify.c.o"))
            words[own] = next(made for source, made in self.objects.items()
                              if os.path.basename(source) == f"{name}.c")
        explicit = {os.path.join(folder, word) for word in words}
        for source, made in self.objects.items():
            built = source in self.commands and self.built_object(self.commands[source])
            if built in explicit:
                words = [made if os.path.join(folder, word) == built else word for word in words]
                mine = [other for other in mine if other != made]
        run(words[:1] + mine + words[1:], folder)
