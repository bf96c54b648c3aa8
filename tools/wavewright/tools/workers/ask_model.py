"""The tool `ask_model`: a typed question to a model that has no tools.

The model reads a text, which may be anybody's, and answers with fields of the types that the plan
asks for. It is *quarantined*: it calls nothing, and nothing but these fields leaves it. A step with
`ask` calls it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from functools import partial

from wavewright.planner.language.plan import ASK_MODEL
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.answer_types import AnswerTypeError, answer_schema
from wavewright.planner.types import Json, JsonObject, JsonSchema, as_list, as_object
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.workers.specs import AnswerRefused, AnswerToFinish, Worker, WorkerSpec

ASK_MODEL_SPEC = WorkerSpec(
    name=ASK_MODEL,
    description=(
        "Ask a model that has no tools about a text, whoever wrote it, and get fields of the types that `for` names. "
        "Use it to take a date, a number, a choice or a name out of mail, pages and files."
    ),
    prompt="workers/ask_model",
    input_schema={
        "type": "object",
        "required": ["of", "for"],
        "additionalProperties": False,
        "properties": {
            "of": {"description": "What the question is about; the model reads it as data."},
            "for": {
                "type": "object",
                "minProperties": 1,
                "description": "The fields of the answer with their types, such as {day: date, room: [a, b, c]}.",
            },
            "question": {
                "type": ["string", "null"],
                "description": "The question in words, where the names of the fields do not say it.",
            },
        },
    },
    output_schema={"type": "object"},
    token_share=0.2,
    longer_inputs="shorten",
    tags=frozenset({ASK_MODEL}),
    expected_seconds=15.0,
)


def model_questioner(tools: Mapping[str, ToolSignature]) -> Worker:
    """Return the worker; `tools` are those that an answer may name in `calls`."""
    return Worker(
        ASK_MODEL_SPEC,
        asks_for=partial(_asked_schema, tools=tools),
        finish=partial(_checked_answer, tools=tools),
    )


def _asked_schema(params: JsonObject, tools: Mapping[str, ToolSignature]) -> JsonSchema:
    """Return the schema of the answer.

    Raises:
        ToolError: the plan asks for what is no type; the checker has refused it, where it knew.
    """
    try:
        return answer_schema(params["for"], tools)
    except AnswerTypeError as error:
        raise ToolError(f"'for' {error}", hint=error.hint) from error


def _checked_answer(found: AnswerToFinish, tools: Mapping[str, ToolSignature]) -> Json:
    faults = [*_no_dates(found.answer, _asked_schema(found.params, tools), "")]
    if faults:
        raise AnswerRefused(faults)
    return found.answer


def _no_dates(value: Json, schema: JsonSchema, where: str) -> Iterator[str]:
    """Yield what is written as a date and is none, such as the 30th of February."""
    if isinstance(value, dict):
        for name, part in value.items():
            inner = as_object(as_object(schema.get("properties")).get(name))
            yield from _no_dates(part, inner, f"{where}.{name}")
    elif isinstance(value, list):
        for part in value:
            yield from _no_dates(part, as_object(schema.get("items")), f"{where}[]")
    elif isinstance(value, str):
        kinds = [schema, *map(as_object, as_list(schema.get("anyOf")))]
        if any(kind.get("format") == "date" for kind in kinds):
            try:
                dt.date.fromisoformat(value)
            except ValueError:
                yield f"{where.removeprefix('.')} is {value!r}, which is no day of a calendar"
