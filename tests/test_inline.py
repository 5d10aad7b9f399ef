"""Without a service: what a service would refuse is refused, and what ranks cannot do that know nothing of each other."""

import gzip
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from penstock import Dataset, Ragged


def _ranks(dataset: Dataset, ranks: int, **options: Any) -> list[list[list[int]]]:
    """The batches that each of so many ranks gets."""
    readers = [dataset.distribute("inline", consumer_index=i, num_consumers=ranks, **options) for i in range(ranks)]
    return [[batch.tolist() for batch in reader] for reader in readers]


def _rows(ranks: list[list[list[int]]]) -> list[int]:
    return sorted(row for batches in ranks for batch in batches for row in batch)


def test_an_index_that_is_none_of_the_consumers_is_refused_by_the_core_too() -> None:
    options = {"job_name": "", "mode": "shared", "even": "auto", "seed": 0, "epochs": 1, "index": 3, "consumers": 2, "memory": 1 << 28}
    options |= {"stall_timeout": 10.0, "places": 0, "on_restart": "error", "on_death": "auto", "attempt": 0, "compression": "auto"}
    with pytest.raises(penstock.Invalid, match="index 3"):
        penstock._core.read_inline(Dataset.from_range(1000)._plan, options)


def test_ranks_divide_the_lanes_or_are_told_that_there_are_too_few() -> None:
    few, many = Dataset.from_range(10).batch(3), Dataset.from_range(10_000).batch(3)
    assert few.distribute("inline")._core.lanes < 2 <= many.distribute("inline")._core.lanes
    with pytest.raises(penstock.Invalid, match=r"2 consumers.*strict"):
        _ranks(few, 2)
    got = _ranks(many, 2)
    assert all(got)
    assert _rows(got) == list(range(10_000))
    assert _rows(_ranks(few, 2, processing_mode="strict", even="uneven")) == list(range(10))


@pytest.mark.parametrize("even", ["drop", "pad"])
def test_ranks_that_cannot_end_together_are_not_told_that_they_do(even: str) -> None:
    dataset = Dataset.from_range(10_000).batch(3)
    with pytest.raises(penstock.Invalid, match=f"even={even}"):
        _ranks(dataset, 2, even=even)
    assert len(list(dataset.distribute("inline", even=even))) == 3334  # alone, one ends together with all
    first, second = _ranks(Dataset.from_range(9).batch(3), 2, even=even, processing_mode="strict")
    assert len(first) == len(second)


def test_a_replicated_job_has_no_state() -> None:
    with Dataset.from_range(10).distribute("inline", processing_mode="replicated") as reader, pytest.raises(penstock.Invalid, match="replicated"):
        reader.state_dict()


@pytest.mark.parametrize("mode", ["shared", "strict"])
def test_an_endless_repeat_of_nothing_ends_or_says_that_nothing_comes(mode: str, tmp_path: Path) -> None:
    (tmp_path / "nothing.tfrecord").touch()
    (tmp_path / "packed.tfrecord.gz").write_bytes(gzip.compress(b""))
    nothing, packed = (Dataset.from_tfrecord(str(tmp_path / name)).batch(10).repeat() for name in ("nothing.tfrecord", "packed.tfrecord.gz"))
    assert list(nothing.distribute("inline", processing_mode=mode)) == []
    with pytest.raises(penstock.Stalled, match="it has no rows"):
        list(packed.distribute("inline", processing_mode=mode, timeout=0.2))


def test_a_batch_that_cannot_be_made_was_not_delivered() -> None:
    """Two rows that are small by themselves, and padded to each other's lengths larger than any block."""
    long = 1 << 16
    lengths = np.concatenate([[0, long], long + np.arange(1, long + 1)])
    rows = Ragged(np.zeros(2 * long, np.int64), (np.array([0, 1, long + 1]), lengths), (None, None))
    with Dataset.from_arrays({"x": rows}).padded_batch(2).distribute("inline") as reader:
        before = reader.state_dict()
        elements = iter(reader)
        for _ in range(2):  # going on would skip it
            with pytest.raises(penstock.TooLarge):
                next(elements)
        assert reader.state_dict() == before


def test_a_program_that_read_through_a_function_ends_cleanly() -> None:
    program = "import penstock; print(len(list(penstock.Dataset.from_range(10).map(lambda x: x + 1).batch(4))))"
    for _ in range(8):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


@pytest.mark.parametrize("function", ["", ".map(lambda row: row)"])
def test_a_program_that_ends_while_threads_read_ends_cleanly(function: str) -> None:
    """As loaders have them that prefetch. Python ends a thread that asks for an interpreter which ends, by unwinding its stack."""
    program = f"""
import threading, numpy as np
from penstock import Dataset
read = threading.Barrier(3)
def loop():
    batches = iter(Dataset.from_arrays({{"x": np.arange(1000)}}){function}.batch(1).repeat().distribute("inline"))
    next(batches)
    read.wait()
    for batch in batches:
        pass
for _ in range(2):
    threading.Thread(target=loop, daemon=True).start()
read.wait()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT as a terminal's programs have it: what a shell starts in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("mode", ["shared", "strict"])
def test_a_ctrl_c_that_comes_upon_a_function_is_the_loop_s(mode: str, tmp_path: Path, ctrl_c: None) -> None:
    once = tmp_path / "once"

    def interrupted(i: int) -> int:
        if i == 130 and not once.exists():
            once.touch()
            signal.raise_signal(signal.SIGINT)
        return i

    dataset = Dataset.from_range(150).map(interrupted).batch(10)
    reader = dataset.distribute("inline", processing_mode=mode, epochs=None)
    got: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        got.extend(row for batch in reader for row in batch.tolist())
    state = reader.state_dict()
    with pytest.raises(penstock.ExecutorError, match="interrupted.*distribute the dataset again"):
        list(reader)
    again = dataset.distribute("inline", processing_mode=mode, epochs=None)
    again.load_state_dict(state)
    assert got + [row for batch in again for row in batch.tolist()] == list(range(150))
