"""DispatchServer, WorkerServer and their configurations: `penstock dispatcher` and `penstock worker` as children of this process."""

from __future__ import annotations

import os
import select
import subprocess
import threading
from typing import NamedTuple

from penstock import _binary, _waiting
from penstock.errors import Deadline, Invalid, Unavailable

START_WITHIN = 600.0  # seconds: a worker waits for its dispatcher
END_WITHIN = 5.0
_PORT = "%port%"

# The server ends with this process, however it ends: its input is a pipe whose other end goes with it.
_WITH_PARENT = (
    '"$@" </dev/null & server=$!; trap "kill -TERM $server" TERM; (cat >/dev/null; kill -TERM $server 2>/dev/null) <&3 3<&- & '
    "wait $server; wait $server"
)


class DispatcherConfig(NamedTuple):
    """port: 0: any free one, on this host only; others are served on the network.
    work_dir: a directory of this host, for fault_tolerant_mode: what the dispatcher answers, it has written there.
    protocol: named in the target, and without meaning.
    The others are accepted, and mean nothing here: no list of workers is needed, jobs and workers that are gone are found by their leases.
    """

    port: int = 0
    protocol: str | None = None
    work_dir: str | None = None
    fault_tolerant_mode: bool = False
    worker_addresses: list[str] | None = None
    job_gc_check_interval_ms: int | None = None
    job_gc_timeout_ms: int | None = None
    worker_timeout_ms: int | None = None
    worker_max_concurrent_snapshots: int = 0


class WorkerConfig(NamedTuple):
    """worker_address: "host", "host:port" or "host:%port%": how consumers reach it; the default is this host only.
    heartbeat_interval_ms and what concerns data transfer are accepted, and mean nothing here.
    """

    dispatcher_address: str
    worker_address: str | None = None
    port: int = 0
    protocol: str | None = None
    heartbeat_interval_ms: int | None = None
    dispatcher_timeout_ms: int | None = None
    data_transfer_protocol: str | None = None
    data_transfer_address: str | None = None


class _Server:
    """A child, which is told to end when this object goes."""

    def __init__(self, role: str, flags: list[str], within: float) -> None:
        self._role = role
        self._flags = flags
        self._within = within
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self.bound_port = 0

    def start(self) -> None:
        if self._process is not None:
            return
        ready, says_ready = os.pipe()
        command = [_binary.path(), self._role, *self._flags, "--ready-fd", str(says_ready)]
        self._process = subprocess.Popen(
            ["sh", "-c", f"exec 3<&0; {_WITH_PARENT}", "penstock", *command],
            stdin=subprocess.PIPE,
            pass_fds=[says_ready],
            env={"PENSTOCK_LOG": "warn", **_binary.environment()},
            start_new_session=True,  # Ctrl-C is for the program
        )
        os.close(says_ready)
        with os.fdopen(ready, "rb") as said:
            self._wait(said.fileno())

    def _wait(self, ready: int) -> None:
        with _waiting.said(f"the {self._role} to be ready, which a worker is when its dispatcher knows it", self._within):
            answered = select.select([ready], [], [], self._within)[0]
        address = os.read(ready, 4096).decode().strip() if answered else ""
        if address:
            self.bound_port = int(address.rpartition(":")[2])
            return
        self.stop()
        if answered:
            raise Unavailable(f"the {self._role} ended before it was ready; what it said is above")
        raise Deadline(f"the {self._role} is not ready after {self._within:.0f} s; is its dispatcher there?")

    def join(self) -> None:
        if self._process is not None:
            self._process.wait()

    def stop(self) -> None:
        """Also while another thread joins. In a forked child, whose it is not, nothing."""
        with self._lock:
            process, self._process = self._process, None
        if process is None or os.getpid() != self._owner:
            return
        process.terminate()
        try:
            process.wait(END_WITHIN)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
        assert process.stdin is not None
        process.stdin.close()


class DispatchServer:
    """A dispatcher on this machine; it stops when this object goes.

    config: a `DispatcherConfig`.
    start: False: `start()` does it later.
    """

    def __init__(self, config: DispatcherConfig | None = None, start: bool = True) -> None:
        config = config or DispatcherConfig()
        if config.fault_tolerant_mode and not config.work_dir:
            raise Invalid("fault_tolerant_mode needs a work_dir, in which the dispatcher keeps what it answers")
        if config.work_dir and "://" in config.work_dir:
            raise Invalid(f"work_dir={config.work_dir!r}: the dispatcher keeps its state in a directory of its host; name one, on a disk that stays")
        self._config = config
        flags = ["--listen", f"127.0.0.1:{config.port}" if config.port == 0 else f"0.0.0.0:{config.port}"]
        if config.fault_tolerant_mode:
            flags += ["--state-dir", str(config.work_dir)]
        self._server = _Server("dispatcher", [*flags, "--without-token"], START_WITHIN)
        if start:
            self.start()

    def start(self) -> None:
        self._server.start()

    def join(self) -> None:
        """Returns when the server has ended."""
        self._server.join()

    def stop(self) -> None:
        self._server.stop()

    @property
    def target(self) -> str:
        """What `distribute` takes as its service."""
        return f"{self._config.protocol or 'grpc'}://{self._address}"

    @property
    def _address(self) -> str:
        return f"localhost:{self._server.bound_port}"

    def __del__(self) -> None:
        if hasattr(self, "_server"):
            self._server.stop()


class WorkerServer:
    """A worker on this machine, which runs the graphs that programs register; it stops when this object goes.

    config: a `WorkerConfig`.
    start: False: `start()` does it later.
    """

    def __init__(self, config: WorkerConfig, start: bool = True) -> None:
        if config.dispatcher_address is None:
            raise Invalid("WorkerConfig needs a dispatcher_address: 'host:5050'")
        host, _, port = (config.worker_address or "localhost").partition(":")
        listens = "127.0.0.1" if host in ("localhost", "127.0.0.1") else "0.0.0.0"
        advertised = host if port in ("", _PORT) else f"{host}:{port}"
        flags = ["--dispatcher", config.dispatcher_address, "--listen", f"{listens}:{config.port}", "--allow-code", "--drain-timeout", "0s"]
        if listens == "0.0.0.0":
            flags += ["--advertise", advertised, "--without-token"]
        within = START_WITHIN if config.dispatcher_timeout_ms is None else config.dispatcher_timeout_ms / 1000
        flags += ["--start-timeout", f"{within + 60:g}s"]  # who waits for it here gives up first
        self._server = _Server("worker", flags, within)
        if start:
            self.start()

    def start(self) -> None:
        """Returns when the dispatcher knows it."""
        self._server.start()

    def join(self) -> None:
        """Returns when the server has ended."""
        self._server.join()

    def stop(self) -> None:
        self._server.stop()

    @property
    def _address(self) -> str:
        return f"localhost:{self._server.bound_port}"

    def __del__(self) -> None:
        if hasattr(self, "_server"):
            self._server.stop()
