"""DataLoader: torch's, with the work done by penstock's workers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from penstock import _foreign
from penstock._check import checked, flag, function, optional, whole
from penstock._loader import Loader, arranged
from penstock.errors import Invalid
from penstock.torch import places, states
from penstock.torch.ahead import Ahead
from penstock.torch.devices import Mover
from penstock.torch.tensors import batch_of, converted, row_of, rows_of

if TYPE_CHECKING:
    from penstock.service import Service
    from penstock.spec import ElementSpec

F = TypeVar("F", bound=Callable[..., None])

_PREFETCH = 2  # batches
_OF_TORCH = {  # arguments of torch's DataLoader that have no meaning here, and what to write instead
    "sampler": "shuffle=True permutes the dataset, and ranks share one job without a DistributedSampler; choose rows with filter, take, skip or mix",
    "batch_sampler": "give batch_size, or a dataset that is batched already",
    "worker_init_fn": "workers are no processes of this loader; make in the dataset's __getitem__, when first needed, what each of them shall have",
    "multiprocessing_context": "no processes are started here",
    "generator": "give seed=, of all shuffling",
    "pin_memory_device": "give device=",
    "in_order": "give processing_mode='strict' for one order, 'shared' for whichever batch is ready",
}
_DEFAULTS_OF_TORCH = {"pin_memory_device": "", "in_order": True}  # those of them that are not None
# As torch's DataLoader takes them without their names, from the fourth on.
_POSITIONS = ("sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory", "drop_last", "timeout", "worker_init_fn")


def _torch_positions(init: F) -> F:
    """Arguments without names mean what they mean to torch."""

    @functools.wraps(init)
    def call(self: Any, dataset: Any, batch_size: int | None = None, shuffle: bool | None = False, *args: Any, **named: Any) -> None:
        if len(args) > len(_POSITIONS):
            raise Invalid(f"DataLoader: {3 + len(args)} arguments without names; torch's take {3 + len(_POSITIONS)} so, and others are given by name")
        for name, value in zip(_POSITIONS, args):
            if name in named:
                raise TypeError(f"DataLoader() got multiple values for argument {name!r}")
            named[name] = value
        init(self, dataset, batch_size, False if shuffle is None else shuffle, **named)

    return call  # type: ignore[return-value]


class DataLoader(Loader):
    """Iterates batches of torch tensors that workers have prepared. Each `iter()` is one epoch.

    dataset: a `penstock.Dataset`, a torch dataset (also a list, and whatever else has `__len__` and `__getitem__`, or `__iter__`), or a
        `tf.data.Dataset`; the last two are code, which workers run with `--allow-code`. `loader.dataset` is what was given.
    batch_size: rows a batch; None, the default where torch has 1: the dataset is batched already, or rows are wanted.
    spec: what the rows of a torch dataset look like, as `Dataset.from_torch` takes it; None: as the first ones show.
    shuffle: datasets that are read by index are permuted as a whole, others in buffers.
    service, job_name, seed, epochs, timeout, even, compression: as for `Dataset.distribute`; epochs=None reads one at each iteration.
    processing_mode: "strict" (one order of batches, whatever the number of workers; with shuffle=False the dataset's own), or "shared".
    mesh: a DeviceMesh whose dimensions of data ("dp", "data", "dp_replicate", "dp_shard", "fsdp", …; all that it has) tell ranks apart; ranks that
        differ in other dimensions alone are mirrors: they see the same batches.
    group: the process group whose ranks share the job, where it is not all of them.
    collate_fn: gets the list of a batch's rows, in this process, as the dataset gave them; the row itself where there are no batches.
    pin_memory, device: batches are pinned, or moved to `device`, on a thread, up to `prefetch_factor` ahead of the loop.
    timeout=0 and prefetch_factor=None, torch's own defaults, are as if they were not given.
    num_workers, persistent_workers: accepted, and mean nothing: workers are not of this process.
    What else torch's has (a sampler, worker_init_fn) is refused, with what to give instead.
    """

    sampler = batch_sampler = None  # as torch's loaders have them; here there are none

    @_torch_positions
    @checked(
        batch_size=optional(whole(1)),
        shuffle=flag,
        drop_last=flag,
        collate_fn=optional(function("a function of a list of rows")),
        pin_memory=flag,
        prefetch_factor=optional(whole(1)),
    )
    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        *,
        service: Service | str | None = None,
        job_name: str | None = None,
        processing_mode: str | None = None,
        mesh: Any = None,
        group: Any = None,
        seed: int = 0,
        epochs: int | None = None,
        drop_last: bool = True,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        device: Any = None,
        prefetch_factor: int | None = _PREFETCH,
        timeout: float | None = None,
        even: str = "auto",
        compression: str | None = "auto",
        spec: ElementSpec | None = None,
        num_workers: int = 0,
        persistent_workers: bool = False,
        **of_torch: Any,
    ) -> None:
        _refuse(of_torch)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.num_workers, self.persistent_workers = num_workers, persistent_workers
        self.collate_fn = collate_fn
        self.pin_memory, self.prefetch_factor = pin_memory, prefetch_factor
        self.timeout = timeout or 0
        self._mover = Mover(device, pin_memory)
        self._depth = prefetch_factor or _PREFETCH
        self._ahead: Ahead | None = None
        batches = arranged(_foreign.like_torch(dataset, "DataLoader", spec), batch_size, shuffle, drop_last)
        self._batched: bool = batches._facts["batch"] > 0
        self._types = batches._value_types()
        self._arrays = batches._array_columns(unbatched=True)
        super().__init__(
            batches,
            places.find(mesh, group, job_name),
            processing_mode,
            service=service,
            seed=seed,
            epochs=epochs,
            even=even,
            compression=compression,
            timeout=None if timeout == 0 else timeout,
        )
        self.dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        self._stop_ahead()
        if not self._mover.moves:
            return map(self._finish, iter(self._reader))
        self._ahead = Ahead(self._reader, lambda element: self._mover.prepare(self._finish(element)), self._depth)
        return map(self._mover.hand_out, self._ahead)

    def state_dict(self, at: Any = None, behind: int = 0, scope: str = "job", *, timeout: float = 60.0) -> dict[str, Any]:
        """Where the loop is, on all ranks, for `torch.save` and torch.distributed.checkpoint; the arguments are those of `Reader.state_dict`.

        What was prepared ahead and not handed out is not in it.
        """
        if at is None and self._ahead is not None:
            at = self._ahead.handed_out
        return states.pack(self._reader.state_dict(at=at, behind=behind, scope=scope, timeout=timeout))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next iteration begins where the state was saved, on any number of ranks. All ranks call it."""
        self._stop_ahead()
        self._reader.load_state_dict(states.unpack(state))

    def close(self) -> None:
        self._stop_ahead()
        super().close()

    def _stop_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None

    def _finish(self, element: Any) -> Any:
        if not self._batched:
            row = row_of(element, self._types)
            return converted(row) if self.collate_fn is None else self.collate_fn(row)
        return batch_of(element, self._types) if self.collate_fn is None else self.collate_fn(rows_of(element, self._types, self._arrays))


def _refuse(of_torch: dict[str, Any]) -> None:
    """One that is as torch has it where it is left out asks for nothing."""
    for name, value in of_torch.items():
        if name not in _OF_TORCH:
            raise TypeError(f"DataLoader() got an unexpected keyword argument {name!r}")
        if value is not None and value != _DEFAULTS_OF_TORCH.get(name):
            raise Invalid(f"DataLoader: {name} is torch's, and means nothing where others' workers read: {_OF_TORCH[name]}")
