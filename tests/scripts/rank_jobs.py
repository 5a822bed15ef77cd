"""Jobs of several ranks, as users start them: run to their end, or harmed in the middle."""
import csv
import io
import os
import re
import shutil
import socket
import subprocess
import time

BUILD = os.environ["DYNO_BUILD"]
DYNO = os.path.join(BUILD, "dyno")
HAS_MPI = shutil.which("mpirun") and os.path.exists(os.path.join(BUILD, "libdyno_mpi.so"))
HOST = socket.gethostname()
# Long enough to be harmed, and far from what a test waits for.
ENDLESS = "allreduce --bytes 200kB --reps 1000000 --timeout 3"
PATIENCE = 60


def environment(**changes):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DYNO_RANK")}
    return dict(kept, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                OMPI_MCA_rmaps_base_oversubscribe="1", **changes)


def environment_of_mpirun(**changes):
    """Open MPI never gives back some of its memory; dyno's own is looked at in the jobs without it."""
    return environment(ASAN_OPTIONS="detect_leaks=0", **changes)


def without_sanitizer(text):
    """Lines of the leak sanitizer itself, when a thread ended while it looked: "==12==Unable to ..."."""
    return [line for line in text.strip().splitlines() if not re.match(r"==\d+==", line)]


def run(arguments, **changes):
    return subprocess.run([DYNO] + arguments.split(), text=True, capture_output=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=300, env=environment(**changes))


def rows(text):
    """Those of the first table."""
    return list(csv.DictReader(io.StringIO(text.split("\n\n")[0])))


def children(process):
    """Of all threads of the process."""
    found = []
    for task in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{task}/children", encoding="ascii") as file:
            found += [int(word) for word in file.read().split()]
    return sorted(found)


class Job:
    """A job, running; its ranks by number."""

    def __init__(self, arguments=ENDLESS, ranks=3):
        arguments = f"{arguments} --ranks {ranks}".split()
        self.process = subprocess.Popen([DYNO] + arguments, text=True, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=environment(), start_new_session=True)
        self.ranks = []
        end = time.monotonic() + PATIENCE
        while [self.rank_of(process) for process in self.ranks] != list(range(ranks)):
            assert time.monotonic() < end, "the ranks do not start"
            self.ranks = sorted(children(self.process.pid), key=self.rank_of)

    @staticmethod
    def rank_of(process):
        """-1 before it has become the program."""
        with open(f"/proc/{process}/environ", "rb") as file:
            found = re.search(rb"(?:^|\0)DYNO_RANK=(\d+)", file.read())
        return int(found[1]) if found else -1

    def end(self):
        """Exit code, what was printed, and that nothing is left."""
        output, errors = self.process.communicate(timeout=PATIENCE)
        end = time.monotonic() + 5
        while any(os.path.exists(f"/proc/{rank}") for rank in self.ranks):
            assert time.monotonic() < end, "ranks are left"
            time.sleep(0.01)
        assert not [name for name in os.listdir("/dev/shm") if "dyno-ranks" in name]
        return self.process.returncode, output, errors


def expect_one_message(errors, rank):
    assert len(without_sanitizer(errors)) == 1, errors
    assert f"rank {rank} on host '{HOST}'" in errors, errors
    assert " during " in errors, errors
