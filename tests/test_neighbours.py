"""penstock shares a process with TensorFlow, torch, JAX, Arrow and Ray, whatever was imported first."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from conftest import StartCluster
from support.certificates import make_authority
from support.servers import Servers

CORE = Path(penstock._core.__file__)

READS = """
import penstock
from penstock.tfrecord import write_tfrecord
write_tfrecord({path!r}, ({{"id": i}} for i in range(100)), "gzip")
dataset = penstock.Dataset.from_tfrecord({path!r}).parse_example({{"id": "int64"}}).batch(10)
over_tcp = penstock.connect({address!r}, shared_memory=False)
over_tls = penstock.connect({encrypted!r}, tls={tls!r})
for service in ("inline", {address!r}, over_tcp, over_tls):
    assert sorted(i for b in dataset.distribute(service) for i in b["id"].tolist()) == list(range(100)), service
print("read")
"""


def test_the_module_shows_nothing_but_its_init_function() -> None:
    table = subprocess.run(["nm", "-D", "--defined-only", str(CORE)], capture_output=True, text=True, check=True).stdout
    assert [line.split()[-1] for line in table.splitlines()] == ["PyInit__core"]


def test_the_module_needs_only_libraries_that_no_framework_brings() -> None:
    table = subprocess.run(["readelf", "-d", str(CORE)], capture_output=True, text=True, check=True).stdout
    needed = {line.split("[")[1].split(".so")[0] for line in table.splitlines() if "NEEDED" in line}
    assert needed <= {"libisal", "libstdc++", "libgcc_s", "libc", "libm", "ld-linux-x86-64"}


def _start_with_tls(directory: Path, servers: Servers) -> "tuple[str, dict[str, str]]":
    """Address of a service that asks for certificates, and those of a program."""
    authority = make_authority(directory / "authority")
    cert, key = authority.issue("server")
    flags = ["--tls-ca", authority.ca, "--tls-cert", cert, "--tls-key", key]
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0", *flags)
    servers.start("worker", "--dispatcher", dispatcher.address, *flags)
    return dispatcher.address, {"ca": authority.ca, "cert": cert, "key": key}


# Of two libraries each comes before the other in one of the first two orders; in the others penstock is between them.
_LIBRARIES = ["penstock", "tensorflow", "torch", "pyarrow", "jax", "ray"]
_ORDERS = [
    _LIBRARIES,
    _LIBRARIES[::-1],
    ["torch", "jax", "ray", "penstock", "pyarrow", "tensorflow"],
    ["tensorflow", "pyarrow", "penstock", "ray", "jax", "torch"],
]


@pytest.mark.timeout(200)  # all of them take seconds to import
@pytest.mark.parametrize("order", _ORDERS, ids=" ".join)
def test_reading_works_beside_frameworks_in_each_order_of_import(
    order: "list[str]", tmp_path: Path, start_cluster: StartCluster, servers: Servers
) -> None:
    encrypted, tls = _start_with_tls(tmp_path, servers)
    places = {"path": str(tmp_path / "a.tfrecord.gz"), "address": start_cluster(workers=1).address, "encrypted": encrypted, "tls": tls}
    program = "".join(f"import {name}\n" for name in order) + READS.format(**places)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}, check=False, timeout=180
    )
    assert (done.returncode, done.stdout.split()[-1:]) == (0, ["read"]), done.stderr[-2000:]
