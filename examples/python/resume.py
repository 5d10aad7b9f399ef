"""A loop that saves where it is in its data with its model, and goes on from there, on as many ranks as there are then.

penstock local --workers 2 -- bash -c '
  torchrun --standalone --nproc-per-node 2 resume.py data --steps 20 --checkpoint c.pt
  torchrun --standalone --nproc-per-node 3 resume.py data --checkpoint c.pt'
"""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import penstock
from penstock.torch import DataLoader


def train(data: str, steps: int | None, checkpoint: str, seen: str | None) -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    dataset = penstock.Dataset.from_tfrecord(f"{data}/*").parse_example({"id": "int64", "x": penstock.Fixed("float32", [4])})
    loader = DataLoader(dataset, batch_size=16, shuffle=True, drop_last=False, even="uneven")  # every row

    if os.path.exists(checkpoint):
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["data"])

    ids: list[int] = []
    with model.join():  # ranks may end a step apart
        for step, batch in enumerate(loader, 1):
            loss = model(batch["x"]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ids += batch["id"].tolist()
            if step == steps:
                break
    dist.barrier()
    if steps is not None and dist.get_rank() == 0:  # one rank's state is that of the whole job
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "data": loader.state_dict()}, checkpoint)
    dist.barrier()
    if seen:
        with open(f"{seen}.{dist.get_rank()}", "w") as file:
            file.write("\n".join(map(str, ids)))
    loader.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("data", help="a directory of TFRecords with an id and four numbers in each row")
    parser.add_argument("--steps", type=int, help="save and end after so many; default: read all")
    parser.add_argument("--checkpoint", default="checkpoint.pt")
    parser.add_argument("--seen", help="write the ids of the rows that each rank got to this file, with the rank behind its name")
    options = parser.parse_args()
    train(options.data, options.steps, options.checkpoint, options.seen)
