"""Cold start, and services that Python starts."""

import os
import signal
import subprocess
import sys
import time

import pytest

import penstock
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


def test_a_local_service_leaves_nothing_behind() -> None:
    with penstock.local(workers=2) as service:
        assert len(list(Dataset.from_range(5).distribute(service))) == 5
        assert service._processes is not None
        processes = [service._processes.dispatcher, *service._processes.workers]
        directory = service._processes.directory
    assert all(process.poll() is not None for process in processes)
    assert not directory.exists()


def test_the_environment_names_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    with penstock.local(workers=1) as service:
        monkeypatch.setenv("PENSTOCK_SERVICE", service.address)
        with Dataset.from_range(5).distribute(job_name="named") as reader:
            assert reader.job_name == "named"
            assert len(list(reader)) == 5


def test_ctrl_c_interrupts_a_reader_that_waits() -> None:
    program = (
        "import penstock\n"
        "with penstock.local(workers=1) as service:\n"
        "    service._processes.workers[0].kill()\n"
        "    print('waiting', flush=True)\n"
        "    next(iter(penstock.Dataset.from_range(5).distribute(service)))\n"
    )
    waiting = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "waiting\n"
    wait_until(lambda: len(os.listdir(f"/proc/{waiting.pid}/task")) > 1, "the reader joins")
    waiting.send_signal(signal.SIGINT)
    begin = time.monotonic()
    _, errors = waiting.communicate(timeout=10)
    assert time.monotonic() - begin < 2
    assert "KeyboardInterrupt" in errors
