"""A TFJob's manifest: its pods, and what the operator gives their containers."""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import _binary, _tfjob_check
from penstock._tfjob_check import CONTAINER, STOCK_TYPES
from penstock.errors import Invalid, NotFound

DEFAULT_PORT = 2222  # of a container without a port named tfjob-port
PORT_NAME = "tfjob-port"
GRACE = 30.0
LABELS = "training.kubeflow.org"
QUANTITIES = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
OF_THE_LIMIT = 0.6  # as a worker takes of a cgroup's

# What stands for an image's environment: where programs and libraries of this machine are, and who runs them. No rank, service or secret.
IMAGE_VARIABLES = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "LANG", "LANGUAGE", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "PENSTOCK_BIN", "PENSTOCK_CACHE", "PENSTOCK_PYTHON", "PENSTOCK_ARROW_DIR", "TF_CPP_MIN_LOG_LEVEL",
)  # fmt: skip
IMAGE_PREFIXES = ("LC_", "PYTHON", "CCACHE")


# ---- what the manifest says


@dataclass(frozen=True)
class Replica:
    """One pod: its place in the job, and its container."""

    job: str
    namespace: str
    kind: str  # as in the manifest
    index: int
    address: str  # of loopback
    container: Mapping[str, Any]
    volumes: Mapping[str, Mapping[str, Any]]  # the pod's, by name
    leads: bool  # the operator takes it for the job's master
    own_labels: Mapping[str, str]  # its template's
    annotations: Mapping[str, str]
    restart_policy: str
    grace: float

    @property
    def type(self) -> str:
        return self.kind.lower()

    @property
    def name(self) -> str:
        return f"{self.job}-{self.type}-{self.index}"

    @property
    def host(self) -> str:
        return f"{self.name}.{self.namespace}.svc"

    @property
    def port(self) -> int:
        ports = self.container.get("ports") or []
        return next((int(port["containerPort"]) for port in ports if port.get("name") == PORT_NAME), DEFAULT_PORT)

    @property
    def labels(self) -> dict[str, str]:
        role = {f"{LABELS}/job-role": "master"} if self.leads else {}
        return {
            **self.own_labels,
            f"{LABELS}/job-name": self.job,
            f"{LABELS}/replica-type": self.type,
            f"{LABELS}/replica-index": str(self.index),
            f"{LABELS}/operator-name": "tfjob-controller",
            **role,
        }


@dataclass(frozen=True)
class Job:
    name: str
    replicas: list[Replica]
    clean_pods: str  # None | Running | All
    backoff_limit: int | None
    deadline: float | None
    all_workers: bool  # successPolicy AllWorkers
    dynamic: bool
    left_out: list[str]  # what the manifest has and is not done here, in words

    def of(self, *types: str) -> list[Replica]:
        return [replica for replica in self.replicas if replica.type in types]


def read(path: str) -> str:
    """The manifest; "-": from the standard input."""
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{path} cannot be read: {error}") from error


def load(path: str, network: str, suffix: str = "00000") -> Job:
    return of_text(path, read(path), network, suffix)


def of_text(path: str, text: str, network: str, suffix: str) -> Job:
    """The TFJob of a manifest; of several documents, the only one.

    path: where the text is from.
    network: the first three numbers of its pods' addresses.
    suffix: what follows a generateName.
    """
    try:
        import yaml
    except ImportError as error:
        raise NotFound("reading a manifest needs PyYAML: pip install 'penstock[tfjob]'") from error
    try:
        documents = [document for document in yaml.safe_load_all(text) if document]
    except yaml.YAMLError as error:
        raise Invalid(f"{path} cannot be read as YAML: {' '.join(str(error).split())}") from error
    for document in documents:
        if not isinstance(document, Mapping):
            raise Invalid(f"{path}: {_tfjob_check.wrong('a document', document, 'an object with kind: TFJob')}")
    jobs = [document for document in documents if document.get("kind") == "TFJob"]
    if len(jobs) != 1:
        raise Invalid(f"{path} has {len(jobs)} documents of kind TFJob; it must have one")
    try:
        return parse(jobs[0], network, suffix)
    except Invalid as error:
        raise Invalid(f"{path}: {error}") from error


def parse(manifest: Mapping[str, Any], network: str, suffix: str = "00000") -> Job:
    """The job of a manifest that is as it should be; `Invalid` names the field that is not."""
    metadata = _named(manifest.get("metadata"), suffix)
    _tfjob_check.manifest(manifest, metadata["name"])
    spec = manifest["spec"]
    specs = spec["tfReplicaSpecs"]
    policy = spec.get("runPolicy") or {}
    addresses = (f"{network}.{host}" for host in itertools.count(1))
    has_leader = bool({"chief", "master"} & {kind.lower() for kind in specs})
    replicas = [
        _replica(metadata, kind, index, replica_spec, next(addresses), has_leader)
        for kind, replica_spec in specs.items()
        for index in range(replica_spec.get("replicas", 1))
    ]
    return Job(
        name=metadata["name"],
        replicas=replicas,
        clean_pods=policy.get("cleanPodPolicy") or "None",
        backoff_limit=policy.get("backoffLimit"),
        deadline=policy.get("activeDeadlineSeconds"),
        all_workers=spec.get("successPolicy") == "AllWorkers",
        dynamic=bool(spec.get("enableDynamicWorker")),
        left_out=list(_tfjob_check.left_out(manifest)),
    )


