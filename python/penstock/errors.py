"""Errors. Each says what happened, to what, and what to do next; `details` holds the same as values."""

from __future__ import annotations


class Error(Exception):
    """The base of all errors of penstock."""

    def __init__(self, message: str, details: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.details: dict[str, str] = details or {}

    def __reduce__(self) -> tuple[type[Error], tuple[str, dict[str, str]]]:
        return type(self), (str(self), self.details)

    def _number(self, name: str) -> int | None:
        value = self.details.get(name, "")
        return int(value) if value.lstrip("-").isdigit() else None


class Invalid(Error, ValueError):
    """A plan, an argument or an environment variable is wrong."""


class NotFound(Error, LookupError):
    """There is no such job, dataset or file."""


class Unavailable(Error):
    """The service cannot be reached now: worth retrying."""


class Deadline(Error):
    """It did not happen in time."""


class PermissionDenied(Error):
    """The token, a path or code is not allowed."""


class DatasetMismatch(Error):
    """Another dataset, input or protocol version than expected."""


class StaleGeneration(Error):
    """This consumer, or this part of a lane, was replaced by a newer one."""


class NotDeterministic(Error):
    """Rows that were made again differ from the first time."""


class Stalled(Error):
    """The loop waits and nothing moves; `where` says for what."""

    @property
    def where(self) -> str:
        return self.details.get("where", "")


class DataError(Error):
    """An input is damaged, was changed, or is not as declared."""

    @property
    def file(self) -> str:
        return self.details.get("file", "")

    @property
    def offset(self) -> int | None:
        return self._number("offset")

    @property
    def record(self) -> int | None:
        return self._number("record")


class ExecutorError(Error):
    """User code failed on a worker."""

    @property
    def worker(self) -> str:
        return self.details.get("worker", "")

    @property
    def lane(self) -> int | None:
        return self._number("lane")

    @property
    def seq(self) -> int | None:
        return self._number("seq")

    @property
    def traceback(self) -> str:
        return self.details.get("traceback", "")


class Busy(Error):
    """There is no room in a budget now."""


class TooLarge(Error):
    """It can never fit a budget or a cap."""


class Exists(Error):
    """It is already there, and different."""


class Finished(Error):
    """The job has ended."""


class Cancelled(Error):
    """It was asked to stop."""


class Internal(Error):
    """A bug of penstock."""


_BY_CODE: dict[str, type[Error]] = {
    "Invalid": Invalid,
    "NotFound": NotFound,
    "Unavailable": Unavailable,
    "Deadline": Deadline,
    "PermissionDenied": PermissionDenied,
    "Mismatch": DatasetMismatch,
    "Stale": StaleGeneration,
    "NotDeterministic": NotDeterministic,
    "Stalled": Stalled,
    "Data": DataError,
    "Executor": ExecutorError,
    "Busy": Busy,
    "TooLarge": TooLarge,
    "Exists": Exists,
    "Finished": Finished,
    "Cancelled": Cancelled,
    "Internal": Internal,
}


_interrupts_raised: set[str] = set()


def from_status(code: str, message: str, details: dict[str, str]) -> BaseException:
    """The exception for an error of the C++ core. A Ctrl-C that came upon Python code of an inline loop is itself, and an error to who reads on."""
    interrupt = details.get("interrupt")
    if interrupt is not None and interrupt not in _interrupts_raised:
        _interrupts_raised.add(interrupt)
        return KeyboardInterrupt()
    return _BY_CODE.get(code, Error)(message, details)
