"""What deploy/ holds is what Kubernetes and the TFJob operator accept."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from penstock import _tfjob

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
TFJOB = json.loads((ROOT / "tests" / "data" / "tfjob.schema.json").read_text())
VERSIONS = ("1.30", "1.37")


def _documents() -> Iterator[Any]:
    for path in sorted(DEPLOY.rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            yield pytest.param(document, id=f"{path.relative_to(DEPLOY)}:{document['kind']}")


def _pods(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    spec = document.get("spec", {})
    templates = [replica["template"] for replica in spec.get("tfReplicaSpecs", {}).values()] + ([spec["template"]] if "template" in spec else [])
    yield from (template["spec"] for template in templates)


@pytest.mark.parametrize("document", list(_documents()))
def test_a_manifest_is_as_its_schema_demands(document: dict[str, Any]) -> None:
    if document["kind"] == "Kustomization":
        assert all((DEPLOY / "kubernetes" / "base" / name).exists() for name in document["resources"])
        return
    for version in VERSIONS:
        if document["kind"] == "TFJob":
            jsonschema.validate(document, TFJOB)
            for pod in _pods(document):
                kubernetes_validate.validate({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": pod}, version, strict=True)
        else:
            kubernetes_validate.validate(document, version, strict=True)


def test_the_schema_refuses_what_the_operator_refuses() -> None:
    document = yaml.safe_load((DEPLOY / "tfjob" / "custom-types.yaml").read_text())
    document["spec"]["tfReplicaSpecs"]["Chief"]["replicas"] = "one"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, TFJOB)


@pytest.mark.parametrize("document", list(_documents()))
def test_every_pod_carries_a_token(document: dict[str, Any]) -> None:
    for pod in _pods(document):
        for container in pod["containers"]:
            assert "PENSTOCK_TOKEN_FILE" in [entry["name"] for entry in container["env"]]


@pytest.mark.parametrize("document", list(_documents()))
def test_flags_of_containers_are_flags_of_penstock(document: dict[str, Any]) -> None:
    from support.cluster import run

    for pod in _pods(document):
        for container in pod["containers"]:
            arguments = container.get("args", []) if "command" not in container else []
            flags = [word for word in arguments if word.startswith("--")]
            if arguments:
                helped = run(arguments[0], "--help")
                assert helped.returncode == 0
                assert [flag for flag in flags if flag not in helped.stdout] == []


def test_a_tfjob_tells_everybody_where_the_dispatcher_is() -> None:
    job = _tfjob.load(str(DEPLOY / "tfjob" / "custom-types.yaml"), "127.66.0")
    for replica in job.replicas:
        config = json.loads(_tfjob.tf_config(job, replica) or "{}")
        assert config["cluster"]["datasetdispatcher"] == ["recommender-datasetdispatcher-0.default.svc:5050"]
        assert config["task"] == {"type": replica.type, "index": replica.index}


def test_the_batch_scripts_are_shell_scripts_and_one_has_three_groups() -> None:
    for script in (DEPLOY / "slurm").iterdir():
        assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0, script
    text = (DEPLOY / "slurm" / "train.sbatch").read_text()
    assert text.count("#SBATCH hetjob") == 2
    assert all(f"--het-group={group} " in text for group in range(3))