def _named(metadata: object, suffix: str) -> Mapping[str, Any]:
    """With a name, as the API server makes one of a generateName."""
    if not isinstance(metadata, Mapping) or not (metadata.get("name") or metadata.get("generateName")):
        raise Invalid("metadata has neither name nor generateName; a TFJob needs one of them")
    return metadata if metadata.get("name") else {**metadata, "name": f"{metadata['generateName']}{suffix}"}


def _replica(metadata: Mapping[str, Any], kind: str, index: int, spec: Mapping[str, Any], address: str, has_leader: bool) -> Replica:
    pod = spec["template"]["spec"]
    described = spec["template"].get("metadata") or {}
    return Replica(
        job=metadata["name"],
        namespace=metadata.get("namespace") or "default",
        kind=kind,
        index=index,
        address=address,
        container=next(one for one in pod["containers"] if one["name"] == CONTAINER),
        volumes={volume["name"]: volume for volume in pod.get("volumes") or []},
        leads=kind.lower() in ("chief", "master") if has_leader else kind.lower() == "worker" and index == 0,
        own_labels=described.get("labels") or {},
        annotations=described.get("annotations") or {},
        restart_policy=spec.get("restartPolicy") or "Never",
        grace=GRACE if pod.get("terminationGracePeriodSeconds") is None else float(pod["terminationGracePeriodSeconds"]),
    )


# ---- what a container is given


def of_the_image(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name in IMAGE_VARIABLES or name.startswith(IMAGE_PREFIXES)}


def given_variables(words: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """What NAME=VALUE words say; of a NAME alone, the value that it has here."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or (not equals and name not in environment):
            raise Invalid(f"--env {word}: there is no variable {name!r} here; write it as NAME=VALUE, or NAME for one that is set")
        found[name] = value if equals else environment[name]
    return found


def tf_config(job: Job, replica: Replica) -> str | None:
    """As the operator writes it; None where it writes none: one stock replica alone is not distributed."""
    if len(job.of(*STOCK_TYPES)) <= 1:
        return None
    task = {"type": replica.type, "index": replica.index}
    if job.dynamic and replica.type in ("worker", "ps"):
        cluster: dict[str, Any] = {"ps": [f"{ps.host}:{ps.port}" for ps in job.of("ps")]}
        if replica.type == "worker":
            cluster["worker"] = {str(replica.index): f"{replica.host}:{replica.port}"}
        return json.dumps({"sparseCluster": cluster, "task": task})
    cluster = {}
    for other in job.replicas:
        cluster.setdefault(other.type, []).append(f"{other.host}:{other.port}")
    return json.dumps({"cluster": cluster, "task": task, "environment": "cloud"})


def environment(job: Job, replica: Replica, base: Mapping[str, str]) -> dict[str, str]:
    values = {**base, "PATH": os.pathsep.join([base.get("PATH", os.defpath), os.path.dirname(_binary.path())])}  # an image has it there too
    budget = memory_budget(replica)
    if budget is not None:
        values["PENSTOCK_MEMORY"] = str(budget)
    for entry in replica.container.get("env") or []:
        values[entry["name"]] = _value(replica, entry, values)
    config = tf_config(job, replica)
    if config is not None:
        values["TF_CONFIG"] = config  # the operator's comes last, and so before the manifest's own
    return values


def memory_budget(replica: Replica) -> int | None:
    """What a reader would hold of its container's memory limit, for which there is no cgroup here; None without one, and for others."""
    limit = ((replica.container.get("resources") or {}).get("limits") or {}).get("memory")
    if limit is None or replica.type in STOCK_TYPES:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([A-Za-z]*)", str(limit))
    if found is None or found[2] not in QUANTITIES:
        raise Invalid(f"{replica.name}: the memory limit {limit!r} is no quantity such as 8Gi")
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(min(float(found[1]) * QUANTITIES[found[2]], machine) * OF_THE_LIMIT)


def _value(replica: Replica, entry: Mapping[str, Any], known: Mapping[str, str]) -> str:
    if entry.get("valueFrom") is None:
        return _expand(entry.get("value") or "", known)
    path = (entry["valueFrom"].get("fieldRef") or {}).get("fieldPath", "")
    described = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
    if described:
        return (replica.labels if described[1] == "labels" else replica.annotations).get(described[2], "")
    fields = {
        "metadata.name": replica.name,
        "metadata.namespace": replica.namespace,
        "status.podIP": replica.address,
        "status.hostIP": "127.0.0.1",
        "spec.nodeName": "localhost",
    }
    if path not in fields and entry["name"] in known:
        return known[entry["name"]]  # by --env
    if path not in fields:
        source, name = json.dumps(entry["valueFrom"]), entry["name"]
        raise Invalid(f"{replica.name}: the variable {name} comes from {source}, which there is none of here; give it with --env {name}=VALUE")
    return fields[path]


def _expand(text: str, known: Mapping[str, str]) -> str:
    """$(NAME), as Kubernetes does in env, command and args; $$ is $, there as here."""
    return re.sub(r"\$\$|\$\((\w+)\)", lambda found: "$" if found[1] is None else known.get(found[1], found[0]), text)


def command(replica: Replica, values: Mapping[str, str]) -> list[str]:
    words = replica.container.get("command") or [_binary.path()]
    words = [_expand(str(word), values) for word in [*words, *(replica.container.get("args") or [])]]
    return [sys.executable if words[0] == "python" else words[0], *words[1:]]


def hosts_file(job: Job, machine: str) -> str:
    """The pods' names, before those that the machine's own file has: a service of another manifest may be among them."""
    names = (f"{replica.address} {replica.host} {replica.host}.cluster.local {replica.name}" for replica in job.replicas)
    return "".join(f"{line}\n" for line in names) + "127.0.0.1 localhost\n::1 localhost\n" + machine
