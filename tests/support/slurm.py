"""A Slurm cluster on this machine: munged, slurmctld and a slurmd a node, each node a loopback address with a name of its own.

All of it lives in namespaces of its own, so that names resolve, and nothing is left when it ends.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock import tfjob
from support.waiting import wait_until

MISSING = [name for name in ("munged", "slurmctld", "slurmd", "sbatch", "srun") if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]

NODE_OF_SLURMD = "NODE_OF_SLURMD"  # tells a node's slurmd, and what guards its steps, from those of others


class SlurmCluster:
    def __init__(self, directory: Path, nodes: int) -> None:
        self.directory = directory
        network = f"127.67.{os.getpid() % 254 + 1}"
        self.nodes = {f"node{i}": f"{network}.{i}" for i in range(1, nodes + 1)}
        hosts = "".join(f"{address} {name}\n" for name, address in self.nodes.items())
        (directory / "hosts").write_text(f"127.0.0.1 localhost {socket.gethostname()}\n{hosts}")
        (directory / "slurm.conf").write_text(self._configuration())
        self._make_munge_key()
        own_processes = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        with open(directory / "log", "w") as log:
            self._process = subprocess.Popen(
                [*own_processes, *tfjob.namespace(directory / "hosts"), "sh", "-c", self._script()],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment,
            )  # fmt: skip

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin", "SLURM_CONF": str(self.directory / "slurm.conf")}

    @property
    def log(self) -> str:
        return "".join(path.read_text() for path in [self.directory / "log", *self.directory.glob("*.log")])

    def wait_until_idle(self) -> None:
        wait_until(
            lambda: self.ask("sinfo", "--noheader", "--Node", "--format=%t").split() == ["idle"] * len(self.nodes), "all nodes are idle", within=60
        )

    def ask(self, *command: str, **environment: str) -> str:
        said = subprocess.run(command, capture_output=True, text=True, timeout=90, env={**self.environment, **environment}, check=False)
        return said.stdout if said.returncode == 0 else ""

    def submit(self, *command: str, **environment: str) -> str:
        """The job's id."""
        job = self.ask("sbatch", "--parsable", f"--output={self.directory}/job.out", *command, **environment).strip()
        assert job, self.log[-3000:]
        return job

    def wait_for(self, job: str, within: float = 60.0) -> str:
        """The state in which it ended, of its first group: where the batch script runs."""

        def ended() -> str:
            shown = self.ask("scontrol", "--oneliner", "show", "job", job).split()
            state = next((word.removeprefix("JobState=") for word in shown if word.startswith("JobState=")), "")
            return "" if state in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING") else state

        return wait_until(ended, f"job {job} ends", within=within)

    def processes(self, *of: str) -> list[int]:
        """Those of this cluster, and no other, that have one of these lines in their environment."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                lines = (process / "environ").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if f"SLURM_CONF={self.directory}/slurm.conf" in lines and not set(of).isdisjoint(lines):
                found.append(int(process.name))
        return found

    def nodes_of(self, job: str) -> list[str]:
        return self.ask("scontrol", "show", "hostnames", self.ask("squeue", "--noheader", "--format=%N", f"--jobs={job}").strip()).split()

    def lose(self, node: str) -> None:
        """A node goes, with all that runs on it. It is told to the controller before anybody there could say that it ends."""
        everything = self.processes(f"{NODE_OF_SLURMD}={node}", f"SLURMD_NODENAME={node}")
        _signal(everything, signal.SIGSTOP)
        self.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=lost")
        _signal(everything, signal.SIGKILL)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _make_munge_key(self) -> None:
        (self.directory / "munge").mkdir(mode=0o700)
        key = self.directory / "munge" / "key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))

    def _script(self) -> str:
        munge = self.directory / "munge"
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        flags = " ".join(shlex.quote(f"--{flag}={munge / name}") for flag, name in files.items())
        controller = "slurmctld -D & "
        return f"munged --force {flags}; {controller}" + "".join(f"{NODE_OF_SLURMD}={node} slurmd -D -N {node} & " for node in self.nodes) + "wait"

    def _configuration(self) -> str:
        for name in ["state", *(f"spool/{node}" for node in self.nodes)]:
            (self.directory / name).mkdir(parents=True)
        sockets = [socket.create_server(("", 0)) for _ in range(1 + len(self.nodes))]
        controller, *ports = (each.getsockname()[1] for each in sockets)
        for each in sockets:
            each.close()
        machine = f"NodeHostname={socket.gethostname().split('.')[0]} CPUs=64 RealMemory=500000"
        nodes = [f"NodeName={name} NodeAddr={address} Port={port} {machine}" for (name, address), port in zip(self.nodes.items(), ports)]
        return "\n".join([*_settings(self.directory, controller), *nodes, "PartitionName=all Nodes=ALL Default=YES State=UP", ""])


@contextmanager
def running_slurm(nodes: int) -> Iterator[SlurmCluster]:
    with tempfile.TemporaryDirectory(prefix="slurm-") as directory:  # names of its sockets must be short
        cluster = SlurmCluster(Path(directory), nodes)
        try:
            cluster.wait_until_idle()
            yield cluster
        finally:
            cluster.stop()


def _signal(processes: list[int], number: int) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def _settings(directory: Path, port: int) -> list[str]:
    return [
        "ClusterName=test",
        "SlurmctldHost=localhost(127.0.0.1)",
        f"SlurmctldPort={port}",
        "SlurmUser=root",
        f"AuthInfo=socket={directory}/munge/socket,cred_expire=5",  # a job that is requeued waits so long
        f"StateSaveLocation={directory}/state",
        f"SlurmdSpoolDir={directory}/spool/%n",
        f"SlurmctldPidFile={directory}/slurmctld.pid",
        f"SlurmdPidFile={directory}/%n.pid",
        f"SlurmctldLogFile={directory}/slurmctld.log",
        f"SlurmdLogFile={directory}/%n.log",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "SchedulerType=sched/backfill",  # what starts heterogeneous jobs
        "SchedulerParameters=bf_interval=1,sched_interval=1",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "SlurmdParameters=config_overrides",  # nodes are larger than this machine
        "ReturnToService=2",
        "MpiDefault=none",
        "KillWait=5",
        "MessageTimeout=60",  # a busy machine is slow to answer
    ]
