"""Consumers and workers of one job, as real processes: each row exactly once, whoever comes, goes or dies."""

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from conftest import StartCluster
from model.lanes import Span, check_epoch
from model.plans import Case, plain, plans, sortable
from penstock import Dataset
from support.consumers import read_in_processes, read_in_threads
from support.data import Records, write_records
from support.waiting import wait_until

N = 32


def _check_once(per_consumer: list[list[list[int]]], ids: list[int], n: int = N) -> None:
    batches = [batch for consumer in per_consumer for batch in consumer]
    counts = Counter(i for batch in batches for i in batch)
    assert sorted(counts) == ids, f"{len(set(ids) - set(counts))} rows are missing"
    assert [i for i, count in counts.items() if count > 1] == []
    assert sum(len(batch) < n for batch in batches) <= 1, sorted(map(len, batches))[:5]
    assert all(0 < len(batch) <= n for batch in batches)


@pytest.mark.parametrize(("consumers", "workers"), [(1, 1), (1, 3), (4, 2), (8, 3)], ids=str)
@pytest.mark.parametrize("memory", ["shared memory", "socket"])
def test_consumers_share_a_job_and_each_row_comes_once(
    consumers: int, workers: int, memory: str, start_cluster: StartCluster, records: Records
) -> None:
    cluster = start_cluster(workers)
    dataset = records.dataset().batch(N)
    _check_once(read_in_threads(dataset, cluster.address, consumers, memory == "shared memory", job_name="job"), records.ids)


def test_consumers_may_be_processes(start_cluster: StartCluster, records: Records, tmp_path: Path) -> None:
    cluster = start_cluster(2)
    _check_once(read_in_processes(records.pattern, cluster.address, 4, "job", N, tmp_path), records.ids)


def test_replicated_with_three_workers_is_three_passes(start_cluster: StartCluster, records: Records) -> None:
    cluster = start_cluster(3)
    got = read_in_threads(records.dataset().batch(N), cluster.address, 2, job_name="job", processing_mode="replicated")
    assert Counter(i for consumer in got for batch in consumer for i in batch) == dict.fromkeys(records.ids, 3)


@pytest.mark.parametrize("shuffled", [False, True])
def test_remote_gives_the_rows_of_inline(shuffled: bool, start_cluster: StartCluster, records: Records) -> None:
    cluster = start_cluster(2)
    dataset = records.dataset().shuffle(1000) if shuffled else records.dataset()
    remote = [plain(row) for row in dataset.distribute(cluster.address, seed=7)]
    inline = [plain(row) for row in dataset.distribute("inline", seed=7)]
    assert sorted(remote, key=sortable) == sorted(inline, key=sortable)


@pytest.mark.parametrize("shuffled", [False, True])
def test_remote_gives_the_batches_of_inline(shuffled: bool, start_cluster: StartCluster, records: Records) -> None:
    cluster = start_cluster(2)
    dataset = (records.dataset().shuffle(1000) if shuffled else records.dataset()).batch(N)

    def whole_groups(service: str) -> Counter[tuple[int, ...]]:
        """The batches that are one group of one lane; tails are joined in the order in which lanes end, which is free."""
        with dataset.distribute(service, seed=7) as reader:
            return Counter(tuple(batch["id"].tolist()) for batch in reader if len(reader.provenance(batch)) == 1)

    inline = whole_groups("inline")
    assert whole_groups(cluster.address) == inline
    assert inline.total() > records.rows // N // 2, "most batches are of this kind"


def test_random_plans_give_the_model_s_rows_to_any_number_of_consumers(start_cluster: StartCluster) -> None:
    cluster = start_cluster(2)

    @given(case=plans(), consumers=st.integers(1, 3))
    @settings(max_examples=25)
    def check(case: Case, consumers: int) -> None:
        got = _rows_of_consumers(case.dataset, cluster.address, consumers)
        assert sorted(got, key=sortable) == sorted(case.rows, key=sortable), case.words

    check()


