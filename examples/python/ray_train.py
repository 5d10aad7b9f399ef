"""Ranks of a DDP training as Ray actors, fed by workers on the same cluster.

ray start --head
python ray_train.py data --ranks 2 --workers 2
"""

from __future__ import annotations

import argparse
import socket

import ray

import penstock.ray


@ray.remote(num_cpus=1)
class Rank:
    """A process of the training, wherever Ray puts it."""

    def __init__(self, rank: int, world: int) -> None:
        self.rank = rank
        self.world = world

    def meeting_point(self) -> str:
        """Where the ranks find each other: asked of rank 0."""
        with socket.socket() as free:
            free.bind(("", 0))
            return f"tcp://{ray.util.get_node_ip_address()}:{free.getsockname()[1]}"

    def train(self, meeting_point: str, data: str) -> list[int]:
        """The ids of the rows that it was given."""
        import torch
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel

        from penstock.torch import DataLoader

        dist.init_process_group("gloo", init_method=meeting_point, rank=self.rank, world_size=self.world)
        model = DistributedDataParallel(torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        dataset = penstock.Dataset.from_tfrecord(f"{data}/*").parse_example({"id": "int64", "x": penstock.Fixed("float32", [4])})
        # Nothing says where the service is, nor which rank this is: the cluster's actor and the process group do.
        loader = DataLoader(dataset, batch_size=16, shuffle=True, drop_last=False, even="uneven")
        ids: list[int] = []
        with model.join():  # ranks may end a step apart
            for batch in loader:
                optimizer.zero_grad()
                model(batch["x"]).square().mean().backward()
                optimizer.step()
                ids += batch["id"].tolist()
        loader.close()
        dist.destroy_process_group()
        return ids


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", help="a directory of TFRecords with an id and four numbers in each row, as all nodes see it")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    with penstock.ray.start(num_workers=options.workers) as service:
        print(f"the service is at {service.address}")
        ranks = [Rank.remote(rank, options.ranks) for rank in range(options.ranks)]
        meeting_point = ray.get(ranks[0].meeting_point.remote())
        got = ray.get([rank.train.remote(meeting_point, options.data) for rank in ranks])
    ids = [i for ids in got for i in ids]
    print(f"{options.ranks} ranks got {len(ids)} rows, {len(set(ids))} of them different")


if __name__ == "__main__":
    main()
