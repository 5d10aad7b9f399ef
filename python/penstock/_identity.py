"""Who this process is. `_core.identify` judges, as it does for the executable; here is only what a Python process alone can see."""

from __future__ import annotations

import itertools
import os
import socket
import sys
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock import _core
from penstock.errors import Invalid

if TYPE_CHECKING:
    from penstock.service import Service

SERVERS = ("dispatcher", "worker")
RAY_ACTOR = "penstock-dispatcher"
RAY_NAMESPACE = "penstock"

_REMEDY = (
    "Run the ranks in `penstock local -- COMMAND`, or set PENSTOCK_SERVICE to a running service; to have them divide the rows without one, "
    "give consumer_index= and num_consumers=; num_consumers=1 says that all read all"
)

_MOST_NAME_BYTES = 200
_ordinals = itertools.count()  # of datasets that are read under a name nobody gave
_warned: set[str] = set()


@dataclass(frozen=True)
class Identity:
    service: str  # as PENSTOCK_SERVICE is written; "none" where there are no readers
    role: str
    joins: bool  # whether a process of this role takes part in a training job without being told to
    rank: int
    world: int
    job: str  # a job's name, or an id of the platform to derive one from; "": neither
    job_named: bool
    attempt: int  # how often the platform has restarted this job
    on_platform: bool  # it named the service, or started this process
    misplaced: str  # what is wrong with a server's role here; "": nothing

    def service_to_join(self) -> str:
        """An evaluator would take rows from the ranks, so it reads on its own. A server's process that comes here would train in a reader's place."""
        if self.role in SERVERS:
            raise Invalid(
                self.misplaced
                or f"this process is the {self.role} of {self.service} and does not train (`penstock doctor --env` says why): start it as "
                f"`penstock {self.role}` or `python -m penstock.dds`, or let the program call penstock.dds.maybe_start_dataset_service() first"
            )
        return "inline" if self.service == "none" or not self.joins else self.service

    def place(self, job_name: str | None, index: int | None, consumers: int | None) -> tuple[str | None, int | None, int | None]:
        """The name, index and number of consumers to join a job with, where the program does not say."""
        if index is None and self.joins and self.world > 1:
            index, consumers = self.rank, self.world
        if job_name is not None or not (self.job_named or (consumers or 0) > 1):
            if job_name is None and consumers is None:
                _warn_of_lone_ray_task()
            return job_name, index, consumers
        derived = self.next_job_name()
        if derived is None:
            raise Invalid(
                f"this is rank {index} of {consumers}, and nothing names the job that the ranks share: "
                "give job_name=…, or set PENSTOCK_JOB_NAME to the same on all of them"
            )
        return derived, index, consumers

    def next_job_name(self) -> str | None:
        """For the next dataset that is read under a name nobody gave: a restarted program derives the same. None where nothing names the job."""
        if not self.job:
            return None
        ordinal = next(_ordinals)
        name = f"{self.job}-{ordinal}" if ordinal else self.job
        if len(name.encode()) > _MOST_NAME_BYTES:
            raise Invalid(
                f"the job's name that ranks share here, {self.job[:40]}…, has {len(self.job.encode())} bytes; dataset {ordinal + 1} of the program "
                f"is read under it with -{ordinal} after it, and names have at most {_MOST_NAME_BYTES}: shorten it (PENSTOCK_JOB_NAME), or give "
                "job_name="
            )
        return name


def current() -> Identity:
    """Asked anew each time: a process group or Ray may have been initialised since. Warns once of each variable that nobody reads."""
    ray_job, ray_dispatcher = _ray()
    library, group = _process_group()
    facts = {
        "environment": dict(os.environ),
        "service": None,
        "job_name": None,
        "rank": None,
        "group": group,
        "group_library": library,
        "ray_job": ray_job,
        "ray_dispatcher": ray_dispatcher,
        "hostname": socket.gethostname(),
    }
    found = _core.identify(facts)
    for text in found.pop("warnings"):
        _warn_once(f"penstock: {text}", 5)
    return Identity(**found)


def check_shared(service: Service, consumers: int | None) -> None:
    """Where the environment names several ranks and each has a service to itself: each reads every row, which is said once.

    Where they are to share a job all the same, they would wait for each other for ever: an error.
    """
    identity = current() if service.own and consumers != 1 else None
    if identity is None or not identity.joins or identity.world == 1:
        return
    alone = f"this is rank {identity.rank} of {identity.world}, and each of them has a service of its own"
    if consumers is None:
        _warn_once(f"penstock: {alone}, so each reads every row. {_REMEDY}", 4)
    elif service.kind == "remote":
        raise Invalid(f"{alone}, where the others never come. {_REMEDY}")


def _warn_once(text: str, level: int) -> None:
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, RuntimeWarning, stacklevel=level)


def _warn_of_lone_ray_task() -> None:
    ray = _initialised_ray()
    if ray is not None and ray.get_runtime_context().get_task_id() is not None:
        _warn_once(
            "penstock: this Ray task has neither a rank nor a job's name, so it reads every row by itself. Tasks that divide the rows give "
            "job_name=, or consumer_index= and num_consumers=; num_consumers=1 says that each reads all",
            5,
        )


def _process_group() -> tuple[str, tuple[int, int] | None]:
    """Rank and size of a process group that the program has initialised; its library is not imported for that."""
    torch: Any = sys.modules.get("torch.distributed")
    if torch is not None and torch.is_available() and torch.is_initialized():
        return "torch.distributed", (torch.get_rank(), torch.get_world_size())
    jax: Any = sys.modules.get("jax")
    distributed = getattr(getattr(sys.modules.get("jax._src.distributed"), "global_state", None), "client", None)
    if jax is not None and distributed is not None:
        return "jax.distributed", (jax.process_index(), jax.process_count())
    return "", None


def _ray() -> tuple[str | None, str | None]:
    """The job's id and the dispatcher's address, where the program has initialised Ray."""
    ray = _initialised_ray()
    return (None, None) if ray is None else (str(ray.get_runtime_context().get_job_id()), ray_dispatcher_address())


def _initialised_ray() -> Any:
    ray: Any = sys.modules.get("ray")
    return ray if ray is not None and hasattr(ray, "is_initialized") and ray.is_initialized() else None


def ray_dispatcher_address() -> str | None:
    """Of the service in the Ray cluster that this program has initialised; None where there is none."""
    return _ask_ray_dispatcher("address")


def ray_token(address: str) -> str | None:
    """That of the Ray cluster's own service, which is at this address; None where it is another's."""
    return _ask_ray_dispatcher("token") if ray_dispatcher_address() == address else None


def _ask_ray_dispatcher(what: str) -> str | None:
    ray = _initialised_ray()
    if ray is None:
        return None
    try:
        actor = ray.get_actor(RAY_ACTOR, namespace=RAY_NAMESPACE)
    except ValueError:
        return None
    return str(ray.get(getattr(actor, what).remote()))
