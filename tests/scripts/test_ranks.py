"""Runs jobs of several ranks as users do, with --ranks and with mpirun, and harms them: every way ends in
time, with one message and nothing left behind."""
import json
import os
import re
import signal
import subprocess
import tempfile
import time

from cases import run_all
from rank_jobs import (DYNO, ENDLESS, HAS_MPI, PATIENCE, Job, environment_of_mpirun, expect_one_message, rows, run,
                       without_sanitizer)


def collectives_are_right_and_shown_in_every_format():
    arguments = ("allreduce --ranks 2,3 --bytes 100kB,1MB --dtype fp32,bf16 --reps 2 --operands shared,private "
                 "--op all-reduce,reduce-scatter,all-gather,broadcast --format ")
    result = run(arguments + "csv")
    assert result.returncode == 0, result.stderr
    table = rows(result.stdout)
    assert len(table) == 2 * 2 * 2 * 2 * 4
    for row in table:
        assert row["status"] == "OK" and row["#wrong"] == "0", row
        assert float(row["time ms"]) > 0
        factor = {"all-reduce": 2, "broadcast": int(row["ranks"]) / (int(row["ranks"]) - 1)}.get(row["op"], 1)
        bus = float(row["algbw GB/s"]) * factor * (int(row["ranks"]) - 1) / int(row["ranks"])
        assert abs(bus / float(row["busbw GB/s"]) - 1) < 1e-6, row
    for layout in ("table", "md", "json"):
        result = run("allreduce --ranks 2 --bytes 100kB --reps 1 --format " + layout)
        assert result.returncode == 0 and "all-reduce" in result.stdout, result


def the_record_holds_the_samples_of_every_rank():
    with tempfile.TemporaryDirectory() as folder:
        result = run(f"allreduce --ranks 3 --bytes 64kB --reps 4 --warmup 2 --out {folder}/run")
        assert result.returncode == 0, result.stderr
        with open(f"{folder}/run/run.json", encoding="utf-8") as file:
            record = json.load(file)
        cell = record["cells"][0]
        assert record["complete"] and record["verb"] == "allreduce"
        assert cell["parameters"]["ranks"] == 3 and cell["metrics"]["count"]["value"] == 16000
        for rank in range(3):
            assert len(cell["samples"][f"rank.{rank}"]["values"]) == 4
            assert len(cell["samples"][f"warmup.rank.{rank}"]["values"]) == 2
        shown = run(f"show {folder}/run")
        assert shown.returncode == 0 and shown.stdout == result.stdout


def a_single_rank_needs_no_other():
    result = run("allreduce --ranks 1 --bytes 1MB --reps 2 --format csv")
    assert result.returncode == 0, result.stderr
    assert rows(result.stdout)[0]["#wrong"] == "0"


def what_is_wrong_is_said_once_with_exit_code_2():
    for arguments, part in (("--bytes lots", "--bytes"), ("--bytes 1", "it must be 4 to"),
                            ("--ranks 0", "--ranks"), ("--ranks 2000", "1024"),
                            ("--dtype fp64", "--dtype"), ("--transport pigeon", "--transport"),
                            ("--timeout 0", "--timeout"), ("--op sum", "--op")):
        result = run("allreduce " + arguments)
        assert result.returncode == 2 and part in result.stderr, (arguments, result)
        assert len(without_sanitizer(result.stderr)) == 1 and not result.stdout, result
    for arguments, part in (("bench --ranks 3 --model nope", "no preset is called"),
                            ("bench --ranks 3 --parallel both", "both"),
                            ("step --ranks 3 --load /nowhere --tokens /nowhere --out x.safetensors", "/nowhere"),
                            ("bench --ranks 2 --parallel ddp-bucket:0", "ddp-bucket")):
        result = run(arguments)
        assert result.returncode in (1, 2) and part in result.stderr, (arguments, result)
        assert len(without_sanitizer(result.stderr)) == 1 and not result.stdout, result


def transports_that_are_not_there_say_why():
    result = run("allreduce --transport shared,mpi,mpi-library,nccl --bytes 64kB --reps 1 --format csv",
                 DYNO_CUDA_MODULE="/nowhere")
    assert result.returncode == 0, result.stderr
    found = {row["transport"]: row for row in rows(result.stdout)}
    assert found["shared"]["status"] == "OK"
    for name, part in (("mpi", "mpirun -np 2"), ("mpi-library", "mpirun"), ("nccl", "CUDA module")):
        assert found[name]["status"] == "SKIP" and part in found[name]["note"], found[name]


