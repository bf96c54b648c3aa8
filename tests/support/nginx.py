"""An nginx of the tests' own in front of a port, with TLS."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

PROGRAM: Final = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
_SECONDS: Final = 30.0
_CONFIGURATION: Final = """\
daemon off;
master_process off;
pid {home}/pid;
error_log {home}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate {certificate};
        ssl_certificate_key {key};
        {locations}
    }}
}}
"""


def free_port() -> int:
    """Return a port that nobody listens on."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def nginx(home: Path, port: int, certificate: Path, key: Path, locations: str) -> Generator[None]:
    """Run an nginx at a port of 127.0.0.1 with these locations."""
    assert PROGRAM is not None
    configuration = home / "nginx.conf"
    configuration.write_text(
        _CONFIGURATION.format(
            home=home, port=port, certificate=certificate, key=key, locations=locations
        )
    )
    process = subprocess.Popen([PROGRAM, "-c", str(configuration), "-p", str(home)])
    try:
        _wait_for(port, process, home)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_SECONDS)


def _wait_for(port: int, process: subprocess.Popen[bytes], home: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        log = home / "error.log"
        assert process.poll() is None, log.read_text() if log.exists() else "nginx has ended"
        assert time.monotonic() < deadline, "nginx does not listen"
        time.sleep(0.02)  # noqa: TID251 - it tells nobody when it listens
