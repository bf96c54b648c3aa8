"""`wavewright fake-model`: serve a script in place of a language model, or for one job alone."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NoReturn

from wavewright.config import exit_codes
from wavewright.engine.interfaces.cli.common.output import CommandError, print_line, require_extra
from wavewright.engine.rehearsal.fake_model.server import (
    FakeModelServer,
    add_script,
    describe_exchange,
)


def run_with_script(script: Path, job: Path) -> int:
    """Run a job in a process of its own, with the rules of a file as its model; return its exit
    code.

    Raises:
        DocumentError: the file cannot be read, or is no script.
        CommandError: the extra `testing` is not installed.
    """
    server = _server_of(script, port=0)
    with server:
        environment = {**os.environ, **server.environment(model="fake")}
        command = [sys.executable, "-m", "wavewright.engine.main", "run", str(job)]
        done = subprocess.run(command, env=environment, check=False)  # noqa: S603 - this program
        return done.returncode


def _server_of(script: Path, *, port: int) -> FakeModelServer:
    require_extra("testing")
    server = FakeModelServer(port)
    add_script(server, script)
    return server


def serve_script(script: Path, *, port: int, quiet: bool) -> int:
    """Serve the rules of a file on loopback until Ctrl-C; print a line for each request unless
    `quiet`.

    Raises:
        DocumentError: the file cannot be read, or is no script.
        CommandError: the port is in use, or the extra `testing` is not installed.
    """
    server = _server_of(script, port=port)
    with ExitStack() as stack:
        try:
            stack.enter_context(server)
        except OSError as error:
            msg = f"port {port} of 127.0.0.1 cannot be used: {error.strerror}"
            raise CommandError(
                msg, hint="name another port with --port; 0 takes a free one"
            ) from error
        print_line(
            f"a fake model, whose answers are the rules of {script}, listens on {server.openai_url}"
        )
        try:
            _print_requests(server, quiet=quiet)
        except KeyboardInterrupt:
            return exit_codes.OK


def _print_requests(server: FakeModelServer, *, quiet: bool) -> NoReturn:
    shown = 0
    while True:
        # With a timeout: a signal that another thread receives does not end this thread's wait.
        with suppress(TimeoutError):
            server.wait_for_requests(shown + 1, timeout=1.0)
        for exchange in server.ledger[shown:]:
            shown += 1
            if not quiet:
                print_line(describe_exchange(exchange))
