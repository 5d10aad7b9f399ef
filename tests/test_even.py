"""Ranks of a shared job end an epoch at the same step, however uneven the data is."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from conftest import StartCluster

from penstock.tfrecord import write_tfrecord
from support import rank

N = 8


def _uneven_files(directory: Path, sizes: list[int]) -> str:
    first = 0
    for i, rows in enumerate(sizes):
        write_tfrecord(directory / f"part-{i:02}.tfrecord.gz", ({"id": first + row} for row in range(rows)), "gzip")
        first += rows
    return str(directory / "*.gz")


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("sizes", [[500, 3, 41, 7], [90, 10, 350, 20, 35, 60, 5]], ids=["few", "more"])
def test_with_drop_all_ranks_end_at_one_step_and_no_row_comes_twice(
    start_cluster: StartCluster, tmp_path: Path, ranks: int, sizes: list[int]
) -> None:
    cluster = start_cluster(2)
    got = rank.read_all(ranks, pattern=_uneven_files(tmp_path, sizes), address=cluster.address, batch=N, even="drop", lockstep=None)
    assert len({len(batches) for batches in got}) == 1, [len(batches) for batches in got]
    rows = [row for batches in got for batch in batches for row in batch]
    padded = sum(batch == before for batches in got for before, batch in zip(batches, batches[1:], strict=False)) * N
    assert len(rows) - len(set(rows)) <= padded
    assert len(set(rows)) >= sum(sizes) - ranks * 3 * N


def test_ranks_that_reduce_their_gradients_in_every_step_do_not_hang(start_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = start_cluster(2)
    pattern = _uneven_files(tmp_path, [300, 11, 41, 7, 29])
    got = rank.read_all(2, pattern=pattern, address=cluster.address, batch=N, even="auto", lockstep=str(tmp_path / "store"))
    assert len(got[0]) == len(got[1])
    assert len(got[0]) >= 388 // (2 * N) - 3


def test_pad_is_refused_with_what_to_use_instead(start_cluster: StartCluster) -> None:
    with pytest.raises(penstock.Invalid, match="use even='drop'"):
        penstock.Dataset.from_range(8).batch(2).distribute(start_cluster(1).address, even="pad")
