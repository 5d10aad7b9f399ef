"""A tf.data.Dataset on its way into a plan: its graph, what was changed in it, and what it needs on a worker."""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import sys
from typing import Any

from penstock import _code, _tf_canonical, _tf_division, _tf_op, _tf_purity
from penstock._executor import environment, tf_elements, tf_rewrites
from penstock._executor.failures import CodeError
from penstock.errors import Invalid

FILE_LANES = 8

log = logging.getLogger("penstock")


def attrs_of(dataset: Any, lanes: int | None) -> dict[str, Any]:
    spec = dataset.element_spec
    try:
        rows = tf_elements.row_spec(spec)
    except CodeError as error:
        raise Invalid(str(error)) from error
    graph = tf_rewrites.parse(_graph_of(dataset))
    _make_movable(graph)
    notes = [*tf_rewrites.make_deterministic(graph), *tf_rewrites.describe_seeds(graph)]
    lanes, about_lanes = _lanes(dataset, graph, lanes)
    notes += about_lanes
    for note in notes:
        log.warning("from_tf: %s", note)
    purity = _tf_purity.of(graph)
    payload, functions = _tf_canonical.canonical(graph, _functions)
    libraries = _libraries()
    modules = {"tensorflow", *_op_packages(), *(_code.modules_in(functions[0]) if functions else ())}
    return {
        "payload": payload,
        "element_spec": tf_elements.encode(spec),
        "label": "a tf.data graph",
        "purity": purity,
        "notes": notes,
        "python": environment.python_version(),
        "modules": _versions(modules),
        "lanes": lanes,
        "cardinality": int(dataset.cardinality()),
        **({"functions": functions[0], "functions_digest": functions[1]} if functions else {}),
        **({"libraries": libraries} if libraries else {}),
        **rows.to_attrs(),
    }


def _graph_of(dataset: Any) -> bytes:
    from tensorflow.python.ops import gen_dataset_ops

    ignore_state = 1  # of random generators and the like: what that means is found in the graph
    graph = gen_dataset_ops.dataset_to_graph_v2(dataset._variant_tensor, external_state_policy=ignore_state, strip_device_assignment=True)
    content: bytes = graph.numpy()
    return content


def _make_movable(graph: Any) -> None:
    """What the graph itself reads of a service is found by what it is, and no longer by what this process calls it. Nodes that were only said to be
    in this process may be anywhere: TensorFlow strips the place of an `EagerPyFunc` to a device without a kind, which it does not read any more.
    """
    for _, nodes in tf_rewrites.scopes(graph):
        for node in nodes:
            if node.device.startswith("/device::"):
                node.device = ""
    for node in _tf_op.jobs_of(graph):
        if not node.attr["job"].s:
            raise Invalid("a dataset over a reader of this process cannot be read by workers; distribute it with penstock.tf.distribute instead")
        node.attr["place"].s = b""


def _lanes(dataset: Any, graph: Any, lanes: int | None) -> tuple[int, list[str]]:
    """Up to FILE_LANES, but no more than there are files: TensorFlow divides them, and leaves none without. With what is to be said about it.

    Remainders that each lane would drop for itself are dropped only where the program asks for lanes.
    """
    division = _tf_division.of(graph)
    whole = division.whole
    if lanes is None and division.remainders:
        whole = "each would drop a remainder of its own (batch with drop_remainder); lanes= accepts that"
    wanted = min(FILE_LANES, division.files) if lanes is None else int(lanes)
    if (wanted <= 1 and not whole) or lanes == 1:
        return 1, []
    if lanes is not None and whole:
        raise Invalid(f"from_tf: lanes={lanes}, but its files cannot be divided: {whole}; leave lanes out")
    if wanted > division.files:
        raise Invalid(f"from_tf: lanes={lanes}, but its graph names {division.files} file(s) to divide among them; leave lanes out")
    return _tried(dataset, wanted, lanes) if not whole else (1, [f"its files stay together, in one lane: {whole}"] * tf_rewrites.reads_files(graph))


def _tried(dataset: Any, wanted: int, lanes: int | None) -> tuple[int, list[str]]:
    """What TensorFlow says to it."""
    import tensorflow as tf

    from penstock._executor import tf_source

    try:
        tf_source.shard(dataset, wanted, 0)
    except tf.errors.OpError as error:
        why = str(error)[:200]
        if lanes is None:
            return 1, [f"its files stay together, in one lane: TensorFlow cannot divide them ({why})"]
        raise Invalid(f"from_tf: lanes={lanes}, but its files cannot be divided: {why}; leave lanes out") from error
    return wanted, [f"its files are divided among {wanted} lanes; what it batches or shuffles it does within a lane"]


def _functions(tokens: dict[str, str]) -> _tf_canonical.Pickled | None:
    """Python functions that the graph calls (from_generator, py_function), which travel with it under other tokens."""
    if not tokens:
        return None
    from tensorflow.python.ops import script_ops

    return _code.pickled({renamed: script_ops._py_funcs._funcs[token] for token, renamed in tokens.items()})


def _versions(modules: set[str]) -> list[str]:
    import tensorflow as tf

    return [f"tensorflow=={tf.__version__}", *_code.versions(modules - {"tensorflow"})]


# ---- op libraries: what tf.load_op_library loaded is in the process's map


def _mapped() -> list[str]:
    with open("/proc/self/maps") as maps:
        return sorted({line.split(maxsplit=5)[5].strip() for line in maps if line.rstrip().endswith(".so") and line.count("/")})


@functools.cache
def _uses_tensorflow(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return b"libtensorflow_framework.so" in file.read()
    except OSError:
        return False


def _libraries() -> list[dict[str, Any]]:
    """Those of the program's own travel as they are; penstock's is the worker's own."""
    found = []
    for path in _mapped():
        if "site-packages" in path or "dist-packages" in path or _tf_op.build.is_ours(path) or not _uses_tensorflow(path):
            continue
        with open(path, "rb") as file:
            content = file.read()
        environment.remember_libraries({hashlib.sha256(content).hexdigest()})
        found.append({"path": path, "content": content})
    return found


def _op_packages() -> set[str]:
    """Installed packages that bring ops (tensorflow_io, tensorflow_text): the worker imports them."""
    packages = set()
    for path in _mapped():
        for root in ("site-packages", "dist-packages"):
            _, found, inside = path.partition(root + os.sep)
            package = inside.split(os.sep)[0]
            if found and package not in ("tensorflow", "torch", "numpy") and package in sys.modules and _uses_tensorflow(path):
                packages.add(package)
    return packages
