"""A TFJob manifest runs as processes of this machine, as the operator would run it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from penstock import _binary, _tfjob, tfjob
from support.data import Records
from support.waiting import wait_until

TRAIN = Path(__file__).parent / "support" / "train.py"
DEPLOY = Path(__file__).parent.parent / "deploy" / "tfjob"
EXAMPLES = Path(__file__).parent.parent / "examples" / "python"


def _spec(container: dict[str, Any], replicas: int = 1, restart: str = "ExitCode", **pod: Any) -> dict[str, Any]:
    return {"replicas": replicas, "restartPolicy": restart, "template": {"spec": {"containers": [{"name": "tensorflow", **container}], **pod}}}


def _manifest(specs: dict[str, Any], clean: str = "Running", **more: Any) -> dict[str, Any]:
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "reco"},
            "spec": {"runPolicy": {"cleanPodPolicy": clean, **more.pop("policy", {})}, "tfReplicaSpecs": specs, **more}}  # fmt: skip


def _shell(script: str) -> dict[str, Any]:
    return {"command": ["sh", "-c", script]}


def _start(manifest: dict[str, Any], directory: Path, out: IO[str] | int = subprocess.PIPE, flags: Sequence[str] = ()) -> subprocess.Popen[str]:
    path = directory / "job.yaml"
    path.write_text(json.dumps(manifest))
    command = [_binary.path(), "tfjob", "run", str(path), *flags]
    return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, text=True, env=_binary.environment())


def _run(manifest: dict[str, Any], directory: Path, *flags: str) -> tuple[int, str]:
    process = _start(manifest, directory, flags=flags)
    said, _ = process.communicate(timeout=100)
    return process.returncode, said


# ---- completion, restarts, exit codes


def test_the_chiefs_success_ends_the_job_and_stops_what_runs(tmp_path: Path) -> None:
    specs = {"Chief": _spec(_shell("exit 0")), "DatasetWorker": _spec(_shell("trap 'echo stopped; exit 0' TERM; sleep 60 & wait"))}
    code, said = _run(_manifest(specs), tmp_path)
    assert (code, "reco succeeded" in said) == (0, True), said


@pytest.mark.parametrize(("code", "attempts"), [(1, 1), (127, 1), (130, 3)])
def test_exit_codes_from_128_are_tried_again_and_others_fail_the_job(tmp_path: Path, code: int, attempts: int) -> None:
    script = f"echo again >> {tmp_path}/tries; [ $(wc -l < {tmp_path}/tries) -ge 3 ] && exit 0; exit {code}"
    ended, said = _run(_manifest({"Chief": _spec(_shell(script))}), tmp_path)
    assert (tmp_path / "tries").read_text().count("again") == attempts, said
    assert ended == (0 if attempts == 3 else 1)


def test_a_custom_types_failure_does_not_fail_the_job(tmp_path: Path) -> None:
    specs = {"Chief": _spec(_shell(f"while [ ! -e {tmp_path}/failed ]; do sleep 0.05; done")),
             "DatasetWorker": _spec(_shell(f"touch {tmp_path}/failed; exit 2"))}  # fmt: skip
    assert _run(_manifest(specs), tmp_path)[0] == 0


def test_without_a_chief_worker_0_decides_and_with_all_workers_all_of_them(tmp_path: Path) -> None:
    late = _shell(f'[ "$INDEX" = 0 ] || {{ sleep 1; echo late > {tmp_path}/late; }}')
    late["env"] = [{"name": "INDEX", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['training.kubeflow.org/replica-index']"}}}]
    assert _run(_manifest({"Worker": _spec(late, replicas=2)}), tmp_path)[0] == 0
    assert not (tmp_path / "late").exists()
    assert _run(_manifest({"Worker": _spec(late, replicas=2)}, successPolicy="AllWorkers"), tmp_path)[0] == 0
    assert (tmp_path / "late").exists()


def test_a_backoff_limit_and_a_deadline_end_a_job(tmp_path: Path) -> None:
    code, said = _run(_manifest({"Chief": _spec(_shell("exit 137"))}, policy={"backoffLimit": 1}), tmp_path)
    assert (code, "backoffLimit 1" in said) == (1, True), said
    code, said = _run(_manifest({"Chief": _spec(_shell("sleep 60"))}, policy={"activeDeadlineSeconds": 1}), tmp_path)
    assert (code, "activeDeadlineSeconds" in said) == (1, True), said


def test_sigterm_stops_all_pods_and_leaves_nothing(tmp_path: Path) -> None:
    process = _start(_manifest({"Chief": _spec(_shell(f"echo $$$$ > {tmp_path}/pid; sleep 1000"))}), tmp_path)
    pid = int(wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "the chief runs"))
    process.terminate()
    process.communicate(timeout=30)
    assert not Path(f"/proc/{pid}").exists()


# ---- what a pod is given


def test_names_resolve_and_the_environment_is_the_operators(tmp_path: Path) -> None:
    look = """
