"""What is changed in a tf.data graph so that a lane's rows are the same each time: seeds that were left out, orders that were left open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock._executor.seeds import Key

# Inputs that hold a dataset's two seeds.
_SEED_INPUTS = {
    "ShuffleDataset": (2, 3),
    "ShuffleDatasetV3": (2, 3),
    "ShuffleAndRepeatDataset": (2, 3),
    "ShuffleAndRepeatDatasetV2": (2, 3),
    "RandomDataset": (0, 1),
    "RandomDatasetV2": (0, 1),
    "SamplingDataset": (2, 3),
}
RANDOM_OPS = {
    *("RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal", "RandomShuffle", "RandomGamma", "RandomPoissonV2"),
    *(
        "Multinomial",
        "ParameterizedTruncatedNormal",
        "SampleDistortedBoundingBox",
        "SampleDistortedBoundingBoxV2",
        "RandomCrop",
        "LogUniformCandidateSampler",
    ),
    *("UniformCandidateSampler", "LearnedUnigramCandidateSampler", "FixedUnigramCandidateSampler", "AllCandidateSampler", "RandomPoisson"),
}
PYTHON_OPS = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}
# Which call a function for each row, and give all rows of the dataset that it returns.
OPENERS = {
    *("FlatMapDataset", "InterleaveDataset", "ParallelInterleaveDataset"),
    *("ParallelInterleaveDatasetV2", "ParallelInterleaveDatasetV3", "ParallelInterleaveDatasetV4", "LegacyParallelInterleaveDatasetV2"),
}
READERS = {
    "TFRecordDataset",
    "TFRecordDatasetV2",
    "TextLineDataset",
    "FixedLengthRecordDataset",
    "FixedLengthRecordDatasetV2",
    "CSVDataset",
    "CSVDatasetV2",
    "SSTableDataset",
}
_SHARD_HINT = -1  # tf.data.experimental.SHARD_HINT
_MAX_SEED = (1 << 62) - 1


def parse(content: bytes) -> Any:
    from tensorflow.core.framework import graph_pb2

    return graph_pb2.GraphDef.FromString(content)


def scopes(graph: Any) -> Iterator[tuple[str, Any]]:
    """The graph's nodes, then those of each function: where inputs of a node are found."""
    yield "", graph.node
    for function in graph.library.function:
        yield function.signature.name, function.node_def


def make_deterministic(graph: Any) -> list[str]:
    """Orders that were left open are fixed. What was changed, in words."""
    notes = []
    for _, nodes in scopes(graph):
        for node in nodes:
            if "deterministic" in node.attr and node.attr["deterministic"].s == b"false":
                node.attr["deterministic"].s = b"true"
                notes.append(f"{node.op}: deterministic=False became True, so that rows come in one order")
            if node.op in ("ParallelMapDataset", "ParallelInterleaveDatasetV2", "ParallelInterleaveDatasetV3") and node.attr["sloppy"].b:
                node.attr["sloppy"].b = False
                notes.append(f"{node.op}: sloppy=True became False, so that rows come in one order")
    return notes


def describe_seeds(graph: Any) -> list[str]:
    """Which seeds will be drawn from the job's."""
    notes = []
    for _, nodes in scopes(graph):
        constants = constants_of(nodes)
        for node in nodes:
            if node.op in _SEED_INPUTS and _seeds_of(node, constants) == (0, 0):
                notes.append(f"{node.op}: no seed was given; it is drawn from the job's seed and the epoch")
            elif node.op in RANDOM_OPS and _attr_seeds(node) == (0, 0):
                notes.append(f"{node.op}: no seed was given; it is drawn from the job's seed, epoch and lane")
    return notes


def reads_files(graph: Any) -> bool:
    return any(node.op in READERS for _, nodes in scopes(graph) for node in nodes)


def has_shard_hint(graph: Any) -> bool:
    """Whether there is a shard(SHARD_HINT, SHARD_HINT), which stands for the lane's."""
    return any(_hinted_shards(graph))


def with_hint(content: bytes, parts: int, part: int) -> bytes:
    """The graph with its hints replaced by one part's numbers. A part may have no elements: there are as many parts whatever the dataset has."""
    graph = parse(content)
    constants = constants_of(graph.node)
    for ordinal, node in enumerate(list(_hinted_shards(graph))):
        for place, value in ((1, parts), (2, part)):
            _replace_constant(node, place, graph.node, constants, f"penstock_part_{ordinal}_{place}", value)
        node.attr["require_non_empty"].b = False
    return bytes(graph.SerializeToString())


