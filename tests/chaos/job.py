"""One epoch of one job through all its starts: the ranks as processes, what they wrote, and what of it counts."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from .checker import Count, Leg, count

if TYPE_CHECKING:
    from .run import Setting

PROGRAM = Path(__file__).with_name("rank.py")
PACE = 0.003  # seconds a batch of the whole job: the more ranks, the longer a step of each
LATEST = 4  # checkpoints among which a restore usually chooses


class Rank:
    """A process that reads, and when it got what."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log
        self.waits: list[tuple[float, float]] = []  # asked, received
        self.restored = 0.0  # when it called load_state_dict
        self.ended = False
        self._read = 0  # bytes of the log
        self.stopped = False  # by us: its waits are its own

    def update(self) -> Rank:
        if not self.log.exists():
            return self
        with open(self.log, "rb") as file:
            file.seek(self._read)
            lines = file.read().split(b"\n")
        for line in lines[:-1]:
            self._read += len(line) + 1
            self._take(line.split(maxsplit=3))
        return self

    def _take(self, words: list[bytes]) -> None:
        if words[0] == b"restore":
            self.restored = float(words[1])
        elif words[0] == b"end":
            self.ended = True
        else:
            self.waits.append((float(words[0]), float(words[1])))

    @property
    def reading(self) -> bool:
        return bool(self.waits) and not self.ended and self.process.poll() is None

    def errors(self) -> str:
        return self.log.with_suffix(".err").read_text()[-1500:]


@dataclass(eq=False)
class Start:
    """The ranks that were started together."""

    place: Path
    ranks: list[Rank] = field(default_factory=list)

    def checkpoints(self) -> list[Path]:
        """Those whose step every rank has written down: one may be killed between a batch and its line."""
        written = min(sys.maxsize if rank.update().ended else len(rank.waits) for rank in self.ranks)
        files = sorted(self.place.glob("[0-9]*.json"), key=lambda file: int(file.stem))
        return [file for file in files if int(file.stem) <= written]


@dataclass(frozen=True)
class Shape:
    mode: str
    memory: str  # of each rank: how far ahead of its loop it reads
    shuffle: int  # its buffer; 0: none


class Job:
    def __init__(self, setting: Setting, name: str, shape: Shape, ranks: int) -> None:
        self.setting = setting
        self.name = name
        self.shape = shape
        self.starts: list[Start] = []
        self.history: list[tuple[Start, int]] = []  # those that count, each up to the step of a checkpoint; the last start counts to its end
        self.start(ranks, None)

    @property
    def ranks(self) -> list[Rank]:
        return [rank.update() for rank in self.starts[-1].ranks]

    def start(self, ranks: int, state: Path | None) -> None:
        begun = Start(self.setting.directory / self.name / str(len(self.starts)))
        begun.place.mkdir(parents=True)
        begun.ranks = [self._start_rank(begun.place, index, ranks, state) for index in range(ranks)]
        self.starts.append(begun)

    def _start_rank(self, place: Path, index: int, ranks: int, state: Path | None) -> Rank:
        options = {
            "address": self.setting.cluster.address,
            "files": self.setting.files,
            "job": self.name,
            "index": index,
            "ranks": ranks,
            "attempt": len(self.starts),
            "pace": PACE * ranks,
            **asdict(self.shape),
            "log": str(place / f"rank-{index}.log"),
            "checkpoints": str(place),
            "state": str(state) if state else "",
        }
        command = [*self.setting.through(index), sys.executable, str(PROGRAM), json.dumps(options)]
        environment = {**os.environ, **self.setting.environment, "PENSTOCK_PROGRESS": "0"}
        with open(place / f"rank-{index}.err", "wb") as errors:
            return Rank(subprocess.Popen(command, stderr=errors, env=environment), place / f"rank-{index}.log")

    def begun(self) -> bool:
        return all(rank.waits or rank.ended or rank.process.poll() is not None for rank in self.ranks)

    def over(self) -> bool:
        return all(rank.process.poll() is not None for rank in self.ranks)

    def kill(self) -> None:
        for rank in self.starts[-1].ranks:
            rank.process.kill()
        for rank in self.starts[-1].ranks:
            rank.process.wait()

    def early(self) -> bool:
        """Whether a good part of the epoch is left, so that no rank comes to its end soon."""
        legs = [*self.history, (self.starts[-1], sys.maxsize)]
        batches = sum(min(len(rank.waits), upto) for start, upto in legs for rank in start.ranks)
        return batches < self.setting.batches * 0.7

    def has_spares(self) -> bool:
        """Whether there are so many lanes left that every rank has some granted and not begun."""
        return self.early() and self.shape.shuffle == 0

    def saved(self) -> list[tuple[Start, Path]]:
        """The checkpoints of this history, oldest first."""
        legs = [*self.history, (self.starts[-1], sys.maxsize)]
        return [(start, file) for start, upto in legs for file in start.checkpoints() if int(file.stem) <= upto]

    def restore(self, choice: random.Random, ranks: int) -> None:
        """All ranks are gone; others go on from a checkpoint, mostly one of the last. What was delivered after it does not count."""
        saved = self.saved()
        start, file = choice.choice(saved[-LATEST:] if choice.random() < 0.9 else saved)
        kept = [begun for begun, _ in self.history]
        self.history = [*self.history[: kept.index(start) if start in kept else None], (start, int(file.stem))]
        self.start(ranks, file)

    def waiting(self, since: float) -> bool:
        """Whether some loop has not got a batch that it asked for after `since`."""
        return any(rank.reading and rank.waits[-1][0] < since for rank in self.ranks)

    def longest_wait(self, begin: float, end: float, spared: Sequence[Rank] = ()) -> float:
        waits = [wait for rank in self.ranks if rank not in spared for wait in rank.waits]
        return max((received - asked for asked, received in waits if received >= begin and asked <= end), default=0.0)

    def restored_in(self) -> float:
        """From the moment that the last rank asked for the restore to the last of their first batches."""
        first = [rank.waits[0][1] for rank in self.ranks if rank.waits]
        return max(first) - max(rank.restored for rank in self.ranks) if first else 0.0

    def count(self, order: list[int] | None) -> Count:
        legs = [*self.history, (self.starts[-1], None)]
        return count([Leg([rank.log for rank in start.ranks], upto) for start, upto in legs], self.setting.rows, order)

    def failures(self) -> list[str]:
        return [
            f"{self.name} ({self.shape.mode}), start {len(self.starts) - 1}: rank {index} ended with {rank.process.returncode}: {rank.errors()}"
            for index, rank in enumerate(self.ranks)
            if rank.process.poll() is not None and rank.process.returncode != 0
        ]


def wait_for(condition: Callable[[], bool], within: float) -> bool:
    """Asks again until it holds; False if it does not in time."""
    end = time.monotonic() + within
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
