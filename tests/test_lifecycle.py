"""Servers come, say whether they are well, and go."""

from __future__ import annotations

import http.client
import os
import re
import resource
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import penstock
from penstock import Dataset, _binary
from support.cluster import run
from support.data import write_records
from support.servers import Server, Servers
from support.waiting import wait_until


def _get(server: Server, path: str) -> tuple[int, str]:
    found = re.search(r"http.up address=(\S+)", server.log)
    assert found, server.log
    try:
        with urllib.request.urlopen(f"http://{found[1]}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture
def dispatcher(servers: Servers) -> Server:
    return servers.start("dispatcher", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")


def test_a_dispatcher_is_ready_without_readers(dispatcher: Server) -> None:
    assert _get(dispatcher, "/readyz") == (200, "ok\n")
    assert _get(dispatcher, "/healthz") == (200, "ok\n")
    assert _get(dispatcher, "/else")[0] == 404


def test_a_worker_is_alive_while_it_waits_for_the_dispatcher_and_ready_when_it_is_known(servers: Servers, dispatcher: Server) -> None:
    worker = servers.start("worker", "--dispatcher", dispatcher.address, "--http", "127.0.0.1:0")
    assert _get(worker, "/readyz")[0] == 200
    waiting = subprocess.Popen([_binary.path(), "worker", "--dispatcher", "127.0.0.1:1", "--http", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
    try:
        assert waiting.stderr is not None
        address = re.search(r"http.up address=(\S+)", waiting.stderr.readline())
        assert address
        with urllib.request.urlopen(f"http://{address[1]}/healthz", timeout=10) as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://{address[1]}/readyz", timeout=10)
        with refused.value as error:
            assert "waits for the dispatcher at 127.0.0.1:1" in error.read().decode()
    finally:
        waiting.kill()
        waiting.communicate()


def test_a_worker_stays_ready_while_the_dispatcher_is_away_because_it_is_read_from(servers: Servers, dispatcher: Server) -> None:
    worker = servers.start("worker", "--dispatcher", dispatcher.address, "--http", "127.0.0.1:0")
    with (
        penstock.connect(dispatcher.address, shared_memory=False) as service,
        Dataset.from_range(10**6).batch(100).distribute(service, job_name="goes-on") as reader,
    ):
        batches = iter(reader)
        next(batches)
        dispatcher.process.kill()
        wait_until(lambda: "dispatcher.down" in worker.log, "the worker misses the dispatcher")
        assert _get(worker, "/readyz") == (200, "ok\n")
        next(batches)


def test_probes_may_ask_for_the_head_alone(dispatcher: Server) -> None:
    address = re.search(r"http.up address=(\S+)", dispatcher.log)
    assert address
    for path, code in (("/readyz", 200), ("/healthz", 200), ("/else", 404)):
        connection = http.client.HTTPConnection(address[1], timeout=10)
        connection.request("HEAD", path)
        answer = connection.getresponse()
        assert (answer.status, answer.read(), int(answer.headers["Content-Length"]) > 0) == (code, b"", True)
        connection.close()


def test_a_worker_that_waits_for_its_dispatcher_ends_with_0_when_asked_to() -> None:
    command = [_binary.path(), "worker", "--dispatcher", "127.0.0.1:1", "--http", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        assert "http.up" in waiting.stderr.readline()
        waiting.terminate()
        assert waiting.wait(20) == 0
        assert 'worker.stop why="asked to before the dispatcher knew it"' in waiting.stderr.read()


def test_a_worker_waits_for_its_dispatcher_as_long_as_it_is_told() -> None:
    done = run("worker", "--dispatcher", "127.0.0.1:1", "--start-timeout", "200ms", "--code-timeout", "5min")
    assert (done.returncode, "no dispatcher at 127.0.0.1:1 within 200 ms (--start-timeout)" in done.stderr) == (138, True), done.stderr


def test_servers_with_addresses_of_their_own_have_the_same_port_for_probes(servers: Servers) -> None:
    with socket.create_server(("127.0.0.2", 0)) as free:
        port = free.getsockname()[1]
    for host in ("127.0.0.2", "127.0.0.3"):
        server = servers.start("dispatcher", "--listen", f"{host}:0", "--http", f":{port}")
        assert f"http.up address={host}:{port}" in server.log
        assert _get(server, "/readyz")[0] == 200


def test_a_dispatcher_listens_where_penstock_service_says(servers: Servers, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.2", 0)) as free:
        address = f"127.0.0.2:{free.getsockname()[1]}"
    assert servers.start("dispatcher", PENSTOCK_SERVICE=f"penstock://{address}").address == address
    assert servers.start("dispatcher", PENSTOCK_SERVICE=f"unix:{tmp_path}/socket").address == f"unix:{tmp_path}/socket"


def test_probes_answer_while_others_hold_their_connections_open(dispatcher: Server) -> None:
    address = re.search(r"http.up address=(\S+):(\d+)", dispatcher.log)
    assert address
    silent = [socket.create_connection((address[1], int(address[2]))) for _ in range(200)]
    try:
        assert _get(dispatcher, "/healthz")[0] == 200
    finally:
        for connection in silent:
            connection.close()


def test_servers_may_open_as_many_files_as_the_system_grants(servers: Servers) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0")
        worker = servers.start("worker", "--dispatcher", dispatcher.address)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    for server in (dispatcher, worker):
        assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE) == (before[1], before[1])


def test_servers_exit_when_all_jobs_are_done_and_not_before(servers: Servers) -> None:
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0", "--exit-when-done", "300ms")
    worker = servers.start("worker", "--dispatcher", dispatcher.address, "--exit-when-done", "60s")
    with penstock.connect(dispatcher.address) as service:
        for name in ("first", "second"):
            with Dataset.from_range(10).distribute(service, job_name=name) as reader:
                assert len(list(reader)) == 10
                assert dispatcher.process.poll() is None
    assert dispatcher.process.wait(20) == 0
    assert worker.process.wait(20) == 0
    assert 'dispatcher.done why="all jobs were read to their end" finished=2 unfinished=0' in dispatcher.log
    assert 'dispatcher.stop why="nobody reads any more"' in dispatcher.log


def test_a_dispatcher_that_ends_says_how_many_jobs_were_left_unfinished(servers: Servers) -> None:
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0", "--exit-when-done", "300ms")
    servers.start("worker", "--dispatcher", dispatcher.address)
    with penstock.connect(dispatcher.address) as service:
        with Dataset.from_range(10).distribute(service, job_name="whole") as reader:
            assert len(list(reader)) == 10
        with Dataset.from_range(10**6).batch(10).distribute(service, job_name="crashed") as reader:
            next(iter(reader))
    assert dispatcher.process.wait(20) == 0
    line = re.search(r"(\w+) dispatcher\.done (.*)", dispatcher.log)
    assert line
    assert line[1].startswith("warn")
    assert "finished=1 unfinished=1" in line[2]
    assert "to their end" not in line[2]


def test_what_happens_to_jobs_consumers_and_workers_is_logged_as_events_with_fields(servers: Servers) -> None:
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0")
    worker = servers.start("worker", "--dispatcher", dispatcher.address)
    with penstock.connect(dispatcher.address) as service, Dataset.from_range(10).distribute(service, job_name="a job") as reader:
        assert len(list(reader)) == 10
    wait_until(lambda: "job.finish" in dispatcher.log, "the job is over")
    dispatcher.process.terminate()
    assert dispatcher.process.wait(20) == 0
    me = re.escape(f"{socket.gethostname()}:{os.getpid()}")
    for line in [
        rf"info worker\.join worker={re.escape(socket.gethostname())}:{worker.process.pid} address={worker.address} ",
        r"info dataset\.register dataset=\w+ ",
        r'info job\.start job="a job" dataset=\w+ mode=shared lanes=\d+ epochs=1 consumers=0$',
        rf'info consumer\.join job="a job" consumer={me} index=0 of=0 attempt=0$',
        rf'info consumer\.leave job="a job" consumer={me} index=0 rows=\d+$',
        r'info job\.finish job="a job" dataset=\w+ ',
        r'info dispatcher\.stop why="asked to: Terminated"$',
    ]:
        assert re.search(line, dispatcher.log, re.MULTILINE), (line, dispatcher.log)


def test_a_worker_that_exits_when_done_does_not_wait_for_a_lost_dispatcher(servers: Servers) -> None:
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0")
    worker = servers.start("worker", "--dispatcher", dispatcher.address, "--exit-when-done", "200ms")
    dispatcher.process.kill()
    assert worker.process.wait(20) == 0


def test_draining_ends_within_its_timeout_though_the_loop_stands_still(servers: Servers) -> None:
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0")
    worker = servers.start("worker", "--dispatcher", dispatcher.address, "--drain-timeout", "300ms")
    with penstock.connect(dispatcher.address, shared_memory=False) as service:
        reader = iter(Dataset.from_range(10**9).batch(1000).distribute(service, job_name="stands"))
        next(reader)
        worker.process.terminate()
        assert worker.process.wait(20) == 0
        servers.start("worker", "--dispatcher", dispatcher.address)
        next(reader)


def test_a_worker_that_is_told_twice_at_once_drains_all_the_same(servers: Servers) -> None:
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0")
    worker = servers.start("worker", "--dispatcher", dispatcher.address, "--drain-timeout", "800ms")
    with penstock.connect(dispatcher.address, shared_memory=False) as service:
        reader = iter(Dataset.from_range(10**9).batch(1000).distribute(service, job_name="stands"))
        next(reader)
        worker.process.terminate()
        wait_until(lambda: "worker.drain" in worker.log, "it drains")
        worker.process.terminate()  # as a scheduler does, which tells a process and its group
        assert worker.process.wait(20) == 0
    assert 'worker.stop why="asked to, and drained"' in worker.log


def test_a_worker_that_comes_back_under_another_address_is_read_from(servers: Servers) -> None:
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0")
    first = servers.start("worker", "--dispatcher", dispatcher.address, "--listen", "127.0.0.1:0")
    with penstock.connect(dispatcher.address) as service, Dataset.from_range(10_000).batch(10).distribute(service, job_name="moves") as reader:
        rows: list[int] = []
        for batch in reader:
            if not rows:
                first.process.kill()
                servers.start("worker", "--dispatcher", dispatcher.address, "--listen", "127.0.0.9:0")
            rows += batch.tolist()
    assert sorted(rows) == list(range(10_000))


def test_sigterm_ends_a_dispatcher_that_goes_on_from_its_state(servers: Servers, tmp_path: os.PathLike[str]) -> None:
    state = ["--state-dir", f"{tmp_path}/state"]
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0", *state)
    servers.start("worker", "--dispatcher", dispatcher.address)
    with (
        penstock.connect(dispatcher.address) as service,
        Dataset.from_range(1000).batch(10).distribute(service, job_name="goes-on", even="uneven") as reader,
    ):
        elements = iter(reader)
        rows = next(elements).tolist()
        dispatcher.process.terminate()
        assert dispatcher.process.wait(20) == 0
        servers.start("dispatcher", "--listen", dispatcher.address, *state)
        for batch in elements:
            rows += batch.tolist()
    assert sorted(rows) == list(range(1000))
    wait_until(lambda: dispatcher.process.poll() is not None, "the first dispatcher is gone")


def test_what_happens_to_a_lane_is_logged_with_job_lane_and_worker(servers: Servers, tmp_path: Path) -> None:
    damaged = write_records(tmp_path, files=1, rows=50, compression="none")
    content = bytearray(damaged.files[0].read_bytes())
    content[len(content) // 2] ^= 0xFF
    damaged.files[0].write_bytes(content)
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0")
    worker = servers.start("worker", "--dispatcher", dispatcher.address)
    with penstock.connect(dispatcher.address) as service, pytest.raises(penstock.DataError):
        list(Dataset.from_tfrecord(damaged.pattern).distribute(service, job_name="logged"))
    line = re.search(r"warn\w* lane\.failed (.*)", worker.log)
    assert line, worker.log
    assert re.match(rf'job=logged epoch=0 lane=\d+ worker={re.escape(worker.address)} why=".*{damaged.files[0].name}', line[1]), line[1]


def test_a_peer_of_another_version_of_the_frames_is_told_so(servers: Servers) -> None:
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0")
    host, port = dispatcher.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20) as peer:
        peer.sendall(b"PSTK" + bytes([99]) + bytes(35))
        said = b""
        while more := peer.recv(4096):
            said += more
    assert b"version 99" in said
    assert dispatcher.process.poll() is None
