"""A TFJob manifest runs as processes of this machine: how it ends, and what is said of it."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
from pathlib import Path

import pytest

from penstock import _binary
from support import tfjobs
from support.waiting import wait_until

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
    with tfjobs.logged(tfjobs.manifest({"Worker": tfjobs.spec(late, replicas=2)}, successPolicy="AllWorkers"), tmp_path) as (process, log):
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
    with tfjobs.logged(tfjobs.manifest({"Chief": tfjobs.spec(tfjobs.shell(f"touch {tmp_path}/up; {BACKGROUND}"))}), tmp_path) as (process, log):
        of_pod = _processes_of_pod(log, tmp_path / "up")
        process.terminate()
        assert process.wait(30) == 143, log.read_text()
        wait_until(lambda: not _alive(of_pod), "all of the pod's processes are gone")


def test_after_kill_9_nothing_of_a_pod_lives_on_and_the_next_run_removes_its_directory(tmp_path: Path) -> None:
    manifest = tfjobs.manifest({"Chief": tfjobs.spec(tfjobs.shell(f"touch {tmp_path}/up; {BACKGROUND}"))})
    (tmp_path / "tmp").mkdir()
    with tfjobs.logged(manifest, tmp_path, TMPDIR=str(tmp_path / "tmp")) as (process, log):
        of_pod = _processes_of_pod(log, tmp_path / "up")
        process.kill()
        wait_until(lambda: not _alive(of_pod), "all of the pod's processes are gone")
    [left] = (tmp_path / "tmp").glob("penstock-tfjob-*")
    with tfjobs.logged(manifest, tmp_path, TMPDIR=str(tmp_path / "tmp")) as (process, log):
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
    pid = tfjobs.pid_of(log.read_text, "reco-chief-0")
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


SLOW_TO_END = "trap 'echo asked; sleep 0.3; echo ended; exit 0' TERM; echo up; while :; do sleep 0.05; done"


def test_ctrl_c_gives_pods_their_grace_period(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(json.dumps(tfjobs.manifest({"Chief": tfjobs.spec(tfjobs.shell(SLOW_TO_END))})))
    child, terminal = pty.fork()
    if child == 0:
        os.execve(_binary.path(), ["penstock", "tfjob", "run", str(tmp_path / "job.json")], _binary.environment())
    said = b""
    with open(terminal, "r+b", buffering=0) as keyboard, contextlib.suppress(OSError):  # that of a terminal whose last process has ended
        while more := keyboard.read(4096):
            said += more
            if b"] up" in said and b"runs as process" in said and b"\x03" not in said:
                keyboard.write(b"\x03")
                said += b"\x03"
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 130
    assert (b"] asked" in said, b"] ended" in said) == (True, True), said


@pytest.mark.parametrize("asked", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_gives_pods_their_grace_period(tmp_path: Path, asked: signal.Signals) -> None:
    with tfjobs.logged(tfjobs.manifest({"Chief": tfjobs.spec(tfjobs.shell(SLOW_TO_END))}), tmp_path) as (process, log):
        wait_until(lambda: "] up" in log.read_text() and "runs as process" in log.read_text(), "the chief runs")
        process.send_signal(asked)
        assert process.wait(30) == 128 + asked
        assert "[reco-chief-0] ended" in log.read_text()


def test_who_asks_again_does_not_wait_for_the_grace_period(tmp_path: Path) -> None:
    chief = tfjobs.spec(tfjobs.shell("trap 'echo no' TERM; echo up; while :; do sleep 0.05; done"), terminationGracePeriodSeconds=1000)
    with tfjobs.logged(tfjobs.manifest({"Chief": chief}), tmp_path) as (process, log):
        wait_until(lambda: "] up" in log.read_text() and "runs as process" in log.read_text(), "the chief runs")

        def asked() -> bool:
            process.terminate()
            return process.poll() is not None

        wait_until(asked, "it ends")
        assert process.returncode in (143, -signal.SIGTERM)  # by the last asking, where that came while it ended


def test_each_pod_has_its_own_grace_period(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    stubborn = tfjobs.shell(f"exec 9< {tmp_path}/lock; flock 9; trap '' TERM; touch {tmp_path}/up; while :; do sleep 0.05; done")
    outlives = tfjobs.shell(f"trap 'flock {tmp_path}/lock echo alone; exit 0' TERM; echo up; while :; do sleep 0.05; done")
    specs = {"Chief": tfjobs.spec(outlives, terminationGracePeriodSeconds=1000), "Worker": tfjobs.spec(stubborn, terminationGracePeriodSeconds=0)}
    with tfjobs.logged(tfjobs.manifest(specs), tmp_path) as (process, log):
        wait_until(lambda: log.read_text().count("runs as process") == 2 and "] up" in log.read_text() and (tmp_path / "up").exists(), "they run")
        process.terminate()
        assert process.wait(30) == 143
        assert "[reco-chief-0] alone" in log.read_text()


def test_a_pods_own_restart_policy_counts_for_nothing(tmp_path: Path) -> None:
    chief = tfjobs.spec(tfjobs.shell("exit 7"), restart="", restartPolicy="OnFailure")
    del chief["restartPolicy"]
    code, said = tfjobs.run(tfjobs.manifest({"Chief": chief}), tmp_path)
    assert (code, "reco-chief-0 ended with 7, and is not started again (Never)" in said) == (1, True), said
    assert "Chief: its pod's restartPolicy OnFailure counts for nothing beside the Chief's own, which is Never" in said


def test_a_dynamic_workers_failure_does_not_fail_the_job_but_nothing_is_waited_for_when_all_have_ended(tmp_path: Path) -> None:
    fails = tfjobs.spec(tfjobs.shell("exit 1"))
    chief = tfjobs.spec(tfjobs.shell(f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"))
    with tfjobs.logged(tfjobs.manifest({"Chief": chief, "Worker": fails}, enableDynamicWorker=True), tmp_path) as (process, log):
        wait_until(lambda: "reco-worker-0 ended with 1" in log.read_text(), "the worker fails")
        (tmp_path / "go").touch()
        assert process.wait(30) == 0, log.read_text()
    code, said = tfjobs.run(tfjobs.manifest({"Worker": fails}, enableDynamicWorker=True), tmp_path)
    assert (code, "failed: all pods have ended" in said) == (1, True), said


def test_a_job_goes_on_when_nobody_listens_any_more(tmp_path: Path) -> None:
    script = f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; seq 200000; head -c 1000000 /dev/zero; touch {tmp_path}/done"
    process = tfjobs.start(tfjobs.manifest({"Chief": tfjobs.spec(tfjobs.shell(script))}), tmp_path)
    assert process.stdout is not None
    process.stdout.close()
    (tmp_path / "go").touch()
    assert process.wait(60) == 0
    assert (tmp_path / "done").exists()


# ---- what is said


def test_who_ends_for_good_is_said_with_its_code(tmp_path: Path) -> None:
    specs = {
        "Chief": tfjobs.spec(tfjobs.shell(f"while [ ! -e {tmp_path}/end ]; do sleep 0.05; done")),
        "DatasetDispatcher": tfjobs.spec(tfjobs.shell("exit 2")),
    }
    with tfjobs.logged(tfjobs.manifest(specs), tmp_path) as (process, log):
        wait_until(lambda: "tfjob: reco-datasetdispatcher-0 ended with 2, and is not started again (ExitCode)" in log.read_text(), "it says so")
        (tmp_path / "end").touch()
        assert process.wait(30) == 0


def test_a_decided_job_whose_pods_are_left_says_whom_it_waits_for(tmp_path: Path) -> None:
    reader = tfjobs.shell(f"while [ ! -e {tmp_path}/end ]; do sleep 0.05; done")
    specs = {"Chief": tfjobs.spec(tfjobs.shell("exit 0")), "DatasetWorker": tfjobs.spec(reader)}
    with tfjobs.logged(tfjobs.manifest(specs, clean="None"), tmp_path) as (process, log):
        wait_until(lambda: "waiting until reco-datasetworker-0 have ended by themselves" in log.read_text(), "it says so")
        assert "the job is decided, it succeeded, and cleanPodPolicy None leaves what runs" in log.read_text()
        (tmp_path / "end").touch()
        assert process.wait(30) == 0, log.read_text()


def test_a_decided_job_that_waits_for_its_pods_can_be_stopped(tmp_path: Path) -> None:
    reader = tfjobs.shell(f"trap 'echo stopped; exit 0' TERM; touch {tmp_path}/up; while :; do sleep 0.1; done")
    specs = {"Chief": tfjobs.spec(tfjobs.shell("exit 0")), "DatasetWorker": tfjobs.spec(reader)}
    with tfjobs.logged(tfjobs.manifest(specs, clean="None"), tmp_path) as (process, log):
        wait_until(lambda: "waiting until" in log.read_text() and (tmp_path / "up").exists(), "it waits for a reader that listens")
        process.terminate()
        assert process.wait(30) == 143
        assert "[reco-datasetworker-0] stopped" in log.read_text()


def test_who_still_ran_when_the_chief_ended_the_job_is_said(tmp_path: Path) -> None:
    specs = {"Chief": tfjobs.spec(tfjobs.shell("exit 0")), "Worker": tfjobs.spec(tfjobs.shell("sleep 1000"))}
    code, said = tfjobs.run(tfjobs.manifest(specs), tmp_path)
    assert (code, "stopping reco-worker-0, which ran when the job was decided (cleanPodPolicy Running)" in said) == (0, True), said
