"""One program, unchanged, wherever it is run: every row comes once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import StartCluster
from penstock import _binary
from penstock.tfrecord import write_tfrecord

SUPPORT = Path(__file__).parent / "support"
PROGRAM = [sys.executable, str(SUPPORT / "everywhere.py")]
ROWS = 960  # in batches of 8 they divide by 1, 2 and 3 ranks

pytestmark = pytest.mark.timeout(300)

Run = Callable[..., int]


@pytest.fixture
def run_it(tmp_path: Path) -> Run:
    """run_it(launcher…, ranks=2, **environment): runs the program under the launcher, and checks what its ranks were given."""
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    out.mkdir()
    for file in range(6):
        write_tfrecord(data / f"{file}.tfrecord", ({"id": i} for i in range(file, ROWS, 6)))

    def run(*launcher: str, ranks: int, program: list[str] | None = None, **environment: str) -> int:
        command = [*launcher, *(PROGRAM if program is None else program), str(data), str(out)]
        clean = {name: value for name, value in _binary.environment().items() if not name.startswith("PENSTOCK_S")}
        quiet = {"OMP_NUM_THREADS": "1", "RAY_worker_niceness": "0"}
        done = subprocess.run(command, env={**clean, **quiet, **environment}, capture_output=True, text=True, timeout=280, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
        got = [[int(i) for i in file.read_text().split()] for file in out.iterdir()]
        assert len(got) == ranks, "each rank wrote a file"
        assert all(got), "each rank was given rows"
        assert sorted(i for ids in got for i in ids) == list(range(ROWS))
        return len(got)

    return run


def test_alone(run_it: Run) -> None:
    run_it(ranks=1)


def test_alone_with_a_service(run_it: Run) -> None:
    run_it(_binary.path(), "local", "--workers", "2", "--", ranks=1)


def _torchrun(ranks: int) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]


def test_under_torchrun(run_it: Run, start_cluster: StartCluster) -> None:
    run_it(*_torchrun(2), ranks=2, program=PROGRAM[1:], PENSTOCK_SERVICE=start_cluster(2).address)


def test_under_torchrun_in_a_local_service(run_it: Run) -> None:
    run_it(_binary.path(), "local", "--workers", "2", "--", *_torchrun(3), ranks=3, program=PROGRAM[1:])


@pytest.mark.xdist_group("ray")
def test_on_ray(run_it: Run) -> None:
    path = os.pathsep.join([str(SUPPORT.parent), os.environ.get("PYTHONPATH", "")])
    run_it(sys.executable, str(SUPPORT / "ray_launch.py"), "2", ranks=2, program=PROGRAM[1:], PYTHONPATH=path)
