"""Certificates for servers of a test, made by the program `openssl`."""

from __future__ import annotations

import subprocess
from pathlib import Path


def make_authority(folder: Path, constraints: str = "CA:TRUE") -> None:
    """Make `ca.pem` and `ca.key` in a folder.

    Python 3.13 and later refuse an authority that does not say what its key is for.
    """
    usage = "keyUsage=critical,keyCertSign"
    _make(folder, "ca", "authority of a test", f"basicConstraints=critical,{constraints}", usage)


def make_certificate(folder: Path) -> None:
    """Make `server.pem` and `server.key` for this machine in a folder, signed by the authority in
    it.
    """
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key"]
    _make(folder, "server", "localhost", "basicConstraints=critical,CA:FALSE", names, signed=signed)


def _make(
    folder: Path, name: str, subject: str, *extensions: str, signed: list[str] | None = None
) -> None:
    new = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    files = [
        "-days",
        "2",
        "-subj",
        f"/CN={subject}",
        "-keyout",
        f"{name}.key",
        "-out",
        f"{name}.pem",
    ]
    added = [part for extension in extensions for part in ("-addext", extension)]
    subprocess.run(
        [*new, *files, *added, *(signed or [])], cwd=folder, check=True, capture_output=True
    )
