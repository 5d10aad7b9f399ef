"""The batch script of deploy/ in a Slurm cluster of several nodes."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import _binary
from support.data import Records
from support.slurm import MISSING, SlurmCluster, running_slurm
from support.waiting import wait_until

ROOT = Path(__file__).parent.parent
SCRIPTS = ROOT / "deploy" / "slurm"
SUPPORT = ROOT / "tests" / "support"
COMPLAINT = re.compile(r"^(srun|slurmstepd|scancel)\b|\berror\b")  # slurmstepd puts its node behind its name
READERS = 2
RANKS = 8  # 2 nodes with 4 each, as the script says
SAVED_AT = 5  # the step after which train_resume.py saves

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"Slurm is not installed ({', '.join(MISSING)}): scripts/setup.sh slurm installs it"),
    pytest.mark.skipif(os.geteuid() != 0, reason="slurmd and its namespaces need root"),
]


@pytest.fixture
def slurm() -> Iterator[SlurmCluster]:
    with running_slurm(nodes=6) as cluster:  # one more than a job takes
        yield cluster


def _submit(slurm: SlurmCluster, records: Records, out: Path, script: str = "train.sbatch", program: str = "train.py") -> str:
    token = out / "token"
    token.touch(mode=0o600)
    token.write_text("a token of this test")
    environment = {
        **_binary.environment(),
        "PATH": f"{Path(_binary.path()).parent}:{slurm.environment['PATH']}",
        "PENSTOCK_TOKEN_FILE": str(token),
        "PENSTOCK_STATE_DIR": str(out / "state"),
        "PENSTOCK_MEMORY": "64MiB",
    }
    return slurm.submit(str(SCRIPTS / script), sys.executable, str(SUPPORT / program), records.pattern, str(out), str(RANKS), **environment)


def _ids(out: Path) -> list[int]:
    return sorted(int(line) for path in out.glob("*.ids") for line in path.read_text().split())


def _command(process: int) -> list[str]:
    words = Path(f"/proc/{process}/cmdline").read_bytes().decode().split("\0")
    return [Path(words[0]).name, *words[1:]]


def _batches(out: Path, attempt: int, rank: int) -> list[list[int]]:
    return [[int(row) for row in line.split()] for line in (out / f"{attempt}-{rank}.ids").read_text().splitlines()]


def test_a_heterogeneous_job_reads_each_row_once(slurm: SlurmCluster, records: Records, tmp_path: Path) -> None:
    job = _submit(slurm, records, tmp_path)
    assert slurm.wait_for(job) == "COMPLETED", (slurm.directory / "job.out").read_text() + slurm.log[-3000:]
    assert len(list(tmp_path.glob("*.ids"))) == RANKS
    assert _ids(tmp_path) == records.ids
    log = (slurm.directory / "job.out").read_text()
    assert [line for line in log.splitlines() if COMPLAINT.search(line)] == [], "a good job's log is clean"
    assert log.count("worker.stop") == READERS
    assert "dispatcher.stop" in log


def test_what_slurm_says_of_a_cancelled_step_is_a_complaint() -> None:
    assert COMPLAINT.search("slurmstepd-node1: error: *** STEP 1.0 ON node1 CANCELLED AT 2026-11-18T08:47:00 ***")


def test_a_heterogeneous_job_survives_a_killed_reader(slurm: SlurmCluster, records: Records, tmp_path: Path) -> None:
    (tmp_path / "hold").touch()
    job = _submit(slurm, records, tmp_path)
    wait_until(lambda: len(list(tmp_path.glob("*.ids"))) == RANKS and _ids(tmp_path), "the ranks read", within=60)
    os.kill(next(pid for pid in slurm.processes("TASK_TYPE=datasetworker") if _command(pid)[:2] == ["penstock", "worker"]), signal.SIGKILL)
    (tmp_path / "hold").unlink()
    assert slurm.wait_for(job) == "COMPLETED", (slurm.directory / "job.out").read_text()
    assert _ids(tmp_path) == records.ids


def test_a_job_that_is_requeued_because_a_node_was_lost_goes_on_from_its_checkpoint(slurm: SlurmCluster, records: Records, tmp_path: Path) -> None:
    (tmp_path / "hold").touch()
    job = _submit(slurm, records, tmp_path, "one-allocation.sbatch", "train_resume.py")
    wait_until((tmp_path / "checkpoint").exists, "a checkpoint is there", within=60)
    wait_until(lambda: all(len(_batches(tmp_path, 0, rank)) > SAVED_AT for rank in range(RANKS)), "the ranks are beyond it")
    slurm.lose(slurm.nodes_of(job)[-1])  # where ranks are
    (tmp_path / "hold").unlink()
    assert slurm.wait_for(job, within=90) == "COMPLETED", (slurm.directory / "job.out").read_text() + slurm.log[-3000:]
    before = [row for rank in range(RANKS) for batch in _batches(tmp_path, 0, rank)[:SAVED_AT] for row in batch]
    after = [row for rank in range(RANKS) for batch in _batches(tmp_path, 1, rank) for row in batch]
    assert len(before) == RANKS * SAVED_AT * 20
    assert sorted(before + after) == records.ids
