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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import _binary, _tfjob
from support import tfjobs
from support.data import Records
from support.waiting import wait_until

TRAIN = Path(__file__).parent / "support" / "train.py"
DEPLOY = Path(__file__).parent.parent / "deploy" / "tfjob"
EXAMPLES = Path(__file__).parent.parent / "examples" / "python"


# ---- completion, restarts, exit codes


def test_the_chiefs_success_ends_the_job_and_stops_what_runs(tmp_path: Path) -> None:
    specs = {
        "Chief": tfjobs.spec(tfjobs.shell("exit 0")),
        "DatasetWorker": tfjobs.spec(tfjobs.shell("trap 'echo stopped; exit 0' TERM; sleep 60 & wait")),
    }
    code, said = tfjobs.run(tfjobs.manifest(specs), tmp_path)
    assert (code, "reco succeeded" in said) == (0, True), said


@pytest.mark.parametrize(("code", "attempts"), [(1, 1), (127, 1), (130, 3)])
def test_exit_codes_from_128_are_tried_again_and_others_fail_the_job(tmp_path: Path, code: int, attempts: int) -> None:
    script = f"echo again >> {tmp_path}/tries; [ $(wc -l < {tmp_path}/tries) -ge 3 ] && exit 0; exit {code}"
    ended, said = tfjobs.run(tfjobs.manifest({"Chief": tfjobs.spec(tfjobs.shell(script))}), tmp_path)
    assert (tmp_path / "tries").read_text().count("again") == attempts, said
    assert ended == (0 if attempts == 3 else 1)


def test_a_custom_types_failure_does_not_fail_the_job(tmp_path: Path) -> None:
    specs = {"Chief": tfjobs.spec(tfjobs.shell(f"while [ ! -e {tmp_path}/failed ]; do sleep 0.05; done")),
             "DatasetWorker": tfjobs.spec(tfjobs.shell(f"touch {tmp_path}/failed; exit 2"))}  # fmt: skip
    assert tfjobs.run(tfjobs.manifest(specs), tmp_path)[0] == 0


