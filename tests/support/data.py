"""Files with ids in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import penstock
from penstock.tfrecord import write_tfrecord


@dataclass(frozen=True)
class Records:
    directory: Path
    files: list[Path]
    rows: int  # of all files

    @property
    def pattern(self) -> str:
        return str(self.directory / "*.tfrecord*")

    @property
    def ids(self) -> list[int]:
        return list(range(self.rows))

    def dataset(self) -> penstock.Dataset:
        return penstock.Dataset.from_tfrecord(self.pattern).parse_example({"id": "int64", "file": "int64"})


def write_records(directory: Path, files: int, rows: int, compression: str = "gzip", payload: int = 0) -> Records:
    """`files` files of `rows` rows; ids go on from file to file, so that every row is told from every other."""
    suffix = {"gzip": ".gz", "zlib": ".zz", "none": ""}[compression]
    paths = []
    for file in range(files):
        paths.append(directory / f"part-{file:03}.tfrecord{suffix}")
        first = file * rows
        content = ({"id": i, "file": file, **({"payload": bytes(payload)} if payload else {})} for i in range(first, first + rows))
        write_tfrecord(paths[-1], content, compression)  # type: ignore[arg-type]
    return Records(directory, paths, files * rows)
