"""The worker `extract_records`: records of a given shape from a text, each with quotes as evidence.

A model reads the text, and code looks up every quote in it. A quote is *literal* if it occurs in
the text with only white space changed, since line breaks and indents get lost when a text is shown.
A record without any literal quote is sent back, and finally left out and listed as unsupported.

Without a model, code reads records in plain forms: JSON, tables and lines of `key: value`, in
Markdown, HTML or plain text. Nothing is guessed. A column or a key counts only where its name is a
field's, without regard to case and to what joins its words; a value counts only where it reads as
the field's type (`written_values`); a record only where it fits the schema. One
pass, linear in the text.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wavewright.config import ReadLimits, Span
from wavewright.packs.text.html_lines import has_block_tag, html_lines
from wavewright.packs.text.written_values import (
    DECIMAL_COMMA,
    THOUSANDS,
    bare_number,
    in_plain_digits,
    written_date,
)
from wavewright.planner import (
    FallbackFailure,
    InvalidSchemaError,
    Json,
    JsonObject,
    JsonSchema,
    as_list,
    as_object,
    canonical_json,
    find_json,
    validator_of,
)
from wavewright.tools import AnswerRefused, AnswerToFinish, ToolError, Worker, WorkerSpec, cut_text

MIN_QUOTE = 3
"""Characters of a quote that can be evidence of anything."""

_LIMITS = ReadLimits(max_bytes=16 * 2**20, max_depth=32)
_ALIGNED = "  "
"""Between cells that stand below each other: two blanks or more."""
_DELIMITERS = ("|", "\t", ";", ",", _ALIGNED)
_RULE = re.compile(r"[|+:\-= ]*[-=][|+:\-= ]*")
"""The line under the names of a table, or between its rows: `|---|---|`, `+---+---+`."""
_PAIR = re.compile(
    r"(?:[-*] )?\**(?P<key>[A-Za-z][A-Za-z0-9 _.-]{0,60}?)\**\s*[:=]\s*\**\s*(?P<value>\S.*)"
)
_ROW_OF_TWO = re.compile(
    r"\|\s*\**(?P<key>[A-Za-z][A-Za-z0-9 _.-]{0,60}?)\**\s*\|\s*(?P<value>[^|\s][^|]*?)\s*\|?"
)
_JOINTS = re.compile(r"[\s_.-]+")
_CELL_END = re.compile(r"(?<!\\)\|")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_UNIT = re.compile(r"\s*[(\[][^()\[\]]*[)\]]$")
"""Behind the name of a column: `Age (years)`."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,15}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,15}(?:\.[0-9]{1,15})?|\.[0-9]{1,15})")
_QUOTED = re.compile(r"(?P<mark>[\"'])(?P<text>(?:(?!(?P=mark)).)+)(?P=mark)")
_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}
_NULL_WORDS = frozenset({"null", "none", "n/a", "-", "\u2013", "\u2014"})
"""What stands in a cell that holds nothing."""


def find_quote(quote: str, text: str) -> tuple[int, int] | None:
    """Return where a quote stands in a text, the first time, in characters; nothing where it does
    not.
    """
    words = quote.split()
    if len("".join(words)) < MIN_QUOTE:
        return None
    start = text.find(quote)
    if start >= 0:
        return start, start + len(quote)
    found = re.search(r"\s+".join(map(re.escape, words)), text)
    return None if found is None else found.span()


def verify_quotes(quotes: list[str], text: str) -> tuple[list[Json], list[str]]:
    """Return the quotes that stand in the text, as the text has them, with their places; and those
    that do not.
    """
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
            "record_schema": {
                "type": "object",
                "description": "JSON Schema of one record: an object.",
            },
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
    typed_by={"record_schema": "records[*].record"},
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
        raise ToolError(
            f"'record_schema' is no JSON Schema: {error}", hint="fix the schema"
        ) from error
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
    for entry in map(as_object, as_list(as_object(found.answer).get("records"))):
        quotes = [quote for quote in as_list(entry.get("quotes")) if isinstance(quote, str)]
        evidence, missing = verify_quotes(quotes, text)
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
            "evidence": [
                {"quote": text[start:end], "start": start, "end": end} for start, end in one.spans
            ],
        }
        for one in found
    ]
    return {"records": records, "unsupported": [], "source": params.get("source")}