import os, json, socket
print("SAW", json.dumps([json.loads(os.environ["TF_CONFIG"]), socket.gethostbyname(socket.gethostname()), os.environ["POD_IP"]]))
"""
    chief = {"command": ["python", "-c", look], "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]}
    code, said = _run(_manifest({"Chief": _spec(chief), "Worker": _spec(_shell("exit 0"), replicas=2)}), tmp_path)
    assert code == 0, said
    found = re.search(r"SAW (.*)", said)
    assert found
    config, address, pod_ip = json.loads(found[1])
    assert config["cluster"] == {"chief": ["reco-chief-0.default.svc:2222"], "worker": [f"reco-worker-{i}.default.svc:2222" for i in range(2)]}
    assert config["task"] == {"type": "chief", "index": 0}
    assert address == pod_ip
    assert address.startswith("127.66.")


def test_one_stock_replica_alone_has_no_tf_config_and_dynamic_workers_have_the_sparse_form() -> None:
    specs = {"Chief": _spec(_shell("")), "DatasetWorker": _spec(_shell(""), replicas=2)}
    job = _tfjob.parse(_manifest(specs), "127.66.0")
    assert _tfjob.tf_config(job, job.replicas[0]) is None
    job = _tfjob.parse(_manifest({"Worker": _spec(_shell(""), replicas=2)}, enableDynamicWorker=True), "127.66.0")
    config = json.loads(_tfjob.tf_config(job, job.replicas[1]) or "")
    assert config == {"sparseCluster": {"ps": [], "worker": {"1": "reco-worker-1.default.svc:2222"}}, "task": {"type": "worker", "index": 1}}


def test_a_readers_memory_limit_is_its_budget_and_the_manifests_own_word_goes_before(tmp_path: Path) -> None:
    limits = {"resources": {"limits": {"memory": "100Mi", "cpu": "1"}}}
    show = _shell(f"echo ${{PENSTOCK_MEMORY:-none}} > {tmp_path}/$POD")
    env = [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    chief = _shell(f"while [ $(ls {tmp_path} | grep -c dataset) -lt 2 ]; do sleep 0.05; done; " + show["command"][2])
    said = {"DatasetWorker": _spec({**show, **limits, "env": env}, restart="Never"),
            "DatasetDispatcher": _spec({**show, **limits, "env": [*env, {"name": "PENSTOCK_MEMORY", "value": "1GiB"}]}, restart="Never"),
            "Chief": _spec({**chief, **limits, "env": env})}  # fmt: skip
    code, log = _run(_manifest(said), tmp_path)
    assert code == 0, log
    budgets = {path.name: path.read_text().strip() for path in tmp_path.glob("reco-*")}
    assert budgets == {"reco-datasetworker-0": str(60 * 2**20), "reco-datasetdispatcher-0": "1GiB", "reco-chief-0": "none"}


def test_a_memory_limit_that_is_no_quantity_is_refused_by_name(tmp_path: Path) -> None:
    reader = {**_shell("exit 0"), "resources": {"limits": {"memory": "8 gigs"}}}
    code, said = _run(_manifest({"Chief": _spec(_shell("exit 0")), "DatasetWorker": _spec(reader)}), tmp_path)
    assert (code, "reco-datasetworker-0: the memory limit '8 gigs' is no quantity such as 8Gi" in said) == (2, True), said


def test_a_generated_name_is_another_in_each_run_and_one_for_all_its_pods(tmp_path: Path) -> None:
    manifest = _manifest({"Chief": _spec({"command": ["hostname"]}), "Worker": _spec(_shell("exit 0"))})
    manifest["metadata"] = {"generateName": "reco-"}
    said = [_run(manifest, tmp_path) for _ in range(2)]
    assert [code for code, _ in said] == [0, 0], said
    found = [re.findall(r"^\[(reco-\w{5})-chief-0\] (reco-\w{5})-chief-0$", text, re.MULTILINE) for _, text in said]
    assert [len(names) for names in found] == [1, 1], said
    [[first, seen_by_first]], [[second, seen_by_second]] = found
    assert (first, second) == (seen_by_first, seen_by_second)
    assert first != second


def test_names_of_the_machines_own_hosts_file_resolve_after_the_pods() -> None:
    job = _tfjob.parse(_manifest({"Chief": _spec(_shell("")), "Worker": _spec(_shell(""))}), "127.66.0")
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
    # What it leaves in its scratch directory it finds when it is started again; nobody else does.
    script = """
