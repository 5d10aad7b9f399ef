"""DataLoader: batches of jax arrays, laid over devices and processes as a sharding says."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import jax

from penstock._loader import Loader, batches_of
from penstock.errors import Invalid
from penstock.jax import places
from penstock.ragged import Ragged

if TYPE_CHECKING:
    from penstock.reader import Tag
    from penstock.service import Service


class DataLoader(Loader):
    """Iterates batches of jax arrays that workers have prepared. Each `iter()` is one epoch.

    dataset: a `penstock.Dataset`, a torch dataset, or a `tf.data.Dataset`; the last two are code, which workers run with `--allow-code`.
    batch_size: rows that this process brings to a batch; None where the dataset is batched already.
    shuffle: datasets that are read by index are permuted as a whole, others in buffers.
    sharding: a `jax.sharding.Sharding` of the first dimension: arrays are global, and made of the rows of all processes. Processes whose devices
        hold the same rows are mirrors, and see the same batches. None: arrays of this process's rows, on its default device.
    service, job_name, seed, epochs, timeout, even, compression: as for `Dataset.distribute`; epochs=None reads one at each iteration.
    processing_mode: "strict" (one order of batches, whatever the number of workers; with shuffle=False the dataset's own), or "shared".
    drop_last: a short last batch would be compiled for anew, so it is left out.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        *,
        sharding: Any = None,
        service: Service | str | None = None,
        job_name: str | None = None,
        processing_mode: str | None = None,
        seed: int = 0,
        epochs: int | None = None,
        drop_last: bool = True,
        timeout: float | None = None,
        even: str = "auto",
        compression: str | None = "auto",
    ) -> None:
        self._put = _putter(sharding)
        super().__init__(
            batches_of(dataset, batch_size, shuffle, drop_last),
            places.find(sharding, job_name),
            processing_mode,
            service=service,
            seed=seed,
            epochs=epochs,
            even=even,
            compression=compression,
            timeout=timeout,
        )

    def __iter__(self) -> Iterator[Any]:
        return map(self._to_jax, iter(self._reader))

    def tag(self) -> Tag | None:
        """Where the loop stands, for `state_dict(at=)` later."""
        return self._reader.tag()

    def state_dict(self, at: Tag | None = None, behind: int = 0, scope: str = "job", *, timeout: float = 60.0) -> dict[str, Any]:
        """Where the loop is, on all processes; the arguments are those of `Reader.state_dict`."""
        return self._reader.state_dict(at=at, behind=behind, scope=scope, timeout=timeout)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next iteration begins where the state was saved, on any number of processes. All of them call it."""
        self._reader.load_state_dict(state)

    def _to_jax(self, element: Any) -> Any:
        return jax.tree.map(self._array, element)

    def _array(self, leaf: Any) -> Any:
        if isinstance(leaf, Ragged):
            raise Invalid("jax has no ragged arrays: use padded_batch, or leave the column out with project")
        if isinstance(leaf, bytes) or leaf.dtype == object:
            return leaf  # strings stay numpy's: jax has none
        return self._put(leaf)


def _putter(sharding: Any) -> Callable[[Any], Any]:
    """jax keeps what it was given until it has copied it, or as long as its own array lies over it: so the memory of a batch may go straight in."""
    if sharding is None:
        return jax.device_put
    return functools.partial(jax.make_array_from_process_local_data, sharding)
