"""What `distribute` may be told, checked here by name: past this the core sees numbers and no arguments."""

from __future__ import annotations

import math
import operator
import os
import re
from collections.abc import Mapping
from typing import Any, TypedDict

from penstock import _identity
from penstock.errors import Invalid

_UNITS = {"": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_U32 = 2**32 - 1
_U64 = 2**64 - 1
_FOREVER = 100 * 365 * 24 * 3600.0  # milliseconds of it still fit the core's clock, in nanoseconds too


class Options(TypedDict, total=False):
    """Dataset.distribute says what each of them means."""

    job_name: str | None
    processing_mode: str | None
    consumer_index: int | None
    num_consumers: int | None
    seed: int
    epochs: int | None
    even: str
    memory: int | str
    timeout: float
    on_restart: str
    on_death: str
    places: int
    attempt: int | None


def to_core(options: Mapping[str, Any], remote: bool) -> dict[str, Any]:
    """The options as the core takes them. With `remote`, what is left out comes from the environment."""
    unknown = sorted(options.keys() - Options.__annotations__.keys())
    if unknown:
        raise TypeError(f"distribute() got an unexpected keyword argument {unknown[0]!r}; it takes {', '.join(Options.__annotations__)}")
    index, consumers = _consumer(options.get("consumer_index"), options.get("num_consumers"))
    epochs = options.get("epochs", 1)
    job_name, attempt = options.get("job_name"), options.get("attempt")
    if remote:
        identity = _identity.current()
        job_name, index, consumers = identity.place(job_name, index, consumers)
        attempt = identity.attempt if attempt is None else attempt
    return {
        "job_name": job_name or "",
        "mode": options.get("processing_mode") or os.environ.get("PENSTOCK_PROCESSING_MODE") or "shared",
        "even": options.get("even", "auto"),
        "seed": whole("seed", options.get("seed", 0), 0, _U64),
        "epochs": 0 if epochs is None else whole("epochs", epochs, 1, _U32, "None for one at each iteration"),
        "index": index,
        "consumers": consumers or 0,
        "memory": to_bytes(options.get("memory", "256MiB")),
        "stall_timeout": seconds("timeout", options.get("timeout", 600.0)),
        "on_restart": options.get("on_restart", "error"),
        "on_death": options.get("on_death", "auto"),
        "places": whole("places", options.get("places", 0), 0, _U32),
        "attempt": 0 if attempt is None else whole("attempt", attempt, 0, _U64),
    }


def _consumer(index: Any, consumers: Any) -> tuple[int | None, int | None]:
    if (index is None) != (consumers is None):
        raise Invalid("consumer_index and num_consumers go together: which of how many consumers this is")
    if index is None:
        return None, None
    consumers = whole("num_consumers", consumers, 1, _U32)
    return whole("consumer_index", index, 0, consumers - 1, f"it is one of num_consumers={consumers}"), consumers


def whole(name: str, value: Any, least: int, most: int, hint: str = "") -> int:
    """The argument as a whole number between the two; numpy's are such, too."""
    try:
        number = operator.index(value)
    except TypeError:
        raise Invalid(f"{name}={value!r} is no whole number{_said(hint)}") from None
    if not least <= number <= most:
        raise Invalid(f"{name}={number} is not between {least} and {most}{_said(hint)}")
    return number


def seconds(name: str, value: Any) -> float:
    """The argument as a time to wait; infinity is as long as the core can count."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise Invalid(f"{name}={value!r} is no number of seconds") from None
    if math.isnan(number) or number < 0:
        raise Invalid(f"{name}={number:g} is no time to wait; give seconds, or float('inf')")
    return min(number, _FOREVER)


def to_bytes(size: Any) -> int:
    """268435456 and "256MiB" alike."""
    if not isinstance(size, str):
        return whole("memory", size, 1, 2**63 - 1, "a number of bytes, or one with KiB, MiB or GiB: '256MiB'")
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", size.lower())
    if match is None or match[2] not in _UNITS:
        raise Invalid(f"memory={size!r} is not a size; write a number of bytes, or one with KiB, MiB or GiB: '256MiB'")
    return whole("memory", int(float(match[1]) * _UNITS[match[2]]), 1, 2**63 - 1)


def _said(hint: str) -> str:
    return f"; {hint}" if hint else ""
