"""The bounds of an agent's loop, and how many of its calls run at once."""

from __future__ import annotations

import math
from typing import Annotated

import anyio
from pydantic import Field

from wavewright.config.value_types import Seconds
from wavewright.planner.language.plan import DocumentModel, Limits
from wavewright.planner.language.signatures import ToolSignature


class AgentLimits(DocumentModel):
    """What a goal may say of its agent, in the tool's `config`.

    >>> from wavewright.tools import AgentLimits
    >>> AgentLimits(seconds="2m").seconds
    120.0
    """

    requests: Annotated[int, Field(ge=1, le=200)] = 10
    """Questions to the model."""
    tool_calls: Annotated[int, Field(ge=0, le=1000)] = 30
    """Calls of tools in all."""
    seconds: Seconds = 300.0
    """For the whole step, its tools included."""
    view_chars: Annotated[int, Field(ge=200, le=200_000)] = 4000
    """Characters of a tool's output that the model is shown."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Ceiling of one answer's tokens; the configured one where absent."""
    keep_partial: bool = False
    """Whether a loop that ends without an answer gives what it collected, as a forced result."""


class AgentConcurrency:
    """Lets no more calls run at once than the goal's limits and the tools' own allow: over all
    items of the run.

    >>> from wavewright.planner import Limits
    >>> from wavewright.tools import AgentConcurrency
    >>> AgentConcurrency(Limits(concurrency=2)) is not None
    True
    """

    def __init__(self, limits: Limits) -> None:
        self._ceilings = limits.tool_concurrency
        self.total = anyio.CapacityLimiter(limits.concurrency)
        """What every call waits for, whatever its tool."""
        self._by_tool: dict[str, anyio.CapacityLimiter] = {}

    def tool_limiter(self, signature: ToolSignature) -> anyio.CapacityLimiter:
        """Return what the calls of one tool wait for."""
        most = min(signature.concurrency or math.inf, self._ceilings.get(signature.name, math.inf))
        return self._by_tool.setdefault(signature.name, anyio.CapacityLimiter(most))
