"""A process finds its service, its job and its rank in the environment, the same for Python and for the executable."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

import penstock
from penstock import Dataset, _binary, _identity, _waiting
from penstock import service as services
from support.servers import Servers
from support.waiting import wait_until

READ = """
import sys, penstock
reader = penstock.Dataset.from_range(100).distribute(even="uneven")
print(reader.job_name, sum(1 for _ in reader))
"""


def _run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "SLURM"))}
    return subprocess.run([*arguments], capture_output=True, text=True, timeout=60, env={**clean, **environment}, check=False)


def _tf_config(dispatcher: str, kind: str, index: int) -> str:
    cluster = {"chief": ["reco-chief-0.ml.svc:2222"], "worker": ["reco-worker-0.ml.svc:2222"], "datasetdispatcher": [dispatcher]}
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})


def test_a_misspelt_variable_is_warned_of_with_the_nearest_name() -> None:
    said = _run(_binary.path(), "doctor", PENSTOCK_SERVCE="x")
    assert "did you mean PENSTOCK_SERVICE?" in said.stdout
    warned = _run(sys.executable, "-c", "import penstock; penstock.connect()", PENSTOCK_MEMROY="1GiB", PYTHONPATH=os.environ.get("PYTHONPATH", ""))
    assert "did you mean PENSTOCK_MEMORY?" in warned.stderr


def test_ranks_of_a_tfjob_share_a_job_that_nobody_named(servers: Servers) -> None:
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0")
    servers.start("worker", "--dispatcher", dispatcher.address)
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", READ], stdout=subprocess.PIPE, text=True, env={**os.environ, "TF_CONFIG": _tf_config(dispatcher.address, kind, 0)}
        )
        for kind in ("chief", "worker")
    ]
    said = [rank.communicate(timeout=60)[0].split() for rank in ranks]
    assert [name for name, _ in said] == ["reco", "reco"]
    assert sum(int(rows) for _, rows in said) == 100


def test_an_evaluator_does_not_join_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"datasetdispatcher": ["nowhere:1"]}, "task": {"type": "evaluator", "index": 0}}))
    assert penstock.connect().kind == "inline"
    assert len(list(Dataset.from_range(5).distribute())) == 5


def test_without_a_name_ranks_are_told_to_give_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(penstock.Invalid, match="PENSTOCK_JOB_NAME"):
        _identity.current().place(None, None, None)
    assert _identity.current().place("mine", None, None) == ("mine", 1, 2)
    assert _identity.current().place("mine", 0, 1) == ("mine", 0, 1)


def test_a_name_that_has_no_room_for_a_second_dataset_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_identity, "_ordinals", itertools.count())
    for name, value in (("PENSTOCK_JOB_NAME", "n" * 199), ("PENSTOCK_RANK", "0"), ("PENSTOCK_WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    identity = _identity.current()
    assert identity.place(None, None, None) == ("n" * 199, 0, 2)
    with pytest.raises(penstock.Invalid, match="has 199 bytes; dataset 2 of the program is read under it with -1 after it, .* shorten it"):
        identity.place(None, None, None)


def test_ranks_that_are_started_by_hand_as_the_page_says_share_a_job(servers: Servers, tmp_path: Path) -> None:
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0")
    servers.start("worker", "--dispatcher", dispatcher.address)
    (tmp_path / "train.py").write_text(READ)
    page = (Path(__file__).parent.parent / "docs" / "reference" / "environment.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("PENSTOCK_SERVICE=penstock://reader-head:5050")]
    assert len(lines) == 2
    ranks = []
    for line in lines:
        words = line.replace("reader-head:5050", dispatcher.address).replace("python", sys.executable)
        ranks.append(subprocess.Popen(words, shell=True, cwd=tmp_path, stdout=subprocess.PIPE, text=True))
    said = [rank.communicate(timeout=60)[0].split() for rank in ranks]
    assert [name for name, _ in said] == ["train-7", "train-7"]
    assert sum(int(rows) for _, rows in said) == 100


# ---- how long the service is waited for


@pytest.fixture
def late(servers: Servers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Late:
    """Who is named by a user is not waited for at all; who waits says so at once."""
    monkeypatch.setattr(services, "NAMED_WITHIN", 0.1)
    monkeypatch.setattr(_waiting, "SAY_AFTER", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"

    def start_servers() -> None:
        wait_until(lambda: "waiting for the dispatcher" in caplog.text, "somebody waits")
        servers.start("worker", "--dispatcher", servers.start("dispatcher", "--listen", address).address)

    return Late(address, start_servers)


@dataclass(frozen=True)
class Late:
    address: str
    start: Callable[[], None]  # the servers, when somebody waits for them

    def expect_rows(self, read: Callable[[], int]) -> None:
        with ThreadPoolExecutor(1) as thread:
            rows = thread.submit(read)
            self.start()
            assert rows.result(30) == 5


def test_a_service_that_the_platform_names_is_waited_for_until_its_servers_come(late: Late, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", _tf_config(late.address, "chief", 0))
    monkeypatch.setenv("PENSTOCK_WORLD_SIZE", "1")
    monkeypatch.setenv("PENSTOCK_RANK", "0")
    late.expect_rows(lambda: len(list(Dataset.from_range(5).distribute())))


def test_so_is_one_that_a_manifest_names_for_the_platforms_processes(late: Late, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_SERVICE", f"penstock://{late.address}")
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "0")
    monkeypatch.setenv("PENSTOCK_WORLD_SIZE", "1")
    late.expect_rows(lambda: len(list(Dataset.from_range(5).distribute())))


def test_a_timeout_that_is_given_is_kept_for_a_service_that_the_user_names(late: Late) -> None:
    late.expect_rows(lambda: len(list(Dataset.from_range(5).distribute(late.address, timeout=60))))


def test_a_service_that_the_user_names_is_there_soon_or_never(late: Late, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(penstock.Unavailable, match=late.address):
        Dataset.from_range(5).distribute(late.address)
    monkeypatch.setenv("PENSTOCK_SERVICE", f"penstock://{late.address}")
    with pytest.raises(penstock.Unavailable, match=late.address):
        penstock.connect()


def test_a_timeout_that_is_given_is_kept_on_a_platform(late: Late, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", _tf_config(late.address, "chief", 0))
    monkeypatch.setenv("PENSTOCK_WORLD_SIZE", "1")
    monkeypatch.setenv("PENSTOCK_RANK", "0")
    with pytest.raises(penstock.Unavailable, match=late.address):
        Dataset.from_range(5).distribute(timeout=0.2)


# ---- servers' roles


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"PENSTOCK_ROLE": "worker"}, "by PENSTOCK_ROLE this process is a worker, and nothing names the service"),
        ({"PENSTOCK_ROLE": "dispatcher"}, "nothing names the service"),
        ({"PENSTOCK_ROLE": "worker", "PENSTOCK_SERVICE": "inline"}, "its service is 'inline', which has no servers"),
        ({"SPEC_TYPE": "datasetworker", "MACHINES_CONFIG": '{"dataset_worker": null}', "JOB_NAME": "j", "MY_POD_NAME": "j-0"}, "MACHINES_CONFIG"),
        ({"RANK": "0", "WORLD_SIZE": "1"}, "is for servers, and this process is a trainer"),
    ],
)
def test_a_program_that_only_serves_says_why_it_does_not_and_fails(environment: dict[str, str], words: str) -> None:
    said = _run(sys.executable, "-m", "penstock.dds", PYTHONPATH=os.environ.get("PYTHONPATH", ""), **environment)
    assert said.returncode == 2, said.stderr
    assert words in said.stderr
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize("service", ["", "penstock://127.0.0.1:9"])
def test_a_servers_process_does_not_train(monkeypatch: pytest.MonkeyPatch, service: str) -> None:
    monkeypatch.setenv("PENSTOCK_ROLE", "worker")
    if service:
        monkeypatch.setenv("PENSTOCK_SERVICE", service)
    with pytest.raises(penstock.Invalid, match="maybe_start_dataset_service" if service else "set PENSTOCK_SERVICE"):
        Dataset.from_range(5).distribute()
    assert len(list(Dataset.from_range(5))) == 5, "a look into a dataset is no training"


def test_a_malformed_winner_is_an_error_in_python_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_SERVICE", "???")
    with pytest.raises(penstock.Invalid, match="PENSTOCK_SERVICE"):
        penstock.connect()


def test_the_dispatcher_keeps_its_state_where_the_original_did(servers: Servers, tmp_path: Path) -> None:
    servers.start("dispatcher", "--listen", "127.0.0.1:0", DATASET_JOURNALING_DIR=str(tmp_path / "journal"))
    assert any((tmp_path / "journal").iterdir())


def test_servers_of_one_host_listen_each_on_its_own_address(servers: Servers) -> None:
    slurm = {"HAS_READERS": "True", "SLURM_JOB_NODELIST_HET_GROUP_0": "127.77.0.1"}
    dispatcher = servers.start("dispatcher", TASK_TYPE="datasetdispatcher", **slurm)
    workers = [servers.start("worker", TASK_TYPE="datasetworker", SLURMD_NODENAME=f"127.77.0.{i}", **slurm) for i in (2, 3)]
    assert dispatcher.address == "127.77.0.1:5051"
    assert [worker.address for worker in workers] == ["127.77.0.2:5051", "127.77.0.3:5051"]


# ---- ranks without a service


@pytest.fixture
def two_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_identity, "_warned", set())
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")


@pytest.mark.usefixtures("two_ranks")
@pytest.mark.parametrize("service", [None, "inline", "local:1"])
def test_ranks_that_share_no_service_are_told_once_that_each_reads_every_row(service: str | None) -> None:
    with pytest.warns(RuntimeWarning, match=r"rank 1 of 2, .* each reads every row\. Run the ranks in `penstock local -- COMMAND`"):
        assert len(list(Dataset.from_range(100).distribute(service))) == 100
    assert len(list(Dataset.from_range(100).distribute(service))) == 100, "and not again: warnings are errors here"


@pytest.mark.usefixtures("two_ranks")
def test_ranks_that_say_what_they_read_are_told_nothing() -> None:
    assert len(list(Dataset.from_range(100))) == 100, "a look into a dataset is no reading of a job"
    assert len(list(Dataset.from_range(100).distribute("inline", consumer_index=0, num_consumers=1))) == 100
    dealt = Dataset.from_range(100).batch(10).distribute("inline", consumer_index=1, num_consumers=2, processing_mode="strict")
    assert sum(len(batch) for batch in dealt) == 50


@pytest.mark.usefixtures("two_ranks")
def test_ranks_that_would_wait_for_each_other_in_services_of_their_own_are_an_error() -> None:
    with pytest.raises(penstock.Invalid, match="rank 1 of 2, and each of them has a service of its own, where the others never come"):
        Dataset.from_range(100).batch(10).distribute("local:1", job_name="mine", consumer_index=1, num_consumers=2)


def test_an_evaluator_reads_every_row_and_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = {"chief": ["a:1"], "worker": ["b:1"], "evaluator": ["c:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "evaluator", "index": 0}}))
    assert len(list(Dataset.from_range(5).distribute())) == 5
