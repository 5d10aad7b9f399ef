"""What is said of a tf.data graph before it runs: whether it gives the same rows, and the same values, each time."""

from collections.abc import Callable
from typing import Any

import pytest

from conftest import StartCluster
from penstock import Dataset

pytestmark = [pytest.mark.xdist_group("tensorflow"), pytest.mark.timeout(300)]


def _purity(dataset: Any) -> str:
    return str(Dataset.from_tf(dataset)._plan.nodes()[-1][2]["purity"])


def _some(tf: Any) -> Any:
    return tf.random.uniform([]) > 0.5


def _drawing(generator: Any) -> Any:
    return lambda i: generator.uniform([])


def _adding(variable: Any) -> Any:
    return lambda i: variable + 1.0


PURE: dict[str, Callable[[Any, Any], Any]] = {
    "stateless random numbers": lambda tf, rows: rows.map(lambda i: tf.random.stateless_uniform([], [i, i])),
    "seeded shuffles": lambda tf, rows: rows.shuffle(10).filter(lambda i: i > 3).repeat(2),
    "checks": lambda tf, rows: rows.map(lambda i: tf.debugging.check_numerics(tf.cast(i, tf.float32), "it is none")),
    "a table": lambda tf, rows: rows.map(_table(tf).lookup).filter(lambda i: i > 0),
    "conditions": lambda tf, rows: rows.filter(lambda i: tf.cond(i > 3, lambda: True, lambda: False)),
    "datasets of rows": lambda tf, rows: rows.flat_map(tf.data.Dataset.range),
}

PURE_IDENTITY: dict[str, Callable[[Any, Any], Any]] = {
    "random values": lambda tf, rows: rows.map(lambda i: tf.random.uniform([])),
    "candidates": lambda tf, rows: rows.map(lambda i: tf.random.uniform_candidate_sampler([[0]], 1, 1, True, 10)[0]),
    "the time": lambda tf, rows: rows.map(lambda i: tf.timestamp()),
    "a generator of random numbers": lambda tf, rows: rows.map(_drawing(tf.random.Generator.from_seed(1))),
    "a variable": lambda tf, rows: rows.map(_adding(tf.Variable(3.0))),
    "random values in each file": lambda tf, rows: rows.interleave(lambda i: tf.data.Dataset.range(3).map(lambda j: tf.random.uniform([]))),
    "a filter by what is not random": lambda tf, rows: rows.map(lambda i: (i, tf.random.uniform([]))).filter(lambda i, drawn: i > 3),
    "a function of Python": lambda tf, rows: rows.map(lambda i: tf.ensure_shape(tf.py_function(lambda x: x, [i], tf.int64), [])),
}

IMPURE: dict[str, Callable[[Any, Any], Any]] = {
    "a random filter": lambda tf, rows: rows.filter(lambda i: _some(tf)),
    "in a tf.function": lambda tf, rows: rows.filter(tf.function(lambda i: _some(tf))),
    "in a condition": lambda tf, rows: rows.filter(lambda i: tf.cond(i > 3, lambda: _some(tf), lambda: True)),
    "by the time": lambda tf, rows: rows.filter(lambda i: tf.timestamp() > 0),
    "by a random value": lambda tf, rows: rows.map(lambda i: (i, tf.random.uniform([]))).filter(lambda i, drawn: drawn > 0.5),
    "batched before": lambda tf, rows: rows.map(lambda i: tf.random.uniform([])).batch(2).shuffle(3).filter(lambda drawn: drawn[0] > 0.5),
    "as many rows as are drawn": lambda tf, rows: rows.flat_map(lambda i: tf.data.Dataset.range(tf.random.uniform([], 0, 3, tf.int64))),
    "as many as were drawn": lambda tf, rows: rows.map(lambda i: tf.random.uniform([], 0, 3, tf.int64)).flat_map(tf.data.Dataset.range),
    "within each": lambda tf, rows: rows.flat_map(lambda i: tf.data.Dataset.range(i).filter(lambda j: _some(tf))),
    "until it happens": lambda tf, rows: rows.take_while(lambda i: _some(tf)),
    "of a random mask": lambda tf, rows: rows.batch(4).map(lambda i: tf.boolean_mask(i, tf.random.uniform(tf.shape(i)) > 0.5)).unbatch(),
    "resampled": lambda tf, rows: rows.rejection_resample(lambda i: tf.cast(i % 2, tf.int32), [0.5, 0.5]),
}


def _table(tf: Any) -> Any:
    values = tf.range(10, dtype=tf.int64)
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(values, values * 2), -1)


@pytest.mark.parametrize("name", PURE)
def test_a_graph_whose_ops_are_functions_of_their_inputs_is_pure(tf: Any, name: str) -> None:
    assert _purity(PURE[name](tf, tf.data.Dataset.range(10))) == "pure"


@pytest.mark.parametrize("name", PURE_IDENTITY)
def test_where_values_may_differ_rows_are_the_same(tf: Any, name: str) -> None:
    assert _purity(PURE_IDENTITY[name](tf, tf.data.Dataset.range(10))) == "pure identity"


@pytest.mark.parametrize("name", IMPURE)
def test_where_what_may_differ_decides_which_rows_there_are_the_graph_is_impure(tf: Any, name: str) -> None:
    assert _purity(IMPURE[name](tf, tf.data.Dataset.range(10))) == "impure"


def test_impure_graphs_are_read_all_the_same(tf: Any, service: Any, start_cluster: StartCluster) -> None:
    """In a mode that does not need the same rows each time."""
    address = start_cluster(1, worker_flags=["--allow-code", "--cpus", "1"]).address
    dataset = tf.data.Dataset.range(100).map(lambda i: (i, tf.random.uniform([]))).filter(lambda i, drawn: drawn < 2.0)
    assert _purity(dataset) == "impure"
    read = dataset.apply(service.distribute(service.ShardingPolicy.DYNAMIC, address))
    assert [int(i) for i, _ in read] == list(range(100))
