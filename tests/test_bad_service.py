"""A service that is not there, not meant or not well, and peers that speak nonsense: each is named, and nobody hangs."""

import resource
import signal
import socket
import struct
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from conftest import StartCluster
from penstock import Dataset, _binary, _waiting
from support.cluster import TestCluster, run
from support.reading import read

MISCONFIGURED = 2
RETRY = 138


def test_an_unreachable_dispatcher_is_named_within_the_deadline() -> None:
    begin = time.monotonic()
    with pytest.raises(penstock.Unavailable, match="127.0.0.1:1"):
        penstock.connect("penstock://127.0.0.1:1", timeout=0.5)
    assert time.monotonic() - begin < 3


def test_who_waits_long_for_a_dispatcher_is_told_once_what_for(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(_waiting, "SAY_AFTER", 0.2)
    with pytest.raises(penstock.Unavailable):
        penstock.connect("penstock://127.0.0.1:1", timeout=1)
    said = [record.getMessage() for record in caplog.records if "waiting for" in record.getMessage()]
    assert len(said) == 1
    assert "the dispatcher at penstock://127.0.0.1:1" in said[0]


@pytest.mark.parametrize("address", ["penstock://", "host:port", "http://a:1"])
def test_an_address_that_is_none_is_refused_by_name(address: str) -> None:
    with pytest.raises(penstock.Invalid, match=address.rsplit("/", maxsplit=1)[-1] or "penstock"):
        penstock.connect(address, timeout=0.5)


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run("dispatcher", "--listen", address)
    assert done.returncode == RETRY, "a restart may come before the one that it replaces is gone"
    assert address in done.stderr
    assert "in use" in done.stderr


def test_an_address_of_another_machine_is_a_mistake() -> None:
    done = run("dispatcher", "--listen", "192.0.2.1:5050", "--without-token")
    assert done.returncode == MISCONFIGURED
    assert "192.0.2.1:5050" in done.stderr
    assert "no address of this machine" in done.stderr


def test_status_without_a_dispatcher_names_the_address_and_what_to_look_at() -> None:
    done = run("status", "--dispatcher", "127.0.0.1:1")
    assert done.returncode == RETRY
    assert "cannot reach the dispatcher at 127.0.0.1:1" in done.stderr
    assert "is `penstock dispatcher` running there" in done.stderr
    assert "--dispatcher or PENSTOCK_SERVICE" in done.stderr


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b[2J", "x" * 201, "x" * 20_000_000], ids=["empty", "line", "escape", "201", "huge"])
@pytest.mark.parametrize("where", ["inline", "service"])
def test_a_job_has_a_name_that_can_be_printed(request: pytest.FixtureRequest, name: str, where: str) -> None:
    service = "inline" if where == "inline" else request.getfixturevalue("start_cluster")(1).address
    with pytest.raises(penstock.Invalid, match="expected 1 to 200 bytes without control characters") as refused:
        Dataset.from_range(5).distribute(service, job_name=name)
    assert len(str(refused.value)) < 500


def test_a_wrong_token_is_refused(start_cluster: StartCluster, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("the right one, and long")
    cluster = start_cluster(workers=1, token_file=token)
    for wrong in ("wrong", ""):
        with pytest.raises(penstock.PermissionDenied, match="token"):
            cluster.connect(token=wrong, timeout=5)
    with cluster.connect(token=token.read_text()) as service:
        assert len(read(Dataset.from_range(5), service)) == 5


def _raw_connection(cluster: TestCluster) -> socket.socket:
    raw = socket.socket(socket.AF_UNIX)
    raw.settimeout(10)
    raw.connect(cluster.address[5:])
    return raw


def _until_closed(raw: socket.socket) -> bytes:
    """What the server says before it hangs up; a timeout if it does not."""
    said = b""
    try:
        while more := raw.recv(4096):
            said += more
    except ConnectionResetError:
        pass
    return said


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def _frame_header(body: int, frame_version: int = 1) -> bytes:
    """A whole and undamaged header of a control frame (src/wire/frame.cc)."""
    head = struct.pack("<IBBHIIQQI", 0x4B545350, frame_version, 1, 0, 0, body, 0, 0, 0)
    return head + struct.pack("<I", _crc32c(head))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"GET / HTTP/1.1\r\nHost: example\r\nAccept: */*\r\n\r\n", ""),
        (b"\xff" * 4096, ""),
        (_frame_header(body=0xFFFFFFFF), "a frame with a body of 4294967295 bytes"),
        (_frame_header(body=8, frame_version=9), "version"),
        (_frame_header(body=8)[:-1] + b"\0", ""),
    ],
    ids=["http", "ones", "oversized", "other frame version", "damaged"],
)
def test_garbage_is_cut_off_at_once_and_hurts_nobody(data: bytes, words: str, start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=1)
    with _raw_connection(cluster) as raw:
        begin = time.monotonic()
        raw.sendall(data)  # and stays on the line: it is the server that hangs up, long before its patience with silence ends
        assert words.encode() in _until_closed(raw)
        assert time.monotonic() - begin < 3
    assert len(read(Dataset.from_range(5), cluster.address)) == 5