def _join_records(outputs: Sequence[Json]) -> Json:
    """Put the records of all parts together; one that two parts found is kept once, with both
    evidences.
    """
    records: list[JsonObject] = []
    unsupported: list[Json] = []
    source: Json = None
    for output in map(as_object, outputs):
        source = output.get("source")
        unsupported += [one for one in as_list(output["unsupported"]) if one not in unsupported]
        for entry in map(as_object, as_list(output["records"])):
            _merge(entry, records)
    return {"records": [*records], "unsupported": unsupported, "source": source}


def _merge(entry: JsonObject, records: list[JsonObject]) -> None:
    for known in records:
        if known["record"] == entry["record"]:
            evidence = as_list(known["evidence"])
            evidence += [one for one in as_list(entry["evidence"]) if one not in evidence]
            return
    records.append(entry)


@dataclass(frozen=True, slots=True)
class PlainRecord:
    """A record, and where in the text it was read."""

    record: JsonObject
    spans: tuple[Span, ...]


def plain_records(text: str, schema: JsonSchema) -> list[PlainRecord]:
    """Return the records of a text that need no understanding: those in JSON, in tables, in pairs,
    each once.
    """
    validator = validator_of(schema)
    plain = (line for line in _lines(text) if not has_block_tag(line[0]))
    lines = [*plain, ("", Span(0, 0)), *html_lines(text)]
    distinct: dict[bytes, PlainRecord] = {}
    for found in (
        *_records_in_json(text, schema),
        *_records_in_tables(lines, schema),
        *_records_in_pairs(lines, schema),
    ):
        if found.record and validator.accepts(found.record):
            distinct.setdefault(canonical_json(found.record), found)
    return list(distinct.values())


def _lines(text: str) -> Iterator[tuple[str, Span]]:
    """Yield the lines without the white space around them, each with its place."""
    offset = 0
    for line in text.splitlines(keepends=True):
        bare = line.strip()
        start = offset + len(line) - len(line.lstrip()) if bare else offset
        yield bare, Span(start, start + len(bare))
        offset += len(line)


def _fields(schema: JsonSchema) -> JsonObject:
    """Return the schemas of a record's fields by name."""
    return as_object(schema.get("properties"))


def _records_in_json(text: str, schema: JsonSchema) -> Iterator[PlainRecord]:
    fields = _fields(schema).keys()
    for value in find_json(text, limits=_LIMITS).values:
        if value.is_certain:
            for candidate in _objects(value.value):
                if candidate.keys() & fields:
                    yield PlainRecord(candidate, (value.span,))


def _objects(value: Json) -> Iterator[JsonObject]:
    if isinstance(value, dict):
        yield value
        for member in value.values():
            yield from _objects(member)
    elif isinstance(value, list):
        for item in value:
            yield from _objects(item)


def _records_in_tables(
    lines: Sequence[tuple[str, Span]], schema: JsonSchema
) -> Iterator[PlainRecord]:
    mark, columns = "", tuple[str | None, ...]()
    for quoted, span in lines:
        line = quoted.lstrip("> ")
        begun = _header(line, schema)
        if begun is not None:
            mark, columns = begun
        elif mark and _RULE.fullmatch(line):
            continue
        elif mark and mark in line:
            cells = _cells(line, mark)
            if mark == "|":
                # The last cells of a row may be left out.
                cells += [""] * (len(columns) - len(cells))
            if len(cells) == len(columns):
                values = dict(zip(columns, cells, strict=True))
                record = _record(values, schema, prefers_decimal_comma=mark == ";")
                yield PlainRecord(record, (span,))
        else:
            mark = ""


def _header(line: str, schema: JsonSchema) -> tuple[str, tuple[str | None, ...]] | None:
    """Return what separates the columns of a table and the field of each, where a line heads one.

    At least two of its cells are names of fields then.
    """
    mark = next((mark for mark in _DELIMITERS if mark in line), None)
    if mark is None:
        return None
    columns = tuple(_field(cell, schema) for cell in _cells(line, mark))
    return (mark, columns) if sum(column is not None for column in columns) > 1 else None


def _cells(line: str, mark: str) -> list[str]:
    if mark == "|":
        inner = line.removeprefix("|").rstrip().removesuffix("|")
        return [_plain_cell(cell) for cell in _CELL_END.split(inner)]
    if mark == _ALIGNED:
        return re.split(r" {2,}", line)
    try:
        rows = list(csv.reader([line], delimiter=mark, skipinitialspace=True))
    except csv.Error:  # a cell of more than 128 KiB: not a real table
        return []
    return [cell.strip() for cell in rows[0]] if rows else []


