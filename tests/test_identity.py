"""Whom a process talks to: the dispatcher of another cluster is not taken for its own."""

import shutil

import numpy as np
import pytest

import penstock
from conftest import StartCluster
from penstock import Dataset
from support.cluster import TestCluster
from support.waiting import wait_until

ROWS = 100_000


def _dataset() -> Dataset:
    return Dataset.from_arrays({"x": np.zeros((1, 128), np.int64)}).repeat(ROWS).enumerate().batch(50)


def _replace_dispatcher(cluster: TestCluster, other: TestCluster) -> None:
    """At the address of the one comes the other, which has run before: one that has just begun would have lost its state."""
    cluster.kill_dispatcher()
    other.kill_dispatcher()
    shutil.rmtree(cluster.directory / "state")
    shutil.copytree(other.directory / "state", cluster.directory / "state")
    cluster.start_dispatcher()
    cluster.wait_until_ready()


def test_a_reader_refuses_a_dispatcher_of_another_cluster(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=1)
    with cluster.connect() as service, _dataset().distribute(service, memory="4MiB") as reader:
        batches = iter(reader)
        next(batches)
        _replace_dispatcher(cluster, start_cluster(workers=0))
        with pytest.raises(penstock.DatasetMismatch, match="another cluster"):
            for _ in batches:
                pass


def test_an_idle_worker_goes_over_to_a_dispatcher_of_another_cluster(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=1)
    _replace_dispatcher(cluster, start_cluster(workers=0))
    wait_until(lambda: cluster.worker_status(0), "the worker's hello to the new one")
    assert "dispatcher.refused" in cluster.log("worker")
    with cluster.connect() as service, _dataset().distribute(service) as reader:
        assert len(next(iter(reader))[0]) == 50


def test_a_worker_stays_with_the_cluster_whose_lanes_it_serves(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=1)
    with cluster.connect() as service, _dataset().distribute(service, memory="4MiB") as reader:
        batches = iter(reader)
        next(batches)
        _replace_dispatcher(cluster, start_cluster(workers=0))
        wait_until(lambda: "dispatcher.refused" in cluster.log("worker"), "the worker's refusal")
        assert cluster.worker_status(0) is None
        with pytest.raises(penstock.DatasetMismatch):
            for _ in batches:
                pass
    wait_until(lambda: cluster.worker_status(0), "the worker's hello to the new one, once no lane is open")
