"""The executor: a child of a worker. It reads calls from a socket, one after the other, and ends when that ends."""

from __future__ import annotations

import array
import faulthandler
import json
import mmap
import os
import resource
import select
import signal
import socket
import struct
import sys
from typing import Any

from penstock import _core
from penstock._executor import doing, process
from penstock._executor.failures import CodeError, from_exception
from penstock._executor.runner import Runner

SOCKET = 3
DUMP = 4
LOG = 5
MAX_DESCRIPTORS = 4


class Executor:
    def __init__(self, connection: socket.socket, memory: int) -> None:
        self.connection = connection
        self.memory = memory
        self.runner: Runner | None = None
        self.segments: dict[int, memoryview] = {}
        self.calls = select.poll()
        self.calls.register(connection, select.POLLIN)

    def serve(self) -> None:
        while True:
            received = self._receive()
            if received is None:
                return
            call, content, descriptors = received
            answer = self._answer(call, content, descriptors)
            if call["id"]:
                text = json.dumps(answer).encode()
                try:
                    self.connection.sendall(struct.pack("<IQ", len(text), call["id"]) + text)
                except OSError:  # the worker is gone, or this is a forked child of user code that has gone on
                    return
            if call["op"] == "write" or "written" in answer:
                self._work_ahead(call["lane"])

    def _work_ahead(self, lane: int) -> None:
        """While the worker seals and sends a block, rows of the next one are made; a call comes first."""
        assert self.runner is not None
        while not self.calls.poll(0) and self.runner.work_ahead(lane):
            pass

    def _answer(self, call: dict[str, Any], content: bytes, descriptors: list[int]) -> dict[str, Any]:
        try:
            self._map(call, descriptors)
            return self._do(call, content)
        except CodeError as error:
            return {"error": error.to_json()}
        except BaseException as error:
            return {"error": from_exception(error, "the executor", None).to_json()}

    def _do(self, call: dict[str, Any], content: bytes) -> dict[str, Any]:
        op = call["op"]
        if op == "plan":
            self.runner = Runner(content)
            return {}
        assert self.runner is not None
        if op == "open":
            self.runner.open(call["lane"], call)
            if self.memory:
                limit_memory(self.memory)  # now that libraries are loaded
                self.memory = 0
        elif op == "fill":
            return self._fill(call)
        elif op == "write":
            return self._write(call, call["places"])
        elif op == "close":
            self.runner.close(call["lane"])
        return {}

    def _fill(self, call: dict[str, Any]) -> dict[str, Any]:
        """Where the block is as the worker expected it, its memory came along."""
        assert self.runner is not None
        room = call.get("room")
        told = self.runner.fill(call["lane"], call, None if room else self._extent(call), call["input_over"])
        if not room or told["rows"] != room["rows"] or told["lengths"] != room["lengths"]:
            return told
        return {**told, "written": self._write(call, room["places"])}

    def _write(self, call: dict[str, Any], places: list[list[int]]) -> dict[str, Any]:
        block = self._extent(call)
        assert self.runner is not None
        assert block is not None
        crcs = self.runner.write(call["lane"], places, block)
        return {"crcs": crcs} if crcs else {}

    def _map(self, call: dict[str, Any], descriptors: list[int]) -> None:
        for gone in call.get("drop", []):
            self.segments.pop(gone, None)
        if "map" in call:
            self.segments[call["segment"]] = memoryview(mmap.mmap(descriptors[0], call["map"]))
        for descriptor in descriptors:
            os.close(descriptor)

    def _extent(self, call: dict[str, Any]) -> memoryview | None:
        if "segment" not in call:
            return None
        return self.segments[call["segment"]][call["offset"] : call["offset"] + call["bytes"]]

    def _receive(self) -> tuple[dict[str, Any], bytes, list[int]] | None:
        descriptors: list[int] = []
        head = b""
        while len(head) < 8:
            data, ancillary, _, _ = self.connection.recvmsg(8 - len(head), socket.CMSG_SPACE(MAX_DESCRIPTORS * 4))
            if not data:
                return None
            head += data
            for _level, _kind, payload in ancillary:
                numbers = array.array("i")
                numbers.frombytes(payload[: len(payload) - len(payload) % numbers.itemsize])
                descriptors.extend(numbers)
        text, content = struct.unpack("<II", head)
        body = self._exactly(text + content)
        if body is None:
            return None
        return json.loads(body[:text]), bytes(body[text:]), descriptors

    def _exactly(self, size: int) -> bytearray | None:
        body = bytearray(size)
        at = memoryview(body)
        while at:
            got = self.connection.recv_into(at)
            if not got:
                return None
            at = at[got:]
        return body


def limit_memory(allowed: int) -> None:
    """So that code which wants too much gets a MemoryError where it asks for it; the worker watches what is used."""
    with open("/proc/self/status") as status:
        used = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (used + allowed, resource.RLIM_INFINITY))


def release_output() -> None:
    """What is printed from now on goes to the worker's log, and so does what was said before: until here it was kept, for the case that this process
    could not begin.
    """
    sys.stdout.flush()
    for output in (sys.stdout, sys.stderr):
        os.dup2(LOG, output.fileno())
    os.close(LOG)
    said = os.pread(DUMP, os.fstat(DUMP).st_size, doing.PAGE)
    os.ftruncate(DUMP, doing.PAGE)
    os.lseek(DUMP, doing.PAGE, os.SEEK_SET)
    sys.stderr.buffer.write(said)


def main() -> None:
    release_output()
    _core.end_group_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable(file=DUMP, all_threads=True)
    faulthandler.register(signal.SIGUSR1, file=DUMP, all_threads=True)
    doing.share(DUMP)
    process.in_executor = True
    memory = int(sys.argv[1])
    sys.argv = ["penstock-executor"]
    connection = socket.socket(fileno=SOCKET)
    os.register_at_fork(after_in_child=connection.close)  # what user code forks has nothing to say to the worker
    Executor(connection, memory).serve()
    # User code's threads and exit handlers have no say in it, and what it has started ends with it.
    sys.stdout.flush()
    if os.getpid() == os.getpgrp():  # not a forked child of user code
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main()
