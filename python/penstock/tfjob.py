"""`penstock tfjob run MANIFEST`: a TFJob as processes of this machine, the way the operator would run it.

Each replica is a process with the environment that its container would have: TF_CONFIG (in a container named `tensorflow`, and only where there is
more than one replica), its env, the downward API, the pod's name as its host's. Names of pods resolve to loopback addresses, one a pod, by a hosts
file that is mounted in a namespace of this run's own. Restart policies, exit codes, completion and cleanPodPolicy are the operator's. Images are
not: commands run as they are found here, and a container without a command runs `penstock` with its args, as the image in deploy/ does. Volumes are
directories of this machine, mounted where the container has them in a root directory of the pod's own (_tfjob_volumes.py). Of resources, a reader's
memory limit becomes its budget, and nothing else is bounded. Of this process's environment a pod has what stands for the image (_tfjob.of_the_image)
and what `--env` names. Probes are not asked.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import json
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from penstock import _tfjob_volumes
from penstock._tfjob import GRACE, Job, command, environment, given_variables, hosts_file, load, of_text, of_the_image, read
from penstock._tfjob_check import STOCK_TYPES
from penstock._tfjob_pod import Pod, say, stop
from penstock.errors import Error, Invalid, Unavailable

PREFIX = "penstock-tfjob-"  # of what runs have a name for
NETWORKS = 254
ONE_ASKING = 1.0  # seconds

# ---- running it


class Run:
    """Starts the pods, watches them, and ends as the operator's job would."""

    def __init__(self, job: Job, base: Mapping[str, str], directories: Mapping[str, Path], scratch: Path) -> None:
        self.job = job
        self.pods = []
        for replica in job.replicas:
            values = environment(job, replica, base)
            mounts = _tfjob_volumes.mounts(replica, directories, scratch)
            prepare = [_tfjob_volumes.root_with(mounts, scratch / replica.name / "root")] if mounts else []
            if replica.container.get("workingDir"):
                prepare.append(shlex.join(["cd", _tfjob_volumes.working_directory(replica, mounts)]))
            own = [mount.own for mount in mounts if mount.own is not None]
            self.pods.append(Pod(replica, values, command(replica, values), "\n".join(prepare), own))

    def outcome(self) -> str | None:
        """Why the job is over: "" where it succeeded; None while it is not over."""
        leaders = self._of("chief", "master")
        workers = self._of("worker")
        judges = leaders or (workers if self.job.all_workers else [pod for pod in workers if pod.replica.index == 0])
        if judges and all(pod.code == 0 for pod in judges):
            return ""
        failing = [kind for kind in STOCK_TYPES if kind != "worker" or not self.job.dynamic]  # another's failure does not fail the job
        for pod in self._of(*failing):
            if pod.code is not None and pod.code != 0:
                return f"{pod.replica.name} failed with {pod.code}"
        if all(pod.code is not None for pod in self.pods):
            return "all pods have ended, and those whose success would be the job's have not succeeded"
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
        say(f"{self.job.name} {'succeeded' if not outcome else 'failed: ' + outcome}")
        return 1 if outcome else 0

    def _of(self, *types: str) -> list[Pod]:
        return [pod for pod in self.pods if pod.replica.type in types]

    def _clean(self, outcome: str | None) -> None:
        """cleanPodPolicy Running and All stop what runs; with None it goes on until it ends by itself. Interrupted, all are stopped."""
        running = [pod for pod in self.pods if pod.running]
        names = ", ".join(pod.replica.name for pod in running)
        try:
            if outcome is not None and self.job.clean_pods == "None" and running:
                decided = f"the job is decided, it {'failed' if outcome else 'succeeded'}, and cleanPodPolicy None leaves what runs"
                say(f"{decided}: waiting until {names} have ended by themselves; Ctrl-C stops them")
                for pod in running:
                    pod.wait()
            elif running:
                say(f"stopping {names}" + ("" if outcome is None else f", which ran when the job was decided (cleanPodPolicy {self.job.clean_pods})"))
        finally:
            stop(running)
        for pod in self.pods:
            for echo in pod.echoes:
                echo.join(GRACE)


def _wait_for_a_child(longest: float) -> None:
    """Until some child ended, without reaping it."""
    signal.sigtimedwait({signal.SIGCHLD}, longest)


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
    _heed(lambda received, _: process.send_signal(received))
    return process.wait()


