"""Reading a dataset to its end."""

from __future__ import annotations

from typing import Any

from penstock import Dataset


def read(dataset: Dataset, service: Any = "inline", **options: Any) -> list[Any]:
    with dataset.distribute(service, **options) as reader:
        return list(reader)
