"""A state that was saved anywhere is gone on from anywhere: what was delivered before it and after it is every row once."""

import ctypes
import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from conftest import StartCluster
from penstock import Dataset
from penstock.tfrecord import write_tfrecord
from support.data import Records
from support.ranks import ids_of, run_leg
from support.waiting import wait_until

N = 32
ROWS = 1000

Make = Callable[[], Dataset]

PLANS: dict[str, tuple[Make, list[int]]] = {
    "range": (lambda: Dataset.from_range(ROWS), list(range(ROWS))),
    "skip": (lambda: Dataset.from_range(ROWS).skip(17), list(range(17, ROWS))),
    "shard": (lambda: Dataset.from_range(ROWS).shard(3, 1), list(range(1, ROWS, 3))),
    "take": (lambda: Dataset.from_range(ROWS).take(333), list(range(333))),
    "shuffle": (lambda: Dataset.from_range(ROWS).shuffle(100), list(range(ROWS))),
    "shuffle and skip": (lambda: Dataset.from_range(ROWS).shuffle(100).skip(50), list(range(ROWS))),
    "concatenate": (lambda: Dataset.from_range(500).concatenate(Dataset.from_range(500, 1000)), list(range(ROWS))),
}


def _inline(dataset: Dataset, **options: Any) -> penstock.Reader:
    return dataset.distribute("inline", seed=5, **options)


def _whole(dataset: Dataset) -> list[list[int]]:
    return [ids_of(batch) for batch in _inline(dataset)]


