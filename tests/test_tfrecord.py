"""TFRecords of TensorFlow and of penstock are the same files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from conftest import StartCluster
from penstock import Dataset, Fixed, Var
from penstock.tfrecord import write_tfrecord

ROWS = [{"id": i - 3, "x": [i / 2, -1.5], "tags": ["a", "bb"][: i % 3], "raw": b"\x00\xff" * i} for i in range(10)]

TENSORFLOW_READS = """
import sys, tensorflow as tf
for record in tf.data.TFRecordDataset(sys.argv[1], compression_type=sys.argv[2]):
    feature = tf.train.Example.FromString(record.numpy()).features.feature
    strings = list(feature["tags"].bytes_list.value), feature["raw"].bytes_list.value[0]
    print(feature["id"].int64_list.value[0], list(feature["x"].float_list.value), *strings)
"""

TENSORFLOW_WRITES = """
import sys, tensorflow as tf
options = tf.io.TFRecordOptions(compression_type=sys.argv[2])
with tf.io.TFRecordWriter(sys.argv[1], options) as writer:
    for i in range(1000):
        feature = {"id": tf.train.Feature(int64_list=tf.train.Int64List(value=[-i])),
                   "x": tf.train.Feature(float_list=tf.train.FloatList(value=[i, i + 0.5])),
                   "tags": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"t"] * (i % 3)))}
        writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
