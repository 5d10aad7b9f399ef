"""Who may not come, seen from outside: each refusal names its remedy."""

from __future__ import annotations

import os
import re
import select
import socket
import ssl
import subprocess
import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

import penstock
from penstock import Dataset
from support.certificates import Authority, make_authority
from support.cluster import run
from support.data import Records, write_records
from support.servers import Server, Servers
from support.waiting import wait_until


@dataclass(frozen=True)
class Files:
    token: Path
    authority: Authority
    cert: str
    key: str

    @property
    def serving(self) -> list[str]:
        return ["--tls-ca", self.authority.ca, "--tls-cert", self.cert, "--tls-key", self.key]


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    directory = tmp_path_factory.mktemp("security")
    token = directory / "token"
    token.write_text(run("token", "create").stdout)
    authority = make_authority(directory / "ours")
    return Files(token, authority, *authority.issue("server"))


def _token(files: Files, *flags: str) -> str:
    made = run("token", "create", "--token-file", str(files.token), *flags)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def _service(servers: Servers, *flags: str, worker_flags: tuple[str, ...] = ()) -> tuple[Server, Server]:
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0", *flags)
    return dispatcher, servers.start("worker", "--dispatcher", dispatcher.address, *flags, *worker_flags)


# ---- tokens


def test_without_a_token_a_server_does_not_let_other_machines_in() -> None:
    for command in (["dispatcher", "--listen", "0.0.0.0:0"], ["worker", "--dispatcher", "127.0.0.1:1", "--listen", ":0"]):
        refused = run(*command)
        assert refused.returncode == 2
        assert "--token-file" in refused.stderr
        assert "--tls-ca" in refused.stderr


def test_a_star_is_no_way_around_that() -> None:
    """getaddrinfo takes it for every address where one listens, and for loopback where one asks what it is."""
    for command in (["dispatcher", "--listen", "*:0"], ["worker", "--dispatcher", "127.0.0.1:1", "--listen", "*:0"]):
        refused = run(*command)
        assert (refused.returncode, "all addresses of this machine are 0.0.0.0 or [::]" in refused.stderr) == (2, True), refused.stderr


@pytest.mark.parametrize("token", ["", "wrong", "pst1.aa.bb"])
def test_a_wrong_or_missing_token_is_refused(servers: Servers, files: Files, token: str) -> None:
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0", "--token-file", str(files.token))
    with pytest.raises(penstock.PermissionDenied, match="PENSTOCK_TOKEN_FILE"):
        penstock.connect(dispatcher.address, token=token, timeout=5)


def test_a_worker_with_a_wrong_token_exits_for_good(servers: Servers, files: Files, tmp_path: Path) -> None:
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0", "--token-file", str(files.token))
    wrong = tmp_path / "wrong"
    wrong.write_text("the token of another service")
    refused = run("worker", "--dispatcher", dispatcher.address, "--token-file", str(wrong))
    assert refused.returncode == 2
    assert "PENSTOCK_TOKEN_FILE" in refused.stderr


@pytest.mark.parametrize("role", [["dispatcher"], ["worker", "--dispatcher", "127.0.0.1:9"]], ids=["dispatcher", "worker"])
def test_a_server_refuses_a_token_that_is_no_service_s_own(files: Files, tmp_path: Path, role: list[str]) -> None:
    token = tmp_path / "token"
    cases = [(_token(files, "--job", "train"), "need the service's own"), (_token(files, "--expires", "1s"), "need the service's own"),
             ("secret", "has 6 bytes, and could be guessed")]  # fmt: skip
    for text, words in cases:
        token.write_text(text)
        refused = run(*role, "--listen", "127.0.0.1:0", "--token-file", str(token))
        assert refused.returncode == 2
        assert words in refused.stderr


def test_a_server_that_lets_anybody_in_warns_of_it_and_one_on_loopback_does_not(servers: Servers) -> None:
    everywhere = servers.start("dispatcher", "--listen", "0.0.0.0:0", "--without-token")
    assert "security.open" in everywhere.log
    assert "PENSTOCK_TOKEN_FILE" in everywhere.log
    assert "security.open" not in servers.start("dispatcher", "--listen", "127.0.0.1:0", "--without-token").log


