"""One rank of a job, as a program: reads it, in step with the others if asked, and prints the ids of its batches as one line of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import penstock


def start(options: dict[str, Any]) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, __file__, json.dumps(options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def read_all(ranks: int, **options: Any) -> list[list[list[int]]]:
    """The ids of the batches that each rank got."""
    processes = [start({**options, "index": i, "ranks": ranks}) for i in range(ranks)]
    batches = []
    for process in processes:
        out, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
        batches.append(json.loads(out))
    return batches


def _steps_of(pattern: str, address: str, index: int, ranks: int, batch: int, even: str, lockstep: str | None) -> list[list[int]]:
    dataset = penstock.Dataset.from_tfrecord(pattern).parse_example({"id": "int64"}).batch(batch)
    step = _gloo(index, ranks, lockstep) if lockstep else lambda: None
    batches = []
    with dataset.distribute(address, job_name="even", consumer_index=index, num_consumers=ranks, even=even) as reader:
        for got in reader:
            batches.append(got["id"].tolist())
            step()
    return batches


def _gloo(index: int, ranks: int, store: str) -> Any:
    """A step of a model that all ranks train: its gradients are reduced over all of them, so a rank that is a step short hangs the others."""
    import torch
    from torch import distributed

    distributed.init_process_group("gloo", init_method=f"file://{Path(store)}", rank=index, world_size=ranks)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))

    def step() -> None:
        model(torch.ones(1, 2)).sum().backward()

    return step


if __name__ == "__main__":
    print(json.dumps(_steps_of(**json.loads(sys.argv[1]))))
