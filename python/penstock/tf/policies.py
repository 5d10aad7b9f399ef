"""How a dataset is divided among workers, in tf.data service's words and in penstock's."""

from __future__ import annotations

import enum
from typing import Any

from penstock.errors import Invalid


class ShardingPolicy(enum.IntEnum):
    """OFF: every worker reads the whole dataset. All others deliver each element once among the consumers of a job, whatever happens to workers:

    DYNAMIC: divided by files where the graph names some and works on their rows one by one, else made in one place.
    FILE: divided by files, and an error where it cannot be.
    DATA: made in one place.
    FILE_OR_DATA: FILE where it can be, else DATA.
    HINT: divided where the graph says `shard(SHARD_HINT, SHARD_HINT)`.
    """

    OFF = 0
    DYNAMIC = 1
    FILE = 2
    DATA = 3
    FILE_OR_DATA = 4
    HINT = 5


_SYNONYMS = {"parallel_epochs": ShardingPolicy.OFF, "distributed_epoch": ShardingPolicy.DYNAMIC}


def policy_of(processing_mode: Any) -> ShardingPolicy:
    if isinstance(processing_mode, ShardingPolicy):
        return processing_mode
    if isinstance(processing_mode, str) and processing_mode in _SYNONYMS:
        return _SYNONYMS[processing_mode]
    # tf.data service's own, of a program that has changed one import and not yet the other.
    if type(processing_mode).__name__ == "ShardingPolicy" and isinstance(processing_mode, enum.IntEnum):
        return ShardingPolicy[processing_mode.name]
    raise Invalid(f"processing_mode={processing_mode!r} is neither a ShardingPolicy nor one of {', '.join(map(repr, _SYNONYMS))}")


class CrossTrainerCache:
    """Trainers that read the same data under one job name, each all of it.

    trainer_id: what tells trainers apart: processes of one trainer share one, and share the elements.
    """

    def __init__(self, trainer_id: str) -> None:
        if not trainer_id:
            raise Invalid("trainer_id is empty; give each trainer a name of its own")
        self.trainer_id = trainer_id
