"""Rules of the fake model, and the ledger of the requests that it was sent."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from wavewright.engine.fake_model.answers import Answer, AnswerLike, AnswerMaker
from wavewright.engine.fake_model.request import FakeModelRequest

RuleTest: TypeAlias = Callable[[FakeModelRequest], bool]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer."""

    number: int
    request: FakeModelRequest
    rule: str
    """Name of the rule that answered; empty where none did."""
    answer: Answer
    at: float
    """Monotonic seconds when it came."""


@dataclass(slots=True)
class Rule:
    """A condition on requests, and the answers to those that meet it."""

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
class RequestLog:
    """The requests so far; `changed` is notified of each."""

    exchanges: list[Exchange] = field(default_factory=list[Exchange])
    changed: threading.Condition = field(default_factory=threading.Condition)
    in_flight: int = 0
    max_in_flight: int = 0
