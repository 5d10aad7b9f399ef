"""What `penstock status` shows is so."""

from __future__ import annotations

import numpy as np
import pytest

import penstock
from conftest import StartCluster
from penstock import Dataset
from support.cluster import run
from support.waiting import wait_until


@pytest.mark.parametrize("ranks", [None, 2])
def test_a_late_join_of_a_finished_job_is_refused_and_leaves_nothing_behind(start_cluster: StartCluster, ranks: int | None) -> None:
    cluster = start_cluster(workers=1)
    numbers = Dataset.from_range(1000).batch(100)

    def reader(service: penstock.Service, rank: int) -> penstock.Reader:
        if ranks is None:
            return numbers.distribute(service, job_name="over")
        return numbers.distribute(service, job_name="over", num_consumers=ranks, consumer_index=rank, even="uneven")

    with cluster.connect() as service:
        readers = [reader(service, rank) for rank in range(ranks or 1)]
        assert sorted(np.concatenate([batch for each in readers for batch in each]).tolist()) == list(range(1000))
        for each in readers:
            each.close()
        wait_until(lambda: not cluster.status()["jobs"], "the job is put away")
        for _ in range(3):
            with reader(service, 0) as late, pytest.raises(penstock.Finished, match="read again under another job name"):
                next(iter(late))
        wait_until(lambda: not cluster.status()["jobs"], "nothing is left of those who came late", within=5)


def test_a_rate_is_none_of_before_the_dispatcher_was_started_anew(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=1)
    with cluster.connect() as service, Dataset.from_range(10**9).batch(1000).distribute(service, job_name="goes-on") as reader:
        batches = iter(reader)
        for _ in range(3000):
            next(batches)
        wait_until(lambda: cluster.status()["jobs"][0]["rows"] >= 3_000_000, "the dispatcher knows of all batches")
        cluster.kill_dispatcher()
        cluster.start_dispatcher()
        cluster.wait_until_ready()
        wait_until(lambda: (cluster.status()["jobs"] or [{"rows": 0}])[0]["rows"] >= 3_000_000, "the loop tells the new one")
        # The loop stands still: whatever the dispatcher watched is no row.
        seen = wait_until(lambda: [job for job in cluster.status()["jobs"] if job["rows_per_s"] is not None], "there is a rate")
        assert (seen[0]["rows"], seen[0]["rows_per_s"], seen[0]["bytes_per_s"]) == (3_000_000, 0, 0)
        shown = run("status", "--dispatcher", cluster.address).stdout
        assert "ROWS/S" in shown


@pytest.mark.parametrize("shared_memory", [True, False])
def test_a_worker_whose_lanes_are_read_has_lanes(start_cluster: StartCluster, shared_memory: bool) -> None:
    cluster = start_cluster(workers=1)
    with cluster.connect(shared_memory=shared_memory) as service:
        with Dataset.from_range(400_000).shuffle(100).batch(100).distribute(service, job_name="small") as reader:
            batches = iter(reader)

            def rows_and_lanes() -> tuple[int, int]:
                next(batches)
                status = cluster.worker_status(0)
                assert status is not None
                return status["rows"], status["lanes"]

            wait_until(lambda: rows_and_lanes()[0] > 0, "the dispatcher hears of rows")
            assert [lanes for _, lanes in (rows_and_lanes() for _ in range(20)) if lanes == 0] == []
        wait_until(lambda: (cluster.worker_status(0) or {}).get("lanes") == 0, "nobody reads", within=20)