# ---- without a service


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_inline_the_rest_after_any_batch_is_what_would_have_come(plan: str) -> None:
    dataset = PLANS[plan][0]().batch(N)
    batches = _whole(dataset)
    for step in (0, 1, 2, len(batches) // 2, len(batches) - 1, len(batches)):
        reader = _inline(dataset)
        elements = iter(reader)
        for _ in range(step):
            next(elements)
        state = json.loads(json.dumps(reader.state_dict()))
        resumed = _inline(dataset)
        resumed.load_state_dict(state)
        rest = [ids_of(batch) for batch in resumed]
        assert sorted(i for batch in batches[:step] + rest for i in batch) == sorted(i for batch in batches for i in batch), f"after batch {step}"
        assert rest == batches[step:], f"after batch {step}"


def test_inline_a_state_may_be_saved_and_loaded_again_and_again() -> None:
    dataset = Dataset.from_range(ROWS).shuffle(50).batch(N)
    state, got = None, []
    for steps in (3, 1, 7, 5, 100):
        reader = _inline(dataset)
        if state is not None:
            reader.load_state_dict(state)
        for _, batch in zip(range(steps), reader):
            got += ids_of(batch)
        state = reader.state_dict()
    assert sorted(got) == list(range(ROWS))


def test_inline_rows_one_by_one_are_resumed_at_the_row() -> None:
    dataset = Dataset.from_range(ROWS).shuffle(50)
    rows = [int(row) for row in _inline(dataset)]
    for taken in (0, 1, 499, 500, ROWS):
        reader = _inline(dataset)
        elements = iter(reader)
        for _ in range(taken):
            next(elements)
        resumed = _inline(dataset)
        resumed.load_state_dict(reader.state_dict())
        assert [int(row) for row in resumed] == rows[taken:]


def test_inline_another_batch_size_goes_on_at_the_same_row(records: Records) -> None:
    reader = _inline(records.dataset().batch(32))
    elements = iter(reader)
    before = [i for _ in range(5) for i in ids_of(next(elements))]
    resumed = _inline(records.dataset().batch(50))
    resumed.load_state_dict(reader.state_dict())
    assert sorted(before + [i for batch in resumed for i in ids_of(batch)]) == records.ids


def test_inline_holes_end_and_begin_within_what_a_source_row_became() -> None:
    dataset = Dataset.from_range(10).flat_map(lambda x: [x * 3, x * 3 + 1, x * 3 + 2])
    reader = _inline(dataset)
    state = reader.state_dict()
    assert sorted(int(row) for row in reader) == list(range(30))
    middle = ",".join(f"{row}.1-{row}.2" for row in range(10))
    state["epochs"] = {"0": {"lanes": "", "parts": {"0": middle}}}
    resumed = _inline(dataset)
    resumed.load_state_dict(state)
    assert sorted(int(row) for row in resumed) == [row for row in range(30) if row % 3 != 1]


def test_another_batch_size_that_cuts_counted_rows_otherwise_is_refused() -> None:
    reader = _inline(Dataset.from_range(ROWS).batch(32))
    next(iter(reader))
    with pytest.raises(penstock.DatasetMismatch, match="another batch size"):
        _inline(Dataset.from_range(ROWS).batch(50)).load_state_dict(reader.state_dict())


def test_inline_across_epochs_the_state_is_in_the_epoch_it_was_saved_in() -> None:
    dataset = Dataset.from_range(ROWS).shuffle(50).batch(N)
    reader = _inline(dataset, epochs=3)
    passes = [[ids_of(batch) for batch in reader]]
    elements = iter(reader)
    second = [ids_of(next(elements)) for _ in range(4)]
    resumed = _inline(dataset, epochs=3)
    resumed.load_state_dict(reader.state_dict())
    assert resumed.epoch == 1
    second += [ids_of(batch) for batch in resumed]
    third = [ids_of(batch) for batch in resumed]
    whole = _inline(dataset, epochs=3)
    assert [passes[0], second, third] == [[ids_of(batch) for batch in whole] for _ in range(3)]


@pytest.mark.parametrize("epochs", [1, 5, 9])
def test_inline_many_epochs_later_too(epochs: int) -> None:
    dataset = Dataset.from_range(ROWS).shuffle(50).batch(10)
    reader = _inline(dataset, epochs=None)
    for _ in range(epochs):
        list(reader)
    elements = iter(reader)
    for _ in range(70):  # more than are kept
        next(elements)
    resumed = _inline(dataset, epochs=None)
    resumed.load_state_dict(reader.state_dict())
    assert resumed.epoch == epochs
    assert [ids_of(batch) for batch in resumed] == [ids_of(batch) for batch in elements]


def test_inline_an_epoch_that_was_left_or_passed_over_is_not_gone_back_to() -> None:
    dataset = Dataset.from_range(ROWS).batch(N)
    reader = _inline(dataset, epochs=None)
    next(iter(reader))
    for epoch in (1, 4):
        reader.set_epoch(epoch)
        next(iter(reader))
        resumed = _inline(dataset, epochs=None)
        resumed.load_state_dict(reader.state_dict())
        assert resumed.epoch == epoch
        assert len(list(resumed)) == 31


# ---- which batch


def test_a_state_at_a_batch_is_found_by_the_memory_of_any_of_its_arrays() -> None:
    dataset = Dataset.from_arrays({"id": np.arange(ROWS), "x": np.arange(ROWS) * 2.0}).batch(N)
    reader = _inline(dataset)
    kept = [batch for _, batch in zip(range(6), reader)]
    for step, batch in enumerate(kept, 1):
        at = reader.state_dict(at=batch)
        assert at == reader.state_dict(at=batch["x"]) == reader.state_dict(at={"any": batch["id"][3:]}) == reader.state_dict(behind=6 - step)
        assert at["tag"] == step
        resumed = _inline(dataset)
        resumed.load_state_dict(at)
        assert ids_of(next(iter(resumed))) == list(range(step * N, (step + 1) * N))


@pytest.mark.parametrize("lengths", [[50 if i % 10 == 0 else 1 for i in range(ROWS)], [int(i == 21) for i in range(ROWS)]], ids=["uneven", "few"])
def test_a_state_at_a_row_of_differing_length_is_of_that_row(lengths: list[int], tmp_path: Path) -> None:
    write_tfrecord(tmp_path / "rows.tfrecord", [{"x": [1.0] * n, "id": i} for i, n in enumerate(lengths)])
    dataset = Dataset.from_tfrecord(str(tmp_path / "rows.tfrecord")).parse_example({"x": penstock.Var("float32"), "id": "int64"})
    reader = _inline(dataset)
    kept = [row for _, row in zip(range(31), reader)]
    for row in (row for row in kept if len(row["x"]) > 0):
        state = reader.state_dict(at=row)
        assert state["tag"] == row["id"] + 1
    resumed = _inline(dataset)
    resumed.load_state_dict(state)
    assert next(iter(resumed))["id"] == state["tag"]


def test_a_row_without_values_is_not_known_by_those_of_another(tmp_path: Path) -> None:
    write_tfrecord(tmp_path / "rows.tfrecord", [{"x": [1.0] * (i % 2)} for i in range(10)])
    reader = _inline(Dataset.from_tfrecord(str(tmp_path / "rows.tfrecord")).parse_example({"x": penstock.Var("float32")}))
    empty, _ = (row for _, row in zip(range(2), reader))
    with pytest.raises(penstock.NotFound, match="behind="):
        reader.state_dict(at=empty)


def test_what_lies_where_a_dead_batch_lay_is_not_taken_for_it() -> None:
    reader = _inline(Dataset.from_range(ROWS).batch(N))
    batches = iter(reader)
    batch = next(batches)
    there = np.ctypeslib.as_array((ctypes.c_int64 * N).from_address(batch.ctypes.data))
    assert reader.state_dict(at=there)["tag"] == 1
    del batch
    with pytest.raises(penstock.NotFound, match="behind="):
        reader.state_dict(at=there)


def test_a_copy_of_a_batch_is_not_known_and_the_error_names_behind() -> None:
    reader = _inline(Dataset.from_range(ROWS).batch(N))
    batch = next(iter(reader))
    with pytest.raises(penstock.NotFound, match="behind="):
        reader.state_dict(at=batch.copy())


def test_a_batch_further_back_than_is_kept_is_an_error_that_says_so() -> None:
    reader = _inline(Dataset.from_range(ROWS).batch(4))
    elements = iter(reader)
    for _ in range(100):
        next(elements)
    reader.state_dict(behind=64)
    with pytest.raises(penstock.NotFound, match="not kept any more"):
        reader.state_dict(behind=65)
    with pytest.raises(penstock.NotFound, match="before the first batch"):
        reader.state_dict(behind=101)


# ---- what is refused


def _saved() -> tuple[Dataset, dict[str, Any]]:
    dataset = Dataset.from_range(ROWS).batch(N)
    reader = _inline(dataset)
    next(iter(reader))
    return dataset, reader.state_dict()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"penstock": 2}, "version 2"),
        ({"rows": "another"}, "another dataset"),
        ({"manifest": "another"}, "manifest"),
        ({"seed": 6}, "seed"),
        ({"mode": "replicated"}, "mode"),
        ({"epochs": {"0": {"lanes": "x", "parts": {}}}}, "epochs.0.lanes"),
        ({"generation": -1}, "generation"),
    ],
    ids=str,
)
def test_a_state_that_does_not_fit_is_refused_by_name(change: dict[str, Any], words: str) -> None:
    dataset, state = _saved()
    reader = _inline(dataset)
    with pytest.raises(penstock.Error, match=words):
        reader.load_state_dict({**state, **change})
    assert len(list(reader)) == 32  # it is where it was


