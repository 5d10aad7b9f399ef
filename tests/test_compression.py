"""Blocks that are compressed on their way: the same rows, fewer bytes, and nothing of it within a host unless it is asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from chaos import network
from conftest import StartCluster
from penstock import Dataset
from penstock.errors import Unavailable
from support.cluster import TestCluster
from support.data import Records, write_records
from support.reading import read
from support.waiting import wait_until

N = 16
PAYLOAD = 4000
CODECS = ["lz4", "zstd"]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    """Files of which each is a lane with a tail, and whose rows a worker sends for longer than it takes to kill it."""
    return write_records(tmp_path_factory.mktemp("compressed"), files=16, rows=907, payload=PAYLOAD)


def _batches(records: Records) -> Dataset:
    return Dataset.from_tfrecord(records.pattern).parse_example({"id": "int64", "payload": "string"}).batch(N)


def _over_tcp(cluster: TestCluster) -> penstock.Service:
    return cluster.connect(shared_memory=False)


def _plain(batches: list[Any]) -> list[tuple[list[int], list[bytes]]]:
    return [(batch["id"].tolist(), batch["payload"].tolist()) for batch in batches]


def _busy(cluster: TestCluster) -> list[int]:
    return [i for i in range(len(cluster.workers)) if (cluster.worker_status(i) or {"lanes": 0})["lanes"] > 0]


@pytest.mark.parametrize("mode", ["shared", "strict"])
@pytest.mark.parametrize("codec", CODECS)
def test_rows_are_the_same_and_bytes_on_the_wire_fewer(codec: str, mode: str, start_cluster: StartCluster, records: Records) -> None:
    cluster = start_cluster(2)
    expected = _plain(read(_batches(records), "inline", processing_mode="strict", consumer_index=0, num_consumers=1))
    one: dict[str, Any] = {"processing_mode": mode, "consumer_index": 0, "num_consumers": 1}
    with _over_tcp(cluster) as service, _batches(records).distribute(service, job_name="job", compression=codec, **one) as reader:
        got = _plain(list(reader))
        stats = reader.stats()
        wait_until(lambda: cluster.status()["jobs"][0]["bytes"] == stats.bytes, "the dispatcher knows of all blocks")
        job = cluster.status()["jobs"][0]
    assert (got if mode == "strict" else sorted(i for ids, _ in got for i in ids)) == (expected if mode == "strict" else records.ids)
    assert {i: text for ids, texts in got for i, text in zip(ids, texts, strict=True)} == {
        i: text for ids, texts in expected for i, text in zip(ids, texts, strict=True)
    }
    assert 0 < stats.wire_bytes < 0.5 * stats.bytes
    assert job["wire_bytes"] == stats.wire_bytes
    wait_until(lambda: sum(worker["wire_bytes"] for worker in cluster.status()["workers"]) >= stats.wire_bytes, "so say the workers")
    workers = cluster.status()["workers"]
    assert sum(worker["wire_bytes"] for worker in workers) < 0.5 * sum(worker["bytes"] for worker in workers)


@pytest.mark.parametrize("codec", CODECS)
def test_arrays_that_the_plan_carries_are_compressed_too(codec: str, start_cluster: StartCluster) -> None:
    rows = {"id": np.arange(200_000), "zero": np.zeros((200_000, 8), np.float32)}
    cluster = start_cluster(1)
    with _over_tcp(cluster) as service, Dataset.from_arrays(rows).batch(1000).distribute(service, compression=codec) as reader:
        got = list(reader)
        stats = reader.stats()
    assert sorted(np.concatenate([batch["id"] for batch in got]).tolist()) == rows["id"].tolist()
    assert all(not batch["zero"].any() for batch in got)
    assert stats.wire_bytes < 0.4 * stats.bytes


def test_rows_that_get_no_smaller_go_as_they_are(start_cluster: StartCluster) -> None:
    noise = np.random.default_rng(1).integers(0, 2**63, (4000, 64))
    cluster = start_cluster(1)
    with _over_tcp(cluster) as service, Dataset.from_arrays({"x": noise}).batch(500).distribute(service, compression="zstd") as reader:
        got = np.concatenate([batch["x"] for batch in reader])
        stats = reader.stats()
    assert np.array_equal(np.sort(got, axis=0), np.sort(noise, axis=0))
    assert 0.9 * stats.bytes < stats.wire_bytes <= stats.bytes


@pytest.mark.parametrize("mode", ["shared", "strict"])
@pytest.mark.parametrize("codec", CODECS)
def test_a_worker_that_is_killed_in_the_middle_changes_no_row(codec: str, mode: str, start_cluster: StartCluster, records: Records) -> None:
    ranks, steps = 2, 40
    expected = _plain(read(_batches(records), "inline", processing_mode="strict", consumer_index=0, num_consumers=1, places=ranks))
    cluster = start_cluster(2)
    options: dict[str, Any] = {"job_name": "job", "num_consumers": ranks, "processing_mode": mode, "even": "uneven", "memory": "2MiB", "timeout": 60}
    with _over_tcp(cluster) as service, ThreadPoolExecutor(ranks) as pool:
        readers = [_batches(records).distribute(service, consumer_index=i, compression=codec, **options) for i in range(ranks)]
        loops = [iter(reader) for reader in readers]
        first = list(pool.map(lambda loop: [next(loop) for _ in range(steps)], loops))
        wait_until(lambda: bool(_busy(cluster)), "it is known who serves the lanes, which stand still")
        cluster.kill_worker(_busy(cluster)[0])
        rest = list(pool.map(list, loops))
        stats = [reader.stats() for reader in readers]
        for reader in readers:
            reader.close()
    got = [_plain(before + after) for before, after in zip(first, rest, strict=True)]
    if mode == "strict":
        assert [got[t % ranks][t // ranks] for t in range(sum(map(len, got)))] == expected
    rows = sorted((i, text) for rank in got for ids, texts in rank for i, text in zip(ids, texts, strict=True))
    assert rows == sorted((i, text) for ids, texts in expected for i, text in zip(ids, texts, strict=True))
    assert sum(each.reopened for each in stats) > 0, "lanes moved to the other worker"
    assert sum(each.wire_bytes for each in stats) < 0.5 * sum(each.bytes for each in stats)


@pytest.mark.parametrize("compression", ["auto", "none", None])
def test_nothing_is_compressed_on_loopback_unless_it_is_asked_for(compression: str | None, start_cluster: StartCluster, records: Records) -> None:
    cluster = start_cluster(1)
    with _over_tcp(cluster) as service, _batches(records).distribute(service, compression=compression) as reader:
        assert sum(len(batch["id"]) for batch in reader) == records.rows
        assert reader.stats().wire_bytes == reader.stats().bytes


def test_what_is_lent_in_shared_memory_is_never_compressed(start_cluster: StartCluster, records: Records) -> None:
    cluster = start_cluster(1)
    with cluster.connect() as service, _batches(records).distribute(service, compression="lz4", memory="1GiB") as reader:
        assert sum(len(batch["id"]) for batch in reader) == records.rows
        assert reader.stats().wire_bytes <= 0.1 * reader.stats().bytes, "a few blocks may be copied to the socket"


READS = """
import json, sys, time
from penstock import Dataset, connect
rows = Dataset.from_range(1_000_000_000).batch(4096)
with connect(sys.argv[1], token=sys.argv[2]) as service, rows.distribute(service, epochs=None) as reader:
    until = time.monotonic() + 60
    for batch in reader:
        stats = reader.stats()
        begun = stats.bytes > 1 << 20
        if begun and (stats.wire_bytes < 0.8 * stats.bytes or time.monotonic() > until):
            break
    print(json.dumps({"bytes": stats.bytes, "wire_bytes": stats.wire_bytes}))
"""


@pytest.mark.skipif(network.why_not() != "", reason=network.why_not())
def test_auto_begins_to_compress_where_the_link_is_what_limits(tmp_path: Path) -> None:
    cluster = network.NetworkCluster(workers=1, ranks=1, directory=tmp_path)
    try:
        try:
            cluster.network.narrow(cluster.host_of(cluster.workers[0]), "100mbit")
        except Unavailable as error:
            pytest.skip(str(error))
        cluster.wait_until_ready()
        token = (tmp_path / "token").read_text()
        command = [*cluster.network.through(cluster.rank_hosts[0]), sys.executable, "-c", READS, cluster.address, token]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        stats = json.loads(done.stdout)
        assert stats["wire_bytes"] < 0.8 * stats["bytes"]
    finally:
        cluster.stop()
