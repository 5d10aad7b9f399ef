"""Real processes for tests, and the check that nothing is left of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from support import data
from support.cluster import TestCluster
from support.servers import Servers

settings.register_profile("penstock", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
settings.load_profile("penstock")

os.environ["PENSTOCK_PROGRESS"] = "0"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
for name in ("PENSTOCK_SERVICE", "PENSTOCK_TOKEN", "PENSTOCK_TOKEN_FILE"):
    os.environ.pop(name, None)

StartCluster = Callable[..., TestCluster]


@pytest.fixture
def start_cluster(tmp_path: Path) -> Iterator[StartCluster]:
    """start_cluster(workers=2): a dispatcher and workers; ended, and checked to be gone, after the test."""
    clusters: list[TestCluster] = []
    shared_memory = _shared_memory()

    def start(workers: int = 2, **options: object) -> TestCluster:
        directory = tmp_path / f"cluster{len(clusters)}"
        directory.mkdir()
        clusters.append(TestCluster(directory, workers=workers, **options))
        return clusters[-1]

    yield start
    for cluster in clusters:
        cluster.stop()
        assert cluster.running() == [], "processes were left running"
    assert _shared_memory() <= shared_memory, "shared memory was left behind"


def _shared_memory() -> set[str]:
    """Without the semaphores of multiprocessing, which tests beside this one come and go with."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.mp-")}


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """servers.start("dispatcher", flags…): single servers; killed after the test."""
    started = Servers(tmp_path)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def records(tmp_path_factory: pytest.TempPathFactory) -> data.Records:
    """64 gzip TFRecord files of rows with ids."""
    return data.write_records(tmp_path_factory.mktemp("records"), files=64, rows=250)


@pytest.fixture(scope="session")
def tf() -> Any:
    import tensorflow

    return tensorflow


@pytest.fixture(scope="session")
def service(tf: Any) -> Any:
    """penstock.tf, by the name that programs of tf.data service have for it."""
    from penstock import tf as service

    return service
