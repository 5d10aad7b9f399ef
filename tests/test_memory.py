"""A worker keeps to its budget, however many jobs and consumers it serves."""

import threading
from pathlib import Path

import numpy as np

import penstock
from conftest import StartCluster
from penstock import Dataset
from support.waiting import wait_until

MIB = 1 << 20
JOBS, CONSUMERS = 4, 8


def _rss(pid: int) -> int:
    """The most that the process ever had in memory, without what it shares with readers through segments."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmHWM"].split()[0]) * 1024


def test_a_small_worker_serves_many_jobs_and_sleeping_consumers(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=1, memory="256MiB")
    base = np.zeros((1, MIB // 8), np.int64)
    readers: list[list[penstock.Reader]] = []
    services = [cluster.connect() for _ in range(CONSUMERS)]
    for job in range(JOBS):
        dataset = Dataset.from_arrays({"x": base}).repeat(200).enumerate()
        readers.append([dataset.distribute(service, job_name=f"job{job}", even="uneven", memory="16MiB", timeout=60) for service in services])
    failures: list[BaseException] = []
    counts: list[int] = []
    peak_used = 0

    def read(reader: penstock.Reader) -> None:
        try:
            counts.append(sum(1 for _, _ in zip(range(40), reader)))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read, args=(reader,)) for job in readers for reader in job[: CONSUMERS // 2]]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        status = cluster.worker_status(0)
        assert status is not None
        peak_used = max(peak_used, status["used"])
    for thread in threads:
        thread.join()
    assert failures == []
    assert all(count > 0 for count in counts)
    wait_until(lambda: (cluster.worker_status(0) or {"used": 0})["used"] > 0, "the sleepers' blocks are counted")
    assert peak_used < 256 * MIB
    assert _rss(cluster.workers[0].pid) < 400 * MIB
    for job in readers:
        for reader in job:
            reader.close()
