"""penstock.jax: batches as jax arrays, on one process and on several."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import penstock
from conftest import StartCluster
from penstock import Dataset, _binary
from penstock._loader import Place

pytestmark = pytest.mark.xdist_group("jax")  # whose import takes seconds


@pytest.fixture(scope="module", autouse=True)
def _four_devices() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
        environment.setenv("JAX_PLATFORMS", "cpu")
        import jax

        assert len(jax.devices()) == 4
        yield


def _rows(count: int) -> Dataset:
    numbers = np.arange(count, dtype=np.int32)
    return Dataset.from_arrays({"id": numbers, "x": np.repeat(numbers.astype(np.float32)[:, None], 16, axis=1)})


def _loader(*arguments: Any, **options: Any) -> Any:
    from penstock.jax import DataLoader

    return DataLoader(*arguments, **options)


def test_batches_are_jax_arrays_that_stay_as_they_were(start_cluster: StartCluster) -> None:
    import jax

    loader = _loader(_rows(4000), batch_size=10, service=start_cluster(1).address, shuffle=True)
    assert len(loader) == 400
    for _ in range(2):
        kept = list(loader)
        assert all(isinstance(batch["x"], jax.Array) for batch in kept)
        assert sorted(int(i) for batch in kept for i in batch["id"]) == list(range(4000)), "each iteration is an epoch"
        assert all((batch["x"] == batch["id"][:, None]).all() for batch in kept), "memory is not used again under an array"


def test_what_is_no_sharding_is_refused_at_the_call() -> None:
    with pytest.raises(penstock.Invalid, match=r"sharding=5 .*jax\.sharding\.Sharding"):
        _loader(_rows(64), batch_size=8, service="inline", sharding=5)


def test_a_sharding_lays_a_batch_over_devices() -> None:
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    rows = NamedSharding(Mesh(jax.devices(), ("data",)), PartitionSpec("data"))
    batch = next(iter(_loader(_rows(64), batch_size=8, service="inline", sharding=rows)))
    assert batch["x"].sharding == rows
    assert [shard.data.shape for shard in batch["x"].addressable_shards] == [(2, 16)] * 4
    assert batch["id"].tolist() == list(range(8))


def test_a_loop_goes_on_where_it_was_saved() -> None:
    loader = _loader(_rows(100), batch_size=5, shuffle=True, service="inline")
    before = [batch["id"].tolist() for _, batch in zip(range(6), loader)]
    state = json.loads(json.dumps(loader.state_dict(behind=1)))
    again = _loader(_rows(100), batch_size=5, shuffle=True, service="inline")
    again.load_state_dict(state)
    after = [batch["id"].tolist() for batch in again]
    assert after[0] == before[-1]
    assert sorted(i for ids in before[:-1] + after for i in ids) == list(range(100))


def test_what_jax_cannot_hold_is_said_or_stays_numpys() -> None:
    strings = Dataset.from_arrays({"name": np.array([b"a", b"bc"], dtype=object), "id": np.arange(2)})
    assert next(iter(_loader(strings, batch_size=2, service="inline")))["name"].tolist() == [b"a", b"bc"]
    ragged = Dataset.from_range(4).map(np.arange)
    with pytest.raises(penstock.Invalid, match="padded_batch"):
        list(_loader(ragged, batch_size=4, service="inline"))


# ---- several processes

PROCESS = """
import json, sys
import jax
coordinator, index, address = sys.argv[1:]
jax.distributed.initialize(coordinator, 2, int(index))
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import numpy as np
from penstock import Dataset
from penstock.jax import DataLoader
mesh = Mesh(np.array(jax.devices()).reshape(2, -1), ("processes", "inner"))
said = {}
for name, axis in (("divided", "processes"), ("mirrored", None)):
    loader = DataLoader(Dataset.from_range(64).batch(4), sharding=NamedSharding(mesh, PartitionSpec(axis)), service=address, job_name=name)
    said[name] = [(list(batch.shape), np.asarray(batch.addressable_shards[0].data).tolist()) for batch in loader]
    loader.close()
print(json.dumps(said))
"""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_mirrors_read_jobs_of_their_own_and_those_of_an_anonymous_job_have_no_name() -> None:
    assert [Place.mirror("train", 0, 2, mirror, 3).job_name for mirror in range(3)] == ["train", "train-mirror-1", "train-mirror-2"]
    assert [Place.mirror(None, 0, 1, mirror, 2).job_name for mirror in range(2)] == [None, None]
    assert Place.mirror(None, 0, 1, 1, 2).mirrored


def test_two_processes_make_one_global_array_or_mirror_each_other(start_cluster: StartCluster) -> None:
    address, coordinator = start_cluster(1).address, f"127.0.0.1:{_free_port()}"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, coordinator, str(i), address],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**_binary.environment(), "XLA_FLAGS": ""},
        )
        for i in range(2)
    ]
    said = [process.communicate(timeout=100) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    first, second = (json.loads(out) for out, _ in said)
    assert {tuple(shape) for shape, _ in first["divided"] + second["divided"]} == {(8,)}, "a batch is made of both processes' rows"
    assert sorted(row for _, rows in first["divided"] + second["divided"] for row in rows) == list(range(64))
    assert first["mirrored"] == second["mirrored"], "devices that hold the same rows see the same batches"
    assert [shape for shape, _ in first["mirrored"]] == [[4]] * 16
