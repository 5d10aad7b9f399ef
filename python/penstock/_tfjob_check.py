"""A TFJob's manifest, looked at before anything is started: what the API server and the operator would refuse is refused here, by field.

A check takes where a value stands and the value, and raises `Invalid` where it is another than expected. Fields that nobody here reads are let pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from penstock.errors import Invalid

CONTAINER = "tensorflow"
STOCK_TYPES = ("ps", "worker", "chief", "master", "evaluator")
DECIDERS = ("chief", "master", "worker")
ADDRESSES = 254  # of a run's network

Check = Callable[[str, Any], None]

_LONGEST_NAME = 63
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_KIND = re.compile(r"[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?", re.ASCII)
_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*", re.ASCII)
_NAME = f"a name of lower-case letters, digits and '-' that begins with a letter, of up to {_LONGEST_NAME} characters"
_SHOWN = 60  # characters of a value


def manifest(document: Mapping[str, Any], name: str) -> None:
    """Of a TFJob that is called `name`."""
    _MANIFEST("", document)
    _label("metadata.name" if document["metadata"].get("name") else "metadata.generateName, with the five characters that follow it,", name)
    specs = document["spec"]["tfReplicaSpecs"]
    _types(specs)
    for kind, spec in specs.items():
        at = f"spec.tfReplicaSpecs.{kind}"
        last = f"{name}-{kind.lower()}-{spec.get('replicas', 1) - 1}"
        if len(last) > _LONGEST_NAME:
            raise Invalid(f"{at}: its pod {last} has a name of {len(last)} characters, and Kubernetes allows {_LONGEST_NAME}: shorten metadata.name")
        containers = spec["template"]["spec"]["containers"]
        if CONTAINER not in [container["name"] for container in containers]:
            raise Invalid(f"{at}.template.spec.containers has none named {CONTAINER}: the operator would refuse it")


def left_out(document: Mapping[str, Any]) -> Iterator[str]:
    """What the operator's pods would have and processes of this machine have not, and what the operator passes over, in words."""
    if (document["spec"].get("runPolicy") or {}).get("suspend"):
        yield "spec.runPolicy.suspend is true: the operator would start no pod until it is false; here they are started"
    for kind, spec in document["spec"]["tfReplicaSpecs"].items():
        pod = spec["template"]["spec"]
        policy = spec.get("restartPolicy") or "Never"
        if pod.get("restartPolicy") not in (None, policy):
            yield f"{kind}: its pod's restartPolicy {pod['restartPolicy']} counts for nothing beside the {kind}'s own, which is {policy}: set that"
        for container in pod.get("initContainers") or []:
            yield f"{kind}: the init container {_name_of(container)} is not run here: do by hand what it would"
        for container in pod["containers"]:
            if container["name"] != CONTAINER:
                yield f"{kind}: the container {container['name']} beside {CONTAINER} is not run here"
            elif container.get("envFrom"):
                sources = ", ".join(_source_of(source) for source in container["envFrom"])
                yield f"{kind}: envFrom ({sources}) has no source here: pass what the program needs with --env NAME=VALUE"


def wrong(at: str, value: object, expected: str) -> Invalid:
    shown = repr(value)
    shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
    return Invalid(f"{at} is {'null' if value is None else shown}; expected {expected}")


def _types(specs: Mapping[str, Any]) -> None:
    at = "spec.tfReplicaSpecs"
    kinds = [kind.lower() for kind in specs]
    for kind in kinds:
        if kinds.count(kind) > 1:
            raise Invalid(f"{at} has the type {kind} twice, spelt differently; expected it once")
    if not set(kinds) & set(DECIDERS):
        raise Invalid(f"{at} has {', '.join(specs)}; expected a Chief, a Master or a Worker too: the job would never end without")
    if {"chief", "master"} <= set(kinds):
        raise Invalid(f"{at} has a Chief and a Master; expected one of them: the operator would refuse both")
    pods = sum(spec.get("replicas", 1) for spec in specs.values())
    if pods > ADDRESSES:
        raise Invalid(f"{at}: its replicas are {pods} in all; expected up to {ADDRESSES}, for each has a loopback address of this run's")


def _name_of(container: object) -> str:
    return str(container.get("name", "without a name")) if isinstance(container, Mapping) else "without a name"


def _source_of(source: Mapping[str, Any]) -> str:
    return " ".join(f"{kind} {_name_of(named)}" for kind, named in source.items() if isinstance(named, Mapping)) or "of no kind"


# ---- what fields may be


def _fields(required: tuple[str, ...] = (), never_null: tuple[str, ...] = (), **fields: Check) -> Check:
    """An object; null is as good as not there, as for Kubernetes."""

    def check(at: str, value: object) -> None:
        if not isinstance(value, Mapping):
            raise wrong(at, value, "an object, of a field a line")
        for name in required:
            if value.get(name) is None:
                raise Invalid(f"{_below(at, name)} is missing; every {at.rpartition('.')[2] or 'TFJob'} needs it")
        for name, rule in fields.items():
            if value.get(name) is not None or (name in never_null and name in value):
                rule(_below(at, name), value[name])

    return check


