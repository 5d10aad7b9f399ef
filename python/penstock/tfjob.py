"""`penstock tfjob run MANIFEST`: a TFJob as processes of this machine, the way the operator would run it.

Each replica is a process with the environment that its container would have: TF_CONFIG (in a container named `tensorflow`, and only where there is
more than one replica), its env, the downward API, the pod's name as its host's. Names of pods resolve to loopback addresses, one a pod, by a hosts
file that is mounted in a namespace of this run's own. Restart policies, exit codes, completion and cleanPodPolicy are the operator's. Images are
not: commands run as they are found here, and a container without a command runs `penstock` with its args, as the image in deploy/ does. Volumes are
directories of this machine, mounted where the container has them in a root directory of the pod's own (_tfjob_volumes.py). Of resources, a reader's
memory limit becomes its budget, and nothing else is bounded.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock import _tfjob_volumes
from penstock._tfjob import GRACE, STOCK_TYPES, Job, Replica, command, environment, hosts_file, load
from penstock.errors import Error, Invalid

RETRYABLE_FROM = 128
FIRST_BACKOFF, LONGEST_BACKOFF = 0.5, 10.0
_NAMED = 'hostname "$0"'  # a pod's host has the pod's name


_OWN = ["unshare", "--uts", "--mount", "--propagation", "private", "sh", "-e", "-c"]

# ---- running it


@dataclass
class Pod:
    """A replica and the process that is, or was, its container."""

    replica: Replica
    environment: dict[str, str]
    command: list[str]
    prepare: str = _NAMED  # a shell's commands before it
    process: subprocess.Popen[bytes] | None = None
    restarts: int = 0
    due: float = 0.0  # when it may be started again
    code: int | None = None  # of its end, once it is not started again
    echoes: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *_OWN, f'{self.prepare}\nexec "$@"', self.replica.name, *self.command],  # it never outlives this run
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        _say(f"{self.replica.name} runs as process {self.process.pid}")
        self.echoes.append(threading.Thread(target=_echo, args=(self.replica.name, self.process.stdout), daemon=True))
        self.echoes[-1].start()

    @property
    def running(self) -> bool:
        return self.process is not None

    def look(self, now: float) -> None:
        """Takes note of its end, and decides by the restart policy whether it comes back."""
        if self.process is None or self.process.poll() is None:
            return
        code = self.process.returncode
        code = 128 - code if code < 0 else code  # as a shell and the kubelet count signals
        self.process = None
        if not restarts(self.replica.restart_policy, code):
            self.code = code
            return
        pause = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2**self.restarts)
        self.restarts += 1
        self.due = now + pause
        _say(f"{self.replica.name} ended with {code}: restart {self.restarts} in {pause} s ({self.replica.restart_policy})")


def restarts(policy: str, code: int) -> bool:
    if policy == "Always":
        return True
    if policy == "OnFailure":
        return code != 0
    return policy == "ExitCode" and code >= RETRYABLE_FROM


class Run:
    """Starts the pods, watches them, and ends as the operator's job would."""

    def __init__(self, job: Job, base: Mapping[str, str], directories: Mapping[str, Path], scratch: Path) -> None:
        self.job = job
        self.pods = []
        for replica in job.replicas:
            values = environment(job, replica, base)
            prepare = _NAMED
            mounts = _tfjob_volumes.mounts(replica, directories, scratch)
            if mounts:
                root = scratch / replica.name / "root"
                root.mkdir(parents=True)
                prepare += "\n" + _tfjob_volumes.root_with(mounts, root)
            self.pods.append(Pod(replica, values, command(replica, values), prepare))

    def outcome(self) -> str | None:
        """Why the job is over: "" where it succeeded; None while it is not over."""
        leaders = self._of("chief", "master")
        workers = self._of("worker")
        judges = leaders or (workers if self.job.all_workers else [pod for pod in workers if pod.replica.index == 0])
        if judges and all(pod.code == 0 for pod in judges):
            return ""
        for pod in self._of(*STOCK_TYPES):  # another type's failure does not fail the job
            if pod.code is not None and pod.code != 0:
                return f"{pod.replica.name} failed with {pod.code}"
        limit = self.job.backoff_limit
        if limit is not None and sum(pod.restarts for pod in self._of(*STOCK_TYPES)) > limit:
            return f"pods were restarted more often than backoffLimit {limit}"
        return None

    def run(self) -> int:
        begin = time.monotonic()
        outcome: str | None = None
        try:
            while outcome is None:
                now = time.monotonic()
                for pod in self.pods:
                    pod.look(now)
                    if not pod.running and pod.code is None and pod.due <= now:
                        pod.start()
                outcome = self.outcome()
                if outcome is None and self.job.deadline is not None and now - begin > self.job.deadline:
                    outcome = f"it was active for longer than activeDeadlineSeconds {self.job.deadline}"
                if outcome is None:
                    _wait_for_a_child(0.2)
        finally:
            self._clean(outcome)
        _say(f"{self.job.name} {'succeeded' if not outcome else 'failed: ' + outcome}")
        return 1 if outcome else 0

    def _of(self, *types: str) -> list[Pod]:
        return [pod for pod in self.pods if pod.replica.type in types]

    def _clean(self, outcome: str | None) -> None:
        """cleanPodPolicy Running and All stop what runs; with None it goes on until it ends by itself. Interrupted, all are stopped."""
        running = [pod.process for pod in self.pods if pod.process is not None]
        if outcome is None or self.job.clean_pods in ("Running", "All"):
            stop(running, max(pod.replica.grace for pod in self.pods))
        for process in running:
            process.wait()
        for pod in self.pods:
            for echo in pod.echoes:
                echo.join(GRACE)


