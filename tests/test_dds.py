"""The four functions: what goes in comes out as the same type, prepared by readers, once for all ranks."""

import json
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from conftest import StartCluster
from penstock import Dataset, _binary, dds
from support import dds_rank
from support.cluster import run
from support.waiting import wait_until

ONE_PROCESS = pytest.mark.xdist_group("tensorflow")  # whose import takes seconds


def _start(*command: str, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**_binary.environment(), **environment}
    )


def _ended(processes: "list[subprocess.Popen[str]]") -> list[Any]:
    """What each of them said."""
    said = [process.communicate(timeout=100) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), said
    return [json.loads(out) for out, _ in said]


# ---- without readers


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"HAS_READERS": "False"},
        {"SPEC_TYPE": "chief", "MACHINES_CONFIG": '{"dataset_worker": null}', "JOB_NAME": "j"},
        {"PENSTOCK_SERVICE": "off"},
    ],
    ids=["nothing said", "slurm", "kubernetes", "off"],
)
def test_without_readers_the_dataset_comes_back_as_it_is(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    dds.maybe_start_dataset_service()
    dataset = object()
    assert dds.maybe_distribute_dataset(dataset) is dataset


def test_an_evaluator_keeps_its_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = {"cluster": {"datasetdispatcher": ["nowhere:1"]}, "task": {"type": "evaluator", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    dataset = object()
    assert dds.maybe_distribute_dataset(dataset) is dataset


# ---- servers and ranks as processes

SLURM = {"HAS_READERS": "True", "SLURM_JOB_NODELIST_HET_GROUP_0": "127.78.0.1"}
SERVICE = "grpc://127.78.0.1:5051"


@pytest.fixture
def readers() -> "Iterator[list[subprocess.Popen[str]]]":
    """A dispatcher and two readers: processes of the program that find in the environment what they are."""
    started = [_start("-m", "penstock.dds", TASK_TYPE="datasetdispatcher", **SLURM)]
    started += [_start("-m", "penstock.dds", TASK_TYPE="datasetworker", SLURMD_NODENAME=f"127.78.0.{i}", **SLURM) for i in (2, 3)]
    yield started
    for process in started:
        process.kill()
        process.communicate()


def _two_readers_serve() -> bool:
    said = run("status", "--dispatcher", "127.78.0.1:5051", "--json")
    return said.returncode == 0 and len(json.loads(said.stdout)["workers"]) == 2


def test_four_gloo_ranks_read_one_job_of_two_readers(readers: "list[subprocess.Popen[str]]", tmp_path: Path) -> None:
    wait_until(_two_readers_serve, "that both readers serve", within=60)
    rank = str(Path(dds_rank.__file__))
    ranks = _ended([_start(rank, str(tmp_path / "rendezvous"), SERVICE, str(i), "4") for i in range(4)])
    for mode, copies in (("default", 2), ("shared", 1)):
        assert len({tuple(said[mode]["agreed"]) for said in ranks}) == 1, "all ranks agree"
        rows = sorted(row for said in ranks for row in said[mode]["rows"])
        assert rows == sorted(list(range(dds_rank.ROWS)) * copies), mode
    assert "a str" in ranks[0]["refused"]
    assert all("rank 0 could not register" in said["refused"] for said in ranks[1:])
    for server in readers:
        server.kill()
        assert "security.open" not in server.communicate()[1], "on loopback no other machine comes in"


READ_BY_NAME = """
import json, sys, penstock
from penstock import dds
read = dds.maybe_distribute_dataset(penstock.Dataset.from_range(int(sys.argv[1])).batch(5), processing_mode="shared")
print(json.dumps([read.reader.job_name, [int(row) for batch in read for row in batch]]))
"""


def test_without_a_process_group_ranks_learn_the_dataset_from_the_dispatcher(start_cluster: StartCluster) -> None:
    cluster = start_cluster(1)
    shared = {"PENSTOCK_SERVICE": cluster.address, "PENSTOCK_JOB_NAME": "reco", "PENSTOCK_WORLD_SIZE": "2"}
    rank_1 = _start("-c", READ_BY_NAME, "1", PENSTOCK_RANK="1", **shared)
    rank_0 = _start("-c", READ_BY_NAME, "100", PENSTOCK_RANK="0", **shared)
    said = _ended([rank_0, rank_1])
    assert [name for name, _ in said] == ["reco", "reco"]
    assert sorted(row for _, rows in said for row in rows) == list(range(100))


def test_ranks_that_nothing_binds_together_are_told_what_to_do(start_cluster: StartCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_RANK", "0")
    monkeypatch.setenv("PENSTOCK_WORLD_SIZE", "2")
    with pytest.raises(penstock.Invalid, match="init_process_group"):
        dds.register_dataset(Dataset.from_range(1), start_cluster(1).address)


# ---- arguments


def test_tensorflow_before_2_5_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", types.SimpleNamespace(__version__="2.4.4"))
    monkeypatch.setenv("PENSTOCK_SERVICE", "penstock://nowhere:1")
    for call in (dds.maybe_start_dataset_service, lambda: dds.maybe_distribute_dataset(object())):
        with pytest.raises(penstock.Invalid, match=r"2\.5 or later, and this is 2\.4\.4"):
            call()


def test_arguments_that_mean_nothing_here_are_checked_all_the_same() -> None:
    with pytest.raises(penstock.Invalid, match="'AUTO' nor None"):
        dds.register_dataset(Dataset.from_range(1), "nowhere:1", compression="SNAPPY")
    with pytest.raises(penstock.Invalid, match="no readers"):
        dds.register_dataset(Dataset.from_range(1), "inline")
    with pytest.raises(penstock.Invalid, match="prefetch=-5 .*from -1, or None"):
        dds.distribute_from_dataset_id("nowhere:1", "0" * 32, "job", prefetch=-5)
    for wrong in (5, None, np.arange(3)):
        with pytest.raises(penstock.Invalid, match="dataset_id=.*register_dataset"):
            dds.distribute_from_dataset_id("nowhere:1", wrong, "job")


def test_a_mode_that_is_not_known_is_told_those_that_can_be_used(service: str) -> None:
    with pytest.raises(penstock.Invalid, match="'Bogus'; known are shared.*strict.*replicated") as said:
        dds.maybe_distribute_dataset(Dataset.from_range(3), processing_mode="Bogus")
    assert "hint" not in str(said.value)


def test_the_id_of_a_dataset_may_be_bytes_or_an_array_of_one(service: str) -> None:
    dataset_id, _ = dds.register_dataset(Dataset.from_range(3), service)
    for given in (dataset_id, dataset_id.encode(), np.array(dataset_id), np.array(dataset_id.encode(), dtype=object)):
        assert list(dds.distribute_from_dataset_id(service, given, None)) == [0, 1, 2]


# ---- penstock's datasets and torch's


@pytest.fixture
def service(start_cluster: StartCluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of one reader, which the environment names."""
    address = start_cluster(1, worker_flags=["--allow-code", "--cpus", "1"]).address
    monkeypatch.setenv("PENSTOCK_SERVICE", address)
    return address


def test_a_dataset_of_penstock_stays_one_and_resumes(service: str) -> None:
    dataset = Dataset.from_range(100).batch(10)
    read = dds.maybe_distribute_dataset(dataset, processing_mode="shared")
    assert isinstance(read, Dataset)
    assert read.element_spec == dataset.element_spec
    assert (read.fingerprint(), read.cardinality()) == (dataset.fingerprint(), 10)
    first = [row for _, batch in zip(range(3), read) for row in batch.tolist()]
    again = dds.maybe_distribute_dataset(dataset, processing_mode="shared")
    again.load_state_dict(read.state_dict())
    assert sorted(first + [row for batch in again for row in batch.tolist()]) == list(range(100))
    with pytest.raises(penstock.Invalid, match="before you distribute"):
        read.map(lambda x: x).fingerprint()


def test_a_torch_dataset_gives_its_rows_to_a_loader(service: str) -> None:
    torch = pytest.importorskip("torch")

    class Pairs(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
        def __len__(self) -> int:
            return 20

        def __getitem__(self, i: int) -> Any:
            return torch.full((3,), float(i)), i

    read = dds.maybe_distribute_dataset(Pairs(), processing_mode="shared")
    assert isinstance(read, torch.utils.data.Dataset)
    for _ in range(2):
        batches = list(torch.utils.data.DataLoader(read, batch_size=4))
        assert sorted(int(i) for _, numbers in batches for i in numbers) == list(range(20))
        assert all((values == numbers[:, None]).all() for values, numbers in batches)
    with pytest.raises(penstock.Invalid, match="num_workers=0"):
        next(iter(torch.utils.data.DataLoader(read, num_workers=1)))


def test_rows_of_a_torch_dataset_are_of_the_types_that_it_gave(service: str) -> None:
    torch = pytest.importorskip("torch")

    class Named(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
        def __len__(self) -> int:
            return 4

        def __getitem__(self, i: int) -> Any:
            return {"y": i, "name": f"r{i}", "f": i * 0.5, "b": bool(i % 2), "raw": b"%d" % i}

    read = dds.maybe_distribute_dataset(Named(), processing_mode="shared")
    rows = sorted(read, key=lambda row: row["y"])
    assert repr(rows) == repr([Named()[i] for i in range(4)])


# ---- tf.data


@ONE_PROCESS
def test_a_tf_dataset_is_one_that_can_be_mapped_batched_and_prefetched(service: str) -> None:
    import tensorflow as tf

    dataset = tf.data.Dataset.range(20).map(lambda i: {"i": i, "row": tf.fill([8], tf.cast(i, tf.float32))})
    dataset_id, job_name = dds.register_dataset(dataset, service)
    read = dds.distribute_from_dataset_id(service, tf.constant(dataset_id), job_name, prefetch=None, processing_mode="shared")
    assert isinstance(read, tf.data.Dataset)
    assert read.element_spec == dataset.element_spec
    doubled = read.map(lambda element: element["i"] * 2).batch(4, drop_remainder=True).prefetch(1)
    for _ in range(2):
        assert sorted(int(i) for batch in doubled for i in batch) == list(range(0, 40, 2)), "each iteration is an epoch"
    assert len(list(read.take(3))) == 3
    older = iter(read)
    assert (next(older)["row"].numpy() == 0).all()
    newer = iter(read)
    assert int(next(newer)["i"]) == 0
    with pytest.raises(tf.errors.OpError, match="another iteration of this dataset was begun"):
        list(older)  # TensorFlow may have taken some before
    assert [int(element["i"]) for element in newer] == list(range(1, 20))


@ONE_PROCESS
@pytest.mark.parametrize("name", ["parallel_epochs", "PARALLEL_EPOCHS", "OFF", "off", "Replicated"])
def test_a_replica_runs_a_graph_as_a_whole_however_its_mode_is_written(
    service: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow as tf

    for i in range(6):
        (tmp_path / f"{i}.txt").write_text("line\n" * 7)
    dataset = tf.data.TextLineDataset(sorted(map(str, tmp_path.glob("*.txt")))).batch(10)
    assert [len(batch) for batch in dds.maybe_distribute_dataset(dataset, processing_mode=name)] == [10, 10, 10, 10, 2]
    monkeypatch.setenv("PENSTOCK_PROCESSING_MODE", name)
    assert [len(batch) for batch in dds.maybe_distribute_dataset(dataset)] == [10, 10, 10, 10, 2]


@ONE_PROCESS
def test_components_of_every_kind_come_back_as_they_were(service: str) -> None:
    import tensorflow as tf

    def element(i: Any) -> Any:
        small = tf.cast(i, tf.int32)
        return {
            "ragged": tf.RaggedTensor.from_row_lengths(tf.range(small + 2), [small, 2]),
            "sparse": tf.sparse.from_dense([[0, i], [i, 0]]),
            "optional": tf.experimental.Optional.from_value(i),
            "nested": (tf.strings.as_string(i), {"half": tf.cast(i, tf.bfloat16), "square": tf.fill([small, small], i)}),
        }

    dataset = tf.data.Dataset.range(6).map(element)
    read = dds.maybe_distribute_dataset(dataset)
    assert read.element_spec == dataset.element_spec
    elements = list(read)
    assert len(elements) == 6
    for got, wanted in zip(elements, dataset):
        assert got["ragged"].to_list() == wanted["ragged"].to_list()
        assert np.array_equal(tf.sparse.to_dense(got["sparse"]), tf.sparse.to_dense(wanted["sparse"]))
        assert int(got["optional"].get_value()) == int(wanted["optional"].get_value())
        assert got["nested"][0] == wanted["nested"][0]
        assert got["nested"][1]["half"] == wanted["nested"][1]["half"]
        assert np.array_equal(got["nested"][1]["square"], wanted["nested"][1]["square"])
