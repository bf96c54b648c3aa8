"""Shorten inputs that exceed what a model is to read at once, and summarize long texts.

A *shortened* value keeps its structure: long texts lose their middle, long lists their middle
items, and a mark says how much is missing. Every shortened input has a note.

`summarize_content` summarizes text by a model, in parts; without a model it returns the text
unchanged. Other workers use it for inputs that are too long for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wavewright.planner.types import Json, JsonObject
from wavewright.prompts import prompt_json
from wavewright.tools.workers.specs import AnswerToFinish, Worker, WorkerSpec

_MIN_TEXT = 40
_MIN_ITEMS = 2
_OMITTED_FIELDS = "…"


def prompt_size(value: Json) -> int:
    """Return how many characters a value takes in a prompt."""
    return len(prompt_json(value))


def shorten_inputs(inputs: JsonObject, limit: int) -> tuple[JsonObject, tuple[str, ...]]:
    """Return inputs of `limit` characters together at most, and a note for each that was shortened."""
    shorter = {
        name: shorten(inputs[name], room) for name, room in overlong_inputs(inputs, limit).items()
    }
    notes = tuple(shortened_note(name, inputs[name], value) for name, value in shorter.items())
    return {**inputs, **shorter}, notes


def overlong_inputs(inputs: JsonObject, limit: int) -> dict[str, int]:
    """Return which inputs are too long for `limit` characters in all, and how many each of them may
    take.
    """
    sizes = {name: prompt_size(value) for name, value in inputs.items()}
    rooms = allot_chars(sizes, limit)
    return {name: rooms[name] for name, size in sizes.items() if size > rooms[name]}


def shortened_note(name: str, value: Json, shorter: Json) -> str:
    """Return the note of an input that lost something."""
    return (
        f"{name!r} was shortened from {prompt_size(value):,} to {prompt_size(shorter):,} characters; "
        "marks with '…' say what was left out"
    )


def allot_chars(sizes: Mapping[str, int], limit: int) -> dict[str, int]:
    """Share characters out: what is small stays whole, and what is long shares the rest evenly."""
    rooms: dict[str, int] = {}
    left = limit
    for place, (name, size) in enumerate(
        sorted(sizes.items(), key=lambda item: (item[1], item[0]))
    ):
        rooms[name] = min(size, max(1, left // (len(sizes) - place)))
        left -= rooms[name]
    return rooms


def shorten(value: Json, limit: int) -> Json:
    """Return a value of `limit` characters at most, or as near to that as a mark of what is missing
    allows.
    """
    if prompt_size(value) <= limit:
        return value
    if isinstance(value, str):
        return cut_text(value, limit - 2)
    longest, most = limit, 1024
    while longest > _MIN_TEXT or most > _MIN_ITEMS:
        candidate = _bounded(value, longest, most)
        if prompt_size(candidate) <= limit:
            return candidate
        longest, most = max(_MIN_TEXT, longest // 2), max(_MIN_ITEMS, most // 2)
    candidate = _bounded(value, _MIN_TEXT, _MIN_ITEMS)
    return (
        candidate
        if prompt_size(candidate) <= limit
        else cut_text(prompt_json(candidate), limit - 2)
    )


def cut_text(text: str, limit: int) -> str:
    """Return a text without its middle, the beginning being worth more than the end.

    >>> from wavewright.tools import cut_text
    >>> len(cut_text("word " * 1000, 200)) <= 200
    True
    """
    if prompt_size(text) - 2 <= limit:
        return text
    kept = max(0, limit - 40)
    while kept > 0:
        shorter = _without_middle(text, kept)
        over = prompt_size(shorter) - 2 - limit
        if over <= 0:
            return shorter
        # What a prompt writes as an escape takes up to twelve characters.
        kept -= max(1, over // 6)
    return f"… [{len(text):,} characters left out]"


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


def _without_middle(text: str, kept: int) -> str:
    head = kept * 7 // 10
    tail = kept - head
    gone = len(text) - kept
    return f"{text[:head]} … [{gone:,} characters left out] … {text[len(text) - tail :] if tail else ''}"


def _bounded(value: Json, longest: int, most: int) -> Json:
    """Return a value whose texts and lists are within two bounds."""
    if isinstance(value, str):
        return cut_text(value, longest)
    if isinstance(value, list):
        return _bounded_items(value, longest, most)
    if isinstance(value, dict):
        kept = list(value.items())[:most]
        shorter: JsonObject = {name: _bounded(member, longest, most) for name, member in kept}
        if len(value) > most:
            shorter[_OMITTED_FIELDS] = f"{len(value) - most:,} members left out"
        return shorter
    return value


def _bounded_items(items: Sequence[Json], longest: int, most: int) -> Json:
    if len(items) <= most:
        return [_bounded(item, longest, most) for item in items]
    head = (most * 2 + 2) // 3
    tail = most - head
    mark: Json = f"… {len(items) - most:,} items left out …"
    ends = [*items[:head], mark, *(items[len(items) - tail :] if tail else ())]
    return [_bounded(item, longest, most) for item in ends]


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
