"""A pod of a TFJob as a process of this machine, in namespaces of its own."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock._tfjob import Replica

RETRYABLE_FROM = 128
FIRST_BACKOFF, LONGEST_BACKOFF = 0.5, 10.0
LONGEST_LINE = 64 * 1024  # bytes; a longer one is shown in pieces

_NAMESPACES = ["unshare", "--uts", "--mount", "--propagation", "private"]
_WITH_PROCESSES = ["--pid", "--fork", "--kill-child"]
_OWN_PROC = "mount -t proc proc /proc"
_NAMED = 'hostname "$0"'  # a pod's host has the pod's name

# The first process of a pod's own: it waits for the command, and all that the command has started ends with it. It is not the command itself, because
# the first process of a namespace ignores the signals that it does not handle.
_INIT = """trap : TERM INT
env --default-signal=INT,QUIT "$@" &
exec > /dev/null 2>&1
code=0
wait $! || code=$?
while kill -0 $!; do code=0; wait $! || code=$?; done  # a signal had ended the wait
exit $code"""


@dataclass
class Pod:
    """A replica and the process that is, or was, its container."""

    replica: Replica
    environment: dict[str, str]
    command: list[str]
    prepare: str = ""  # a shell's commands before it
    own: list[Path] = field(default_factory=list)  # directories that go with the pod: its emptyDir volumes
    process: subprocess.Popen[bytes] | None = None
    announced: bool = False
    restarts: int = 0
    due: float = 0.0  # when it may be started again
    code: int | None = None  # of its end, once it is not started again
    echoes: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        if self.restarts and self.recreated:
            for directory in self.own:
                shutil.rmtree(directory, ignore_errors=True)
        own_processes = processes_of_its_own()
        lines = [_NAMED, *([_OWN_PROC] if own_processes else []), self.prepare, _INIT if own_processes else 'exec "$@"']
        namespaces = [*_NAMESPACES, *(_WITH_PROCESSES if own_processes else [])]
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *namespaces, "sh", "-e", "-c", "\n".join(lines), self.replica.name, *self.command],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # it never outlives this run
        self.announced = False
        self.echoes.append(threading.Thread(target=_echo, args=(self.replica.name, self.process.stdout), daemon=True))
        self.echoes[-1].start()

    @property
    def running(self) -> bool:
        return self.process is not None

    @property
    def recreated(self) -> bool:
        """With ExitCode the operator deletes the pod and makes another; the other policies are the kubelet's, which starts the container again."""
        return self.replica.restart_policy == "ExitCode"

    def look(self, now: float) -> None:
        """Takes note of its beginning and its end, and decides by the restart policy whether it comes back."""
        if self.process is None:
            return
        ended = self.process.poll() is not None
        if not self.announced:
            self._announce(ended)
        if ended:
            code = self.process.returncode
            self.process = None
            self._end(128 - code if code < 0 else code, now)  # as a shell and the kubelet count signals

    def commands_process(self) -> int | None:
        """The id of the process that users signal, once it is there."""
        if self.process is None:
            return None
        return _command_of(self.process.pid) if processes_of_its_own() else self.process.pid

    def signal(self, number: int) -> None:
        """To the container: the process and what it started."""
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def wait(self, within: float | None = None) -> None:
        if self.process is not None:
            self.process.wait(within)

    def _announce(self, ended: bool) -> None:
        command = self.commands_process()
        if command is not None:
            say(f"{self.replica.name} runs as process {command}")
        self.announced = command is not None or ended

    def _end(self, code: int, now: float) -> None:
        policy = self.replica.restart_policy
        if not restarts(policy, code):
            self.code = code
            say(f"{self.replica.name} ended with {code}, and is not started again ({policy})")
            return
        pause = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2**self.restarts)
        self.restarts += 1
        self.due = now + pause
        emptied = ", with empty directories for its emptyDir volumes, as the operator's next pod has" if self.recreated and self.own else ""
        say(f"{self.replica.name} ended with {code}: restart {self.restarts} in {pause} s ({policy}){emptied}")


def restarts(policy: str, code: int) -> bool:
    if policy == "Always":
        return True
    if policy == "OnFailure":
        return code != 0
    return policy == "ExitCode" and code >= RETRYABLE_FROM


def stop(pods: Sequence[Pod]) -> None:
    """SIGTERM, then, after its grace period, SIGKILL. A pod whose command has not begun has nothing to end, and nobody in it who would hear."""
    for pod in pods:
        pod.signal(signal.SIGTERM if pod.commands_process() else signal.SIGKILL)
    begin = time.monotonic()
    for pod in sorted(pods, key=lambda pod: pod.replica.grace):
        try:
            pod.wait(max(0.0, begin + pod.replica.grace - time.monotonic()))
        except subprocess.TimeoutExpired:
            pod.signal(signal.SIGKILL)
            pod.wait()


def say(text: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # a job goes on when nobody listens any more
        print(f"tfjob: {text}", file=sys.stderr, flush=True)


@functools.cache
def processes_of_its_own() -> bool:
    """Whether this machine lets a pod have a process namespace; without, what a pod's shell has put in the background may outlive it."""
    needed = f"{_OWN_PROC} && env --default-signal=INT,QUIT true && test -e /proc/$$/task/$$/children"
    return subprocess.run([*_NAMESPACES, *_WITH_PROCESSES, "sh", "-c", needed], capture_output=True, check=False).returncode == 0


def _command_of(pid: int) -> int | None:
    """The process below unshare and the namespace's first one, once it is there: what a user signals."""
    try:
        [first] = _children(pid)
        waits = os.stat(f"/proc/{first}/fd/1").st_rdev == os.stat(os.devnull).st_rdev  # as _INIT does once the command is started
        return _children(first)[0] if waits else None
    except (OSError, ValueError, IndexError):
        return None


def _children(pid: int) -> list[int]:
    """The oldest first."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _echo(name: str, said: Any) -> None:
    """What a pod says, with its name before it. It is read to its end, for a pod whose pipe is full waits."""
    for line in iter(lambda: said.readline(LONGEST_LINE), b""):
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.buffer.write(f"[{name}] ".encode() + line + (b"" if line.endswith(b"\n") else b"\n"))
            sys.stdout.buffer.flush()
