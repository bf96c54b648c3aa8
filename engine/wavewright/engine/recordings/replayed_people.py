"""The people of a replay: they say what they said when the run was recorded.

What nobody was asked then is approved, since a replay calls nothing that has an effect; a question that a planner did
not ask then has no answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from wavewright.engine.context import ApprovalRequest
from wavewright.executor.events import Event, Noted
from wavewright.planner.planning import UserQuestion


@dataclass(slots=True)
class RecordedRespondents:
    """Approves and answers as it was approved and answered."""

    _refused: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])
    _answers: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, events: Iterable[Event]) -> RecordedRespondents:
        """Return the people of a run."""
        people = cls()
        for event in events:
            if not isinstance(event, Noted):
                continue
            needs = event.body.get("needs")
            if event.topic == "approval" and not event.body.get("approved") and isinstance(needs, list):
                people._refused.add(tuple(str(need) for need in needs))
            elif event.topic == "answer":
                people._answers[str(event.body.get("question"))] = str(event.body.get("answer"))
        return people

    async def approve(self, request: ApprovalRequest) -> bool:
        """Return whether it was approved; whatever was not asked is."""
        return request.needs not in self._refused

    async def ask(self, question: UserQuestion) -> str | None:
        """Return what was answered to the same question."""
        return self._answers.get(question.question)
