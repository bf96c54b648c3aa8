"""The models of a replay: what they answered before, and for some roles whoever is asked now.

A role is *live* where somebody else is to answer, or where what it is asked may differ from what it was asked when the
run was recorded. Every other role gets its recorded answers, and costs nothing now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wavewright.engine.recordings.call_misses import CallMiss
from wavewright.engine.recordings.recorded_answers import RecordedAnswers, RecordedModelAnswer
from wavewright.planner.model_port import (
    LoopLimits,
    LoopTool,
    ModelAnswer,
    ModelCall,
    ModelChoice,
    ModelClient,
    ModelError,
    ModelUse,
    OnText,
    OnUse,
    Role,
)
from wavewright.planner.types import GateId


def ignore_model_use(_use: ModelUse) -> None:
    """Watch nothing."""


@dataclass(slots=True)
class ReplayedModels:
    """Answers of the record, and of real models for the roles that are live."""

    answers: RecordedAnswers
    real: ModelClient | None = None
    live_roles: frozenset[Role] = frozenset()
    on_use: OnUse = ignore_model_use
    """Told of each question that is asked now."""
    live_uses: list[ModelUse] = field(default_factory=list[ModelUse])
    """What was asked now, and what that cost."""
    misses: Sequence[CallMiss] = ()
    """Calls of the replay that were never recorded, as they come to light."""
    unanswered: list[str] = field(default_factory=list[str])
    """Questions that nobody was asked when the run was recorded, and that nobody could be asked now."""

    async def ask(
        self, call: ModelCall, *, on_use: OnUse | None = None, on_text: OnText | None = None
    ) -> ModelAnswer:
        """Return the recorded answer, or a real model's where the role is live.

        Raises:
            ModelError: there is none.
        """
        if call.role == "recovery" and self.misses:
            # Not paid for: what a patch could bring would be another miss.
            raise ModelError("unreachable", "calls were never recorded, and no patch mends that")
        recorded = None if call.role in self.live_roles else self._recorded(call)
        if recorded is not None:
            return _replay_answer(recorded, call, on_use)
        if self.real is None:
            raise self._unasked(call)
        return await self.real.ask(call, on_use=self._counted(on_use), on_text=on_text)

    async def work(
        self,
        call: ModelCall,
        tools: Sequence[LoopTool],
        limits: LoopLimits,
        *,
        on_use: OnUse | None = None,
    ) -> ModelAnswer:
        """Let a real model work: what an agent did before is its tool's recorded answer, not a model's.

        Raises:
            ModelError: there is no model.
        """
        if self.real is None:
            raise self._unasked(call)
        return await self.real.work(call, tools, limits, on_use=self._counted(on_use))

    def choose(self, preference: str, role: Role) -> ModelChoice:
        """Return the model that was asked, or that would be asked now."""
        before = self.answers.models.get(role)
        if self.real is not None and (role in self.live_roles or before is None):
            return self.real.choose(preference, role)
        return ModelChoice(before or "recorded", "the recorded run asked it")

    def _recorded(self, call: ModelCall) -> RecordedModelAnswer | None:
        match call.role:
            case "reviewer" | "recovery":
                return self.answers.next_of(call.role)
            case "judge" if call.step is not None:
                return self.answers.next_verdict(GateId(call.name), call.step, call.index)
            case _:
                return None

    def _counted(self, on_use: OnUse | None) -> OnUse:
        def count(use: ModelUse) -> None:
            self.live_uses.append(use)
            self.on_use(use)
            if on_use is not None:
                on_use(use)

        return count

    def _unasked(self, call: ModelCall) -> ModelError:
        what = call.name if call.name == call.role else f"{call.role} {call.name!r}"
        message = f"the recorded run never asked a model this ({what}), and no model is asked now"
        if message not in self.unanswered:
            self.unanswered.append(message)
        return ModelError("unreachable", message, hint="name a model, with --planner or --reviewer")


def _replay_answer(recorded: RecordedModelAnswer, call: ModelCall, on_use: OnUse | None) -> ModelAnswer:
    for use in recorded.uses:
        if on_use is not None:
            on_use(use)
    if recorded.error_kind is not None:
        raise ModelError(recorded.error_kind, recorded.reason)
    use = recorded.uses[-1] if recorded.uses else ModelUse(call.role, call.name, "recorded", "answered")
    return ModelAnswer(recorded.text, use)