def test_a_state_of_another_dataset_is_refused() -> None:
    _, state = _saved()
    with pytest.raises(penstock.DatasetMismatch):
        _inline(Dataset.from_range(ROWS + 1).batch(N)).load_state_dict(state)


def test_set_epoch_goes_on_to_that_epoch_and_never_back() -> None:
    reader = _inline(Dataset.from_range(ROWS).shuffle(50).batch(N), epochs=None)
    reader.set_epoch(2)
    assert len(list(reader)) == 32
    assert reader.epoch == 2
    reader.set_epoch(3)
    list(reader)
    assert reader.epoch == 3
    reader.set_epoch(1)
    with pytest.raises(penstock.Error, match="does not go back"):
        iter(reader)


# ---- states that were saved by version 1

STATES = sorted((Path(__file__).parent / "states").glob("*.json"))


@pytest.mark.parametrize("file", STATES, ids=lambda file: file.stem)
def test_states_of_version_1_stay_readable(file: Path) -> None:
    golden = json.loads(file.read_text())
    options = {"consumer_index": 1, "num_consumers": 2} if golden["state"]["kind"] == "part" else {}
    reader = _inline(Dataset.from_range(ROWS).shuffle(100).batch(N), epochs=2, **options)
    reader.load_state_dict(golden["state"])
    assert [ids_of(batch) for batch in reader] == golden["rest"]


# ---- with a service


@pytest.mark.parametrize(("before", "after"), [(2, 3), (4, 1), (3, 8), (1, 2)], ids=str)
def test_another_number_of_ranks_reads_exactly_the_rest(before: int, after: int, start_cluster: StartCluster, records: Records) -> None:
    cluster = start_cluster(2)
    dataset = records.dataset().shuffle(500).batch(N)
    first = run_leg(dataset, cluster.address, before, steps=20)
    rest = run_leg(dataset, cluster.address, after, state=first.state, attempt=1)
    assert sorted(first.ids() + rest.ids()) == records.ids


