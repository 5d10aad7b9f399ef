"""penstock for torch: loaders whose batches are tensors, prepared by workers elsewhere."""

from penstock.torch.dataset import IterableDataset
from penstock.torch.from_tf import from_tf
from penstock.torch.jagged import Jagged, keyed_jagged
from penstock.torch.loader import DataLoader

__all__ = ["DataLoader", "IterableDataset", "Jagged", "from_tf", "keyed_jagged"]
