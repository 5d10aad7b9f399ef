"""What a pod of `penstock tfjob run` is given: its environment, its names, its volumes."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from penstock import _binary, _tfjob, tfjob
from support import tfjobs


def test_names_resolve_and_the_environment_is_the_operators(tmp_path: Path) -> None:
    look = """
import os, json, socket
print("SAW", json.dumps([json.loads(os.environ["TF_CONFIG"]), socket.gethostbyname(socket.gethostname()), os.environ["POD_IP"]]))
"""
    chief = {"command": ["python", "-c", look], "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]}
    code, said = tfjobs.run(tfjobs.manifest({"Chief": tfjobs.spec(chief), "Worker": tfjobs.spec(tfjobs.shell("exit 0"), replicas=2)}), tmp_path)
    assert code == 0, said
    found = re.search(r"SAW (.*)", said)
    assert found
    config, address, pod_ip = json.loads(found[1])
    assert config["cluster"] == {"chief": ["reco-chief-0.default.svc:2222"], "worker": [f"reco-worker-{i}.default.svc:2222" for i in range(2)]}
    assert config["task"] == {"type": "chief", "index": 0}
    assert address == pod_ip
    assert address.startswith("127.66.")


def test_labels_and_annotations_are_the_templates_and_the_operators_and_tf_config_is_the_operators(tmp_path: Path) -> None:
    fields = {
        "TEAM": "metadata.labels['team']",
        "NOTE": "metadata.annotations['a.b/note']",
        "ROLE": "metadata.labels['training.kubeflow.org/job-role']",
    }
    show = tfjobs.shell('echo "SAW $TEAM, $NOTE, $ROLE."; case $TF_CONFIG in *cluster*) ;; *) exit 1;; esac')
    show["env"] = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]
    show["env"].append({"name": "TF_CONFIG", "value": "{}"})
    spec = tfjobs.spec(show, replicas=2)
    spec["template"]["metadata"] = {"labels": {"team": "readers"}, "annotations": {"a.b/note": "of the template"}}
    code, said = tfjobs.run(tfjobs.manifest({"Worker": spec}, successPolicy="AllWorkers"), tmp_path)
    assert code == 0, said
    assert "[reco-worker-0] SAW readers, of the template, master.\n" in said
    assert "[reco-worker-1] SAW readers, of the template, .\n" in said


def test_runs_at_one_time_have_networks_of_their_own() -> None:
    with tfjob.network_of_run() as one, tfjob.network_of_run() as other:
        assert one != other


@pytest.mark.parametrize("path", ["-", "/dev/stdin", "/dev/fd/0"])
def test_a_manifest_may_come_by_a_pipe(path: str) -> None:
    manifest = json.dumps(tfjobs.manifest({"Chief": tfjobs.spec(tfjobs.shell("exit 0"))}))
    command = [_binary.path(), "tfjob", "run", path]
    done = subprocess.run(command, input=manifest, env=_binary.environment(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "reco succeeded" in done.stderr) == (0, True), done.stderr


def test_one_stock_replica_alone_has_no_tf_config_and_dynamic_workers_have_the_sparse_form() -> None:
    specs = {"Chief": tfjobs.spec(tfjobs.shell("")), "DatasetWorker": tfjobs.spec(tfjobs.shell(""), replicas=2)}
    job = _tfjob.parse(tfjobs.manifest(specs), "127.66.0")
    assert _tfjob.tf_config(job, job.replicas[0]) is None
    job = _tfjob.parse(tfjobs.manifest({"Worker": tfjobs.spec(tfjobs.shell(""), replicas=2)}, enableDynamicWorker=True), "127.66.0")
    config = json.loads(_tfjob.tf_config(job, job.replicas[1]) or "")
    assert config == {"sparseCluster": {"ps": [], "worker": {"1": "reco-worker-1.default.svc:2222"}}, "task": {"type": "worker", "index": 1}}


def test_a_readers_memory_limit_is_its_budget_and_the_manifests_own_word_goes_before(tmp_path: Path) -> None:
    limits = {"resources": {"limits": {"memory": "100Mi", "cpu": "1"}}}
    show = tfjobs.shell(f"echo ${{PENSTOCK_MEMORY:-none}} > {tmp_path}/$POD")
    env = [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    chief = tfjobs.shell(f"while [ $(ls {tmp_path} | grep -c dataset) -lt 2 ]; do sleep 0.05; done; " + show["command"][2])
    said = {"DatasetWorker": tfjobs.spec({**show, **limits, "env": env}, restart="Never"),
            "DatasetDispatcher": tfjobs.spec({**show, **limits, "env": [*env, {"name": "PENSTOCK_MEMORY", "value": "1GiB"}]}, restart="Never"),
            "Chief": tfjobs.spec({**chief, **limits, "env": env})}  # fmt: skip
    code, log = tfjobs.run(tfjobs.manifest(said), tmp_path)
    assert code == 0, log
    budgets = {path.name: path.read_text().strip() for path in tmp_path.glob("reco-*")}
    assert budgets == {"reco-datasetworker-0": str(60 * 2**20), "reco-datasetdispatcher-0": "1GiB", "reco-chief-0": "none"}


def test_a_memory_limit_that_is_no_quantity_is_refused_by_name(tmp_path: Path) -> None:
    reader = {**tfjobs.shell("exit 0"), "resources": {"limits": {"memory": "8 gigs"}}}
    code, said = tfjobs.run(tfjobs.manifest({"Chief": tfjobs.spec(tfjobs.shell("exit 0")), "DatasetWorker": tfjobs.spec(reader)}), tmp_path)
    assert (code, "reco-datasetworker-0: the memory limit '8 gigs' is no quantity such as 8Gi" in said) == (2, True), said


def test_a_generated_name_is_another_in_each_run_and_one_for_all_its_pods(tmp_path: Path) -> None:
    manifest = tfjobs.manifest({"Chief": tfjobs.spec({"command": ["hostname"]}), "Worker": tfjobs.spec(tfjobs.shell("exit 0"))})
    manifest["metadata"] = {"generateName": "reco-"}
    said = [tfjobs.run(manifest, tmp_path) for _ in range(2)]
    assert [code for code, _ in said] == [0, 0], said
    found = [re.findall(r"^\[(reco-\w{5})-chief-0\] (reco-\w{5})-chief-0$", text, re.MULTILINE) for _, text in said]
    assert [len(names) for names in found] == [1, 1], said
    [[first, seen_by_first]], [[second, seen_by_second]] = found
    assert (first, second) == (seen_by_first, seen_by_second)
    assert first != second


def test_names_of_the_machines_own_hosts_file_resolve_after_the_pods() -> None:
    job = _tfjob.parse(tfjobs.manifest({"Chief": tfjobs.spec(tfjobs.shell("")), "Worker": tfjobs.spec(tfjobs.shell(""))}), "127.66.0")
    lines = _tfjob.hosts_file(job, "127.9.9.9 penstock-dispatcher\n").splitlines()
    assert lines[0].split()[0] == "127.66.0.1"
    assert "127.9.9.9 penstock-dispatcher" in lines


def test_without_the_python_package_the_remedy_is_said() -> None:
    environment = {**_binary.environment(), "PENSTOCK_PYTHON": "/usr/bin/python3", "PYTHONPATH": "/nowhere"}
    said = subprocess.run([_binary.path(), "tfjob", "run", "job.yaml"], env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert said.returncode == 2
    assert "pip install 'penstock[tfjob]'" in said.stderr
    assert "PENSTOCK_PYTHON" in said.stderr


def test_volumes_are_where_the_container_has_them(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "word").write_text("hello")
    volumes = [
        {"name": "words", "secret": {"secretName": "s"}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "host", "hostPath": {"path": str(tmp_path)}},
    ]
    mounts = [
        {"name": "words", "mountPath": "/words/of", "readOnly": True},
        {"name": "scratch", "mountPath": "/scratch"},
        {"name": "host", "mountPath": "/host"},
    ]
    # What it leaves in its scratch directory it finds when its container is started again; nobody else does.
    script = """
