"""What is done to a job. Each fault leaves dispatcher, workers and links as it found them: running and whole."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .job import Job, Rank, wait_for
from .network import NetworkCluster

if TYPE_CHECKING:
    from .run import Setting

MOST_RANKS = 5
FIRST_BATCH_WITHIN = 60.0


@dataclass
class Hit:
    """What a fault is given, and what it measured beside the loops' waits."""

    setting: Setting
    job: Job
    choice: random.Random
    spared: Sequence[Rank] = ()  # ranks that were hit themselves
    measured: dict[str, float] = field(default_factory=dict)  # kind: seconds
    watched: bool = True  # False: the loops that were running are gone

    @property
    def network(self) -> NetworkCluster:
        cluster = self.setting.cluster
        assert isinstance(cluster, NetworkCluster)
        return cluster


@dataclass(frozen=True)
class Fault:
    name: str
    strike: Callable[[Hit], None]
    target: float | None = None  # seconds that a loop may wait, 99 times in a hundred
    weight: int = 2
    spares: bool = False  # loops live on spare grants meanwhile: at the epoch's end there are none
    links: bool = False  # it needs links that can be cut
    restores: bool = False  # it needs a checkpoint
    rebuilds: bool = False  # it needs all ranks: what one that has left had is known to nobody then


def kill_worker(hit: Hit) -> None:
    _kill_workers(hit, [hit.choice.choice(hit.setting.cluster.workers)])


def kill_all_workers(hit: Hit) -> None:
    _kill_workers(hit, list(hit.setting.cluster.workers))


def _kill_workers(hit: Hit, victims: list[subprocess.Popen[bytes]]) -> None:
    _end_workers(hit, victims)
    if hit.setting.cluster.workers:
        _pause(hit, 0.0, 0.5)
    for _ in victims:
        hit.setting.cluster.start_worker()
    hit.setting.cluster.wait_until_ready()


def _end_workers(hit: Hit, victims: list[subprocess.Popen[bytes]]) -> None:
    for victim in victims:
        victim.kill()
    for victim in victims:
        victim.wait()
        hit.setting.cluster.workers.remove(victim)


def stop_worker(hit: Hit) -> None:
    with _stopped(hit.choice.choice(hit.setting.cluster.workers)):
        _short_or_silent(hit)


def kill_dispatcher(hit: Hit) -> None:
    _end_dispatcher(hit)
    _pause(hit, 0.0, 0.5)
    _start_dispatcher(hit)


def kill_dispatcher_and_worker(hit: Hit) -> None:
    _end_dispatcher(hit)
    _end_workers(hit, [hit.choice.choice(hit.setting.cluster.workers)])
    _pause(hit, 0.0, 0.5)
    _start_dispatcher(hit)
    hit.setting.cluster.start_worker()
    hit.setting.cluster.wait_until_ready()


def empty_dispatcher(hit: Hit) -> None:
    _end_dispatcher(hit)
    shutil.rmtree(hit.setting.cluster.directory / "state")
    _start_dispatcher(hit)


def stop_dispatcher(hit: Hit) -> None:
    with _stopped(hit.setting.cluster.dispatcher):
        _short_or_silent(hit)


def stop_rank(hit: Hit) -> None:
    victim = hit.choice.choice(hit.job.ranks)
    hit.spared = [victim]
    with _stopped(victim.process):
        _short_or_silent(hit)


def cut_worker(hit: Hit) -> None:
    with _cut(hit.network, hit.network.host_of(hit.choice.choice(hit.network.workers))):
        _short_or_silent(hit)


def cut_dispatcher(hit: Hit) -> None:
    with _cut(hit.network, hit.network.dispatcher_host):
        _short_or_silent(hit)


def cut_rank(hit: Hit) -> None:
    victim = hit.choice.randrange(len(hit.job.ranks))
    hit.spared = [hit.job.ranks[victim]]
    with _cut(hit.network, hit.network.rank_hosts[victim]):
        _short_or_silent(hit)


