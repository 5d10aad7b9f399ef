"""The programs in examples/python run as they are: real processes, as a launcher starts them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import StartCluster
from penstock import _binary
from penstock.tfrecord import write_tfrecord
from support.cluster import run
from support.waiting import wait_until

EXAMPLES = Path(__file__).parent.parent / "examples" / "python"
pytestmark = pytest.mark.timeout(300)  # each program imports torch, and one TensorFlow too
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}


def _torchrun(ranks: int, *program: str, **environment: str) -> str:
    """What the ranks said."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), *program]
    launcher = subprocess.Popen(
        command,
        env={**_binary.environment(), **QUIET, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said = launcher.communicate(timeout=280)[0]
    except subprocess.TimeoutExpired:
        os.killpg(launcher.pid, signal.SIGKILL)  # the ranks with it
        said = launcher.communicate()[0]
    assert launcher.returncode == 0, said[-3000:]
    return said


# ---- the recommender

SLURM = {"HAS_READERS": "True", "SLURM_JOB_NODELIST_HET_GROUP_0": "127.79.0.1"}


@pytest.fixture
def recommender(tmp_path: Path) -> Iterator[str]:
    """The program, with its dispatcher and a reader in the environment that the original service sets."""
    program = str(EXAMPLES / "recommender.py")
    subprocess.run([sys.executable, program, str(tmp_path), "--write"], env=_binary.environment(), check=True, timeout=60)
    tasks = [{"TASK_TYPE": "datasetdispatcher"}, {"TASK_TYPE": "datasetworker", "SLURMD_NODENAME": "127.79.0.2"}]
    servers = [subprocess.Popen([sys.executable, program, str(tmp_path)], env={**_binary.environment(), **QUIET, **SLURM, **task}) for task in tasks]
    yield program
    for server in servers:
        server.kill()
        server.wait()


def _jobs() -> list[dict[str, Any]]:
    import json

    said = run("status", "--dispatcher", "127.79.0.1:5051", "--json")
    jobs: list[dict[str, Any]] = json.loads(said.stdout)["jobs"] if said.returncode == 0 else []
    return jobs


def _serves() -> bool:
    return run("status", "--dispatcher", "127.79.0.1:5051").returncode == 0


def test_two_ranks_train_a_recommender_from_one_pipeline_of_a_reader(recommender: str, tmp_path: Path) -> None:
    wait_until(_serves, "that the dispatcher serves", within=60)
    said = _torchrun(2, recommender, str(tmp_path), "--steps", "40", TASK_TYPE="worker", **SLURM)
    lines = re.findall(r"rank (\d) step (\d+) rows (\d+) loss ([\d.]+)", said)
    for rank in "01":
        losses = [float(loss) for who, _, _, loss in lines if who == rank]
        assert len(losses) == 40
        assert sum(losses[-5:]) < 0.8 * sum(losses[:5]), "it learns"
    assert len({rows for _, _, rows, _ in lines}) > 5, "batches were downsampled"
    assert [job["consumers"] for job in _jobs()] in ([0], [2]), "both read one job"


# ---- resuming


def _write_rows(directory: Path) -> None:
    """800 rows with ids in 8 files."""
    directory.mkdir()
    for file in range(8):
        rows = [{"id": file * 100 + i, "x": [float(i % 3), 1.0, 2.0, 3.0]} for i in range(100)]
        write_tfrecord(directory / f"{file}.tfrecord", rows)


def test_a_checkpoint_of_two_ranks_is_gone_on_from_by_three(start_cluster: StartCluster, tmp_path: Path) -> None:
    data = tmp_path / "data"
    _write_rows(data)
    program, checkpoint = str(EXAMPLES / "resume.py"), str(tmp_path / "checkpoint.pt")
    service = {"PENSTOCK_SERVICE": start_cluster(2).address}
    _torchrun(2, program, str(data), "--checkpoint", checkpoint, "--steps", "10", "--seen", str(tmp_path / "before"), **service)
    assert os.path.exists(checkpoint)
    _torchrun(3, program, str(data), "--checkpoint", checkpoint, "--seen", str(tmp_path / "after"), **service)
    before, after = ([int(i) for file in tmp_path.glob(f"{leg}.*") for i in file.read_text().split()] for leg in ("before", "after"))
    assert len(before) == 2 * 10 * 16
    assert sorted(before + after) == list(range(800)), "every row once"


# ---- other loops


def _said(program: str, *arguments: str, **environment: str) -> str:
    command = [sys.executable, str(EXAMPLES / program), *arguments]
    done = subprocess.run(command, env={**_binary.environment(), **QUIET, **environment}, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_jax_loop_learns_and_goes_on_where_it_was(start_cluster: StartCluster, tmp_path: Path) -> None:
    _write_rows(tmp_path / "data")
    service = {"PENSTOCK_SERVICE": start_cluster(1).address, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    arguments = [str(tmp_path / "data"), "--checkpoint", str(tmp_path / "state.json")]
    lines = [_said("jax_loop.py", *arguments, *more, **service).splitlines() for more in (["--steps", "10"], [])]
    assert [len(leg) for leg in lines] == [10, 40]
    ids = [int(i) for leg in lines for line in leg for i in re.findall(r"\d+", line.partition("ids")[2])]
    assert sorted(ids) == list(range(800)), "every row once"
    losses = [float(re.findall(r"loss ([\d.]+)", line)[0]) for leg in lines for line in leg]
    assert losses[-1] < 0.1 * losses[0]


def test_model_fit_goes_on_in_mid_epoch_and_trains_on_each_row_once(start_cluster: StartCluster, tmp_path: Path) -> None:
    _write_rows(tmp_path / "data")
    service = {"PENSTOCK_SERVICE": start_cluster(1).address}
    arguments = [str(tmp_path / "data"), "--checkpoint", str(tmp_path / "checkpoint")]
    assert "trained on 320 rows, each at most 1 times" in _said("keras_resume.py", *arguments, "--steps", "20", **service)
    assert "trained on 800 rows, each at most 1 times" in _said("keras_resume.py", *arguments, **service)


def test_a_folder_of_images_is_decoded_by_workers_when_the_import_is_changed(start_cluster: StartCluster, tmp_path: Path) -> None:
    import numpy as np
    from PIL import Image

    for label, colour in enumerate([(200, 40, 40), (40, 40, 200)]):
        directory = tmp_path / "images" / str(label)
        directory.mkdir(parents=True)
        for i in range(32):
            noise = np.random.default_rng(i).integers(-30, 30, (40, 48, 3))
            Image.fromarray((np.array(colour) + noise).clip(0, 255).astype(np.uint8)).save(directory / f"{i}.jpg")
    cluster = start_cluster(1, worker_flags=["--allow-code", "--cpus", "1"])
    lines = _said("image_folder.py", str(tmp_path / "images"), "--epochs", "3", PENSTOCK_SERVICE=cluster.address).splitlines()
    assert [line.partition(",")[0] for line in lines] == [f"epoch {i}: 64 images" for i in range(3)]
    assert float(lines[-1].split()[4]) > 0.9, "it learns"
