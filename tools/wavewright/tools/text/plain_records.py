"""Records that a text holds in so plain a form that code can read them: JSON, tables, and lines of `key: value`.

Nothing is guessed. A column or a key counts only where its name is a field's, without regard to case and to what
joins its words; a value counts only where it reads as the field's type; a record only where it fits the schema.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass

from wavewright.config.documents import ReadLimits
from wavewright.planner.json_in_text import json_in_text
from wavewright.planner.types import Json, JsonObject, JsonSchema
from wavewright.planner.validators import validator_of
from wavewright.tools.workers.specs import properties

_LIMITS = ReadLimits(max_bytes=16 * 2**20, max_depth=32)
_RULE = re.compile(r"\s*\|?\s*:?-{2,}:?\s*(\|\s*:?-{2,}:?\s*)*\|?\s*")
_PAIR = re.compile(
    r"\s*(?:[-*]\s+)?\**(?P<key>[A-Za-z][A-Za-z0-9 _.-]{0,60}?)\**\s*[:=]\s*\**\s*(?P<value>\S.*?)\s*"
)
_JOINTS = re.compile(r"[\s_.-]+")
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True, slots=True)
class PlainRecord:
    """A record with the stretch of text that it was read from."""

    record: JsonObject
    quote: str


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    cells: tuple[str, ...] = ()


def plain_records(text: str, schema: JsonSchema) -> list[PlainRecord]:
    """Return the records of a text that need no understanding, each once, in the order of the text's forms."""
    validator = validator_of(schema)
    distinct: dict[str, PlainRecord] = {}
    for found in (*_of_json(text, schema), *_of_tables(text, schema), *_of_pairs(text, schema)):
        if found.record and validator.accepts(found.record):
            distinct.setdefault(repr(sorted(found.record.items(), key=str)), found)
    return list(distinct.values())


def _of_json(text: str, schema: JsonSchema) -> Iterator[PlainRecord]:
    validator = validator_of(schema)
    for value in json_in_text(text, limits=_LIMITS).values:
        if not value.is_certain:
            continue
        quote = text[value.span.start : value.span.end]
        for candidate in _objects(value.value):
            if validator.accepts(candidate) and _names_a_field(candidate, schema):
                yield PlainRecord(candidate, quote)


def _objects(value: Json) -> Iterator[JsonObject]:
    if isinstance(value, dict):
        yield value
        for member in value.values():
            yield from _objects(member)
    elif isinstance(value, list):
        for item in value:
            yield from _objects(item)


def _names_a_field(candidate: JsonObject, schema: JsonSchema) -> bool:
    return bool(candidate.keys() & properties(schema).keys())


def _of_tables(text: str, schema: JsonSchema) -> Iterator[PlainRecord]:
    lines = text.splitlines()
    for place, line in enumerate(lines):
        mark = next((mark for mark in ("|", "\t", ";", ",") if mark in line), None)
        columns = [_field(cell, schema) for cell in _cells(line, mark)] if mark is not None else []
        if mark is None or sum(column is not None for column in columns) < 2:
            continue
        for row in lines[place + 1 :]:
            if mark not in row:
                break
            cells = _cells(row, mark)
            if not _RULE.fullmatch(row) and len(cells) == len(columns):
                yield PlainRecord(_record(dict(zip(columns, cells, strict=True)), schema), row.strip())


def _cells(line: str, mark: str) -> list[str]:
    if mark == "|":
        return [cell.strip() for cell in line.strip().strip("|").split("|")]
    rows = list(csv.reader([line], delimiter=mark, skipinitialspace=True))
    return [cell.strip() for cell in rows[0]] if rows else []


def _of_pairs(text: str, schema: JsonSchema) -> Iterator[PlainRecord]:
    """Read paragraphs of `key: value` lines; a key that comes again begins another record."""
    for paragraph in re.split(r"\n\s*\n", text):
        pairs: dict[str | None, str] = {}
        quoted: list[str] = []
        for line in paragraph.splitlines():
            match = _PAIR.fullmatch(line)
            field = None if match is None else _field(match["key"], schema)
            if match is None or field is None:
                continue
            if field in pairs:
                yield PlainRecord(_record(pairs, schema), "\n".join(quoted))
                pairs, quoted = {}, []
            pairs[field] = match["value"]
            quoted.append(line.strip())
        if pairs:
            yield PlainRecord(_record(pairs, schema), "\n".join(quoted))


def _field(name: str, schema: JsonSchema) -> str | None:
    """Return the field that a column or a key is called by."""
    wanted = _JOINTS.sub("", name.strip("* `\"'")).casefold()
    return next((field for field in properties(schema) if _JOINTS.sub("", field).casefold() == wanted), None)


def _record(values: dict[str | None, str], schema: JsonSchema) -> JsonObject:
    fields = properties(schema)
    record: JsonObject = {}
    for field, text in values.items():
        if field is not None and text:
            record[field] = _typed(text.strip("`"), fields[field])
    return record


def _typed(text: str, schema: Json) -> Json:
    """Return a text as the field's type, where it reads as such."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    kinds = kind if isinstance(kind, list) else [kind]
    bare = text.replace(",", "")
    if "integer" in kinds and re.fullmatch(r"[+-]?\d{1,15}", bare):
        return int(bare)
    if "number" in kinds and re.fullmatch(r"[+-]?(?:\d{1,15}(?:\.\d{1,15})?|\.\d{1,15})", bare):
        return float(bare)
    if "boolean" in kinds and text.casefold() in _TRUTHS:
        return _TRUTHS[text.casefold()]
    if "null" in kinds and text.casefold() in {"null", "none", "n/a", "-"}:
        return None
    return text