@pytest.mark.parametrize(("before", "after"), [(1, 5), (5, 2)], ids=str)
def test_another_number_of_workers_on_another_cluster_reads_exactly_the_rest(
    before: int, after: int, start_cluster: StartCluster, records: Records
) -> None:
    dataset = records.dataset().shuffle(500).batch(N)
    first = run_leg(dataset, start_cluster(before).address, 2, steps=20)
    rest = run_leg(dataset, start_cluster(after).address, 2, state=first.state)
    assert sorted(first.ids() + rest.ids()) == records.ids


def test_a_rank_whose_restore_waits_for_others_says_which_are_missing(start_cluster: StartCluster) -> None:
    address = start_cluster(1).address
    dataset = Dataset.from_range(100).batch(10)
    state = run_leg(dataset, address, 1, steps=2).state
    options: dict[str, Any] = {"job_name": "again", "num_consumers": 3, "timeout": 1.5}
    reader, other = (dataset.distribute(address, consumer_index=index, **options) for index in (0, 2))
    with reader, other, pytest.raises(penstock.Stalled, match=r"waiting for consumers 1, 2 \(.*\) of 3 to load their state") as caught:
        reader.load_state_dict(state)
    assert "consumers 1, 2" in caught.value.where


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_several_resumes_in_one_epoch_lose_and_repeat_nothing(plan: str, start_cluster: StartCluster) -> None:
    cluster = start_cluster(2)
    make, _ = PLANS[plan]
    ids = sorted(i for batch in _whole(make().batch(16)) for i in batch)
    state, got = None, []
    for attempt, (ranks, steps) in enumerate([(2, 2), (3, 1), (1, 4), (2, None)]):
        leg = run_leg(make().batch(16), cluster.address, ranks, steps=steps, state=state, attempt=attempt, seed=5)
        state = leg.state
        got += leg.ids()
    assert sorted(got) == ids


@pytest.mark.parametrize("steps", [0, 1, 31, 32, 33])
def test_at_the_first_and_at_the_last_batches_of_an_epoch(steps: int, start_cluster: StartCluster) -> None:
    cluster = start_cluster(2)
    dataset = Dataset.from_range(ROWS).batch(N)
    first = run_leg(dataset, cluster.address, 1, steps=steps)
    rest = run_leg(dataset, cluster.address, 2, state=first.state, attempt=1)
    assert sorted(first.ids() + rest.ids()) == list(range(ROWS))


def test_another_batch_size_reads_exactly_the_rest(start_cluster: StartCluster, records: Records) -> None:
    cluster = start_cluster(2)
    first = run_leg(records.dataset().batch(N), cluster.address, 2, steps=30)
    rest = run_leg(records.dataset().batch(50), cluster.address, 3, state=first.state, job_name="other")
    assert sorted(first.ids() + rest.ids()) == records.ids


def test_a_state_some_batches_behind_counts_for_every_rank(start_cluster: StartCluster, records: Records) -> None:
    cluster = start_cluster(2)
    dataset = records.dataset().batch(N)
    first = run_leg(dataset, cluster.address, 2, steps=20, save=lambda reader: reader.state_dict(behind=5))
    kept = [i for batches in first.batches for batch in batches[:15] for i in batch]
    rest = run_leg(dataset, cluster.address, 2, state=first.state, attempt=1)
    assert sorted(kept + rest.ids()) == records.ids


def test_across_epochs_the_rest_is_of_the_epoch_that_was_read(start_cluster: StartCluster) -> None:
    cluster = start_cluster(2)
    dataset = Dataset.from_range(ROWS).shuffle(50).batch(N)
    with penstock.connect(cluster.address) as service:
        reader = dataset.distribute(service, job_name="job", epochs=2, seed=5)
        list(reader)
        elements = iter(reader)
        second = [i for _ in range(5) for i in ids_of(next(elements))]
        state = reader.state_dict()
        reader.close()
        resumed = dataset.distribute(service, job_name="job", epochs=2, seed=5, attempt=1)
        resumed.load_state_dict(state)
        assert resumed.epoch == 1
        second += [i for batch in resumed for i in ids_of(batch)]
        resumed.close()
    assert sorted(second) == list(range(ROWS))


