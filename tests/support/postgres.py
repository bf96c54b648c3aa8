"""A PostgreSQL server of the tests' own, on a free port and with nothing in it.

The server's programs come from the system's packages. It refuses to run as root, so it runs as the
user `postgres` there. With `WAVEWRIGHT_TEST_PG_URL` a running server is used instead, which no test
may stop.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg

T = TypeVar("T")

PASSWORD: Final = "a-password-that-nobody-may-see"  # noqa: S105 - of a server that lives for one session
"""Of the role `guarded`, which needs one."""
_ACCESS: Final = """\
host all guarded 127.0.0.1/32 scram-sha-256
host all all     127.0.0.1/32 trust
"""
_SECONDS: Final = 60.0
"""Within which a server starts or stops, however busy the machine."""


class NoServer(Exception):
    """There is no server here, and what would bring one."""


class PostgresServer:
    """A server, and what tests do to it."""

    def __init__(self, url: str) -> None:
        self.url = url
        """Of the database `postgres`, as somebody who may do anything."""
        self._made = list[str]()

    def database(self) -> str:
        """Return the address of a new and empty database."""
        name = f"test_{secrets.token_hex(6)}"
        self.run(f"CREATE DATABASE {name}")
        self._made.append(name)
        return self.url_of(name)

    def url_of(self, database: str, *, user: str | None = None, password: str = "") -> str:
        """Return the address of a database, as another user if need be."""
        parts = urlsplit(self.url)
        place = parts.netloc
        if user is not None:
            place = f"{user}:{password}@{parts.hostname}:{parts.port}"
        return urlunsplit(parts._replace(netloc=place, path=f"/{database}"))

    def run(self, statements: str, url: str | None = None) -> None:
        """Execute statements."""

        async def execute() -> None:
            connection = await asyncpg.connect(url or self.url)
            try:
                await connection.execute(statements)
            finally:
                await connection.close()

        elsewhere(execute())

    def fetch(self, query: str, url: str | None = None) -> list[tuple[object, ...]]:
        """Return the rows of a query."""

        async def ask() -> list[tuple[object, ...]]:
            connection = await asyncpg.connect(url or self.url)
            try:
                return [tuple(row.values()) for row in await connection.fetch(query)]
            finally:
                await connection.close()

        return elsewhere(ask())

    def kill_connections(self, database: str | None = None) -> None:
        """Break all connections to a database, or to all of the tests' databases."""
        chosen = urlsplit(database).path[1:] if database is not None else "test_%"
        self.run(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE '{chosen}'"  # noqa: S608 - a name made here
        )

    def forget(self) -> None:
        """Drop what tests made."""
        for name in self._made:
            self.run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self._made.clear()


