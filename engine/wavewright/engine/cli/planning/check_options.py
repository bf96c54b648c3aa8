"""The options of `wavewright check`, with the document that they name."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from wavewright.config.documents import read_bytes
from wavewright.config.sources import ReadLimits
from wavewright.engine.jobs.inputs import InputOverrides
from wavewright.planner.reading.reader import MODEL_LIMITS


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """What is checked, against which goal and tools, within which limits."""

    file: Path
    content: bytes | None = None
    """The document, if it is not read from the file; the file's path then only stands for it."""
    goal: str | None = None
    """A job file, or a goal template: its file or its name."""
    tools: Path | None = None
    from_model: bool = False
    max_steps: int | None = None
    max_waves: int | None = None
    max_bytes: int | None = None
    max_depth: int | None = None
    inputs: InputOverrides = field(default_factory=InputOverrides)
    """Values that replace inputs of a job or a plan."""
    approve: str | None = None
    """What the run would be given with `--approve`."""

    @property
    def can_ask(self) -> bool:
        """Whether a person can be asked in the run."""
        if self.approve is None:
            return True
        from wavewright.engine.cli.common.terminal import may_ask

        return may_ask(self.approve)

    @property
    def read_limits(self) -> ReadLimits:
        """Limits of the document's size and nesting."""
        given = MODEL_LIMITS if self.from_model else ReadLimits()
        return ReadLimits(
            max_bytes=self.max_bytes or given.max_bytes, max_depth=self.max_depth or given.max_depth
        )

    def read(self) -> tuple[bytes, str]:
        """Return the document's text and name.

        Raises:
            DocumentError: the file cannot be read.
        """
        if self.content is not None:
            return self.content, self.file.name
        if str(self.file) == "-":
            return sys.stdin.buffer.read(), "<stdin>"
        return read_bytes(self.file, self.read_limits), str(self.file)
