"""`penstock token create`, and which of several tokens counts."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

import penstock
from penstock import _binary
from support.cluster import run
from support.servers import Servers

OWN = "a token of this test"


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(OWN)
    return path


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--expires", "0s"], "--expires 0s makes a token that nobody can use"),
        (["--expires", "0s", "--job", "train"], "--expires 0s makes a token that nobody can use"),
        (["--job", ""], "--job is empty"),
        (["--job="], "--job"),
        (["--job", "a\nb"], "--job is 'a\\nb'; expected 1 to 200 bytes without control characters"),
        (["--job", "x" * 201], "(201 bytes); expected 1 to 200 bytes"),
        (["--expires", "soon"], "30s"),
    ],
)
def test_a_limit_that_limits_nothing_is_refused(token_file: Path, flags: list[str], words: str) -> None:
    refused = run("token", "create", "--token-file", str(token_file), *flags)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert words in refused.stderr


@pytest.mark.parametrize("made_for", [["--job", "train"], ["--expires", "1h"], ["--expires", "1s"]])
def test_no_token_is_made_from_one_that_was_made(token_file: Path, tmp_path: Path, made_for: list[str]) -> None:
    derived = tmp_path / "derived"
    assert run("token", "create", "--token-file", str(token_file), *made_for, "--out", str(derived)).returncode == 0
    refused = run("token", "create", "--token-file", str(derived), "--job", "other")
    assert refused.returncode == 2
    assert "need the service's own" in refused.stderr


def test_a_token_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    out = tmp_path / "token"
    command = ["sh", "-c", f"umask 0; exec {_binary.path()} token create --out {out}"]
    made = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert made.stdout == ""
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    before = out.read_text()
    assert len(before.strip()) == 64
    again = run("token", "create", "--out", str(out))
    assert again.returncode == 2
    assert "not written over" in again.stderr
    assert out.read_text() == before


def test_the_flag_goes_before_the_file_of_the_environment_and_that_before_the_variable(
    servers: Servers, token_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.write_text("another token of this test")
    dispatcher = servers.start(
        "dispatcher", "--listen", "127.0.0.1:0", "--token-file", str(token_file), PENSTOCK_TOKEN_FILE=str(other), PENSTOCK_TOKEN="a third one of it"
    )
    environment = {**_binary.environment(), "PENSTOCK_TOKEN_FILE": str(token_file), "PENSTOCK_TOKEN": "a third one of it"}
    command = [_binary.path(), "status", "--dispatcher", dispatcher.address]
    assert subprocess.run(command, env=environment, capture_output=True, timeout=30, check=False).returncode == 0
    monkeypatch.setenv("PENSTOCK_TOKEN", "a third one of it")
    monkeypatch.setenv("PENSTOCK_TOKEN_FILE", str(token_file))
    penstock.connect(dispatcher.address).close()
    monkeypatch.setenv("PENSTOCK_TOKEN_FILE", str(other))
    penstock.connect(dispatcher.address, token=OWN).close()
    with pytest.raises(penstock.PermissionDenied):
        penstock.connect(dispatcher.address, timeout=5)


@pytest.mark.parametrize(
    ("content", "words"), [(None, "cannot be read: No such file or directory; copy the service's token there"), ("\n", "is empty")]
)
def test_a_token_file_that_holds_none_is_an_error_and_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, words: str
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("PENSTOCK_TOKEN_FILE", str(path))
    monkeypatch.setenv("PENSTOCK_TOKEN", OWN)
    with pytest.raises(penstock.Invalid, match=words):
        penstock.connect("penstock://127.0.0.1:9")
    refused = run("status", "--dispatcher", "127.0.0.1:9")
    assert refused.returncode == 2
    assert str(path) in refused.stderr


SUBCOMMANDS = [
    ["dispatcher", "--listen", "127.0.0.1:0"],
    ["worker", "--dispatcher", "127.0.0.1:9"],
    ["status", "--dispatcher", "127.0.0.1:9"],
    ["local", "--", "true"],
]


@pytest.mark.parametrize(("path", "words"), [("/tmp", "Is a directory"), ("/dev/zero", "larger than 64 KiB")])
def test_a_token_file_that_can_be_none_is_a_mistake_with_its_remedy(monkeypatch: pytest.MonkeyPatch, path: str, words: str) -> None:
    monkeypatch.setenv("PENSTOCK_TOKEN_FILE", path)
    for subcommand in SUBCOMMANDS:
        refused = run(*subcommand)
        assert (refused.returncode, refused.stdout) == (2, ""), refused.stderr
        assert words in refused.stderr
        assert f"{path}" in refused.stderr
        assert "PENSTOCK_TOKEN_FILE names" in refused.stderr
    told = run("doctor", "--env")
    assert told.returncode == 3
    assert words in told.stdout
    with pytest.raises(penstock.Invalid, match=words):
        penstock.connect("penstock://127.0.0.1:9")


def test_a_token_file_that_holds_no_text_is_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_bytes(bytes(range(128, 192)))
    monkeypatch.setenv("PENSTOCK_TOKEN_FILE", str(tmp_path / "token"))
    with pytest.raises(penstock.Invalid, match="holds no text"):
        penstock.connect("penstock://127.0.0.1:9")


def test_a_token_in_a_variable_is_without_its_files_line_break(servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("a secret's content\n")
    content = (tmp_path / "token").read_text()  # as Kubernetes makes a variable of a secret
    by_file = servers.start("dispatcher", "--listen", "127.0.0.1:0", "--token-file", str(tmp_path / "token"))
    by_variable = servers.start("dispatcher", "--listen", "127.0.0.1:0", PENSTOCK_TOKEN=content)
    monkeypatch.setenv("PENSTOCK_TOKEN", content)
    with penstock.connect(by_file.address), penstock.connect(by_variable.address):
        assert run("status", "--dispatcher", by_file.address).returncode == 0
        assert run("status", "--dispatcher", by_variable.address, "--token-file", str(tmp_path / "token")).returncode == 0
