"""Records that a text holds in so plain a form that code can read them: JSON, tables, and lines of `key: value`.

Nothing is guessed. A column or a key counts only where its name is a field's, without regard to case and to what
joins its words; a value counts only where it reads as the field's type; a record only where it fits the schema. Every
record knows which stretches of the text it was read from. One pass, linear in the text.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wavewright.config.sources import ReadLimits, Span
from wavewright.planner.language.hashing import canonical_json
from wavewright.planner.reading.json_extraction import find_json
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonObject, JsonSchema
from wavewright.tools.functions.schemas import properties

_LIMITS = ReadLimits(max_bytes=16 * 2**20, max_depth=32)
_DELIMITERS = ("|", "\t", ";", ",")
_RULE = re.compile(r"[|:\- ]*-[|:\- ]*")
_PAIR = re.compile(r"(?:[-*] )?\**(?P<key>[A-Za-z][A-Za-z0-9 _.-]{0,60}?)\**\s*[:=]\s*\**\s*(?P<value>\S.*)")
_JOINTS = re.compile(r"[\s_.-]+")
_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}
_NULL_WORDS = frozenset({"null", "none", "n/a", "-"})


@dataclass(frozen=True, slots=True)
class PlainRecord:
    """A record, and where in the text it was read."""

    record: JsonObject
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class _TextLine:
    """A line without the white space around it, and where it stands."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class _TableHeader:
    """The first line of a table: what separates its columns, and the field of each."""

    mark: str
    columns: tuple[str | None, ...]


def plain_records(text: str, schema: JsonSchema) -> list[PlainRecord]:
    """Return the records of a text that need no understanding: those in JSON, in tables, in pairs, each once."""
    validator = validator_of(schema)
    lines = list(_lines(text))
    distinct: dict[bytes, PlainRecord] = {}
    for found in (
        *_records_in_json(text, schema),
        *_records_in_tables(lines, schema),
        *_records_in_pairs(lines, schema),
    ):
        if found.record and validator.accepts(found.record):
            distinct.setdefault(canonical_json(found.record), found)
    return list(distinct.values())


def _lines(text: str) -> Iterator[_TextLine]:
    offset = 0
    for line in text.splitlines(keepends=True):
        bare = line.strip()
        start = offset + len(line) - len(line.lstrip()) if bare else offset
        yield _TextLine(bare, Span(start, start + len(bare)))
        offset += len(line)


def _records_in_json(text: str, schema: JsonSchema) -> Iterator[PlainRecord]:
    fields = properties(schema).keys()
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


def _records_in_tables(lines: Sequence[_TextLine], schema: JsonSchema) -> Iterator[PlainRecord]:
    header: _TableHeader | None = None
    for line in lines:
        begun = _header(line.text, schema)
        if begun is not None:
            header = begun
        elif header is not None and header.mark in line.text:
            cells = _cells(line.text, header.mark)
            if len(cells) == len(header.columns) and not _RULE.fullmatch(line.text):
                values = dict(zip(header.columns, cells, strict=True))
                yield PlainRecord(_record(values, schema), (line.span,))
        else:
            header = None


def _header(line: str, schema: JsonSchema) -> _TableHeader | None:
    """Return what a line heads, where at least two of its cells are names of fields."""
    mark = next((mark for mark in _DELIMITERS if mark in line), None)
    if mark is None:
        return None
    columns = tuple(_field(cell, schema) for cell in _cells(line, mark))
    return _TableHeader(mark, columns) if sum(column is not None for column in columns) > 1 else None


def _cells(line: str, mark: str) -> list[str]:
    if mark == "|":
        return [cell.strip() for cell in line.strip("|").split("|")]
    try:
        rows = list(csv.reader([line], delimiter=mark, skipinitialspace=True))
    except csv.Error:  # a cell of more than 128 KiB: not a real table
        return []
    return [cell.strip() for cell in rows[0]] if rows else []


def _records_in_pairs(lines: Sequence[_TextLine], schema: JsonSchema) -> Iterator[PlainRecord]:
    """Read `key: value` lines; an empty line, and a key that comes again, begin another record."""
    pairs: dict[str | None, str] = {}
    spans: list[Span] = []
    for line in (*lines, _TextLine("", Span(0, 0))):
        match = _PAIR.fullmatch(line.text)
        field = None if match is None else _field(match["key"], schema)
        if pairs and (not line.text or field in pairs):
            yield PlainRecord(_record(pairs, schema), tuple(spans))
            pairs, spans = {}, []
        if match is not None and field is not None:
            pairs[field] = match["value"]
            spans.append(line.span)


def _field(name: str, schema: JsonSchema) -> str | None:
    """Return the field that a column or a key is called by."""
    wanted = _JOINTS.sub("", name.strip("* `\"'")).casefold()
    return next((field for field in properties(schema) if _JOINTS.sub("", field).casefold() == wanted), None)


def _record(values: dict[str | None, str], schema: JsonSchema) -> JsonObject:
    fields = properties(schema)
    return {
        field: _typed_value(text.strip("`"), fields[field])
        for field, text in values.items()
        if field is not None and text.strip("`")
    }


def _typed_value(text: str, schema: Json) -> Json:
    """Return a text as the field's type, where it reads as such."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    kinds = kind if isinstance(kind, list) else [kind]
    bare = text.replace(",", "")
    if "integer" in kinds and re.fullmatch(r"[+-]?[0-9]{1,15}", bare):
        return int(bare)
    if "number" in kinds and re.fullmatch(r"[+-]?(?:[0-9]{1,15}(?:\.[0-9]{1,15})?|\.[0-9]{1,15})", bare):
        return float(bare)
    if "boolean" in kinds and text.casefold() in _BOOLEANS:
        return _BOOLEANS[text.casefold()]
    return None if "null" in kinds and text.casefold() in _NULL_WORDS else text