class OwnServer(PostgresServer):
    """A server that tests may stop, kill and start again."""

    def __init__(self, programs: Path, *, syncs: bool = False) -> None:
        """Make an empty server and start it; unless it `syncs`, it would not survive a power cut."""
        self._programs = programs
        self._syncs = syncs
        self._home = Path(tempfile.mkdtemp(prefix="wavewright-postgres-"))
        self._running: subprocess.Popen[bytes] | None = None
        self._port = _free_port()
        super().__init__(f"postgresql://postgres@127.0.0.1:{self._port}/postgres")
        if _is_root():
            shutil.chown(self._home, "postgres", "postgres")
        self._make()
        self.start()
        self.run(f"CREATE ROLE guarded LOGIN PASSWORD '{PASSWORD}'")

    def _make(self) -> None:
        made = subprocess.run(
            self._command(
                "initdb", "--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8",
                "--locale=C", "--pgdata", str(self._home / "server"),
            ),
            capture_output=True,
            check=False,
            cwd=self._home,
        )  # fmt: skip
        if made.returncode:
            raise NoServer(f"initdb failed: {made.stderr.decode(errors='replace')}")
        (self._home / "server" / "pg_hba.conf").write_text(_ACCESS, encoding="utf-8")

    def _command(self, program: str, *arguments: str) -> list[str]:
        command = [str(self._programs / program), *arguments]
        setpriv = shutil.which("setpriv")
        if _is_root():
            if setpriv is None:
                raise NoServer(
                    "PostgreSQL does not run as root, and there is no setpriv (util-linux)"
                )
            return [
                setpriv, "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=QUIT", *command,
            ]  # fmt: skip
        # Whoever kills the tests has no server left over.
        return command if setpriv is None else [setpriv, "--pdeathsig=QUIT", *command]

    def start(self) -> None:
        """Start it; returns once it answers."""
        sync = "on" if self._syncs else "off"
        with (self._home / "log").open("ab") as log:
            self._running = subprocess.Popen(
                self._command(
                    "postgres", "-D", str(self._home / "server"), "-p", str(self._port),
                    "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self._home}",
                    "-c", f"fsync={sync}", "-c", f"full_page_writes={sync}", "-c", "max_connections=200",
                ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._home,
            )  # fmt: skip
        deadline = time.monotonic() + _SECONDS
        while not self._answers():
            if self._running.poll() is not None or time.monotonic() > deadline:
                raise NoServer(f"PostgreSQL does not start:\n{(self._home / 'log').read_text()}")
            time.sleep(0.02)  # noqa: TID251 - a server tells nobody when it is ready

    def _answers(self) -> bool:
        try:
            self.run("SELECT 1")
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return False
        return True

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: by default in order, but without waiting for anybody."""
        if self._running is not None:
            self._running.send_signal(how)
            self._running.wait(_SECONDS)
            self._running = None

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        self.stop(signal.SIGQUIT)

    def restart(self) -> None:
        """Stop it and start it again, on the same port."""
        self.stop()
        self.start()

    @property
    def pid(self) -> int:
        """The server's first process, the parent of the others."""
        assert self._running is not None
        return self._running.pid

    def encrypt(self, certificate: Path, key: Path) -> None:
        """Take encrypted connections, by a certificate with its key."""
        home = self._home / "server"
        for file, name in ((certificate, "server.crt"), (key, "server.key")):
            shutil.copy(file, home / name)
            (home / name).chmod(0o600)
            if _is_root():
                shutil.chown(home / name, "postgres", "postgres")
        self.run("ALTER SYSTEM SET ssl = on")
        self.restart()

    def remove(self) -> None:
        """Stop it and leave nothing behind."""
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)


def find_programs() -> Path | None:
    """Return the folder of the newest server's programs."""
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    places = (*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/usr").glob("pgsql-*/bin"))
    found = [place for place in places if (place / "initdb").exists()]
    return max(
        found,
        key=lambda place: float("".join(filter(str.isdigit, place.parent.name))),
        default=None,
    )


@contextmanager
def serving(*, syncs: bool = False) -> Generator[PostgresServer]:
    """Provide a server.

    Raises:
        NoServer: there is none here.
    """
    given = os.environ.get("WAVEWRIGHT_TEST_PG_URL")
    if given:
        running = PostgresServer(given)
        yield running
        running.forget()
        return
    with started(syncs=syncs) as own:
        yield own


@contextmanager
def started(*, syncs: bool = False) -> Generator[OwnServer]:
    """Provide a server of the tests' own.

    Raises:
        NoServer: there are no programs here to start one with.
    """
    programs = find_programs()
    if programs is None:
        raise NoServer("no PostgreSQL on this machine: `make test` installs one where it can")
    own = OwnServer(programs, syncs=syncs)
    try:
        yield own
    finally:
        own.remove()


def elsewhere(work: Coroutine[object, object, T]) -> T:
    """Return what the work comes to, on a thread of its own: there may be an event loop on this
    one.
    """
    with ThreadPoolExecutor(1) as alone:
        return alone.submit(asyncio.run, work).result()


def _is_root() -> bool:
    return os.name == "posix" and os.geteuid() == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