def test_a_token_expires(servers: Servers, files: Files) -> None:
    dispatcher, _ = _service(servers, "--token-file", str(files.token))
    short = _token(files, "--expires", "1s")

    def expired() -> str:
        try:
            penstock.connect(dispatcher.address, token=short, timeout=5).close()
        except penstock.PermissionDenied as refused:
            return str(refused)
        return ""

    assert "penstock token create" in wait_until(expired, "the token expires")
    with penstock.connect(dispatcher.address, token=_token(files, "--expires", "1h"), timeout=5) as service:
        assert len(list(Dataset.from_range(5).distribute(service))) == 5


def test_a_jobs_token_reads_its_job_and_nothing_else(servers: Servers, files: Files) -> None:
    dispatcher, _ = _service(servers, "--token-file", str(files.token))
    with penstock.connect(dispatcher.address, token=_token(files, "--job", "mine")) as service:
        with Dataset.from_range(50).distribute(service, job_name="mine") as reader:
            assert len(list(reader)) == 50
        for name in ("other", None):
            with pytest.raises(penstock.PermissionDenied, match="penstock token create"):
                Dataset.from_range(50).distribute(service, job_name=name)
    refused = run("status", "--dispatcher", dispatcher.address, "--token-file", "/dev/stdin", input=_token(files, "--job", "mine"))
    assert refused.returncode == 2
    assert "job 'mine' alone" in refused.stderr


def test_a_token_is_never_logged(servers: Servers, files: Files) -> None:
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0", "--token-file", str(files.token), PENSTOCK_LOG="debug")
    worker = servers.start("worker", "--dispatcher", dispatcher.address, "--token-file", str(files.token), PENSTOCK_LOG="debug")
    with penstock.connect(dispatcher.address, token=files.token.read_text().strip()) as service:
        assert len(list(Dataset.from_range(5).distribute(service))) == 5
    with pytest.raises(penstock.PermissionDenied):
        penstock.connect(dispatcher.address, token="guessed-token", timeout=5)
    wait_until(lambda: "hello.refused" in dispatcher.log, "the refusal is logged")
    for secret in (files.token.read_text().strip(), "guessed-token"):
        assert secret not in dispatcher.log + worker.log


# ---- TLS


def test_a_job_is_read_over_mutual_tls(servers: Servers, files: Files, records: Records) -> None:
    dispatcher, worker = _service(servers, *files.serving, worker_flags=("--no-shm",))
    cert, key = files.authority.issue("trainer", "DNS:trainer")
    tls = {"ca": files.authority.ca, "cert": cert, "key": key}
    with penstock.connect(dispatcher.address, tls=tls) as service:
        batches = [batch["id"].tolist() for batch in records.dataset().batch(100).distribute(service, even="uneven")]
    assert sorted(row for batch in batches for row in batch) == records.ids
    with pytest.raises(penstock.PermissionDenied, match="PENSTOCK_TLS_CERT"):
        penstock.connect(dispatcher.address, tls=files.authority.ca, timeout=5)
    assert worker.process.poll() is None


def test_large_blocks_cross_tls_whole(servers: Servers, files: Files, tmp_path: Path) -> None:
    large = write_records(tmp_path, files=2, rows=40, payload=300_000, compression="none")
    dispatcher, _ = _service(servers, *files.serving, "--token-file", str(files.token))
    dataset = Dataset.from_tfrecord(large.pattern).parse_example({"id": "int64", "payload": "string"}).batch(7)
    with penstock.connect(dispatcher.address, tls=files.authority.ca, token=files.token.read_text().strip(), shared_memory=False) as service:
        rows = []
        for batch in dataset.distribute(service, even="uneven"):
            assert all(value == bytes(300_000) for value in batch["payload"])
            rows += batch["id"].tolist()
    assert sorted(rows) == large.ids


def test_with_tls_and_a_token_a_client_needs_no_certificate_but_the_token(servers: Servers, files: Files) -> None:
    dispatcher, _ = _service(servers, *files.serving, "--token-file", str(files.token))
    with penstock.connect(dispatcher.address, tls=files.authority.ca, token=files.token.read_text().strip()) as service:
        assert len(list(Dataset.from_range(5).distribute(service))) == 5
    with pytest.raises(penstock.PermissionDenied, match="PENSTOCK_TOKEN_FILE"):
        penstock.connect(dispatcher.address, tls=files.authority.ca, timeout=5)


def test_a_plain_client_on_a_tls_port_is_told_what_it_lacks(servers: Servers, files: Files) -> None:
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0", *files.serving)
    with pytest.raises(penstock.PermissionDenied, match="PENSTOCK_TLS_CA"):
        penstock.connect(dispatcher.address, timeout=5)
    refused = run("status", "--dispatcher", dispatcher.address)
    assert refused.returncode == 2
    assert "PENSTOCK_TLS_CA" in refused.stderr