def test_a_peer_that_says_nothing_is_cut_off(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=1)
    with _raw_connection(cluster) as raw:
        assert len(read(Dataset.from_range(5), cluster.address)) == 5
        _until_closed(raw)


def test_no_worker_says_what_is_waited_for(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=0)
    words = r"could not join job 'mine' at unix:.* within 1000 ms: no worker is there .*`penstock worker --dispatcher"
    begin = time.monotonic()
    with cluster.connect(timeout=1) as service, pytest.raises(penstock.Deadline, match=words):
        read(Dataset.from_range(5), service, job_name="mine")
    assert time.monotonic() - begin < 5, "the timeout of connect bounds the wait"
    status = run("status", "--dispatcher", cluster.address).stdout
    assert f"No worker is registered, and ranks wait for one: `penstock worker --dispatcher {cluster.address}`" in status


def test_the_timeout_of_distribute_bounds_connecting_and_joining(start_cluster: StartCluster) -> None:
    begin = time.monotonic()
    with pytest.raises(penstock.Unavailable, match="127.0.0.1:1"):
        read(Dataset.from_range(5), "penstock://127.0.0.1:1", timeout=0.5)
    with pytest.raises(penstock.Deadline, match="a job of its own .* within 500 ms"):
        read(Dataset.from_range(5), start_cluster(workers=0).address, timeout=0.5)
    assert time.monotonic() - begin < 8


def test_a_worker_that_comes_while_a_reader_joins_is_not_missed(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=0)
    with ThreadPoolExecutor(1) as pool:
        joining = pool.submit(read, Dataset.from_range(5), cluster.address)
        cluster.start_worker()
        assert len(joining.result(30)) == 5


@pytest.mark.parametrize(("address", "meant"), [("inlin", "inline"), ("loacl", "local"), ("Off", "off")])
def test_a_misspelt_service_is_not_taken_for_a_host(address: str, meant: str) -> None:
    with pytest.raises(penstock.Invalid, match=f"service is '{address}'.*did you mean '{meant}'?"):
        penstock.connect(address)


def test_a_dispatcher_of_another_version_is_named_as_such() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"penstock://127.0.0.1:{other.getsockname()[1]}"

        def answer() -> None:
            with other.accept()[0] as peer:
                peer.sendall(_frame_header(body=8, frame_version=9))
                _until_closed(peer)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        with pytest.raises(penstock.Error, match="version 9"):
            penstock.connect(address, timeout=0.5)
        thread.join(10)


def _of_version_9(hello: bytes) -> bytes:
    """A frame that holds a Hello, with its versions (the first fields of its table, schema/wire.fbs) raised to 9."""
    frame = bytearray(hello)

    def field(table: int, slot: int) -> int:
        vtable = table - struct.unpack_from("<i", frame, table)[0]
        return table + int(struct.unpack_from("<H", frame, vtable + 4 + 2 * slot)[0])

    body = 40
    message = body + struct.unpack_from("<I", frame, body)[0]
    union = field(message, 1)
    table = union + struct.unpack_from("<I", frame, union)[0]
    for slot in (0, 1):
        assert struct.unpack_from("<H", frame, field(table, slot)) == (1,)
        struct.pack_into("<H", frame, field(table, slot), 9)
    return bytes(frame)


