"""Ranks of a shared job end an epoch at the same step, however uneven the data is."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conftest import StartCluster
from penstock import Dataset
from penstock.tfrecord import write_tfrecord
from support import rank

N = 8
SIZES = {"one long": [1003], "few": [500, 3, 41, 7], "more": [90, 10, 350, 20, 35, 60, 5], "tails": [N - 1] * 13}


def _uneven_files(directory: Path, sizes: list[int]) -> str:
    first = 0
    for i, rows in enumerate(sizes):
        write_tfrecord(directory / f"part-{i:02}.tfrecord.gz", ({"id": first + row} for row in range(rows)), "gzip")
        first += rows
    return str(directory / "*.gz")


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
def test_with_drop_all_ranks_end_at_one_step_and_fewer_batches_than_ranks_are_lost(
    start_cluster: StartCluster, tmp_path: Path, ranks: int, sizes: list[int]
) -> None:
    cluster = start_cluster(2)
    got = rank.read_all(ranks, pattern=_uneven_files(tmp_path, sizes), address=cluster.address, batch=N, even="drop", lockstep=None)
    assert len({len(batches) for batches in got}) == 1, [len(batches) for batches in got]
    assert sum(len(batch) != N for batches in got for batch in batches) <= 1
    rows = [row for batches in got for batch in batches for row in batch]
    assert len(rows) == len(set(rows))
    assert sum(sizes) - len(rows) < ranks * N


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
def test_with_pad_every_row_comes_and_fewer_batches_than_ranks_come_twice(
    start_cluster: StartCluster, tmp_path: Path, ranks: int, sizes: list[int]
) -> None:
    cluster = start_cluster(2)
    got = rank.read_all(ranks, pattern=_uneven_files(tmp_path, sizes), address=cluster.address, batch=N, even="pad", lockstep=None)
    assert len({len(batches) for batches in got}) == 1, [len(batches) for batches in got]
    times = Counter(row for batches in got for batch in batches for row in batch)
    assert sorted(times) == list(range(sum(sizes)))
    repeated = sum(batch == before for batches in got for before, batch in zip(batches, batches[1:], strict=False))
    assert repeated < ranks
    assert times.total() - len(times) <= repeated * N


@pytest.mark.parametrize("drop_remainder", [False, True])
def test_with_pad_no_whole_batch_is_lost_and_one_at_most_is_short(start_cluster: StartCluster, tmp_path: Path, drop_remainder: bool) -> None:
    pattern = _uneven_files(tmp_path, [37, 5, 120, 64, 1, 0, 200, 33, 8, 15])  # 483 rows: 161 batches of 3, 60 of 8 and three rows
    address = start_cluster(2).address
    for batch in (3, N):
        dataset = Dataset.from_tfrecord(pattern).parse_example({"id": "int64"}).interleave(3).shuffle(20).batch(batch, drop_remainder=drop_remainder)

        def read(index: int, dataset: Dataset = dataset, job: str = str(batch)) -> list[list[int]]:
            with dataset.distribute(address, job_name=job, consumer_index=index, num_consumers=3, even="pad", timeout=60) as reader:
                return [[int(i) for i in batch["id"]] for batch in reader]

        with ThreadPoolExecutor(3) as pool:
            got = list(pool.map(read, range(3)))
        assert len({len(batches) for batches in got}) == 1
        came = {tuple(batch) for batches in got for batch in batches}
        assert len(came) == 483 // batch + (483 % batch > 0 and not drop_remainder)
        assert sum(map(len, came)) == len({row for rows in came for row in rows}) == (483 // batch * batch if drop_remainder else 483)


def test_what_a_loop_gets_again_to_end_with_the_others_is_counted(start_cluster: StartCluster) -> None:
    address = start_cluster(1).address

    def read(index: int) -> tuple[list[list[int]], int]:
        dataset = Dataset.from_range(50).batch(10)
        with dataset.distribute(address, job_name="job", consumer_index=index, num_consumers=2, even="pad", timeout=60) as reader:
            return [batch.tolist() for batch in reader], reader.stats().repeated_batches

    with ThreadPoolExecutor(2) as pool:
        got = list(pool.map(read, range(2)))
    assert sum(counted for _, counted in got) == 1
    for batches, counted in got:
        assert sum(batch == before for before, batch in zip(batches, batches[1:], strict=False)) == counted


def test_ranks_that_reduce_their_gradients_in_every_step_do_not_hang(start_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = start_cluster(2)
    pattern = _uneven_files(tmp_path, [300, 11, 41, 7, 29])
    got = rank.read_all(2, pattern=pattern, address=cluster.address, batch=N, even="auto", lockstep=str(tmp_path / "store"))
    assert [len(batches) for batches in got] == [388 // (2 * N)] * 2


def test_a_quick_loop_leaves_a_slow_one_its_part_of_every_epoch(start_cluster: StartCluster) -> None:
    cluster, rows, epochs = start_cluster(2), 3000, 3
    dataset = Dataset.from_range(rows).shuffle(50).batch(N)

    def read(index: int) -> list[list[int]]:
        got: list[list[int]] = []
        with dataset.distribute(cluster.address, job_name="free", consumer_index=index, num_consumers=2, epochs=epochs, timeout=60) as reader:
            for _ in range(epochs):
                got.append([])
                for batch in reader:
                    got[-1] += batch.tolist()
                    time.sleep(0.004 * index)  # what a step takes
        return got

    with ThreadPoolExecutor(2) as threads:
        quick, slow = threads.map(read, range(2))
    for epoch in range(epochs):
        assert len(quick[epoch]) == len(slow[epoch])
        assert len(quick[epoch]) + len(slow[epoch]) < 1.1 * rows, f"rows of epoch {epoch} came twice"
