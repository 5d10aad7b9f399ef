"""A tf.data graph is divided among lanes by its files where that gives the rows that it gives by itself, and stays whole where not."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from conftest import StartCluster
from penstock import Dataset, dds

pytestmark = [pytest.mark.xdist_group("tensorflow"), pytest.mark.timeout(300)]

FILES, ROWS = 8, 100


@pytest.fixture(scope="module")
def files(tf: Any, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    paths = [str(tmp_path_factory.mktemp("records") / f"{i}.tfr") for i in range(FILES)]
    for i, path in enumerate(paths):
        with tf.io.TFRecordWriter(path) as writer:
            for j in range(ROWS):
                writer.write(str(i * ROWS + j).encode())
    return paths


def _records(tf: Any) -> Callable[[Any], Any]:
    return lambda names: tf.data.TFRecordDataset(names).map(lambda text: tf.strings.to_number(text, tf.int64))


def _rows(dataset: Any) -> list[str]:
    """In any order, whatever they are made of."""
    return sorted(str(row) for row in dataset.as_numpy_iterator())


def _read(dataset: Any) -> list[str]:
    return sorted(str(row) for row in Dataset.from_tf(dataset).distribute("inline"))


def _lanes(dataset: Any) -> int:
    return int(Dataset.from_tf(dataset)._plan.nodes()[-1][2]["lanes"])


WHOLE: dict[str, Callable[[Any, Any], Any]] = {
    "take": lambda tf, rows: rows.take(10),
    "skip": lambda tf, rows: rows.skip(790),
    "repeat and take": lambda tf, rows: rows.repeat().take(1000),
    "shard": lambda tf, rows: rows.shard(3, 1),
    "batches without a remainder": lambda tf, rows: rows.batch(64, drop_remainder=True),
    "padded batches without a remainder": lambda tf, rows: rows.padded_batch(64, drop_remainder=True),
    "zip": lambda tf, rows: tf.data.Dataset.zip((rows, rows.shuffle(800, seed=1, reshuffle_each_iteration=False))),
    "enumerate": lambda tf, rows: rows.enumerate(),
    "window": lambda tf, rows: rows.window(64).flat_map(lambda window: window.batch(64)),
    "take_while": lambda tf, rows: rows.take_while(lambda i: i < 150),
    "a variable": lambda tf, rows: rows.map(_counted(tf.Variable(0, dtype=tf.int64))),
    "scan": lambda tf, rows: rows.scan(tf.constant(0, tf.int64), lambda state, i: (state + 1, state)),
}


def _counted(variable: Any) -> Any:
    return lambda i: i + variable.read_value()


@pytest.mark.parametrize("name", WHOLE)
def test_what_counts_or_pairs_rows_does_so_over_all_files(tf: Any, files: list[str], name: str) -> None:
    dataset = WHOLE[name](tf, _records(tf)(files))
    assert _lanes(dataset) == 1
    assert _read(dataset) == _rows(dataset)


DIVIDED: dict[str, Callable[[Any, Any], Any]] = {
    "random values": lambda tf, rows: rows.map(lambda i: (i, tf.random.uniform([], seed=1))).map(lambda i, drawn: i),
    "map and filter": lambda tf, rows: rows.map(lambda i: i * 2).filter(lambda i: i % 3 == 0),
    "shuffle and repeat": lambda tf, rows: rows.shuffle(50).repeat(2).prefetch(2),
    "rows of each row": lambda tf, rows: rows.flat_map(lambda i: tf.data.Dataset.range(i, i + 3)),
    "batch and unbatch": lambda tf, rows: rows.batch(7).unbatch(),
    "cache": lambda tf, rows: rows.cache(),
    "assert_cardinality": lambda tf, rows: rows.apply(tf.data.experimental.assert_cardinality(FILES * ROWS)),
}


@pytest.mark.parametrize("name", DIVIDED)
def test_what_works_row_by_row_is_divided(tf: Any, files: list[str], name: str) -> None:
    dataset = DIVIDED[name](tf, _records(tf)(files))
    assert _lanes(dataset) == FILES
    assert _read(dataset) == _rows(dataset)


LISTS: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "take": (3, lambda tf, names: names.take(3)),
    "skip": (2, lambda tf, names: names.skip(6)),
    "shard": (2, lambda tf, names: names.shard(4, 0)),
    "filter": (1, lambda tf, names: names.filter(lambda name: tf.strings.regex_full_match(name, ".*[01].tfr"))),
    "nothing": (1, lambda tf, names: names.skip(FILES)),
    "shuffle and repeat": (FILES, lambda tf, names: names.shuffle(FILES).repeat(2)),
    "zip": (5, lambda tf, names: tf.data.Dataset.zip((names, tf.data.Dataset.range(5))).map(lambda name, _: name)),
}


@pytest.mark.parametrize("name", LISTS)
def test_the_list_of_files_is_as_long_as_what_reaches_the_reader(tf: Any, files: list[str], name: str) -> None:
    lanes, change = LISTS[name]
    dataset = change(tf, tf.data.Dataset.from_tensor_slices(files)).interleave(_records(tf))
    assert _lanes(dataset) == lanes
    assert _read(dataset) == _rows(dataset)


def test_what_is_done_within_each_file_is_divided(tf: Any, files: list[str]) -> None:
    dataset = tf.data.Dataset.from_tensor_slices(files).interleave(lambda name: _records(tf)(name).skip(1).take(5).enumerate())
    assert _lanes(dataset) == FILES
    assert _read(dataset) == _rows(dataset)


def test_errors_that_are_passed_over_keep_files_together_unless_it_is_done_within_each_file(tf: Any, files: list[str]) -> None:
    behind = _records(tf)(files).ignore_errors()
    within = tf.data.Dataset.from_tensor_slices(files).interleave(lambda name: _records(tf)(name).ignore_errors())
    assert (_lanes(behind), _lanes(within)) == (1, FILES)
    assert _read(behind) == _read(within) == _rows(behind)


def test_lanes_that_are_asked_for_may_drop_remainders_but_not_count(tf: Any, files: list[str]) -> None:
    batches = _records(tf)(files).batch(64, drop_remainder=True)
    assert len(list(Dataset.from_tf(batches, lanes=8).distribute("inline"))) == 8, "36 rows of each file are dropped"
    with pytest.raises(penstock.Invalid, match="lanes=8, but its files cannot be divided: TakeDataset is not known to work row by row"):
        Dataset.from_tf(_records(tf)(files).take(10), lanes=8).fingerprint()


def test_an_endless_pipeline_with_full_batches_only_is_divided(tf: Any, files: list[str]) -> None:
    """It has no remainder, so nothing is lost: the recommender's."""
    path = Path(__file__).parent.parent / "examples/python/recommender.py"
    specification = importlib.util.spec_from_file_location("recommender", path)
    assert specification is not None
    assert specification.loader is not None
    recommender = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(recommender)
    assert _lanes(recommender.pipeline(files, 64)) == FILES


def test_why_files_stay_together_is_said(tf: Any, files: list[str]) -> None:
    rows = _records(tf)(files)
    assert "its files stay together, in one lane: TakeDataset is not known to work row by row" in Dataset.from_tf(rows.take(10)).explain()
    assert "stay together" not in Dataset.from_tf(_records(tf)(files[0]).take(10)).explain(), "one file cannot be divided anyway"


def test_a_replica_runs_the_graph_as_a_whole(tf: Any, files: list[str], start_cluster: StartCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_SERVICE", start_cluster(1, worker_flags=["--allow-code", "--cpus", "1"]).address)
    batches = _records(tf)(files).batch(64)
    assert _lanes(batches) == FILES
    assert [len(batch) for batch in dds.maybe_distribute_dataset(batches)] == [64] * 12 + [32]