def delay_worker(hit: Hit) -> None:
    with _delayed(hit, hit.network.host_of(hit.choice.choice(hit.network.workers))):
        _short_or_silent(hit)


def delay_dispatcher(hit: Hit) -> None:
    with _delayed(hit, hit.network.dispatcher_host):
        _short_or_silent(hit)


def restore_ranks(hit: Hit) -> None:
    hit.job.kill()
    _restore(hit)


def restore_ranks_and_dispatcher(hit: Hit) -> None:
    hit.job.kill()
    _end_dispatcher(hit)
    _start_dispatcher(hit)
    _restore(hit)


def restore_on_an_empty_dispatcher(hit: Hit) -> None:
    hit.job.kill()
    empty_dispatcher(hit)
    _restore(hit)


def _restore(hit: Hit) -> None:
    hit.watched = False
    hit.job.restore(hit.choice, hit.choice.randint(1, MOST_RANKS))
    if wait_for(hit.job.begun, FIRST_BATCH_WITHIN):
        hit.measured["restore to first batch"] = hit.job.restored_in()


FAULTS = (
    Fault("worker kill -9", kill_worker, target=1.0, weight=5),
    Fault("all workers kill -9", kill_all_workers, weight=1),
    Fault("worker SIGSTOP", stop_worker, target=5.0, weight=3),
    Fault("worker link cut", cut_worker, target=5.0, links=True),
    Fault("worker link delayed", delay_worker, target=5.0, links=True, weight=1),
    Fault("dispatcher kill -9", kill_dispatcher, target=0.1, weight=4, spares=True),
    Fault("dispatcher and worker kill -9", kill_dispatcher_and_worker, target=1.0),
    Fault("dispatcher kill -9, state emptied", empty_dispatcher, rebuilds=True),
    Fault("dispatcher SIGSTOP", stop_dispatcher, weight=1),
    Fault("dispatcher link cut", cut_dispatcher, links=True),
    Fault("dispatcher link delayed", delay_dispatcher, links=True, weight=1),
    Fault("rank SIGSTOP", stop_rank, weight=1),
    Fault("rank link cut", cut_rank, links=True),
    Fault("ranks kill -9, restore", restore_ranks, restores=True, weight=4),
    Fault("ranks, dispatcher kill -9, restore", restore_ranks_and_dispatcher, restores=True),
    Fault("ranks, state emptied, restore", restore_on_an_empty_dispatcher, restores=True, weight=1),
)
TARGETS = {
    **{fault.name: fault.target for fault in FAULTS if fault.target is not None},
    "dispatcher start to serving": 1.0,
    "restore to first batch": 2.0,
}


def _end_dispatcher(hit: Hit) -> None:
    hit.setting.cluster.dispatcher.kill()
    hit.setting.cluster.dispatcher.wait()


def _start_dispatcher(hit: Hit) -> None:
    begin = time.monotonic()
    hit.setting.cluster.start_dispatcher()
    hit.setting.cluster.wait_until_ready()
    hit.measured["dispatcher start to serving"] = time.monotonic() - begin


@contextmanager
def _stopped(process: subprocess.Popen[bytes]) -> Iterator[None]:
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


@contextmanager
def _cut(cluster: NetworkCluster, host: int) -> Iterator[None]:
    cluster.network.cut(host)
    try:
        yield
    finally:
        cluster.network.mend(host)


@contextmanager
def _delayed(hit: Hit, host: int) -> Iterator[None]:
    hit.network.network.delay(host, hit.choice.uniform(0.02, 0.5))
    try:
        yield
    finally:
        hit.network.network.mend(host)


def _short_or_silent(hit: Hit) -> None:
    """Mostly a hiccup; sometimes longer than the 3 s after which a silent peer counts as lost."""
    _pause(hit, *((0.05, 1.0) if hit.choice.random() < 0.6 else (3.2, 5.0)))


def _pause(hit: Hit, shortest: float, longest: float) -> None:
    time.sleep(hit.choice.uniform(shortest, longest))