def _rows_of_consumers(dataset: Dataset, address: str, consumers: int) -> list[Any]:
    job, rows, failures = f"job-{time.monotonic_ns()}", [], []

    def read() -> None:
        try:
            with penstock.connect(address) as service, dataset.distribute(service, job_name=job, even="uneven") as reader:
                rows.extend([plain(row) for row in reader])
        except penstock.Finished:
            pass  # the others were quick, and read it all before this one came
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=read, daemon=True) for _ in range(consumers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    return rows


def test_lanes_are_delivered_whole_in_groups_on_their_grid(start_cluster: StartCluster, records: Records) -> None:
    cluster = start_cluster(2)
    spans: list[list[Span]] = []
    ends: Counter[tuple[int, int, int]] = Counter()
    with records.dataset().batch(N).distribute(cluster.address) as reader:
        for batch in reader:
            pieces = reader.provenance(batch)
            spans.append([Span((p.epoch, p.replica, p.lane), p.first[0], p.end[0]) for p in pieces])
            for piece in pieces:
                key = (piece.epoch, piece.replica, piece.lane)
                ends[key] = max(ends[key], piece.end[0])
    assert sum(ends.values()) == records.rows
    check_epoch(spans, dict(ends), N)


def test_two_epochs_are_two_passes(start_cluster: StartCluster, records: Records) -> None:
    cluster = start_cluster(2)
    with records.dataset().shuffle(500).batch(N).distribute(cluster.address, epochs=2) as reader:
        passes = [[i for batch in reader for i in batch["id"].tolist()] for _ in range(2)]
    assert [sorted(rows) for rows in passes] == [records.ids, records.ids]
    assert passes[0] != passes[1]


class _Halfway:
    """Calls `act` once, when consumers have got half of the rows together."""

    def __init__(self, rows: int, act: Any) -> None:
        self._left = rows // 2
        self._act = act
        self._lock = threading.Lock()

    def __call__(self, consumer: int, batch: Any) -> None:
        with self._lock:
            before = self._left
            self._left -= len(batch["id"])
            if before > 0 >= self._left:
                self._act()


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> Records:
    """Enough that a job is still at work when something is done to it."""
    return write_records(tmp_path_factory.mktemp("many"), files=32, rows=1500, payload=2000)


@pytest.mark.parametrize("batch", [0, 1])
def test_what_a_loop_left_of_an_epoch_does_not_come_in_the_next(batch: int, start_cluster: StartCluster) -> None:
    numbers = Dataset.from_range(12)
    reader = (numbers.batch(batch) if batch else numbers).distribute(start_cluster(1).address, epochs=None)
    for _ in range(20):
        elements = iter(reader)
        assert len({np.ravel(next(elements))[0] for _ in range(3)}) == 3
        assert sorted(np.ravel(element)[0] for element in reader) == list(range(12))


def test_killing_a_worker_loses_and_repeats_nothing(start_cluster: StartCluster, many: Records) -> None:
    cluster = start_cluster(3)
    halfway = _Halfway(many.rows, lambda: cluster.kill_worker(0))
    _check_once(read_in_threads(_with_payload(many), cluster.address, 2, on_batch=halfway, job_name="job"), many.ids)


def test_killing_the_dispatcher_and_starting_it_again_loses_and_repeats_nothing(start_cluster: StartCluster, many: Records) -> None:
    cluster = start_cluster(2)

    def restart() -> None:
        cluster.kill_dispatcher()
        cluster.start_dispatcher()

    _check_once(read_in_threads(_with_payload(many), cluster.address, 2, on_batch=_Halfway(many.rows, restart), job_name="job"), many.ids)


def test_a_drained_worker_hands_over_and_exits_without_an_error(start_cluster: StartCluster, many: Records) -> None:
    cluster = start_cluster(2)
    halfway = _Halfway(many.rows, lambda: cluster.drain_worker(0))
    _check_once(read_in_threads(_with_payload(many), cluster.address, 2, on_batch=halfway, job_name="job"), many.ids)
    assert cluster.workers[0].wait(35) == 0


def test_a_worker_started_late_is_used_within_a_second(start_cluster: StartCluster, many: Records) -> None:
    cluster = start_cluster(1)
    with _with_payload(many).distribute(cluster.address, memory="16MiB") as reader:
        batches = iter(reader)
        got = [next(batches)["id"].tolist()]
        sessions = cluster.log("worker").count("session.open")
        cluster.start_worker()
        cluster.wait_until_ready()
        begin = time.monotonic()
        while cluster.log("worker").count("session.open") == sessions:
            got.append(next(batches)["id"].tolist())
        assert time.monotonic() - begin < 1.0
        got += [batch["id"].tolist() for batch in batches]
        wait_until(lambda: (cluster.worker_status(1) or {"rows": 0})["rows"] > 0, "the late worker has read rows")
    _check_once([got], many.ids)


def test_a_consumer_that_leaves_gives_its_lanes_to_the_others(start_cluster: StartCluster, many: Records) -> None:
    cluster = start_cluster(2)
    dataset = _with_payload(many)
    with dataset.distribute(cluster.address, job_name="job", even="uneven") as stays:
        with dataset.distribute(cluster.address, job_name="job", even="uneven") as leaves:
            got = [batch["id"].tolist() for _, batch in zip(range(5), leaves)]
        got += [batch["id"].tolist() for batch in stays]
    _check_once([got], many.ids)


def _with_payload(records: Records) -> Dataset:
    return Dataset.from_tfrecord(records.pattern).parse_example({"id": "int64", "payload": "string"}).batch(N)


def test_a_loop_that_keeps_its_batches_goes_on(start_cluster: StartCluster) -> None:
    cluster = start_cluster(1)
    dataset = Dataset.from_arrays({"id": np.arange(16), "x": np.zeros((16, 1 << 15))}).batch(4)
    kept = list(dataset.distribute(cluster.address, memory="64MiB", timeout=20))
    assert sorted(i for batch in kept for i in batch["id"].tolist()) == list(range(16))


def test_rows_that_a_loop_left_untaken_go_to_another_consumer(start_cluster: StartCluster) -> None:
    cluster = start_cluster(1)
    dataset = Dataset.from_range(10_000)  # not batched: rows come out of a run one by one
    with dataset.distribute(cluster.address, job_name="job") as reader:
        first = [int(row) for _, row in zip(range(3), reader)]
    rest = [int(row) for row in dataset.distribute(cluster.address, job_name="job")]
    assert sorted(first + rest) == list(range(10_000))