def _at_once(count: int, run: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(count) as pool:
        return [future.result() for future in [pool.submit(run, index) for index in range(count)]]


def _ranks(dataset: Dataset, address: str, count: int = 2, **options: Any) -> list[penstock.Reader]:
    options = {"job_name": "job", "even": "uneven", "timeout": 30.0, **options}
    return [dataset.distribute(address, consumer_index=index, num_consumers=count, **options) for index in range(count)]


def test_parts_of_a_later_epoch_are_gone_on_from_in_it(start_cluster: StartCluster) -> None:
    address = start_cluster(1).address
    dataset = Dataset.from_range(200).shuffle(50).batch(2)
    readers = _ranks(dataset, address, epochs=None, even="drop")

    def read(index: int) -> tuple[list[int], dict[str, Any]]:
        for _ in range(9):
            list(readers[index])
        elements = iter(readers[index])
        return [i for _ in range(10) for i in ids_of(next(elements))], readers[index].state_dict(scope="rank")

    had, parts = zip(*_at_once(2, read), strict=True)
    for reader in readers:
        reader.close()
    resumed = _ranks(dataset, address, epochs=None, even="drop", attempt=1)

    def read_on(index: int) -> list[int]:
        resumed[index].load_state_dict(parts[index])
        assert resumed[index].epoch == 9
        return [i for batch in resumed[index] for i in ids_of(batch)]

    rest = _at_once(2, read_on)
    for reader in resumed:
        reader.close()
    assert sorted(i for ids in [*had, *rest] for i in ids) == list(range(200))


@pytest.mark.parametrize("told", [False, True], ids=["the last batch", "END"])
@pytest.mark.parametrize("mode", ["shared", "strict"])
def test_a_loop_over_epochs_goes_on_after_a_state_of_an_epochs_end(mode: str, told: bool, start_cluster: StartCluster) -> None:
    cluster = start_cluster(1)
    dataset = Dataset.from_range(100).batch(10)
    options: dict[str, Any] = {"job_name": "job", "epochs": 3, "processing_mode": mode, "consumer_index": 0, "num_consumers": 1, "timeout": 30.0}
    with dataset.distribute(cluster.address, **options) as reader:
        reader.set_epoch(0)
        elements = iter(reader)
        for _ in range(10):
            next(elements)
        if told:
            assert next(elements, None) is None
        state = reader.state_dict()
    with dataset.distribute(cluster.address, attempt=1, **options) as resumed:
        resumed.load_state_dict(state)
        batches = []
        for epoch in range(3):
            resumed.set_epoch(epoch)
            batches.append(len(list(resumed)))
    assert batches == [0, 10, 10]


def test_what_ranks_dropped_at_an_epochs_end_does_not_come_after_it_in_strict(start_cluster: StartCluster) -> None:
    cluster = start_cluster(1)
    dataset = Dataset.from_range(1010).batch(10)
    options: dict[str, Any] = {"processing_mode": "strict", "even": "drop", "epochs": 2}
    first = run_leg(dataset, cluster.address, 2, steps=51, **options)
    assert len(first.ids()) == 1000
    assert run_leg(dataset, cluster.address, 1, state=first.state, attempt=1, **options).ids() == []


def test_a_state_after_an_epochs_end_has_what_ranks_with_more_steps_had(start_cluster: StartCluster) -> None:
    address = start_cluster(1).address
    rows = 31 * N  # not the same number of batches for both
    dataset = Dataset.from_range(rows).batch(N)
    readers = _ranks(dataset, address, epochs=2)
    batches = _at_once(2, lambda index: [ids_of(batch) for batch in readers[index]])
    assert sorted(i for batch in batches[0] + batches[1] for i in batch) == list(range(rows))
    state = readers[0 if len(batches[0]) < len(batches[1]) else 1].state_dict()
    for reader in readers:
        reader.close()
    assert run_leg(dataset, address, 3, state=state, attempt=1, epochs=2).ids() == []


@pytest.fixture
def readers_apart(start_cluster: StartCluster) -> Iterator[Callable[[int], list[penstock.Reader]]]:
    readers = _ranks(Dataset.from_range(2000).batch(10), start_cluster(1).address)
    held = []

    def read(steps: int) -> list[penstock.Reader]:
        for reader, count in zip(readers, (1, 1 + steps), strict=True):
            held.append(iter(reader))
            for _ in range(count):
                next(held[-1])
        return readers

    yield read
    for reader in readers:
        reader.close()


def test_ranks_too_far_apart_to_save_a_position_are_told_so_at_once(readers_apart: Callable[[int], list[penstock.Reader]]) -> None:
    readers = readers_apart(70)
    with pytest.raises(penstock.NotFound, match="consumer .* says: step 1 is not kept any more"):
        readers[0].state_dict()


def test_a_position_for_which_a_rank_did_not_come_names_the_rank(readers_apart: Callable[[int], list[penstock.Reader]]) -> None:
    with pytest.raises(penstock.Unavailable, match="these consumers have not come to step 6"):
        readers_apart(5)[1].state_dict(timeout=3)


def test_a_part_of_readers_that_declare_no_number_is_no_position(start_cluster: StartCluster) -> None:
    address = start_cluster(1).address
    dataset = Dataset.from_range(ROWS).batch(N)
    readers = [dataset.distribute(address, job_name="job", timeout=30.0) for _ in range(2)]
    for reader in readers:
        next(iter(reader))
    part = readers[0].state_dict(scope="rank")
    for reader in readers:
        reader.close()
    with dataset.distribute(address, job_name="job", timeout=30.0) as resumed, pytest.raises(penstock.DatasetMismatch, match="not declared"):
        resumed.load_state_dict(part)


def test_parts_are_refused_where_a_rank_was_started_anew(start_cluster: StartCluster) -> None:
    cluster = start_cluster(1)
    dataset = Dataset.from_range(ROWS).batch(N)
    readers = _ranks(dataset, cluster.address)
    elements = [iter(reader) for reader in readers]
    for batches in elements:
        next(batches)
        next(batches)
    wait_until(lambda: cluster.status()["jobs"][0]["rows"] == 4 * N, "the dispatcher is told what both had")
    options: dict[str, Any] = {"job_name": "job", "even": "uneven", "timeout": 30.0, "num_consumers": 2}
    anew = dataset.distribute(cluster.address, consumer_index=1, attempt=1, on_restart="continue", **options)
    next(iter(anew))
    parts = [reader.state_dict(scope="rank") for reader in (readers[0], anew)]
    for reader in (*readers, anew):
        reader.close()
    resumed = _ranks(dataset, cluster.address, attempt=2)

    def load(index: int) -> str:
        with pytest.raises(penstock.DatasetMismatch) as refused:
            resumed[index].load_state_dict(parts[index])
        return str(refused.value)

    errors = _at_once(2, load)
    assert all("consumer 1 was started anew at step 1" in error for error in errors), errors
    for reader in resumed:
        reader.close()


def test_a_batch_that_pads_an_epoch_is_a_step_of_its_own(start_cluster: StartCluster) -> None:
    readers = _ranks(Dataset.from_range(50).batch(10), start_cluster(1).address, even="pad", epochs=2)

    def read(index: int) -> tuple[int, int]:
        batches = list(readers[index])
        return len(batches), readers[index].state_dict(at=batches[-1], scope="rank")["tag"]

    assert _at_once(2, read) == [(3, 3), (3, 3)]
    for reader in readers:
        reader.close()


def test_a_position_is_saved_while_a_dispatcher_learns_of_the_job_anew(start_cluster: StartCluster) -> None:
    cluster = start_cluster(1)
    with Dataset.from_range(100_000).batch(10).distribute(cluster.address, consumer_index=0, num_consumers=1, job_name="job", timeout=30.0) as reader:
        elements = iter(reader)
        for _ in range(50):
            next(elements)
        cluster.kill_dispatcher()
        shutil.rmtree(cluster.directory / "state")
        cluster.start_dispatcher()
        for _ in range(20):
            assert reader.state_dict(timeout=30.0)["tag"] == 50


def test_a_state_that_names_a_lane_far_ahead_is_refused_and_others_read_on(start_cluster: StartCluster) -> None:
    address = start_cluster(1).address
    with Dataset.from_range(ROWS).batch(N).distribute(address, job_name="other", timeout=30.0) as other:
        elements = iter(other)
        next(elements)
        with Dataset.from_range(100).shuffle(10).repeat().batch(7).distribute(address, job_name="job", timeout=30.0) as reader:
            next(iter(reader))
            state = reader.state_dict()
            state["epochs"]["0"] = {"lanes": "", "parts": {"4294967290": "0-5"}}
            with pytest.raises(penstock.Invalid, match="lanes are given out in order"):
                reader.load_state_dict(state)
        assert len(list(elements)) == 31
