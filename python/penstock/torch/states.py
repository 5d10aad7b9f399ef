"""States in the form that torch's checkpoints want: the same keys each time, because torch.distributed.checkpoint reads what the loader has now."""

from __future__ import annotations

import json
from typing import Any

from penstock.errors import Invalid


def pack(state: dict[str, Any]) -> dict[str, Any]:
    return {"step": state["tag"], "position": json.dumps(state)}


def unpack(state: dict[str, Any]) -> dict[str, Any]:
    """What a reader takes. A reader's own state is one already."""
    if not isinstance(state, dict) or not {"position", "penstock"} & set(state):
        raise Invalid(f"load_state_dict takes what state_dict gave, and not {type(state).__name__} {str(state)[:80]}")
    if "position" not in state:
        return state
    try:
        unpacked: dict[str, Any] = json.loads(state["position"])
    except (TypeError, ValueError) as error:
        raise Invalid(f"load_state_dict takes what state_dict gave, whose position is JSON: {error}") from error
    return unpacked
