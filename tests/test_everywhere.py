"""One program, unchanged, wherever it is run: every row comes once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import StartCluster
from penstock import _binary
from penstock.tfrecord import write_tfrecord
from support.slurm import MISSING, running_slurm

TESTS = Path(__file__).parent
BATCH_SCRIPT = TESTS.parent / "deploy" / "slurm" / "train.sbatch"
ROWS = 960  # in batches of 8 they divide by 1, 2, 3 and 8 ranks

pytestmark = pytest.mark.timeout(300)


@dataclass
class Program:
    """support/everywhere.py with its data, and what its ranks were given."""

    data: Path
    out: Path

    @property
    def script(self) -> list[str]:
        return [str(TESTS / "support" / "everywhere.py"), str(self.data), str(self.out)]

    @property
    def command(self) -> list[str]:
        return [sys.executable, *self.script]

    def check(self, ranks: int) -> None:
        got = [[int(i) for i in file.read_text().split()] for file in self.out.iterdir()]
        assert len(got) == ranks, "each rank wrote a file"
        assert all(got), "each rank was given rows"
        assert sorted(i for ids in got for i in ids) == list(range(ROWS))


@pytest.fixture
def program(tmp_path: Path) -> Program:
    made = Program(tmp_path / "data", tmp_path / "out")
    made.data.mkdir()
    made.out.mkdir()
    for file in range(6):
        write_tfrecord(made.data / f"{file}.tfrecord", ({"id": i} for i in range(file, ROWS, 6)))
    return made


def _run(command: list[str], **environment: str) -> None:
    surroundings = {**_binary.environment(), "OMP_NUM_THREADS": "1", "RAY_worker_niceness": "0", **environment}
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def _local() -> list[str]:
    return [_binary.path(), "local", "--workers", "2", "--"]


def _torchrun(ranks: int) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]


def test_alone(program: Program) -> None:
    _run(program.command)
    program.check(ranks=1)


def test_alone_in_a_local_service(program: Program) -> None:
    _run([*_local(), *program.command])
    program.check(ranks=1)


def test_under_torchrun(program: Program, start_cluster: StartCluster) -> None:
    _run([*_torchrun(2), *program.script], PENSTOCK_SERVICE=start_cluster(2).address)
    program.check(ranks=2)


def test_under_torchrun_in_a_local_service(program: Program) -> None:
    _run([*_local(), *_torchrun(3), *program.script])
    program.check(ranks=3)


@pytest.mark.xdist_group("ray")
def test_on_ray(program: Program) -> None:
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    _run([sys.executable, str(TESTS / "support" / "ray_launch.py"), "2", *program.script], PYTHONPATH=path)
    program.check(ranks=2)


def _tfjob(program: Program, state: Path) -> dict[str, Any]:
    trainer = {"command": program.command}
    dispatcher = {"args": ["dispatcher", "--state-dir", str(state)], "ports": [{"name": "tfjob-port", "containerPort": 5050}]}
    pod_ip = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    reader = {"args": ["worker", "--memory", "64MiB"], "env": [pod_ip]}
    types = {"Worker": (trainer, 3), "DatasetDispatcher": (dispatcher, 1), "DatasetWorker": (reader, 2)}
    replicas = {
        name: {"replicas": count, "restartPolicy": "ExitCode", "template": {"spec": {"containers": [{"name": "tensorflow", **container}]}}}
        for name, (container, count) in types.items()
    }
    # All ranks shall have written what they got before the readers, and they, are stopped: with a chief the job would end with that.
    spec = {"runPolicy": {"cleanPodPolicy": "Running"}, "successPolicy": "AllWorkers", "tfReplicaSpecs": replicas}
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "reco"}, "spec": spec}


def test_in_a_tfjob(program: Program, tmp_path: Path) -> None:
    manifest = tmp_path / "job.yaml"
    manifest.write_text(json.dumps(_tfjob(program, tmp_path / "state")))
    _run([_binary.path(), "tfjob", "run", str(manifest)])
    program.check(ranks=3)


@pytest.mark.skipif(bool(MISSING), reason=f"Slurm is not installed ({', '.join(MISSING)}): scripts/setup.sh slurm installs it")
@pytest.mark.skipif(os.geteuid() != 0, reason="slurmd and its namespaces need root")
def test_in_a_heterogeneous_job_of_slurm(program: Program, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("a token of this test")
    own = {
        "PENSTOCK_TOKEN_FILE": str(token),
        "PENSTOCK_STATE_DIR": str(tmp_path / "state"),
        "PENSTOCK_MEMORY": "64MiB",
    }
    with running_slurm(nodes=5) as slurm:
        path = f"{Path(_binary.path()).parent}:{slurm.environment['PATH']}"
        job = slurm.submit(str(BATCH_SCRIPT), *program.command, **{**_binary.environment(), **own, "PATH": path})
        assert slurm.wait_for(job, within=240) == "COMPLETED", (slurm.directory / "job.out").read_text() + slurm.log[-3000:]
    program.check(ranks=8)