def what_does_not_fit_is_a_row_that_says_so():
    result = run("allreduce --ranks 2 --bytes 10TB,64kB --reps 1 --operands shared,private --format csv")
    assert result.returncode == 0, result.stderr
    table = rows(result.stdout)
    assert [row["status"] for row in table] == ["OOM", "OOM", "OK", "OK"], table


def a_rank_that_is_killed_ends_the_job():
    for rank in (0, 2):
        job = Job()
        time.sleep(0.5)
        os.kill(job.ranks[rank], signal.SIGKILL)
        code, _, errors = job.end()
        assert code == 1, code
        expect_one_message(errors, rank)
        assert "was killed by signal 9" in errors, errors


def a_rank_that_is_stopped_ends_the_job():
    for rank in (0, 1):
        job = Job()
        time.sleep(0.5)
        begin = time.monotonic()
        os.kill(job.ranks[rank], signal.SIGSTOP)
        code, _, errors = job.end()
        assert code == 1 and time.monotonic() - begin < 30
        expect_one_message(errors, rank)
        assert "is stopped (SIGSTOP)" in errors, errors


def a_rank_that_dies_at_start_up_ends_the_job():
    for number in (signal.SIGKILL, signal.SIGSTOP):
        job = Job()
        os.kill(job.ranks[1], number)
        code, _, errors = job.end()
        assert code == 1, code
        expect_one_message(errors, 1)


def the_death_of_the_launcher_ends_all_ranks():
    job = Job()
    time.sleep(0.3)
    os.kill(job.process.pid, signal.SIGKILL)
    code, _, _ = job.end()
    assert code == -signal.SIGKILL


def interrupt_when_it_measures(number, folder):
    """A job that was interrupted before it measured anything has nothing to keep: then later."""
    for seconds in (1, 4, 16):
        job = Job(f"{ENDLESS} --out {folder}/run-{seconds}")
        time.sleep(seconds)
        os.kill(job.process.pid, number)
        code, output, errors = job.end()
        assert code == 128 + number and "interrupted" in errors, (code, errors)
        if output:
            return output, f"{folder}/run-{seconds}"
    raise AssertionError("the job measures nothing within 16 s")


def an_interruption_keeps_what_was_measured():
    for number in (signal.SIGINT, signal.SIGTERM):
        with tempfile.TemporaryDirectory() as folder:
            output, record = interrupt_when_it_measures(number, folder)
            assert "INCOMPLETE" in output, output
            assert os.path.exists(f"{record}/run.json")


def a_terminals_signal_to_the_whole_group_counts_once():
    job = Job()
    time.sleep(1)
    os.killpg(job.process.pid, signal.SIGINT)
    code, _, errors = job.end()
    assert code == 130 and errors.count("interrupted") == 1, (code, errors)


def a_second_interruption_ends_it_at_once():
    job = Job()
    time.sleep(1)
    os.kill(job.ranks[1], signal.SIGSTOP)  # so that the first is not obeyed
    os.kill(job.process.pid, signal.SIGINT)
    time.sleep(0.5)
    os.kill(job.process.pid, signal.SIGINT)
    code, _, _ = job.end()
    assert code == 130, code


def a_job_that_is_stopped_and_continued_goes_on():
    job = Job()
    time.sleep(0.5)
    os.kill(job.process.pid, signal.SIGTSTP)
    time.sleep(4)  # longer than the timeout
    os.kill(job.process.pid, signal.SIGCONT)
    time.sleep(1)
    assert job.process.poll() is None
    os.kill(job.process.pid, signal.SIGINT)
    code, _, errors = job.end()
    assert code == 130, (code, errors)


def ranks_that_were_started_differently_are_named():
    if not HAS_MPI:
        return
    result = subprocess.run(
        ["mpirun", "-np", "1", DYNO, "allreduce", "--bytes", "64kB", "--reps", "1", ":",
         "-np", "1", DYNO, "allreduce", "--bytes", "64kB", "--reps", "2"],
        text=True, capture_output=True, check=False, timeout=120,
        env=environment_of_mpirun())
    assert result.returncode == 2, result
    assert result.stderr.count("ranks were started differently") == 1, result.stderr
    assert "the command line is '--bytes 64kB --reps 2' on rank 1" in result.stderr, result.stderr