def _plain_cell(cell: str) -> str:
    """Return a cell of a Markdown table without its marks and the targets of its links."""
    text = _LINK.sub(r"\1", cell.strip()).replace("\\|", "|").replace("<br>", " ")
    for mark in ("**", "__", "`", "*"):
        if len(text) > 2 * len(mark) and text.startswith(mark) and text.endswith(mark):
            text = text[len(mark) : -len(mark)]
    return text


def _records_in_pairs(
    lines: Sequence[tuple[str, Span]], schema: JsonSchema
) -> Iterator[PlainRecord]:
    """Read `key: value` lines, rows of two cells, and lists of definitions; an empty line, and a
    key that comes again, begin another record.
    """
    pairs: dict[str | None, str] = {}
    spans: list[Span] = []
    is_of_rows = True
    for line, span in (*_with_definitions(lines), ("", Span(0, 0))):
        row = _ROW_OF_TWO.fullmatch(line)
        match = _PAIR.fullmatch(line) or row
        field = None if match is None else _field(match["key"], schema)
        if pairs and (not line or field in pairs):
            if len(pairs) > 1 or not is_of_rows:  # a row alone is more likely the head of a table
                yield PlainRecord(_record(pairs, schema), tuple(spans))
            pairs, spans, is_of_rows = {}, [], True
        if match is not None and field is not None:
            pairs[field] = match["value"]
            spans.append(span)
            is_of_rows = is_of_rows and row is not None


def _with_definitions(lines: Sequence[tuple[str, Span]]) -> Iterator[tuple[str, Span]]:
    """Yield the lines, a term and the definition below it (`Role`, `: Cook`) as one; no empty line
    stands before a term, for the terms of one list belong together.
    """
    texts = [*(line for line, _ in lines), "", ""]
    for at, (line, span) in enumerate(lines):
        is_before_term = not line and texts[at + 2].startswith(": ")
        if texts[at + 1].startswith(": "):
            yield line + texts[at + 1], Span(span.start, lines[at + 1][1].end)
        elif not (line.startswith(": ") or is_before_term):
            yield line, span


def _field(name: str, schema: JsonSchema) -> str | None:
    """Return the field that a column or a key is called by."""
    bare = name.strip("* `\"'")
    wanted = {_JOINTS.sub("", text).casefold() for text in (bare, _UNIT.sub("", bare))}
    return next(
        (field for field in _fields(schema) if _JOINTS.sub("", field).casefold() in wanted), None
    )


def _record(
    values: dict[str | None, str], schema: JsonSchema, *, prefers_decimal_comma: bool = False
) -> JsonObject:
    """Return the fields of a record; semicolons between cells say that `1,234` is a little more than
    one.
    """
    fields = _fields(schema)
    record: JsonObject = {}
    for field, written in values.items():
        text = written.strip("`")
        quoted = _QUOTED.fullmatch(text)
        text = text if quoted is None else quoted["text"]
        if field is None or not text:
            continue
        kinds = _kinds(as_object(fields[field]))
        is_nothing = text.casefold() in _NULL_WORDS
        if is_nothing and "null" in kinds:
            record[field] = None
        elif not is_nothing or not kinds or "string" in kinds:
            record[field] = _typed_value(
                text, as_object(fields[field]), prefers_decimal_comma=prefers_decimal_comma
            )
        # What says that there is nothing is no number: the field is absent, as with an empty cell.
    return record


def _kinds(schema: JsonObject) -> list[Json]:
    """Return the types that a field may have; none where its schema names none."""
    kind = schema.get("type", [])
    return kind if isinstance(kind, list) else [kind]


def _typed_value(text: str, schema: JsonObject, *, prefers_decimal_comma: bool) -> Json:
    """Return a text as one of the types, where it reads as such."""
    kinds, number = _kinds(schema), bare_number(text.rstrip(","))
    # `1,234` may be both; it is no decimal where the field has none.
    is_open = THOUSANDS.fullmatch(number) is not None
    has_decimal_comma = DECIMAL_COMMA.fullmatch(number) is not None and (
        not is_open or (prefers_decimal_comma and "number" in kinds)
    )
    bare = in_plain_digits(number, has_decimal_comma=has_decimal_comma)
    if "integer" in kinds and _INTEGER.fullmatch(bare):
        return int(bare)
    if "number" in kinds and _NUMBER.fullmatch(bare):
        return float(bare)
    if schema.get("format") == "date" and (date := written_date(text)) is not None:
        return date.isoformat()
    if "boolean" in kinds and text.casefold() in _BOOLEANS:
        return _BOOLEANS[text.casefold()]
    return text
