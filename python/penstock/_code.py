"""User code on its way into a plan: pickled with what it needs, and with what can be said of it before it runs."""

from __future__ import annotations

import io
import os
import pickletools
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from types import CodeType, FunctionType, ModuleType
from typing import Any

from penstock._code_digest import digest_of
from penstock._executor import environment
from penstock._executor.failures import CodeError
from penstock._executor.specs import RowSpec, from_element_spec, infer
from penstock.errors import Invalid

SAMPLE = 8  # rows that a spec is inferred from

PURE, PURE_IDENTITY, IMPURE = "pure", "pure identity", "impure"

# Names by which a function shows that it draws at random (then it is seeded for each row), or looks at what differs from run to run.
_RANDOM = {
    "random",
    "rand",
    "randn",
    "randint",
    "choice",
    "shuffle",
    "normal",
    "uniform",
    "permutation",
    "sample",
    "default_rng",
    "Generator",
    "transforms",
}
_FLEETING = {"time", "time_ns", "perf_counter", "monotonic", "now", "today", "utcnow", "uuid1", "uuid4", "urandom", "secrets", "getpid", "environ"}


def code_attrs(payload: Any, label: str, spec: RowSpec, purity: str, notes: Iterable[str] = ()) -> dict[str, Any]:
    """The attributes of an operator that runs `payload`."""
    content, digest = pickled(payload)
    return {
        "payload": content,
        "payload_digest": digest,
        "label": label,
        "purity": purity,
        "notes": sorted(notes),
        "python": environment.python_version(),
        "modules": versions(modules_in(content)),
        **spec.to_attrs(),
    }


def label_of(code: Any) -> str:
    name = getattr(code, "__qualname__", None) or type(code).__qualname__
    return str(name).replace("<locals>.", "")


# ---- pickling

_pickling = threading.RLock()  # which modules travel by value is a setting of the process; RLock: a __reduce__ may make a dataset


def pickled(code: Any) -> tuple[bytes, str]:
    """With its digest. Modules of the program itself travel by value: a worker does not have them."""
    import cloudpickle

    try:
        with _pickling, _by_value(cloudpickle):
            return _dump(cloudpickle, code)
    except Exception as error:
        raise Invalid(f"{label_of(code)} cannot be sent to workers: {error}; what it refers to must be picklable (open files are not)") from error


def _dump(cloudpickle: Any, code: Any) -> tuple[bytes, str]:
    class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
        def reducer_override(self, value: Any) -> Any:
            # A lock guards what is in its own process; a copy begins unlocked (TensorFlow's from_generator has one).
            return (threading.Lock, ()) if type(value) is type(threading.Lock()) else super().reducer_override(value)

    file = io.BytesIO()
    Pickler(file).dump(code)
    return file.getvalue(), digest_of(code, Pickler)


@contextmanager
def _by_value(cloudpickle: Any) -> Iterator[None]:
    known = set(cloudpickle.list_registry_pickle_by_value())
    local = [module for name, module in list(sys.modules.items()) if name not in known and _is_local(name, module)]
    for module in local:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in local:
            cloudpickle.unregister_pickle_by_value(module)


_INSTALLED = tuple({os.path.realpath(sysconfig.get_paths()[key]) + os.sep for key in ("stdlib", "platstdlib", "purelib", "platlib")})


def _is_local(name: str, module: Any) -> bool:
    path = getattr(module, "__file__", None)
    if not isinstance(module, ModuleType) or not path or name == "__main__" or name.split(".", maxsplit=1)[0] in ("penstock", "cloudpickle"):
        return False
    path = os.path.realpath(path)
    return path.endswith(".py") and not path.startswith(_INSTALLED) and "site-packages" not in path and "dist-packages" not in path


def modules_in(content: bytes) -> set[str]:
    """Top-level modules that a pickle refers to."""
    found: set[str] = set()
    strings: list[str] = []
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name == "GLOBAL":
            found.add(str(argument).split(" ")[0].split(".")[0])
        elif "UNICODE" in opcode.name:
            strings.append(str(argument))
        elif opcode.name == "STACK_GLOBAL" and len(strings) >= 2:
            found.add(strings[-2].split(".")[0])
    # Memoised names and modules that cloudpickle imports by their name are strings too.
    found |= {text.split(".")[0] for text in strings if text.split(".")[0] in sys.modules and text in sys.modules}
    return found


def versions(modules: Iterable[str]) -> list[str]:
    """ "name==version" of those that are installed: what the worker's are compared with."""
    known = {module: environment.version_of(module) for module in modules if module not in ("penstock", "cloudpickle")}
    return sorted(f"{module}=={version}" for module, version in known.items() if version)


# ---- purity


def purity_of(code: Any, keeps_rows: bool) -> tuple[str, list[str]]:
    """What can be seen in the code: its level of purity, and "seeded" where generators are seeded for each row."""
    names = _names_in(code, set())
    if names is None:  # an object with a __call__ that cannot be looked into
        return PURE, ["seeded"]
    notes = ["seeded"] if names & _RANDOM else []
    if names & _FLEETING:
        return (PURE_IDENTITY if keeps_rows else IMPURE), notes
    return PURE, notes


def _names_in(code: Any, seen: set[int]) -> set[str] | None:
    function = getattr(code, "__func__", code)
    if not isinstance(function, FunctionType):
        return None
    if id(function) in seen:
        return set()
    seen.add(id(function))
    names = _names_of(function.__code__)
    reachable = [function.__globals__.get(name) for name in names]
    reachable += [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
    for value in reachable:
        if isinstance(value, FunctionType) and not _installed(value):
            names |= _names_in(value, seen) or set()
        elif isinstance(value, ModuleType):
            names.add(value.__name__.split(".")[-1])
        elif value is not None and callable(value) and not isinstance(value, (type, FunctionType)) and type(value).__module__ != "builtins":
            return None
    return names


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _installed(function: FunctionType) -> bool:
    return os.path.realpath(function.__code__.co_filename).startswith(_INSTALLED)


def _names_of(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names_of(constant)
    return names


# ---- specs


def spec_of_rows(what: str, rows: Callable[[], Iterable[Any]], spec: Any) -> RowSpec:
    """As given, else as the first rows show it."""
    sample = list(islice(iter(rows()), SAMPLE)) if spec is None else []
    if spec is None and not sample:
        raise Invalid(f"{what} gave no rows to see what they look like; give spec=")
    try:
        return infer(sample) if spec is None else from_element_spec(spec)
    except CodeError as error:
        raise Invalid(f"{what}: {error}") from error
