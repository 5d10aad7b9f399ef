"""Whether the files of a tf.data graph can be divided among lanes: only where what is done with their rows is done to each row by itself.

TensorFlow divides the list of names in front of the operator that opens the files, whatever comes behind it: a `take(10)` there would take ten rows
in each lane. So all operators behind the files have to be known to work row by row; one that counts, pairs or is not known keeps a graph whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock import _tf_purity
from penstock._executor import tf_rewrites

_ROW_BY_ROW = {
    *("MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2", "FilterDataset", "ParallelFilterDataset", "UnbatchDataset"),
    *("ParseExampleDataset", "ParseExampleDatasetV2", "IgnoreErrorsDataset", "PrefetchDataset", "OptionsDataset", "ModelDataset"),
    *("ShuffleDataset", "ShuffleDatasetV2", "ShuffleDatasetV3", "ShuffleAndRepeatDataset", "ShuffleAndRepeatDatasetV2", "RepeatDataset"),
    *("BatchDataset", "PaddedBatchDataset"),  # of the first version, which keep the remainder
    *("MaxIntraOpParallelismDataset", "PrivateThreadPoolDataset", "NonSerializableDataset"),
    "AssertCardinalityDataset",  # which TensorFlow takes out where it divides
    *tf_rewrites.OPENERS,  # of other datasets, which are made for each row
}
_REMAINDERS = {  # the input that says whether the remainder is dropped
    "BatchDatasetV2": 2,
    "ParallelBatchDataset": 3,
    "PaddedBatchDatasetV2": -1,
    "MapAndBatchDataset": -1,
    "MapAndBatchDatasetV2": -1,
}
_REPEATS = {"RepeatDataset": 1, "ShuffleAndRepeatDataset": 4, "ShuffleAndRepeatDatasetV2": 4}  # the input that says how often
_CACHES = {"CacheDataset": 1, "CacheDatasetV2": 1}  # the input that names a file, which lanes would write all at once
_SAME_NAMES = {  # a list of names is as long behind them
    *("ShuffleDataset", "ShuffleDatasetV2", "ShuffleDatasetV3", "ShuffleAndRepeatDataset", "ShuffleAndRepeatDatasetV2", "RepeatDataset"),
    *("MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2", "PrefetchDataset", "OptionsDataset"),
}


@dataclass(frozen=True)
class Division:
    files: int = 1  # that may be divided
    whole: str = ""  # why it has to stay whole
    remainders: bool = False  # each part would drop a remainder of its own, and otherwise give the same rows


def of(graph: Any) -> Division:
    return _Walk(graph).division()


class _Whole(Exception):
    """Says why."""


class _Walk:
    """From the end of the graph to its files."""

    def __init__(self, graph: Any) -> None:
        self._nodes = {node.name: node for node in graph.node}
        self._constants = tf_rewrites.constants_of(graph.node)
        self._reading = tf_rewrites.functions_with(graph, tf_rewrites.READERS)
        self._with_state = tf_rewrites.functions_with(
            graph, _tf_purity.open_ops(graph) - tf_rewrites.RANDOM_OPS - tf_rewrites.PYTHON_OPS - {"Timestamp"}
        )
        self._end = next((node for node in graph.node if node.op == "_Retval"), None)

    def division(self) -> Division:
        try:
            return self._behind_files()
        except _Whole as why:
            return Division(whole=str(why))

    def _behind_files(self) -> Division:
        whole, remainders = "", False
        node = self._input(self._end)
        while not (node.op in tf_rewrites.OPENERS and self._opens_files(node)):
            whole = whole or self._objection(node)
            remainders |= node.op in _REMAINDERS and self._value(node, _REMAINDERS[node.op]) is not False and not self._endless(node)
            node = self._input(node)
        files = self._names(self._input(node))
        return Division(files, remainders=remainders) if files <= 1 or not whole else Division(whole=whole)

    def _objection(self, node: Any) -> str:
        if node.op in _CACHES:
            return "" if self._value(node, _CACHES[node.op]) == b"" else f"{node.op} writes a file, which lanes would write all at once"
        if tf_rewrites.called_by(node) & self._with_state:
            return f"the function of {node.op} has state, or ops that are not known"
        return "" if node.op in _ROW_BY_ROW or node.op in _REMAINDERS else f"{node.op} is not known to work row by row"

    def _opens_files(self, node: Any) -> bool:
        return any(name in self._reading for name in tf_rewrites.called_by(node))

    def _endless(self, node: Any) -> bool:
        """Whether there is never a remainder, since rows never end."""
        while node.op not in ("TensorSliceDataset", "ZipDataset"):
            if node.op in _REPEATS and (self._value(node, _REPEATS[node.op]) or 0) < 0:
                return True
            node = self._input(node)
        return False

    def _names(self, node: Any) -> int:
        """How long the list is that reaches the reader, each time that it is gone through."""
        if node.op == "TensorSliceDataset":
            return self._slices(node)
        if node.op == "RangeDataset":
            return len(range(*(self._number(node, place) for place in range(3))))
        if node.op == "ZipDataset":
            return min(self._names(found) for found in self._inputs(node))
        if node.op in _SAME_NAMES:
            return self._names(self._input(node))
        if node.op in ("TakeDataset", "SkipDataset", "ShardDataset"):
            return len(self._cut(node, range(self._names(self._input(node)))))
        raise _Whole(f"how many names of files {node.op} gives is not known")

    def _cut(self, node: Any, names: range) -> range:
        number = self._number(node, 1)
        if node.op == "TakeDataset":
            return names if number < 0 else names[:number]
        if node.op == "SkipDataset":
            return names[:0] if number < 0 else names[number:]
        if number <= 0:  # it stands for the lane's
            raise _Whole("it is divided where its list of files says so")
        return names[self._number(node, 2) :: number]

    def _slices(self, node: Any) -> int:
        shapes = [self._constants[name].attr["value"].tensor.tensor_shape for name in map(tf_rewrites.base, node.input) if name in self._constants]
        if not shapes or not shapes[0].dim:
            raise _Whole("the names of its files are not in the graph")
        return int(shapes[0].dim[0].size)

    def _inputs(self, node: Any) -> Iterator[Any]:
        """Datasets that it is made of."""
        found = (self._nodes.get(tf_rewrites.base(name)) for name in node.input)
        return (input for input in found if input is not None and "Dataset" in input.op)

    def _input(self, node: Any) -> Any:
        inputs = [] if node is None else list(self._inputs(node))
        if len(inputs) != 1:
            what = "the graph" if node is None else node.op
            raise _Whole(f"{what} is made of {len(inputs)} datasets" if inputs else "no list of names of files is in its graph")
        return inputs[0]

    def _value(self, node: Any, place: int) -> Any:
        """None where the graph computes it."""
        constant = self._constants.get(tf_rewrites.base(node.input[place]))
        return None if constant is None else tf_rewrites.value_of(constant)

    def _number(self, node: Any, place: int) -> int:
        value = self._value(node, place)
        if value is None:
            raise _Whole(f"how many names of files {node.op} gives is not known")
        return int(value)
