"""`penstock doctor`: what is wrong with a process's surroundings is said by name, before a job finds it out."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import datetime, timezone
from pathlib import Path

import pytest

from conftest import StartCluster
from penstock import _binary
from support.certificates import make_authority

FAILED = 3


def _doctor(*flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "SLURM"))}
    command = [_binary.path(), "doctor", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**clean, **environment}, check=False)


def _tf_config(dispatcher: str, kind: str, index: int) -> str:
    cluster = {"chief": ["reco-chief-0.ml.svc:2222"], "worker": ["reco-worker-0.ml.svc:2222"], "datasetdispatcher": [dispatcher]}
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})


def test_doctor_names_the_winner_the_losers_and_why() -> None:
    said = _doctor("--env", RANK="1", WORLD_SIZE="2", TF_CONFIG=_tf_config("head:5050", "worker", 0))
    assert said.returncode == 0, said.stderr
    assert "1 of 2\n            from torchrun (RANK, WORLD_SIZE)" in said.stdout
    assert "outranked: TF_CONFIG: 1 of 2" in said.stdout
    assert "penstock://head:5050\n            from TF_CONFIG (TF_CONFIG.cluster.datasetdispatcher[0])" in said.stdout


def test_doctor_says_as_json_what_it_says_in_words() -> None:
    said = _doctor("--env", "--json", SLURM_PROCID="3", SLURM_NTASKS="4", SLURM_STEP_ID="0")
    answer = json.loads(said.stdout)
    assert answer["rank"]["value"] == {"rank": 3, "world": 4}
    assert answer["rank"]["source"] == "Slurm"


def test_doctor_fails_with_a_malformed_environment_and_names_the_variable() -> None:
    said = _doctor("--env", RANK="one", WORLD_SIZE="2")
    assert said.returncode == 3
    assert "RANK is 'one'" in said.stdout


def test_doctor_checks_that_the_service_answers(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=1)
    said = _doctor("--json", PENSTOCK_SERVICE=cluster.address)
    assert said.returncode == 0, said.stdout
    assert any(found["about"] == "service" and "1 workers" in found["text"] for found in json.loads(said.stdout))
    cluster.kill_dispatcher()
    said = _doctor(PENSTOCK_SERVICE=cluster.address)
    assert said.returncode == 3
    assert "failed  service" in said.stdout


@pytest.mark.parametrize("flags", [[], ["--env"]], ids=["all", "env"])
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            "PENSTOCK_TOKEN_FILE",
            "/no/such/token",
            "cannot read the token file /no/such/token (No such file or directory), which PENSTOCK_TOKEN_FILE names: copy the service's there",
        ),
        ("PENSTOCK_TLS_CA", "/no/such/ca.pem", "cannot read the TLS authority /no/such/ca.pem (No such file or directory)"),
        ("PENSTOCK_MEMORY", "4Gi", 'PENSTOCK_MEMORY: "4Gi" is no size; write it like 256MiB'),
        ("PENSTOCK_MEMORY", "1KiB", "too few for a worker: it needs 8.0 MiB"),
        ("PENSTOCK_LOG", "loud", 'PENSTOCK_LOG: "loud" is no log level; use debug'),
        ("PENSTOCK_PROCESSING_MODE", "shred", "PENSTOCK_PROCESSING_MODE: unknown"),
        ("PENSTOCK_PROCESSING_MODE", "sharded", "PENSTOCK_PROCESSING_MODE: mode sharded is not available"),
        ("PENSTOCK_ROLE", "worker", "set PENSTOCK_SERVICE=penstock://HOST:PORT"),
        ("TF_CONFIG", '{"cluster": {"worker": ["a:1", "b:1"]}}', "TF_CONFIG.task is not set, though TF_CONFIG.cluster is"),
    ],
)
def test_doctor_fails_a_variable_that_somebody_would_refuse(flags: list[str], name: str, value: str, words: str) -> None:
    said = _doctor(*flags, **{name: value})
    assert said.returncode == FAILED, said.stdout
    assert words in said.stdout


def test_doctor_passes_variables_that_are_as_they_should_be(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("a token of this test")
    said = _doctor("--json", PENSTOCK_TOKEN_FILE=str(token), PENSTOCK_MEMORY="64MiB", PENSTOCK_LOG="warn", PENSTOCK_PROCESSING_MODE="parallel_epochs")
    found = {finding["about"]: (finding["result"], finding["text"]) for finding in json.loads(said.stdout)}
    assert (said.returncode, found["security"]) == (0, ("ok", "a token, no TLS"))
    assert found["memory"] == ("ok", "a worker would hold up to 64.0 MiB (PENSTOCK_MEMORY)")
    assert (found["log"], found["mode"]) == (("ok", "warn (PENSTOCK_LOG)"), ("ok", "replicated (PENSTOCK_PROCESSING_MODE)"))


def test_doctor_warns_of_a_token_that_others_can_read(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a token of this test")
    token.chmod(0o644)
    said = _doctor(PENSTOCK_TOKEN_FILE=str(token))
    assert f"others can read {token}: chmod 600 it" in said.stdout
    token.chmod(0o600)
    assert "chmod" not in _doctor(PENSTOCK_TOKEN_FILE=str(token)).stdout


def test_doctor_warns_of_a_key_that_others_can_read_and_fails_a_certificate_that_has_expired(tmp_path: Path) -> None:
    authority = make_authority(tmp_path / "ours")
    cert, key = authority.issue("server")
    Path(key).chmod(0o644)
    said = _doctor(PENSTOCK_TLS_CA=authority.ca, PENSTOCK_TLS_CERT=cert, PENSTOCK_TLS_KEY=key)
    assert (said.returncode, f"others can read {key}: chmod 600 it" in said.stdout) == (0, True)
    Path(key).chmod(0o600)
    assert "chmod" not in _doctor(PENSTOCK_TLS_CA=authority.ca, PENSTOCK_TLS_CERT=cert, PENSTOCK_TLS_KEY=key).stdout
    cert, key = authority.issue_until("old", datetime(2020, 1, 2, tzinfo=timezone.utc))
    said = _doctor(PENSTOCK_TLS_CA=authority.ca, PENSTOCK_TLS_CERT=cert, PENSTOCK_TLS_KEY=key)
    assert said.returncode == FAILED
    assert f"failed  security     the TLS certificate {cert} expired at 2020-01-02T00:00:00Z" in said.stdout


def test_doctor_warns_of_ranks_that_have_no_name_to_meet_under() -> None:
    ranks = {"PENSTOCK_SERVICE": "penstock://127.0.0.1:9", "PENSTOCK_RANK": "0", "PENSTOCK_WORLD_SIZE": "2"}
    for flags in ([], ["--env"]):
        said = _doctor(*flags, **ranks).stdout
        assert "nothing names the job that the 2 ranks share: set PENSTOCK_JOB_NAME to the same on all of them" in said
    assert "nothing names" not in _doctor("--env", **ranks, PENSTOCK_JOB_NAME="mine").stdout


def test_doctor_names_the_job_that_a_process_would_read() -> None:
    alone = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_STEP_ID": "2"}
    assert "job         anonymous: one rank shares it with nobody (in penstock.dds slurm-7)" in _doctor("--env", **alone, SLURM_NTASKS="1").stdout
    assert "job         slurm-7.2\n" in _doctor("--env", **alone, SLURM_NTASKS="4").stdout


def test_doctor_warns_of_one_of_several_trainers_that_nobody_ranks() -> None:
    pod = {"SPEC_TYPE": "worker", "MY_POD_NAME": "abc-worker-3", "JOB_NAME": "abc", "MACHINES_CONFIG": '{"dataset_worker": null}'}
    said = _doctor("--json", **pod)
    found = {finding["about"]: finding for finding in json.loads(said.stdout)}
    assert (said.returncode, found["environment"]["result"]) == (0, "warn")
    assert "rank 0 of 1" in found["environment"]["text"]
    assert "MY_POD_NAME=abc-worker-3 this is one of several trainers" in found["environment"]["text"]
    assert "warn        environment" in _doctor("--env", **pod).stdout
    assert "one of several" not in _doctor(**pod, PENSTOCK_RANK="3", PENSTOCK_WORLD_SIZE="4").stdout


def test_doctor_counts_a_shell_of_salloc_as_one() -> None:
    shell = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_STEP_ID": "4294967290", "SLURM_STEP_NUM_TASKS": "1"}
    assert "rank 0 of 1" in _doctor(**shell).stdout
