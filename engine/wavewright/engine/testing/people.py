"""People as tests have them: what they say is given beforehand, and what they were asked can be looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavewright.engine.context import ApprovalRequest
    from wavewright.planner.planning import UserQuestion


class ScriptedUser:
    """Answers for the user, and keeps what it was asked."""

    def __init__(self, *, approves: bool, answers: Sequence[str]) -> None:
        """Say yes or no to every approval, and give the answers in their order; none where they have run out."""
        self.approvals: list[ApprovalRequest] = []
        self._approves = approves
        self._answers = [*answers]

    async def approve(self, request: ApprovalRequest) -> bool:
        """Give the answer that was given beforehand."""
        self.approvals.append(request)
        return self._approves

    async def ask(self, question: UserQuestion) -> str | None:  # noqa: ARG002 - as the port has it
        """Give the next answer."""
        return self._answers.pop(0) if self._answers else None
