"""Runs a program as ranks of a Ray cluster with readers: `ray_launch.py RANKS PROGRAM ARGUMENTS…`."""

from __future__ import annotations

import runpy
import sys
from typing import Any

import ray

import penstock.ray


class Rank:
    def run(self, arguments: list[str]) -> None:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


def main(ranks: int, arguments: list[str]) -> None:
    ray.init(num_cpus=2 * ranks, include_dashboard=False, object_store_memory=80 << 20, log_to_driver=False)
    kind: Any = ray.remote(Rank)
    with penstock.ray.start(num_workers=2, memory="128MiB"):
        started = [
            kind.options(num_cpus=1, runtime_env={"env_vars": {"RANK": str(i), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(i)}}).remote()
            for i in range(ranks)
        ]
        ray.get([rank.run.remote(arguments) for rank in started])


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
