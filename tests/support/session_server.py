"""A server that a whole test session shares, however many processes the session has.

Whoever comes first starts it, whoever goes last stops it; a lock in the session's temporary folder
decides who that is. Should the session be killed, a *warden* outlives it for a second and ends the
server.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import pytest

_WARDEN = """
import os, signal, subprocess, sys, time
session, server, last_word = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
def lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
while lives(session) and lives(server):
    time.sleep(0.5)
if lives(server):
    try:
        os.killpg(server, signal.SIGKILL)
    except ProcessLookupError:
        pass
    if last_word:
        time.sleep(0.5)
        subprocess.run(last_word, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
"""


def session_folder(factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all processes of the session share."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def session_process() -> int:
    """Return the process whose end is the session's."""
    return os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Let one process at a time in."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def watch_over(server: int, last_word: Sequence[str] = ()) -> None:
    """Have a process group ended, and then a command run, when the session ends without a word."""
    warden = subprocess.Popen(
        [sys.executable, "-c", _WARDEN, str(session_process()), str(server), *last_word],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    reap(warden)


def reap(child: subprocess.Popen[bytes]) -> None:
    """Take note of a child's end whenever it comes, so that it does not stay as a zombie."""
    threading.Thread(target=child.wait, daemon=True).start()


def end_group(leader: int) -> None:
    """Kill a process with everything that it started."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def free_port() -> int:
    """Return a port of the loopback interface that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def unavailable(what: str) -> NoReturn:
    """Skip the test for want of something, or fail it where every test must run."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what}, and with CI=true no test is skipped")
    pytest.skip(what)
