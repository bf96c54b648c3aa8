"""Shorten inputs that exceed what a model is to read at once, and summarize long texts.

Every shortened input has a note.

`summarize_content` summarizes text by a model, in parts; without a model it returns the text
unchanged. Other workers use it for inputs that are too long for them.
"""

from __future__ import annotations

from wavewright.planner import Json, JsonObject
from wavewright.planner.ports.truncation import allot_chars, prompt_size, truncate
from wavewright.tools.workers.specs import AnswerToFinish, Worker, WorkerSpec


def shorten_inputs(inputs: JsonObject, limit: int) -> tuple[JsonObject, tuple[str, ...]]:
    """Return inputs of `limit` characters together at most, and a note for each that was shortened."""
    shorter = {
        name: truncate(inputs[name], room) for name, room in overlong_inputs(inputs, limit).items()
    }
    notes = tuple(shortened_note(name, inputs[name], value) for name, value in shorter.items())
    return {**inputs, **shorter}, notes


def overlong_inputs(inputs: JsonObject, limit: int) -> dict[str, int]:
    """Return which inputs are too long for `limit` characters in all, and how many each of them may
    take.
    """
    sizes = {name: prompt_size(value) for name, value in inputs.items()}
    rooms = dict(zip(sizes, allot_chars([*sizes.values()], limit), strict=True))
    return {name: rooms[name] for name, size in sizes.items() if size > rooms[name]}


def shortened_note(name: str, value: Json, shorter: Json) -> str:
    """Return the note of an input that lost something."""
    return (
        f"{name!r} was shortened from {prompt_size(value):,} to {prompt_size(shorter):,} characters; "
        "marks with '…' say what was left out"
    )


def cut_text(text: str, limit: int) -> str:
    """Return a text without its middle, the beginning being worth more than the end.

    >>> from wavewright.tools import cut_text
    >>> len(cut_text("word " * 1000, 200)) <= 200
    True
    """
    shorter = truncate(text, limit + len('""'))
    assert isinstance(shorter, str)
    return shorter


def split_text(text: str, limit: int) -> tuple[str, ...]:
    """Cut a text into parts of `limit` characters at most, between paragraphs, lines or words where
    it can be.
    """
    parts: list[str] = []
    start = 0
    while len(text) - start > limit:
        end = _break_before(text, start, start + limit)
        parts.append(text[start:end])
        start = end
    parts.append(text[start:])
    return tuple(part for part in parts if part.strip())


def _break_before(text: str, start: int, end: int) -> int:
    """Return where to cut: behind the last paragraph, line, sentence or word of the stretch's
    second half.
    """
    middle = start + (end - start) // 2
    for mark in ("\n\n", "\n", ". ", " "):
        found = text.rfind(mark, middle, end)
        if found >= 0:
            return found + len(mark)
    return end


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
            "focus": {
                "type": ["string", "null"],
                "description": "What the summary should dwell on.",
            },
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
            "summary": {
                "type": "string",
                "description": "The summary, or the text where `method` says so.",
            },
            "method": {
                "enum": ["agent", UNCHANGED],
                "description": "Who wrote the summary: a model, or none.",
            },
            "source_chars": {
                "type": "integer",
                "description": "Length of the text, in characters.",
            },
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
    """Return the worker that summarises.

    >>> from wavewright.tools import summarizer
    >>> summarizer().spec.name
    'summarize_content'
    """
    return Worker(SUMMARIZER_SPEC, generate=_unchanged_text, finish=_finish_summary)
