"""A trainer that forks: children go on with what they inherited, read for themselves, and never touch what is the parent's."""

import json
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from conftest import StartCluster
from penstock import Dataset
from support.waiting import wait_until

ROWS, BATCH = 20_000, 50


def _dataset() -> Dataset:
    """Batches of 50 KiB: a block holds many, and the epoch goes through a worker's memory several times."""
    return Dataset.from_arrays({"x": np.zeros((1, 128), np.int64)}).repeat(ROWS).enumerate().batch(BATCH)


def _ids(batch: Any) -> list[int]:
    return [int(i) for i in batch[0]]


class Child:
    """A fork of this process that runs `work` and ends."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            try:
                work()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)

    def wait(self, within: float = 60.0) -> None:
        status: list[int] = []

        def ended() -> bool:
            pid, code = os.waitpid(self.pid, os.WNOHANG)
            status.append(code)
            return pid == self.pid

        try:
            wait_until(ended, "the child's end", within)
        except AssertionError:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            raise
        assert os.waitstatus_to_exitcode(status[-1]) == 0, "what the child said is above"


def _in_shared_memory(array: np.ndarray) -> bool:
    address = array.__array_interface__["data"][0]
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(part, 16) for part in line.split()[0].split("-"))
        if first <= address < last:
            return "memfd:penstock" in line
    return False


def _first_lent(batches: Iterator[Any]) -> Any:
    """The first ones are copies: the loop was not seen to let go of any yet."""
    return next(batch for batch in batches if _in_shared_memory(batch[0]))


def test_a_child_reads_an_inherited_batch_while_the_parent_reads_on(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=1, memory="64MiB")
    with cluster.connect() as service, _dataset().distribute(service, memory="8MiB") as reader:
        batches = iter(reader)
        inherited = [_first_lent(batches)]
        expected = _ids(inherited[0])
        go_on, say_go_on = os.pipe()

        def work() -> None:
            assert os.read(go_on, 1) == b"."
            assert _ids(inherited[0]) == expected

        child = Child(work)
        inherited.clear()
        rest = sum(len(batch[0]) for batch in batches)
        os.write(say_go_on, b".")
        child.wait()
        assert rest > ROWS // 2
        os.close(go_on)
        os.close(say_go_on)


def test_memory_that_a_child_may_read_is_not_the_workers_for_ever(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=1, memory="64MiB")
    with cluster.connect() as service, _dataset().distribute(service, epochs=None, memory="8MiB") as reader:
        for _ in range(4):
            batches = iter(reader)
            kept = _first_lent(batches)
            Child(lambda: None).wait()
            del kept
            assert sum(len(batch[0]) for batch in batches) > ROWS // 2

    def all_back() -> bool:
        status = cluster.worker_status(0)
        return status is not None and status["lanes"] == 0 and status["used"] == 0

    wait_until(all_back, "the worker's memory coming home")


def test_an_old_reader_says_in_the_child_what_to_do(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=1)
    with cluster.connect() as service, _dataset().distribute(service) as reader:
        batches = iter(reader)
        next(batches)

        def work() -> None:
            with pytest.raises(penstock.Invalid, match="connect anew"):
                next(batches)
            with pytest.raises(penstock.Invalid, match="connect anew"):
                _dataset().distribute(service)
            reader.close()

        Child(work).wait()
        assert sum(len(batch[0]) for batch in batches) == ROWS - BATCH


def test_a_child_keeps_no_descriptor_of_the_parents_connections(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=1)

    def descriptors() -> set[tuple[str, str]]:
        found = set()
        for entry in Path("/proc/self/fd").iterdir():
            try:
                found.add((entry.name, str(entry.readlink())))
            except OSError:  # the listing's own
                continue
        return {(number, what) for number, what in found if what.startswith(("socket:", "anon_inode:"))}

    before = descriptors()
    with cluster.connect() as service, _dataset().distribute(service) as reader:
        batches = iter(reader)
        next(batches)
        assert descriptors() - before

        def work() -> None:
            assert descriptors() - before == set()

        Child(work).wait()
        assert sum(len(batch[0]) for batch in batches) == ROWS - BATCH


def _read_job(address: str, job: str, batches: int | None) -> list[int]:
    with penstock.connect(address) as service, _dataset().distribute(service, job_name=job, even="uneven") as reader:
        ids = []
        for i, batch in enumerate(reader, 1):
            ids += _ids(batch)
            if i == batches:
                break
        return ids


def test_a_child_joins_as_a_consumer_of_its_own(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=1)
    told, tell = os.pipe()
    with cluster.connect() as service, _dataset().distribute(service, job_name="train", even="uneven") as reader:
        batches = iter(reader)
        ids = _ids(next(batches))

        def work() -> None:
            with os.fdopen(tell, "w") as out:
                json.dump(_read_job(cluster.address, "train", None), out)

        child = Child(work)
        os.close(tell)
        for batch in batches:
            ids += _ids(batch)
        with os.fdopen(told) as lines:
            ids += json.load(lines)
        child.wait()
    assert sorted(ids) == list(range(ROWS))


def test_a_local_service_is_its_parents_whatever_children_do() -> None:
    told, tell = os.pipe()
    with penstock.local(workers=1) as service:
        processes = service._processes
        assert processes is not None
        Child(service.close).wait()
        assert sum(len(batch[0]) for batch in _dataset().distribute(service)) == ROWS

        def hold() -> None:
            os.read(told, 1)

        holds_all = Child(hold)
        service.close()
        assert processes.process.returncode != -signal.SIGKILL, "it ended because it was told to"
        os.write(tell, b".")
        holds_all.wait()
    os.close(told)
    os.close(tell)


def _report_job(address: str, job: str, out: Connection) -> None:
    out.send(_read_job(address, job, 100))
    out.close()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_every_kind_read_beside_an_open_reader(method: str, start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=1)
    context = multiprocessing.get_context(method)
    with cluster.connect() as service, _dataset().distribute(service) as reader:
        batches = iter(reader)
        next(batches)
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_report_job, args=(cluster.address, "beside", sender))  # type: ignore[attr-defined]
        process.start()
        sender.close()
        assert sum(len(batch[0]) for batch in batches) == ROWS - BATCH
        assert receiver.poll(60)
        assert len(set(receiver.recv())) == 100 * BATCH
        process.join(20)
        assert process.exitcode == 0


class Squares:
    """A map-style dataset, for torch."""

    def __len__(self) -> int:
        return 200

    def __getitem__(self, i: int) -> int:
        return i * i


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_dataloader_workers_run_beside_an_open_reader(method: str, start_cluster: StartCluster) -> None:
    torch_data = pytest.importorskip("torch.utils.data")
    cluster = start_cluster(workers=1)
    loader = torch_data.DataLoader(Squares(), batch_size=10, num_workers=2, multiprocessing_context=method, timeout=60)
    with cluster.connect() as service, _dataset().distribute(service) as reader:
        batches = iter(reader)
        seen = [len(next(batches)[0])]
        squares = []
        for values in loader:
            squares += values.tolist()
            seen.append(len(next(batches)[0]))
        assert squares == [i * i for i in range(200)]
        assert sum(seen) + sum(len(batch[0]) for batch in batches) == ROWS
