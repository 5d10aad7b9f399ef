"""What user code is, whatever bytes it was pickled to: the same in each process that has the same code, wherever its files lie, whichever line it
begins at, and whatever its strings hash to. Datasets are told apart by it.
"""

from __future__ import annotations

import copyreg
import hashlib
import sys
from types import CellType, CodeType
from typing import Any

_OF_THE_FILE = ("__file__", "__path__")  # globals that functions take along
_PLAIN = (str, bytes, int, float, bool, type(None))


def digest_of(code: Any, pickler: type[Any]) -> str:
    """`pickler` is cloudpickle's, or one made of it: it decides what belongs to the code."""
    digest = hashlib.sha256()

    class Digester(pickler):  # type: ignore[misc]
        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, CodeType):
                return _reduced_code(value)
            if isinstance(value, CellType):
                return _reduced_cell(value)
            if _is_tensor(value):
                return _reduced_tensor(value)
            reduced = super().reducer_override(value)
            if reduced is not NotImplemented:
                return _without_chance(value, reduced)
            return NotImplemented if type(value) in self.dispatch_table else _reduced_object(value)

    Digester(_Sink(digest)).dump(code)
    return digest.hexdigest()[:32]


class _Sink:
    """A file whose content is only hashed."""

    def __init__(self, digest: Any) -> None:
        self.write = digest.update


def _reduced_code(code: CodeType) -> Any:
    """Without its file and line. Constants are told as text: which of them are one object is a matter of how the file was loaded."""
    constants = [constant if isinstance(constant, CodeType) else _text(constant) for constant in code.co_consts]
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return tuple, ((code.co_code, constants, counts, [_text(name) for name in names]),)


def _reduced_cell(cell: CellType) -> Any:
    try:
        return tuple, ((_ordered(cell.cell_contents),),)
    except ValueError:  # it is empty
        return tuple, ((),)


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and type(value) is torch.Tensor


def _reduced_tensor(tensor: Any) -> Any:
    """Its pickle names the memory that it lies in."""
    import torch

    content = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return str, (f"{tensor.dtype} {tuple(tensor.shape)} {hashlib.sha256(content).hexdigest()}",)


def _reduced_object(value: Any) -> Any:
    """An object whose state is its attributes, if one of them is a set; all others as they are."""
    attributes = getattr(value, "__dict__", None)
    kind: Any = type(value)
    plain = kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__
    plain = plain and getattr(kind, "__getstate__", None) is getattr(object, "__getstate__", None)
    if not plain or not isinstance(attributes, dict) or not any(isinstance(item, (set, frozenset)) for item in attributes.values()):
        return NotImplemented
    return copyreg.__newobj__, (kind,), _ordered_values(attributes)  # type: ignore[attr-defined]


def _without_chance(value: Any, reduced: Any) -> Any:
    """How cloudpickle reduces a function or a class, but for where its file lies, and the number by which a class is known again, which is drawn
    at random.
    """
    if not isinstance(reduced, tuple):
        return reduced
    make, arguments, *rest = reduced
    if isinstance(value, type):
        from cloudpickle import cloudpickle

        number = cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS.get(value)
        arguments = tuple(None if isinstance(argument, str) and argument == number else argument for argument in arguments)
    else:
        arguments = tuple(
            {name: item for name, item in argument.items() if name not in _OF_THE_FILE} if isinstance(argument, dict) else argument
            for argument in arguments
        )
    if rest and isinstance(rest[0], tuple):
        rest[0] = tuple(_ordered_values(part) if isinstance(part, dict) else part for part in rest[0])
    return (make, arguments, *rest)


def _ordered_values(values: dict[Any, Any]) -> dict[Any, Any]:
    ordered = {name: _ordered(value) for name, value in values.items()}
    if isinstance(ordered.get("__globals__"), dict):
        ordered["__globals__"] = _ordered_values(ordered["__globals__"])
    return ordered


def _ordered(value: Any) -> Any:
    """Sets are iterated in an order that is drawn anew for each process."""
    simple = type(value) in (set, frozenset) and all(isinstance(item, _PLAIN) for item in value)
    return _text(value) if simple else value


def _text(value: Any) -> str:
    return repr(sorted(map(repr, value)) if isinstance(value, (set, frozenset)) else value)
