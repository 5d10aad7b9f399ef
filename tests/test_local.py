"""`penstock local`, `penstock.local()` and "local:N": on loopback, with a token and a state of their own, wherever they are started."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock import Dataset, _binary
from support.cluster import run
from support.waiting import wait_until

DENIED = 2
READ = "import penstock; print(len(list(penstock.Dataset.from_range(7).distribute())))"
READ_AT = "import sys, penstock; print(len(list(penstock.Dataset.from_range(7).distribute(sys.argv[1]))))"
READER = {"cluster": {"datasetworker": ["192.0.2.2:5"], "datasetdispatcher": ["192.0.2.2:5050"]}, "task": {"type": "datasetworker", "index": 0}}

# What platforms, and those who deploy on them, say to a process; of a service elsewhere.
PLACES = [
    {"POD_IP": "192.0.2.2"},
    {"PENSTOCK_ADVERTISE": "192.0.2.2:7"},
    {"HAS_READERS": "True", "TASK_TYPE": "datasetworker", "SLURM_JOB_NODELIST_HET_GROUP_0": "head", "SLURMD_NODENAME": "192.0.2.2"},
    {"SPEC_TYPE": "datasetworker"},
    {"TF_CONFIG": json.dumps(READER)},
    {"TF_CONFIG": "{"},
    {"PENSTOCK_ROLE": "dispatcher", "PENSTOCK_SERVICE": "penstock://192.0.2.2:5050"},
    {"PENSTOCK_STATE_DIR": "/no/such/place"},
    {"DATASET_JOURNALING_DIR": "/no/such/place"},
]


@pytest.fixture(autouse=True)
def no_token_is_left_in_the_environment() -> Iterator[None]:
    yield
    assert "PENSTOCK_TOKEN" not in os.environ


def _set(place: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in place.items():
        monkeypatch.setenv(name, value)


def _workers(status: str) -> list[str]:
    return [worker["address"].rpartition(":")[0] for worker in json.loads(status)["workers"]]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: next(iter(place)))
def test_a_local_service_stays_on_loopback_wherever_it_is_started(monkeypatch: pytest.MonkeyPatch, place: dict[str, str]) -> None:
    _set(place, monkeypatch)
    done = run("local", "--workers", "2", "--", _binary.path(), "status", "--json")
    assert done.returncode == 0, done.stderr
    assert _workers(done.stdout) == ["127.0.0.1", "127.0.0.1"]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: next(iter(place)))
def test_so_does_one_that_python_starts(monkeypatch: pytest.MonkeyPatch, place: dict[str, str]) -> None:
    _set(place, monkeypatch)
    with penstock.local(workers=2) as service:
        assert service.address.startswith("penstock://127.0.0.1:")
        done = run("status", "--json", "--dispatcher", service.address.removeprefix("penstock://"))
        assert _workers(done.stdout) == ["127.0.0.1", "127.0.0.1"]


def test_the_command_sees_the_users_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    _set({"POD_IP": "192.0.2.2", "PENSTOCK_STATE_DIR": "/x"}, monkeypatch)
    done = run("local", "--workers", "1", "--", "sh", "-c", "echo $POD_IP $PENSTOCK_STATE_DIR")
    assert (done.returncode, done.stdout) == (0, "192.0.2.2 /x\n")


def test_every_local_service_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("PENSTOCK_JOB_NAME", "train")
    for _ in range(2):
        done = run("local", "--workers", "1", "--", sys.executable, "-c", READ)
        assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr
        with penstock.local(workers=1) as service:
            assert len(list(Dataset.from_range(7).distribute(service))) == 7
    assert list(tmp_path.iterdir()) == []


# ---- the token


def test_only_who_has_the_token_of_a_local_service_is_let_in() -> None:
    with_it = run("local", "--workers", "1", "--", _binary.path(), "status")
    assert with_it.returncode == 0, with_it.stderr
    without = run("local", "--workers", "1", "--", "env", "-u", "PENSTOCK_TOKEN", _binary.path(), "status")
    assert without.returncode == DENIED
    assert "token" in without.stderr


def test_nor_are_others_let_in_by_one_that_python_starts() -> None:
    with penstock.local(workers=1) as service:
        for wrong in ("", "guessed"):
            with pytest.raises(penstock.PermissionDenied, match="token"):
                penstock.connect(service.address, token=wrong, timeout=5)
        stranger = {name: value for name, value in os.environ.items() if name != "PENSTOCK_TOKEN"}
        done = subprocess.run([sys.executable, "-c", READ_AT, service.address], env=stranger, capture_output=True, text=True, timeout=60, check=False)
        assert "PermissionDenied" in done.stderr
        worker = json.loads(run("status", "--json", "--dispatcher", service.address.removeprefix("penstock://")).stdout)["workers"][0]["address"]
        with pytest.raises(penstock.PermissionDenied):
            penstock.connect(worker, token="", timeout=5)


def test_programs_that_are_told_the_address_of_a_local_service_read_from_it() -> None:
    with penstock.local(workers=1) as service:
        with penstock.connect(service.address) as again:
            assert len(list(Dataset.from_range(7).distribute(again))) == 7
        child = subprocess.run([sys.executable, "-c", READ_AT, service.address], capture_output=True, text=True, timeout=60, check=False)
        assert child.stdout == "7\n", child.stderr
        clean = {name: value for name, value in os.environ.items() if name != "PENSTOCK_TOKEN"}
        shows = "import sys, penstock; penstock.connect(sys.argv[1], token=sys.stdin.read())"
        other = [sys.executable, "-c", shows, service.address]
        assert subprocess.run(other, env=clean, input=service.token, text=True, timeout=60, check=False).returncode == 0


def test_local_services_of_one_time_share_a_token_and_the_last_takes_it_along() -> None:
    with penstock.local(workers=1) as first:
        with penstock.local(workers=1) as second:
            assert os.environ["PENSTOCK_TOKEN"] == first.token == second.token
            first.close()
            assert len(list(Dataset.from_range(7).distribute(second.address))) == 7
        assert "PENSTOCK_TOKEN" not in os.environ
    with penstock.local(workers=1) as third:
        assert third.token != second.token


def test_a_service_that_is_named_local_needs_nothing_in_the_environment() -> None:
    program = "import os, penstock; print(len(list(penstock.Dataset.from_range(7).distribute('local:1'))), os.environ.get('PENSTOCK_TOKEN'))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "7 None\n", done.stderr


def test_a_token_that_is_configured_is_a_local_services_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("a token of this test\n")
    monkeypatch.setenv("PENSTOCK_TOKEN_FILE", str(token))
    done = run("local", "--workers", "1", "--", sys.executable, "-c", READ + "; import os; print(os.environ.get('PENSTOCK_TOKEN'))")
    assert done.stdout == "7\nNone\n", done.stderr
    with penstock.local(workers=1) as service:
        assert service.token == "a token of this test"
        assert len(list(Dataset.from_range(7).distribute(service))) == 7


def test_the_token_of_a_local_service_is_in_no_command_line() -> None:
    with penstock.local(workers=1) as service:
        assert service.token
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                assert service.token.encode() not in process.read_bytes()
            except OSError:
                continue


@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["words", "json"])
def test_a_local_service_without_a_command_says_what_to_set_elsewhere(flags: list[str]) -> None:
    with subprocess.Popen([_binary.path(), "local", "--workers", "1", *flags], stdout=subprocess.PIPE, text=True, env=_binary.environment()) as local:
        assert local.stdout is not None
        if flags:
            said = json.loads(local.stdout.readline())
            elsewhere = {"PENSTOCK_SERVICE": said["service"], "PENSTOCK_TOKEN": said["token"]}
        else:
            elsewhere = dict(local.stdout.readline().strip().split("=", 1) for _ in range(2))
        done = subprocess.run([_binary.path(), "status"], env={**os.environ, **elsewhere}, capture_output=True, text=True, timeout=30, check=False)
        local.terminate()
        assert done.returncode == 0, done.stderr
        assert local.wait(10) == 0


# ---- while it starts


@pytest.mark.parametrize("asked", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_a_local_service_that_still_starts(tmp_path: Path, asked: signal.Signals) -> None:
    fifo = tmp_path / "ca.pem"
    os.mkfifo(fifo)  # the dispatcher waits for somebody to write
    environment = {**_binary.environment(), "PENSTOCK_TLS_CA": str(fifo)}
    heeds = ["env", "--default-signal=INT,HUP"]  # a shell that runs the tests in the background has its children ignore them
    local = subprocess.Popen([*heeds, _binary.path(), "local", "--workers", "1", "--", "true"], env=environment)
    servers = Path(f"/proc/{local.pid}/task/{local.pid}/children")
    wait_until(servers.read_text, "the dispatcher is started")
    dispatcher = Path(f"/proc/{servers.read_text().split()[0]}")
    local.send_signal(asked)
    assert local.wait(10) == 128 + asked
    wait_until(lambda: not _runs(dispatcher), "the dispatcher is gone")


def _runs(process: Path) -> bool:
    try:
        return " Z " not in (process / "stat").read_text()
    except OSError:
        return False


def test_the_command_is_told_whoever_asks_and_however() -> None:
    command = ["sh", "-c", "trap 'echo asked; exit 9' TERM; echo up; while :; do sleep 0.05; done"]
    with subprocess.Popen([_binary.path(), "local", "--", *command], stdout=subprocess.PIPE, text=True, env=_binary.environment()) as local:
        assert local.stdout is not None
        assert local.stdout.readline() == "up\n"
        assert ctypes.CDLL(None).sigqueue(local.pid, signal.SIGTERM, None) == 0  # as supervisors may
        try:
            assert local.wait(20) == 9
        finally:
            local.kill()
        assert local.stdout.read() == "asked\n"


# ---- its end


def test_reading_on_after_this_process_has_stopped_its_service_is_an_error_at_once() -> None:
    with penstock.local(workers=1) as service:
        dataset = Dataset.from_range(50_000_000).batch(1000)
        reader = dataset.distribute(service, memory="1MiB", timeout=40)
        elements = iter(reader)
        next(elements)
    with pytest.raises(penstock.Unavailable, match="this process has stopped its own service"):
        list(elements)
    reader.close()
    with pytest.raises(penstock.Unavailable, match="this process has stopped its own service"):
        dataset.distribute(service.address)


def test_it_ends_with_the_program_though_a_forked_child_of_that_lives_on() -> None:
    program = """
import os, signal, sys, penstock
service = penstock.local(workers=1)
child = os.fork()
if child == 0:
    signal.pause()
print(service._processes.process.pid, child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        service, child = map(int, started.stdout.readline().split())
    try:
        wait_until(lambda: not Path(f"/proc/{service}").exists(), "the end of the service")
        assert Path(f"/proc/{child}").exists()
    finally:
        os.kill(child, signal.SIGKILL)
