"""Arrays as those of another dtype, where that holds their values."""

from __future__ import annotations

from typing import Any


class Lost(Exception):
    """Says what the other dtype does not hold."""


def converted(array: Any, dtype: Any) -> Any:
    """Whole numbers stay as they are; others are rounded, and stay numbers. Of an empty list nobody knows the kind: it is of any."""
    import numpy as np

    whole = array.dtype.kind in "iu" and dtype.kind in "iu"
    if array.size and not whole and not np.can_cast(array.dtype, dtype, "same_kind"):
        raise Lost(_beyond(array) or f"{array.dtype}[{', '.join(map(str, array.shape))}]")
    with np.errstate(over="ignore"):
        done = array.astype(dtype)
    if array.size == 0 or np.can_cast(array.dtype, dtype, "safe"):
        return done
    lost = (done.astype(array.dtype) != array) | ((done < 0) != (array < 0)) if whole else np.isinf(done) & ~np.isinf(array)
    if lost.any():
        raise Lost(f"{array[lost].reshape(-1)[0]}, which it cannot hold")
    return done


def _beyond(array: Any) -> str:
    """A number that no dtype holds."""
    values = array.reshape(-1).tolist() if array.dtype.kind == "O" else []
    return next((f"{value}, which it cannot hold" for value in values if isinstance(value, int)), "")
