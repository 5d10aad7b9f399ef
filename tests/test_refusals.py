"""Who is reached and not let in, or may not start, is told why, and what to do, in Python and on the command line alike."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import penstock
from support.certificates import Authority, make_authority
from support.cluster import run
from support.servers import Server, Servers
from support.waiting import wait_until

MISCONFIGURED = 2
RETRY = 138


@dataclass(frozen=True)
class Files:
    token: Path
    wrong: Path
    expired: Path
    ours: Authority
    other: Authority
    cert: str
    key: str


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    directory = tmp_path_factory.mktemp("refusals")
    token, wrong, expired = directory / "token", directory / "wrong", directory / "expired"
    token.write_text(run("token", "create").stdout)
    wrong.write_text("the token of another service")
    expired.write_text(run("token", "create", "--token-file", str(token), "--expires", "1s").stdout)
    ours = make_authority(directory / "ours")
    return Files(token, wrong, expired, ours, make_authority(directory / "other"), *ours.issue("server"))


@pytest.fixture
def asks_for_a_token(servers: Servers, files: Files) -> Server:
    return servers.start("dispatcher", "--listen", "127.0.0.1:0", "--token-file", str(files.token))


@pytest.fixture
def speaks_tls(servers: Servers, files: Files) -> Server:
    return servers.start(
        "dispatcher", "--listen", "127.0.0.1:0", "--token-file", str(files.token), "--tls-cert", files.cert, "--tls-key", files.key
    )  # fmt: skip


def _python(dispatcher: Server, token: str | None = None, tls: str | None = None) -> str:
    with pytest.raises(penstock.PermissionDenied) as refused:
        penstock.connect(dispatcher.address, token=token, tls=tls, timeout=5)
    return str(refused.value)


def _command(*arguments: str) -> str:
    done = run(*arguments)
    assert done.returncode == MISCONFIGURED, done.stderr
    return done.stderr


def _check(said: str, dispatcher: Server, *words: str) -> None:
    for word in (f"the dispatcher at {dispatcher.address}: ", *words):
        assert word in said
    assert "reach" not in said
    assert all(line.count(dispatcher.address) == 1 for line in said.strip().splitlines()), said


def test_a_wrong_token_is_named_as_such(asks_for_a_token: Server, files: Files) -> None:
    at = ("--dispatcher", asks_for_a_token.address, "--token-file", str(files.wrong))
    for said in (_python(asks_for_a_token, token=files.wrong.read_text()), _command("status", *at), _command("worker", *at)):
        _check(said, asks_for_a_token, "the token is wrong", "PENSTOCK_TOKEN_FILE")


def test_a_missing_token_is_named_as_such(asks_for_a_token: Server) -> None:
    at = ("--dispatcher", asks_for_a_token.address)
    for said in (_python(asks_for_a_token), _command("status", *at), _command("worker", *at)):
        _check(said, asks_for_a_token, "asks for a token and none was given", "PENSTOCK_TOKEN_FILE")


def test_an_expired_token_is_named_as_such(asks_for_a_token: Server, files: Files) -> None:
    at = ("--dispatcher", asks_for_a_token.address, "--token-file", str(files.expired))
    wait_until(lambda: run("status", *at).returncode == MISCONFIGURED, "the token expires")
    for said in (_python(asks_for_a_token, token=files.expired.read_text().strip()), _command("status", *at)):
        _check(said, asks_for_a_token, "the token has expired", "penstock token create --expires")


def test_another_authority_is_named_as_such(speaks_tls: Server, files: Files) -> None:
    at = ("--dispatcher", speaks_tls.address, "--token-file", str(files.token), "--tls-ca", files.other.ca)
    serving = ("--tls-cert", files.cert, "--tls-key", files.key)
    for said in (
        _python(speaks_tls, tls=files.other.ca, token=files.token.read_text().strip()),
        _command("status", *at),
        _command("worker", *at, *serving),
    ):
        _check(said, speaks_tls, "its certificate is not from the authority of PENSTOCK_TLS_CA", "let both sides use the same one")


def test_a_plain_client_of_a_service_that_speaks_tls_is_told_so(speaks_tls: Server, files: Files) -> None:
    at = ("--dispatcher", speaks_tls.address, "--token-file", str(files.token))
    for said in (_python(speaks_tls, token=files.token.read_text().strip()), _command("status", *at), _command("worker", *at)):
        _check(said, speaks_tls, "the service speaks TLS and this program does not", "let PENSTOCK_TLS_CA name")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


@pytest.mark.parametrize("role", [("dispatcher",), ("worker", "--dispatcher", "127.0.0.1:1")], ids=["dispatcher", "worker"])
@pytest.mark.parametrize(
    "http", [lambda port: f"127.0.0.1:{port}", lambda port: f":{port}", lambda port: f"localhost:{port}", lambda port: f"0.0.0.0:{port}"],
    ids=["same", "port", "name", "all"],
)  # fmt: skip
def test_probes_on_the_port_of_the_server_itself_are_a_mistake_that_names_both_flags(role: tuple[str, ...], http: Callable[[int], str]) -> None:
    port = _free_port()
    said = _command(*role, "--listen", f"127.0.0.1:{port}", "--http", http(port))
    assert "--http " in said
    assert f"--listen 127.0.0.1:{port}" in said
    assert "give --http another port" in said


def test_probes_on_a_port_that_somebody_else_has_are_worth_another_try() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for flags in (("--listen", address, "--http", address), ("--listen", "127.0.0.1:0", "--http", address)):
            done = run("dispatcher", *flags)
            assert (done.returncode, "another process listens there" in done.stderr) == (RETRY, True), done.stderr
