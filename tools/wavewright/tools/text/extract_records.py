"""The worker `extract_records`: records of a given shape from a text, each with quotes as evidence.

A model reads the text, and code looks up every quote in it. A quote is *literal* if it occurs in the text with only
white space changed, since line breaks and indents get lost when a text is shown. A record without any literal quote is
sent back, and finally left out and listed as unsupported. Without a model, JSON, tables and lines of `key: value` are
read by code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from wavewright.planner.ports.fallback_ladder import FallbackFailure
from wavewright.planner.schemas.validation import InvalidSchemaError, validator_of
from wavewright.planner.types import Json, JsonObject, JsonSchema, as_list
from wavewright.tools.functions.tool import ToolError
from wavewright.tools.text.plain_records import plain_records
from wavewright.tools.workers.long_inputs import cut_text
from wavewright.tools.workers.specs import AnswerRefused, AnswerToFinish, Worker, WorkerSpec

MIN_QUOTE = 3
"""Characters of a quote that can be evidence of anything."""


def find_quote(quote: str, text: str) -> tuple[int, int] | None:
    """Return where a quote stands in a text, the first time, in characters; nothing where it does not."""
    words = quote.split()
    if len("".join(words)) < MIN_QUOTE:
        return None
    start = text.find(quote)
    if start >= 0:
        return start, start + len(quote)
    found = re.search(r"\s+".join(map(re.escape, words)), text)
    return None if found is None else found.span()


def verify_quotes(quotes: list[str], text: str) -> tuple[list[Json], list[str]]:
    """Return the quotes that stand in the text, as the text has them, with their places; and those that do not."""
    found: list[Json] = []
    missing: list[str] = []
    for quote in dict.fromkeys(quotes):
        place = find_quote(quote, text)
        if place is None:
            missing.append(quote)
        else:
            start, end = place
            entry: JsonObject = {"quote": text[start:end], "start": start, "end": end}
            found.append(entry)
    return found, missing


_RECORD_SCHEMA: JsonSchema = {
    "type": "object",
    "required": ["record", "evidence"],
    "additionalProperties": False,
    "properties": {
        "record": {"type": "object", "description": "The record, of the wanted shape."},
        "evidence": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["quote", "start", "end"],
                "properties": {
                    "quote": {"type": "string"},
                    "start": {"type": "integer"},
                    "end": {"type": "integer"},
                },
            },
            "description": "Quotes of the text, with their places in characters.",
        },
    },
}

EXTRACT_RECORDS_SPEC = WorkerSpec(
    name="extract_records",
    description="Extract records of a wanted shape from a text, each with literal quotes as evidence.",
    prompt="text/extract_records",
    input_schema={
        "type": "object",
        "required": ["text", "record_schema"],
        "additionalProperties": False,
        "properties": {
            "text": {"type": "string", "minLength": 1, "description": "The text."},
            "record_schema": {"type": "object", "description": "JSON Schema of one record: an object."},
            "instructions": {
                "type": ["string", "null"],
                "description": "What counts as a record, and what does not.",
            },
            "source": {"type": ["string", "null"], "description": "What the text is called."},
        },
    },
    output_schema={
        "type": "object",
        "required": ["records", "unsupported", "method", "source"],
        "additionalProperties": False,
        "properties": {
            "records": {
                "type": "array",
                "items": _RECORD_SCHEMA,
                "description": "What was found, with evidence.",
            },
            "unsupported": {
                "type": "array",
                "items": {"type": "object"},
                "description": "Records that the model named without a quote that stands in the text; not to be used.",
            },
            "method": {
                "enum": ["agent", "suggested", "generated"],
                "description": "How they were found: by a model, among a model's words, by code.",
            },
            "source": {"type": ["string", "null"]},
        },
    },
    token_share=0.3,
    max_input_chars=100_000,
    longer_inputs="parts",
    parts_of="text",
    tags=frozenset({"text"}),
    expected_seconds=25.0,
)


def extractor() -> Worker:
    """Return the worker that extracts records."""
    return Worker(
        EXTRACT_RECORDS_SPEC,
        generate=_generate_records,
        asks_for=_answer_schema,
        finish=_finish_records,
        join=_join_records,
    )


def _record_schema(params: JsonObject) -> JsonSchema:
    """Return the schema of one record.

    Raises:
        ToolError: it is no schema of an object.
    """
    schema = params["record_schema"]
    try:
        if not isinstance(schema, dict) or schema.get("type", "object") != "object":
            raise ToolError(
                "'record_schema' must be the JSON Schema of an object",
                hint="such as {type: object, required: [name], properties: {name: {type: string}}}",
            )
        validator_of(schema)
    except InvalidSchemaError as error:
        raise ToolError(f"'record_schema' is no JSON Schema: {error}", hint="fix the schema") from error
    return {"type": "object", **schema}


def _answer_schema(params: JsonObject) -> JsonSchema:
    entry: JsonSchema = {
        "type": "object",
        "required": ["record", "quotes"],
        "additionalProperties": False,
        "properties": {
            "record": _record_schema(params),
            "quotes": {
                "type": "array",
                "minItems": 1,
                "items": {"type": "string", "minLength": MIN_QUOTE, "maxLength": 2000},
                "description": "Passages of the text, copied to the letter, that say what the record says.",
            },
        },
    }
    return {
        "type": "object",
        "required": ["records"],
        "additionalProperties": False,
        "properties": {"records": {"type": "array", "items": entry}},
    }


def _finish_records(found: AnswerToFinish) -> Json:
    text = str(found.params["text"])
    records: list[Json] = []
    unsupported: list[Json] = []
    faults: list[str] = []
    for entry in _entries(found.answer):
        evidence, missing = verify_quotes(_texts(entry.get("quotes")), text)
        if evidence:
            records.append({"record": entry["record"], "evidence": evidence})
        else:
            unsupported.append(entry["record"])
            faults.append(
                f"no quote of record {len(records) + len(unsupported)} stands in the text, such as "
                f"{cut_text(missing[0], 120) if missing else ''!r}: copy passages to the letter, or leave it out"
            )
    if faults and (not found.is_last or not records):
        raise AnswerRefused(faults)
    return {"records": records, "unsupported": unsupported, "source": found.params.get("source")}


def _generate_records(params: JsonObject) -> Json | FallbackFailure:
    text = str(params["text"])
    found = plain_records(text, _record_schema(params))
    if not found:
        return FallbackFailure(
            "the text holds no JSON, table or lines of `key: value` that fit the record's schema"
        )
    records: list[Json] = [
        {
            "record": one.record,
            "evidence": [{"quote": text[start:end], "start": start, "end": end} for start, end in one.spans],
        }
        for one in found
    ]
    return {"records": records, "unsupported": [], "source": params.get("source")}


def _join_records(outputs: Sequence[Json]) -> Json:
    """Put the records of all parts together; one that two parts found is kept once, with both evidences."""
    records: list[Json] = []
    unsupported: list[Json] = []
    source: Json = None
    for output in outputs:
        assert isinstance(output, dict)
        source = output.get("source")
        unsupported += [one for one in as_list(output["unsupported"]) if one not in unsupported]
        for entry in as_list(output["records"]):
            _merge(entry, records)
    return {"records": records, "unsupported": unsupported, "source": source}


def _merge(entry: Json, records: list[Json]) -> None:
    assert isinstance(entry, dict)
    for known in records:
        if isinstance(known, dict) and known["record"] == entry["record"]:
            evidence = as_list(known["evidence"])
            evidence += [one for one in as_list(entry["evidence"]) if one not in evidence]
            return
    records.append(entry)


def _entries(answer: Json) -> list[JsonObject]:
    found = answer.get("records") if isinstance(answer, dict) else None
    return [entry for entry in as_list(found) if isinstance(entry, dict)]


def _texts(value: Json) -> list[str]:
    return [text for text in as_list(value) if isinstance(text, str)]
