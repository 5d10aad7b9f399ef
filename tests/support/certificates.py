"""Authorities and certificates, made for a test run."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

_CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


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

    def issue_until(self, name: str, end: datetime, alternative: str = "DNS:penstock") -> tuple[str, str]:
        """The same, with a certificate that was good since yesterday and is until `end`."""
        cert, key, request, settings = (self.directory / f"{name}.{kind}" for kind in ("pem", "key", "csr", "cnf"))
        (self.directory / "index").touch()
        settings.write_text(
            f"[ca]\ndefault_ca = this\n[this]\ndatabase = {self.directory}/index\nnew_certs_dir = {self.directory}\nrand_serial = yes\n"
            f"unique_subject = no\ndefault_md = sha256\npolicy = names\nx509_extensions = more\n[names]\ncommonName = supplied\n"
            f"[more]\nsubjectAltName = {alternative}\n"
        )
        _openssl("req", "-new", *_CURVE, "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request))
        begin = end - timedelta(days=1)
        dates = ["-startdate", f"{begin:%Y%m%d%H%M%SZ}", "-enddate", f"{end:%Y%m%d%H%M%SZ}"]
        signed = ["-cert", self.ca, "-keyfile", str(self.directory / "ca.key"), *dates]
        _openssl("ca", "-batch", "-notext", "-config", str(settings), *signed, "-in", str(request), "-out", str(cert))
        return str(cert), str(key)


def make_authority(directory: Path) -> Authority:
    directory.mkdir()
    _request(directory / "ca.key", directory / "ca.pem", "-subj", f"/CN={directory.name}")
    return Authority(directory)


def _request(key: Path, out: Path, *options: str) -> None:
    _openssl("req", "-x509", *_CURVE, "-days", "2", "-keyout", str(key), "-out", str(out), *options)


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