def _hinted_shards(graph: Any) -> Iterator[Any]:
    constants = constants_of(graph.node)
    for node in graph.node:
        if node.op == "ShardDataset" and base(node.input[1]) in constants and _scalar(constants[base(node.input[1])]) == _SHARD_HINT:
            yield node


def functions_with(graph: Any, ops: set[str]) -> set[str]:
    """Names of those that have such an op, or call one that has."""
    found = {function.signature.name for function in graph.library.function if any(node.op in ops for node in function.node_def)}
    calls = {function.signature.name: {name for node in function.node_def for name in called_by(node)} for function in graph.library.function}
    while more := {name for name, called in calls.items() if name not in found and called & found}:
        found |= more
    return found


def called_by(node: Any) -> set[str]:
    """Functions that a node names: as its op, or in an attribute."""
    return {node.op, *(function.name for _, value in node.attr.items() for function in ([value.func] if value.HasField("func") else value.list.func))}


def with_seeds(content: bytes, key: Key) -> bytes:
    """The graph with the seeds of this epoch. Shuffles of files have the same in all lanes, or lanes would not agree on who reads which."""
    graph = parse(content)
    changed = False
    ordinal = 0
    for _, nodes in scopes(graph):
        constants = constants_of(nodes)
        for node in list(nodes):
            ordinal += 1
            if node.op in _SEED_INPUTS:
                changed |= _seed_dataset(node, nodes, constants, key.whole_epoch(), ordinal)
            elif node.op in RANDOM_OPS and _attr_seeds(node) == (0, 0):
                node.attr["seed"].i = key.derive(ordinal, 1) & _MAX_SEED
                node.attr["seed2"].i = key.derive(ordinal, 2) & _MAX_SEED
                changed = True
    return graph.SerializeToString() if changed else content


def _seed_dataset(node: Any, nodes: Any, constants: dict[str, Any], key: Key, ordinal: int) -> bool:
    given = _seeds_of(node, constants)
    if given is None:  # computed by the graph itself
        return False
    if node.op == "ShuffleDatasetV3":  # its generator is a resource of the process; the first version's is made of the seeds alone
        node.op = "ShuffleDataset"
        del node.input[4:]
    fixed = "reshuffle_each_iteration" in node.attr and not node.attr["reshuffle_each_iteration"].b
    if given != (0, 0) and (fixed or (key.epoch == 0 and key.replica == 0)):
        return True
    for place, seed in zip(_SEED_INPUTS[node.op], (key.derive(ordinal, given[0], 1), key.derive(ordinal, given[1], 2))):
        _replace_constant(node, place, nodes, constants, f"penstock_seed_{ordinal}_{place}", (seed & _MAX_SEED) or 1)
    return True


def _replace_constant(node: Any, place: int, nodes: Any, constants: dict[str, Any], name: str, value: int) -> None:
    """By one of its own, for other nodes may have the same."""
    constant = nodes.add()
    constant.CopyFrom(constants[base(node.input[place])])
    constant.name = name
    _set_scalar(constant, value)
    node.input[place] = name + node.input[place][len(base(node.input[place])) :]


def constants_of(nodes: Any) -> dict[str, Any]:
    return {node.name: node for node in nodes if node.op == "Const"}


def base(name: str) -> str:
    return name.split(":", maxsplit=1)[0]


def _seeds_of(node: Any, constants: dict[str, Any]) -> tuple[int, int] | None:
    found = [constants.get(base(node.input[place])) for place in _SEED_INPUTS[node.op]]
    if any(constant is None for constant in found):
        return None
    first, second = (_scalar(constant) for constant in found)
    return first, second


def _attr_seeds(node: Any) -> tuple[int, int]:
    return node.attr["seed"].i, node.attr["seed2"].i


def value_of(constant: Any) -> Any:
    """Of a constant that is a scalar."""
    from tensorflow.python.framework import tensor_util

    return tensor_util.MakeNdarray(constant.attr["value"].tensor).item()


def _scalar(constant: Any) -> int:
    return int(value_of(constant))


def _set_scalar(constant: Any, value: int) -> None:
    tensor = constant.attr["value"].tensor
    tensor.ClearField("tensor_content")
    del tensor.int64_val[:]
    tensor.int64_val.append(value)