def test_without_a_chief_worker_0_decides_and_with_all_workers_all_of_them(tmp_path: Path) -> None:
    late = tfjobs.shell(f'[ "$INDEX" = 0 ] || while [ ! -e {tmp_path}/go ]; do sleep 0.05; done')
    late["env"] = [{"name": "INDEX", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['training.kubeflow.org/replica-index']"}}}]
    code, said = tfjobs.run(tfjobs.manifest({"Worker": tfjobs.spec(late, replicas=2)}), tmp_path)
    assert (code, "stopping reco-worker-1" in said) == (0, True), said
    with _logged(tfjobs.manifest({"Worker": tfjobs.spec(late, replicas=2)}, successPolicy="AllWorkers"), tmp_path) as (process, log):
        wait_until(lambda: "reco-worker-0 ended with 0" in log.read_text(), "the first of them ends")
        (tmp_path / "go").touch()
        assert process.wait(30) == 0
        assert "reco-worker-1 ended with 0" in log.read_text()


def test_a_backoff_limit_and_a_deadline_end_a_job(tmp_path: Path) -> None:
    code, said = tfjobs.run(tfjobs.manifest({"Chief": tfjobs.spec(tfjobs.shell("exit 137"))}, policy={"backoffLimit": 1}), tmp_path)
    assert (code, "backoffLimit 1" in said) == (1, True), said
    code, said = tfjobs.run(tfjobs.manifest({"Chief": tfjobs.spec(tfjobs.shell("sleep 60"))}, policy={"activeDeadlineSeconds": 1}), tmp_path)
    assert (code, "activeDeadlineSeconds" in said) == (1, True), said


BACKGROUND = "sleep 1000 & setsid sleep 1000 & sleep 1000"


def test_sigterm_stops_all_pods_and_leaves_nothing(tmp_path: Path) -> None:
    with _logged(tfjobs.manifest({"Chief": tfjobs.spec(tfjobs.shell(f"touch {tmp_path}/up; {BACKGROUND}"))}), tmp_path) as (process, log):
        of_pod = _processes_of_pod(log, tmp_path / "up")
        process.terminate()
        assert process.wait(30) == 143, log.read_text()
        wait_until(lambda: not _alive(of_pod), "all of the pod's processes are gone")


def test_after_kill_9_nothing_of_a_pod_lives_on_and_the_next_run_removes_its_directory(tmp_path: Path) -> None:
    manifest = tfjobs.manifest({"Chief": tfjobs.spec(tfjobs.shell(f"touch {tmp_path}/up; {BACKGROUND}"))})
    (tmp_path / "tmp").mkdir()
    with _logged(manifest, tmp_path, TMPDIR=str(tmp_path / "tmp")) as (process, log):
        of_pod = _processes_of_pod(log, tmp_path / "up")
        process.kill()
        wait_until(lambda: not _alive(of_pod), "all of the pod's processes are gone")
    [left] = (tmp_path / "tmp").glob("penstock-tfjob-*")
    with _logged(manifest, tmp_path, TMPDIR=str(tmp_path / "tmp")) as (process, log):
        wait_until(lambda: not left.exists(), "the next run removes it")
        [own] = wait_until(lambda: list((tmp_path / "tmp").glob("penstock-tfjob-*")), "it has one of its own")
        _processes_of_pod(log, tmp_path / "up")
        assert tfjobs.run(tfjobs.manifest({"Chief": tfjobs.spec(tfjobs.shell("exit 0"))}), tmp_path, TMPDIR=str(tmp_path / "tmp"))[0] == 0
        assert own.exists(), "a run that lives keeps its directory"
        process.terminate()
        process.wait(30)
    assert list((tmp_path / "tmp").iterdir()) == []


def _processes_of_pod(log: Path, up: Path) -> list[int]:
    """Of the chief, once it and what it has put in the background run: all that are in its process namespace."""
    pid = _pid_of(log.read_text, "reco-chief-0")
    wait_until(up.exists, "the chief runs")
    namespace = os.readlink(f"/proc/{pid}/ns/pid")
    assert namespace != os.readlink("/proc/self/ns/pid")

    def those_in_it() -> list[int]:
        found = []
        for directory in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(directory / "ns" / "pid") == namespace:
                    found.append(int(directory.name))
        return found

    wait_until(lambda: len(those_in_it()) >= 5, "its shell, the first process, and three that sleep")
    return those_in_it()


def _alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


# ---- what is said


def test_who_ends_for_good_is_said_with_its_code(tmp_path: Path) -> None:
    specs = {
        "Chief": tfjobs.spec(tfjobs.shell(f"while [ ! -e {tmp_path}/end ]; do sleep 0.05; done")),
        "DatasetDispatcher": tfjobs.spec(tfjobs.shell("exit 2")),
    }
    with _logged(tfjobs.manifest(specs), tmp_path) as (process, log):
        wait_until(lambda: "tfjob: reco-datasetdispatcher-0 ended with 2, and is not started again (ExitCode)" in log.read_text(), "it says so")
        (tmp_path / "end").touch()
        assert process.wait(30) == 0


def test_a_decided_job_whose_pods_are_left_says_whom_it_waits_for(tmp_path: Path) -> None:
    reader = tfjobs.shell(f"while [ ! -e {tmp_path}/end ]; do sleep 0.05; done")
    with _logged(tfjobs.manifest({"Chief": tfjobs.spec(tfjobs.shell("exit 0")), "DatasetWorker": tfjobs.spec(reader)}, clean="None"), tmp_path) as (
        process,
        log,
    ):
        wait_until(lambda: "waiting until reco-datasetworker-0 have ended by themselves" in log.read_text(), "it says so")
        assert "the job is decided, it succeeded, and cleanPodPolicy None leaves what runs" in log.read_text()
        (tmp_path / "end").touch()
        assert process.wait(30) == 0, log.read_text()


def test_a_decided_job_that_waits_for_its_pods_can_be_stopped(tmp_path: Path) -> None:
    reader = tfjobs.shell(f"trap 'echo stopped; exit 0' TERM; touch {tmp_path}/up; sleep 1000 & wait")
    with _logged(tfjobs.manifest({"Chief": tfjobs.spec(tfjobs.shell("exit 0")), "DatasetWorker": tfjobs.spec(reader)}, clean="None"), tmp_path) as (
        process,
        log,
    ):
        wait_until(lambda: "waiting until" in log.read_text() and (tmp_path / "up").exists(), "it waits for a reader that listens")
        process.terminate()
        assert process.wait(30) == 143
        assert "[reco-datasetworker-0] stopped" in log.read_text()


def test_who_still_ran_when_the_chief_ended_the_job_is_said(tmp_path: Path) -> None:
    specs = {"Chief": tfjobs.spec(tfjobs.shell("exit 0")), "Worker": tfjobs.spec(tfjobs.shell("sleep 1000"))}
    code, said = tfjobs.run(tfjobs.manifest(specs), tmp_path)
    assert (code, "stopping reco-worker-0, which ran when the job was decided (cleanPodPolicy Running)" in said) == (0, True), said


# ---- what a pod is given


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


# ---- a whole job


def _training(records: Records, directory: Path, state: str | None = None) -> dict[str, Any]:
    """state: where the dispatcher has an emptyDir; None: its state is in a directory of the test's, which outlives the pod."""
    trainer = {"command": [sys.executable, str(TRAIN), records.pattern, str(directory), "3"]}
    pod_ip = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    dispatcher = {
        "args": ["dispatcher", "--state-dir", state or str(directory / "state")],
        "ports": [{"name": "tfjob-port", "containerPort": 5050}],
        "volumeMounts": [{"name": "state", "mountPath": state}] if state else [],
    }
    reader = {"args": ["worker", "--memory", "64MiB"], "env": [pod_ip]}
    return tfjobs.manifest(
        {
            "Chief": tfjobs.spec(trainer),
            "Worker": tfjobs.spec(trainer, replicas=2),
            "DatasetDispatcher": tfjobs.spec(dispatcher, volumes=[{"name": "state", "emptyDir": {}}]),
            "DatasetWorker": tfjobs.spec(reader, 2),
        }
    )


def _ids(directory: Path) -> list[int]:
    return sorted(int(line) for path in directory.glob("*.ids") for line in path.read_text().split())


def _pid_of(said: Callable[[], str], pod: str) -> int:
    return int(wait_until(lambda: re.search(rf"{pod} runs as process (\d+)", said()), f"{pod} runs")[1])


def test_a_training_job_reads_each_row_once(tmp_path: Path, records: Records) -> None:
    code, said = tfjobs.run(_training(records, tmp_path), tmp_path)
    assert code == 0, said[-3000:]
    assert _ids(tmp_path) == records.ids


def _kill_and_wait(log: Path, pod: str) -> None:
    """kill -9, and until it was started again."""
    os.kill(_pid_of(log.read_text, pod), signal.SIGKILL)
    wait_until(lambda: log.read_text().count(f"{pod} runs as") == 2, f"{pod} is started again")
    assert f"{pod} ended with 137: restart 1" in log.read_text()


@contextlib.contextmanager
def _logged(manifest: dict[str, Any], directory: Path, **variables: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """The run, and the file with what it says."""
    log = directory / "log"
    with open(log, "w") as out:
        process = tfjobs.start(manifest, directory, out, **variables)
    try:
        yield process, log
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("state", [None, "/state"], ids=["its state outlives the pod", "its state goes with the pod"])
def test_a_training_job_survives_a_killed_reader_and_a_killed_dispatcher(tmp_path: Path, records: Records, state: str | None) -> None:
    (tmp_path / "hold").touch()
    with _logged(_training(records, tmp_path, state), tmp_path) as (process, log):
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

    return tfjobs.manifest({
        "Chief": tfjobs.spec(pod("RANK=0")),
        "Worker": tfjobs.spec(pod("RANK=$$((INDEX + 1))"), replicas=2),
        "DatasetDispatcher": tfjobs.spec(pod("", ports=[{"name": "tfjob-port", "containerPort": 5050}])),
        "DatasetWorker": tfjobs.spec(pod(""), replicas=2),
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
