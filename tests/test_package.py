"""The package by itself: cheap to import, typed, errors that travel."""

import contextlib
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from penstock import errors


def _python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_penstock_imports_neither_numpy_nor_a_framework() -> None:
    loaded = _python("import sys, penstock; print([m for m in ('numpy', 'torch', 'tensorflow', 'tqdm') if m in sys.modules])")
    assert loaded == "[]"


def test_importing_penstock_takes_less_than_100_ms_of_processor_time() -> None:
    code = "import time; t = time.process_time(); import penstock; print((time.process_time() - t) * 1000)"
    assert min(float(_python(code)) for _ in range(5)) < 100


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(penstock.__file__).parent / "py.typed").exists()


@pytest.mark.parametrize("code", sorted(errors._BY_CODE))
def test_each_code_has_an_error_that_survives_pickle(code: str) -> None:
    error = errors.from_status(code, "what happened", {"file": "a", "offset": "12", "record": "3"})
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, penstock.Error)
    assert (type(again), str(again), again.details) == (type(error), "what happened", error.details)


def test_a_data_error_names_file_offset_and_record() -> None:
    error = errors.from_status("Data", "damaged", {"file": "/a", "offset": "12", "record": "3"})
    assert isinstance(error, penstock.DataError)
    assert (error.file, error.offset, error.record) == ("/a", 12, 3)


def test_ragged_rows_are_views_and_nest() -> None:
    values = np.arange(6)
    column = penstock.Ragged(values, (np.array([0, 2, 2, 3]), np.array([0, 1, 3, 6])), (None, None))
    assert len(column) == 3
    assert column.to_list() == [[[0], [1, 2]], [], [[3, 4, 5]]]
    inner = column[0]
    assert isinstance(inner, penstock.Ragged)
    assert inner.to_list() == [[0], [1, 2]]
    assert np.shares_memory(inner[1], values)
    assert column[-1].to_list() == [[3, 4, 5]]


def test_ragged_rows_keep_fixed_dimensions_around_the_ragged_one() -> None:
    values = np.arange(12).reshape(6, 2)
    column = penstock.Ragged(values, (np.array([0, 1, 3, 3, 6]),), (2, None, 2))
    assert len(column) == 2
    assert column[1].to_list() == [[], [[6, 7], [8, 9], [10, 11]]]
    with pytest.raises(IndexError):
        column[2]


@pytest.mark.parametrize(("size", "expected"), [(1, 1), ("512", 512), ("256MiB", 256 << 20), ("1.5 GiB", 3 << 29), ("2kb", 2000)])
def test_sizes_are_read_with_their_units(size: "int | str", expected: int) -> None:
    from penstock._check import size as to_bytes

    assert to_bytes("memory", size) == expected


def test_a_wrong_size_says_how_to_write_one() -> None:
    with pytest.raises(penstock.Invalid, match="'256MiB'"):
        penstock.Dataset.from_range(1).distribute("inline", memory="much")


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("seed", -1),
        ("seed", 1.5),
        ("seed", 2**64),
        ("epochs", 0),
        ("epochs", 2**33),
        ("epochs", "two"),
        ("memory", -5),
        ("memory", 0),
        ("memory", 1.5e6),
        ("places", -1),
        ("attempt", -1),
        ("timeout", float("nan")),
        ("timeout", -1),
        ("timeout", "soon"),
    ],
)
def test_an_argument_that_cannot_be_is_refused_by_its_name(argument: str, value: Any) -> None:
    with pytest.raises(penstock.Invalid, match=f"{argument}="):
        penstock.Dataset.from_range(1).distribute("inline", **{argument: value})


@pytest.mark.parametrize(("index", "consumers", "named"), [(-1, 2, "consumer_index=-1"), (3, 2, "consumer_index=3"), (0, 0, "num_consumers=0")])
def test_a_consumer_is_one_of_those_declared(index: int, consumers: int, named: str) -> None:
    with pytest.raises(penstock.Invalid, match=named):
        penstock.Dataset.from_range(1).distribute("inline", consumer_index=index, num_consumers=consumers)


def test_an_argument_that_is_not_there_is_a_type_error_that_names_those_that_are() -> None:
    with pytest.raises(TypeError, match=r"sede.*seed"):
        penstock.Dataset.from_range(1).distribute("inline", sede=1)  # type: ignore[call-overload]


def test_numbers_of_numpy_and_an_endless_timeout_are_arguments() -> None:
    options: dict[str, Any] = {"seed": np.uint64(2**64 - 1), "epochs": np.int32(1), "memory": np.int64(1 << 20), "timeout": float("inf")}
    assert list(penstock.Dataset.from_range(3).distribute("inline", **options)) == [0, 1, 2]


def test_threads_that_ask_for_one_dataset_make_one_plan() -> None:
    made, plan = [], penstock.Dataset.from_range(3)._plan
    both_make = threading.Barrier(2)

    def make() -> Any:
        made.append(threading.get_ident())
        with contextlib.suppress(threading.BrokenBarrierError):
            both_make.wait(0.5)  # for the other, who must not come
        return plan

    dataset = penstock.Dataset(make)
    threads = [threading.Thread(target=dataset.fingerprint) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
