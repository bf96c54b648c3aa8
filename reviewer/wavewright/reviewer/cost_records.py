"""Records of a package on language models: their cost by step, role, rung and model, and the rungs
that were tried.

In sums, calls at an unknown price are counted separately, and tokens that a provider did not count
are marked as estimates.
"""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict

from wavewright.planner import DocumentModel, JsonObject, StepId


class Record(DocumentModel):
    """Base of the records of a package: lists become tuples again when they are read back."""

    model_config = ConfigDict(strict=False)


class Cost(Record):
    """The sum of some model calls."""

    calls: int = 0
    unanswered: int = 0
    """Calls without an answer: refused, cut off, failed, too late or over budget."""
    over_budget: int = 0
    """Of these, calls that a budget refused: they were never made."""
    attempts: int = 0
    """Requests, repeated ones and those to fallback models included."""
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None
    """US dollars of the calls at a known price; null if there is none."""
    unpriced: int = 0
    """Calls that spent tokens at an unknown price."""
    estimated: int = 0
    """Calls whose tokens are an estimate."""
    seconds: float = 0.0

    @property
    def made(self) -> int:
        """Calls that were made, answered or not."""
        return self.calls - self.over_budget

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.input_tokens + self.output_tokens


class NamedCost(Record):
    """The cost of one step, role, rung or model."""

    name: str
    cost: Cost


class ModelUses(Record):
    """The cost of all model calls of a run, also by step, role, rung and model."""

    total: Cost = Cost()
    steps: tuple[NamedCost, ...] = ()
    """By step, in the order of the calls; calls without a step are left out."""
    roles: tuple[NamedCost, ...] = ()
    rungs: tuple[NamedCost, ...] = ()
    """Named by role and rung, such as `planner llm`."""
    models: tuple[NamedCost, ...] = ()


class RungReport(Record):
    """One rung of a fallback ladder that was tried."""

    ladder: str
    rung: str
    outcome: Literal["reached", "fallen"]
    reason: str = ""
    """Why it failed."""
    seconds: float = 0.0
    ceiling: float = 1.0
    because: str = ""
    """Why the ceiling."""
    step: StepId | None = None
    index: int | None = None


class LoopCallReport(Record):
    """A call of a tool that an agent made inside its step."""

    step: StepId
    index: int | None = None
    tool: str
    params: JsonObject = {}
    """Large values as their shape."""
    status: Literal["ok", "failed", "refused"]
    seconds: float = 0.0
    message: str = ""
    """Why it failed or was refused."""
