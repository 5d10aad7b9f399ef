"""Errors of user code, as the worker and the loop hear of them."""

from __future__ import annotations

import os
import traceback
from typing import Any

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep


class CodeError(Exception):
    """`code` is one of the core's names; details become attributes of the exception in the loop."""

    def __init__(self, message: str, code: str = "Executor", **details: str) -> None:
        super().__init__(message)
        self.code = code
        self.details = details

    def to_json(self) -> dict[str, Any]:
        return {"code": self.code, "message": str(self), "details": self.details}


def from_exception(error: BaseException, doing: str, seq: int | None) -> CodeError:
    """What user code raised: where, on which row, and its traceback without our own frames."""
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
    if theirs:
        details |= {"file": theirs[-1].filename, "line": str(theirs[-1].lineno), "function": theirs[-1].name}
    where = f" at {details['file']}:{details['line']}" if theirs else ""
    said = f"{error}; start the worker with a larger --code-memory" if isinstance(error, MemoryError) else str(error)
    row = "" if seq is None else f" on row {seq}"
    return CodeError(f"{doing} raised {type(error).__name__}{row}{where}: {said}", **details)
