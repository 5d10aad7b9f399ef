"""How the ranks of a program agree on one job, and join it."""

from __future__ import annotations

import functools
import logging
import os
import sys
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock import _core, _identity, _options, _waiting, reader
from penstock import service as services
from penstock.dataset import Dataset
from penstock.dds._outputs import REPLICATED
from penstock.errors import Deadline, Error, Invalid, NotFound, Unavailable

if TYPE_CHECKING:
    from penstock.reader import Reader
    from penstock.service import Service

WAIT_FOR_RANK_0 = 600.0  # seconds
_ASK_EVERY = 0.1

log = logging.getLogger("penstock")


def service(named: Service | str) -> Service:
    found = named if isinstance(named, services.Service) else _connected(services.named(named), os.getpid())
    if found.kind != "remote":
        raise Invalid(f"dataset_service is {found.address!r}, where there are no readers; name a service: grpc://host:5050")
    return found


@functools.cache
def _connected(address: str, process: int) -> Service:
    """One connection an address; a forked child needs its own. The environment's own is waited for as if no address were given."""
    del process
    identity = _identity.current()
    return services.connect(address, timeout=services.within(identity) if address == identity.service else None)


def agree(client: _core.Client, register: Callable[[], str]) -> tuple[str, str]:
    """The id of the dataset, which rank 0 registers, and the job's name: the same on all ranks."""
    torch = _process_group()
    if torch is not None:
        return _broadcast(torch, register)
    identity = _identity.current()
    name = identity.next_job_name()
    if identity.world > 1 and name is None:
        raise Invalid(
            f"this is rank {identity.rank} of {identity.world}, and nothing names the job that the ranks share: "
            "call torch.distributed.init_process_group first, or set PENSTOCK_JOB_NAME to the same on all of them"
        )
    if identity.rank == 0:
        return register(), name or _drawn_name()
    assert name is not None
    return _ask_for_job(client, name), name


def join(plan: _core.Plan, where: Service, job_name: str | None, mode: str, compression: str) -> Reader:
    """Restarted ranks go on in their job: nothing in the four functions could say where a program had come to."""
    place: dict[str, Any] = {} if job_name is not None else {"job_name": f"dds-{_drawn_name()}", "consumer_index": 0, "num_consumers": 1}
    # A replica promises no row to anybody, so what a dead rank had is not waited for.
    on_death = "redeliver" if mode == REPLICATED else "auto"
    options = {"job_name": job_name, "processing_mode": mode, "on_death": on_death, "on_restart": "continue", "even": "uneven", "epochs": None}
    joined = reader.open_reader(Dataset(plan), where, _options.check({**options, **place, "compression": compression}))
    log.info("rank %d reads job %s, %s", _identity.current().rank, joined.job_name, mode)
    return joined


def _process_group() -> Any:
    """torch.distributed where the program has initialised it; it is not imported for that."""
    torch: Any = sys.modules.get("torch.distributed")
    return torch if torch is not None and torch.is_available() and torch.is_initialized() else None


def _broadcast(torch: Any, register: Callable[[], str]) -> tuple[str, str]:
    """What went wrong on rank 0 is broadcast too: else the others would wait for ever."""
    told: list[Any] = [None, None, None]
    if torch.get_rank() == 0:
        try:
            told[:2] = register(), _identity.current().next_job_name() or _drawn_name()
        except Exception as error:
            told[2] = error if isinstance(error, Error) else Invalid(f"{type(error).__name__}: {error}")
            torch.broadcast_object_list(told, src=0)
            raise
    torch.broadcast_object_list(told, src=0)
    dataset_id, job_name, failure = told
    if failure is not None:
        raise type(failure)(f"rank 0 could not register the dataset: {failure}", failure.details)
    return dataset_id, job_name


def _ask_for_job(client: _core.Client, name: str) -> str:
    """The dataset of rank 0's job, when it is there."""
    end = time.monotonic() + WAIT_FOR_RANK_0
    with _waiting.said(f"rank 0 to begin job {name!r}", WAIT_FOR_RANK_0):
        while True:
            try:
                return client.find_job(name)
            except (NotFound, Unavailable) as error:
                if time.monotonic() > end:
                    raise Deadline(f"rank 0 has not begun job {name!r} within {WAIT_FOR_RANK_0:.0f} s ({error}); see what it does") from error
            time.sleep(_ASK_EVERY)


def _drawn_name() -> str:
    return uuid.uuid4().hex[:8]
