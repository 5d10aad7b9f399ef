"""Batches to pinned memory and to the device, off the loop's thread."""

from __future__ import annotations

from typing import Any

import torch

from penstock._check import wrong
from penstock.torch.tensors import map_tensors


def _device(named: Any) -> torch.device:
    try:
        return torch.device(named)
    except (RuntimeError, TypeError, ValueError) as error:
        raise wrong("DataLoader: device", named, f"a device of torch ({str(error).splitlines()[0]})") from None


class Mover:
    """`prepare` runs on the thread that reads ahead, `hand_out` on the loop's.

    On CUDA, copies go over a stream of their own, so that they overlap with the loop's work; they are whole before a batch is handed out.
    """

    def __init__(self, device: Any, pin_memory: bool) -> None:
        self._device = None if device is None else _device(device)
        self._pin = pin_memory and torch.cuda.is_available()
        on_cuda = self._device is not None and self._device.type == "cuda"
        cuda: Any = torch.cuda
        self._stream = cuda.Stream(self._device) if on_cuda else None

    @property
    def moves(self) -> bool:
        return self._pin or self._device is not None

    def prepare(self, element: Any) -> Any:
        if self._pin:
            element = map_tensors(element, lambda tensor: tensor.pin_memory())
        if self._device is None:
            return element
        if self._stream is None:
            return map_tensors(element, lambda tensor: tensor.to(self._device))
        with torch.cuda.stream(self._stream):
            moved = map_tensors(element, lambda tensor: tensor.to(self._device, non_blocking=True))
        self._stream.synchronize()  # then the batch's memory may go back to the worker
        return moved

    def hand_out(self, element: Any) -> Any:
        if self._stream is None:
            return element
        current = torch.cuda.current_stream(self._device)

        def used_there(tensor: Any) -> Any:
            tensor.record_stream(current)  # else its memory would be filled again while kernels still read it
            return tensor

        return map_tensors(element, used_there)
