"""What runs in Ray's processes. A server is the executable, as a child of its actor: one does not outlive the other, so Ray restarts both."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock import _binary
from penstock.errors import Unavailable

START_WITHIN = 15.0  # seconds in which a killed dispatcher's port and state are free again


def node_address() -> str:
    import ray

    address: Any = ray.util.get_node_ip_address
    return str(address())


def _environment(token: str) -> dict[str, str]:
    """This process's, but for a token of others."""
    inherited = {name: value for name, value in _binary.environment().items() if name != "PENSTOCK_TOKEN_FILE"}
    return {**inherited, "PENSTOCK_TOKEN": token}


class Server:
    """A `penstock` server, from when it serves. Ray runs an actor's constructor on its main thread, which lives as long as the process."""

    def __init__(self, role: str, flags: Sequence[str], token: str) -> None:
        ready, says_ready = os.pipe()
        self.process = subprocess.Popen(
            [_binary.path(), role, *flags, "--ready-fd", str(says_ready), "--parent", str(os.getpid())],
            stdin=subprocess.DEVNULL,
            pass_fds=[says_ready],
            env=_environment(token),
        )
        os.close(says_ready)
        self.address = os.read(ready, 4096).decode().strip()  # nothing, where it ends before it is ready
        os.close(ready)
        self._asked_to_end = False
        if not self.address:
            raise Unavailable(f"the {role} ended with {self.process.wait()} before it was ready; Ray's logs of this actor say why")
        threading.Thread(target=self._end_with_it, name="penstock-watch", daemon=True).start()

    def drain(self) -> None:
        """Its consumers move on at a block's edge, and it exits."""
        self._asked_to_end = True
        self.process.terminate()
        self.process.wait()

    def _end_with_it(self) -> None:
        self.process.wait()
        if not self._asked_to_end:
            os._exit(1)


class Dispatcher:
    """Started again it serves at the same address, from the same state: everybody finds it again."""

    def __init__(self, host: str, directory: str, token: str) -> None:
        self._directory = Path(directory)
        self._token = token
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        known = self._directory / "address"
        listen = known.read_text() if known.exists() else f"{host}:0"
        self._server = self._start(listen)
        known.write_text(self._server.address)

    def _start(self, listen: str) -> Server:
        end = time.monotonic() + START_WITHIN
        while True:
            try:
                return Server("dispatcher", ["--listen", listen, "--state-dir", str(self._directory / "state")], self._token)
            except Unavailable:
                if time.monotonic() > end:
                    raise
            time.sleep(0.1)

    def address(self) -> str:
        return f"penstock://{self._server.address}"

    def token(self) -> str:
        return self._token

    def forget(self) -> None:
        """Before it is ended for good."""
        shutil.rmtree(self._directory, ignore_errors=True)


class Worker:
    def __init__(self, dispatcher: str, flags: Sequence[str], token: str) -> None:
        host = node_address()
        self._server = Server("worker", ["--dispatcher", dispatcher, "--listen", f"{host}:0", *flags], token)

    def address(self) -> str:
        return self._server.address

    def drain(self) -> None:
        self._server.drain()
