"""Asking a model again until its answer is valid.

An answer *fits* if it holds exactly one JSON object of the required shape. Prose, fences and wrappers around it are
ignored, but its types are strict: a number in quotes is no number. Faults are reported to the model, a bounded number
of times.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

import anyio
from pydantic import BaseModel, ConfigDict

from wavewright.config.documents import Document
from wavewright.config.errors import WavewrightError
from wavewright.config.model_validation import read_as_model
from wavewright.config.sources import DocumentError
from wavewright.planner.language.hashing import canonical_json
from wavewright.planner.ports.budgets import CallHistory
from wavewright.planner.ports.fallback_ladder import Rung, rung_timeout
from wavewright.planner.ports.model_port import ModelAnswer, ModelCall, ModelClient, ModelError, OnUse, Turn
from wavewright.planner.reading.json_extraction import find_json
from wavewright.planner.types import Json, JsonObject

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

_SOURCE_NAME: Final = "<answer>"
_MAX_FAULTS = 20
_MIN_SECONDS = 1.0
_UNUSABLE_KINDS: Final = frozenset({"refused", "bad_answer"})
"""Errors of a model that answered, but without a usable answer."""


class AnswerModel(BaseModel):
    """Base of models' answers: strict in its types, and unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", defer_build=True)


class AnswerMisfit(WavewrightError):
    """An answer does not fit; `faults` are reported to the model."""

    def __init__(self, *faults: str) -> None:
        self.faults = faults
        super().__init__("; ".join(faults))


class AnswerDeclined(WavewrightError):
    """An answer fits and says that there is no result; the model is not asked again."""


@dataclass(frozen=True, slots=True)
class FittingAnswer(Generic[T]):
    """An answer that fits."""

    value: T
    model: str
    """The model that gave it."""


@dataclass(frozen=True, slots=True)
class NoFittingAnswer:
    """No answer fits; with the faults of the last one."""

    faults: tuple[str, ...]
    model: str


async def ask_until_fit(
    models: ModelClient,
    call: ModelCall,
    read: Callable[[str], T],
    *,
    tries: int,
    repair: Callable[[tuple[str, ...]], str],
    on_use: OnUse | None = None,
) -> FittingAnswer[T] | NoFittingAnswer:
    """Ask, and ask again with the faults, at most `tries` times; the call's timeout is that of all questions together.

    Args:
        models: The client that asks models.
        call: The first question.
        read: Returns the value of an answer, in a thread; raises `AnswerMisfit` or `AnswerDeclined`.
        tries: Maximum number of questions.
        repair: Returns the next question for the faults.
        on_use: Called with the cost of each question.

    Raises:
        ModelError: no model could be asked. A refusal and an unusable body are answers that do not fit.
    """
    model = models.choose(call.preference, call.role).model
    faults: tuple[str, ...] = ("it was never asked",)
    until = None if call.timeout is None else time.monotonic() + call.timeout
    for _attempt in range(tries):
        left = None if until is None else until - time.monotonic()
        if left is not None and left < _MIN_SECONDS and call.turns:
            return NoFittingAnswer((*faults, "no time was left to ask again"), model)
        try:
            answer = await models.ask(replace(call, timeout=left), on_use=on_use)
        except ModelError as error:
            if error.kind not in _UNUSABLE_KINDS:
                raise
            return NoFittingAnswer((f"the model gave no answer: {error}",), model)
        model = answer.use.model
        try:
            # In a thread: searching an output of megabytes takes a while.
            return FittingAnswer(await anyio.to_thread.run_sync(_read_complete, answer, read), model)
        except AnswerMisfit as misfit:
            faults = misfit.faults
        except AnswerDeclined as given_up:
            return NoFittingAnswer((f"it says: {given_up}",), model)
        call = replace(call, turns=(*call.turns, Turn(answer.text, repair(faults))))
    return NoFittingAnswer(faults, model)


def _read_complete(answer: ModelAnswer, read: Callable[[str], T]) -> T:
    if answer.is_truncated:
        raise AnswerMisfit("the answer was cut off before its end: write a shorter one")
    return read(answer.text)


async def rung_seconds(
    rung: Rung, call: ModelCall, models: ModelClient, history: CallHistory | None
) -> float | None:
    """Return the seconds that a rung may take for a question; None if the rung has no clock."""
    if rung.clock is None:
        return None
    model = models.choose(call.preference, call.role).model
    past = await history.past_seconds(model, call.role) if history is not None else ()
    return rung_timeout(rung.clock, len(call.instructions) + len(call.prompt), past)


def read_answer(text: str, shape: type[M], keys: Collection[str]) -> M:
    """Return the object of an answer that has one of the keys, in its shape.

    Raises:
        AnswerMisfit: there is none, more than one, or it has another shape.
    """
    try:
        return read_as_model(find_object(text, keys), shape)
    except DocumentError as error:
        raise AnswerMisfit(*(fault.message for fault in error.faults[:_MAX_FAULTS])) from error


def find_object(text: str, keys: Collection[str]) -> Document:
    """Return the one object in an answer that has one of the keys, outermost first.

    Raises:
        AnswerMisfit: there is none, there are several that differ, or it cannot be read unambiguously.
    """
    answer = find_json(text, _SOURCE_NAME)
    found = [
        (value, inner)
        for value in answer.values
        if not value.is_inside_broken
        for inner in _objects(value.value, frozenset(keys))
    ]
    wanted = " or ".join(repr(key) for key in keys)
    if not found:
        unread = [fault.message for fault in answer.unreadable[:_MAX_FAULTS]]
        raise AnswerMisfit(f"the answer holds no JSON object with {wanted}", *unread)
    if len({canonical_json(inner) for _value, inner in found}) > 1:
        raise AnswerMisfit(f"the answer holds several objects with {wanted}, and they differ: answer once")
    value, inner = found[0]
    if not value.is_certain:
        raise AnswerMisfit(
            "the JSON of the answer is not closed, says one thing twice or holds a number that is none: "
            "write it again, whole"
        )
    return Document(inner, answer.source, keeps_places=False)


def _objects(value: Json, keys: frozenset[str], depth: int = 3) -> Iterator[JsonObject]:
    """Yield the objects with one of the keys, looking into wrappers: a list, a tool call, a single field."""
    if depth == 0:
        return
    if isinstance(value, list):
        for entry in value:
            yield from _objects(entry, keys, depth - 1)
    elif isinstance(value, dict):
        if not keys.isdisjoint(value):
            yield value
        elif len(value) == 1 or {"name", "arguments"} <= value.keys():
            for field in value.values():
                yield from _objects(field, keys, depth - 1)
