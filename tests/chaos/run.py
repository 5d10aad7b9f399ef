"""Histories, one after the other: each is one epoch of a job, struck until it ends."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from penstock._processes import Cluster
from penstock.tfrecord import write_tfrecord

from . import network
from .faults import FAULTS, MOST_RANKS, Fault, Hit
from .job import Job, Shape, wait_for
from .network import NetworkCluster
from .rank import BATCH, PLACES, dataset_of
from .report import Report

ROWS_A_FILE, PAYLOAD = 1500, 1024
SHUFFLE = (0, 200)  # shuffled, lanes are few and mix files; else a file is a lane
WORKERS = 3
MEMORY = ("2MiB", "8MiB", "64MiB")  # 64 batches or more; where it is little, a stop is felt soon
SETTLED = 0.5  # seconds after a fault in which a wait is still its own
PATIENCE = 90.0  # seconds without a batch to some loop, beyond which it hangs


@dataclass
class Setting:
    """Where a job runs: the cluster, and where its ranks are."""

    cluster: Cluster
    directory: Path
    files: str
    rows: int
    batches: int
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def links(self) -> bool:
        return isinstance(self.cluster, NetworkCluster)

    def through(self, rank: int) -> list[str]:
        cluster = self.cluster
        return cluster.network.through(cluster.rank_hosts[rank]) if isinstance(cluster, NetworkCluster) else []


class Hangs(Exception):
    pass


class Chaos:
    """`only`: faults whose names contain it."""

    def __init__(self, faults: int, seed: int, directory: Path, modes: Sequence[str], only: str, files: int) -> None:
        self.choice = random.Random(seed)
        self.left = faults
        self.modes = modes
        self.files = files
        self.faults = [fault for fault in FAULTS if only in fault.name]
        self.directory = directory
        self.report = Report()
        self.settings: list[Setting] = []
        self.orders: dict[int, list[int]] = {}  # by the shuffle's buffer

    def run(self) -> Report:
        begin = time.monotonic()
        try:
            self._prepare()
            number = 0
            while self.left > 0 and not self.report.wrong:
                mode = self.modes[number % len(self.modes)]
                setting = self.settings[number // len(self.modes) % len(self.settings)]
                self._history(Job(setting, f"chaos-{number}", self._shape(mode), self.choice.randint(1, MOST_RANKS)))
                number += 1
        finally:
            for setting in self.settings:
                setting.cluster.stop()
        self.report.seconds = time.monotonic() - begin
        return self.report

    def _shape(self, mode: str) -> Shape:
        return Shape(mode, self.choice.choice(MEMORY), self.choice.choice(SHUFFLE))

    def _prepare(self) -> None:
        for file in range(self.files):
            rows = ({"id": file * ROWS_A_FILE + i, "payload": bytes(PAYLOAD)} for i in range(ROWS_A_FILE))
            write_tfrecord(self.directory / f"part-{file:03}.tfrecord.gz", rows, "gzip")
        where = self._directory("one-host")
        self._add(Cluster(workers=WORKERS, directory=where, log="info"))
        reason = network.why_not()
        if reason:
            print(f"links are not cut here: {reason}", flush=True)
            return
        where = self._directory("network")
        self._add(NetworkCluster(WORKERS, MOST_RANKS, where), PENSTOCK_TOKEN_FILE=str(where / "token"))

    def _directory(self, name: str) -> Path:
        (self.directory / name).mkdir()
        return self.directory / name

    def _add(self, cluster: Cluster, **environment: str) -> None:
        files, rows = str(self.directory / "*.tfrecord.gz"), self.files * ROWS_A_FILE
        self.settings.append(Setting(cluster, cluster.directory, files, rows, rows // BATCH, environment))
        cluster.wait_until_ready()

    def _history(self, job: Job) -> None:
        try:
            self._strike_until_over(job)
        except Hangs as reason:
            said = "\n".join(rank.errors() for rank in job.ranks)
            self.report.wrong.append(f"{job.name} ({job.shape.mode}) hangs: {reason}\n{said}")
        finally:
            job.kill()
        self.report.wrong += job.failures()
        if not self.report.wrong:
            count = job.count(self._order(job.shape) if job.shape.mode == "strict" else None)
            self.report.add(job.shape.mode, count)
            if not count.right:
                self.report.wrong.append(f"{job.name} ({job.shape.mode}) in {job.setting.directory}: {count}")

    def _order(self, shape: Shape) -> list[int]:
        """Of strict, as one process alone reads it."""
        if shape.shuffle not in self.orders:
            dataset = dataset_of(str(self.directory / "*.tfrecord.gz"), shape.shuffle)
            reader = dataset.distribute("inline", processing_mode="strict", places=PLACES)
            self.orders[shape.shuffle] = [row for batch in reader for row in batch["id"].tolist()]
        return self.orders[shape.shuffle]

    def _strike_until_over(self, job: Job) -> None:
        self._wait(job, job.begun, "its first batches")
        while not job.over():
            wait_for(job.over, self.choice.uniform(0.1, 0.6))
            if self.left == 0:
                self._wait(job, job.over, "its end")
            elif any(rank.reading for rank in job.ranks) and (fault := self._choose(job)):
                self._strike(job, fault)

    def _strike(self, job: Job, fault: Fault) -> None:
        self.left -= 1
        self.report.faults += 1
        self.report.restores += fault.restores
        hit = Hit(job.setting, job, self.choice)
        kind = fault.name if job.has_spares() or not fault.spares else f"{fault.name}, no spare grants"
        begin = time.monotonic()
        fault.strike(hit)
        end = time.monotonic() + SETTLED
        self._wait(job, lambda: time.monotonic() > end and not job.waiting(end), f"batches after: {fault.name}")
        if hit.watched:
            hit.measured[kind] = job.longest_wait(begin, end, hit.spared)
        for kind, seconds in hit.measured.items():
            self.report.waits[kind].append(seconds)
        with open(self.directory / "faults.log", "a") as journal:
            print(datetime.now(timezone.utc).time(), job.name, job.shape.mode, len(job.ranks), fault.name, hit.measured, file=journal)

    def _choose(self, job: Job) -> Fault | None:
        whole, saved = all(rank.reading for rank in job.ranks) and job.early(), job.saved()
        possible = [
            fault
            for fault in self.faults
            if (job.setting.links or not fault.links) and (saved or not fault.restores) and (whole or not fault.rebuilds)
        ]
        return self.choice.choices(possible, [fault.weight for fault in possible])[0] if possible else None

    def _wait(self, job: Job, condition: Callable[[], bool], what: str) -> None:
        def done() -> bool:
            return bool(job.failures()) or condition()

        if not wait_for(done, PATIENCE):
            raise Hangs(f"no {what} within {PATIENCE:.0f} s")
