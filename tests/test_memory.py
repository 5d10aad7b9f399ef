"""A worker keeps to its budget, however many jobs and consumers it serves."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest

import penstock
from conftest import StartCluster
from penstock import Dataset
from penstock.tfrecord import write_tfrecord
from support.reading import read
from support.waiting import wait_until

MIB = 1 << 20
JOBS, CONSUMERS = 4, 8
STALL = 10.0  # seconds; 32 consumers share two cores with the test


def _rss(pid: int) -> int:
    """The most that the process ever had in memory, mapped segments included."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmHWM"].split()[0]) * 1024


@pytest.mark.parametrize("shared_memory", [False, True], ids=["socket", "shared memory"])
def test_a_small_worker_serves_many_jobs_and_sleeping_consumers(shared_memory: bool, start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=1, memory="256MiB")
    base = np.zeros((1, MIB // 8), np.int64)
    readers: list[list[penstock.Reader]] = []
    services = [cluster.connect(shared_memory=shared_memory) for _ in range(CONSUMERS)]
    for job in range(JOBS):
        dataset = Dataset.from_arrays({"x": base}).repeat(100_000).enumerate()
        readers.append([dataset.distribute(service, job_name=f"job{job}", even="uneven", memory="16MiB", timeout=STALL) for service in services])
    failures: list[BaseException] = []
    waits: list[float] = []
    enough = threading.Event()

    def read(reader: penstock.Reader) -> None:
        try:
            before = time.monotonic()
            for _ in reader:
                waits.append(time.monotonic() - before)
                if enough.is_set():
                    return
                before = time.monotonic()
            raise AssertionError("the epoch ended before the figures were taken")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read, args=(reader,), daemon=True) for job in readers for reader in job[: CONSUMERS // 2]]
    for thread in threads:
        thread.start()
    used: dict[int, int] = {}  # by rows sent: a worker reports each second, and a report without progress would be a stall

    def three_reports() -> bool:
        status = cluster.worker_status(0)
        assert status is not None
        used[status["rows"]] = status["used"]
        return len([rows for rows in used if rows > 0]) >= 3 or bool(failures)

    wait_until(three_reports, "three reports of a worker that moves", within=60)
    enough.set()
    for thread in threads:
        thread.join(30)
    assert 0 < max(used.values()) < 256 * MIB
    assert _rss(cluster.workers[0].pid) < 400 * MIB
    assert failures == []
    assert not any(thread.is_alive() for thread in threads)
    assert len(waits) >= len(threads)
    assert max(waits) < STALL, f"a reader waited {max(waits):.1f} s"
    for job in readers:
        for reader in job:
            reader.close()


def test_a_record_that_does_not_fit_is_refused_before_there_is_memory_for_it(start_cluster: StartCluster, tmp_path: Path) -> None:
    write_tfrecord(tmp_path / "a.tfrecord", [{"x": bytes(size)} for size in (10, 200 * MIB)])
    cluster = start_cluster(workers=1, memory="64MiB")
    dataset = Dataset.from_tfrecord(tmp_path / "a.tfrecord").parse_example({"x": "string"}).batch(1)
    with pytest.raises(penstock.TooLarge, match=r"a\.tfrecord at .*, record 1: .*--memory of at least"):
        read(dataset, cluster.address)
    assert _rss(cluster.workers[0].pid) < 64 * MIB


def test_a_batch_of_rows_that_do_not_fit_is_refused_before_there_is_memory_for_it(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=1, memory="64MiB")
    with pytest.raises(penstock.TooLarge, match="--memory more, or a smaller n"):
        read(Dataset.from_range(3_000_000).batch(3_000_000).batch(1), cluster.address)
    assert _rss(cluster.workers[0].pid) < 64 * MIB


def test_a_shuffle_of_many_small_files_holds_their_records_and_not_what_they_were_read_into(start_cluster: StartCluster, tmp_path: Path) -> None:
    write_tfrecord(tmp_path / "first.gz", [{"x": 1}], compression="gzip")
    for i in range(20_000):
        (tmp_path / f"{i:05}.gz").hardlink_to(tmp_path / "first.gz")
    cluster = start_cluster(workers=1, memory="64MiB")
    dataset = Dataset.from_tfrecord(tmp_path / "[0-9]*.gz").shuffle(5000).parse_example({"x": "int64"}).batch(512)
    assert sum(len(batch["x"]) for batch in read(dataset, cluster.address)) == 20_000
    assert _rss(cluster.workers[0].pid) < 48 * MIB
