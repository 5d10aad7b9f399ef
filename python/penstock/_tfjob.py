"""A TFJob's manifest: its pods, and what the operator gives their containers."""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import _binary
from penstock.errors import Invalid, NotFound

DEFAULT_PORT = 2222  # of a container without a port named tfjob-port
PORT_NAME = "tfjob-port"
CONTAINER = "tensorflow"
STOCK_TYPES = ("ps", "worker", "chief", "master", "evaluator")
GRACE = 30.0
LABELS = "training.kubeflow.org"
QUANTITIES = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
OF_THE_LIMIT = 0.6  # as a worker takes of a cgroup's


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
        role = {f"{LABELS}/job-role": "master"} if self.type in ("chief", "master") else {}
        return {
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

    def of(self, *types: str) -> list[Replica]:
        return [replica for replica in self.replicas if replica.type in types]


def load(path: str, network: str, suffix: str = "00000") -> Job:
    """The TFJob of a manifest; of several documents, the only one.

    network: the first three numbers of its pods' addresses.
    suffix: what follows a generateName.
    """
    try:
        import yaml
    except ImportError as error:
        raise NotFound("reading a manifest needs PyYAML: pip install 'penstock[tfjob]'") from error
    try:
        documents = [document for document in yaml.safe_load_all(Path(path).read_text()) if document]
    except (OSError, yaml.YAMLError) as error:
        raise Invalid(f"{path} cannot be read as YAML: {error}") from error
    jobs = [document for document in documents if document.get("kind") == "TFJob"]
    if len(jobs) != 1:
        raise Invalid(f"{path} has {len(jobs)} documents of kind TFJob; it must have one")
    return parse(jobs[0], network, suffix)


def parse(manifest: Mapping[str, Any], network: str, suffix: str = "00000") -> Job:
    spec = manifest.get("spec") or {}
    metadata = _named(manifest.get("metadata") or {}, suffix)
    specs = spec.get("tfReplicaSpecs") or {}
    if not metadata.get("name") or not specs:
        raise Invalid("a TFJob needs metadata.name (or generateName) and spec.tfReplicaSpecs")
    policy = spec.get("runPolicy") or {}
    addresses = (f"{network}.{host}" for host in itertools.count(1))
    replicas = [
        _replica(metadata, kind, index, replica_spec, next(addresses))
        for kind, replica_spec in specs.items()
        for index in range(int(replica_spec.get("replicas", 1)))
    ]
    return Job(
        name=metadata["name"],
        replicas=replicas,
        clean_pods=policy.get("cleanPodPolicy", "None"),
        backoff_limit=policy.get("backoffLimit"),
        deadline=policy.get("activeDeadlineSeconds"),
        all_workers=spec.get("successPolicy") == "AllWorkers",
        dynamic=bool(spec.get("enableDynamicWorker")),
    )


def _named(metadata: Mapping[str, Any], suffix: str) -> Mapping[str, Any]:
    """With a name, as the API server makes one of a generateName."""
    if metadata.get("name") or not metadata.get("generateName"):
        return metadata
    return {**metadata, "name": metadata["generateName"] + suffix}


def _replica(metadata: Mapping[str, Any], kind: str, index: int, spec: Mapping[str, Any], address: str) -> Replica:
    pod = spec["template"]["spec"]
    containers = pod["containers"]
    container = next((one for one in containers if one["name"] == CONTAINER), None)
    if container is None:
        raise Invalid(f"the pods of type {kind} have no container named {CONTAINER}: the operator would refuse them")
    return Replica(
        job=metadata["name"],
        namespace=metadata.get("namespace", "default"),
        kind=kind,
        index=index,
        address=address,
        container=container,
        volumes={volume["name"]: volume for volume in pod.get("volumes") or []},
        restart_policy=spec.get("restartPolicy") or pod.get("restartPolicy") or "Never",
        grace=float(pod.get("terminationGracePeriodSeconds", GRACE)),
    )


# ---- what a container is given


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
    config = tf_config(job, replica)
    if config is not None:
        values["TF_CONFIG"] = config
    budget = memory_budget(replica)
    if budget is not None:
        values["PENSTOCK_MEMORY"] = str(budget)
    for entry in replica.container.get("env") or []:
        values[entry["name"]] = _value(replica, entry, values)
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
    if "valueFrom" not in entry:
        return _expand(str(entry.get("value", "")), known)
    path = (entry["valueFrom"].get("fieldRef") or {}).get("fieldPath", "")
    label = re.fullmatch(r"metadata\.labels\['(.+)'\]", path)
    if label:
        return replica.labels.get(label[1], "")
    fields = {
        "metadata.name": replica.name,
        "metadata.namespace": replica.namespace,
        "status.podIP": replica.address,
        "status.hostIP": "127.0.0.1",
        "spec.nodeName": "localhost",
    }
    if path not in fields:
        source = json.dumps(entry["valueFrom"])
        raise Invalid(f"{replica.name}: the variable {entry['name']} comes from {source}, which there is none of here; give it a value")
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
