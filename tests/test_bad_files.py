"""Files that are not as the dataset says get an error that names the file and the place in it, inline and from a worker."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from conftest import StartCluster
from penstock import Dataset, Fixed, Ragged, Var
from penstock.tfrecord import write_tfrecord
from support.data import write_records
from support.reading import read


@pytest.fixture(params=["inline", "remote"])
def service(request: pytest.FixtureRequest, start_cluster: StartCluster) -> str:
    """Errors of the data are the same in this process and from a worker."""
    return "inline" if request.param == "inline" else start_cluster(workers=1).address


def _examples(path: Path, **features: Any) -> Dataset:
    return Dataset.from_tfrecord(path).parse_example(features or {"id": "int64"})


def test_a_missing_file_is_named(service: str, tmp_path: Path) -> None:
    with pytest.raises(penstock.Error, match="missing.tfrecord"):
        read(_examples(tmp_path / "missing.tfrecord"), service)


def test_a_pattern_without_files_is_named(service: str, tmp_path: Path) -> None:
    with pytest.raises(penstock.Error, match=r"none-\*"):
        read(_examples(tmp_path / "none-*"), service)


def test_a_truncated_gzip_file_is_named(service: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord.gz"
    write_tfrecord(path, ({"id": i} for i in range(1000)), "gzip")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(penstock.DataError, match="a.tfrecord.gz") as caught:
        read(_examples(path), service)
    assert caught.value.file == str(path)


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_crc_mismatch_names_file_offset_and_record(compression: Any, service: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    write_tfrecord(path, ({"id": i} for i in range(10)))
    content = bytearray(path.read_bytes())
    size = len(content) // 10
    content[3 * size + 14] ^= 1  # inside the data of record 3
    path.write_bytes(gzip.compress(bytes(content)) if compression == "gzip" else bytes(content))
    with pytest.raises(penstock.DataError, match="a.tfrecord") as caught:
        read(_examples(path), service)
    assert (caught.value.file, caught.value.offset, caught.value.record) == (str(path), 3 * size, 3)


def test_a_file_that_is_no_tfrecord_is_named(service: str, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("hello\n" * 100)
    with pytest.raises(penstock.DataError, match="text.txt"):
        read(_examples(path), service)


def test_a_record_that_is_no_example_is_named(service: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    writer = penstock._core.TfRecordWriter.create(str(path), "none")
    writer.write(b"\xff" * 20)
    writer.close()
    with pytest.raises(penstock.DataError, match="a.tfrecord") as caught:
        read(_examples(path), service)
    assert caught.value.record == 0


def test_a_missing_feature_is_named(service: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    write_tfrecord(path, [{"id": 1}])
    with pytest.raises(penstock.DataError, match="label") as caught:
        read(_examples(path, label="int64"), service)
    assert caught.value.file == str(path)


def test_a_wrong_dtype_is_named(service: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    write_tfrecord(path, [{"id": "one"}])
    with pytest.raises(penstock.DataError, match=r"id.*int64|int64.*id"):
        read(_examples(path), service)


def test_a_wrong_number_of_values_is_named(service: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    write_tfrecord(path, [{"id": [1, 2, 3]}])
    with pytest.raises(penstock.DataError, match=r"id.*3|3.*id"):
        read(_examples(path, id=Fixed("int64", (2,))), service)


def test_a_feature_s_default_and_variable_length_are_kept(service: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    write_tfrecord(path, [{"id": 1, "tags": ["a", "b"]}, {"id": 2, "score": [0.5, 1.5]}])
    dataset = _examples(path, id="int64", tags=Var(bytes), score=Fixed(np.float32, (2,), default=-1.0)).batch(2)
    (batch,) = read(dataset, service)
    assert batch["id"].tolist() == [1, 2]
    assert isinstance(batch["tags"], Ragged)
    assert batch["tags"].to_list() == [[b"a", b"b"], []]
    assert batch["score"].tolist() == [[-1.0, -1.0], [0.5, 1.5]]


@pytest.mark.parametrize("feature", ["int32", "float64", np.uint8])
def test_a_dtype_that_examples_do_not_hold_is_refused_at_once(feature: Any, tmp_path: Path) -> None:
    with pytest.raises(penstock.Invalid, match="'id'"):
        _examples(tmp_path / "a", id=feature)


def test_a_file_changed_after_the_job_started_is_named(start_cluster: StartCluster, tmp_path: Path) -> None:
    records = write_records(tmp_path, files=8, rows=2000, payload=4000)
    cluster = start_cluster(workers=1)
    with records.dataset().batch(8).distribute(cluster.address, memory="4MiB") as reader:
        batches = iter(reader)
        next(batches)
        for path in records.files:
            with open(path, "ab") as file:
                file.write(b"more")
        with pytest.raises(penstock.DataError, match="part-00") as caught:
            list(batches)
    assert "changed" in str(caught.value)


def test_a_row_larger_than_the_budget_is_an_error_that_names_size_and_flag(start_cluster: StartCluster, tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    write_tfrecord(path, [{"x": bytes(48 << 20)}])
    cluster = start_cluster(workers=1, memory="32MiB")
    with pytest.raises(penstock.TooLarge, match="--memory"):
        read(_examples(path, x="string"), cluster.address)
