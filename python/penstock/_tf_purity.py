"""How far a tf.data graph gives the same rows each time it is run: pure, pure identity (values may differ, rows do not) or impure.

An op is taken for a function of its inputs where TensorFlow says that it has no state, or where it is known here; all others are open: what they give
may differ. What is open is followed through functions and datasets to those that decide by it which rows there are.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from penstock._code import IMPURE, PURE, PURE_IDENTITY
from penstock._executor import tf_rewrites

# Ops that TensorFlow calls stateful, and whose results are made of their inputs all the same. Of tables only those that are filled once.
_PURE = {
    *("Assert", "Print", "PrintV2", "CheckNumerics", "CheckNumericsV2", "GuaranteeConst", "_Arg", "_Retval", "StatelessRandomGetAlg"),
    *("HashTable", "HashTableV2", "AnonymousHashTable", "LookupTableFindV2", "LookupTableSizeV2", "LookupTableExportV2"),
    *("LookupTableImportV2", "InitializeTableV2", "InitializeTableFromTextFileV2", "InitializeTableFromDataset"),
    *("StatefulPartitionedCall", "If", "While", "Case"),  # as pure as what they call
    *("TensorArray", "TensorArrayV2", "TensorArrayV3", "TensorArrayWriteV3", "TensorArrayReadV3", "TensorArrayGatherV3", "TensorArrayScatterV3"),
    *("TensorArraySizeV3", "TensorArrayConcatV3", "TensorArraySplitV3", "TensorArrayCloseV3"),
}
_OPEN_DATASETS = {"PenstockDataset", "DataServiceDataset", "DataServiceDatasetV2", "DataServiceDatasetV3", "DataServiceDatasetV4"}
_MAPS = {"MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2", "MapAndBatchDataset", "MapAndBatchDatasetV2"}
_BY_VALUE = {"UnbatchDataset", "UniqueDataset"}  # how many rows come of an element is in its values
_KEEP_COMPONENTS = {
    *("ShuffleDataset", "ShuffleDatasetV2", "ShuffleDatasetV3", "ShuffleAndRepeatDataset", "ShuffleAndRepeatDatasetV2", "RepeatDataset"),
    *("PrefetchDataset", "OptionsDataset", "CacheDataset", "CacheDatasetV2", "TakeDataset", "SkipDataset", "ShardDataset"),
    *("BatchDataset", "BatchDatasetV2", "ParallelBatchDataset", "PaddedBatchDataset", "PaddedBatchDatasetV2", "AssertCardinalityDataset"),
    *("FilterDataset", "ParallelFilterDataset", "TakeWhileDataset"),
}


def of(graph: Any) -> str:
    found = open_ops(graph)
    if not found:
        return PURE
    walk = _Graph(graph, found)
    end = next(node for node in graph.node if node.op == "_Retval")
    return IMPURE if _Scope(walk, graph.node, ()).rows(end.input[0]).differ else PURE_IDENTITY


def open_ops(graph: Any) -> set[str]:
    """Those of the graph and its functions."""
    ops = {node.op for _, nodes in tf_rewrites.scopes(graph) for node in nodes if _is_open(node.op)}
    return ops - {function.signature.name for function in graph.library.function}


@functools.cache
def _is_open(op: str) -> bool:
    from tensorflow.python.framework import op_def_registry

    if op in tf_rewrites.PYTHON_OPS or op in _OPEN_DATASETS:
        return True
    if op in _PURE or op.endswith(("Dataset", "DatasetV2", "DatasetV3", "DatasetV4")):
        return False
    definition = op_def_registry.get(op)
    return definition is None or definition.is_stateful


@dataclass(frozen=True)
class Rows:
    differ: bool  # which there are
    values: tuple[bool, ...] = ()  # of which component they differ; those beyond: as the last

    def of_component(self, number: int) -> bool:
        return self.values[min(number, len(self.values) - 1)] if self.values else False


class _Graph:
    def __init__(self, graph: Any, found: set[str]) -> None:
        self.functions = {function.signature.name: function for function in graph.library.function}
        self.open = found | tf_rewrites.functions_with(graph, found)

    def called_by(self, node: Any) -> Iterator[Any]:
        return (self.functions[name] for name in sorted(tf_rewrites.called_by(node)) if name in self.functions)

    def inside(self, function: Any, given: Rows) -> _Scope:
        arguments = [argument.name for number, argument in enumerate(function.signature.input_arg) if given.of_component(number)]
        return _Scope(self, function.node_def, arguments)

    def results(self, function: Any, given: Rows) -> tuple[bool, ...]:
        """Which of a function's results differ, where of its arguments these do."""
        scope = self.inside(function, given)
        return tuple(tf_rewrites.base(function.ret[result.name]) in scope.differing for result in function.signature.output_arg)


class _Scope:
    """The nodes of a graph or of a function, and those among them whose results differ."""

    def __init__(self, graph: _Graph, nodes: Any, arguments: Collection[str]) -> None:
        self._graph = graph
        self._nodes = {node.name: node for node in nodes}
        self.differing = set(arguments)
        while more := {node.name for node in nodes if node.name not in self.differing and self._differs(node)}:
            self.differing |= more

    def rows(self, name: str) -> Rows:
        """Of the dataset by this name."""
        node = self._nodes.get(tf_rewrites.base(name))
        if node is None:  # an argument
            return Rows(tf_rewrites.base(name) in self.differing)
        if node.op == "Identity":
            return self.rows(node.input[0])
        inputs = [self.rows(input) for input in node.input if self._is_dataset(input)]
        differ, captured = any(rows.differ for rows in inputs), any(tf_rewrites.base(input) in self.differing for input in _data(node))
        given = inputs[0] if len(inputs) == 1 else Rows(False, (any(any(rows.values) for rows in inputs),))
        if node.op in _MAPS and captured:
            return Rows(differ, (True,))
        return self._behind(node, given, differ or captured)

    def _behind(self, node: Any, given: Rows, differ: bool) -> Rows:
        functions = list(self._graph.called_by(node))
        if node.op in _OPEN_DATASETS or node.op == "GeneratorDataset":  # whose code is taken to give as many rows each time
            return Rows(differ, (node.op in _OPEN_DATASETS or any(function.signature.name in self._graph.open for function in functions),))
        if node.op in _MAPS:
            return Rows(differ, self._graph.results(functions[0], given))
        if node.op in tf_rewrites.OPENERS:
            inner = self._graph.inside(functions[0], given).rows(next(iter(functions[0].ret.values())))
            return Rows(differ or inner.differ, inner.values)
        if node.op in _KEEP_COMPONENTS:
            return Rows(differ or any(any(self._graph.results(function, given)) for function in functions), given.values)
        deciding = any(any(self._graph.results(function, Rows(False, (any(given.values),)))) for function in functions)
        return Rows(differ or deciding or (node.op in _BY_VALUE and any(given.values)), (any(given.values),))

    def _differs(self, node: Any) -> bool:
        """Datasets are judged by their rows."""
        if "Dataset" in node.op:
            return False
        return bool(tf_rewrites.called_by(node) & self._graph.open) or any(tf_rewrites.base(input) in self.differing for input in _data(node))

    def _is_dataset(self, name: str) -> bool:
        node = self._nodes.get(tf_rewrites.base(name))
        return node is not None and ("Dataset" in node.op or (node.op == "Identity" and self._is_dataset(node.input[0])))


def _data(node: Any) -> Iterator[str]:
    return (name for name in node.input if not name.startswith("^"))
