"""The sequential meaning of operators: functions from lists of rows to lists of rows.

A row is a plain value: an int, bytes, a list, a dict or a tuple of such.
"""

from __future__ import annotations

from typing import Any

Row = Any
Rows = list[Row]


def from_range(start: int, stop: int, step: int) -> Rows:
    return list(range(start, stop, step))


def from_arrays(arrays: Any) -> Rows:
    """Rows of a dict or tuple of lists, nested where you like."""
    if isinstance(arrays, dict):
        columns = {name: from_arrays(child) for name, child in arrays.items()}
        return [dict(zip(columns, row)) for row in zip(*columns.values())]
    if isinstance(arrays, tuple):
        return list(zip(*(from_arrays(child) for child in arrays)))
    return list(arrays)


def project(rows: Rows, columns: list[str]) -> Rows:
    return [{name: row[name] for name in columns} for row in rows]


def take(rows: Rows, count: int) -> Rows:
    return rows if count < 0 else rows[:count]


def skip(rows: Rows, count: int) -> Rows:
    return rows[count:]


def shard(rows: Rows, num: int, index: int) -> Rows:
    return rows[index::num]


def enumerate_rows(rows: Rows, start: int) -> Rows:
    return list(enumerate(rows, start))


def repeat(rows: Rows, count: int) -> Rows:
    return rows * count


def zip_rows(*inputs: Rows) -> Rows:
    return list(zip(*inputs))


def concatenate(*inputs: Rows) -> Rows:
    return [row for rows in inputs for row in rows]


def batch(rows: Rows, n: int, drop_remainder: bool) -> list[Rows]:
    """The batches of a single lane that nobody else adds tails to."""
    groups = [rows[i : i + n] for i in range(0, len(rows), n)]
    return groups[:-1] if drop_remainder and groups and len(groups[-1]) < n else groups
