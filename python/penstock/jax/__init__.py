"""penstock for JAX: a loader whose batches are jax arrays."""

from penstock.jax.loader import DataLoader

__all__ = ["DataLoader"]
