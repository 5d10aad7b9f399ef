"""The volumes of a TFJob's pods, as directories of this machine, and a root directory for each pod that has them where its container wants them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock._tfjob import Job, Replica
from penstock.errors import Invalid


@dataclass(frozen=True)
class Mount:
    path: str  # in the pod
    source: Path
    read_only: bool
    own: Path | None = None  # the directory of an emptyDir, which goes with the pod


def given(words: Sequence[str], job: Job) -> dict[str, Path]:
    """The directories that NAME=DIR words name, by the volumes that the manifest has."""
    known = {name for replica in job.replicas for name in replica.volumes}
    found = {}
    for word in words:
        name, _, directory = word.partition("=")
        if name not in known:
            raise Invalid(f"--volume {word}: the manifest has the volumes {', '.join(sorted(known)) or 'none'}; write it as NAME=DIRECTORY")
        if not Path(directory).is_dir():
            raise Invalid(f"--volume {word}: there is no directory {directory!r}")
        found[name] = Path(directory).resolve()
    return found


def mounts(replica: Replica, directories: Mapping[str, Path], scratch: Path) -> list[Mount]:
    """Those of its container: what was given, a hostPath as it is, an emptyDir below `scratch`, where a container that is started again finds it."""
    found = []
    for mount in replica.container.get("volumeMounts") or []:
        volume, own = _source(replica, mount["name"], directories, scratch)
        source = volume / (mount.get("subPath") or "")
        found.append(Mount(_place(replica, mount["mountPath"]), source, bool(mount.get("readOnly")), volume if own else None))
    return sorted(found, key=lambda mount: mount.path)


def working_directory(replica: Replica, found: Sequence[Mount]) -> str:
    """The container's, which is in one of its volumes or a directory of this machine."""
    path: str = replica.container["workingDir"]
    if not any(Path(mount.path) in (Path(path), *Path(path).parents) for mount in found) and not Path(path).is_dir():
        raise Invalid(f"{replica.name}: its workingDir is {path}, which is neither in a volume nor a directory of this machine; make it")
    return path


def root_with(found: Sequence[Mount], root: Path) -> str:
    """Shell commands that enter, in a mount namespace of their own, a root directory which is this machine's with the volumes in it."""
    lines = ["set -e", _words("mkdir", "-p", root), _words("mount", "-t", "tmpfs", "tmpfs", root)]
    for entry in sorted(os.scandir("/"), key=lambda entry: entry.name):
        lines += _shown(entry, root / entry.name)
    for mount in found:
        at = f"{root}{mount.path}"
        lines += [*_made(mount, at), _words("mount", "--bind", mount.source, at)]
        if mount.read_only:
            lines.append(_words("mount", "-o", "remount,bind,ro", at))
    # The old root comes to lie over the new one, and is taken away again: no place for it is needed.
    lines += [_words("cd", root), "pivot_root . .", "umount -l .", _words("cd", os.getcwd())]
    return "\n".join(lines)


def _source(replica: Replica, name: str, directories: Mapping[str, Path], scratch: Path) -> tuple[Path, bool]:
    """Its directory, and whether it goes with the pod."""
    if name in directories:
        return directories[name], False
    volume = replica.volumes.get(name)
    if volume is None:
        raise Invalid(f"{replica.name} mounts the volume {name!r}, which its pod does not have")
    if "emptyDir" in volume:
        return scratch / replica.name / "volumes" / name, True
    if "hostPath" in volume:
        return _on_this_machine(replica, name, volume["hostPath"]), False
    kind = next((key for key in volume if key != "name"), "nothing")
    raise Invalid(f"{replica.name} mounts the volume {name!r}, a {kind}, which there is none of here: name a directory with --volume {name}=DIR")


def _on_this_machine(replica: Replica, name: str, volume: Mapping[str, str]) -> Path:
    path = Path(volume["path"])
    if not path.exists() and volume.get("type") != "DirectoryOrCreate":
        raise Invalid(f"{replica.name} mounts the volume {name!r}, whose hostPath {path} is not there: make it, or give --volume {name}=DIR")
    return path


def _place(replica: Replica, path: str) -> str:
    """Places that this machine has not are made in the pod's root alone, and so not below its own directories."""
    if not Path(path).exists() and Path("/", Path(path).parts[1]).exists():
        raise Invalid(f"{replica.name} mounts a volume at {path}, which is not there, in a directory of this machine: make it, or mount elsewhere")
    return path


def _made(mount: Mount, at: str) -> list[str]:
    """The directories on both sides of a mount that are not there, as the kubelet makes them; of a file, a place for it."""
    if mount.source.is_file():
        return [_words("mkdir", "-p", os.path.dirname(at)), f"{_words('test', '-e', at)} || {_words('touch', at)}"]
    return [_words("mkdir", "-p", mount.source), _words("mkdir", "-p", at)]


def _shown(entry: os.DirEntry[str], at: Path) -> list[str]:
    if entry.is_symlink():
        return [_words("ln", "-s", os.readlink(entry.path), at)]
    if entry.is_dir():
        return [_words("mkdir", at), _words("mount", "--rbind", entry.path, at)]
    return [_words("touch", at), _words("mount", "--bind", entry.path, at)]


def _words(*words: object) -> str:
    return shlex.join(str(word) for word in words)
