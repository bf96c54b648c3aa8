"""What a scripted server knows: its rules, and the ledger of what it was asked."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.support.model_answers import Answer, AnswerLike, AnswerMaker
from tests.support.model_request import ScriptedRequest

RuleTest: TypeAlias = Callable[[ScriptedRequest], bool]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request, and what was done about it."""

    number: int
    request: ScriptedRequest
    rule: str
    """Name of the rule that answered; empty where none did."""
    answer: Answer
    at: float
    """Monotonic seconds when it came."""


@dataclass(slots=True)
class Rule:
    """Which requests are answered, and with what."""

    name: str
    test: RuleTest
    answers: deque[AnswerLike | AnswerMaker]
    left: int | None
    """How often it may still answer; for ever where absent."""

    def take(self) -> AnswerLike | AnswerMaker:
        """Return the next answer and count it."""
        if self.left is not None:
            self.left -= 1
        return self.answers.popleft() if len(self.answers) > 1 else self.answers[0]


@dataclass(slots=True)
class Ledger:
    """What was asked, and who waits to see it."""

    exchanges: list[Exchange] = field(default_factory=list[Exchange])
    changed: threading.Condition = field(default_factory=threading.Condition)
    in_flight: int = 0
    most_in_flight: int = 0
