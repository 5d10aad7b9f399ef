"""A short run of `make chaos`; the long ones are there to be left alone for minutes."""

import subprocess
import sys
from pathlib import Path

import pytest

from chaos import network
from chaos.checker import Count, Leg, count

ROOT = Path(__file__).parent.parent


def test_a_dozen_faults_lose_and_repeat_nothing() -> None:
    command = [sys.executable, "-m", "tests.chaos", "--kills", "12", "--seed", "5", "--files", "24"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lost 0, duplicated 0" in done.stdout


def _log(path: Path, *batches: str) -> Path:
    path.write_text("".join(f"0.1 0.2 {step} {batch}\n" for step, batch in enumerate(batches, 1)))
    return path


def test_the_checker_sees_what_is_lost_repeated_or_out_of_order(tmp_path: Path) -> None:
    before = Leg([_log(tmp_path / "a", "0 1", "4 5", "9 9"), _log(tmp_path / "b", "2 3", "6 7")], upto=1)
    after = Leg([_log(tmp_path / "c", "4 5", "6 7")], upto=None)
    order = list(range(8))
    assert count([before, after], 8, order) == Count(lost=0, duplicated=0, strange=0, misplaced=0)
    assert count([before, after], 9) == Count(lost=1, duplicated=0, strange=0)
    assert count([before, before, after], 8) == Count(lost=0, duplicated=4, strange=0)
    assert count([after, before], 8, order).misplaced == 8
    assert not count([after, before], 8, order).right


ECHOES = """
import socket
server = socket.create_server(("", 5050))
print("listens", flush=True)
peer = server.accept()[0]
while data := peer.recv(1 << 20):
    peer.sendall(data)
"""
SENDS = """
import os, socket, sys, time
peer = socket.create_connection((sys.argv[1], 5050))
begin = time.monotonic()
peer.sendall(b"x")
peer.recv(1)
print(time.monotonic() - begin)
sent, got = os.urandom(256 << 10), b""
peer.sendall(sent)
while len(got) < len(sent):
    got += peer.recv(1 << 20)
assert got == sent
"""


@pytest.mark.skipif(network.why_not() != "", reason=network.why_not())
def test_what_crosses_a_delayed_link_is_late_and_whole() -> None:
    wires = network.Network()
    try:
        near, far = wires.add(), wires.add()
        with subprocess.Popen([*wires.through(far), sys.executable, "-c", ECHOES], stdout=subprocess.PIPE) as echo:
            assert echo.stdout is not None
            echo.stdout.readline()
            wires.delay(far, 0.2)
            command = [*wires.through(near), sys.executable, "-c", SENDS, network.address(far)]
            sent = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        assert 0.4 <= float(sent.stdout) < 2
    finally:
        wires.remove()
