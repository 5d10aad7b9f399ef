"""What user code was made with: the same Python and the same libraries, or a clear error; op libraries that it brought along."""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from typing import Any

from penstock._executor.failures import CodeError, from_exception


def python_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def version_of(module: str) -> str | None:
    """Of an installed library, by the name it is imported by."""
    try:
        return metadata.version(module)
    except metadata.PackageNotFoundError:
        pass
    for name in _packages_of_modules().get(module, []):
        return metadata.version(name)
    return None


@functools.cache
def _packages_of_modules() -> Mapping[str, list[str]]:
    """Half a second's work where many are installed."""
    return metadata.packages_distributions() if sys.version_info >= (3, 10) else {}


def check(nodes: list[tuple[str, list[int], dict[str, Any]]]) -> None:
    """Raises where this Python is not that of the program that made the dataset."""
    for op, _, attrs in nodes:
        if "python" not in attrs:
            continue
        if attrs["python"] != python_version():
            raise CodeError(
                f"the dataset's {op} was made with Python {attrs['python']}, but the worker's executors run {python_version()} ({sys.executable}); "
                "start workers with PENSTOCK_PYTHON set to the same version",
                code="Mismatch",
            )
        for entry in attrs.get("modules", []):
            module, _, wanted = entry.partition("==")
            found = version_of(module)
            if found is None:
                raise CodeError(
                    f"the dataset's {op} uses {module} {wanted}, which the worker's Python ({sys.executable}) does not have; install it there",
                    code="Mismatch",
                )
            if found != wanted:
                raise CodeError(
                    f"the dataset's {op} was made with {module} {wanted}, but the worker has {found} ({sys.executable}); install the same there",
                    code="Mismatch",
                )


@contextmanager
def loading(op: str, attrs: dict[str, Any]) -> Iterator[None]:
    """Around the unpickling of an operator: imports what it needs before, and says what is missing."""
    try:
        for name in filter(None, os.environ.get("PENSTOCK_PRELOAD", "").split(",")):
            importlib.import_module(name.strip())
        load_libraries(attrs.get("libraries", []))
        yield
    except CodeError:
        raise
    except ImportError as error:
        raise CodeError(
            f"{op}({attrs.get('label', '')}) needs a module that the executor cannot import: {error}; "
            "install it where workers run, or name it in PENSTOCK_PRELOAD",
            code="Mismatch",
        ) from error
    except Exception as error:
        raise from_exception(error, f"loading {op}({attrs.get('label', '')})", None) from error


_loaded: set[str] = set()


def load_libraries(libraries: list[dict[str, Any]]) -> None:
    """Op libraries of TensorFlow that the registering program had loaded: from their path where the same file is there, else as they came along."""
    for library in libraries:
        content: bytes = library["content"]
        digest = hashlib.sha256(content).hexdigest()
        if digest in _loaded:
            continue
        import tensorflow as tf

        path = library["path"]
        if _digest(path) != digest:
            directory = tempfile.mkdtemp(prefix="penstock-ops-")
            path = os.path.join(directory, os.path.basename(path))
            with open(path, "wb") as file:
                file.write(content)
        tf.load_op_library(path)
        _loaded.add(digest)


def remember_libraries(digests: set[str]) -> None:
    """What this program has loaded itself (`inline`)."""
    _loaded.update(digests)


def _digest(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return None
