"""Whatever user code raises, the loop is told what, where and on which row."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock
from conftest import StartCluster
from penstock import Dataset

ROW = penstock.Spec(np.int64, ())


class _Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def _raises(error: Callable[[], BaseException]) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        if x == 7:
            raise error()
        return x

    return function


def _leaves(x: Any) -> Any:
    if x == 7:
        sys.exit(3)
    return x


RAISED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "half a character": (_raises(lambda: ValueError("bad \ud800 x")), r"ValueError on row 7 .*bad \\ud800 x"),
    "no text at all": (_raises(_Mute), r"_Mute on row 7 .*its __str__ raised RuntimeError"),
    "a long text": (_raises(lambda: ValueError("y" * 100_000_000)), r"ValueError on row 7 .*yyy … \(\d+ characters are left out\) … yyy"),
    "sys.exit": (_leaves, r"SystemExit on row 7 .*: 3"),
    "KeyboardInterrupt": (_raises(KeyboardInterrupt), "KeyboardInterrupt on row 7"),
    "GeneratorExit": (_raises(GeneratorExit), "GeneratorExit on row 7"),
}


@pytest.fixture(scope="module")
def service() -> Any:
    with penstock.local(workers=1) as service:
        yield service


@pytest.mark.parametrize("name", RAISED)
def test_what_was_raised_is_told_with_its_row_and_line(name: str, service: penstock.Service) -> None:
    function, told = RAISED[name]
    with pytest.raises(penstock.ExecutorError, match=told) as raised:
        list(Dataset.from_range(16).map(function, spec=ROW).distribute(service))
    assert raised.value.seq == 7
    assert raised.value.details["file"] == __file__
    assert len(str(raised.value)) < 100_000
    assert len(raised.value.traceback) < 100_000


def test_so_it_is_inline() -> None:
    with pytest.raises(penstock.ExecutorError, match="SystemExit on row 7"):
        list(Dataset.from_range(16).map(_leaves, spec=ROW).distribute("inline"))


def test_who_writes_into_the_workers_socket_is_told_so(start_cluster: StartCluster) -> None:
    def writes(x: Any) -> Any:
        import os

        if x == 7:
            os.write(3, b"\xff" * 64)
        return x

    cluster = start_cluster(1, worker_flags=["--allow-code", "--cpus", "1"])
    with pytest.raises(penstock.ExecutorError, match="descriptor 3"):
        list(Dataset.from_range(16).map(writes, spec=ROW).distribute(cluster.address))


MADE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "names that are numbers": (lambda x: {1: x, 2: x}, r"the row has the name 1, of type int; names are str"),
    "names inside that are numbers": (lambda x: {"a": {1: x}}, r"a has the name 1, of type int; names are str"),
    "an empty tuple": (lambda x: (x, ()), r"1 is \(\), and holds nothing; leave it out"),
    "an empty dict": (lambda x: {"a": x, "b": {}}, r"b is \{\}, and holds nothing; leave it out"),
}


@pytest.mark.parametrize("name", MADE)
def test_rows_that_cannot_be_are_refused_by_what_is_wrong_with_them(name: str) -> None:
    function, told = MADE[name]
    with pytest.raises(penstock.Invalid, match=told):
        list(Dataset.from_range(4).map(function).distribute("inline"))


def test_so_are_specs_of_such() -> None:
    with pytest.raises(penstock.Invalid, match="the name 1, of type int; names are str"):
        list(Dataset.from_range(4).map(lambda x: x, spec={1: ROW}).distribute("inline"))  # type: ignore[dict-item]


BATCHES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a scalar": (lambda x: x.sum(), "returned int64, which has no rows, for 16"),
    "nothing": (lambda x: None, "returned NoneType, which has no rows, for 16"),
    "a dict for one column": (lambda x: {"a": x}, "returned dict, .*for its one column"),
    "fewer rows": (lambda x: x[:-1], "returned 15 rows in its one column for 16"),
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_function_of_batches_that_gives_something_else_is_told_what(name: str) -> None:
    function, told = BATCHES[name]
    with pytest.raises(penstock.ExecutorError, match=told):
        list(Dataset.from_range(16).batch(16).map_batch(function, spec=ROW).distribute("inline"))


@pytest.mark.parametrize(("row", "told"), [(0, "the row at seq 0 takes"), (3, "hold 838.* bytes .*rows of user code")])
def test_a_row_that_never_fits_the_worker_is_told_with_its_size_and_the_flag(row: int, told: str) -> None:
    def grows(x: Any) -> Any:
        return np.zeros(80 << 20 if x == row else 1, np.uint8)

    with penstock.local(workers=1, memory="64MiB") as service, pytest.raises(penstock.TooLarge, match=f"{told}.*--memory") as raised:
        list(Dataset.from_range(8).map(grows, spec=penstock.Spec(np.uint8, (None,))).distribute(service))
    assert str(raised.value).count("epoch 0 lane") == 1
