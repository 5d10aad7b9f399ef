"""Processes that become servers."""

from __future__ import annotations

import os
import re
import sys
from typing import NoReturn

from penstock import _binary
from penstock.errors import Invalid

OLDEST_TENSORFLOW = (2, 5)
_IDLE = "10m"  # without anybody who reads, and the job is done: longer than trainers take to be started again


def become(role: str) -> NoReturn:
    """Replaces this process by the executable, which finds its addresses in the same environment, and warns where it lets anybody in."""
    command = [_binary.path(), role, "--exit-when-done", _IDLE, "--without-token", *(["--allow-code"] if role == "worker" else [])]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], command, _binary.environment())


def check_tensorflow() -> None:
    """Raises where TensorFlow is older than the original's functions allow. Its absence is none of ours, and it is not imported for this."""
    found = _tensorflow_version()
    numbers = re.match(r"(\d+)\.(\d+)", found or "")
    if numbers is not None and (int(numbers[1]), int(numbers[2])) < OLDEST_TENSORFLOW:
        raise Invalid(f"a job with readers needs TensorFlow 2.5 or later, and this is {found}; install a later one")


def _tensorflow_version() -> str | None:
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None:
        return str(tensorflow.__version__)
    from importlib import metadata

    for package in ("tensorflow", "tensorflow-cpu", "tf-nightly"):
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return None
