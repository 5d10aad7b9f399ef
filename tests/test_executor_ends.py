"""What user code has started does not keep its executor from being seen to end, and ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from conftest import StartCluster
from penstock import Dataset, _binary
from support.cluster import TestCluster
from support.waiting import wait_until

CODE = ["--allow-code", "--cpus", "1"]
ROW = penstock.Spec(np.int64, ())


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class _Forks:
    """On its 5th row it forks a child that would stay for minutes, and writes down which."""

    def __init__(self, to: Path, then: int = 0) -> None:
        self.to = str(to)
        self.then = then

    def __call__(self, x: Any) -> Any:
        if x == 5:
            pid = os.fork()
            if pid == 0:
                time.sleep(300)
                os._exit(0)
            with open(self.to, "a") as children:
                children.write(f"{pid}\n")
            if self.then:
                os.kill(os.getpid(), self.then)
        return x


def _children(said: Path) -> list[int]:
    return [int(line) for line in said.read_text().split()] if said.exists() else []


def _are_gone(said: Path) -> None:
    children = _children(said)
    assert children
    wait_until(lambda: not any(map(_lives, children)), "the end of what user code had forked")


def test_a_crash_is_seen_though_a_forked_child_lives_on(start_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = start_cluster(1, worker_flags=CODE)
    dataset = Dataset.from_range(100).map(_Forks(tmp_path / "children", signal.SIGSEGV), spec=ROW)
    with pytest.raises(penstock.ExecutorError, match="signal 11"):
        list(dataset.distribute(cluster.address, timeout=30))
    _are_gone(tmp_path / "children")


def test_a_crash_is_seen_though_a_program_with_a_session_of_its_own_holds_all_descriptors(start_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = start_cluster(1, worker_flags=CODE)
    said = tmp_path / "children"

    def crashes(x: Any) -> Any:
        if x == 5:
            child = subprocess.Popen(["sleep", "300"], close_fds=False, pass_fds=[3], start_new_session=True)
            with open(said, "a") as children:
                children.write(f"{child.pid}\n")
            os.kill(os.getpid(), signal.SIGSEGV)
        return x

    try:
        with pytest.raises(penstock.ExecutorError, match="signal 11"):
            list(Dataset.from_range(100).map(crashes, spec=ROW).distribute(cluster.address, timeout=30))
    finally:
        for child in _children(said):
            os.kill(child, signal.SIGKILL)


def _read_some(cluster: TestCluster | penstock.Service, said: Path) -> Any:
    reader = iter(Dataset.from_range(1_000_000).map(_Forks(said), spec=ROW).distribute(cluster.address))
    next(reader)
    wait_until(lambda: _children(said), "the fork")
    return reader


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL], ids=lambda ending: ending.name)
def test_what_user_code_forked_ends_with_the_worker(ending: signal.Signals, start_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = start_cluster(1, worker_flags=[*CODE, "--drain-timeout", "0s"])
    reader = _read_some(cluster, tmp_path / "children")
    cluster.workers[0].send_signal(ending)
    cluster.workers[0].wait(30)
    _are_gone(tmp_path / "children")
    del reader


def test_what_user_code_forked_ends_with_a_local_service(tmp_path: Path) -> None:
    with penstock.local(workers=1) as service:
        reader = _read_some(service, tmp_path / "children")
    _are_gone(tmp_path / "children")
    del reader


def test_what_user_code_forked_ends_with_the_job(start_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = start_cluster(1, worker_flags=CODE)
    with Dataset.from_range(100).map(_Forks(tmp_path / "children"), spec=ROW).distribute(cluster.address) as reader:
        assert len(list(reader)) == 100
    _are_gone(tmp_path / "children")


def test_a_python_that_cannot_become_an_executor_is_told_with_what_it_said(
    start_cluster: StartCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "python-without-packages"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setattr(_binary, "environment", lambda: {**os.environ, "PENSTOCK_PYTHON": str(bare)})
    cluster = start_cluster(1, worker_flags=CODE)
    with pytest.raises(penstock.ExecutorError, match="No module named 'penstock'.*PENSTOCK_PYTHON.*PYTHONPATH"):
        list(Dataset.from_range(5).map(lambda x: x, spec=ROW).distribute(cluster.address, timeout=30))
