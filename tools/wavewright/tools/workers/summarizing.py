"""Summaries of long texts: by a model in parts, and the unchanged text where no model can.

The same worker is the tool `summarize_content` and what other workers use for inputs that are too long for them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from wavewright.planner.types import Json, JsonObject
from wavewright.tools.calls import ToolCall
from wavewright.tools.workers.services import Services
from wavewright.tools.workers.shortening import allot_chars, prompt_size, shorten, shortened_note
from wavewright.tools.workers.specs import AnswerToFinish, Worker, WorkerSpec

UNCHANGED = "unchanged"
PART_CHARS = 300_000
"""Texts above this are summarised in parts: what models read at once with room to spare."""

SUMMARIZER_SPEC = WorkerSpec(
    name="summarize_content",
    description="Summarise a long text; gives the text unchanged where no model can summarise it.",
    prompt="text/summarize_content",
    input_schema={
        "type": "object",
        "required": ["content"],
        "additionalProperties": False,
        "properties": {
            "content": {"type": "string", "minLength": 1, "description": "The text."},
            "focus": {"type": ["string", "null"], "description": "What the summary should dwell on."},
            "max_words": {
                "type": ["integer", "null"],
                "minimum": 10,
                "maximum": 10_000,
                "description": "About how long it may be, in words, for each part of the text.",
            },
        },
    },
    output_schema={
        "type": "object",
        "required": ["summary", "method", "source_chars"],
        "additionalProperties": False,
        "properties": {
            "summary": {"type": "string", "description": "The summary, or the text where `method` says so."},
            "method": {
                "enum": ["agent", UNCHANGED],
                "description": "Who wrote the summary: a model, or nobody.",
            },
            "source_chars": {"type": "integer", "description": "Length of the text, in characters."},
        },
    },
    token_share=0.25,
    max_input_chars=PART_CHARS,
    longer_inputs="parts",
    parts_of="content",
    text_field="summary",
    methods={"generated": UNCHANGED},
    stream=True,
    tags=frozenset({"text"}),
    expected_seconds=20.0,
)


def _finish_summary(found: AnswerToFinish) -> Json:
    return {"summary": found.answer, "source_chars": len(str(found.params["content"]))}


def _unchanged_text(params: JsonObject) -> Json:
    text = str(params["content"])
    return {"summary": text, "source_chars": len(text)}


def summarizer() -> Worker:
    """Return the worker that summarises."""
    return Worker(SUMMARIZER_SPEC, generate=_unchanged_text, finish=_finish_summary)


async def summarize_inputs(
    inputs: JsonObject, spec: WorkerSpec, services: Services, call: ToolCall
) -> tuple[JsonObject, tuple[str, ...]]:
    """Return inputs whose long texts are summaries and whose other long values are shortened, with a note for each.

    A text that no model could summarise stays unchanged: it may be too long then, but nothing of it is lost.
    """
    from wavewright.tools.workers.making import make_worker

    rooms = allot_chars({name: prompt_size(value) for name, value in inputs.items()}, spec.max_input_chars)
    summarize = partial(replace, call, tool=SUMMARIZER_SPEC.name)
    quiet = Worker(
        SUMMARIZER_SPEC.model_copy(update={"stream": False}), generate=_unchanged_text, finish=_finish_summary
    )
    tool = make_worker(quiet, services)
    shorter = dict(inputs)
    notes: list[str] = []
    for name, value in inputs.items():
        if prompt_size(value) <= rooms[name]:
            continue
        if not isinstance(value, str):
            shorter[name] = shorten(value, rooms[name])
            notes.append(shortened_note(name, value, shorter[name]))
            continue
        output = await tool.call(summarize(params={"content": value}))
        assert isinstance(output, dict)
        shorter[name] = output["summary"]
        notes.append(
            f"{name!r} is {len(value):,} characters long and could not be summarised: it is given whole"
            if output["method"] == UNCHANGED
            else f"{name!r} is a summary of a text of {len(value):,} characters"
        )
    return shorter, tuple(notes)
