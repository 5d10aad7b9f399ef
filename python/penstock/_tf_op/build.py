"""Compiles the op libraries, once for each TensorFlow and each state of their source."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_DATASET = "penstock_tf_op"
_ROWS = "penstock_tf_rows"  # apart, since it needs more of TensorFlow's insides, which another version may not have
SOURCES = {_DATASET: ("dataset.cc", "elements.cc"), _ROWS: ("rows.cc",)}
_HERE = Path(__file__).parent
_WITHIN = 600.0  # seconds

log = logging.getLogger("penstock")


class CannotBuild(Exception):
    """Says why."""


def library() -> str:
    """The path of the op library for the installed TensorFlow."""
    flags = _flags()
    path = _path(_DATASET, flags)
    if not path.exists():
        _build_once(path, flags)
    return str(path)


def rows_library() -> str | None:
    """The path of the library by which executors take elements, where it was made along with the other."""
    path = _path(_ROWS, _flags())
    return str(path) if path.exists() else None


def is_ours(path: str) -> bool:
    return os.path.basename(path).startswith(tuple(SOURCES))


def _flags() -> list[str]:
    import tensorflow as tf

    return [*tf.sysconfig.get_compile_flags(), *tf.sysconfig.get_link_flags()]


def _path(name: str, flags: list[str]) -> Path:
    import tensorflow as tf

    return _directory() / f"{name}-{tf.__version__}-{_digest(flags)}.so"


def _directory() -> Path:
    try:
        return Path(os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache" / "penstock") / "tf-op"
    except RuntimeError as error:
        raise CannotBuild(f"there is no home directory for what is compiled ({error}); name one in PENSTOCK_CACHE") from error


def _digest(flags: list[str]) -> str:
    digest = hashlib.sha256("\n".join(flags).encode())
    for file in sorted([*_HERE.glob("*.cc"), *_HERE.glob("*.h")]):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _build_once(path: Path, flags: list[str]) -> None:
    """Whoever comes while another process compiles waits for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _build_all(path, flags)


def _build_all(path: Path, flags: list[str]) -> None:
    compiler = os.environ.get("CXX") or shutil.which("g++")
    if compiler is None:
        raise CannotBuild("there is no g++ to compile penstock's TensorFlow op with; install it, or set PENSTOCK_TF_OP=0 to have this not said")
    log.warning("compiling penstock's TensorFlow op, once for this TensorFlow: about half a minute (%s)", path)
    with ThreadPoolExecutor() as side:
        rows = side.submit(_build, compiler, _ROWS, flags)
        _build(compiler, _DATASET, flags)
    if (error := rows.exception()) is not None:
        log.warning("executors hand elements of tf.data over by way of Python, which is slower: %s", error)


def _build(compiler: str, name: str, flags: list[str]) -> None:
    path = _path(name, flags)
    descriptor, made = tempfile.mkstemp(suffix=".so", dir=path.parent)
    os.close(descriptor)
    sources = [str(_HERE / source) for source in SOURCES[name]]
    command = [compiler, "-shared", "-fPIC", "-O2", "-DNDEBUG", "-w", "-fvisibility=hidden", *sources, *flags, "-o", made]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_WITHIN, check=False)
        if done.returncode != 0:
            raise CannotBuild(f"{compiler} could not compile penstock's TensorFlow op: {done.stderr.strip()[-500:]}")
        os.chmod(made, 0o644)
        os.replace(made, path)
    except subprocess.TimeoutExpired as error:
        raise CannotBuild(f"{compiler} did not compile penstock's TensorFlow op within {_WITHIN:g} s") from error
    finally:
        Path(made).unlink(missing_ok=True)
