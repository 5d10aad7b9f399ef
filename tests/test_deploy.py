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


WITH_CODE = DEPLOY / "kubernetes" / "with-code"


def _documents() -> Iterator[Any]:
    """All of them, with patches as what they make of the manifests that they are for."""
    for path in sorted(DEPLOY.rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            patched = _merged(_base("worker.yaml"), document) if path == WITH_CODE / "worker.yaml" else document
            yield pytest.param(patched, id=f"{path.relative_to(DEPLOY)}:{document['kind']}")


def _base(name: str) -> Any:
    return yaml.safe_load((DEPLOY / "kubernetes" / "base" / name).read_text())


def _merged(base: Any, patch: Any) -> Any:
    """As Kustomize merges: objects member by member, lists of named things by their names, all else anew."""
    if isinstance(base, dict) and isinstance(patch, dict):
        return {**base, **{key: _merged(base[key], value) if key in base else value for key, value in patch.items()}}
    if isinstance(base, list) and isinstance(patch, list) and all(isinstance(item, dict) for item in base + patch):
        key = "mountPath" if "mountPath" in base[0] else "name"
        merged = {item[key]: item for item in base}
        for item in patch:
            merged[item[key]] = _merged(merged.get(item[key]), item)
        return list(merged.values())
    return patch


def _pods(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    spec = document.get("spec", {})
    templates = [replica["template"] for replica in spec.get("tfReplicaSpecs", {}).values()] + ([spec["template"]] if "template" in spec else [])
    yield from (template["spec"] for template in templates)


@pytest.mark.parametrize("document", list(_documents()))
def test_a_manifest_is_as_its_schema_demands(document: dict[str, Any]) -> None:
    if document["kind"] == "Kustomization":
        directories = [DEPLOY / "kubernetes" / "base", WITH_CODE]
        names = document["resources"] + [patch["path"] for patch in document.get("patches", [])]
        assert any(all((directory / name).exists() for name in names) for directory in directories)
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
            arguments = container.get("args", []) if container.get("command", ["penstock"]) == ["penstock"] else []
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


# ---- what pipelines need: code, data, a name for each run


def _readers(document: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Containers that read, each with its words."""
    for pod in _pods(document):
        for container in pod["containers"]:
            words = " ".join([*container.get("command", []), *container.get("args", [])])
            if "worker" in words and "--allow-path" in words:
                yield container, words


@pytest.mark.parametrize("document", list(_documents()))
def test_readers_of_one_job_run_its_code_and_those_of_a_shared_service_by_choice_only(document: dict[str, Any]) -> None:
    for container, words in _readers(document):
        with_code = document["kind"] == "TFJob" or container["image"] == "penstock-trainer"
        assert ("--allow-code" in words) == with_code
        assert container["image"] == ("penstock-trainer" if with_code else "penstock"), "code needs the packages that it imports"
    for script in (DEPLOY / "slurm").iterdir():
        assert "penstock worker --allow-code" in script.read_text()


def test_the_service_with_code_is_the_other_with_the_flag_and_a_place_to_write() -> None:
    base, patched = _base("worker.yaml"), _merged(_base("worker.yaml"), yaml.safe_load((WITH_CODE / "worker.yaml").read_text()))
    [before], [after] = (document["spec"]["template"]["spec"]["containers"] for document in (base, patched))
    assert [word for word in after["args"] if word not in before["args"]] == ["--allow-code"]
    assert [word for word in before["args"] if word not in after["args"]] == []
    assert [mount["mountPath"] for mount in after["volumeMounts"]] == ["/data", "/secrets", "/tmp"]
    assert {volume["name"] for volume in patched["spec"]["template"]["spec"]["volumes"]} == {"data", "token", "tmp"}


@pytest.mark.parametrize("document", list(_documents()))
def test_who_reads_and_who_trains_see_the_data_at_one_path(document: dict[str, Any]) -> None:
    for pod in _pods(document):
        for container in pod["containers"]:
            words = [*container.get("command", []), *container.get("args", [])]
            if "dispatcher" not in words:
                assert {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}["data"] == "/data"
                assert "data" in [volume["name"] for volume in pod["volumes"]]


def test_a_manifest_that_reads_from_a_service_which_stays_is_another_run_each_time() -> None:
    trainer = yaml.safe_load((DEPLOY / "kubernetes" / "trainer.yaml").read_text())
    [container] = trainer["spec"]["template"]["spec"]["containers"]
    names = [entry["name"] for entry in container["env"]]
    variables = {entry["name"]: entry for entry in container["env"]}
    assert variables["JOB_UID"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['batch.kubernetes.io/controller-uid']"
    assert variables["PENSTOCK_JOB_NAME"]["value"] == "train-$(JOB_UID)"
    assert names.index("JOB_UID") < names.index("PENSTOCK_JOB_NAME"), "Kubernetes expands what stands before"
    path = str(DEPLOY / "tfjob" / "separate-readers.yaml")
    runs = [_tfjob.load(path, "127.66.0", suffix) for suffix in ("abcde", "fghij")]
    hosts = [json.loads(_tfjob.tf_config(job, job.replicas[0]) or "")["cluster"]["chief"] for job in runs]
    assert hosts == [[f"recommender-{suffix}-chief-0.default.svc:2222"] for suffix in ("abcde", "fghij")]


@pytest.mark.parametrize("script", ["train.sbatch", "one-allocation.sbatch"])
@pytest.mark.parametrize("servers", ["exit 3", "exec sleep 60"], ids=["servers that ended", "servers that serve"])
def test_a_batch_script_ends_with_its_ranks_and_with_their_code(tmp_path: Path, script: str, servers: str) -> None:
    """With an srun that runs nothing: servers do as the case says, ranks end with 7 when both are there."""
    told, started = 'case "$*" in *TASK_TYPE=dataset*)', tmp_path / "started"
    ranks = f'echo "$*" > {tmp_path}/ranks; while [ "$(cat {started} | wc -l)" -lt 2 ]; do sleep 0.01; done; exit 7'
    srun = tmp_path / "srun"
    srun.write_text(f"#!/bin/sh\n{told} echo . >> {started}; {servers};; *) {ranks};; esac\n")
    srun.chmod(0o755)
    started.touch()
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "SLURM_JOB_ID": "77", "SLURMD_NODENAME": "node1"}
    command = ["bash", str(DEPLOY / "slurm" / script), "python", "train.py"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 7, ended.stderr
    assert "PENSTOCK_JOB_NAME=train-77" in (tmp_path / "ranks").read_text()


def test_the_batch_scripts_are_shell_scripts_and_one_has_three_groups() -> None:
    for script in (DEPLOY / "slurm").iterdir():
        assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0, script
    text = (DEPLOY / "slurm" / "train.sbatch").read_text()
    assert text.count("#SBATCH hetjob") == 2
    assert all(f"--het-group={group} " in text for group in range(3))
