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
    """Started again it serves at the same address, from the same state: everybody finds it again.

    temporary: the directory is the service's own, and goes with it; any other is its user's, who may have more in it.
    """

    def __init__(self, host: str, directory: str, token: str, temporary: bool) -> None:
        self._state = Path(directory, "state")
        self._known = Path(directory, "address")
        self._token = token
        self._temporary = temporary
        Path(directory).mkdir(mode=0o700, parents=True, exist_ok=True)
        self._server = self._start(host)
        self._known.write_text(self._server.address)

    def _start(self, host: str) -> Server:
        here = f"[{host}]" if ":" in host else host
        before = self._known.read_text() if self._known.exists() else ""
        listen = before if before.rpartition(":")[0] == here else f"{here}:0"  # a node that is no more takes its address with it
        end = time.monotonic() + START_WITHIN
        while True:
            try:
                return Server("dispatcher", ["--listen", listen, "--state-dir", str(self._state)], self._token)
            except Unavailable as error:
                if time.monotonic() > end:
                    raise self._why_not(listen, error) from None
            time.sleep(0.1)

    def _why_not(self, listen: str, error: Unavailable) -> Unavailable:
        if listen.endswith(":0"):
            return error
        return Unavailable(f"{error}. It was to listen at {listen}, which {self._known} says it had before: without that file it takes a free port")

    def address(self) -> str:
        return f"penstock://{self._server.address}"

    def token(self) -> str:
        return self._token

    def forget(self) -> None:
        """Before it is ended for good. What its user named is kept: a service that is started with it goes on from there."""
        if not self._temporary:
            return
        shutil.rmtree(self._state, ignore_errors=True)
        self._known.unlink(missing_ok=True)
        self._known.parent.rmdir()


class Worker:
    def __init__(self, dispatcher: str, flags: Sequence[str], token: str) -> None:
        host = node_address()
        self._server = Server("worker", ["--dispatcher", dispatcher, "--listen", f"{host}:0", *flags], token)

    def address(self) -> str:
        return self._server.address

    def drain(self) -> None:
        self._server.drain()
