"""What tools and libraries print, as lines of the log: so that the log holds nothing else, and no secret.

Whatever Python prints passes here, its warnings, too. A program that a tool starts writes to the real streams.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Final, TextIO

from wavewright.config.redaction import PrivateKeyLines
from wavewright.engine.operations.logs import StructuredLog

MAX_LINE_LENGTH: Final = 2_000
"""Characters after which a line is told that has not ended."""


@contextmanager
def capture_output(log: StructuredLog) -> Generator[None]:
    """Make lines of the log of all that is printed while the block runs."""
    out, err = LogStream(log, "stdout", sys.stdout), LogStream(log, "stderr", sys.stderr)
    logging.captureWarnings(True)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            yield
    finally:
        logging.captureWarnings(False)
        out.flush_line()
        err.flush_line()


class LogStream(io.TextIOBase):
    """A stream that makes a line of the log of each of its own; safe to use from any thread."""

    def __init__(self, log: StructuredLog, name: str, real: TextIO) -> None:
        super().__init__()
        self._log = log
        self._name = name
        self._real = real
        self._begun = ""
        self._keys = PrivateKeyLines()
        self._lock = threading.Lock()

    def writable(self) -> bool:
        """It is."""
        return True

    def fileno(self) -> int:
        """Return the real stream's, for programs that are started."""
        return self._real.fileno()

    def write(self, text: str, /) -> int:
        """Keep a text until its line ends."""
        with self._lock:
            *lines, self._begun = (self._begun + text).split("\n")
            if len(self._begun) > MAX_LINE_LENGTH:
                lines.append(self._begun)
                self._begun = ""
            lines = [self._keys.redact(line) for line in lines]
        for line in lines:
            self._write_line(line)
        return len(text)

    def flush_line(self) -> None:
        """Tell of a line that has never ended."""
        with self._lock:
            last, self._begun = self._keys.redact(self._begun), ""
        self._write_line(last)

    def _write_line(self, line: str) -> None:
        if line.strip():
            self._log.write("output", stream=self._name, message=line)
