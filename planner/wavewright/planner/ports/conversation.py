"""Asking a model until its answer can be used: the one loop of everybody who asks.

A planner, a recovery planner, a reviewer, a judge and a worker each put a question, read the
answer, tell the model what is wrong with it and ask again, a bounded number of times. What differs
is the question, how an answer is read, and the words of the reply.

An answer is *refused* where it cannot be used. A *fallback model* is asked where a model will not
answer, or has used up its tries.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeVar

import anyio.to_thread

from wavewright.planner.ports.asking import AnswerRefused, Asking, RefusedAnswer
from wavewright.planner.ports.fallback_ladder import Rung, rung_timeout
from wavewright.planner.ports.model_port import (
    ModelAnswer,
    ModelCall,
    ModelClient,
    ModelError,
    ModelErrorKind,
    Turn,
)

T = TypeVar("T")

_MIN_SECONDS: Final = 1.0
"""Seconds below which a model is not asked again."""
_UNUSABLE_KINDS: Final = frozenset({"refused", "bad_answer"})
"""Errors of a model that answered, but without an answer that could be read."""
OVER_CONTEXT: Final[frozenset[ModelErrorKind]] = frozenset({"over_context"})
_EMPTY_ANSWER: Final = "(the answer was empty)"


@dataclass(slots=True)
class Conversation(Generic[T]):
    """One question to a model, with its refused answers and what was replied to them."""

    asking: Asking
    call: ModelCall
    """The question as it is asked next, with the turns so far."""
    read: Callable[[ModelAnswer, int], T]
    """Returns the value of an answer, given how many tries are left; raises `AnswerRefused`. It runs
    in a thread: searching an answer of megabytes takes a while.
    """
    reply: Callable[[ModelAnswer, AnswerRefused], str]
    """Returns what a refused answer is replied to."""
    smaller: Callable[[], ModelCall | None] | None = None
    """Makes the question with less data than the last one, in a thread; None where there is none."""
    too_large: frozenset[ModelErrorKind] = OVER_CONTEXT
    """Errors after which it is asked with less data."""
    answers: list[ModelAnswer] = field(default_factory=list[ModelAnswer])
    """Every answer, oldest first."""
    _preference: str = field(init=False)
    """The preference of the first question, whose fallback models are asked."""
    _fallbacks_asked: int = field(default=0, init=False)
    _unreplied: tuple[ModelAnswer, AnswerRefused] | None = field(default=None, init=False)
    """The last answer, where it was refused and the model has not been told."""

    def __post_init__(self) -> None:
        self._preference = self.call.preference

    async def ask_all(self, tries: int) -> FittingAnswer[T] | NoFittingAnswer:
        """Ask until an answer can be used, at most `tries` times; then each fallback model in the
        same way. The call's timeout is that of all questions together.

        Raises:
            ModelError: no model could be asked. A refusal and an unusable body are answers that
                cannot be used.
            PromptError: the template of the reply is faulty.
        """
        until = _end_of(self.call)
        answer = await self._ask_until(until, tries)
        while (
            isinstance(answer, NoFittingAnswer)
            and answer.may_ask_another_model
            and self.turn_to_next_model(answer.model)
        ):
            try:
                answer = await self._ask_until(until, tries)
            except ModelError:
                break  # what the first model answered says more
        return answer

    async def ask(self) -> FittingAnswer[T] | NoFittingAnswer:
        """Ask once, within the call's timeout; an answer that was refused before is replied to
        first.

        Raises:
            ModelError: the model could not be asked.
            PromptError: the template of the reply is faulty.
        """
        return await self._ask_until(_end_of(self.call), 1)

    def turn_to_next_model(self, answered: str | None = None) -> bool:
        """Turn to the next fallback model with the question as it was asked first; return whether
        there is one, other than the model that has `answered` already.
        """
        choice = self._models.choose(self._preference, self.call.role)
        names = choice.fallbacks[self._fallbacks_asked : self._fallbacks_asked + 1]
        if not names or names[0] == answered:
            return False
        self.call = replace(self.call, preference=names[0], turns=())
        self._unreplied = None
        self._fallbacks_asked += 1
        return True

    def go_on(self, reply: str) -> None:
        """Reply to the last answer, which could be used, with a question that follows from it."""
        self.call = self._after_reply(self.answers[-1], reply)

    def next_call(self) -> ModelCall:
        """Return the question as it is asked next, after the reply to the last refused answer."""
        if self._unreplied is None:
            return self.call
        answer, refused = self._unreplied
        return self._after_reply(answer, self.reply(answer, refused))

    def _after_reply(self, answer: ModelAnswer, reply: str) -> ModelCall:
        turn = Turn(words_of(answer) or _EMPTY_ANSWER, reply)
        return replace(self.call, turns=(*self.call.turns, turn))

    async def _ask_until(
        self, until: float | None, tries: int
    ) -> FittingAnswer[T] | NoFittingAnswer:
        model = self._models.choose(self.call.preference, self.call.role).model
        faults: tuple[str, ...] = ("it was never asked",)
        cause: AnswerRefused | None = None
        for tries_left in reversed(range(tries)):
            if not self._has_time(until):
                return NoFittingAnswer((*faults, "no time was left to ask again"), model)
            try:
                answer = await self._answer(until)
            except ModelError as error:
                if error.kind not in _UNUSABLE_KINDS:
                    raise
                return NoFittingAnswer((f"the model gave no answer: {error}",), model, error)
            self.answers.append(answer)
            model = answer.use.model
            try:
                value = await anyio.to_thread.run_sync(self.read, answer, tries_left)
            except AnswerRefused as refused:
                cause, faults = refused, refused.faults
                self._refuse(answer, refused)
            else:
                return FittingAnswer(value, model)
            if cause.then != "repair":
                break
        return NoFittingAnswer(faults, model, cause)

    def _has_time(self, until: float | None) -> bool:
        left = _seconds_left(until)
        is_again = bool(self.call.turns) or self._unreplied is not None
        return left is None or left > (_MIN_SECONDS if is_again else 0)

    async def _answer(self, until: float | None) -> ModelAnswer:
        """Return the next answer; a question that is too large is asked with less data, and so are
        later ones.

        Raises:
            ModelError: there is none; also where less data is not smaller.
        """
        self.call, self._unreplied = self.next_call(), None
        while True:
            try:
                return await self._put(until)
            except ModelError as error:
                smaller = await self._smaller_call(error)
                if smaller is None:
                    raise
                self.call = smaller

    async def _smaller_call(self, error: ModelError) -> ModelCall | None:
        """Return the question with less data; None where that would not help or is not smaller."""
        if self.smaller is None or error.kind not in self.too_large:
            return None
        smaller = await anyio.to_thread.run_sync(self.smaller)
        if smaller is None:
            return None
        smaller = replace(
            smaller,
            preference=self.call.preference,
            rung=self.call.rung,
            turns=self.call.turns[-1:],
        )
        return smaller if _prompt_length(smaller) < _prompt_length(self.call) else None

    async def _put(self, until: float | None) -> ModelAnswer:
        return await self._models.ask(
            replace(self.call, timeout=_seconds_left(until)),
            on_use=self.asking.on_use,
            on_text=self.asking.on_text,
        )

    def _refuse(self, answer: ModelAnswer, refused: AnswerRefused) -> None:
        self._unreplied = (answer, refused)
        if self.asking.on_refused is not None:
            call = self.call
            self.asking.on_refused(
                RefusedAnswer(
                    call.role, call.rung, answer.use.model, words_of(answer), refused.faults
                )
            )

    @property
    def _models(self) -> ModelClient:
        # Without models nobody comes here: the rungs that ask one are left out.
        assert self.asking.models is not None
        return self.asking.models


@dataclass(frozen=True, slots=True)
class FittingAnswer(Generic[T]):
    """An answer that can be used."""

    value: T
    model: str
    """The model that gave it."""


@dataclass(frozen=True, slots=True)
class NoFittingAnswer:
    """No answer can be used; with the faults of the last one."""

    faults: tuple[str, ...]
    model: str
    cause: AnswerRefused | ModelError | None = None
    """The last refusal, or why there was no answer; None where no time was left to ask."""

    @property
    def may_ask_another_model(self) -> bool:
        """Whether another model may give what this one did not."""
        if isinstance(self.cause, AnswerRefused):
            return self.cause.then != "end"
        return self.cause is not None


def _end_of(call: ModelCall) -> float | None:
    """Return when the timeout of a call is over, on the monotonic clock."""
    return None if call.timeout is None else time.monotonic() + call.timeout


def _seconds_left(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - time.monotonic())


def words_of(answer: ModelAnswer) -> str:
    """Return what a model said: its text, or else the calls that it made instead of answering."""
    calls = [{"name": call.name, "arguments": call.arguments} for call in answer.calls]
    return answer.text.strip() or (json.dumps(calls) if calls else "")


def _prompt_length(call: ModelCall) -> int:
    return len(call.prompt) + sum(len(turn.answer) + len(turn.reply) for turn in call.turns)


async def rung_seconds(asking: Asking, rung: Rung, *calls: ModelCall) -> float | None:
    """Return the seconds that a rung may take for questions to one model, asked side by side; None
    if the rung has no clock.

    Raises:
        ModelError: the call's preference names no model.
    """
    if rung.clock is None:
        return None
    past: Sequence[float] = ()
    if asking.history is not None and asking.models is not None:
        first = calls[0]
        model = asking.models.choose(first.preference, first.role).model
        past = await asking.history.past_seconds(model, first.role)
    chars = sum(len(call.instructions) + _prompt_length(call) for call in calls)
    return rung_timeout(rung.clock, chars, past)
