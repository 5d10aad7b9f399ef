"""Elements of tf.data come back in the classes, with the names and in the order that the program gave them."""

import collections
from typing import Any

import pytest

import penstock
from conftest import StartCluster
from penstock import Dataset, _tf_graph, dds
from penstock._executor import tf_elements

pytestmark = [pytest.mark.xdist_group("tensorflow"), pytest.mark.timeout(300)]

Pair = collections.namedtuple("Pair", "second first")
NAMES = [f"name{(7 * i) % 12}" for i in range(12)]


@pytest.fixture
def address(start_cluster: StartCluster, monkeypatch: pytest.MonkeyPatch) -> str:
    address = start_cluster(1, worker_flags=["--allow-code", "--cpus", "1"]).address
    monkeypatch.setenv("PENSTOCK_SERVICE", address)
    return address


def _dense(i: Any) -> Any:
    ordered = collections.OrderedDict([("z", i + 1), ("a", i + 2)])
    return {**{name: i + n for n, name in enumerate(NAMES)}, "pair": Pair(i + 20, (i + 21,)), "ordered": ordered, "a/b": i + 30, "a": {"b": i + 31}}


def _with_ragged(tf: Any) -> Any:
    return lambda i: {**_dense(i), "ragged": tf.RaggedTensor.from_row_lengths(tf.range(i), [i // 2, i - i // 2])}


def _check(got: Any, wanted: Any) -> None:
    assert type(got) is type(wanted)
    if isinstance(wanted, dict):
        assert list(got) == list(wanted)
        for name in wanted:
            _check(got[name], wanted[name])
    elif isinstance(wanted, tuple):
        for child, wanted_child in zip(got, wanted, strict=True):
            _check(child, wanted_child)
    else:
        assert str(got) == str(wanted)


@pytest.mark.parametrize("kind", ["dense", "ragged"])
@pytest.mark.parametrize("by", ["op", "python"])
def test_names_keep_their_order_and_tuples_their_class(
    tf: Any, service: Any, address: str, kind: str, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by == "python":
        monkeypatch.setenv("PENSTOCK_TF_OP", "0")
    dataset = tf.data.Dataset.range(4).map(_dense if kind == "dense" else _with_ragged(tf))
    read = dataset.apply(service.distribute(service.ShardingPolicy.DYNAMIC, address))
    assert read.element_spec == dataset.element_spec
    elements = list(read)
    assert len(elements) == 4
    for got, wanted in zip(elements, dataset):
        _check(got, wanted)


def test_the_four_functions_keep_them_too(tf: Any, address: str) -> None:
    dataset = tf.data.Dataset.range(4).map(_dense)
    for got, wanted in zip(list(dds.maybe_distribute_dataset(dataset)), dataset, strict=True):
        _check(got, wanted)


def test_the_order_of_names_travels_with_the_plan(tf: Any) -> None:
    """TensorFlow's own encoding has them in an order that each process draws."""
    optional = tf.data.Dataset.range(3).map(lambda i: {"inner": tf.experimental.Optional.from_value(_dense(i)), **_dense(i)})
    decoded = tf_elements.decode(_tf_graph.attrs_of(optional, None))
    assert list(decoded) == ["inner", *_dense(0)]
    assert list(decoded["inner"]._element_spec) == list(_dense(0))


def test_a_spec_whose_names_have_another_order_reads_the_same_columns(tf: Any, service: Any, address: str) -> None:
    dataset = tf.data.Dataset.range(4).map(lambda i: {"b": i, "a": i + 10})
    dataset_id = service.register_dataset(address, dataset)
    turned = {name: dataset.element_spec[name] for name in ("a", "b")}
    read = service.from_dataset_id("distributed_epoch", address, dataset_id, element_spec=turned)
    assert [[(name, int(value)) for name, value in element.items()] for element in read] == [[("a", i + 10), ("b", i)] for i in range(4)]


def test_every_walk_over_a_spec_meets_the_same_columns(tf: Any) -> None:
    spec = {
        "z": tf.SparseTensorSpec([2, 3], tf.int64),
        "a": (tf.RaggedTensorSpec([None, None], tf.int32), tf.OptionalSpec({"y": tf.TensorSpec([], tf.string), "x": tf.TensorSpec([2], tf.int64)})),
    }
    rows = tf_elements.row_spec(spec)
    leaves = list(tf_elements.leaves(spec))
    assert [leaf.path for leaf in leaves] == [column.name for column in rows.columns]
    assert [leaf.path for leaf in leaves] == ["z/indices", "z/values", "z/dense_shape", "a/0", "a/1/has_value", "a/1/value/y", "a/1/value/x"]
    turned = {"a": spec["a"], "z": spec["z"]}
    by_path = {leaf.path: leaf.column for leaf in leaves}
    assert {leaf.path: leaf.column for leaf in tf_elements.leaves(turned, rows.structure)} == by_path
    assert len(list(tf_elements.part_specs(spec))) == len(leaves) + 1, "a ragged tensor has its row splits, too"


def test_dense_specs_are_those_of_plain_tensors(tf: Any) -> None:
    tensor = tf.TensorSpec([None], tf.int64)
    assert tf_elements.is_dense({"a": (tensor, Pair(tensor, tensor))})
    for other in (tf.SparseTensorSpec([2], tf.int64), tf.RaggedTensorSpec([2, None], tf.int64), tf.OptionalSpec(tensor)):
        assert not tf_elements.is_dense({"a": (tensor, other)})
    assert tf_elements.components({"b": tensor, "a": (tensor, tensor)}) == [2, 0, 1], "an iterator has them by sorted names"


def test_names_that_are_no_strings_are_refused(tf: Any) -> None:
    with pytest.raises(penstock.Invalid, match=r"names in a dict must be strings, and these are \[10, 9\]"):
        Dataset.from_tf(tf.data.Dataset.range(3).map(lambda i: {10: i, 9: i})).fingerprint()
