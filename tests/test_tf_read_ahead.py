"""What a tf.data graph makes before it is asked for."""

import time

import numpy as np
import pytest

pytestmark = [pytest.mark.xdist_group("tensorflow"), pytest.mark.timeout(300)]

MIB = 1 << 20


def test_a_graph_that_is_asked_in_bursts_holds_little_that_nobody_has_asked_for():
    import tensorflow as tf
    from tensorflow.python.ops import gen_dataset_ops

    from penstock._executor.tf_source import import_graph

    made: list[int] = []

    def element(i: int) -> np.ndarray:
        made.append(i)
        return np.zeros(MIB, np.uint8)

    def mapped(i):
        return tf.ensure_shape(tf.numpy_function(element, [i], tf.uint8), [MIB])

    dataset = tf.data.Dataset.range(10_000).map(mapped)
    graph = gen_dataset_ops.dataset_to_graph_v2(dataset._variant_tensor, external_state_policy=1).numpy()
    rows = iter(import_graph(graph, dataset.element_spec))
    ahead = []
    for burst in range(1, 9):
        for _ in range(60):
            next(rows)
        ahead.append(_at_rest(made) - 60 * burst)
    assert max(ahead) <= 24, f"elements of 1 MiB, after each burst: {ahead}"


def _at_rest(made: list[int]) -> int:
    before = -1
    while len(made) != before:
        before = len(made)
        time.sleep(0.05)
    return before
