"""Cold start, and services that Python starts."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import penstock
from conftest import StartCluster
from penstock import Dataset
from support.cluster import run
from support.waiting import wait_until


def _best_of(times: int, measure) -> float:  # type: ignore[no-untyped-def]
    return min(measure() for _ in range(times))


def test_a_local_service_starts_and_ends_in_half_a_second() -> None:
    def once() -> float:
        begin = time.monotonic()
        assert run("local", "--workers", "2", "--", "true").returncode == 0
        return time.monotonic() - begin

    assert _best_of(3, once) < 0.5


def test_local_gives_its_command_the_service_and_its_exit_code() -> None:
    program = "import penstock; print(len(list(penstock.Dataset.from_range(7).distribute()))); raise SystemExit(5)"
    done = run("local", "--workers", "1", "--", sys.executable, "-c", program)
    assert (done.returncode, done.stdout.split()) == (5, ["7"]), done.stderr


def test_the_first_batch_of_a_small_job_comes_within_200_ms() -> None:
    with penstock.local(workers=2) as service:
        list(Dataset.from_range(10).distribute(service))

        def once() -> float:
            begin = time.monotonic()
            next(iter(Dataset.from_range(1000).batch(10).distribute(service)))
            return time.monotonic() - begin

        assert _best_of(3, once) < 0.2


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def _running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_local_service_leaves_nothing_behind() -> None:
    with penstock.local(workers=2) as service:
        assert len(list(Dataset.from_range(5).distribute(service))) == 5
        assert service._processes is not None
        pid = service._processes.process.pid
        family = [pid, *_children(pid)]
        assert len(family) == 5  # penstock local, a dispatcher, two workers, and what waits for our end
    wait_until(lambda: not any(map(_running, family)), "all are gone")


def test_a_local_service_goes_with_a_program_that_is_killed() -> None:
    program = "import penstock; s = penstock.local(workers=1); print(s._processes.process.pid, flush=True); input()"
    started = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    pid = int(started.stdout.readline())
    family = [pid, *_children(pid)]
    started.kill()
    started.communicate()
    wait_until(lambda: not any(map(_running, family)), "all are gone")


def test_the_environment_names_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    with penstock.local(workers=1) as service:
        monkeypatch.setenv("PENSTOCK_SERVICE", service.address)
        with Dataset.from_range(5).distribute(job_name="named") as reader:
            assert reader.job_name == "named"
            assert len(list(reader)) == 5


def test_ctrl_c_interrupts_a_reader_that_waits(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=0)
    # A shell that runs the tests in the background has its children ignore the signal.
    heeds = "import signal, sys, penstock; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{heeds}; print('go', flush=True); next(iter(penstock.Dataset.from_range(5).distribute(sys.argv[1])))"
    waiting = subprocess.Popen([sys.executable, "-c", program, cluster.address], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "go\n"
    wait_until(lambda: len(os.listdir(f"/proc/{waiting.pid}/task")) > 1, "the reader connects")
    waiting.send_signal(signal.SIGINT)
    begin = time.monotonic()
    _, errors = waiting.communicate(timeout=10)
    assert time.monotonic() - begin < 2
    assert "KeyboardInterrupt" in errors


@pytest.mark.parametrize("arguments", [["statsu"], ["--json", "statsu"], ["statsu", "--help"]])
def test_a_misspelt_subcommand_is_named_with_the_one_that_was_meant(arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "penstock: there is no subcommand 'statsu', did you mean 'status'? `penstock --help` lists them\n"


def test_a_subcommand_that_is_far_from_all_is_named() -> None:
    done = run("foo", "--help")
    assert (done.returncode, done.stderr) == (2, "penstock: there is no subcommand 'foo'; `penstock --help` lists them\n")
    assert run("--help").returncode == 0
    assert run("status", "--help").returncode == 0


# ---- names of jobs whose start was refused


def test_a_start_that_a_worker_refuses_leaves_its_name_to_the_one_that_was_mended(start_cluster: StartCluster) -> None:
    cluster = start_cluster(1)
    with pytest.raises(penstock.PermissionDenied, match="--allow-code"):
        list(Dataset.from_range(10).map(lambda x: x).distribute(cluster.address, job_name="train"))
    with Dataset.from_range(20).distribute(cluster.address, job_name="train") as mended:
        assert len(list(mended)) == 20


def test_a_program_that_ends_with_a_refusal_leaves_its_name(start_cluster: StartCluster) -> None:
    cluster = start_cluster(1)
    joins = "job_name='train', num_consumers=2, consumer_index=0"
    refused = f"import sys, penstock; list(penstock.Dataset.from_range(10).map(lambda x: x).distribute(sys.argv[1], {joins}))"
    assert subprocess.run([sys.executable, "-c", refused, cluster.address], capture_output=True, timeout=60, check=False).returncode == 1
    with Dataset.from_range(20).distribute(cluster.address, job_name="train") as mended:
        assert len(list(mended)) == 20


def test_a_job_of_which_a_row_was_delivered_keeps_its_name(start_cluster: StartCluster) -> None:
    cluster = start_cluster(1)
    with Dataset.from_range(1000).distribute(cluster.address, job_name="train") as reader:
        next(iter(reader))
    with pytest.raises(penstock.DatasetMismatch, match="reads another dataset"):
        Dataset.from_range(20).distribute(cluster.address, job_name="train")
