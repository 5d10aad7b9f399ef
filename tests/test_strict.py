"""Strict: one order of batches, whatever reads it: a function of dataset, seed, places and batch size alone (docs/design/strict.md)."""

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from conftest import StartCluster
from model.strict_order import mixed_order
from penstock import Dataset
from penstock.tfrecord import write_tfrecord
from support.cluster import TestCluster
from support.ranks import Leg, ids_of, run_leg
from support.waiting import wait_until

N = 16
W = 8
SEED = 5

Make = Callable[[Path], Dataset]
Batches = list[list[int]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TFRecord files of very different lengths: many lanes have less than a batch."""
    directory = tmp_path_factory.mktemp("strict")
    ids = itertools.count()
    for file, rows in enumerate([40, 3, 100, 0, 17, 64, 1, 250, 33, 15, 16, 90, 5, 48, 31, 130, 7, 22, 80, 2, 60, 9, 120, 41]):
        content = ({"id": i, "words": [b"w"] * (i % 4)} for i in itertools.islice(ids, rows))
        write_tfrecord(directory / f"part-{file:02}.tfrecord.gz", content, "gzip")
    return directory


def _records(files: Path) -> Dataset:
    return Dataset.from_tfrecord(str(files / "*.gz")).parse_example({"id": "int64", "words": penstock.Var("string")})


def _squared(x: Any) -> dict[str, Any]:
    return {"id": x, "square": x * x}


def _part(lane: int, lanes: int) -> Iterator[dict[str, int]]:
    return ({"id": 1000 * lane + i} for i in range(1 + 7 * lane))


NATIVE: dict[str, Make] = {
    "range": lambda _: Dataset.from_range(2000).batch(N),
    "shuffled range": lambda _: Dataset.from_range(2000).shuffle(100).batch(N),
    "arrays": lambda _: Dataset.from_arrays({"id": np.arange(777), "x": np.ones((777, 3))}).batch(N),
    "records": lambda files: _records(files).padded_batch(N),
    "shuffled records": lambda files: _records(files).shuffle(50).padded_batch(N),
    "take over records": lambda files: _records(files).take(333).padded_batch(N),
    "without the last": lambda _: Dataset.from_range(500).skip(3).batch(N, drop_remainder=True),
    "two epochs in one": lambda _: Dataset.from_range(200).shuffle(20).repeat(2).batch(N),
    "concatenate": lambda _: Dataset.from_range(300).concatenate(Dataset.from_range(300, 555)).batch(N),
}
CODE: dict[str, Make] = {
    "functions": lambda _: Dataset.from_range(900).filter(lambda x: x % 5 > 0).flat_map(lambda x: [x] * int(x % 3)).map(_squared).batch(N),
    "a source of code": lambda _: Dataset.from_python(_part, lanes=12).batch(N),
}


def _inline(dataset: Dataset, **options: Any) -> penstock.Reader:
    return dataset.distribute("inline", **{"processing_mode": "strict", "places": W, "seed": SEED, **options})


def _order(dataset: Dataset, **options: Any) -> Batches:
    return [ids_of(batch) for batch in _inline(dataset, **options)]


def _ranks(dataset: Dataset, cluster: TestCluster, ranks: int, **options: Any) -> Leg:
    return run_leg(dataset, cluster.address, ranks, **{"processing_mode": "strict", "places": W, "seed": SEED, **options})


def _joined(leg: Leg) -> Batches:
    """The batches of all ranks in the ring's order: step by step, rank by rank."""
    return [batch for step in itertools.zip_longest(*leg.batches) for batch in step if batch is not None]


# ---- without a service


@pytest.mark.parametrize("plan", ["range", "arrays", "records", "shuffled records"])
def test_inline_gives_the_order_of_the_definition(plan: str, files: Path) -> None:
    dataset = NATIVE[plan](files)
    lanes: dict[int, list[int]] = {}
    reader = dataset.distribute("inline", seed=SEED)
    for batch in reader:
        ids = iter(ids_of(batch))
        for piece in reader.provenance(batch):
            lanes.setdefault(piece.lane, []).extend(itertools.islice(ids, piece.rows))
    rows = [lanes.get(lane, []) for lane in range(max(lanes) + 1)]
    mix = int(found[1]) if (found := re.search(r"joined from (\d+) lanes", dataset.explain())) else 1
    expected = mixed_order([len(ids) for ids in rows], N, W, mix)
    assert _order(dataset) == [[i for lane, first, count in batch for i in rows[lane][first : first + count]] for batch in expected]


def test_lanes_shorter_than_a_batch_are_joined_as_they_come_and_an_endless_repeat_of_them_gives_batches(
    files: Path, start_cluster: StartCluster
) -> None:
    endless = _records(files).padded_batch(512).repeat()
    read = lambda reader: [ids_of(batch) for batch in itertools.islice(reader, 9)]  # noqa: E731
    alone = read(_inline(endless))
    assert [len(ids) for ids in alone] == [512] * 9
    assert read(endless.distribute(start_cluster(2).address, processing_mode="strict", job_name="endless", seed=SEED, places=W)) == alone


@pytest.mark.parametrize("ranks", [2, 3, 5, 8, 13])
def test_inline_ranks_divide_the_one_order(ranks: int, files: Path) -> None:
    dataset = NATIVE["records"](files)
    parts = [_order(dataset, consumer_index=index, num_consumers=ranks, even="uneven") for index in range(ranks)]
    assert _joined(Leg(batches=parts)) == _order(dataset)


def test_inline_the_rest_after_any_batch_is_what_would_have_come(files: Path) -> None:
    dataset = NATIVE["records"](files)
    batches = _order(dataset)
    for step in range(len(batches) + 1):
        reader = _inline(dataset)
        for _ in zip(range(step), reader):
            pass
        resumed = _inline(dataset)
        resumed.load_state_dict(reader.state_dict())
        assert [ids_of(batch) for batch in resumed] == batches[step:], f"after batch {step}"


# ---- whoever reads, wherever it is made


@pytest.mark.parametrize("workers", [1, 3, 7])
def test_the_order_does_not_depend_on_the_workers(workers: int, files: Path, start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers)
    for name, make in NATIVE.items():
        assert _joined(_ranks(make(files), cluster, 1, job_name=name)) == _order(make(files)), name


def test_the_order_does_not_depend_on_the_number_of_ranks(files: Path, start_cluster: StartCluster) -> None:
    cluster = start_cluster(2)
    for name in ("shuffled range", "records"):
        dataset = NATIVE[name](files)
        expected = _order(dataset)
        for ranks in (1, 2, 3, 5, 8, 13):
            assert _joined(_ranks(dataset, cluster, ranks, job_name=f"{name} {ranks}")) == expected, f"{name} over {ranks}"


@pytest.mark.parametrize("workers", [3, 7])
def test_workers_that_are_killed_change_nothing(workers: int, start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers)
    dataset = Dataset.from_range(20_000).shuffle(100).batch(N)
    with cluster.connect() as service, dataset.distribute(service, processing_mode="strict", places=W, seed=SEED, memory="1MiB") as reader:
        alive, got = workers, []
        for step, batch in enumerate(reader):
            got.append(ids_of(batch))
            if step % 20 == 10 and alive > 1:
                alive -= 1
                cluster.kill_worker(alive)
        assert reader.stats().reopened > 0
    assert got == _order(dataset)


def test_a_worker_that_is_killed_changes_nothing_of_what_functions_drop_and_multiply(start_cluster: StartCluster) -> None:
    cluster = start_cluster(2, worker_flags=["--allow-code", "--cpus", "2"])
    dataset = Dataset.from_range(6_000).filter(lambda x: x % 7 > 2).flat_map(lambda x: [x] * int(x % 3)).batch(N)
    with dataset.distribute(cluster.address, processing_mode="strict", places=W, seed=SEED, memory="64KiB") as reader:
        got = []
        for step, batch in enumerate(reader):
            got.append(ids_of(batch))
            if step == 20:
                cluster.kill_worker(0)
        assert reader.stats().reopened > 0
    assert got == _order(dataset)


def test_a_small_memory_changes_nothing(files: Path, start_cluster: StartCluster) -> None:
    cluster = start_cluster(2, memory="8MiB")
    dataset = NATIVE["records"](files)
    assert _joined(_ranks(dataset, cluster, 3, memory=1024)) == _order(dataset)


# ---- all ranks end at one step, or none is short


@pytest.mark.parametrize("ranks", [3, 8])
def test_even_drop_ends_all_ranks_at_the_last_whole_step(ranks: int, files: Path, start_cluster: StartCluster) -> None:
    cluster = start_cluster(2)
    dataset = NATIVE["records"](files)
    batches = _order(dataset)
    steps = len(batches) // ranks
    for even in ("drop", "auto"):
        leg = _ranks(dataset, cluster, ranks, even=even, job_name=even)
        assert [len(rank) for rank in leg.batches] == [steps] * ranks
        assert _joined(leg) == batches[: steps * ranks]


@pytest.mark.parametrize("ranks", [3, 8])
def test_even_pad_gives_the_last_batch_again(ranks: int, files: Path, start_cluster: StartCluster) -> None:
    cluster = start_cluster(2)
    dataset = NATIVE["records"](files)
    batches = _order(dataset)
    steps = -(-len(batches) // ranks)
    leg = _ranks(dataset, cluster, ranks, even="pad")
    assert _joined(leg) == batches + [batches[-1]] * (steps * ranks - len(batches))


# ---- resumed


@pytest.mark.parametrize(("before", "after"), [(2, 3), (4, 1), (3, 8)], ids=str)
def test_another_number_of_ranks_reads_exactly_the_rest(before: int, after: int, files: Path, start_cluster: StartCluster) -> None:
    cluster = start_cluster(2)
    dataset = NATIVE["records"](files)
    first = _ranks(dataset, cluster, before, steps=7)
    rest = _ranks(dataset, cluster, after, state=first.state, attempt=1)
    assert _joined(first) + _joined(rest) == _order(dataset)


@pytest.mark.parametrize(("before", "after"), [(1, 5), (5, 2)], ids=str)
def test_another_number_of_workers_on_another_cluster_reads_exactly_the_rest(
    before: int, after: int, files: Path, start_cluster: StartCluster
) -> None:
    dataset = NATIVE["shuffled records"](files)
    first = _ranks(dataset, start_cluster(before), 2, steps=9)
    rest = _ranks(dataset, start_cluster(after), 2, state=first.state)
    assert _joined(first) + _joined(rest) == _order(dataset)


def test_several_resumes_in_one_epoch_go_on_in_the_one_order(files: Path, start_cluster: StartCluster) -> None:
    cluster = start_cluster(2)
    for name in ("shuffled range", "records", "take over records"):
        dataset = NATIVE[name](files)
        state, got = None, []
        for attempt, (ranks, steps) in enumerate([(2, 2), (3, 1), (1, 4), (2, None)]):
            leg = _ranks(dataset, cluster, ranks, steps=steps, state=state, attempt=attempt, job_name=name)
            state = leg.state
            got += _joined(leg)
        assert got == _order(dataset), name


def test_at_the_first_at_the_last_and_among_the_tails(files: Path, start_cluster: StartCluster) -> None:
    cluster = start_cluster(2)
    dataset = NATIVE["records"](files)
    batches = _order(dataset)
    for steps in (0, 1, len(batches) - 4, len(batches) - 2, len(batches) - 1, len(batches), len(batches) + 1):
        first = _ranks(dataset, cluster, 1, steps=steps, job_name=f"at {steps}")
        rest = _ranks(dataset, cluster, 2, state=first.state, attempt=1, job_name=f"at {steps}")
        assert _joined(first) + _joined(rest) == batches, f"after {steps}"


def test_over_code_the_order_is_that_of_inline_also_when_resumed(files: Path, start_cluster: StartCluster) -> None:
    cluster = start_cluster(1, worker_flags=["--allow-code", "--cpus", "1"])
    for name, make in CODE.items():
        dataset = make(files)
        batches = _order(dataset)
        first = _ranks(dataset, cluster, 2, steps=9, job_name=name)
        rest = _ranks(dataset, cluster, 3, state=first.state, attempt=1, job_name=name)
        assert _joined(first) + _joined(rest) == batches, name


def test_across_epochs_the_rest_is_of_the_epoch_that_was_read(files: Path, start_cluster: StartCluster) -> None:
    cluster = start_cluster(2)
    dataset = NATIVE["shuffled range"](files)
    whole = _inline(dataset, epochs=3)
    epochs = [[ids_of(batch) for batch in whole] for _ in range(3)]
    assert epochs[0] != epochs[1]
    options: dict[str, Any] = {"processing_mode": "strict", "places": W, "seed": SEED, "epochs": 3, "job_name": "job"}
    with cluster.connect() as service:
        with dataset.distribute(service, **options) as reader:
            assert [ids_of(batch) for batch in reader] == epochs[0]
            second = [ids_of(batch) for _, batch in zip(range(5), reader)]
            state = reader.state_dict()
        with dataset.distribute(service, attempt=1, **options) as resumed:
            resumed.load_state_dict(state)
            assert resumed.epoch == 1
            second += [ids_of(batch) for batch in resumed]
            assert second == epochs[1]
            assert [ids_of(batch) for batch in resumed] == epochs[2]


def test_a_state_at_an_epochs_end_is_that_end_and_the_next_epoch_follows(files: Path, start_cluster: StartCluster) -> None:
    cluster = start_cluster(2)
    dataset = NATIVE["shuffled range"](files)
    whole = _inline(dataset, epochs=2)
    epochs = [[ids_of(batch) for batch in whole] for _ in range(2)]
    for ranks in (1, 2):  # 125 batches: the last step is whole, or not
        first = _ranks(dataset, cluster, ranks, steps=200, epochs=2, job_name=f"{ranks}")
        assert _joined(first) == epochs[0]
        options: dict[str, Any] = {"processing_mode": "strict", "seed": SEED, "epochs": 2, "job_name": f"{ranks}", "attempt": 1, "even": "uneven"}
        with dataset.distribute(cluster.address, **options) as resumed:
            resumed.load_state_dict(first.state)
            assert [list(resumed), [ids_of(batch) for batch in resumed]] == [[], epochs[1]]


def test_a_state_some_batches_behind_is_the_order_from_there(files: Path, start_cluster: StartCluster) -> None:
    cluster = start_cluster(2)
    dataset = NATIVE["records"](files)
    first = _ranks(dataset, cluster, 2, steps=10, save=lambda reader: reader.state_dict(behind=4))
    kept = _joined(Leg(batches=[rank[:6] for rank in first.batches]))
    rest = _ranks(dataset, cluster, 3, state=first.state, attempt=1)
    assert kept + _joined(rest) == _order(dataset)


RANK_1 = """
import json, sys, penstock
options = {"processing_mode": "strict", "places": 8, "seed": 5, "even": "uneven", "job_name": "job", "on_restart": "continue"}
dataset = penstock.Dataset.from_range(2000).shuffle(100).batch(16)
reader = dataset.distribute(sys.argv[1], consumer_index=1, num_consumers=2, attempt=int(sys.argv[2]), **options)
for step, batch in enumerate(reader, 1):
    print(json.dumps(batch.tolist()), flush=True)
    if step == int(sys.argv[3]):
        sys.stdin.read()
"""


def test_a_rank_that_died_goes_on_with_what_it_asked_for_last(start_cluster: StartCluster) -> None:
    cluster = start_cluster(2)
    dataset = NATIVE["shuffled range"](Path())
    batches = _order(dataset)

    def start(attempt: int, waits_at: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", RANK_1, cluster.address, str(attempt), str(waits_at)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    options: dict[str, Any] = {"processing_mode": "strict", "places": W, "seed": SEED, "even": "uneven", "job_name": "job"}
    with start(attempt=0, waits_at=10) as rank_1, dataset.distribute(cluster.address, consumer_index=0, num_consumers=2, **options) as reader:
        elements = iter(reader)
        rank_0 = [ids_of(next(elements)) for _ in range(10)]
        assert rank_1.stdout is not None
        assert [json.loads(rank_1.stdout.readline()) for _ in range(10)] == batches[1:20:2]
        wait_until(lambda: cluster.status()["jobs"][0]["rows"] == 20 * N, "the dispatcher's hearing of 10 steps")
        rank_1.kill()
        rank_1.wait()
        with start(attempt=1, waits_at=0) as again:
            rank_0 += [ids_of(batch) for batch in elements]
            out, _ = again.communicate(timeout=60)
        assert again.returncode == 0
        assert [json.loads(line) for line in out.splitlines()] == batches[19::2]  # the 10th again: the loop had not come back for more
        assert rank_0 == batches[::2]


# ---- what is refused


@pytest.mark.parametrize("service", ["inline", "remote"])
def test_another_batch_size_is_refused_by_name(service: str, files: Path, start_cluster: StartCluster) -> None:
    where = "inline" if service == "inline" else start_cluster(1).address
    options: dict[str, Any] = {"processing_mode": "strict", "seed": SEED}
    with _records(files).padded_batch(N).distribute(where, **options) as reader:
        next(iter(reader))
        state = reader.state_dict()
    other = _records(files).padded_batch(N + 1).distribute(where, **options)
    with pytest.raises(penstock.DatasetMismatch, match="batch"):
        other.load_state_dict(state)
    other.close()


def test_another_number_of_places_is_refused_and_none_given_takes_the_states() -> None:
    dataset = NATIVE["range"](Path())
    reader = _inline(dataset)
    next(iter(reader))
    with pytest.raises(penstock.DatasetMismatch, match="places"):
        _inline(dataset, places=W + 1).load_state_dict(reader.state_dict())
    resumed = _inline(dataset, places=0)
    resumed.load_state_dict(reader.state_dict())
    assert [ids_of(batch) for batch in resumed] == _order(dataset)[1:]


@pytest.mark.parametrize(
    ("change", "words"),
    [({"turn": 1, "next_lane": 10**9}, "next_lane"), ({"places": [[0, "0"], [0, "0"]]}, "places"), ({"tails": [[0, "0", 0, N]]}, "tails")],
    ids=str,
)
def test_a_ring_that_cannot_be_is_refused_by_name(change: dict[str, Any], words: str) -> None:
    dataset = NATIVE["range"](Path())
    reader = _inline(dataset)
    next(iter(reader))
    state = reader.state_dict()
    with pytest.raises(penstock.Error, match=words):
        _inline(dataset).load_state_dict({**state, "ring": {**state["ring"], **change}})
