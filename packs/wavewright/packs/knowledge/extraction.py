"""The worker `extract_chunk`: the records of one chunk, and in any case its least.

A model gives observations, entities and relations with quotes, which are looked up in the chunk.
Where its answer is not accepted, what it wrote down as calls of a graph's tools counts; where that
gives nothing, code reads the chunk; and where that finds no name, the chunk's first sentence is
kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from wavewright.config import Span
from wavewright.packs.extraction.prose import (
    ProseSettings,
    installed_model,
    prose_note,
    prose_reader,
)
from wavewright.packs.knowledge.chunking import sentence_spans
from wavewright.packs.knowledge.generation import evidence_of, generate_records, least_records
from wavewright.packs.knowledge.models import (
    Chunk,
    ChunkRecords,
)
from wavewright.packs.text.extract_records import MIN_QUOTE, find_quote
from wavewright.planner import (
    FallbackFailure,
    Json,
    JsonObject,
    JsonSchema,
    ModelAnswer,
    as_list,
    as_object,
    read_whole_calls,
)
from wavewright.tools import (
    AnswerRefused,
    AnswerToFinish,
    Worker,
    WorkerSpec,
    cut_text,
    model_schema,
    read_answer,
    schema_of,
)

KEPT_SECONDS: Final = 30 * 86_400.0
"""How long the records of an unchanged chunk serve later runs."""

_QUOTES: Final[JsonSchema] = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "string", "minLength": MIN_QUOTE, "maxLength": 2000},
    "description": "Passages of the text, copied to the letter.",
}
_NAME: Final[JsonSchema] = {"type": "string", "minLength": 1, "maxLength": 200}


def _list_of(fields: Mapping[str, JsonSchema], required: list[str]) -> JsonSchema:
    return {
        "type": "array",
        "items": {
            "type": "object",
            "required": [*required, "quotes"],
            "additionalProperties": False,
            "properties": {**fields, "quotes": _QUOTES},
        },
    }


_LISTS: Final[Mapping[str, JsonSchema]] = {
    "observations": _list_of(
        {"entity": _NAME, "text": {"type": "string", "minLength": 1, "maxLength": 2000}},
        ["entity", "text"],
    ),
    "entities": _list_of(
        {"name": _NAME, "type": _NAME, "aliases": {"type": "array", "items": _NAME}},
        ["name", "type"],
    ),
    "relations": _list_of(
        {"source": _NAME, "relation": _NAME, "target": _NAME}, ["source", "relation", "target"]
    ),
}
ANSWER_SCHEMA: Final[JsonSchema] = {
    "type": "object",
    "required": [*_LISTS],
    "additionalProperties": False,
    "properties": {**_LISTS},
}
"""What a model is asked for."""

_OTHER_WORDS: Final = {
    "entityName": "entity",
    "entityType": "type",
    "relationType": "relation",
    "from": "source",
    "to": "target",
}
"""Words of the memory server's tools for the fields of records."""


@cache
def chunk_extractor(model: str = ProseSettings().model) -> Worker:
    """Return the worker that extracts the records of a chunk; `model` is spaCy's, which reads prose
    where no language model does.
    """
    return Worker(
        WorkerSpec(
            name="extract_chunk",
            description="Extract entities, observations and relations from one chunk of a document, with evidence.",
            prompt="knowledge/extract_chunk",
            input_schema={
                "type": "object",
                "required": ["chunk"],
                "additionalProperties": False,
                "properties": {"chunk": model_schema(Chunk)},
            },
            output_schema=schema_of(TypeAdapter(ChunkRecords), mode="serialization"),
            token_share=0.1,
            tags=frozenset({"text"}),
            expected_seconds=15.0,
            max_items=20_000,
            deterministic=True,
            cache_for=KEPT_SECONDS,
        ),
        show=_shown,
        asks_for=lambda _: ANSWER_SCHEMA,
        finish=_finish,
        suggest=_suggested,
        generate=partial(_generate, model),
        force=lambda params: _as_json(least_records(_chunk(params))),
        code=f"prose {installed_model(model)}, code {source_hash(_READING)}",
    )


_READING: Final = (Path(__file__).parent, Path(__file__).parents[1] / "extraction")
"""Folders of the code that makes records: kept ones of other code are none of this."""


