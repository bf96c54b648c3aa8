"""A command on a terminal, as a person uses it."""

from __future__ import annotations

import os
import pty
import select
import signal
import time
from pathlib import Path
from typing import Literal, TypeAlias

from tests.support.prepared_command import PreparedCommand, RunningCommand

Thread: TypeAlias = Literal["main", "other"]


def interrupt(running: RunningCommand, thread: Thread) -> None:
    """Send SIGINT to a process; where that can be chosen, its main thread or another one takes it."""
    taker = running.pid
    tasks = Path(f"/proc/{taker}/task")
    if thread == "other" and tasks.exists():
        # Linux delivers a signal for a process to the very thread whose id is given, where it can.
        taker = max(int(task.name) for task in tasks.iterdir())
        assert taker != running.pid
    os.kill(taker, signal.SIGINT)


class Conversation:
    """A command on a terminal of its own, whose screen is read and whose keys are typed."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
        self.running = PreparedCommand(arguments, folder, environment, slave)
        os.close(slave)
        self.screen = ""

    def read_until(self, text: str) -> None:
        deadline = time.monotonic() + 30
        while text not in self.screen:
            assert time.monotonic() < deadline, self.screen
            self._read()

    def read_to_the_end(self) -> int:
        deadline = time.monotonic() + 30
        while self._read():
            assert time.monotonic() < deadline, self.screen
        return self.running.wait()

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def interrupt(self, thread: Thread) -> None:
        interrupt(self.running, thread)

    def end(self) -> None:
        """End the command, if it has not ended, and close the terminal."""
        if self.running.poll() is None:
            self.running.send_signal(signal.SIGKILL)
        self.running.wait()
        os.close(self.master)

    def _read(self) -> bool:
        if not select.select([self.master], [], [], 0.1)[0]:
            return True
        try:
            found = os.read(self.master, 65536)
        except OSError:  # the program has ended and its terminal is closed
            return False
        self.screen += found.decode()
        return bool(found)
