"""A rank of a torch program that reads by the four functions, and says as JSON what it got. Only rank 0's dataset is the one to be read."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import Any

import torch.distributed as dist

import penstock
from penstock import dds

ROWS = 100


def main(rendezvous: str, service: str, rank: int, world: int) -> None:
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world, timeout=timedelta(seconds=90))
    dataset = penstock.Dataset.from_range(ROWS if rank == 0 else 1).batch(5)
    said: dict[str, Any] = {}
    for mode in (None, "shared"):
        dataset_id, job_name = dds.register_dataset(dataset, service)
        read = dds.distribute_from_dataset_id(service, dataset_id, job_name, processing_mode=mode)
        said[mode or "default"] = {"agreed": [dataset_id, job_name], "rows": [int(row) for batch in read for row in batch]}
    try:
        dds.register_dataset("no dataset" if rank == 0 else dataset, service)
    except penstock.Invalid as error:
        said["refused"] = str(error)
    print(json.dumps(said))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