def test_a_tls_client_on_a_plain_port_is_told_what_the_service_lacks(servers: Servers, files: Files) -> None:
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0")
    with pytest.raises(penstock.PermissionDenied, match="--tls-cert"):
        penstock.connect(dispatcher.address, tls=files.authority.ca, timeout=5)


def test_another_authoritys_server_and_client_are_refused(servers: Servers, files: Files, tmp_path: Path) -> None:
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0", *files.serving)
    other = make_authority(tmp_path / "other")
    with pytest.raises(penstock.PermissionDenied, match="PENSTOCK_TLS_CA"):
        penstock.connect(dispatcher.address, tls=other.ca, timeout=5)
    cert, key = other.issue("intruder")
    with pytest.raises(penstock.PermissionDenied, match="PENSTOCK_TLS_CERT"):
        penstock.connect(dispatcher.address, tls={"ca": files.authority.ca, "cert": cert, "key": key}, timeout=5)


def test_a_certificate_for_another_host_is_refused(servers: Servers, files: Files) -> None:
    cert, key = files.authority.issue("elsewhere", "DNS:elsewhere")
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--token-file", str(files.token))
    with pytest.raises(penstock.PermissionDenied, match="subjectAltName"):
        penstock.connect(dispatcher.address, tls=files.authority.ca, timeout=5)


# ---- certificates that expire


def test_a_server_refuses_to_start_with_a_certificate_that_has_expired_and_so_does_a_client(files: Files) -> None:
    cert, key = files.authority.issue_until("old", datetime(2020, 1, 2, tzinfo=timezone.utc))
    tls = ["--tls-ca", files.authority.ca, "--tls-cert", cert, "--tls-key", key]
    for command in (["dispatcher", "--listen", "127.0.0.1:0"], ["worker", "--dispatcher", "127.0.0.1:9"], ["status", "--dispatcher", "127.0.0.1:9"]):
        refused = run(*command, *tls)
        assert refused.returncode == 2
        assert f"{cert} expired at 2020-01-02T00:00:00Z" in refused.stderr
        assert "renew it" in refused.stderr
    with pytest.raises(penstock.Invalid, match="expired at 2020-01-02"):
        penstock.connect("127.0.0.1:9", tls={"ca": files.authority.ca, "cert": cert, "key": key}, timeout=5)


def test_a_certificate_that_expires_while_its_server_runs_is_named_as_the_servers_with_the_time(servers: Servers, files: Files) -> None:
    end = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(seconds=4)
    cert, key = files.authority.issue_until("short-server", end)
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--token-file", str(files.token))
    command = ["status", "--dispatcher", dispatcher.address, "--tls-ca", files.authority.ca, "--token-file", str(files.token)]
    refused = wait_until(lambda: done if (done := run(*command)).returncode else None, "it expires")
    assert refused.returncode == 2
    assert f"its certificate expired at {end:%Y-%m-%dT%H:%M:%SZ}: renew it there" in refused.stderr
    wait_until(lambda: "handshake.refused" in dispatcher.log, "the refusal is logged")
    assert "the client does not accept this server's certificate" in dispatcher.log


def test_a_certificate_that_expires_while_its_client_runs_is_named_as_the_clients_with_the_time(servers: Servers, files: Files) -> None:
    end = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(seconds=4)
    cert, key = files.authority.issue_until("short-client", end)
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0", *files.serving)
    worker = servers.start("worker", "--dispatcher", dispatcher.address, "--tls-ca", files.authority.ca, "--tls-cert", cert, "--tls-key", key)
    wait_until(lambda: datetime.now(timezone.utc) > end + timedelta(seconds=1), "it expires")
    dispatcher.process.kill()
    again = servers.start("dispatcher", "--listen", dispatcher.address, *files.serving)
    wait_until(lambda: "dispatcher.refused" in worker.log, "the worker is refused")
    words = f"which expired at {end:%Y-%m-%dT%H:%M:%SZ}: renew the one that PENSTOCK_TLS_CERT names"
    assert words in worker.log
    wait_until(lambda: f"the client's certificate expired at {end:%Y-%m-%dT%H:%M:%SZ}" in again.log, "the server says so, too")


