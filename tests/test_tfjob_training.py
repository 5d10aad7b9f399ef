"""Whole training jobs as TFJobs, with readers: of the tests, of deploy/ and of examples/."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock import _binary
from support import tfjobs
from support.data import Records
from support.waiting import wait_until

TRAIN = Path(__file__).parent / "support" / "train.py"
DEPLOY = Path(__file__).parent.parent / "deploy" / "tfjob"
EXAMPLES = Path(__file__).parent.parent / "examples" / "python"


# ---- a whole job


def _training(records: Records, directory: Path, state: str | None = None) -> dict[str, Any]:
    """state: where the dispatcher has an emptyDir; None: its state is in a directory of the test's, which outlives the pod."""
    trainer = {"command": [sys.executable, str(TRAIN), records.pattern, str(directory), "3"]}
    pod_ip = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    dispatcher = {
        "args": ["dispatcher", "--state-dir", state or str(directory / "state")],
        "ports": [{"name": "tfjob-port", "containerPort": 5050}],
        "volumeMounts": [{"name": "state", "mountPath": state}] if state else [],
    }
    reader = {"args": ["worker", "--memory", "64MiB"], "env": [pod_ip]}
    return tfjobs.manifest(
        {
            "Chief": tfjobs.spec(trainer),
            "Worker": tfjobs.spec(trainer, replicas=2),
            "DatasetDispatcher": tfjobs.spec(dispatcher, volumes=[{"name": "state", "emptyDir": {}}]),
            "DatasetWorker": tfjobs.spec(reader, 2),
        }
    )


def _ids(directory: Path) -> list[int]:
    return sorted(int(line) for path in directory.glob("*.ids") for line in path.read_text().split())


def test_a_training_job_reads_each_row_once(tmp_path: Path, records: Records) -> None:
    code, said = tfjobs.run(_training(records, tmp_path), tmp_path)
    assert code == 0, said[-3000:]
    assert _ids(tmp_path) == records.ids


def _kill_and_wait(log: Path, pod: str) -> None:
    """kill -9, and until it was started again."""
    os.kill(tfjobs.pid_of(log.read_text, pod), signal.SIGKILL)
    wait_until(lambda: log.read_text().count(f"{pod} runs as") == 2, f"{pod} is started again")
    assert f"{pod} ended with 137: restart 1" in log.read_text()


@pytest.mark.parametrize("state", [None, "/state"], ids=["its state outlives the pod", "its state goes with the pod"])
def test_a_training_job_survives_a_killed_reader_and_a_killed_dispatcher(tmp_path: Path, records: Records, state: str | None) -> None:
    (tmp_path / "hold").touch()
    with tfjobs.logged(_training(records, tmp_path, state), tmp_path) as (process, log):
        wait_until(lambda: len(list(tmp_path.glob("*.ids"))) == 3 and _ids(tmp_path), "the ranks read", within=60)
        _kill_and_wait(log, "reco-datasetworker-0")
        _kill_and_wait(log, "reco-datasetdispatcher-0")
        (tmp_path / "hold").unlink()
        assert process.wait(100) == 0, log.read_text()[-3000:]
    assert _ids(tmp_path) == records.ids


# ---- the manifests of deploy/


@pytest.mark.parametrize(("manifest", "ranks"), [("custom-types.yaml", 3), ("stock-types.yaml", 1)])
def test_a_manifest_of_deploy_runs_as_its_readme_says(tmp_path: Path, records: Records, manifest: str, ranks: int) -> None:
    (tmp_path / "secrets").mkdir()
    subprocess.run([_binary.path(), "token", "create", "--out", str(tmp_path / "secrets" / "token")], check=True)
    files = Path(records.pattern)
    arguments = ["train.py", f"/data/{files.name}", str(tmp_path), str(ranks)]
    (tmp_path / "train.py").write_text(f"import runpy, sys\nsys.argv = {arguments!r}\nrunpy.run_path({str(TRAIN)!r}, run_name='__main__')\n")
    command = [_binary.path(), "tfjob", "run", str(DEPLOY / manifest), "--volume", "token=secrets", "--volume", f"data={files.parent}"]
    done = subprocess.run(command, cwd=tmp_path, env=_binary.environment(), capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert _ids(tmp_path) == records.ids
    assert "restart" not in done.stderr, "no pod took another's port"


# ---- the recommender of examples/


def _recommender(data: Path, steps: int, token: Path) -> dict[str, Any]:
    """One program for all pods: servers become penstock, ranks train. What torch wants to know is said as any TFJob of torch ranks would."""
    variables = {"WORLD_SIZE": "3", "MASTER_ADDR": "reco-chief-0", "MASTER_PORT": str(_free_port()), "GLOO_SOCKET_IFNAME": "lo",
                 "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1", "PENSTOCK_TOKEN_FILE": str(token), "PENSTOCK_MEMORY": "256MiB",
                 "PENSTOCK_STATE_DIR": str(token.parent / "state")}  # fmt: skip
    env = [{"name": name, "value": value} for name, value in variables.items()]
    index = {"name": "INDEX", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['training.kubeflow.org/replica-index']"}}}
    program = f"exec {sys.executable} {EXAMPLES / 'recommender.py'} {data} --steps {steps}"

    def pod(rank: str, **more: Any) -> dict[str, Any]:
        return {"command": ["sh", "-c", f"{rank} {program}"], "env": [*env, index], **more}

    return tfjobs.manifest({
        "Chief": tfjobs.spec(pod("RANK=0")),
        "Worker": tfjobs.spec(pod("RANK=$$((INDEX + 1))"), replicas=2),
        "DatasetDispatcher": tfjobs.spec(pod("", ports=[{"name": "tfjob-port", "containerPort": 5050}])),
        "DatasetWorker": tfjobs.spec(pod(""), replicas=2),
    })  # fmt: skip


def _free_port() -> int:
    with socket.create_server(("", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("clicks")
    subprocess.run([sys.executable, str(EXAMPLES / "recommender.py"), str(directory), "--write"], env=_binary.environment(), check=True, timeout=60)
    return directory


def _steps_of_ranks(log: Path) -> list[int]:
    """How many steps each rank made, and none twice or left out."""
    counts = []
    for rank in range(3):
        steps = [int(step) for step in re.findall(rf"rank {rank} step (\d+) ", log.read_text())]
        assert steps == list(range(len(steps)))
        counts.append(len(steps))
    return counts


@pytest.mark.parametrize("hurt", [False, True], ids=["untouched", "a reader and the dispatcher are killed"])
@pytest.mark.timeout(240)
def test_the_recommender_trains_as_a_tfjob(tmp_path: Path, clicks: Path, hurt: bool) -> None:
    token, steps = tmp_path / "token", 400 if hurt else 30
    token.write_text("a token of this test")
    with tfjobs.logged(_recommender(clicks, steps, token), tmp_path) as (process, log):
        if hurt:
            wait_until(lambda: "rank 0 step 3 " in log.read_text(), "the ranks train", within=120)
            _kill_and_wait(log, "reco-datasetworker-0")
            _kill_and_wait(log, "reco-datasetdispatcher-0")
            assert min(_steps_of_ranks(log)) < steps, "training goes on after the last of them was killed"
        assert process.wait(200) == 0, log.read_text()[-3000:]
        assert _steps_of_ranks(log) == [steps] * 3
