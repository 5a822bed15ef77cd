"""cases.py - runs the test functions of a module and prints cmocka's lines, so that the tests of
scripts are counted case by case like those in C."""
import os
import subprocess
import sys
import tempfile
import traceback

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def run_script(name, *arguments, **options):
    """Runs scripts/<name>; the result has returncode, stdout and stderr."""
    return subprocess.run([os.path.join(ROOT, "scripts", name), *arguments], text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, **options)


def write_file(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


def run_compare(name, dyno, torch, *arguments):
    """Runs bench/<name> with these programs' texts in place of dyno and of Python with PyTorch."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, "dyno"), os.path.join(folder, "python")]
        for path, text in zip(paths, (dyno, torch)):
            write_file(path, text, mode=0o755)
        return subprocess.run(
            [sys.executable, "-B", os.path.join(ROOT, "bench", name), "--dyno", paths[0],
             "--torch-python", paths[1], *arguments], text=True, stdin=subprocess.DEVNULL,
            capture_output=True, check=False)


class Skip(Exception):
    """What a case raises that cannot be tested here, with the reason: "no torch here: there is no ..."."""


def run_all(*cases):
    """Exits with the number of cases that failed. A failure prints its assertion."""
    failures = 0
    for case in cases:
        print(f"[ RUN      ] {case.__name__}")
        try:
            case()
            print(f"[       OK ] {case.__name__}")
        except Skip as reason:
            print(f"{reason}\n[  SKIPPED ] {case.__name__}")
        except Exception:
            traceback.print_exc(file=sys.stdout)
            print(f"[  FAILED  ] {case.__name__}")
            failures += 1
    sys.exit(failures)
