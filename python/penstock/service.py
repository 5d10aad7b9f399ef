"""Service: where a dataset is read. Addresses, the environment, and services of real processes on this machine."""

from __future__ import annotations

import atexit
import os
import re
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from penstock import _core, _identity, _waiting
from penstock._check import checked, flag, optional, seconds, size, text, whole, wrong
from penstock.errors import Invalid

if TYPE_CHECKING:
    from types import TracebackType

    from penstock import _processes

Kind = Literal["remote", "inline", "off"]

NAMED_WITHIN = 30.0  # seconds: who names a service has started it, or has misspelt it
PLATFORM_WITHIN = 600.0  # a platform starts servers and ranks in any order, and images take minutes to come
_MOST_OF_A_TOKEN_FILE = 64 * 1024  # bytes
_shared_local: dict[int, Service] = {}  # what "local[:N]" named in this process


class Service:
    """A service to read from. Connects when first used; `close` (or leaving the `with` block) ends what it started."""

    def __init__(
        self,
        address: str,
        *,
        kind: Kind = "remote",
        token: str = "",
        tls: tuple[str, str, str] = ("", "", ""),
        timeout: float = 30.0,
        shared_memory: bool = True,
        processes: _processes.Local | None = None,
        own: bool = False,
    ) -> None:
        self.address = address
        self.kind = kind
        self.own = own  # no other process can know of it: ranks that name it each have one
        self._token = token
        self._timeout = timeout
        self._tls = tls
        self._shared_memory = shared_memory
        self._processes = processes

    @cached_property
    def client(self) -> _core.Client:
        with _waiting.said(f"the dispatcher at {self.address}, which does not answer: is it started, and is this its address?", self._timeout):
            return _core.Client.connect(self.address, self._token, self._tls, self._timeout, self._shared_memory)

    @property
    def token(self) -> str:
        """What another program shows: `penstock.connect(service.address, token=service.token)`; "" for none. A secret: not for logs."""
        return self._token

    def close(self) -> None:
        self.__dict__.pop("client", None)
        if self._processes is not None:
            self._processes.stop()
            self._processes = None

    def __enter__(self) -> Service:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<penstock.Service {self.address}>"


@checked(token=optional(text), timeout=optional(seconds), shared_memory=flag)
def connect(
    service: str | None = None,
    *,
    token: str | None = None,
    tls: str | Mapping[str, str] | None = None,
    timeout: float | None = None,
    shared_memory: bool = True,
) -> Service:
    """A connection to a service, made now, so that what is wrong with it is said now.

    service: "penstock://host:5050" ("grpc://", "host:port" too), "unix:/path", "local[:N]", "inline", "off"; None: what the environment names
    (docs/reference/environment.md; `penstock doctor --env` shows it), else inline.
    token: None: the content of the file that `PENSTOCK_TOKEN_FILE` names, or `PENSTOCK_TOKEN`.
    tls: PEM file of the service's authority, or a mapping of "ca", "cert" and "key" where the service asks for certificates; None:
    `PENSTOCK_TLS_CA`, `PENSTOCK_TLS_CERT` and `PENSTOCK_TLS_KEY`, else plain.
    timeout: seconds for the service to be there, and for joining a job, which needs a worker. None: 30; 600 where a platform (TFJob, Kubernetes,
    Slurm, Ray) says where it is, or has started this process.
    """
    found = _find(service, token, tls, timeout, shared_memory)
    if found.kind == "remote":
        _ = found.client
    return found


@checked(workers=whole(1, 1024), memory=optional(size), timeout=seconds, shared_memory=flag)
def local(workers: int = 2, *, memory: int | str | None = None, timeout: float = 30.0, shared_memory: bool = True) -> Service:
    """A dispatcher and `workers` workers as processes of this machine, ended by `close` or at exit.

    They listen on loopback. Where the environment has no token, one is drawn: other users of the machine do not have it, this process and those
    that it starts show it by themselves (it is in `PENSTOCK_TOKEN` meanwhile), and for others there is the service's `token`.
    """
    return _start(workers, memory=memory, timeout=timeout, shared_memory=shared_memory, shown=True)