def source_hash(folders: Sequence[Path]) -> str:
    """Return a short hash of the modules in some folders, and of the files of words beside them."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted((*folder.glob("*.py"), *folder.glob("*.toml"))):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _chunk(params: JsonObject) -> Chunk:
    return Chunk.model_validate(params["chunk"])


def _as_json(records: ChunkRecords) -> Json:
    return records.model_dump(mode="json")


def _shown(params: JsonObject, draft: JsonObject) -> JsonObject:
    del draft
    chunk = _chunk(params)
    return {
        "document": chunk.title,
        "headings": [*chunk.headings],
        "names": {one.name: one.type for one in chunk.names},
        "text": chunk.text,
    }


def _generate(model: str, params: JsonObject) -> Json | FallbackFailure:
    chunk = _chunk(params)
    found = generate_records(chunk, prose_reader(model))
    if found is not None:
        return _as_json(found)
    note = prose_note(model, {chunk.document: chunk.text})
    return FallbackFailure(note or "no name stands in the chunk")


def _finish(found: AnswerToFinish) -> Json:
    chunk, faults = _chunk(found.params), list[str]()
    records = {kind: [*_quoted(kind, chunk, found, faults)] for kind in _LISTS}
    if not any(records.values()) or (faults and not found.is_last):
        raise AnswerRefused(
            faults or ["there is no record in it: name at least what the text is about"]
        )
    return _as_json(
        ChunkRecords.model_validate({"chunk": chunk.id, "origin": found.rung, **records})
    )


def _quoted(
    kind: str, chunk: Chunk, found: AnswerToFinish, faults: list[str]
) -> Iterator[dict[str, object]]:
    """Yield the records of a kind with the quotes that stand in the chunk as evidence; note those
    without one.
    """
    for one in _objects(as_object(found.answer).get(kind)):
        quotes = as_list(one.get("quotes"))
        places = [find_quote(str(quote), chunk.text) for quote in quotes]
        evidence = [evidence_of(chunk, Span(*place)) for place in places if place is not None]
        if evidence:
            fields = {name: value for name, value in one.items() if name != "quotes"}
            yield {**fields, "evidence": evidence, "origin": found.rung}
        else:
            faults.append(
                f"no quote of an entry of {kind!r} stands in the text, such as "
                f"{cut_text(str(quotes[0]), 120) if quotes else ''!r}: copy passages to the letter, or leave it out"
            )


def _suggested(params: JsonObject, answer: ModelAnswer) -> Json:
    """Return what a model wrote down instead of an answer: calls of a graph's tools, or parts of
    the answer.

    An entry without quotes is given the first sentence, or two of them, with all of its names.
    """
    said = [call.arguments for call in read_whole_calls(answer.text, answer.calls).calls]
    said += [value for value in read_answer(answer).values if isinstance(value, dict)]
    chunk = _chunk(params)
    found: dict[str, list[Json]] = {kind: [] for kind in _LISTS}
    for part in said:
        for kind in _LISTS:
            for entry in _objects(part.get(kind)):
                for kind_of_entry, one in _plain_entries(kind, entry):
                    quoted = _with_quotes(kind_of_entry, one, chunk)
                    if quoted is not None and quoted not in found[kind_of_entry]:
                        found[kind_of_entry].append(quoted)
    return {**found}


def _plain_entries(kind: str, entry: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Yield an entry in our words; the memory server's has observations within entities, and
    several at once.
    """
    named = {_OTHER_WORDS.get(key, key): value for key, value in entry.items()}
    if kind == "entities":
        for text in as_list(named.pop("observations", None)):
            yield "observations", {"entity": named.get("name"), "text": text}
    if kind == "observations" and "contents" in named:
        for text in as_list(named["contents"]):
            yield "observations", {"entity": named.get("entity"), "text": text}
        return
    yield kind, named


def _with_quotes(kind: str, entry: JsonObject, chunk: Chunk) -> JsonObject | None:
    """Return an entry with quotes; nothing where a field is missing or no sentence has its names."""
    items = as_object(_LISTS[kind]["items"])
    fields, required = as_object(items["properties"]), as_list(items["required"])
    kept = {name: value for name, value in entry.items() if name in fields}
    if kind == "entities":
        kept.setdefault("type", "thing")
    named = [
        kept.get(str(name))
        for name in required
        if name not in {"quotes", "text", "type", "relation"}
    ]
    if not kept.get("quotes") and all(isinstance(name, str) for name in named):
        spans = [*sentence_spans(chunk.text)]
        # "It is a harbour. Mira lives there": two sentences may say what names two things.
        pairs = (
            Span(one.start, other.end)
            for one, other in pairwise(spans)
            if "\n\n" not in chunk.text[one.end : other.start]
        )
        quotes = (chunk.text[span.start : span.end] for span in (*spans, *pairs))
        quote = next((one for one in quotes if all(str(name) in one for name in named)), None)
        kept["quotes"] = [quote[:2000]] if quote else []
    is_whole = all(
        isinstance(kept.get(str(name)), str | list) and kept.get(str(name)) for name in required
    )
    return kept if is_whole else None


def _objects(value: Json) -> Iterator[JsonObject]:
    return (one for one in as_list(value) if isinstance(one, dict))
