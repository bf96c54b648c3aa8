"""Models that answer from a script: the port, with nobody behind it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from wavewright.planner.ports.fallback_ladder import Ladder, Rung, RungRecord, RungTimeout
from wavewright.planner.ports.model_port import (
    LoopLimits,
    LoopTool,
    ModelAnswer,
    ModelCall,
    ModelChoice,
    ModelError,
    ModelOutcome,
    ModelUse,
    OnText,
    OnUse,
    Role,
)
from wavewright.planner.types import Json

MODEL = "scripted:one"

Scripted: TypeAlias = Json | ModelError | ModelAnswer
Script: TypeAlias = Sequence[Scripted] | Callable[[ModelCall], Scripted]


@dataclass
class ScriptedModels:
    """Answers with the script's entries in their order, or with what a function says; keeps every
    question.
    """

    script: Script
    model: str = MODEL
    asked: list[ModelCall] = field(default_factory=list[ModelCall])
    at_once: int = 0
    most_at_once: int = 0

    async def ask(
        self, call: ModelCall, *, on_use: OnUse | None = None, on_text: OnText | None = None
    ) -> ModelAnswer:
        """Return the next answer; text as it is, any other value as JSON."""
        import anyio

        self.asked.append(call)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await anyio.lowlevel.checkpoint()
        self.at_once -= 1
        answer = self.script(call) if callable(self.script) else self.script[len(self.asked) - 1]
        outcome: ModelOutcome = "failed" if isinstance(answer, ModelError) else "answered"
        use = ModelUse(
            call.role, call.name, self.model, outcome, 100, 10, rung=call.rung, step=call.step
        )
        use = answer.use if isinstance(answer, ModelAnswer) else use
        if on_use is not None:
            on_use(use)
        if isinstance(answer, ModelError):
            raise answer
        if isinstance(answer, ModelAnswer):
            return answer
        return ModelAnswer(answer if isinstance(answer, str) else json.dumps(answer), use)

    async def work(
        self,
        call: ModelCall,
        tools: Sequence[LoopTool],
        limits: LoopLimits,
        *,
        on_use: OnUse | None = None,
        on_text: OnText | None = None,
    ) -> ModelAnswer:
        """Return the next answer: a reviewer lets no model call tools."""
        raise AssertionError("no reviewer, judge or recovery planner works with tools")

    def choose(self, preference: str, role: Role) -> ModelChoice:
        """Return the one model there is."""
        return ModelChoice(self.model, "it is the only one")


def cut_off(text: str) -> ModelAnswer:
    """Return an answer that was cut off."""
    return ModelAnswer(text, ModelUse("reviewer", "", MODEL, "truncated"), is_truncated=True)


def reviewer_ladder(
    *, tries: int = 3, clock: RungTimeout | None = None, ceiling: float = 0.8
) -> Ladder:
    """Return the ladder of a reviewer."""
    return Ladder(
        name="reviewer",
        rungs=(
            Rung(name="model", tries=tries, clock=clock),
            Rung(name="code", ceiling=ceiling, because="no model reviewed the run"),
        ),
    )


def recovery_ladder(*, tries: int = 2) -> Ladder:
    """Return the ladder of a recovery."""
    return Ladder(name="recovery", rungs=(Rung(name="recipe"), Rung(name="model", tries=tries)))


@dataclass
class PastCalls:
    """A history in which every call took equally long."""

    seconds: float

    async def past_seconds(self, model: str, role: Role) -> Sequence[float]:
        """Return how long the last calls took."""
        return [self.seconds] * 20


def reached(records: Sequence[RungRecord]) -> list[tuple[str, str]]:
    """Return rungs with their outcomes."""
    return [(record.rung, record.outcome) for record in records]