def _named_fields(rule: Check) -> Check:
    """An object whose fields' names are the manifest's own."""

    def check(at: str, value: object) -> None:
        if not isinstance(value, Mapping) or not value:
            raise wrong(at, value, "an object, of a replica type a field")
        for name, field in value.items():
            if not isinstance(name, str) or not _KIND.fullmatch(name):
                raise wrong(f"{at} has a type whose name", name, "letters, digits and '-', such as DatasetWorker")
            rule(_below(at, name), field)

    return check


def _list(rule: Check, least: int = 0) -> Check:
    def check(at: str, value: object) -> None:
        if not isinstance(value, list) or len(value) < least:
            raise wrong(at, value, "a list" + (" that is not empty" if least else ""))
        for index, item in enumerate(value):
            rule(f"{at}[{index}]", item)

    return check


def _text(at: str, value: object) -> None:
    if not isinstance(value, str):
        raise wrong(at, value, "a string: quote it")


def _label(at: str, value: object) -> None:
    if not isinstance(value, str) or not _LABEL.fullmatch(value) or len(value) > _LONGEST_NAME:
        raise wrong(at, value, _NAME)


def _variable(at: str, value: object) -> None:
    if not isinstance(value, str) or not _VARIABLE.fullmatch(value):
        raise wrong(at, value, "a variable's name")


def _texts(at: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise wrong(at, value, "an object, of a string a field")
    for name, text in value.items():
        _text(f"{at}.{name}", text)


def _inside(at: str, value: object) -> None:
    if not isinstance(value, str) or value.startswith("/") or ".." in value.split("/"):
        raise wrong(at, value, "a path below the volume, without ..")


def _absolute(at: str, value: object) -> None:
    if not isinstance(value, str) or not value.startswith("/"):
        raise wrong(at, value, "a path that begins with /")


def _flag(at: str, value: object) -> None:
    if not isinstance(value, bool):
        raise wrong(at, value, "true or false")


def _whole(least: int, most: int | None = None, hint: str = "") -> Check:
    def check(at: str, value: object) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < least or (most is not None and value > most):
            raise wrong(at, value, f"a whole number from {least}" + (f" to {most}" if most is not None else "") + hint)

    return check


def _one_of(*words: str) -> Check:
    def check(at: str, value: object) -> None:
        if value not in words:
            raise wrong(at, value, " or ".join(", ".join(word or "''" for word in words).rsplit(", ", 1)))

    return check


def _below(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


_ENVIRONMENT = _list(_fields(("name",), name=_variable, value=_text, valueFrom=_fields(fieldRef=_fields(fieldPath=_text))))
_MOUNTS = _list(_fields(("name", "mountPath"), name=_text, mountPath=_absolute, subPath=_inside, readOnly=_flag))
_VOLUMES = _list(_fields(("name",), name=_text, hostPath=_fields(("path",), path=_absolute)))

_CONTAINER = _fields(
    ("name",),
    name=_label,
    command=_list(_text),
    args=_list(_text),
    workingDir=_absolute,
    env=_ENVIRONMENT,
    envFrom=_list(_fields()),
    ports=_list(_fields(("containerPort",), name=_text, containerPort=_whole(1, 65535))),
    resources=_fields(limits=_fields()),
    volumeMounts=_MOUNTS,
)

_POD = _fields(
    ("containers",),
    containers=_list(_CONTAINER, least=1),
    initContainers=_list(_fields()),
    restartPolicy=_one_of("Always", "OnFailure", "Never"),
    terminationGracePeriodSeconds=_whole(0),
    volumes=_VOLUMES,
)

_REPLICA_SPEC = _fields(
    ("template",),
    ("replicas",),
    replicas=_whole(1, hint="; a type without replicas is left out"),
    restartPolicy=_one_of("Always", "OnFailure", "Never", "ExitCode"),
    template=_fields(("spec",), metadata=_fields(labels=_texts, annotations=_texts), spec=_POD),
)

_MANIFEST = _fields(
    ("metadata", "spec"),
    metadata=_fields(name=_text, generateName=_text, namespace=_label),
    spec=_fields(
        ("tfReplicaSpecs",),
        tfReplicaSpecs=_named_fields(_REPLICA_SPEC),
        successPolicy=_one_of("", "AllWorkers"),
        enableDynamicWorker=_flag,
        runPolicy=_fields(cleanPodPolicy=_one_of("None", "Running", "All"), backoffLimit=_whole(0), activeDeadlineSeconds=_whole(0), suspend=_flag),
    ),
)
