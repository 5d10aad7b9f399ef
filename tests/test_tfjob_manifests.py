"""What is wrong in a TFJob manifest is said by field before anything is started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock import tfjob
from support import tfjobs


def _changed(path: str, value: object) -> dict[str, Any]:
    """A manifest with one field changed; with ..., without it."""
    manifest = tfjobs.manifest({"Chief": tfjobs.spec({**tfjobs.shell("exit 0"), "env": [{"name": "A", "value": "1"}]})})
    *above, last = [int(word) if word.isdigit() else word for word in path.split(".")]
    place: Any = manifest
    for word in above:
        place = place[word]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return manifest


CHIEF = "spec.tfReplicaSpecs.Chief"
POD = f"{CHIEF}.template.spec"


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ([1, 2], "a document is [1, 2]; expected an object with kind: TFJob"),
        ("just words", "a document is 'just words'; expected an object"),
        ("kind: [", "cannot be read as YAML"),
        ("kind: Job", "has 0 documents of kind TFJob"),
        (_changed("metadata", "x"), "metadata has neither name nor generateName"),
        (_changed("metadata.name", "Rêco"), "metadata.name is 'Rêco'; expected a name of lower-case letters, digits and '-'"),
        (_changed("metadata.name", "7reco"), "metadata.name is '7reco'; expected"),
        (_changed("metadata.name", "r" * 64), "of up to 63 characters"),
        (_changed("metadata.name", "r" * 60), "has a name of 68 characters, and Kubernetes allows 63: shorten metadata.name"),
        (_changed("spec", ...), "spec is missing"),
        (_changed("spec.tfReplicaSpecs", []), "spec.tfReplicaSpecs is []; expected an object"),
        (_changed("spec.tfReplicaSpecs", {}), "spec.tfReplicaSpecs is {}; expected an object"),
        (_changed("spec.tfReplicaSpecs", {"PS": tfjobs.spec(tfjobs.shell("exit 0"))}), "expected a Chief, a Master or a Worker too"),
        (_changed("spec.tfReplicaSpecs.Wörker", {}), "a type whose name is 'Wörker'; expected letters"),
        (_changed("spec.tfReplicaSpecs.chief", tfjobs.spec(tfjobs.shell(""))), "has the type chief twice"),
        (_changed("spec.tfReplicaSpecs.Master", tfjobs.spec(tfjobs.shell(""))), "has a Chief and a Master"),
        (_changed("spec.tfReplicaSpecs.Worker", tfjobs.spec(tfjobs.shell(""), 254)), "its replicas are 255 in all; expected up to 254"),
        (_changed("spec.runPolicy.cleanPodPolicy", "Some"), "spec.runPolicy.cleanPodPolicy is 'Some'; expected None, Running or All"),
        (_changed("spec.runPolicy.backoffLimit", "3"), "spec.runPolicy.backoffLimit is '3'; expected a whole number from 0"),
        (_changed("spec.successPolicy", "Any"), "spec.successPolicy is 'Any'; expected '' or AllWorkers"),
        (_changed(f"{CHIEF}.replicas", None), f"{CHIEF}.replicas is null; expected a whole number from 1"),
        (_changed(f"{CHIEF}.replicas", "two"), f"{CHIEF}.replicas is 'two'; expected a whole number from 1"),
        (_changed(f"{CHIEF}.replicas", 0), f"{CHIEF}.replicas is 0; expected a whole number from 1; a type without replicas is left out"),
        (_changed(f"{CHIEF}.replicas", -1), f"{CHIEF}.replicas is -1"),
        (_changed(f"{CHIEF}.template.metadata", {"labels": {"a": 1}}), f"{CHIEF}.template.metadata.labels.a is 1; expected a string"),
        (
            _changed(f"{POD}.containers.0.volumeMounts", [{"name": "v", "mountPath": "/v", "subPath": "a/../../b"}]),
            "expected a path below the volume",
        ),
        (_changed(f"{CHIEF}.restartPolicy", "Sometimes"), f"{CHIEF}.restartPolicy is 'Sometimes'; expected Always, OnFailure, Never or ExitCode"),
        (_changed(f"{CHIEF}.template", ...), f"{CHIEF}.template is missing"),
        (_changed(f"{POD}", "x"), f"{POD} is 'x'; expected an object"),
        (_changed(f"{POD}.containers", []), f"{POD}.containers is []; expected a list that is not empty"),
        (_changed(f"{POD}.containers.0.name", ...), f"{POD}.containers[0].name is missing"),
        (_changed(f"{POD}.containers.0.name", "main"), f"{POD}.containers has none named tensorflow"),
        (_changed(f"{POD}.containers.0.command", "sleep 1"), f"{POD}.containers[0].command is 'sleep 1'; expected a list"),
        (_changed(f"{POD}.containers.0.args", [1]), f"{POD}.containers[0].args[0] is 1; expected a string: quote it"),
        (_changed(f"{POD}.containers.0.env.0.value", 1), f"{POD}.containers[0].env[0].value is 1; expected a string: quote it"),
        (_changed(f"{POD}.containers.0.env.0.name", ...), f"{POD}.containers[0].env[0].name is missing"),
        (_changed(f"{POD}.containers.0.ports", [{"containerPort": "x"}]), f"{POD}.containers[0].ports[0].containerPort is 'x'; expected a whole"),
        (_changed(f"{POD}.containers.0.workingDir", "here"), f"{POD}.containers[0].workingDir is 'here'; expected a path that begins with /"),
        (_changed(f"{POD}.containers.0.workingDir", "/no/such"), "its workingDir is /no/such, which is neither in a volume nor a directory"),
        (_changed(f"{POD}.containers.0.volumeMounts", [{"name": "a"}]), f"{POD}.containers[0].volumeMounts[0].mountPath is missing"),
        (_changed(f"{POD}.terminationGracePeriodSeconds", "soon"), f"{POD}.terminationGracePeriodSeconds is 'soon'"),
    ],
)
def test_a_manifest_that_cannot_be_run_is_refused_by_field_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], manifest: object, words: str
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(manifest if isinstance(manifest, str) else json.dumps(manifest))
    assert tfjob.main(["run", str(path)]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert (said.err.count("\n"), said.out) == (1, "")


def test_what_a_pod_would_have_and_is_not_done_here_is_named(tmp_path: Path) -> None:
    manifest = _changed(f"{POD}.initContainers", [{"name": "fetch"}])
    pod = manifest["spec"]["tfReplicaSpecs"]["Chief"]["template"]["spec"]
    pod["containers"].append({"name": "logs"})
    pod["containers"][0]["envFrom"] = [{"secretRef": {"name": "keys"}}, {"configMapRef": {"name": "settings"}}]
    code, said = tfjobs.run(manifest, tmp_path)
    assert code == 0, said
    assert "tfjob: Chief: the init container fetch is not run here" in said
    assert "tfjob: Chief: the container logs beside tensorflow is not run here" in said
    assert "tfjob: Chief: envFrom (secretRef keys, configMapRef settings) has no source here: pass what the program needs with --env" in said