def _pass_on(client: socket.socket, server: socket.socket) -> None:
    """A client's hello, as one of version 9 would say it, and the answer."""
    head = client.recv(40, socket.MSG_WAITALL)
    hello = head + client.recv(struct.unpack_from("<I", head, 12)[0], socket.MSG_WAITALL)
    server.sendall(_of_version_9(hello))
    client.sendall(_until_closed(server))


def test_a_program_of_another_protocol_version_is_told_both_versions(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=0)

    def between() -> None:
        with middle.accept()[0] as client, _raw_connection(cluster) as server:
            _pass_on(client, server)

    with socket.create_server(("127.0.0.1", 0)) as middle:
        thread = threading.Thread(target=between, daemon=True)
        thread.start()
        with pytest.raises(penstock.DatasetMismatch, match=r"speaks version 1 .* version 9: install the same penstock"):
            penstock.connect(f"penstock://127.0.0.1:{middle.getsockname()[1]}", timeout=5)
        thread.join(10)


def test_a_large_plan_that_does_not_arrive_is_named_with_its_size(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=1)
    large = Dataset.from_arrays(np.zeros((9, 1 << 20), np.uint8))
    with cluster.connect(timeout=0.5) as service:
        cluster.dispatcher.send_signal(signal.SIGSTOP)
        with pytest.raises((penstock.Deadline, penstock.Unavailable), match=r"plan of 9.* MB.*from_tfrecord"):
            large.distribute(service)
        cluster.dispatcher.send_signal(signal.SIGCONT)


def test_joining_a_finished_job_is_an_error(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=1)
    dataset = Dataset.from_range(5)
    assert len(read(dataset, cluster.address, job_name="once")) == 5
    with dataset.distribute(cluster.address, job_name="once") as reader, pytest.raises(penstock.Finished, match="'once' .*its epoch was delivered"):
        next(iter(reader))


def test_a_job_s_name_stands_for_one_dataset(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=1)
    with Dataset.from_range(5).batch(2).distribute(cluster.address, job_name="mine"):
        for other, difference in (
            (Dataset.from_range(6).batch(2), r"operator 1 \(range\) has stop 5 in the job and 6 here"),
            (Dataset.from_range(5).batch(4), r"operator 2 \(batch\) has n 2 in the job and 4 here"),
            (Dataset.from_range(5).shuffle(2).batch(2), "operator 2 is batch in the job and shuffle here"),
            (Dataset.from_range(5), "batch is only in the job"),
        ):
            with pytest.raises(penstock.DatasetMismatch, match=f"job 'mine' reads another dataset: {difference}"):
                other.distribute(cluster.address, job_name="mine")


def test_a_second_consumer_with_the_same_index_is_refused(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=1)
    options: dict[str, Any] = {"job_name": "job", "consumer_index": 1, "num_consumers": 2}
    with Dataset.from_range(5).distribute(cluster.address, **options), pytest.raises(penstock.Error, match="index 1|consumer 1"):
        Dataset.from_range(5).distribute(cluster.address, **options)


def test_a_second_dispatcher_on_a_state_directory_names_the_first(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=0)
    with cluster.connect():
        done = run("dispatcher", "--listen", "127.0.0.1:0", "--state-dir", str(cluster.directory / "state"))
    assert done.returncode == RETRY, "it may be about to end"
    assert str(cluster.dispatcher.pid) in done.stderr


def test_an_unwritable_state_directory_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    done = run("dispatcher", "--listen", "127.0.0.1:0", "--state-dir", str(file / "state"))
    assert done.returncode == 2
    assert str(file) in done.stderr


def test_a_full_disk_stops_the_dispatcher_with_the_reason(tmp_path: Path) -> None:
    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    command = [_binary.path(), "dispatcher", "--listen", "127.0.0.1:0", "--state-dir", str(tmp_path / "state")]
    done = subprocess.run(command, preexec_fn=little_room, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode != 0
    assert str(tmp_path / "state") in done.stderr
    assert "the disk is full" in done.stderr
