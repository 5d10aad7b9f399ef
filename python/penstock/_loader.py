"""What the loaders of all frameworks have in common: their place in a job, and a reader behind them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock import _code, _foreign, _identity

if TYPE_CHECKING:
    from typing_extensions import Self

    from penstock.dataset import Dataset
    from penstock.reader import Reader

_STRICT = ("strict", "coordinated")  # the mode, and tf.data service's word for it
_SHUFFLE_ROWS = 10_000  # in a lane's buffer, for inputs that cannot be permuted as a whole


@dataclass(frozen=True)
class Place:
    """Which of how many consumers of which job a process is."""

    job_name: str | None
    index: int | None
    consumers: int | None
    mirrored: bool = False  # others hold the same rows, and must see the same batches

    @staticmethod
    def among(job_name: str | None, index: int | None = None, consumers: int | None = None) -> Place:
        """What is None, the environment says."""
        return Place(*_identity.current().place(job_name, index, consumers))

    @staticmethod
    def mirror(job_name: str | None, index: int, consumers: int, mirror: int, mirrors: int) -> Place:
        """`strict` has one order, a function of dataset, seed and number of consumers: so mirrors read jobs of their own, and see the same."""
        name = Place.among(job_name, index, consumers).job_name
        if name is not None and mirror > 0:  # one consumer alone may have no name: mirrors' jobs are anonymous, then
            name = f"{name}-mirror-{mirror}"
        return Place(name, index, consumers, mirrors > 1)

    def default_mode(self, dataset: Dataset) -> str:
        """Loops of these frameworks know one order of batches. Where rows are others each time there is none, and one alone can do without."""
        return "shared" if self._alone and dataset.purity == _code.IMPURE else "strict"

    @property
    def _alone(self) -> bool:
        return (self.consumers or 1) == 1 and not self.mirrored

    def declared(self, mode: str) -> Place:
        """As the only one, where nothing says that there are others and the mode must know."""
        return Place(self.job_name, 0, 1) if mode == "strict" and self.consumers is None else self


class Loader:
    """Batches of `dataset`, of which a consumer at `place` reads its part."""

    def __init__(self, dataset: Dataset, place: Place, processing_mode: str | None, even: str, **options: Any) -> None:
        self._batches = dataset
        self.dataset: Any = dataset
        mode = processing_mode or place.default_mode(dataset)
        place = place.declared(mode)
        self._place = place
        self._reader: Reader = dataset.distribute(
            job_name=place.job_name, consumer_index=place.index, num_consumers=place.consumers, processing_mode=mode, even=even, **options
        )
        self._mode, self._even = mode.lower(), even.lower()

    def __len__(self) -> int:
        """Batches of one epoch for this process, where they can be counted without reading."""
        batches, consumers = self._batches.cardinality(), self._place.consumers or 1
        if batches < 0:
            raise TypeError("the number of batches is not known without reading")
        if consumers == 1:
            return batches
        even = self._evens()
        if even == "pad":
            return math.ceil(batches / consumers)
        if even == "drop":
            return batches // consumers
        if self._mode not in _STRICT:
            raise TypeError(
                "how many of a shared job's batches come to this rank is not known without reading; use even='drop' or 'pad', or mode 'strict'"
            )
        return batches // consumers + ((self._place.index or 0) < batches % consumers)

    def _evens(self) -> str:
        """What "auto" means among several."""
        if self._even != "auto":
            return self._even
        return "drop" if self._mode in _STRICT or self._batches._facts["batch"] > 0 else "uneven"

    @property
    def reader(self) -> Reader:
        return self._reader

    def set_epoch(self, epoch: int) -> None:
        """The next iteration reads this epoch, as with torch's DistributedSampler. Epochs follow by themselves, so there is no need to."""
        self._reader.set_epoch(epoch)

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def batches_of(dataset: Any, batch_size: int | None, shuffle: bool, drop_last: bool) -> Dataset:
    """A dataset of any framework as the loader's arguments want it; batch_size=None leaves its elements as they are."""
    return arranged(_foreign.dataset_of(dataset, "DataLoader"), batch_size, shuffle, drop_last)


def arranged(prepared: Dataset, batch_size: int | None, shuffle: bool, drop_last: bool) -> Dataset:
    if shuffle:
        prepared = prepared.shuffle(_SHUFFLE_ROWS)
    return prepared if batch_size is None else prepared.batch(batch_size, drop_remainder=drop_last)
