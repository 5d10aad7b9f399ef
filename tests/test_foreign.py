"""torch datasets and tf.data graphs on workers."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from conftest import StartCluster
from penstock import Dataset
from support.cluster import TestCluster

CODE = ["--allow-code", "--cpus", "1"]

torch = pytest.importorskip("torch")


@pytest.fixture
def cluster(start_cluster: StartCluster) -> TestCluster:
    return start_cluster(1, worker_flags=CODE)


# ---- torch


class Images(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    def __len__(self) -> int:
        return 120

    def __getitem__(self, i: int) -> Any:
        return torch.full((2, 3), float(i)), i, torch.rand(())


class Numbers(torch.utils.data.IterableDataset):  # type: ignore[misc, name-defined]
    def __iter__(self) -> Iterator[dict[str, int]]:
        info = torch.utils.data.get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        for i in range(worker, 50, workers):
            yield {"i": i, "worker": worker}


def test_a_map_style_dataset_is_permuted_as_a_whole(cluster: TestCluster) -> None:
    dataset = Dataset.from_torch(Images()).shuffle(2).batch(10)
    remote = list(dataset.distribute(cluster.address, seed=5))
    numbers = [int(i) for _, numbers, _ in remote for i in numbers]
    assert sorted(numbers) == list(range(120))
    assert max(abs(i - n) for i, n in enumerate(numbers)) > 50, "a buffer of 2 would not have moved rows far"
    assert all((image == i).all() for images, ids, _ in remote for image, i in zip(images, ids))
    drawn = {int(i): float(r) for _, ids, randoms in remote for i, r in zip(ids, randoms)}
    here = {int(i): float(r) for _, ids, randoms in dataset.distribute("inline", seed=5) for i, r in zip(ids, randoms)}
    assert drawn == here, "random numbers are a function of seed and row"
    assert dataset.cardinality() == 12


def test_lanes_of_an_iterable_dataset_are_its_workers(cluster: TestCluster) -> None:
    rows = list(Dataset.from_torch(Numbers(), lanes=4).distribute(cluster.address))
    assert sorted(int(row["i"]) for row in rows) == list(range(50))
    assert {int(row["worker"]) for row in rows} == {0, 1, 2, 3}
    assert all(row["i"] % 4 == row["worker"] for row in rows)


# ---- tf.data


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, tf: Any) -> str:
    directory = tmp_path_factory.mktemp("tf")
    for i in range(6):
        with tf.io.TFRecordWriter(str(directory / f"{i}.tfrecord")) as writer:
            for j in range(20):
                writer.write(f"{i}-{j}".encode())
    return str(directory / "*.tfrecord")


def _pipeline(tf: Any, files: str) -> Any:
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["0", "1"], tf.constant([10, 11], tf.int64)), -1)
    names = tf.data.Dataset.list_files(files)
    records = names.interleave(tf.data.TFRecordDataset, num_parallel_calls=2, deterministic=False).shuffle(10)
    return records.map(lambda x: {"name": x, "known": table.lookup(tf.strings.substr(x, 0, 1))}).batch(4)


def test_a_graph_is_cut_by_files_and_reads_the_same_each_time(tf: Any, files: str, cluster: TestCluster, caplog: pytest.LogCaptureFixture) -> None:
    dataset = Dataset.from_tf(_pipeline(tf, files))
    assert "cut into 6 lanes" in dataset.explain()
    said = caplog.text
    assert "deterministic=False became True" in said
    assert said.count("no seed was given") == 2

    def read(where: Any, epochs: int = 1, seed: int = 1) -> list[list[bytes]]:
        reader = dataset.distribute(where, seed=seed, epochs=epochs)
        return [sorted(tuple(batch["name"].tolist()) for batch in reader) for _ in range(epochs)]

    first, second = read("inline", epochs=2)
    remote = read(cluster.address, epochs=2)
    assert [first, second] == remote
    assert first != second, "another epoch is shuffled anew"
    assert read("inline", seed=2)[0] != first
    everything = sorted(f"{i}-{j}".encode() for i in range(6) for j in range(20))
    assert sorted(name for batch in first for name in batch) == everything
    known = {int(k) for batch in dataset for k, name in zip(batch["known"], batch["name"]) if name.startswith(b"1-")}
    assert known == {11}


def test_elements_of_every_kind_come_back_as_they_were(tf: Any, cluster: TestCluster) -> None:
    from penstock._executor import tf_elements

    def element(i: Any) -> Any:
        small = tf.cast(i, tf.int32)
        return {
            "ragged": tf.RaggedTensor.from_row_lengths(tf.range(small + 2), [small, 2]),
            "sparse": tf.sparse.from_dense([[0, i], [i, 0]]),
            "optional": tf.experimental.Optional.from_value(i) if True else None,
            "nested": (tf.strings.as_string(i), {"half": tf.cast(i, tf.bfloat16), "square": tf.fill([small, small], i)}),
        }

    data = tf.data.Dataset.range(6).map(element)
    rows = list(Dataset.from_tf(data).distribute(cluster.address))
    assert len(rows) == 6
    for row, wanted in zip(rows, data):
        got = tf_elements.to_element(row, data.element_spec)
        assert got["ragged"].to_list() == wanted["ragged"].to_list()
        assert np.array_equal(tf.sparse.to_dense(got["sparse"]), tf.sparse.to_dense(wanted["sparse"]))
        assert int(got["optional"].get_value()) == int(wanted["optional"].get_value())
        assert got["nested"][0] == wanted["nested"][0]
        assert got["nested"][1]["half"] == wanted["nested"][1]["half"]
        assert np.array_equal(got["nested"][1]["square"], wanted["nested"][1]["square"])


def test_components_that_are_none_stay_none(tf: Any, cluster: TestCluster) -> None:
    from penstock import torch as penstock_torch

    dataset = Dataset.from_tf(tf.data.Dataset.range(4).map(lambda x: (x, None, {"a": 2 * x, "b": None})))
    wanted = [(i, None, {"a": 2 * i, "b": None}) for i in range(4)]
    assert list(dataset.distribute(cluster.address)) == wanted
    loader = penstock_torch.DataLoader(dataset, 4, service=cluster.address, collate_fn=list)
    assert next(iter(loader)) == wanted


def test_generators_and_tensorflow_versions(tf: Any, cluster: TestCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = tf.data.Dataset.from_generator(lambda: iter(range(10)), output_signature=tf.TensorSpec((), tf.int32))
    assert [int(x) for x in Dataset.from_tf(numbers).distribute(cluster.address)] == list(range(10))
    monkeypatch.setattr(tf, "__version__", "2.5.0")
    with pytest.raises(penstock.DatasetMismatch, match="tensorflow 2.5.0"):
        list(Dataset.from_tf(tf.data.Dataset.range(3)).distribute(cluster.address))


def test_python_functions_of_a_graph_travel_with_it(tf: Any, cluster: TestCluster) -> None:
    def triple(x: Any) -> Any:
        return x * 3

    def both(x: Any) -> Any:
        eager, of_arrays = tf.py_function(triple, [x], tf.int64), tf.numpy_function(triple, [x], tf.int64)
        return tf.ensure_shape(eager, ()), tf.ensure_shape(of_arrays, ())

    dataset = tf.data.Dataset.range(5).map(both)
    wanted = [(3 * i, 3 * i) for i in range(5)]
    for service in ("inline", cluster.address):
        assert [(int(a), int(b)) for a, b in Dataset.from_tf(dataset).distribute(service)] == wanted


LIBRARY = """
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
using namespace tensorflow;
REGISTER_OP("PenstockTriple").Input("x: int64").Output("y: int64").SetShapeFn([](shape_inference::InferenceContext* c) {
  c->set_output(0, c->input(0));
  return absl::OkStatus();
});
class Triple : public OpKernel {
 public:
  explicit Triple(OpKernelConstruction* c) : OpKernel(c) {}
  void Compute(OpKernelContext* c) override {
    Tensor* out = nullptr;
    OP_REQUIRES_OK(c, c->allocate_output(0, c->input(0).shape(), &out));
    for (int64_t i = 0; i < out->NumElements(); ++i) out->flat<int64_t>()(i) = 3 * c->input(0).flat<int64_t>()(i);
  }
};
REGISTER_KERNEL_BUILDER(Name("PenstockTriple").Device(DEVICE_CPU), Triple);
"""

PROGRAM = """
import sys, tensorflow as tf
from penstock import Dataset
triple = tf.load_op_library(sys.argv[1]).penstock_triple
print([int(x) for x in Dataset.from_tf(tf.data.Dataset.range(5).map(triple)).distribute(sys.argv[2])])
"""


@pytest.mark.timeout(300)
def test_op_libraries_come_along(tf: Any, cluster: TestCluster, tmp_path: Path) -> None:
    source, library = tmp_path / "triple.cc", tmp_path / "triple.so"
    source.write_text(LIBRARY)
    flags = [*tf.sysconfig.get_compile_flags(), *tf.sysconfig.get_link_flags()]
    subprocess.run(["g++", "-shared", "-fPIC", "-O0", str(source), "-o", str(library), *flags], check=True)
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(library), cluster.address], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "[0, 3, 6, 9, 12]", done.stderr[-2000:]
