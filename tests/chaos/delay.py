"""A wire that takes its time: what comes out of one network interface goes into another later, and the other way round.

The kernel's own netem is not everywhere. Frames are taken with what the kernel knows of them (`virtio_net_hdr`: checksums and segments that the
sender left undone), else most of them would be too large, or wrong.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import socket
import threading
import time
from collections import deque

_SOL_PACKET = 263
_PACKET_IGNORE_OUTGOING = 23
_PACKET_VNET_HDR = 15
_ALL_PROTOCOLS = 0x0003
_CLONE_NEWNET = 0x40000000
_LARGEST_FRAME = 1 << 17


class DelayedWire:
    """Between two interfaces of a network namespace, until it is removed."""

    def __init__(self, namespace: str, interfaces: tuple[str, str], seconds: float) -> None:
        self._seconds = seconds
        self._ends = _open_in(namespace, interfaces)
        self._underway: dict[socket.socket, deque[tuple[float, bytes]]] = {end: deque() for end in self._ends}
        self._removed = threading.Event()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def remove(self) -> None:
        self._removed.set()
        self._thread.join()
        for end in self._ends:
            end.close()

    def _carry(self) -> None:
        other = dict(zip(self._ends, reversed(self._ends), strict=True))
        while not self._removed.is_set():
            ready, _, _ = select.select(self._ends, [], [], self._until_next())
            for end in ready:
                self._underway[other[end]].append((time.monotonic() + self._seconds, end.recv(_LARGEST_FRAME)))
            for end, frames in self._underway.items():
                while frames and frames[0][0] <= time.monotonic():
                    _send(end, frames.popleft()[1])

    def _until_next(self) -> float:
        due = [frames[0][0] for frames in self._underway.values() if frames]
        return min(0.1, max(0.0, min(due) - time.monotonic())) if due else 0.1


def _send(end: socket.socket, frame: bytes) -> None:
    with contextlib.suppress(OSError):  # the queue is full or the link down: a wire may lose frames
        end.send(frame)


def _open_in(namespace: str, interfaces: tuple[str, str]) -> list[socket.socket]:
    """A thread may be in another namespace than its process; a socket stays where it was opened."""
    opened: list[socket.socket] = []

    def open_all() -> None:
        _enter(namespace)
        opened.extend(_open(interface) for interface in interfaces)

    thread = threading.Thread(target=open_all)
    thread.start()
    thread.join()
    assert len(opened) == len(interfaces), f"cannot open {interfaces} in {namespace}"
    return opened


def _enter(namespace: str) -> None:
    descriptor = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns {namespace}")
    finally:
        os.close(descriptor)


def _open(interface: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
    end.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    end.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
    end.bind((interface, 0))
    return end
