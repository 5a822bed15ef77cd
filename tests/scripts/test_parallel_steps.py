"""Steps and benchmarks on several ranks as users run them, with --ranks and with mpirun: the same bits as one
process, what the tables say, and ranks that are harmed."""
import glob
import json
import os
import random
import signal
import struct
import subprocess
import tempfile
import time

from cases import run_all
from rank_jobs import (DYNO, HAS_MPI, Job, environment_of_mpirun, expect_one_message, rows, run, without_sanitizer)

TINY = "--layers 2 --d-model 24 --d-ff 40 --heads 3 --vocab 61"
MODES = ("ddp-naive", "ddp-flat", "ddp-overlap", "ddp-bucket:0.004", "zero1", "fsdp")
TOKENS = 4096


class Model:
    """A model and tokens for it, in a folder of their own."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = self.folder.name
        numbers = random.Random(0)
        with open(f"{self.path}/text.bin", "wb") as file:
            file.write(struct.pack(f"<{TOKENS}H", *(numbers.randrange(61) for _ in range(TOKENS))))
        made = run(f"init {TINY} --out {self.path}/llama")
        assert made.returncode == 0, made.stderr

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def step(self, more):
        return f"step --load {self.path}/llama --tokens {self.path}/text.bin --context 8 --timeout 10 {more}"

    def weights(self, name):
        found = b""
        for path in sorted(glob.glob(f"{self.path}/{name}/*.safetensors")):
            with open(path, "rb") as file:
                found += file.read()
        assert found
        return found


def steps_on_ranks_have_the_bits_of_accumulation():
    with Model() as model:
        for way in ("--mode eager --clip 0.3", "--mode compiled --precision bf16"):
            kept = f"--dump weights --out {model.path}/NAME.safetensors --force"
            common = f"--batch 2 --steps 3 {way} {kept} --save {model.path}/NAME "
            alone = run(model.step(common.replace("NAME", "alone") + "--accumulate 3"))
            assert alone.returncode == 0 and alone.stdout.count("loss") == 3, alone
            for mode in MODES:
                result = run(model.step(common.replace("NAME", "ranks") + f"--ranks 3 --parallel {mode}"))
                assert result.returncode == 0 and not result.stderr, (mode, result.stderr)
                assert result.stdout == alone.stdout, (mode, result.stdout, alone.stdout)
                assert model.weights("ranks") == model.weights("alone"), (way, mode)
                with open(f"{model.path}/ranks.safetensors", "rb") as one, \
                        open(f"{model.path}/alone.safetensors", "rb") as other:
                    assert one.read() == other.read(), (way, mode)


def ranks_batch_and_accumulate_read_the_same_tokens():
    with Model() as model:
        losses = [run(model.step(f"--steps 1 --save {model.path}/m{i} {way}")).stdout
                  for i, way in enumerate(("--batch 6", "--batch 2 --accumulate 3", "--batch 2 --ranks 3",
                                           "--batch 1 --accumulate 3 --ranks 2"))]
        values = [float(text.split()[-1]) for text in losses]
        assert max(values) - min(values) < 2e-6 * values[0], losses


def bench_shows_every_way():
    with tempfile.TemporaryDirectory() as folder:
        result = run(f"bench {TINY} --ranks 2 --accumulate 2 --batch 1 --context 8 --pass step --steps 3 --mode compiled "
                     f"--parallel {','.join(MODES)} --format csv --out {folder}/run")
        assert result.returncode == 0, result.stderr
        table = [row for row in rows(result.stdout) if row["pass"] == "step"]
        assert [row["parallel"] for row in table] == list(MODES)
        for row in table:
            assert row["status"] == "OK" and row["ranks"] == "2" and row["accumulate"] == "2", row
            assert float(row["communication ms"]) > 0 and float(row["exposed communication ms"]) > 0, row
            assert float(row["exposed communication ms"]) <= float(row["communication ms"]), row
            assert 0 <= float(row["overlap %"]) <= 100, row
            if row["parallel"].startswith("ddp"):  # the loss is sent beside the gradients
                assert 0 <= float(row["sent MB"]) / float(row["formula MB"]) - 1 < 0.001, row
        with open(f"{folder}/run/run.json", encoding="utf-8") as file:
            cells = json.load(file)["cells"]
        for cell in cells:
            assert cell["metrics"]["tokens"]["value"] == 2 * 2 * 1 * 8
            assert [len(cell["samples"][f"rank.{rank}"]["values"]) for rank in range(2)] == [3, 3]
            for row in cell["breakdowns"]["memory_stages"]["rows"]:
                assert row["values"][0] == row["values"][1], (cell["parameters"]["parallel"], row)
            peaks = [row["values"][0] for row in cell["breakdowns"]["by_rank"]["rows"]]
            assert peaks[0] == peaks[1] == cell["metrics"]["predicted_bytes"]["value"], cell["parameters"]
        assert run(f"show {folder}/run --format csv").stdout == result.stdout


def plans_print_the_collectives_of_every_way():
    counts = {}
    for mode in MODES:
        result = run(f"plan {TINY} --ranks 4 --parallel {mode} --dump-after parallel")
        assert result.returncode == 0, result.stderr
        counts[mode] = [result.stdout.count(f" = {op} ") for op in ("all_reduce", "reduce_scatter", "all_gather")]
    parameters = 2 * 9 + 3
    assert counts["ddp-naive"] == counts["ddp-overlap"] == [parameters, 0, 0], counts
    assert counts["ddp-flat"] == [1, 0, 0], counts
    assert 1 < counts["ddp-bucket:0.004"][0] < parameters, counts
    assert counts["zero1"][1] > 0 and counts["fsdp"][1] == counts["zero1"][1], counts
    assert counts["fsdp"][2] > counts["fsdp"][1], counts  # gathered again in the backward
    result = run(f"memory {TINY} --ranks 4 --parallel ddp-flat,zero1,fsdp --mode compiled --format csv")
    peaks = [float(row["peak MiB"]) for row in rows(result.stdout)]
    assert peaks[0] > peaks[1] > peaks[2], result.stdout


def profiles_trace_one_rank_of_several():
    with tempfile.TemporaryDirectory() as folder:
        result = run(f"profile {TINY} --ranks 2 --parallel fsdp --accumulate 3 --batch 1 --context 8 --pass step "
                     f"--steps 2 --by class --format csv --trace {folder}/trace.json")
        assert result.returncode == 0, result.stderr
        assert "communication," in result.stdout, result.stdout
        with open(f"{folder}/trace.json", encoding="utf-8") as file:
            assert json.load(file)["traceEvents"]


def what_is_wrong_is_said_once():
    with Model() as model:
        for arguments, code, part in (
                (f"bench {TINY} --ranks 3 --parallel all", 2, "there are ddp-naive"),
                (f"bench {TINY} --ranks 3 --reduce int8", 2, "--reduce"),
                (f"bench {TINY} --ranks 3 --accumulate 0", 2, "--accumulate"),
                ("bench --ranks 3 --model nope", 2, "no preset"),
                (f"memory {TINY} --ranks 3 --measure", 2, "dyno bench --ranks"),
                (model.step(f"--steps 1000 --ranks 2 --save {model.path}/new"), 2, "holds 4096 tokens"),
                (model.step(f"--ranks 2 --save {model.path}/llama"), 2, "has a model already"),
                ("step --ranks 2 --load /nowhere --tokens /nowhere --save /nowhere/x", 1, "/nowhere")):
            result = run(arguments)
            assert result.returncode == code and part in result.stderr, (arguments, result)
            assert len(without_sanitizer(result.stderr)) == 1 and not result.stdout, (arguments, result)


def what_does_not_fit_is_a_row():
    result = run(f"bench {TINY} --ranks 2 --parallel ddp-flat,fsdp --pass step --memory 100kB --format csv")
    assert result.returncode == 0, result.stderr
    assert [row["status"] for row in rows(result.stdout)] == ["OOM", "OOM"], result.stdout


def ranks_that_are_harmed_end_the_job():
    for number, said, mode, rank in ((signal.SIGKILL, "was killed by signal 9", "ddp-bucket:0.004", 0),
                                     (signal.SIGKILL, "was killed by signal 9", "fsdp", 1),
                                     (signal.SIGSTOP, "is stopped (SIGSTOP)", "zero1", 2)):
        job = Job(f"bench {TINY} --parallel {mode} --batch 1 --context 8 --pass step --steps 1000000 --timeout 2")
        time.sleep(2)
        os.kill(job.ranks[rank], number)
        code, _, errors = job.end()
        assert code == 1, code
        expect_one_message("\n".join(line for line in errors.splitlines() if "this takes" not in line), rank)
        assert said in errors, errors


def ranks_that_are_harmed_at_start_up_end_the_job():
    with Model() as model:
        for number in (signal.SIGKILL, signal.SIGSTOP):
            job = Job(model.step(f"--steps 160 --batch 1 --save {model.path}/new").replace("10", "3"))
            os.kill(job.ranks[1], number)
            code, _, errors = job.end()
            assert code == 1, (code, errors)
            expect_one_message(errors, 1)
            assert not os.path.exists(f"{model.path}/new"), "a model was written"


def an_interruption_keeps_the_steps_that_were_done():
    with tempfile.TemporaryDirectory() as folder:
        for seconds in (2, 8):
            job = Job(f"bench {TINY} --parallel fsdp --batch 1 --context 8 --pass step --steps 1000000 "
                      f"--out {folder}/run{seconds}")
            time.sleep(seconds)
            os.kill(job.process.pid, signal.SIGINT)
            code, output, errors = job.end()
            assert code == 130 and errors.count("interrupted") == 1, (code, errors)
            if output:
                break
        assert "INCOMPLETE" in output, output


def sixteen_ranks_share_two_cores():
    result = run(f"bench {TINY} --ranks 16 --parallel ddp-bucket:0.004,fsdp --batch 1 --context 4 --pass step --steps 2 "
                 "--warmup 0 --format csv --timeout 60")
    assert result.returncode == 0, result.stderr
    assert {row["status"] for row in rows(result.stdout)} == {"OK"}, result.stdout


def ranks_of_several_hosts_have_the_same_bits():
    """Hosts that are told apart by name only: MPI goes between them all the same."""
    if not HAS_MPI:
        return
    with Model() as model:
        alone = run(model.step(f"--batch 1 --accumulate 3 --steps 3 --save {model.path}/alone"))
        assert alone.returncode == 0, alone.stderr
        for mode in ("ddp-bucket:0.004", "fsdp"):
            arguments = model.step(f"--batch 1 --steps 3 --parallel {mode} --save {model.path}/mpi --force").split()
            command = ["mpirun"]
            for host in "aab":
                command += ["-np", "1", "-x", f"DYNO_HOST={host}", DYNO, *arguments, ":"]
            result = subprocess.run(command[:-1], text=True, capture_output=True, check=False, timeout=300,
                                    env=environment_of_mpirun())
            assert result.returncode == 0, result.stderr
            assert result.stdout == alone.stdout, (result.stdout, alone.stdout)
            assert model.weights("mpi") == model.weights("alone"), mode


run_all(steps_on_ranks_have_the_bits_of_accumulation, ranks_batch_and_accumulate_read_the_same_tokens,
        bench_shows_every_way, plans_print_the_collectives_of_every_way, profiles_trace_one_rank_of_several,
        what_is_wrong_is_said_once, what_does_not_fit_is_a_row, ranks_that_are_harmed_end_the_job,
        ranks_that_are_harmed_at_start_up_end_the_job, an_interruption_keeps_the_steps_that_were_done,
        sixteen_ranks_share_two_cores, ranks_of_several_hosts_have_the_same_bits)
