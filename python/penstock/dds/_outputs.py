"""The dataset that a program gets back: of the type that it gave."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock import _core, _foreign
from penstock.dataset import Dataset
from penstock.errors import Invalid

if TYPE_CHECKING:
    from penstock.reader import Reader


REPLICATED = "replicated"  # what the original calls parallel_epochs
_NAMES_OF_REPLICATED = (REPLICATED, "parallel_epochs", "off")


def mode_of(name: str) -> str:
    """The core reads names in any case; the one mode that is told apart here has one name from here on."""
    return REPLICATED if name.lower() in _NAMES_OF_REPLICATED else name


def as_read(plan: _core.Plan, mode: str) -> _core.Plan:
    """A replica runs a tf.data graph as a whole, as the original's readers do: its shuffles and batches are over all of its files."""
    if plan.nodes()[-1][0] != "tf" or mode != REPLICATED:
        return plan
    from penstock.tf import ShardingPolicy, plans

    return plans.divided(plan, ShardingPolicy.OFF, coordinated=False)


def distributed(plan: _core.Plan, reader: Reader, prefetch: int | None, given: Any = None) -> Any:
    """given: the dataset that the program has registered, whose classes its elements are of."""
    op, _, attrs = plan.nodes()[-1]
    if op == "tf":
        from penstock import _tf_dataset
        from penstock._executor import tf_elements

        spec = tf_elements.decode(attrs)
        if getattr(given, "element_spec", None) == spec:
            spec = given.element_spec
        dataset = _tf_dataset.over(reader, spec, plan.facts())
        return dataset if prefetch is None else dataset.prefetch(prefetch)
    if op == "torch" or _foreign.TORCH_NOTE in attrs.get("notes", ()):
        from penstock.torch.dataset import DistributedDataset

        return DistributedDataset(reader, Dataset(plan)._value_types())
    return Distributed(plan, reader)


class Distributed(Dataset):
    """A dataset that workers prepare: iterating it reads the job that all ranks share, an epoch at a time."""

    def __init__(self, plan: _core.Plan, reader: Reader) -> None:
        super().__init__(self._refuse)
        self._known_facts = plan.facts()
        self._fingerprint = plan.fingerprint()
        self.reader = reader

    def __iter__(self) -> Iterator[Any]:
        return iter(self.reader)

    def fingerprint(self) -> str:
        return self._fingerprint

    def state_dict(self, at: Any = None, behind: int = 0, scope: str = "job") -> dict[str, Any]:
        return self.reader.state_dict(at=at, behind=behind, scope=scope)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.reader.load_state_dict(state)

    def _refuse(self) -> _core.Plan:
        raise Invalid("this dataset is prepared by the service already; apply operators before you distribute it")
