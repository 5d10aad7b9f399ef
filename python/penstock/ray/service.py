"""The service's handle, in the program that starts it."""

from __future__ import annotations

import contextlib
import math
import secrets
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import ray

from penstock import _core, _identity
from penstock._check import checked, flag, optional, seconds, size, text, whole, wrong
from penstock.errors import Deadline, Exists
from penstock.ray import actors
from penstock.service import Service

_workers = whole(0, 100_000)
FORGOTTEN_WITHIN = 10.0  # seconds for Ray to free the name of an actor that was ended


class RayService(Service):
    """A service whose parts are actors. Tasks and actors of the cluster find it by themselves, and this program may give it to `distribute`.

    Actors that die, with their node or without, are started again by Ray; so is the dispatcher, on the node of the program that called `start`,
    with its state and address. The service ends with that program, or with `stop`.
    """

    def __init__(self, dispatcher: Any, address: str, token: str, worker: Any, timeout: float) -> None:
        super().__init__(address, token=token, timeout=timeout)
        self._dispatcher = dispatcher
        self._worker = worker  # makes one
        self._within = timeout
        self._actors: list[Any] = []

    @property
    def token(self) -> str:
        """What programs outside of the Ray cluster show: `penstock.connect(service.address, token=service.token)`. A secret: not for logs."""
        return self._token

    @property
    def num_workers(self) -> int:
        """As many as were asked for; those that Ray starts again are among them."""
        return len(self._actors)

    @checked(num_workers=_workers, timeout=optional(seconds))
    def scale(self, num_workers: int, *, timeout: float | None = None) -> None:
        """Starts workers, or drains them: what they were reading goes on elsewhere. Returns when all are there, or gone.

        timeout: seconds for Ray to place them; None: as given to `start`. Where it does not, those that were there before stay.
        """
        self._drain(self._actors[num_workers:])
        added = [self._worker() for _ in range(num_workers - len(self._actors))]
        try:
            _wait_for(added, self._within if timeout is None else timeout)
        except BaseException:
            for actor in added:
                ray.kill(actor)
            raise
        self._actors += added

    def _drain(self, leaving: list[Any]) -> None:
        """One that is not gone in the end is still known: `stop` ends it."""
        for actor, drained in [(actor, actor.drain.remote()) for actor in leaving]:
            with contextlib.suppress(ray.exceptions.RayActorError):  # it died before it was drained
                ray.get(drained)
            ray.kill(actor)
            self._actors.remove(actor)

    def stop(self) -> None:
        """Ends all of it, and forgets the state, unless `start` was given a directory for it. Idempotent."""
        super().close()
        for actor in self._actors:
            ray.kill(actor)
        self._actors = []
        if self._dispatcher is not None:
            ray.get(self._dispatcher.forget.remote())
            ray.kill(self._dispatcher)
            self._dispatcher = None
            _wait_until_unnamed()

    close = stop

    def __enter__(self) -> RayService:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise wrong(name, value, "a number of CPUs, from 0")
    return value


@checked(
    num_workers=_workers, cpus_per_worker=_positive, memory=size, state_dir=optional(text), token=optional(text), allow_code=flag, timeout=seconds
)
def start(
    num_workers: int = 2,
    *,
    cpus_per_worker: float = 1,
    memory: int | str = "1GiB",
    state_dir: str | None = None,
    token: str | None = None,
    allow_code: bool = True,
    timeout: float = 60.0,
) -> RayService:
    """A dispatcher and `num_workers` workers as actors of this Ray cluster, spread over its nodes; returns when they serve.

    cpus_per_worker: what Ray sets aside for each, and how many threads it reads with, rounded up.
    memory: what each worker holds in blocks and operators' buffers at most.
    state_dir: where the dispatcher keeps its state, on this program's node: it stays there when the service has ended, and a service that is
        started with it goes on from it. None: a directory that goes with the service.
    token: what all of them ask for; None: one that is drawn here. Programs of the cluster get it from the dispatcher's actor, others from
        `RayService.token`, or from whoever gave it.
    allow_code: workers run the functions and datasets that programs of the cluster send: as Ray's own processes do.
    timeout: seconds for Ray to place the actors, and for connecting.
    """
    if token is not None:
        _core.check_cluster_token(token)
    if not ray.is_initialized():
        ray.init()
    _refuse_second()
    directory = state_dir or str(Path(tempfile.gettempdir()) / f"penstock-ray-{secrets.token_hex(4)}")
    secret = token or secrets.token_hex(32)
    flags = ["--memory", str(memory), "--cpus", str(max(1, math.ceil(cpus_per_worker))), *(["--allow-code"] if allow_code else [])]
    kind: Any = ray.remote(actors.Worker)
    dispatcher = _dispatcher(directory, secret, temporary=state_dir is None)
    try:
        address = _within(dispatcher.address.remote(), timeout)
    except BaseException:
        ray.kill(dispatcher)
        raise

    def worker() -> Any:
        return kind.options(num_cpus=cpus_per_worker, max_restarts=-1, scheduling_strategy="SPREAD").remote(address, flags, secret)

    service = RayService(dispatcher, address, secret, worker, timeout)
    try:
        service.scale(num_workers)
    except BaseException:
        service.stop()
        raise
    return service


def _wait_for(workers: list[Any], timeout: float) -> None:
    if not workers:
        return
    ready, missing = ray.wait([worker.address.remote() for worker in workers], num_returns=len(workers), timeout=timeout)
    if missing:
        raise Deadline(
            f"{len(missing)} of {len(workers)} workers were not placed within {timeout:.0f} s: `ray status` says what the cluster has room for; "
            "ask for fewer, or give cpus_per_worker="
        )
    ray.get(ready)  # raises what one of them could not start for


def _wait_until_unnamed() -> None:
    """Ray ends an actor some time after it is told to, and until then another service could not be started."""
    deadline = time.monotonic() + FORGOTTEN_WITHIN
    while time.monotonic() < deadline:
        try:
            ray.get_actor(_identity.RAY_ACTOR, namespace=_identity.RAY_NAMESPACE)
        except ValueError:
            return
        time.sleep(0.02)


def _refuse_second() -> None:
    address = _identity.ray_dispatcher_address()
    if address is not None:
        raise Exists(f"this Ray cluster has a penstock service at {address} already, which its programs find; stop it before another is started")


def _dispatcher(directory: str, token: str, *, temporary: bool) -> Any:
    """On this node: its address and its state stay the same when it is started again."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    kind: Any = ray.remote(actors.Dispatcher)
    named = kind.options(
        name=_identity.RAY_ACTOR, namespace=_identity.RAY_NAMESPACE, num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy=here
    )
    return named.remote(actors.node_address(), directory, token, temporary)


def _within(answer: Any, timeout: float) -> Any:
    try:
        return ray.get(answer, timeout=timeout)
    except ray.exceptions.GetTimeoutError:
        raise Deadline(f"the dispatcher was not placed within {timeout:.0f} s: `ray status` says what the cluster has room for") from None