"""

COMPRESSIONS = [("none", ""), ("gzip", "GZIP"), ("zlib", "ZLIB")]


def _tensorflow(program: str, *arguments: str) -> str:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize(("ours", "theirs"), COMPRESSIONS)
def test_tensorflow_reads_what_penstock_writes(ours: str, theirs: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    assert write_tfrecord(path, ROWS, ours) == len(ROWS)  # type: ignore[arg-type]
    expected = [f"{row['id']} {row['x']} {[tag.encode() for tag in row['tags']]} {row['raw']!r}" for row in ROWS]
    assert _tensorflow(TENSORFLOW_READS, str(path), theirs).splitlines() == expected


def test_the_largest_numbers_are_written_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    write_tfrecord(path, [{"i": [2**63 - 1, -(2**63)], "f": [3.4e38, float("inf")]}])
    (row,) = Dataset.from_tfrecord(path).parse_example({"i": Fixed("int64", (2,)), "f": Fixed("float32", (2,))})
    assert (row["i"].tolist(), row["f"].tolist()) == ([2**63 - 1, -(2**63)], [pytest.approx(3.4e38), float("inf")])


def test_a_file_in_a_directory_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(penstock.NotFound, match="missing/a.tfrecord: No such file or directory"):
        write_tfrecord(tmp_path / "missing" / "a.tfrecord", [])


@pytest.mark.parametrize(("ours", "theirs"), COMPRESSIONS)
def test_penstock_reads_what_tensorflow_writes(ours: str, theirs: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    _tensorflow(TENSORFLOW_WRITES, str(path), theirs)
    features = {"id": "int64", "x": Fixed("float32", (2,)), "tags": Var("string")}
    for compression in ("auto", ours):
        rows = list(Dataset.from_tfrecord(path, compression=compression).parse_example(features))
        assert [int(row["id"]) for row in rows] == [-i for i in range(1000)]
        assert rows[7]["x"].tolist() == [7.0, 7.5]
        assert [len(row["tags"]) for row in rows[:4]] == [0, 1, 2, 0]


def test_records_without_a_parser_are_strings(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    write_tfrecord(path, [{"id": 1}])
    (record,) = Dataset.from_tfrecord(path)
    assert b"id" in record


def _listing_of(directory: Path) -> Path:
    """As a user would make it."""
    listing = directory / "files.tsv"
    with listing.open("w") as out:
        subprocess.run(["find", directory, "-name", "*.gz", "-printf", r"%p\t%s\t%T@\n"], stdout=out, check=True)
    return listing


def test_a_listing_names_the_files(tmp_path: Path, start_cluster: StartCluster) -> None:
    for file in range(5):
        write_tfrecord(tmp_path / f"{file}.gz", ({"id": 100 * file + i} for i in range(100)), "gzip")
    dataset = Dataset.from_tfrecord(listing=_listing_of(tmp_path), compression="gzip").parse_example({"id": "int64"}).batch(32)
    for reader in (dataset, dataset.distribute(start_cluster(workers=2).address)):
        assert sorted(int(i) for batch in reader for i in batch["id"]) == list(range(500))


@pytest.mark.parametrize("workers", [0, 1, 2], ids=["inline", "one worker", "two workers"])
def test_a_file_that_a_listing_names_and_nobody_has_is_named(tmp_path: Path, start_cluster: StartCluster, workers: int) -> None:
    for name in ("a.gz", "b.gz"):
        write_tfrecord(tmp_path / name, [{"id": 1}], "gzip")
    listing = _listing_of(tmp_path)
    (tmp_path / "b.gz").unlink()
    service = start_cluster(workers=workers).address if workers else "inline"
    with (
        Dataset.from_tfrecord(listing=listing, compression="gzip").distribute(service, timeout=20) as reader,
        pytest.raises(penstock.NotFound, match=r"b\.gz"),
    ):
        list(reader)


def test_a_file_that_is_not_as_its_listing_says_is_refused_by_name(tmp_path: Path) -> None:
    write_tfrecord(tmp_path / "a.gz", [{"id": 1}], "gzip")
    listing = _listing_of(tmp_path)
    write_tfrecord(tmp_path / "a.gz", [{"id": 1}, {"id": 2}], "gzip")
    with pytest.raises(penstock.DataError, match="a.gz changed after the job started"):
        list(Dataset.from_tfrecord(listing=listing, compression="gzip"))


def test_sizes_that_no_file_has_end_no_worker(tmp_path: Path, start_cluster: StartCluster) -> None:
    listing = tmp_path / "files.tsv"
    cluster = start_cluster(workers=1)
    for size, said in ((1 << 62, "more than any file has"), (1 << 50, "is its size right?")):
        listing.write_text("".join(f"/data/{i}\t{size}\t1\n" for i in range(100)))
        with pytest.raises(penstock.DataError, match=said):
            Dataset.from_tfrecord(listing=listing, compression="none").batch(2).distribute(cluster.address)
    assert cluster.workers[0].poll() is None


def test_a_listing_needs_to_know_the_compression_and_stands_alone(tmp_path: Path) -> None:
    with pytest.raises(penstock.Invalid, match='say compression="none", "gzip" or "zlib"'):
        Dataset.from_tfrecord(listing=tmp_path / "files.tsv")
    for files, listing in ((None, None), ("a", "b")):
        with pytest.raises(penstock.Invalid, match="either files or a listing"):
            Dataset.from_tfrecord(files, listing=listing)


def test_a_batch_draws_from_many_small_files(tmp_path: Path) -> None:
    for file in range(32):
        write_tfrecord(tmp_path / f"{file}.gz", ({"file": file} for _ in range(100)), "gzip")
    dataset = Dataset.from_tfrecord(tmp_path / "*.gz").parse_example({"file": "int64"}).shuffle(1000).batch(64)
    files = [len(set(batch["file"].tolist())) for batch in dataset]
    assert sum(files) / len(files) > 8


def test_a_batch_draws_from_all_of_four_large_files(tmp_path: Path) -> None:
    noise = os.urandom(1 << 20)
    for file in range(4):
        write_tfrecord(tmp_path / f"{file}.gz", ({"file": file, "x": noise} for _ in range(70)), "gzip")
    dataset = Dataset.from_tfrecord(tmp_path / "*.gz").parse_example({"file": "int64"}).shuffle(64).batch(16)
    files = [len(set(batch["file"].tolist())) for batch in dataset]
    assert sum(files[:-1]) / len(files[:-1]) >= 3