def _start(workers: int, *, memory: int | str | None = None, timeout: float = 30.0, shared_memory: bool = True, shown: bool = False) -> Service:
    from penstock import _processes

    processes = _processes.Local(workers, memory, shown=shown)
    token = processes.token or _token(None, processes.address)
    service = Service(processes.address, token=token, tls=_tls(None), timeout=timeout, shared_memory=shared_memory, processes=processes)
    atexit.register(service.close)
    return service


def resolve(service: Service | str | None, timeout: float | None) -> Service:
    """The service that an argument of `distribute` means; one that has to be connected to shall be there within `timeout`."""
    return service if isinstance(service, Service) else connect(service, timeout=timeout)


def within(identity: _identity.Identity) -> float:
    """How long the service that the environment names is waited for, where nobody says."""
    return PLATFORM_WITHIN if identity.on_platform else NAMED_WITHIN


def _find(service: str | None, token: str | None, tls: str | Mapping[str, str] | None, timeout: float | None, shared_memory: bool) -> Service:
    if service is None:
        identity = _identity.current()
        address, patience = identity.service_to_join(), within(identity)
    else:
        address, patience = _core.parse_service("service", named(service)), NAMED_WITHIN
    timeout = patience if timeout is None else timeout
    if address in ("inline", "off"):
        return Service(address, kind="inline" if address == "inline" else "off", own=address == "inline")
    match = re.fullmatch(r"local(?::(\d+))?", address)
    if match:
        return _local_of_process(int(match[1] or 2))
    return Service(address, token=_token(token, address), tls=_tls(tls), timeout=timeout, shared_memory=shared_memory)


def named(service: object) -> str:
    """A service's name as users write it."""
    if not isinstance(service, str):
        raise wrong("service", service, "an address such as 'penstock://host:5050', 'local', 'inline', or what connect() and local() return")
    return service


def _local_of_process(workers: int) -> Service:
    if workers not in _shared_local:
        _shared_local[workers] = _start(workers)
        _shared_local[workers].own = True
    return _shared_local[workers]


def _token(token: str | None, address: str) -> str:
    known = token if token is not None else _identity.ray_token(address)
    if known is not None:
        return known
    file = os.environ.get("PENSTOCK_TOKEN_FILE")
    if not file:
        return os.environ.get("PENSTOCK_TOKEN", "").rstrip("\r\n")
    try:
        with open(file, "rb") as opened:
            content = opened.read(_MOST_OF_A_TOKEN_FILE + 1)
        found = content.decode().rstrip("\r\n")
    except OSError as error:
        remedy = "copy the service's token there" if isinstance(error, FileNotFoundError) else "name a file that this user may read"
        raise Invalid(f"PENSTOCK_TOKEN_FILE names {file}, which cannot be read: {error.strerror}; {remedy}") from error
    except UnicodeDecodeError as error:
        raise Invalid(f"PENSTOCK_TOKEN_FILE names {file}, which holds no text, and so no token") from error
    if len(content) > _MOST_OF_A_TOKEN_FILE:
        raise Invalid(f"PENSTOCK_TOKEN_FILE names {file}, which is larger than 64 KiB, and so no token")
    if not found:
        raise Invalid(f"PENSTOCK_TOKEN_FILE names {file}, which is empty; write a token into it")
    return found


def _tls(tls: str | Mapping[str, str] | None) -> tuple[str, str, str]:
    """The PEM files of authority, certificate and key."""
    if tls is None:
        tls = {name: os.environ.get(f"PENSTOCK_TLS_{name.upper()}", "") for name in ("ca", "cert", "key")}
    if isinstance(tls, str):
        tls = {"ca": tls}
    if not isinstance(tls, Mapping):
        raise wrong("connect: tls", tls, "the path of a PEM file, or a mapping of 'ca', 'cert' and 'key' to such")
    unknown = sorted(set(tls) - {"ca", "cert", "key"})
    if unknown:
        raise Invalid(f"tls has {unknown}; it may have 'ca', 'cert' and 'key', each the path of a PEM file")
    return tls.get("ca", ""), tls.get("cert", ""), tls.get("key", "")