def stop(processes: Sequence[subprocess.Popen[bytes]], grace: float) -> None:
    """SIGTERM, then, after the grace period, SIGKILL."""
    for process in processes:
        _signal(process, signal.SIGTERM)
    end = time.monotonic() + grace
    for process in processes:
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            _signal(process, signal.SIGKILL)


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """To the container: the process and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _echo(name: str, said: Any) -> None:
    """What a pod says, with its name before it."""
    for line in said:
        sys.stdout.buffer.write(f"[{name}] ".encode() + line)
        sys.stdout.buffer.flush()


def _wait_for_a_child(longest: float) -> None:
    """Until some child ended, without reaping it."""
    signal.sigtimedwait({signal.SIGCHLD}, longest)


def _say(text: str) -> None:
    print(f"tfjob: {text}", file=sys.stderr, flush=True)


# ---- a namespace of its own


def _ways_in() -> list[list[str]]:
    """To a mount namespace of one's own: as root, or as the root of a user namespace."""
    mount = ["--mount", "--propagation", "private"]
    plain = [["unshare", *mount]] if os.geteuid() == 0 else []
    return [*plain, ["unshare", "--user", "--map-root-user", *mount]]


def namespace(hosts: Path) -> list[str]:
    """What to put before a command so that it runs where `hosts` lies over /etc/hosts."""
    bind = ["sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(hosts)]
    for way in _ways_in():
        if subprocess.run([*way, *bind, "true"], capture_output=True, check=False).returncode == 0:
            return [*way, *bind]
    raise Invalid("names of pods need a hosts file in a mount namespace, and this machine allows none: run as root, or allow user namespaces")


def _run_and_pass_signals(words: Sequence[str]) -> int:
    process = subprocess.Popen(words)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: process.send_signal(received))
    return process.wait()


def run_manifest(path: str, volumes: Sequence[str]) -> int:
    network = f"127.66.{os.getpid() % 254 + 1}"
    suffix = secrets.token_hex(3)[:5]
    job = load(path, network, suffix)
    directories = _tfjob_volumes.given(volumes, job)
    with tempfile.TemporaryDirectory(prefix="penstock-tfjob-") as directory:
        hosts, scratch = Path(directory, "hosts"), Path(directory, "pods")
        hosts.write_text(hosts_file(job, Path("/etc/hosts").read_text()))
        inside = [sys.executable, "-m", "penstock.tfjob", "run", path, "--network", network, "--suffix", suffix, "--scratch", str(scratch)]
        named = [word for name, source in directories.items() for word in ("--volume", f"{name}={source}")]
        return _run_and_pass_signals([*namespace(hosts), "setpriv", "--pdeathsig", "KILL", *inside, *named])


def run_inside(path: str, network: str, suffix: str, scratch: Path, volumes: Sequence[str]) -> int:
    """In the namespace where the pods' names resolve."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    job = load(path, network, suffix)
    return Run(job, os.environ, _tfjob_volumes.given(volumes, job), scratch).run()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="penstock tfjob", description="Runs a TFJob manifest as processes of this machine.")
    parser.add_argument("action", choices=["run"])
    parser.add_argument("manifest")
    parser.add_argument("--volume", action="append", default=[], metavar="NAME=DIR", help="the directory that is a volume of this name, in all pods")
    parser.add_argument("--network", help=argparse.SUPPRESS)  # inside the namespace
    parser.add_argument("--suffix", help=argparse.SUPPRESS)
    parser.add_argument("--scratch", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    try:
        if chosen.network is None:
            return run_manifest(chosen.manifest, chosen.volume)
        return run_inside(chosen.manifest, chosen.network, chosen.suffix, Path(chosen.scratch), chosen.volume)
    except Error as error:
        print(f"penstock: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
