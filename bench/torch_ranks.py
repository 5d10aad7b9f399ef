"""The recommender's records, from files through a service to two torch ranks, each a process: rows a CPU second of all processes together.

One worker reads; both ranks share its one job and get torch tensors. penstock keeps one global order of batches (strict, the default of torch
ranks); tf.data service has no such mode for files, and hands batches to who comes first.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import records
from side_by_side import Case, Stopwatch, main
from transport import TfServers

RANKS = 2
PASSES = 12


def _penstock(pattern: str) -> Callable[[Path, Stopwatch], float]:
    def run(directory: Path, watch: Stopwatch) -> float:
        import penstock

        with penstock.local(workers=1) as service:
            return _with_ranks(_penstock_rank, watch, service.address, str(directory / pattern))

    return run


def _penstock_rank(there: Any, rank: int, address: str, pattern: str) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(RANKS)}
    from penstock.torch import DataLoader

    dataset = records.penstock_dataset(pattern, True, PASSES)
    _read(there, lambda: DataLoader(dataset, service=address, job_name="bench"))


def _tf_data_service(pattern: str) -> Callable[[Path, Stopwatch], float]:
    def run(directory: Path, watch: Stopwatch) -> float:
        servers = TfServers(readers=1)
        rows = _with_ranks(_tf_rank, watch, servers.address, str(directory / pattern))
        servers.stop()
        return rows

    return run


def _tf_rank(there: Any, rank: int, address: str, pattern: str) -> None:
    import tensorflow as tf
    import torch

    distribute = tf.data.experimental.service.distribute("distributed_epoch", f"grpc://{address}", job_name="bench")
    batches = records.tf_dataset(pattern, True, PASSES).apply(distribute)
    _read(there, lambda: ({name: torch.from_numpy(column.numpy()) for name, column in batch.items()} for batch in batches))


def _read(there: Any, begin: Callable[[], Iterable[Any]]) -> None:
    """Nothing is read before the watch is started: a service prepares ahead what it may."""
    there.send("ready")
    there.recv()
    there.send(sum(len(batch["label"]) for batch in begin()))
    there.recv()  # until the time is taken: what a process that has ended used is not told


def _with_ranks(rank_of: Callable[..., None], watch: Stopwatch, *arguments: str) -> float:
    spawn = multiprocessing.get_context("spawn")
    pipes = [spawn.Pipe() for _ in range(RANKS)]
    ranks = [spawn.Process(target=rank_of, args=(there, rank, *arguments)) for rank, (_, there) in enumerate(pipes)]
    for rank in ranks:
        rank.start()
    for here, _ in pipes:
        here.recv()
    watch.start()
    for here, _ in pipes:
        here.send("go")
    rows = sum(here.recv() for here, _ in pipes)
    watch.stop()
    for here, _ in pipes:
        here.send("end")
    for rank in ranks:
        rank.join(20)
    return float(rows)


CASES = [
    Case(
        "plain: shuffled and downsampled, to 2 torch ranks",
        "rows a CPU s",
        _penstock("*.tfrecord"),
        {"tf.data service": _tf_data_service("*.tfrecord")},
        per="cpu_s",
        at_least={"tf.data service": 4},
    )
]

if __name__ == "__main__":
    main("torch_ranks", CASES, records.prepare)
