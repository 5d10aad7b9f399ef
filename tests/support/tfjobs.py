"""TFJob manifests of a few lines, and `penstock tfjob run` of them."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from penstock import _binary
from support.waiting import wait_until


def spec(container: dict[str, Any], replicas: int = 1, restart: str = "ExitCode", **pod: Any) -> dict[str, Any]:
    return {"replicas": replicas, "restartPolicy": restart, "template": {"spec": {"containers": [{"name": "tensorflow", **container}], **pod}}}


def manifest(specs: dict[str, Any], clean: str = "Running", **more: Any) -> dict[str, Any]:
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "reco"},
            "spec": {"runPolicy": {"cleanPodPolicy": clean, **more.pop("policy", {})}, "tfReplicaSpecs": specs, **more}}  # fmt: skip


def shell(script: str) -> dict[str, Any]:
    return {"command": ["sh", "-c", script]}


def start(job: object, directory: Path, out: IO[str] | int = subprocess.PIPE, flags: Sequence[str] = (), **variables: str) -> subprocess.Popen[str]:
    path = directory / "job.yaml"
    path.write_text(job if isinstance(job, str) else json.dumps(job))
    command = ["env", "--default-signal=HUP,INT", _binary.path(), "tfjob", "run", str(path), *flags]  # a shell may have had them passed over
    return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, text=True, env={**_binary.environment(), **variables})


def run(job: object, directory: Path, *flags: str, **variables: str) -> tuple[int, str]:
    """A manifest as YAML, or as what YAML would make of it."""
    process = start(job, directory, flags=flags, **variables)
    said, _ = process.communicate(timeout=100)
    return process.returncode, said


@contextlib.contextmanager
def logged(manifest: dict[str, Any], directory: Path, **variables: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """The run, and the file with what it says."""
    log = directory / "log"
    with open(log, "w") as out:
        process = start(manifest, directory, out, **variables)
    try:
        yield process, log
    finally:
        process.kill()
        process.wait()


def pid_of(said: Callable[[], str], pod: str) -> int:
    return int(wait_until(lambda: re.search(rf"{pod} runs as process (\d+)", said()), f"{pod} runs")[1])
