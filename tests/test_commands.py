"""Servers as commands: what they print, and with what they end."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import penstock
from penstock import Dataset, _binary
from penstock.tfrecord import write_tfrecord
from support.cluster import run
from support.servers import DAC_OVERRIDE, without

MISCONFIGURED = 2


@contextmanager
def _server(*arguments: str) -> Iterator[str]:
    """A server, and the line that it prints when it listens."""
    environment = {**_binary.environment(), "PENSTOCK_LOG": "error"}
    with subprocess.Popen([_binary.path(), *arguments], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline()
        finally:
            process.kill()


def test_servers_say_on_stdout_where_they_listen() -> None:
    with _server("dispatcher", "--listen", "127.0.0.1:0") as dispatcher, _server("worker", "--dispatcher", dispatcher.strip(), "--json") as worker:
        assert json.loads(worker)["address"].startswith("127.0.0.1:")
        assert len(list(Dataset.from_range(5).distribute(dispatcher.strip()))) == 5


def test_a_worker_that_is_taken_for_the_dispatcher_is_refused_as_one() -> None:
    with (
        _server("dispatcher", "--listen", "127.0.0.1:0") as dispatcher,
        _server("worker", "--dispatcher", dispatcher.strip()) as worker,
        pytest.raises(penstock.Invalid, match="is a worker; give the address that `penstock dispatcher` prints"),
    ):
        penstock.connect(worker.strip())


def test_a_local_service_with_too_little_memory_is_a_mistake_and_not_worth_retrying() -> None:
    done = run("local", "--workers", "1", "--memory", "1KiB", "--", "true")
    assert done.returncode == MISCONFIGURED, done.stderr
    with pytest.raises(penstock.Invalid, match="ended with 2 before it was ready"):
        penstock.local(workers=1, memory="1KiB")


def test_an_address_that_the_user_may_not_take_is_not_worth_retrying(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o500)
    done = subprocess.run(
        [_binary.path(), "dispatcher", "--listen", f"unix:{tmp_path}/socket"],
        preexec_fn=without(DAC_OVERRIDE),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == MISCONFIGURED, done.stderr
    assert "Permission denied" in done.stderr


def test_a_local_service_ends_without_a_word() -> None:
    for _ in range(5):
        done = run("local", "--workers", "2", "--", "true")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_read_shows_the_first_rows_of_files_and_counts_all(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    write_tfrecord(path, [{"id": i} for i in range(20)])
    done = run("read", str(path), "--parse", "id:int64")
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [0, 1, 2, 3, 4]
    assert done.stderr.startswith("20 rows")
    done = run("read", str(path), "--parse", "id:int64", "-n", "7")
    assert len(done.stdout.splitlines()) == 7


def test_no_rows_are_a_mistake_and_not_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    write_tfrecord(path, [{"id": i} for i in range(20)])
    refused = run("read", str(path), "--parse", "id:int64", "-n", "0")
    assert (refused.returncode, refused.stdout) == (MISCONFIGURED, "")
    assert refused.stderr == "penstock: -n 0 reads nothing: say how many rows, or leave it out to read all\n"


def test_status_of_a_worker_says_whom_to_ask() -> None:
    with _server("dispatcher", "--listen", "127.0.0.1:0") as dispatcher, _server("worker", "--dispatcher", dispatcher.strip()) as worker:
        refused = run("status", "--dispatcher", worker.strip())
    assert refused.returncode == MISCONFIGURED
    assert f"the process at {worker.strip()} is a worker; give the address that `penstock dispatcher` prints" in refused.stderr


def test_help_names_actions_and_flags_as_they_are_written() -> None:
    assert "Usage: penstock token create [OPTIONS]" in run("token", "--help").stdout
    told = run("tfjob", "--help").stdout
    assert "Usage: penstock tfjob run MANIFEST [OPTIONS]" in told
    assert "--volume" in told
    assert "--env" in told


def test_a_silent_address_is_asked_about_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        done = run("status", "--dispatcher", f"127.0.0.1:{silent.getsockname()[1]}")
    assert "did not answer hello" in done.stderr
    assert done.stderr.count("?") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dispatcher", "--token-file", ""], "--token-file: it is empty"),
        (["dispatcher", "--state-dir", ""], "--state-dir: it is empty"),
        (["dispatcher", "--listen="], "--listen"),
        (["worker", "--dispatcher", ""], "--dispatcher: it is empty"),
        (["worker", "--allow-path", "/data", "--allow-path", ""], "--allow-path: it is empty"),
        (["worker", "--memory", "0"], "--memory"),
        (["local", "--memory", "0", "--", "true"], "--memory"),
    ],
)
def test_a_flag_without_a_value_as_of_a_variable_that_is_not_set_is_refused(arguments: list[str], words: str) -> None:
    refused = run(*arguments)
    assert (refused.returncode, refused.stdout) == (MISCONFIGURED, "")
    assert words in refused.stderr


@pytest.mark.parametrize("workers", ["0", "1025", "99999999"])
def test_a_local_service_has_1_to_1024_workers(workers: str) -> None:
    refused = run("local", "--workers", workers, "--", "true")
    assert (refused.returncode, refused.stderr) == (MISCONFIGURED, f"penstock: --workers {workers}: give a number from 1 to 1024\n")