test ! -e /scratch/again || exit 0
cat /words/of/word > /host/said
touch /words/of/x || echo refused >> /host/said
touch /scratch/again
exit 130"""
    container = {**tfjobs.shell(script), "volumeMounts": mounts}
    other = {**tfjobs.shell("ls /scratch > /host/others"), "volumeMounts": mounts}
    specs = {"Chief": tfjobs.spec(container, volumes=volumes, restart="OnFailure"), "Evaluator": tfjobs.spec(other, volumes=volumes)}
    code, said = tfjobs.run(tfjobs.manifest(specs), tmp_path, "--volume", f"words={tmp_path / 'given'}")
    assert code == 0, said
    assert (tmp_path / "said").read_text() == "hellorefused\n"
    assert (tmp_path / "others").read_text() == ""
    assert not Path("/scratch").exists()


def test_a_mount_may_be_a_part_of_its_volume_or_one_file_of_it(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "word").write_text("hello")
    mounts = [{"name": "v", "mountPath": "/words/one", "subPath": "word"}, {"name": "v", "mountPath": "/part", "subPath": "made/below"}]
    container = {**tfjobs.shell("cp /words/one /part/copy"), "volumeMounts": mounts}
    volumes = [{"name": "v", "hostPath": {"path": str(tmp_path / "given")}}]
    code, said = tfjobs.run(tfjobs.manifest({"Chief": tfjobs.spec(container, volumes=volumes)}), tmp_path)
    assert code == 0, said
    assert (tmp_path / "given" / "made" / "below" / "copy").read_text() == "hello"


def test_a_host_path_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    container = {**tfjobs.shell("exit 0"), "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    volumes = [{"name": "v", "hostPath": {"path": str(tmp_path / "none")}}]
    code, said = tfjobs.run(tfjobs.manifest({"Chief": tfjobs.spec(container, volumes=volumes)}), tmp_path)
    assert (code, f"whose hostPath {tmp_path}/none is not there: make it, or give --volume v=DIR" in said) == (2, True), said


def test_a_pod_that_the_operator_makes_anew_has_an_empty_directory_of_its_own(tmp_path: Path) -> None:
    script = f"ls /scratch | wc -l >> {tmp_path}/found; touch /scratch/left; [ $(wc -l < {tmp_path}/found) -ge 2 ] && exit 0; exit 130"
    container = {**tfjobs.shell(script), "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}
    code, said = tfjobs.run(tfjobs.manifest({"Chief": tfjobs.spec(container, volumes=[{"name": "scratch", "emptyDir": {}}])}), tmp_path)
    assert code == 0, said
    assert (tmp_path / "found").read_text().split() == ["0", "0"]
    assert "restart 1 in 0.5 s (ExitCode), with empty directories for its emptyDir volumes" in said


@pytest.mark.parametrize(
    ("flags", "path", "words"),
    [
        ([], "/secrets", "a secret, which there is none of here: name a directory with --volume token="),
        (["--volume", "tokn=/tmp"], "/secrets", "the manifest has the volumes token"),
        (["--volume", "token=/no/such"], "/secrets", "there is no directory '/no/such'"),
        (["--volume", "token=/tmp"], "/usr/no/such", "make it, or mount elsewhere"),
    ],
)
def test_a_volume_that_cannot_be_had_is_refused_by_name(tmp_path: Path, flags: list[str], path: str, words: str) -> None:
    container = {**tfjobs.shell("exit 0"), "volumeMounts": [{"name": "token", "mountPath": path}]}
    code, said = tfjobs.run(
        tfjobs.manifest({"Chief": tfjobs.spec(container, volumes=[{"name": "token", "secret": {"secretName": "s"}}])}), tmp_path, *flags
    )
    assert (code, words in said) == (2, True), said


def test_of_the_shells_environment_a_pod_has_what_stands_for_the_image_and_what_is_passed(tmp_path: Path) -> None:
    chief = tfjobs.shell(f"env > {tmp_path}/seen")
    chief["env"] = [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}, {"name": "SAID", "value": "by the manifest"}]
    shell = {"RANK": "7", "WORLD_SIZE": "8", "PENSTOCK_SERVICE": "penstock://elsewhere:1", "SECRET": "s3", "KEPT": "here", "LC_ALL": "C.UTF-8"}
    flags = ["--env", "KEPT", "--env", "MODE=a=b", "--env", "KEY=of a secret", "--env", "SAID=by the flag", "--env", "PYTHONPATH=/of/the/pod"]
    code, said = tfjobs.run(tfjobs.manifest({"Chief": tfjobs.spec(chief)}), tmp_path, *flags, **shell)
    assert code == 0, said
    seen = dict(line.partition("=")[::2] for line in (tmp_path / "seen").read_text().splitlines())
    assert not {"RANK", "WORLD_SIZE", "PENSTOCK_SERVICE", "SECRET"} & seen.keys()
    assert {"PATH", "LC_ALL"} <= seen.keys()
    wanted = {"KEPT": "here", "MODE": "a=b", "KEY": "of a secret", "SAID": "by the manifest", "PYTHONPATH": "/of/the/pod"}
    assert {name: seen[name] for name in wanted} == wanted


def test_a_variable_that_is_passed_and_not_there_is_refused(tmp_path: Path) -> None:
    code, said = tfjobs.run(tfjobs.manifest({"Chief": tfjobs.spec(tfjobs.shell("exit 0"))}), tmp_path, "--env", "NO_SUCH_THING")
    assert (code, "--env NO_SUCH_THING: there is no variable" in said) == (2, True), said


def test_a_container_runs_in_its_working_directory(tmp_path: Path) -> None:
    volume = {"volumeMounts": [{"name": "code", "mountPath": "/code"}], "workingDir": "/code/below"}
    (tmp_path / "code" / "below").mkdir(parents=True)
    volumes = [{"name": "code", "hostPath": {"path": str(tmp_path / "code")}}]
    specs = {"Chief": tfjobs.spec({**tfjobs.shell("pwd"), "workingDir": str(tmp_path)}, restart="Never"),
             "Worker": tfjobs.spec({**tfjobs.shell("pwd > place"), **volume}, volumes=volumes)}  # fmt: skip
    code, said = tfjobs.run(tfjobs.manifest(specs, clean="None"), tmp_path)
    assert (code, f"[reco-chief-0] {tmp_path}\n" in said) == (0, True), said
    assert (tmp_path / "code" / "below" / "place").read_text() == "/code/below\n"
