"""On a real Ray cluster of several nodes: dispatcher and workers are actors, which Ray starts again, and programs of the cluster find them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock import Dataset, _binary
from penstock.tfrecord import write_tfrecord
from support import ray_rank
from support.waiting import wait_until

if TYPE_CHECKING:
    from penstock.ray import RayService

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.filterwarnings("default"), pytest.mark.timeout(300)]

DATASET = ray_rank.dataset()
TOKEN = "a token of this test"
EACH_ONCE = list(range(ray_rank.ROWS))


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Two nodes, each with processes of its own."""
    import ray
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 3, "object_store_memory": 80 << 20}
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]))
        environment.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        environment.setenv("RAY_worker_niceness", "0")  # its own, 15, starves beside other tests
        nodes = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
        nodes.add_node(**node)
    ray.init(address=nodes.address, log_to_driver=False)
    yield
    ray.shutdown()
    nodes.shutdown()


def test_the_example_trains_on_the_cluster_and_every_row_comes_once(cluster: None, tmp_path: Path) -> None:
    import ray

    for file in range(4):
        write_tfrecord(tmp_path / f"{file}.tfrecord", ({"id": file * 100 + i, "x": [float(i), 1.0, 2.0, 3.0]} for i in range(100)))
    program = Path(__file__).parent.parent / "examples" / "python" / "ray_train.py"
    address = ray.get_runtime_context().gcs_address
    said = subprocess.run(
        [sys.executable, str(program), str(tmp_path), "--ranks", "2", "--workers", "2"],
        env={**os.environ, "RAY_ADDRESS": address, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert "2 ranks got 400 rows, 400 of them different" in said.stdout, said.stdout + said.stderr[-2000:]


@pytest.fixture(scope="module")
def service(cluster: None) -> Iterator[RayService]:
    import penstock.ray

    with penstock.ray.start(num_workers=2, memory="256MiB", token=TOKEN) as started:
        assert started.token == TOKEN
        yield started


def _workers(service: RayService) -> dict[int, str]:
    """Addresses by process, as the dispatcher knows them."""
    command = [_binary.path(), "status", "--json", "--dispatcher", service.address]
    said = subprocess.run(command, env={**os.environ, "PENSTOCK_TOKEN": service.token}, capture_output=True, text=True, timeout=30, check=False)
    return {worker["pid"]: worker["address"] for worker in json.loads(said.stdout)["workers"]} if said.returncode == 0 else {}


def _wait_for_another(service: RayService, address: str) -> None:
    def replaced() -> bool:
        now = set(_workers(service).values())
        return len(now) == 2 and address not in now

    wait_until(replaced, f"that Ray starts a worker in place of {address}", within=60)


def _ids(batches: Iterator[Any]) -> list[int]:
    return [int(i) for batch in batches for i in batch]


def test_tasks_of_the_cluster_find_the_service_and_share_a_job(service: RayService) -> None:
    import ray

    rank = ray.remote(num_cpus=0.5)(ray_rank.read)
    got = ray.get([rank.remote(i, 2) for i in range(2)])
    assert all(got), "both were given rows"
    assert sorted(i for ids in got for i in ids) == EACH_ONCE


def test_a_task_that_has_neither_rank_nor_name_is_told_that_it_reads_every_row(service: RayService) -> None:
    import ray

    task = ray.remote(num_cpus=0.5)(ray_rank.warned_of)
    [warning] = ray.get(task.remote(None, None))
    assert "neither a rank nor a job's name, so it reads every row by itself" in warning
    assert ray.get(task.remote(None, 1)) == []
    assert ray.get(task.remote("named", None)) == []


def test_a_program_without_the_token_is_refused(service: RayService) -> None:
    with pytest.raises(penstock.PermissionDenied, match="token"):
        penstock.connect(service.address, token="guessed", timeout=5)
    with penstock.connect(service.address) as connected:
        assert len(list(Dataset.from_range(5).distribute(connected))) == 5


def test_a_program_outside_of_ray_reads_with_the_services_token(service: RayService) -> None:
    program = "import sys, penstock; print(len(list(penstock.Dataset.from_range(5).distribute(penstock.connect(sys.argv[1])))))"
    environment = {**os.environ, "PENSTOCK_TOKEN": service.token}
    said = subprocess.run([sys.executable, "-c", program, service.address], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert said.stdout == "5\n", said.stderr


def test_a_token_that_could_be_guessed_is_refused_before_anything_is_placed(cluster: None) -> None:
    import penstock.ray

    with pytest.raises(penstock.Invalid, match="has 6 bytes, and could be guessed"):
        penstock.ray.start(num_workers=1, token="secret")


def test_a_second_service_in_a_cluster_is_refused_by_name(service: RayService) -> None:
    import penstock.ray

    with pytest.raises(penstock.Exists, match=service.address):
        penstock.ray.start(num_workers=1)


def test_a_killed_worker_actor_is_started_again_and_each_row_comes_once(service: RayService) -> None:
    import ray

    killed = ray.get(service._actors[0].address.remote())
    with DATASET.distribute(service, memory="2MiB") as reader:
        batches = iter(reader)
        got = [int(i) for i in next(batches)]
        ray.kill(service._actors[0], no_restart=False)
        got += _ids(batches)
    assert sorted(got) == EACH_ONCE
    _wait_for_another(service, killed)


def test_a_worker_whose_process_is_killed_takes_its_actor_with_it_and_both_come_back(service: RayService) -> None:
    killed, address = next(iter(_workers(service).items()))
    os.kill(killed, signal.SIGKILL)
    _wait_for_another(service, address)
    assert len(list(Dataset.from_range(100).distribute(service))) == 100


def test_a_killed_dispatcher_actor_comes_back_at_its_address_and_each_row_comes_once(service: RayService) -> None:
    import ray

    with DATASET.distribute(service, job_name="through", memory="2MiB") as reader:
        batches = iter(reader)
        got = [int(i) for i in next(batches)]
        ray.kill(service._dispatcher, no_restart=False)
        got += _ids(batches)
    assert sorted(got) == EACH_ONCE
    assert ray.get(service._dispatcher.address.remote()) == service.address
    wait_until(lambda: len(_workers(service)) == 2, "that the workers find it again", within=30)
    with DATASET.distribute(service, job_name="through") as again, pytest.raises(penstock.Finished):
        next(iter(again))


def test_scaling_adds_workers_and_drains_them_while_a_job_is_read(service: RayService) -> None:
    with DATASET.distribute(service, memory="2MiB") as reader:
        batches = iter(reader)
        got = [int(i) for i in next(batches)]
        service.scale(4)
        assert (service.num_workers, len(_workers(service))) == (4, 4)
        got += [int(i) for i in next(batches)]
        service.scale(1)
        assert (service.num_workers, len(_workers(service))) == (1, 1)
        got += _ids(batches)
    assert sorted(got) == EACH_ONCE


def test_scaling_down_past_a_worker_that_is_dead_takes_the_others_too(service: RayService) -> None:
    import ray

    service.scale(3)
    ray.kill(service._actors[1])
    service.scale(1)
    assert service.num_workers == 1
    wait_until(lambda: len(_workers(service)) == 1, "that one worker is left", within=30)


def test_workers_that_find_no_room_are_counted_and_those_before_stay(service: RayService) -> None:
    before = service.num_workers
    with pytest.raises(penstock.Deadline, match=r"of 30 workers were not placed within 1 s.*cpus_per_worker"):
        service.scale(before + 30, timeout=1)
    assert service.num_workers == before
    assert len(list(Dataset.from_range(100).distribute(service))) == 100


def test_a_stopped_service_is_found_no_more(service: RayService) -> None:
    service.stop()
    assert penstock.connect().kind == "inline"
    assert service.num_workers == 0


def test_a_directory_of_the_users_is_kept_and_a_service_that_is_started_with_it_goes_on(cluster: None, tmp_path: Path) -> None:
    import penstock.ray

    (tmp_path / "model.pt").write_text("weights")
    small = Dataset.from_range(5)
    with penstock.ray.start(num_workers=1, memory="64MiB", state_dir=str(tmp_path)) as first:
        assert len(list(small.distribute(first, job_name="once"))) == 5
    assert (tmp_path / "model.pt").read_text() == "weights"
    with penstock.ray.start(num_workers=1, memory="64MiB", state_dir=str(tmp_path)) as second:
        assert second.address == first.address
        with small.distribute(second, job_name="once") as again, pytest.raises(penstock.Finished):
            next(iter(again))


def test_a_directory_of_the_services_own_goes_with_it(cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import penstock.ray

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with penstock.ray.start(num_workers=0):
        [made] = tmp_path.glob("penstock-ray-*")
        assert {path.name for path in made.iterdir()} == {"address", "state"}
    assert list(tmp_path.iterdir()) == []


def _start_dispatcher(directory: Path) -> str:
    """As its actor does, in this process."""
    from penstock.ray import actors

    dispatcher = actors.Dispatcher("127.0.0.1", str(directory), "t" * 32, temporary=True)
    dispatcher._server.drain()
    return dispatcher.address()


def test_the_address_of_a_node_that_is_no_more_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "address").write_text("203.0.113.7:41000")
    assert _start_dispatcher(tmp_path).startswith("penstock://127.0.0.1:")
    assert (tmp_path / "address").read_text().startswith("127.0.0.1:")


def test_an_address_that_another_has_taken_is_told_with_the_file_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.ray import actors

    monkeypatch.setattr(actors, "START_WITHIN", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        (tmp_path / "address").write_text(f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(penstock.Unavailable, match=f"{tmp_path}/address says it had before: without that file"):
            _start_dispatcher(tmp_path)
