"""The same tf.data program gives the same graph, in whatever process and however often: names that TensorFlow draws are drawn from the content.

A dataset's id is a fingerprint of its graph, and consumers of a job must agree on it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from penstock._executor import tf_rewrites

_DT_RESOURCE = 20

Pickled = tuple[bytes, str]  # with its digest


def canonical(graph: Any, functions: Callable[[dict[str, str]], Pickled | None]) -> tuple[bytes, Pickled | None]:
    """The graph, and the Python functions that it calls.

    functions: pickles them, with a digest, by the tokens that are given for theirs.
    """
    for _, nodes in tf_rewrites.scopes(graph):
        for node in nodes:
            if "metadata" in node.attr:  # a name that counts the datasets of the process
                node.attr["metadata"].s = b""
    _order_functions(graph)
    names = _Names(graph)
    pickled = functions(names.apply(""))
    key = hashlib.sha256(graph.SerializeToString(deterministic=True) + (pickled[1].encode() if pickled else b"")).hexdigest()[:16]
    tokens = names.apply(key)
    return graph.SerializeToString(deterministic=True), functions(tokens)


def _order_functions(graph: Any) -> None:
    """As the graph comes to them."""
    functions = {function.signature.name: function for function in graph.library.function}
    order: dict[str, int] = {}

    def visit(nodes: Any) -> None:
        for node in nodes:
            for called, _ in _calls(node):
                if called in functions and called not in order:
                    order[called] = len(order)
                    visit(functions[called].node_def)

    visit(graph.node)
    ordered = sorted(graph.library.function, key=lambda function: order.get(function.signature.name, len(order)))
    copies = [type(function).FromString(function.SerializeToString()) for function in ordered]
    del graph.library.function[:]
    graph.library.function.extend(copies)


class _Names:
    """Names of functions, shared resources and Python functions, numbered as the graph comes to them; and where they stand."""

    def __init__(self, graph: Any) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._places: list[tuple[tuple[str, str], Callable[[str], None]]] = []
        for function in graph.library.function:
            self._add("function", function.signature.name, _setter(function.signature, "name"))
        for node in graph.node:
            if "shared_name" in node.attr:  # a table's: it is shared by this name, too
                self._add("node", node.name, _setter(node, "name"))
        for node in graph.node:
            self._find_inputs(node)
        for _, nodes in tf_rewrites.scopes(graph):
            for node in nodes:
                self._find(node)

    def apply(self, key: str) -> dict[str, str]:
        """Names everything after the key and its number. The tokens of Python functions, and what they have become."""
        names = {name: f"penstock_{key}_{number}" for name, number in self._numbers.items()}
        for name, put in self._places:
            put(names[name])
        return {token: renamed for (kind, token), renamed in names.items() if kind == "token"}

    def _add(self, kind: str, name: str, put: Callable[[str], None]) -> None:
        self._numbers.setdefault((kind, name), len(self._numbers))
        self._places.append(((kind, name), put))

    def _find_inputs(self, node: Any) -> None:
        for place, text in enumerate(node.input):
            before, name, after = re.fullmatch(r"(\^?)([^:]*)(.*)", text).groups()  # type: ignore[union-attr]
            if ("node", name) in self._numbers:
                self._add("node", name, _input_setter(node, place, before, after))

    def _find(self, node: Any) -> None:
        for called, put in _calls(node):
            if ("function", called) in self._numbers:
                self._add("function", called, put)
        if "shared_name" in node.attr and node.attr["shared_name"].s:
            self._add("resource", node.attr["shared_name"].s.decode(), _bytes_setter(node.attr["shared_name"]))
        if node.op == "Const" and node.attr["dtype"].type == _DT_RESOURCE:
            for handle in node.attr["value"].tensor.resource_handle_val:
                self._add("resource", handle.name, _setter(handle, "name"))
        if node.op in tf_rewrites.PYTHON_OPS:
            self._add("token", node.attr["token"].s.decode(), _bytes_setter(node.attr["token"]))


def _calls(node: Any) -> Iterator[tuple[str, Callable[[str], None]]]:
    """Functions that a node names: as its op, or in an attribute."""
    yield node.op, _setter(node, "op")
    for _, value in sorted(node.attr.items()):
        for function in [value.func] if value.HasField("func") else value.list.func:
            yield function.name, _setter(function, "name")


def _setter(message: Any, field: str) -> Callable[[str], None]:
    return lambda text: setattr(message, field, text)


def _input_setter(node: Any, place: int, before: str, after: str) -> Callable[[str], None]:
    return lambda text: node.input.__setitem__(place, before + text + after)


def _bytes_setter(value: Any) -> Callable[[str], None]:
    return lambda text: setattr(value, "s", text.encode())
