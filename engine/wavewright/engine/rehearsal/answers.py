"""What answers in the place of tools and people.

An *answer source* makes each call of a run itself: from a recording, or from what a scenario says.
It is the runtime of the run, so that nothing else of the run differs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from wavewright.engine.run.ports import ApprovalRequest
from wavewright.planner import Goal, UserQuestion
from wavewright.tools import Runtime, Tool


class AnswerSource(Runtime):
    """A runtime that answers for every tool."""

    __slots__ = ()

    def routed(self, tool: Tool, goal: Goal) -> Tool:
        """Return the signature of a tool with the answers of this source behind it."""
        return Tool(tool.signature, partial(self.call, tool, goal), parts=tool.parts)


class ScriptedUser:
    """Answers for the user, and keeps what it was asked."""

    def __init__(
        self, *, approves: bool, answers: Sequence[str], stubbed: Collection[str] = ()
    ) -> None:
        """Say yes or no to every approval, and give the answers in their order; none where they
        have run out.

        What a step asks whose name is `stubbed` takes none of them.
        """
        self.approvals: list[ApprovalRequest] = []
        self._approves = approves
        self._answers = [*answers]
        self._stubbed = stubbed

    async def approve(self, request: ApprovalRequest) -> bool:
        """Give the answer that was given beforehand."""
        self.approvals.append(request)
        return self._approves

    async def ask(self, question: UserQuestion) -> str | None:
        """Give the next answer."""
        if question.step in self._stubbed:
            return ""  # the step's output is the stub's, whatever a person says
        return self._answers.pop(0) if self._answers else None