test ! -e /scratch/again || exit 0
cat /words/of/word > /host/said
touch /words/of/x || echo refused >> /host/said
touch /scratch/again
exit 130"""
    container = {**_shell(script), "volumeMounts": mounts}
    other = {**_shell("ls /scratch > /host/others"), "volumeMounts": mounts}
    specs = {"Chief": _spec(container, volumes=volumes), "Evaluator": _spec(other, volumes=volumes)}
    code, said = _run(_manifest(specs), tmp_path, "--volume", f"words={tmp_path / 'given'}")
    assert code == 0, said
    assert (tmp_path / "said").read_text() == "hellorefused\n"
    assert (tmp_path / "others").read_text() == ""
    assert not Path("/scratch").exists()


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
    container = {**_shell("exit 0"), "volumeMounts": [{"name": "token", "mountPath": path}]}
    code, said = _run(_manifest({"Chief": _spec(container, volumes=[{"name": "token", "secret": {"secretName": "s"}}])}), tmp_path, *flags)
    assert (code, words in said) == (2, True), said


# ---- manifests that cannot be run


def _changed(path: str, value: object) -> dict[str, Any]:
    """A manifest with one field changed; with ..., without it."""
    manifest = _manifest({"Chief": _spec({**_shell("exit 0"), "env": [{"name": "A", "value": "1"}]})})
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
        (_changed("spec.tfReplicaSpecs", {"PS": _spec(_shell("exit 0"))}), "expected a Chief, a Master or a Worker too"),
        (_changed("spec.tfReplicaSpecs.Wörker", {}), "a type whose name is 'Wörker'; expected letters"),
        (_changed("spec.tfReplicaSpecs.chief", _spec(_shell(""))), "has the type chief twice"),
        (_changed("spec.tfReplicaSpecs.Master", _spec(_shell(""))), "has a Chief and a Master"),
        (_changed("spec.tfReplicaSpecs.Worker", _spec(_shell(""), 254)), "its replicas are 255 in all; expected up to 254"),
        (_changed("spec.runPolicy.cleanPodPolicy", "Some"), "spec.runPolicy.cleanPodPolicy is 'Some'; expected None, Running or All"),
        (_changed("spec.runPolicy.backoffLimit", "3"), "spec.runPolicy.backoffLimit is '3'; expected a whole number from 0"),
        (_changed("spec.successPolicy", "Any"), "spec.successPolicy is 'Any'; expected '' or AllWorkers"),
        (_changed(f"{CHIEF}.replicas", None), f"{CHIEF}.replicas is null; expected a whole number from 1"),
        (_changed(f"{CHIEF}.replicas", "two"), f"{CHIEF}.replicas is 'two'; expected a whole number from 1"),
        (_changed(f"{CHIEF}.replicas", 0), f"{CHIEF}.replicas is 0; expected a whole number from 1; a type without replicas is left out"),
        (_changed(f"{CHIEF}.replicas", -1), f"{CHIEF}.replicas is -1"),
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


# ---- a whole job


def _training(records: Records, directory: Path) -> dict[str, Any]:
    trainer = {"command": [sys.executable, str(TRAIN), records.pattern, str(directory), "3"]}
    pod_ip = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    dispatcher = {"args": ["dispatcher", "--state-dir", str(directory / "state")], "ports": [{"name": "tfjob-port", "containerPort": 5050}]}
    reader = {"args": ["worker", "--memory", "64MiB"], "env": [pod_ip]}
    return _manifest(
        {"Chief": _spec(trainer), "Worker": _spec(trainer, replicas=2), "DatasetDispatcher": _spec(dispatcher), "DatasetWorker": _spec(reader, 2)}
    )


def _ids(directory: Path) -> list[int]:
    return sorted(int(line) for path in directory.glob("*.ids") for line in path.read_text().split())


def _pid_of(said: Callable[[], str], pod: str) -> int:
    return int(wait_until(lambda: re.search(rf"{pod} runs as process (\d+)", said()), f"{pod} runs")[1])


def test_a_training_job_reads_each_row_once(tmp_path: Path, records: Records) -> None:
    code, said = _run(_training(records, tmp_path), tmp_path)
    assert code == 0, said[-3000:]
    assert _ids(tmp_path) == records.ids


def _kill_and_wait(log: Path, pod: str) -> None:
    """kill -9, and until it was started again."""
    os.kill(_pid_of(log.read_text, pod), signal.SIGKILL)
    wait_until(lambda: log.read_text().count(f"{pod} runs as") == 2, f"{pod} is started again")
    assert f"{pod} ended with 137: restart 1" in log.read_text()


@contextlib.contextmanager
def _logged(manifest: dict[str, Any], directory: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """The run, and the file with what it says."""
    log = directory / "log"
    with open(log, "w") as out:
        process = _start(manifest, directory, out)
    try:
        yield process, log
    finally:
        process.kill()
        process.wait()


def test_a_training_job_survives_a_killed_reader_and_a_killed_dispatcher(tmp_path: Path, records: Records) -> None:
    (tmp_path / "hold").touch()
    with _logged(_training(records, tmp_path), tmp_path) as (process, log):
        wait_until(lambda: len(list(tmp_path.glob("*.ids"))) == 3 and _ids(tmp_path), "the ranks read", within=60)
        _kill_and_wait(log, "reco-datasetworker-0")
        _kill_and_wait(log, "reco-datasetdispatcher-0")
        (tmp_path / "hold").unlink()
        assert process.wait(100) == 0, log.read_text()[-3000:]
    assert _ids(tmp_path) == records.ids


# ---- the manifests of deploy/


@pytest.mark.parametrize(("manifest", "ranks"), [("custom-types.yaml", 3), ("stock-types.yaml", 1)])
def test_a_manifest_of_deploy_runs_as_its_readme_says(tmp_path: Path, records: Records, manifest: str, ranks: int) -> None:
    (tmp_path / "secrets").mkdir()
    subprocess.run([_binary.path(), "token", "create", "--out", str(tmp_path / "secrets" / "token")], check=True)
    files = Path(records.pattern)
    arguments = ["train.py", f"/data/{files.name}", str(tmp_path), str(ranks)]
    (tmp_path / "train.py").write_text(f"import runpy, sys\nsys.argv = {arguments!r}\nrunpy.run_path({str(TRAIN)!r}, run_name='__main__')\n")
    command = [_binary.path(), "tfjob", "run", str(DEPLOY / manifest), "--volume", "token=secrets", "--volume", f"data={files.parent}"]
    done = subprocess.run(command, cwd=tmp_path, env=_binary.environment(), capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert _ids(tmp_path) == records.ids
    assert "restart" not in done.stderr, "no pod took another's port"


# ---- the recommender of examples/


def _recommender(data: Path, steps: int, token: Path) -> dict[str, Any]:
    """One program for all pods: servers become penstock, ranks train. What torch wants to know is said as any TFJob of torch ranks would."""
    variables = {"WORLD_SIZE": "3", "MASTER_ADDR": "reco-chief-0", "MASTER_PORT": str(_free_port()), "GLOO_SOCKET_IFNAME": "lo",
                 "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1", "PENSTOCK_TOKEN_FILE": str(token), "PENSTOCK_MEMORY": "256MiB",
                 "PENSTOCK_STATE_DIR": str(token.parent / "state")}  # fmt: skip
    env = [{"name": name, "value": value} for name, value in variables.items()]
    index = {"name": "INDEX", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['training.kubeflow.org/replica-index']"}}}
    program = f"exec {sys.executable} {EXAMPLES / 'recommender.py'} {data} --steps {steps}"

    def pod(rank: str, **more: Any) -> dict[str, Any]:
        return {"command": ["sh", "-c", f"{rank} {program}"], "env": [*env, index], **more}

    return _manifest({
        "Chief": _spec(pod("RANK=0")),
        "Worker": _spec(pod("RANK=$$((INDEX + 1))"), replicas=2),
        "DatasetDispatcher": _spec(pod("", ports=[{"name": "tfjob-port", "containerPort": 5050}])),
        "DatasetWorker": _spec(pod(""), replicas=2),
    })  # fmt: skip


def _free_port() -> int:
    with socket.create_server(("", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("clicks")
    subprocess.run([sys.executable, str(EXAMPLES / "recommender.py"), str(directory), "--write"], env=_binary.environment(), check=True, timeout=60)
    return directory


def _steps_of_ranks(log: Path) -> list[int]:
    """How many steps each rank made, and none twice or left out."""
    counts = []
    for rank in range(3):
        steps = [int(step) for step in re.findall(rf"rank {rank} step (\d+) ", log.read_text())]
        assert steps == list(range(len(steps)))
        counts.append(len(steps))
    return counts


@pytest.mark.parametrize("hurt", [False, True], ids=["untouched", "a reader and the dispatcher are killed"])
@pytest.mark.timeout(240)
def test_the_recommender_trains_as_a_tfjob(tmp_path: Path, clicks: Path, hurt: bool) -> None:
    token, steps = tmp_path / "token", 400 if hurt else 30
    token.write_text("a token of this test")
    with _logged(_recommender(clicks, steps, token), tmp_path) as (process, log):
        if hurt:
            wait_until(lambda: "rank 0 step 3 " in log.read_text(), "the ranks train", within=120)
            _kill_and_wait(log, "reco-datasetworker-0")
            _kill_and_wait(log, "reco-datasetdispatcher-0")
            assert min(_steps_of_ranks(log)) < steps, "training goes on after the last of them was killed"
        assert process.wait(200) == 0, log.read_text()[-3000:]
        assert _steps_of_ranks(log) == [steps] * 3
