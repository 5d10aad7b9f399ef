"""The batch script of deploy/ in a Slurm cluster of several nodes."""

from __future__ import annotations

import os
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
BATCH_SCRIPT = ROOT / "deploy" / "slurm" / "train.sbatch"
TRAIN = ROOT / "tests" / "support" / "train.py"
RANKS = 8  # 2 nodes with 4 each, as the script says

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"Slurm is not installed ({', '.join(MISSING)}): scripts/setup.sh slurm installs it"),
    pytest.mark.skipif(os.geteuid() != 0, reason="slurmd and its namespaces need root"),
]


@pytest.fixture
def slurm() -> Iterator[SlurmCluster]:
    with running_slurm(nodes=5) as cluster:
        yield cluster


def _submit(slurm: SlurmCluster, records: Records, out: Path) -> str:
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
    return slurm.submit(str(BATCH_SCRIPT), sys.executable, str(TRAIN), records.pattern, str(out), str(RANKS), **environment)


def _ids(out: Path) -> list[int]:
    return sorted(int(line) for path in out.glob("*.ids") for line in path.read_text().split())


def _readers(slurm: SlurmCluster) -> list[int]:
    """Processes of readers, in this cluster and no other."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            ours = f"SLURM_CONF={slurm.directory}/".encode() in (process / "environ").read_bytes()
        except OSError:
            continue
        if ours and words[0].endswith(b"penstock") and words[1] == b"worker":
            found.append(int(process.name))
    return found


def test_a_heterogeneous_job_reads_each_row_once(slurm: SlurmCluster, records: Records, tmp_path: Path) -> None:
    job = _submit(slurm, records, tmp_path)
    assert slurm.wait_for(job) == "COMPLETED", (slurm.directory / "job.out").read_text() + slurm.log[-3000:]
    assert len(list(tmp_path.glob("*.ids"))) == RANKS
    assert _ids(tmp_path) == records.ids


def test_a_heterogeneous_job_survives_a_killed_reader(slurm: SlurmCluster, records: Records, tmp_path: Path) -> None:
    (tmp_path / "hold").touch()
    job = _submit(slurm, records, tmp_path)
    wait_until(lambda: len(list(tmp_path.glob("*.ids"))) == RANKS and _ids(tmp_path), "the ranks read", within=60)
    os.kill(_readers(slurm)[0], signal.SIGKILL)
    (tmp_path / "hold").unlink()
    assert slurm.wait_for(job) == "COMPLETED", (slurm.directory / "job.out").read_text()
    assert _ids(tmp_path) == records.ids
