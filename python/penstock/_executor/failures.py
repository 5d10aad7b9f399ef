"""Errors of user code, as the worker and the loop hear of them."""

from __future__ import annotations

import os
import traceback
from typing import Any

from penstock._executor import process

MOST_SAID = 16 * 1024  # characters of a message
MOST_TRACED = 64 * 1024  # of a traceback
_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep


class CodeError(Exception):
    """`code` is one of the core's names; details become attributes of the exception in the loop."""

    def __init__(self, message: str, code: str = "Executor", **details: str) -> None:
        super().__init__(message)
        self.code = code
        self.details = details

    def to_json(self) -> dict[str, Any]:
        details = {name: sayable(value, MOST_TRACED) for name, value in self.details.items()}
        return {"code": self.code, "message": sayable(str(self), MOST_SAID), "details": details}


def sayable(text: str, most: int) -> str:
    """As it can be sent: text is anything in Python, with halves of characters, and of any length."""
    if len(text) > most:
        text = f"{text[: most // 2]} … ({len(text) - most} characters are left out) … {text[-most // 2 :]}"
    return text.encode("utf-8", "backslashreplace").decode()


def from_exception(error: BaseException, doing: str, seq: int | None, sample: int | None = None) -> CodeError:
    """What user code raised: where, on which row, and its traceback without our own frames. `sample`: the row by an index of the user's own.

    A Ctrl-C in a program that reads inline is no error of the code that it came upon: it is raised on.
    """
    if isinstance(error, KeyboardInterrupt) and not process.in_executor:
        raise error
    if isinstance(error, CodeError):
        if seq is not None:
            error.details.setdefault("seq", str(seq))
        return error
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith(_OURS)]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(theirs or frames), *traceback.format_exception_only(type(error), error)]
    details = {"traceback": "".join(lines), "exception": type(error).__name__}
    if seq is not None:
        details["seq"] = str(seq)
    if (code := _tf_code(error)) is not None:
        details["tf_code"] = str(code)
    if theirs:
        details |= {"file": theirs[-1].filename, "line": str(theirs[-1].lineno), "function": theirs[-1].name}
    where = f" at {details['file']}:{details['line']}" if theirs else ""
    said = f"{_said(error)}; start the worker with a larger --code-memory" if isinstance(error, MemoryError) else _said(error)
    row = "" if seq is None else f" on row {seq}"
    if sample is not None:
        details["sample"] = str(sample)
        row = f" on sample {sample}"
    return CodeError(f"{doing} raised {type(error).__name__}{row}{where}: {said}", **details)


def _tf_code(error: BaseException) -> int | None:
    """Of one of tf.errors, by which TensorFlow's loops know it again."""
    tensorflow = any(kind.__module__.startswith("tensorflow.") for kind in type(error).__mro__)
    code = getattr(error, "error_code", None) if tensorflow else None
    return code if isinstance(code, int) else None


def _said(error: BaseException) -> str:
    try:
        return sayable(str(error), MOST_SAID)
    except Exception as another:
        return f"what it says is not known, since its __str__ raised {type(another).__name__}"
