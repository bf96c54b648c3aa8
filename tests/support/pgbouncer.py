"""A pgbouncer of the tests' own in front of a database."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tests.support.nginx import free_port

PROGRAM: Final = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
_SECONDS: Final = 30.0
_CONFIGURATION: Final = """\
[databases]
* = host={host} port={server_port} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
logfile = {home}/log
"""


@contextmanager
def pgbouncer(
    home: Path, database: str, *, size: int = 3, mode: str = "transaction"
) -> Generator[str]:
    """Pool the connections to a database, by transaction unless another mode is named; yield its
    address through the pooler.

    Args:
        home: An empty folder.
        database: The database's address.
        size: Connections to the server, which all clients share.
        mode: `session`, `transaction` or `statement`.
    """
    assert PROGRAM is not None
    parts, port = urlsplit(database), free_port()
    (home / "pgbouncer.ini").write_text(
        _CONFIGURATION.format(
            host=parts.hostname,
            server_port=parts.port,
            user=parts.username,
            port=port,
            size=size,
            mode=mode,
            home=home,
        )
    )
    command = [PROGRAM, "--quiet", str(home / "pgbouncer.ini")]
    if os.geteuid() == 0:
        # It refuses to run as root, and reads its settings as whom it becomes.
        for place in (home, home / "pgbouncer.ini"):
            shutil.chown(place, "postgres")
        command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]
        for folder in home.parents:
            folder.chmod(folder.stat().st_mode | 0o011)
    process = subprocess.Popen(command, cwd=home)
    try:
        deadline = time.monotonic() + _SECONDS
        while not _answers(port):
            assert process.poll() is None, (home / "log").read_text()
            assert time.monotonic() < deadline, "pgbouncer does not listen"
            time.sleep(0.02)  # noqa: TID251 - it tells nobody when it listens
        yield f"postgresql://{parts.username}@127.0.0.1:{port}{parts.path}"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(_SECONDS)


def _answers(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
