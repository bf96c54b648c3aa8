"""People who are functions: a program's own answers to approvals and questions."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar, cast

import anyio.to_thread

from wavewright.engine.pipeline.context import ApprovalRequest
from wavewright.planner.planning.outcome import UserQuestion

Q = TypeVar("Q")
R = TypeVar("R")

Approve: TypeAlias = Callable[[ApprovalRequest], bool | Awaitable[bool | None] | None]
"""Returns whether a request is approved; None leaves it open, and the run waits for `wavewright answer`."""
Ask: TypeAlias = Callable[[UserQuestion], str | Awaitable[str | None] | None]
"""Returns the answer to a question; None if there is none, and the run waits."""


@dataclass(frozen=True, slots=True)
class CallbackApprover:
    """Asks a function; without one every request stays open."""

    function: Approve | None

    async def approve(self, request: ApprovalRequest) -> bool | None:
        """Return the function's answer."""
        return None if self.function is None else await _answer(self.function, request)


@dataclass(frozen=True, slots=True)
class CallbackAsker:
    """Asks a function."""

    function: Ask

    async def ask(self, question: UserQuestion) -> str | None:
        """Return the function's answer."""
        return await _answer(self.function, question)


async def _answer(function: Callable[[Q], R | Awaitable[R]], asked: Q) -> R:
    """Return what a function answers; a plain one runs in a thread, since it may wait for a person."""
    is_async = inspect.iscoroutinefunction(function)
    answer: object = (
        function(asked)
        if is_async
        else await anyio.to_thread.run_sync(function, asked, abandon_on_cancel=True)
    )
    return cast("R", await answer if inspect.isawaitable(answer) else answer)
