"""Reading the answers of reviewing models.

An answer can be used if it holds exactly one JSON object of the required shape. Prose, fences and
wrappers around it are ignored, but its types are strict: a number in quotes is no number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from pydantic import BaseModel, ConfigDict

from wavewright.config import Document, DocumentError
from wavewright.config.model_validation import read_as_model
from wavewright.planner import Json, JsonObject, ModelAnswer, as_object, canonical_json, find_json
from wavewright.planner.ports.asking import AnswerRefused
from wavewright.planner.reading.json_extraction import THOUGHT_FIELDS, FoundValue, wrapped_values
from wavewright.prompts import Prompts

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

_SOURCE_NAME: Final = "<answer>"
_MAX_FAULTS = 20


class AnswerModel(BaseModel):
    """Base of models' answers: strict in its types, and unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", defer_build=True)


def read_whole(read: Callable[[str], T]) -> Callable[[ModelAnswer, int], T]:
    """Return what reads an answer as a function reads its text; one that was cut off is refused."""

    def read_uncut(answer: ModelAnswer, _tries_left: int) -> T:
        if answer.is_truncated:
            raise AnswerRefused(["the answer was cut off before its end: write a shorter one"])
        return read(answer.text)

    return read_uncut


def repair_reply(prompts: Prompts, template: str) -> Callable[[ModelAnswer, AnswerRefused], str]:
    """Return what replies to a refused answer with a template of its faults."""
    return lambda _answer, refused: prompts.render(template, faults=refused.faults)


def read_answer(
    text: str,
    shape: type[M],
    keys: Collection[str],
    in_usual_form: Callable[[JsonObject], tuple[JsonObject, Sequence[str]]] | None = None,
) -> M:
    """Return the object of an answer that has one of the keys, in its shape.

    Args:
        text: The answer.
        shape: What it should be; it has `notes` where there is a usual form.
        keys: One of them is in the object.
        in_usual_form: Returns the object in the form that was asked for, with a note on each part
            that was written in another one.

    Raises:
        AnswerRefused: there is none, more than one, or it has another shape.
    """
    document = find_object(text, keys)
    if in_usual_form is not None:
        fields, notes = in_usual_form(as_object(document.value))
        told = [*notes_on_dress(text, document.value), *notes]
        document = Document({**fields, "notes": [*told]}, document.source, keeps_places=False)
    try:
        return read_as_model(document, shape)
    except DocumentError as error:
        raise AnswerRefused([fault.message for fault in error.faults[:_MAX_FAULTS]]) from error


def _as_written(value: Json) -> Json:
    return value


def find_object(
    text: str, keys: Collection[str], meant: Callable[[Json], Json] = _as_written
) -> Document:
    """Return the one object in an answer that has one of the keys, outermost first, with its names of
    fields in their usual form.

    Args:
        text: The answer.
        keys: One of them is in the object.
        meant: Returns the object that a value can only mean.

    Raises:
        AnswerRefused: there is none, there are several that differ, or it cannot be read
            unambiguously.
    """
    answer = find_json(text, _SOURCE_NAME)
    whole = [read for read in answer.values if not read.is_inside_broken]
    objects = [(read, value) for read in whole for value in _with_key(read, keys, meant)]
    if _differ(objects):
        # Beside an object with a key, what could mean another is only quoted.
        written = [(read, value) for read in whole for value in _with_key(read, keys)]
        objects = written or objects
    names = " or ".join(repr(key) for key in keys)
    if not objects:
        unread = [fault.message for fault in answer.unreadable[:_MAX_FAULTS]]
        raise AnswerRefused([f"the answer holds no JSON object with {names}", *unread])
    if _differ(objects):
        raise AnswerRefused(
            [f"the answer holds several objects with {names}, and they differ: answer once"]
        )
    read, value = objects[0]
    if not read.is_certain:
        fault = (
            "the JSON of the answer is not closed, says one thing twice or holds a number that is none: "
            "write it again, whole"
        )
        raise AnswerRefused([fault])
    return Document(value, answer.source, keeps_places=False)


def _differ(objects: Iterable[tuple[FoundValue, JsonObject]]) -> bool:
    return len({canonical_json(value) for _, value in objects}) > 1


def notes_on_dress(text: str, value: Json) -> tuple[str, ...]:
    """Return how a value was read from an answer that is more than its JSON, in a line."""
    try:
        written: Json = json.loads(text)
    except (ValueError, RecursionError):
        return ("its JSON was taken out of what stood around it, or was not quite JSON",)
    if isinstance(written, dict) and canonical_json(with_plain_names(written)) == canonical_json(
        value
    ):
        has_usual_names = all(
            name in as_object(value) or name.lower() in THOUGHT_FIELDS for name in written
        )
        return () if has_usual_names else ("its names of fields were written in another form",)
    return ("it was taken out of a wrapper",)


def _with_key(
    found: FoundValue, keys: Collection[str], meant: Callable[[Json], Json] = _as_written
) -> Iterator[JsonObject]:
    """Yield the outermost objects with one of the keys: what was found, each entry of a list, or
    what either wraps.
    """
    whole = meant(found.value)
    for value in whole if isinstance(whole, list) else [whole]:
        for inner in map(meant, wrapped_values(value)):
            fields = with_plain_names(inner) if isinstance(inner, dict) else {}
            if not fields.keys().isdisjoint(keys):
                yield fields
                break


def with_plain_names(fields: JsonObject) -> JsonObject:
    """Return an object with its names of fields in small letters and `_` between words, as in
    `goal_achieved` for `Goal Achieved` and `goalAchieved`; as it is where two would be one.
    """
    plain = {_plain_name(name): entry for name, entry in fields.items()}
    return plain if len(plain) == len(fields) else fields


def _plain_name(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[\s-]+", "_", name.strip()).lower()