def test_only_tls_1_3_is_spoken(servers: Servers, files: Files) -> None:
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0", *files.serving, "--token-file", str(files.token))
    for version, spoken in (("-tls1_2", False), ("-tls1_3", True)):
        tried = subprocess.run(
            ["openssl", "s_client", "-connect", dispatcher.address, version, "-CAfile", files.authority.ca],
            input=b"", capture_output=True, timeout=20, check=False,
        )  # fmt: skip
        assert (b"Cipher is TLS_" in tried.stdout) == spoken, tried.stdout[-500:]


# ---- paths


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[Records, Records]:
    """Files that are allowed, and others beside them."""
    root = tmp_path_factory.mktemp("paths")
    for name in ("allowed", "secret"):
        (root / name).mkdir()
    allowed = write_records(root / "allowed", files=2, rows=10)
    secret = write_records(root / "secret", files=1, rows=10)
    os.symlink(secret.files[0], root / "allowed" / "link.gz")
    os.symlink(root / "secret", root / "allowed" / "directory")
    return allowed, secret


def test_only_allowed_paths_are_read_however_they_are_written(servers: Servers, paths: tuple[Records, Records]) -> None:
    allowed, secret = paths
    dispatcher, _ = _service(servers, worker_flags=("--allow-path", str(allowed.directory)))
    escapes = [
        str(secret.files[0]),
        f"{allowed.directory}/../secret/*",
        f"{allowed.directory}/link.gz",
        f"{allowed.directory}/directory/*",
        f"file://{secret.files[0]}",
        f"file://{allowed.directory}/../secret/{secret.files[0].name}",
        f"{allowed.directory}/*/../../secret/*",
    ]
    with penstock.connect(dispatcher.address) as service:
        for escape in escapes:
            with pytest.raises(penstock.PermissionDenied, match="--allow-path"):
                list(Dataset.from_tfrecord(escape).distribute(service))
        for pattern in (allowed.pattern, f"file://{allowed.pattern}", f"{allowed.directory}/../allowed/*.tfrecord*"):
            assert len(list(Dataset.from_tfrecord(pattern).distribute(service))) == 20


def test_a_refused_path_is_in_the_workers_log_with_where_its_link_leads(servers: Servers, paths: tuple[Records, Records]) -> None:
    allowed, secret = paths
    dispatcher, worker = _service(servers, worker_flags=("--allow-path", str(allowed.directory)))
    with penstock.connect(dispatcher.address) as service:
        with pytest.raises(penstock.PermissionDenied, match="a link in it leads out of what the worker was started with") as refused:
            list(Dataset.from_tfrecord(f"{allowed.directory}/link.gz").distribute(service, job_name="linked"))
        assert str(secret.files[0]) not in str(refused.value), "who asks is not told where"
    wait_until(lambda: "path.refused" in worker.log, "the refusal is logged")
    assert f"leads_to={secret.files[0]}" in worker.log
    assert f"job=linked peer={socket.gethostname()}:{os.getpid()}" in worker.log
    wait_until(lambda: "job.refused job=linked" in dispatcher.log, "the dispatcher says which job it was")


# ---- peers that hold on


def _connect(server: Server, source: str = "127.0.0.1") -> socket.socket:
    host, port = server.address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=20, source_address=(source, 0))


def _read_to_end(connection: socket.socket) -> bytes:
    said = b""
    while more := connection.recv(4096):
        said += more
    return said


def _cpu_seconds(server: Server) -> float:
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_peer_that_says_no_hello_is_gone_after_five_seconds_and_disturbs_nobody(servers: Servers) -> None:
    dispatcher, _ = _service(servers)
    begin = time.monotonic()
    silent = [_connect(dispatcher) for _ in range(100)]
    with penstock.connect(dispatcher.address) as service:
        assert len(list(Dataset.from_range(5).distribute(service))) == 5
    with _connect(dispatcher) as dripping:
        while not select.select([dripping], [], [], 0.2)[0]:
            dripping.send(b"P")
        assert b"no hello came in time" in _read_to_end(dripping)
    for connection in silent:
        assert b"no hello came in time" in _read_to_end(connection)
        connection.close()
    assert 4 < time.monotonic() - begin < 15


def test_half_a_tls_record_costs_a_server_no_time(servers: Servers, files: Files) -> None:
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0", *files.serving, "--token-file", str(files.token))
    context = ssl.create_default_context(cafile=files.authority.ca)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="penstock")
    with _connect(dispatcher) as connection:
        for _ in range(10):
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                connection.sendall(outgoing.read())
                incoming.write(connection.recv(65536))
        tls.write(bytes(10_000))
        connection.sendall(outgoing.read()[:5_000])
        before = _cpu_seconds(dispatcher)
        assert connection.recv(65536), "it is told when its five seconds are over"
        assert _cpu_seconds(dispatcher) - before < 1


