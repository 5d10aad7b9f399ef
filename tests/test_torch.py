"""penstock.torch: batches as tensors, ahead of the loop, saved and gone on from."""

import io
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import penstock
from conftest import StartCluster
from penstock import Dataset
from penstock.torch import DataLoader, IterableDataset, Jagged, from_tf, places, tensors
from support.cluster import TestCluster
from support.waiting import wait_until


@pytest.fixture
def cluster(start_cluster: StartCluster) -> TestCluster:
    return start_cluster(1, worker_flags=["--allow-code", "--cpus", "2"])


class Squares(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    def __len__(self) -> int:
        return 103

    def __getitem__(self, i: int) -> Any:
        return {"i": i, "square": torch.tensor([i, i * i])}


def _ids(batches: Any) -> list[int]:
    return [int(i) for batch in batches for i in (batch["i"] if isinstance(batch, dict) else batch)]


# ---- batches


def test_tensors_lie_over_the_worker_s_memory(cluster: TestCluster) -> None:
    loader = DataLoader(Dataset.from_arrays({"x": np.ones((64, 16), np.float32)}), batch_size=32, service=cluster.address)
    reader, batch = loader.reader, next(iter(loader))
    assert batch["x"].dtype == torch.float32
    assert tuple(batch["x"].shape) == (32, 16)
    assert reader.provenance(batch), "a tensor is found by its memory, so it is no copy"


def test_a_torch_dataset_moves_to_workers_by_changing_the_loader(cluster: TestCluster) -> None:
    loader = DataLoader(Squares(), batch_size=10, shuffle=True, num_workers=4, service=cluster.address)
    first, second = list(loader), list(loader)
    assert len(first) == len(second) == len(loader) == 10
    assert [batch["square"].shape for batch in first] == [(10, 2)] * 10
    assert len(set(_ids(first))) == 100, "drop_last is the default"
    assert _ids(first) != _ids(second), "another epoch is shuffled anew"
    assert all((batch["square"][:, 1] == batch["i"] ** 2).all() for batch in first)


def test_one_rank_reads_in_the_order_of_the_indices_however_many_workers_there_are(start_cluster: StartCluster) -> None:
    cluster = start_cluster(2, worker_flags=["--allow-code"])
    with DataLoader(Squares(), batch_size=5, drop_last=False, service=cluster.address) as loader:
        assert _ids(loader) == list(range(103))


def test_a_rank_alone_reads_what_has_no_order_as_it_comes(cluster: TestCluster) -> None:
    import tensorflow as tf

    drawn = tf.data.Dataset.range(100).filter(lambda _: tf.random.uniform(()) < 0.5)
    with DataLoader(drawn, batch_size=None, service=cluster.address) as loader:
        rows = [int(row) for row in loader]
    assert 0 < len(rows) < 100
    assert rows == sorted(set(rows))


def test_rows_of_differing_length_are_jagged(cluster: TestCluster) -> None:
    ragged = penstock.Ragged(np.arange(10.0), (np.array([0, 1, 1, 4, 10]),))
    batch = next(iter(DataLoader(Dataset.from_arrays({"values": ragged, "name": np.array(["a", "b", "c", "d"])}), 4, service=cluster.address)))
    jagged = batch["values"]
    assert isinstance(jagged, Jagged)
    assert [row.tolist() for row in jagged] == [[0.0], [], [1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0, 8.0, 9.0]]
    assert jagged.lengths.tolist() == [1, 0, 3, 6]
    nested = jagged.to_nested()
    assert nested.layout == torch.jagged
    assert [row.tolist() for row in nested.unbind()] == [row.tolist() for row in jagged]
    assert jagged.to("meta").values.device.type == "meta"
    assert batch["name"].tolist() == [b"a", b"b", b"c", b"d"], "torch has no strings"


def test_a_collate_fn_gets_the_rows() -> None:
    loader = DataLoader(
        Dataset.from_arrays({"i": np.arange(7)}), 3, service="inline", drop_last=False, collate_fn=lambda rows: [int(row["i"]) for row in rows]
    )
    assert list(loader) == [[0, 1, 2], [3, 4, 5], [6]]


class OfEveryType(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    def __len__(self) -> int:
        return 6

    def __getitem__(self, i: int) -> Any:
        numbers = {"y": i, "f": i * 0.5, "b": bool(i % 2), "t": torch.tensor([i]), "a": np.full(2, i), "n": np.float32(i), "list": [i, i]}
        return {**numbers, "name": f"rü{i}", "raw": b"%d" % i, "pair": (i, f"{i}"), "tags": ["a"] * i}


def _same(got: Any, wanted: Any) -> bool:
    """Of the same types, too; of tuples torch's default_collate makes lists."""
    if isinstance(wanted, dict):
        return got.keys() == wanted.keys() and all(_same(got[name], wanted[name]) for name in wanted)
    if isinstance(wanted, (tuple, list)):
        return isinstance(got, (tuple, list)) and len(got) == len(wanted) and all(map(_same, got, wanted))
    if isinstance(wanted, (torch.Tensor, np.ndarray)):
        return type(got) is type(wanted) and got.dtype == wanted.dtype and got.tolist() == wanted.tolist()
    return type(got) is type(wanted) and bool(got == wanted)


@pytest.mark.parametrize("batch_size", [3, None])
@pytest.mark.parametrize("collate", [None, list])
def test_values_are_of_the_types_that_torch_gives(cluster: TestCluster, batch_size: int | None, collate: Any) -> None:
    from torch.utils.data import default_collate, default_convert

    dataset = OfEveryType()
    collate = (lambda rows: rows) if collate else None

    def without_lists(row: Any) -> Any:  # which torch collates by turning them round, if it can
        return {name: value for name, value in row.items() if name not in ("list", "tags")}

    def plain(rows: list[Any]) -> Any:
        return default_collate(list(map(without_lists, rows)))

    wanted = torch.utils.data.DataLoader(dataset, batch_size, collate_fn=collate or (plain if batch_size else default_convert))
    got = DataLoader(Dataset.from_torch(dataset).prefetch(2), batch_size, service=cluster.address, collate_fn=collate)
    for mine, torchs in zip(got, wanted, strict=True):
        assert _same(without_lists(mine) if batch_size and not collate else mine, torchs)


@pytest.mark.parametrize("shape", [lambda i: (3, i + 1, 2 * i + 1), lambda i: (i + 1, 2 * i + 1, 3), lambda i: (2, i), lambda i: (i, 4)])
@pytest.mark.parametrize("make", [torch.full, np.full])
def test_a_collate_fn_takes_tensors_of_whatever_sizes(cluster: TestCluster, shape: Any, make: Any) -> None:
    class Images(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
        def __len__(self) -> int:
            return 6

        def __getitem__(self, i: int) -> Any:
            return {"label": i, "image": make(shape(i), i)}

    got = [row for batch in DataLoader(Images(), 3, service=cluster.address, collate_fn=list) for row in batch]
    assert all(_same(row, Images()[i]) for i, row in enumerate(got))
    assert [tuple(row["image"].shape) for row in got] == [shape(i) for i in range(6)]


def test_ragged_rows_are_jagged_to_a_collate_fn_also_where_their_lengths_happen_to_agree() -> None:
    column = penstock.Ragged(np.arange(7), (np.array([0, 2, 4]), np.array([0, 1, 2, 4, 7])), (None, None))
    agreeing, differing = tensors.rows_of(column, "", arrays=())
    assert (agreeing.values.tolist(), agreeing.offsets.tolist()) == ([0, 1], [0, 1, 2])
    assert (differing.values.tolist(), differing.offsets.tolist()) == ([2, 3, 4, 5, 6], [0, 2, 5])


class Row(NamedTuple):
    i: int
    x: torch.Tensor


class NamedRows(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> Row:
        return Row(i, torch.tensor([i]))


def test_named_tuples_are_made_again_by_a_collate_fn() -> None:
    (batch,) = DataLoader(NamedRows(), 4, service="inline", collate_fn=lambda rows: [Row(*row) for row in rows])
    assert batch == [NamedRows()[i] for i in range(4)]


def test_it_is_a_dataset_for_loaders_that_want_one() -> None:
    dataset = IterableDataset(Dataset.from_range(12), 4, service="inline")
    assert _ids(torch.utils.data.DataLoader(dataset, batch_size=None)) == list(range(12))
    with pytest.raises(penstock.Invalid, match="num_workers=0"):
        list(torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=1))


def test_torch_s_own_defaults_may_be_given(cluster: TestCluster) -> None:
    defaults = {"num_workers": 0, "timeout": 0, "prefetch_factor": None, "pin_memory": False, "collate_fn": None, "sampler": None, "in_order": True}
    for device in (None, "cpu"):
        assert _ids(DataLoader(Dataset.from_range(12), 4, service=cluster.address, device=device, **defaults)) == list(range(12))


def test_what_is_no_dataset_is_refused() -> None:
    with pytest.raises(penstock.Invalid, match="this is a int"):
        DataLoader(3)


# ---- ahead of the loop


def test_batches_are_moved_ahead_and_only_those_handed_out_are_in_a_state(cluster: TestCluster) -> None:
    dataset = Dataset.from_range(100)
    loader = DataLoader(dataset, 5, service=cluster.address, job_name="ahead", device="cpu", prefetch_factor=4)
    batches = iter(loader)
    assert loader.state_dict()["step"] == 0
    before = _ids(next(batches) for _ in range(3))
    wait_until(lambda: loader.reader.stats().batches == 7, "that four batches are prepared ahead")
    state = loader.state_dict()
    assert state["step"] == 3
    assert loader.state_dict(behind=2)["step"] == 1
    loader.close()
    resumed = DataLoader(dataset, 5, service=cluster.address, job_name="ahead again", device="cpu")
    resumed.load_state_dict(state)
    assert sorted(before + _ids(resumed)) == list(range(100))


def test_tensors_arrive_on_the_device(cluster: TestCluster) -> None:
    loader = DataLoader(Dataset.from_range(20), 5, service=cluster.address, device="meta")
    assert [batch.device.type for batch in loader] == ["meta"] * 4
    assert [batch.device.type for batch in loader] == ["meta"] * 4


def test_a_state_does_not_wait_for_data(cluster: TestCluster, tmp_path: Path) -> None:
    gate = tmp_path / "open"

    def waits_at_20(i: Any) -> Any:
        while i == 20 and not gate.exists():
            threading.Event().wait(0.01)
        return i

    loader = DataLoader(Dataset.from_range(40).map(waits_at_20, spec=penstock.Spec("int64", ())), 5, service=cluster.address, device="cpu")
    batches = iter(loader)
    first = next(batches)
    assert loader.state_dict()["step"] == 1
    gate.touch()
    assert sorted([*first.tolist(), *_ids(batches)]) == list(range(40))


def test_what_goes_wrong_ahead_is_raised_in_the_loop_and_leaving_early_ends_the_thread() -> None:
    def fails_at_12(i: Any) -> Any:
        assert i != 12
        return i

    loader = DataLoader(Dataset.from_range(20).map(fails_at_12, spec=penstock.Spec("int64", ())), 5, service="inline", device="cpu")
    with pytest.raises(penstock.ExecutorError, match="AssertionError"):
        list(loader)
    endless = DataLoader(Dataset.from_range(5).repeat(), 5, service="inline", device="cpu")
    for _ in endless:
        break
    endless.close()
    assert "penstock-ahead" not in [thread.name for thread in threading.enumerate()]


def test_who_closes_while_the_thread_waits_for_data_does_not_wait_with_it(cluster: TestCluster, tmp_path: Path) -> None:
    gate = tmp_path / "open"

    def waits_at_20(i: Any) -> Any:
        while i == 20 and not gate.exists():
            threading.Event().wait(0.01)
        return i

    loader = DataLoader(
        Dataset.from_range(40).map(waits_at_20, spec=penstock.Spec("int64", ())),
        5,
        service=cluster.address,
        device="cpu",
        prefetch_factor=8,
        timeout=300,
    )
    next(iter(loader))
    closing = threading.Thread(target=loader.close, daemon=True)
    closing.start()
    closing.join(30)
    assert not closing.is_alive()
    gate.touch()


def test_an_iteration_that_was_left_ends_and_the_next_one_reads_on(cluster: TestCluster) -> None:
    with Dataset.from_range(40).batch(5).distribute(cluster.connect(), epochs=2) as reader:
        first = iter(reader)
        next(first)
        reader.leave()
        assert len(list(reader)) == 8


# ---- saved and gone on from


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")  # one process saves its checkpoint alone
@pytest.mark.parametrize("mode", ["shared", "strict"])
def test_a_state_goes_through_torch_save_and_distributed_checkpoint(mode: str, cluster: TestCluster, tmp_path: Path) -> None:
    import torch.distributed.checkpoint as dcp

    def make(name: str) -> DataLoader:
        return DataLoader(Dataset.from_range(60), 5, True, service=cluster.address, job_name=name, processing_mode=mode, seed=3)

    loader = make("first")
    before = _ids(batch for _, batch in zip(range(4), loader))
    file = io.BytesIO()
    torch.save({"data": loader.state_dict()}, file)
    dcp.save({"data": loader}, checkpoint_id=tmp_path / "checkpoint", no_dist=True)
    loader.close()

    file.seek(0)
    by_save = make("by save")
    by_save.load_state_dict(torch.load(file)["data"])
    assert sorted(before + _ids(by_save)) == list(range(60))

    by_checkpoint = make("by checkpoint")
    dcp.load({"data": by_checkpoint}, checkpoint_id=tmp_path / "checkpoint", no_dist=True)
    assert sorted(before + _ids(by_checkpoint)) == list(range(60))


# ---- lengths


@pytest.mark.parametrize("even", ["auto", "drop", "pad", "uneven"])
@pytest.mark.parametrize("rows", [96, 100, 104, 119])
def test_a_loader_is_as_long_as_its_rank_s_epoch(monkeypatch: pytest.MonkeyPatch, even: str, rows: int) -> None:
    monkeypatch.setenv("PENSTOCK_WORLD_SIZE", "4")
    monkeypatch.setenv("PENSTOCK_JOB_NAME", "lengths")
    got = []
    for rank in range(4):
        monkeypatch.setenv("PENSTOCK_RANK", str(rank))
        loader = DataLoader(Dataset.from_range(rows), 8, service="inline", drop_last=False, even=even)
        got.append([row for batch in loader for row in batch.tolist()])
        assert len(loader) == sum(1 for _ in loader)
    assert len({row for part in got for row in part}) == (rows if even in ("pad", "uneven") else rows // 32 * 32), "ranks read one dataset together"


def test_a_rank_s_part_of_a_shared_uneven_job_has_no_length(cluster: TestCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PENSTOCK_WORLD_SIZE": "2", "PENSTOCK_RANK": "0", "PENSTOCK_JOB_NAME": "shared"}.items():
        monkeypatch.setenv(name, value)
    loader = DataLoader(Dataset.from_range(100), 8, service=cluster.address, processing_mode="shared", even="uneven")
    with pytest.raises(TypeError, match="even='drop'"):
        len(loader)


# ---- meshes


@pytest.fixture
def fake_world() -> Iterator[Any]:
    """start(rank, world): torch's process group without other processes, one rank at a time."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    def start(rank: int, world: int) -> None:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)

    yield start
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def test_ranks_that_differ_in_other_dimensions_see_the_same_batches(cluster: TestCluster, fake_world: Any) -> None:
    loaders = []
    for rank in range(4):
        fake_world(rank, 4)
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        loaders.append(DataLoader(Dataset.from_range(200), 10, True, service=cluster.address, job_name="mesh", mesh=mesh))
    got: list[list[int]] = [[] for _ in loaders]
    threads = [threading.Thread(target=lambda i=i: got[i].extend(_ids(loaders[i]))) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert got[0] == got[1]
    assert got[2] == got[3]
    assert sorted(got[0] + got[2]) == list(range(200))
    assert len(loaders[0]) == 10


def _places(fake_world: Any, shape: tuple[int, ...], names: tuple[str, ...] | None) -> list[tuple[int | None, int | None, str | None]]:
    """Of each rank: which of how many consumers of which job."""
    found = []
    for rank in range(int(np.prod(shape))):
        fake_world(rank, int(np.prod(shape)))
        place = places.find(torch.distributed.device_mesh.init_device_mesh("cpu", shape, mesh_dim_names=names), None, "job")
        found.append((place.index, place.consumers, place.job_name))
    return found


def test_all_dimensions_of_data_of_a_mesh_tell_ranks_apart(fake_world: Any) -> None:
    hsdp = [(rank, 4, "job") for rank in range(4)]
    assert _places(fake_world, (2, 2), ("dp_replicate", "dp_shard")) == hsdp
    assert _places(fake_world, (2, 2), ("replicate", "shard")) == hsdp
    assert _places(fake_world, (4,), ("ranks",)) == hsdp, "the only dimension is of data, whatever its name"
    assert _places(fake_world, (4,), None) == hsdp


def test_a_dimension_of_data_is_known_by_its_name_and_not_by_being_the_first(fake_world: Any) -> None:
    pipelined = [(0, 2, "job"), (1, 2, "job"), (0, 2, "job-mirror-1"), (1, 2, "job-mirror-1")]
    assert _places(fake_world, (2, 2), ("pp", "dp_shard")) == pipelined
    both = _places(fake_world, (2, 2, 2), ("dp_replicate", "tp", "fsdp"))
    assert [place[:2] for place in both] == [(0, 4), (1, 4), (0, 4), (1, 4), (2, 4), (3, 4), (2, 4), (3, 4)]


@pytest.mark.parametrize("names", [("pp", "mine"), None])
def test_a_mesh_without_a_known_dimension_of_data_is_refused(fake_world: Any, names: tuple[str, ...] | None) -> None:
    with pytest.raises(penstock.Invalid, match="known to be of data.*group="):
        _places(fake_world, (2, 2), names)


def test_a_rank_outside_the_group_is_told_so(fake_world: Any) -> None:
    fake_world(1, 2)
    group = torch.distributed.new_group([0])
    with pytest.raises(penstock.Invalid, match="not in the process group"):
        DataLoader(Dataset.from_range(5), 5, service="inline", group=group)


# ---- tf.data in torch


@pytest.mark.xdist_group("tensorflow")
def test_elements_of_tensorflow_become_torch_s_without_a_copy() -> None:
    tf = pytest.importorskip("tensorflow")
    dataset = tf.data.Dataset.range(3).map(
        lambda i: {
            "dense": tf.fill([4], tf.cast(i, tf.float32)),
            "pair": (i, tf.strings.as_string(i)),
            "ragged": tf.RaggedTensor.from_row_lengths([1, 2, 3], [1, 2]),
            "sparse": tf.sparse.from_dense([[0, i], [i, 0]]),
            "flag": tf.equal(i, 1),
        }
    )
    tensors = from_tf(dataset)
    assert len(tensors) == 3
    for _ in range(2):
        second = list(tensors)[1]
        assert second["dense"].tolist() == [1.0] * 4
        assert (int(second["pair"][0]), second["pair"][1]) == (1, b"1")
        assert [row.tolist() for row in second["ragged"]] == [[1], [2, 3]]
        assert second["sparse"].to_dense().tolist() == [[0, 1], [1, 0]]
        assert bool(second["flag"])


@pytest.mark.xdist_group("tensorflow")
def test_elements_without_a_value_are_none_in_torch() -> None:
    tf = pytest.importorskip("tensorflow")
    optional = tf.experimental.Optional
    nothing = optional.empty(tf.TensorSpec((), tf.int64))
    dataset = tf.data.Dataset.range(2).map(lambda i: (i, None, tf.cond(i == 0, lambda: optional.from_value(i + 5), lambda: nothing)))
    (first, none, value), (second, _, missing) = from_tf(dataset)
    assert (int(first), none, int(value)) == (0, None, 5)
    assert (int(second), missing) == (1, None)


@pytest.mark.xdist_group("tensorflow")
def test_elements_that_torch_has_no_form_for_are_refused() -> None:
    tf = pytest.importorskip("tensorflow")
    strings = tf.data.Dataset.from_tensors(tf.SparseTensor([[0, 1]], ["a"], [2, 3]))
    with pytest.raises(penstock.Invalid, match=r"sparse tensors of strings.*to_dense"):
        list(from_tf(strings))
    with pytest.raises(penstock.Invalid, match="no form for"):
        list(from_tf(tf.data.Dataset.range(4).window(2)))