def collectives_between_hosts_are_right():
    """Hosts that are told apart by name only: MPI goes between them all the same."""
    if not HAS_MPI:
        return
    arguments = ("allreduce --ranks 2,3,5 --transport mpi,mpi-library --bytes 4kB,1MB,5MB --reps 2 "
                 "--op all-reduce,reduce-scatter,all-gather,broadcast --dtype fp32 --format csv").split()
    command = ["mpirun"]
    for host, count in (("a", 2), ("b", 1), ("c", 2)):
        command += ["-np", str(count), "-x", f"DYNO_HOST={host}", DYNO, *arguments, ":"]
    result = subprocess.run(command[:-1], text=True, capture_output=True, check=False, timeout=300,
                            env=environment_of_mpirun())
    assert result.returncode == 0, result
    table = rows(result.stdout)
    assert len(table) == 3 * 2 * 3 * 4
    assert all(row["status"] == "OK" and row["#wrong"] == "0" for row in table), table
    assert {row["hosts"] for row in table} == {"1", "2", "3"}


def sixteen_bit_types_go_between_hosts():
    if not HAS_MPI:
        return
    arguments = ("allreduce --transport mpi --bytes 1MB --reps 1 --dtype bf16,fp16 --operands shared,private "
                 "--op all-reduce,reduce-scatter,all-gather,broadcast --format csv").split()
    command = ["mpirun"]
    for host in "abc":
        command += ["-np", "1", "-x", f"DYNO_HOST={host}", DYNO, *arguments, ":"]
    result = subprocess.run(command[:-1], text=True, capture_output=True, check=False, timeout=300,
                            env=environment_of_mpirun())
    assert result.returncode == 0, result
    assert all(row["#wrong"] == "0" for row in rows(result.stdout)) and rows(result.stdout)


def find_ranks_of_mpirun(count):
    found, end = {}, time.monotonic() + PATIENCE
    while len(found) < count and time.monotonic() < end:
        for name in os.listdir("/proc"):
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    variables = file.read()
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    line = file.read()
            except (OSError, NotADirectoryError):
                continue
            rank = re.search(rb"(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)", variables)
            if rank and line.startswith(DYNO.encode()) and b"DYNO_TEST_JOB=1" in variables:
                found[int(rank[1])] = int(name)
        time.sleep(0.02)
    return found


def a_rank_of_mpirun_that_is_harmed_ends_the_job():
    if not HAS_MPI:
        return
    for number, hosts in ((signal.SIGKILL, "aab"), (signal.SIGSTOP, "aab"), (signal.SIGSTOP, "aaa")):
        command = ["mpirun"]
        for host in hosts:
            command += ["-np", "1", "-x", f"DYNO_HOST={host}", DYNO, *ENDLESS.split(),
                        "--transport", "mpi", ":"]
        with subprocess.Popen(command[:-1], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=environment_of_mpirun(DYNO_TEST_JOB="1")) as job:
            ranks = find_ranks_of_mpirun(3)
            time.sleep(1)
            os.kill(ranks[1], number)
            _, errors = job.communicate(timeout=PATIENCE)
        assert job.returncode != 0
        assert "rank 1" in errors, errors
        end = time.monotonic() + 10
        while any(os.path.exists(f"/proc/{rank}") for rank in ranks.values()):
            assert time.monotonic() < end, "ranks are left"
            time.sleep(0.05)


def many_ranks_on_few_cores_work():
    result = run("allreduce --ranks 16 --bytes 1MB --reps 2 --operands shared,private --format csv")
    assert result.returncode == 0, result.stderr
    assert all(row["#wrong"] == "0" for row in rows(result.stdout))


run_all(collectives_are_right_and_shown_in_every_format, the_record_holds_the_samples_of_every_rank,
        a_single_rank_needs_no_other, what_is_wrong_is_said_once_with_exit_code_2,
        transports_that_are_not_there_say_why, what_does_not_fit_is_a_row_that_says_so,
        a_rank_that_is_killed_ends_the_job, a_rank_that_is_stopped_ends_the_job,
        a_rank_that_dies_at_start_up_ends_the_job, the_death_of_the_launcher_ends_all_ranks,
        an_interruption_keeps_what_was_measured, a_terminals_signal_to_the_whole_group_counts_once,
        a_second_interruption_ends_it_at_once, a_job_that_is_stopped_and_continued_goes_on,
        ranks_that_were_started_differently_are_named, collectives_between_hosts_are_right,
        sixteen_bit_types_go_between_hosts, a_rank_of_mpirun_that_is_harmed_ends_the_job,
        many_ranks_on_few_cores_work)
