"""penstock: readers prepare the data, every rank of a training job drinks from one shared stream.

import penstock

dataset = penstock.Dataset.from_range(1000).shuffle(1000).batch(32)
for batch in dataset.distribute("local:2"):
    ...
"""

from penstock._core import __version__
from penstock.condition import Condition, col, random
from penstock.dataset import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset
from penstock.errors import (
    Busy,
    Cancelled,
    DataError,
    DatasetMismatch,
    Deadline,
    Error,
    ExecutorError,
    Exists,
    Finished,
    Internal,
    Invalid,
    NotDeterministic,
    NotFound,
    PermissionDenied,
    StaleGeneration,
    Stalled,
    TooLarge,
    Unavailable,
)
from penstock.features import Fixed, Var
from penstock.ragged import Ragged
from penstock.reader import Piece, Reader, Stats
from penstock.service import Service, connect, local
from penstock.spec import ElementSpec, Spec

__all__ = [
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "Busy",
    "Cancelled",
    "Condition",
    "DataError",
    "Dataset",
    "DatasetMismatch",
    "Deadline",
    "ElementSpec",
    "Error",
    "ExecutorError",
    "Exists",
    "Finished",
    "Fixed",
    "Internal",
    "Invalid",
    "NotDeterministic",
    "NotFound",
    "PermissionDenied",
    "Piece",
    "Ragged",
    "Reader",
    "Service",
    "Spec",
    "StaleGeneration",
    "Stalled",
    "Stats",
    "TooLarge",
    "Unavailable",
    "Var",
    "__version__",
    "col",
    "connect",
    "local",
    "random",
]
