"""What `distribute` may be told, checked here by name: past this the core sees numbers and no arguments."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypedDict

from penstock import _core, _identity
from penstock._check import Check, optional, seconds, size, text, whole, wrong
from penstock.errors import Invalid

STALLED_AFTER = 600.0  # seconds
_U32 = 2**32 - 1
_U64 = 2**64 - 1
_COMPRESSIONS = ("auto", "none", "lz4", "zstd")


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
    timeout: float | None
    on_restart: str
    on_death: str
    places: int
    attempt: int | None
    compression: str | None


def _job_name(name: str, value: Any) -> str:
    """As the dispatcher takes it; a program that names none leaves it out."""
    _core.check_name(name, text(name, value))
    return str(value)


def _compression(name: str, value: Any) -> str:
    if value is None:
        return "none"
    if not isinstance(value, str) or value not in _COMPRESSIONS:
        raise wrong(name, value, " or ".join([*map(repr, _COMPRESSIONS), "None"]))
    return value


# What each is where it is left out, and how it is checked; the core knows the words that the texts may be.
_OPTIONS: dict[str, tuple[Any, Check]] = {
    "job_name": (None, optional(_job_name)),
    "processing_mode": (None, optional(text)),
    "consumer_index": (None, optional(whole(0, _U32))),
    "num_consumers": (None, optional(whole(1, _U32))),
    "seed": (0, whole(0, _U64)),
    "epochs": (1, optional(whole(1, _U32, "or None for one at each iteration"))),
    "even": ("auto", text),
    "memory": ("256MiB", size),
    "timeout": (None, optional(seconds)),
    "on_restart": ("error", text),
    "on_death": ("auto", text),
    "places": (0, whole(0, _U32)),
    "attempt": (None, optional(whole(0, _U64))),
    "compression": ("auto", _compression),
}


def check(options: Mapping[str, Any]) -> dict[str, Any]:
    """All options, those that are left out too."""
    unknown = sorted(options.keys() - _OPTIONS.keys())
    if unknown:
        raise TypeError(f"distribute() got an unexpected keyword argument {unknown[0]!r}; it takes {', '.join(_OPTIONS)}")
    checked = {name: rule(name, options.get(name, default)) for name, (default, rule) in _OPTIONS.items()}
    index, consumers = checked["consumer_index"], checked["num_consumers"]
    if (index is None) != (consumers is None):
        raise Invalid("consumer_index and num_consumers go together: which of how many consumers this is")
    if index is not None and index >= consumers:
        raise Invalid(f"consumer_index={index} is none of num_consumers={consumers}; expected a whole number from 0 to {consumers - 1}")
    return checked


def to_core(options: Mapping[str, Any], shared: bool) -> dict[str, Any]:
    """Checked options as the core takes them. In a service that ranks share, what is left out comes from the environment."""
    job_name, index, consumers, attempt = (options[name] for name in ("job_name", "consumer_index", "num_consumers", "attempt"))
    if shared:
        identity = _identity.current()
        job_name, index, consumers = identity.place(job_name, index, consumers)
        attempt = identity.attempt if attempt is None else attempt
    return {
        "job_name": job_name or "",
        "mode": options["processing_mode"] or os.environ.get("PENSTOCK_PROCESSING_MODE") or "shared",
        "index": index,
        "consumers": consumers or 0,
        "attempt": attempt or 0,
        "epochs": options["epochs"] or 0,
        "stall_timeout": STALLED_AFTER if options["timeout"] is None else options["timeout"],
        **{name: options[name] for name in ("even", "seed", "memory", "on_restart", "on_death", "places", "compression")},
    }
