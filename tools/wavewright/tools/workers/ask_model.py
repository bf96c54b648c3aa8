"""The tool `ask_model`: a typed question to a model that has no tools.

The model reads a text, which may be anybody's, and answers with fields of the types that the plan
asks for. It is *quarantined*: it calls nothing, and nothing but these fields leaves it. A step with
`ask` calls it.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from wavewright.planner import (
    Json,
    JsonObject,
    JsonSchema,
    ToolSignatures,
    as_object,
)
from wavewright.planner.language.plan import ASK_MODEL
from wavewright.planner.planning.typed_answers import misfit_texts
from wavewright.planner.plans.answer_types import WORDS, AnswerTypeError, answer_schema
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


def model_questioner(tools: ToolSignatures) -> Worker:
    """Return the worker; `tools` are those that an answer may name in `calls`."""
    return Worker(
        ASK_MODEL_SPEC,
        asks_for=partial(_asked_schema, tools=tools),
        finish=partial(_checked_answer, tools=tools),
    )


def _asked_schema(params: JsonObject, tools: ToolSignatures) -> JsonSchema:
    """Return the schema of the answer.

    Raises:
        ToolError: the plan asks for what is no type; the checker has refused it, where it knew.
    """
    try:
        return answer_schema(params["for"], tools)
    except AnswerTypeError as error:
        raise ToolError(f"'for' {error}", hint=error.hint) from error


def _checked_answer(found: AnswerToFinish, tools: ToolSignatures) -> Json:
    schema = as_object(_with_formats(_asked_schema(found.params, tools)))
    # A day that no calendar has is written as a date, and is none.
    faults = misfit_texts(found.answer, schema, checks_formats=True)
    if faults:
        raise AnswerRefused(faults)
    return found.answer


_FORMATS: Final = {
    str(WORDS["time"]["pattern"]): "time",
    str(WORDS["datetime"]["pattern"]): "date-time",
}


def _with_formats(schema: Json) -> Json:
    """Return a schema in which a plan's words for times are formats, too.

    Models are not asked for these: JSON Schema's own have seconds and a time zone.
    """
    if isinstance(schema, list):
        return [_with_formats(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: _with_formats(part) for key, part in schema.items()}
    pattern = schema.get("pattern")
    name = _FORMATS.get(pattern) if isinstance(pattern, str) else None
    return inner if name is None else {**inner, "format": name}