def test_one_peer_cannot_take_all_connections(servers: Servers) -> None:
    dispatcher, _ = _service(servers)
    greedy = [_connect(dispatcher, "127.0.0.2") for _ in range(300)]
    with penstock.connect(dispatcher.address) as service:
        assert len(list(Dataset.from_range(5).distribute(service))) == 5
    said = [_read_to_end(connection) for connection in greedy]
    assert sum(b"too many connections" in text for text in said) == len(greedy) - 256
    for connection in greedy:
        connection.close()


def _refusals(server: Server) -> list[tuple[str, int]]:
    """Events about peers that were not let in, each with how many it stands for."""
    return [(event, int(count)) for event, count in re.findall(r"warn\w* (\w+\.refused) peer=127\.0\.0\.2\S* .*count=(\d+)", server.log)]


def test_who_is_not_let_in_is_in_the_log_a_line_a_second_with_a_count(servers: Servers) -> None:
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0")
    begin = time.monotonic()
    for _ in range(200):
        with _connect(dispatcher, "127.0.0.2") as peer:
            peer.sendall(b"GET / HTTP/1.1\r\nHost: penstock-and-no-web-server\r\n\r\n")
            _read_to_end(peer)
    wait_until(lambda: sum(count for _, count in _refusals(dispatcher)) == 200, "all of them are counted")
    assert len(_refusals(dispatcher)) <= 2 + (time.monotonic() - begin)
    assert {event for event, _ in _refusals(dispatcher)} == {"hello.refused"}


def test_requests_that_a_token_does_not_allow_are_in_the_log_a_line_a_second_with_a_count(servers: Servers, files: Files) -> None:
    dispatcher, _ = _service(servers, "--token-file", str(files.token))

    def counts() -> list[int]:
        return [int(count) for count in re.findall(r"request\.refused .* why=\"\w+: the token is for job 'mine' alone.* count=(\d+)", dispatcher.log)]

    begin = time.monotonic()
    with penstock.connect(dispatcher.address, token=_token(files, "--job", "mine")) as service:
        for _ in range(100):
            with pytest.raises(penstock.PermissionDenied):
                Dataset.from_range(5).distribute(service, job_name="other")
    wait_until(lambda: sum(counts()) == 100, "all of them are counted")
    assert len(counts()) <= 2 + (time.monotonic() - begin)


def test_handshakes_that_fail_and_floods_are_in_the_log(servers: Servers, files: Files) -> None:
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0", *files.serving)
    with pytest.raises(penstock.PermissionDenied):
        penstock.connect(dispatcher.address, tls=files.authority.ca, timeout=5)
    wait_until(lambda: "handshake.refused" in dispatcher.log, "it is logged")
    assert 'why="the client showed no certificate"' in dispatcher.log
    greedy = [_connect(dispatcher, "127.0.0.2") for _ in range(300)]
    wait_until(
        lambda: sum(count for event, count in _refusals(dispatcher) if event == "connection.refused") == len(greedy) - 256, "the flood is logged"
    )
    for connection in greedy:
        connection.close()


def test_the_token_file_alone_is_named_in_the_environment(servers: Servers, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0", PENSTOCK_TOKEN_FILE=str(files.token))
    servers.start("worker", "--dispatcher", dispatcher.address, PENSTOCK_TOKEN_FILE=str(files.token))
    monkeypatch.setenv("PENSTOCK_TOKEN_FILE", str(files.token))
    with penstock.connect(dispatcher.address) as service:
        assert len(list(Dataset.from_range(5).distribute(service))) == 5


def test_every_line_of_the_threat_model_names_a_test_that_exists() -> None:
    root = Path(__file__).parent.parent
    rows = [line for line in (root / "docs" / "security.md").read_text().splitlines() if line.startswith("| ") and "`" in line]
    named = [name for line in rows for name in re.findall(r"`(test_\w+|[A-Z]\w+\.[A-Z]\w+)`", line.rsplit("|", 2)[1])]
    assert len(named) >= len(rows) > 10
    sources = "\n".join(path.read_text() for path in [*root.glob("tests/*.py"), *root.glob("src/**/*_test.cc")])
    for name in named:
        wanted = f"def {name}(" if name.startswith("test_") else name.replace(".", ", ")
        assert wanted in sources, name
