"""Authorities and certificates, made for a test run."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Authority:
    directory: Path

    @property
    def ca(self) -> str:
        return str(self.directory / "ca.pem")

    def issue(self, name: str, alternative: str = "DNS:penstock") -> tuple[str, str]:
        """PEM files of a certificate and its key."""
        cert, key = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        signed = ["-CA", self.ca, "-CAkey", str(self.directory / "ca.key"), "-addext", f"subjectAltName={alternative}"]
        _request(key, cert, "-subj", f"/CN={name}", *signed)
        return str(cert), str(key)


def make_authority(directory: Path) -> Authority:
    directory.mkdir()
    _request(directory / "ca.key", directory / "ca.pem", "-subj", f"/CN={directory.name}")
    return Authority(directory)


def _request(key: Path, out: Path, *options: str) -> None:
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subprocess.run(["openssl", "req", "-x509", *curve, "-keyout", str(key), "-out", str(out), *options], check=True, capture_output=True)