def _heed(handler: Callable[[int, object], None]) -> None:
    """Who is asked to end, and by a terminal that is closed, unless nohup has it passed over."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def _end_when_asked() -> None:
    """A signal ends the run, and a later one the pods' grace period.

    Those within a second are one asking: a terminal, a scheduler and `timeout` tell each process of a group, so that this one is told twice.
    """
    asked: list[float] = []

    def end(received: int, _: object) -> None:
        asked.append(time.monotonic())
        if len(asked) == 1 or asked[-1] - asked[0] > ONE_ASKING:
            sys.exit(128 + received)

    _heed(end)


@contextlib.contextmanager
def network_of_run() -> Iterator[str]:
    """The first three numbers of loopback addresses that no other run has.

    A run holds a socket of its network's name in the abstract namespace, which all users share, as they do the addresses; it goes with its process.
    """
    for number in range(NETWORKS):
        network = f"127.66.{(os.getpid() + number) % NETWORKS + 1}"
        with socket.socket(socket.AF_UNIX) as held:
            try:
                held.bind(f"\0{PREFIX}{network}")
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            yield network
            return
    raise Unavailable(f"{NETWORKS} runs of TFJobs have all the loopback networks that there are for them: wait until one has ended")


@contextlib.contextmanager
def directory_of_run() -> Iterator[Path]:
    """A directory that goes with this run, locked while it lasts. Those of runs that were killed are not locked, and are removed first."""
    _remove_left_behind()
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = os.open(path, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():  # before it was locked, another run may have taken it for one that was left
            break
        os.close(lock)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _remove_left_behind() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if os.fstat(lock).st_uid == os.geteuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:
            continue  # it is some run's
        finally:
            os.close(lock)


def run_manifest(path: str, volumes: Sequence[str], variables: Sequence[str]) -> int:
    text = read(path)
    suffix = secrets.token_hex(3)[:5]
    given = given_variables(variables, os.environ)
    with network_of_run() as network, directory_of_run() as directory:
        job = of_text(path, text, network, suffix)
        directories = _tfjob_volumes.given(volumes, job)
        hosts, scratch, manifest = directory / "hosts", directory / "pods", directory / "manifest"
        Run(job, given, directories, scratch)  # what is wrong with a pod is said before anything is started
        for words in job.left_out:
            say(words)
        hosts.write_text(hosts_file(job, Path("/etc/hosts").read_text()))
        manifest.write_text(text)  # what was read once may be a pipe, or be changed meanwhile
        inside = [sys.executable, "-m", "penstock.tfjob", "run", str(manifest), "--network", network, "--suffix", suffix, "--scratch", str(scratch)]
        named = [word for name, source in directories.items() for word in ("--volume", f"{name}={source}")]
        _variables_beside(scratch).write_text(json.dumps(given))  # in no command line, which others can read
        return _run_and_pass_signals([*namespace(hosts), "setpriv", "--pdeathsig", "KILL", *inside, *named])


def _variables_beside(scratch: Path) -> Path:
    return scratch.parent / "variables"


def run_inside(path: str, network: str, suffix: str, scratch: Path, volumes: Sequence[str]) -> int:
    """In the namespace where the pods' names resolve."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    _end_when_asked()
    job = load(path, network, suffix)
    base = {**of_the_image(os.environ), **json.loads(_variables_beside(scratch).read_text())}
    return Run(job, base, _tfjob_volumes.given(volumes, job), scratch).run()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="penstock tfjob", description="Runs a TFJob manifest as processes of this machine.")
    parser.add_argument("action", choices=["run"])
    parser.add_argument("manifest", help="its file; - is the standard input")
    parser.add_argument("--volume", action="append", default=[], metavar="NAME=DIR", help="the directory that is a volume of this name, in all pods")
    parser.add_argument("--env", action="append", default=[], metavar="NAME[=VALUE]", help="a variable for all pods; without a value, this shell's")
    parser.add_argument("--network", help=argparse.SUPPRESS)  # inside the namespace
    parser.add_argument("--suffix", help=argparse.SUPPRESS)
    parser.add_argument("--scratch", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    try:
        if chosen.network is None:
            return run_manifest(chosen.manifest, chosen.volume, chosen.env)
        return run_inside(chosen.manifest, chosen.network, chosen.suffix, Path(chosen.scratch), chosen.volume)
    except Error as error:
        print(f"penstock: {error}", file=sys.stderr)
        return 138 if isinstance(error, Unavailable) else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
