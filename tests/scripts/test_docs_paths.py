"""Checks that every file, folder and link that README, ARCHITECTURE and docs/ name exists."""
import glob
import os
import re

from cases import ROOT, run_all

# docs/decisions record what was so when they were written.
PAGES = ["README.md", "ARCHITECTURE.md", "bench/README.md"] + sorted(
    os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, "docs", "*.md")))
FOLDERS = r"(?:src|include|tests|docs|scripts|bench|cmake|examples)"
PATH = re.compile(rf"(?<![\w/.-]){FOLDERS}/[\w./*+-]*[\w*/]")
SOURCE = re.compile(r"`([\w/]+\.(?:c|h|cu|cuh|py))`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PLACEHOLDER = re.compile(r"[<>*]")


def read(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return file.read()


def created_by_walks():
    """Files that the walks of docs/ add."""
    return {name for page in PAGES for name in re.findall(r"^```\w+ file=(\S+)", read(page),
                                                          re.MULTILINE)}


def is_there(path):
    """`path` may be a decision's number, or the stem of a bench program."""
    full = os.path.join(ROOT, path)
    return os.path.exists(full) or bool(glob.glob(full + "[-.]*"))


def missing_paths(page):
    text = BLOCK.sub("", read(page))
    text = re.sub(r"\S*<\w+>\S*|\S*_NAME\S*", "", text)  # src/ops/<op>/
    return [path for path in PATH.findall(text) if not PLACEHOLDER.search(path)
            and not is_there(path) and path not in created_by_walks()]


def every_path_exists():
    missing = {page: found for page in PAGES if (found := missing_paths(page))}
    assert not missing, missing


def every_source_file_named_alone_exists():
    """`lower.c`, or `lower/lower.c`, is the end of some path."""
    known = [os.path.relpath(os.path.join(folder, name), ROOT)
             for top in ("src", "include", "tests", "scripts", "bench")
             for folder, _, names in os.walk(os.path.join(ROOT, top)) for name in names]
    known += created_by_walks()
    known += [name for page in PAGES for name in re.findall(r"Save this as `(\S+)`", read(page))]
    missing = {}
    for page in PAGES:
        for name in SOURCE.findall(BLOCK.sub("", read(page))):
            if not any(path == name or path.endswith("/" + name) for path in known):
                missing.setdefault(page, []).append(name)
    assert not missing, missing


def every_link_leads_somewhere():
    missing = [(page, link) for page in PAGES for link in LINK.findall(read(page))
               if not os.path.exists(os.path.join(ROOT, os.path.dirname(page), link))]
    assert not missing, missing


def every_test_that_a_mistake_names_is_there_and_runs():
    tests = "".join(read(os.path.relpath(path, ROOT))
                    for path in glob.glob(os.path.join(ROOT, "tests", "*", "test_*.c")))
    rows = [line for line in read("docs/mistakes.md").splitlines() if line.startswith("|")][2:]
    assert len(rows) == 12, len(rows)
    for row in rows:
        names = re.findall(r"`(\w+_\w+)`", row.split("|")[-2])
        assert names, row
        missing = [name for name in names if f"cmocka_unit_test({name})" not in tests]
        assert not missing, missing


run_all(every_path_exists, every_source_file_named_alone_exists, every_link_leads_somewhere,
        every_test_that_a_mistake_names_is_there_and_runs)
