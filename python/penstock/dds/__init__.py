"""The four functions of the dataset service that a TFJob orchestrates: programs that call them move over by changing one import.

    from penstock import dds

    dds.maybe_start_dataset_service()  # the dispatcher's and the readers' processes serve, and never come back from here
    dataset = dds.maybe_distribute_dataset(dataset)  # all ranks read one job; without readers it is the same object

Who is what is said by the environment (docs/reference/environment.md).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from penstock import _foreign, _identity
from penstock._check import optional, text, whole, wrong
from penstock.dds import _outputs, _ranks, _servers
from penstock.errors import Invalid

if TYPE_CHECKING:
    from penstock.service import Service

    DatasetT = TypeVar("DatasetT")

__all__ = ["distribute_from_dataset_id", "maybe_distribute_dataset", "maybe_start_dataset_service", "register_dataset"]

AUTOTUNE = -1  # tf.data's
_WITHOUT_READERS = ("none", "inline", "off")


def maybe_start_dataset_service() -> None:
    """In a job with readers, the dispatcher's process and the readers' become `penstock dispatcher` and `penstock worker`, until the job is done.

    Returns in all other processes, and in jobs without readers; raises `Invalid` in a server's process to which no service is named. Servers listen
    on the network and run the code that datasets carry, as the original's do; where other machines come in and no token is set, a warning says
    what that means.
    """
    identity = _identity.current()
    if identity.misplaced:
        raise Invalid(identity.misplaced)
    if identity.service in _WITHOUT_READERS:
        return
    _servers.check_tensorflow()
    if identity.role in _identity.SERVERS:
        _servers.become(identity.role)


def register_dataset(dataset: Any, dataset_service: Service | str, compression: str | None = "AUTO") -> tuple[str, str]:
    """Rank 0 registers `dataset`; all ranks return its id and the name of the job to read it under.

    The others learn both by broadcast where torch.distributed is initialised, so all ranks must call this; else from the dispatcher, once rank 0
    has joined the job.
    """
    _check_compression(compression)
    client = _ranks.service(dataset_service).client
    return _ranks.agree(client, lambda: client.register(_foreign.dataset_of(dataset, "register_dataset")._plan))


def distribute_from_dataset_id(
    dataset_service: Service | str,
    dataset_id: Any,
    job_name: str | None,
    compression: str | None = "AUTO",
    prefetch: int | None = AUTOTUNE,
    *,
    processing_mode: str | None = None,
) -> Any:
    """Joins the job, and returns a dataset of the type that was registered, whose elements the service prepares. Each iteration is one epoch.

    dataset_id: as register_dataset gave it, or penstock.tf's: a string, bytes, or a tensor of one.
    job_name: None: a job of this process's own.
    compression: "AUTO": over a network, where that is quicker; None: nowhere.
    prefetch: elements that tf.data takes ahead; None: none. Other datasets read ahead by themselves.
    processing_mode: None: `PENSTOCK_PROCESSING_MODE`, else the original's "parallel_epochs" (each reader goes through all of the dataset, and each
        of its elements goes to one rank); "shared" delivers each element to exactly one rank, and can be resumed.
    """
    _check_compression(compression)
    prefetch = optional(whole(AUTOTUNE, hint="or None"))("prefetch", prefetch)
    return _read(dataset_service, _text_of("dataset_id", dataset_id), job_name, compression, prefetch, processing_mode)


def _read(
    where: Service | str,
    dataset_id: str,
    job_name: str | None,
    compression: str | None,
    prefetch: int | None,
    processing_mode: str | None,
    given: Any = None,
) -> Any:
    """given: the dataset that the program has registered."""
    mode = _mode(processing_mode)
    service = _ranks.service(where)
    plan = _outputs.as_read(service.client.get_dataset(dataset_id), mode)
    reader = _ranks.join(plan, service, job_name, mode, "none" if compression is None else "auto")
    return _outputs.distributed(plan, reader, prefetch, given)


@overload
def maybe_distribute_dataset(dataset: DatasetT) -> DatasetT: ...
@overload
def maybe_distribute_dataset(dataset: Any, *, processing_mode: str | None) -> Any: ...
def maybe_distribute_dataset(dataset: Any, *, processing_mode: str | None = None) -> Any:
    """Has the readers prepare `dataset`, once for all ranks: a tf.data.Dataset, a penstock.Dataset or a torch dataset, and the same comes out.

    Rank 0 registers it and tells the others, and all of them read one job, whose lanes they share.
    Without readers, and in evaluators, `dataset` itself comes back.
    """
    address = _identity.current().service_to_join()
    if address in _WITHOUT_READERS:
        return dataset
    _servers.check_tensorflow()
    dataset_id, job_name = register_dataset(dataset, address)
    return _read(address, dataset_id, job_name, "AUTO", AUTOTUNE, processing_mode, dataset)


def _mode(given: str | None) -> str:
    named = optional(text)("processing_mode", given) or os.environ.get("PENSTOCK_PROCESSING_MODE")
    return _outputs.mode_of(named or _outputs.REPLICATED)


def _text_of(name: str, value: Any) -> str:
    """Of a string, bytes, or a tensor or array of one; TensorFlow and numpy are not imported for that."""
    known = value.numpy() if hasattr(value, "numpy") else value
    if getattr(known, "shape", None) == () and hasattr(known, "item"):
        known = known.item()
    if isinstance(known, bytes):
        known = known.decode(errors="replace")
    if not isinstance(known, str):
        raise wrong(name, value, "a string, as register_dataset gave it")
    return known


def _check_compression(compression: str | None) -> None:
    accepted: tuple[Literal["AUTO"], None] = ("AUTO", None)
    if compression not in accepted:
        raise Invalid(f"compression={compression!r} is neither 'AUTO' nor None")
