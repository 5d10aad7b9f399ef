"""Every process in a network namespace of its own, on one bridge, so that links can be cut or slowed without either end being told."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from pathlib import Path

from penstock._processes import Cluster
from penstock.errors import Unavailable

from .delay import DelayedWire

SUBNET = "10.231.7"
PORT = 5050


def why_not() -> str:
    """Why links cannot be cut here; "" where they can."""
    if os.geteuid() != 0:
        return "network namespaces are root's"
    if not shutil.which("ip"):
        return "there is no `ip` (iproute2)"
    name = f"pk-{os.getpid()}-try"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if tried.returncode:
        return f"`ip netns add` says: {tried.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return ""


class Network:
    """A bridge in a namespace of its own, and a namespace for each host. Nothing of this machine's own network is touched."""

    def __init__(self) -> None:
        self._name = f"pk-{os.getpid()}"
        self._hosts: list[str] = []
        self._delayed: dict[int, DelayedWire] = {}
        self._hub = f"{self._name}-hub"
        _ip("netns", "add", self._hub)
        _ip("-n", self._hub, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self._hub, "link", "set", "bridge", "up")

    def add(self) -> int:
        """A host; its number."""
        host = len(self._hosts) + 1
        name = f"{self._name}-{host}"
        _ip("netns", "add", name)
        self._hosts.append(name)
        _ip("-n", self._hub, "link", "add", f"to{host}", "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("-n", self._hub, "link", "set", f"to{host}", "master", "bridge", "up")
        _ip("-n", name, "addr", "add", f"{address(host)}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        _ip("-n", name, "link", "set", "lo", "up")
        return host

    def through(self, host: int) -> list[str]:
        """The command that runs another on this host, as the same process."""
        return ["ip", "netns", "exec", self._hosts[host - 1]]

    def cut(self, host: int) -> None:
        _ip("-n", self._hub, "link", "set", f"to{host}", "nomaster")

    def mend(self, host: int) -> None:
        if host in self._delayed:
            self._delayed.pop(host).remove()
            _ip("-n", self._hub, "link", "del", f"late{host}")
        _ip("-n", self._hub, "link", "set", f"to{host}", "master", "bridge")

    def delay(self, host: int, seconds: float) -> None:
        """Everything from and to the host takes so much longer each way, until it is mended."""
        _ip("-n", self._hub, "link", "add", f"late{host}", "type", "veth", "peer", "name", f"port{host}")
        _ip("-n", self._hub, "link", "set", f"to{host}", "nomaster")
        _ip("-n", self._hub, "link", "set", f"port{host}", "master", "bridge", "up")
        _ip("-n", self._hub, "link", "set", f"late{host}", "up")
        self._delayed[host] = DelayedWire(self._hub, (f"to{host}", f"late{host}"), seconds)

    def narrow(self, host: int, rate: str) -> None:
        """What the host sends goes no faster than that ("100mbit"). Unavailable where the kernel has no such queue."""
        command = [*self.through(host), "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "128kb", "latency", "50ms"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"`tc` says: {done.stderr.strip()}")

    def remove(self) -> None:
        for wire in self._delayed.values():
            wire.remove()
        for name in [*self._hosts, self._hub]:
            _ip("netns", "del", name)


class NetworkCluster(Cluster):
    """A cluster whose parts meet over TCP, each on a host of its own; ranks too, on `rank_hosts`."""

    def __init__(self, workers: int, ranks: int, directory: Path) -> None:
        self.network = Network()
        self.dispatcher_host = self.network.add()
        self.rank_hosts = [self.network.add() for _ in range(ranks)]
        self._worker_on: dict[int, subprocess.Popen[bytes]] = {}  # and the worker on each
        token = directory / "token"
        token.write_text(secrets.token_hex(16))
        token.chmod(0o600)
        super().__init__(workers=workers, directory=directory, token_file=token, log="info")

    def start_dispatcher(self) -> None:
        self.address = f"{address(self.dispatcher_host)}:{PORT}"
        state = str(self.directory / "state")
        self.dispatcher = self._start(
            "dispatcher", "--listen", self.address, "--state-dir", state, through=self.network.through(self.dispatcher_host)
        )

    def start_worker(self) -> None:
        host = self._free_host()
        flags = ["--dispatcher", self.address, "--listen", f"{address(host)}:0", *self._worker_flags]
        self.workers.append(self._start("worker", *flags, through=self.network.through(host)))
        self._worker_on[host] = self.workers[-1]

    def host_of(self, worker: subprocess.Popen[bytes]) -> int:
        return next(host for host, there in self._worker_on.items() if there is worker)

    def _free_host(self) -> int:
        return next((host for host, there in self._worker_on.items() if there.poll() is not None), None) or self.network.add()

    def stop(self) -> None:
        super().stop()
        self.network.remove()


def address(host: int) -> str:
    return f"{SUBNET}.{host}"


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
