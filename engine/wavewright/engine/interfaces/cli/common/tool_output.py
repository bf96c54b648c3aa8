"""What tools print: it goes to standard error, with the secrets of settings and environment redacted.

It passes a process of its own, so that also what a child process prints is redacted, and what is
printed last before a tool ends the whole process is shown.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Generator
from typing import Final, NoReturn

_MAX_LINE: Final = 1 << 20
"""Bytes of a line without an end that are held back, since a secret may continue in what follows."""
_SECONDS_TO_END: Final = 2.0
"""For which the last lines are waited for; a process that a tool has left behind may hold them up."""


@contextlib.contextmanager
def redacted_tool_output(redact: Callable[[str], str]) -> Generator[None]:
    """Redact what is written to standard error meanwhile, and to the descriptor of standard output;
    `sys.stdout` still writes there, for the outcome alone.

    A terminal is left alone: the live table redacts what it shows there.
    """
    if not _are_real_and_no_terminal():
        yield
        return
    redact("")  # what it loads is loaded before the fork
    sys.stdout.flush()
    sys.stderr.flush()
    stdout, stderr = os.dup(1), os.dup(2)
    reader, writer = os.pipe()
    filtering = os.fork()
    if filtering == 0:
        os.close(writer)
        _filter_lines(reader, stderr, redact)
    os.close(reader)
    outcome, before = (
        os.fdopen(stdout, "w", encoding=sys.stdout.encoding, errors="backslashreplace"),
        sys.stdout,
    )
    for descriptor in (1, 2):
        os.dup2(writer, descriptor)
    os.close(writer)
    sys.stdout = outcome
    try:
        yield
    finally:
        outcome.flush()
        before.flush()
        sys.stderr.flush()
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.close(stderr)
        sys.stdout = before
        _wait_for(filtering)
        outcome.close()


def _are_real_and_no_terminal() -> bool:
    """Whether the standard streams are those of the process, and a fork can read them."""
    if not hasattr(os, "fork"):
        return False
    try:
        return (sys.stdout.fileno(), sys.stderr.fileno()) == (1, 2) and not sys.stderr.isatty()
    except (io.UnsupportedOperation, ValueError):
        return False


def _filter_lines(source: int, target: int, redact: Callable[[str], str]) -> NoReturn:
    """Write each line that is read, redacted, until nobody writes any more; then end the process."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # They are meant for the command, which ends what is read here.
        signal.signal(number, signal.SIG_IGN)
    # Whoever reads the outcome waits for its end, and not for what is printed.
    os.dup2(target, 1)
    os.dup2(target, 2)
    pending = b""
    try:
        while part := os.read(source, 1 << 16):
            pending += part
            end = pending.rfind(b"\n") + 1 or (len(pending) if len(pending) > _MAX_LINE else 0)
            _write_all(target, redact(pending[:end].decode(errors="surrogateescape")))
            pending = pending[end:]
        _write_all(target, redact(pending.decode(errors="surrogateescape")))
    finally:
        os._exit(0)


def _write_all(target: int, text: str) -> None:
    rest = memoryview(text.encode(errors="surrogateescape"))
    with contextlib.suppress(OSError):
        # The reader closed the pipe, as `head` does: the rest is read and dropped.
        while rest:
            rest = rest[os.write(target, rest) :]


def _wait_for(process: int) -> None:
    until = time.monotonic() + _SECONDS_TO_END
    while os.waitpid(process, os.WNOHANG) == (0, 0) and time.monotonic() < until:
        select.select((), (), (), 0.005)
