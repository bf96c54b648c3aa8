"""The worker `cross_reference`: records of several sources are merged, with conflicts and a
confidence for each value.

The confidence of a value comes from counting alone: `a` sources that give it and `d` that give
another make `a / (a + d) · (1 - 0.5 ** a)`. One source carries half; each further one that agrees
halves the doubt that is left; a source counts once, however often it repeats itself.

Names that differ only in spelling are one for code. Whether two really different names mean the
same thing is all that a model is asked: it groups names by number, and code does the merging, the
comparing and the counting.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from wavewright.planner import Json, JsonObject, JsonSchema, as_list, as_object, canonical_json
from wavewright.tools import AnswerRefused, AnswerToFinish, ToolError, Worker, WorkerSpec

_ARTICLES = re.compile(r"^(?:the|a|an)\s+")
_NON_WORD = re.compile(r"[^\w]+")


@dataclass(frozen=True, slots=True)
class RecordMention:
    """One source's record of a thing."""

    source: str
    name: str
    record: JsonObject


def normal_name(name: str) -> str:
    """Return a name as it is compared: without case, accents, punctuation and a leading article."""
    folded = unicodedata.normalize("NFKD", name.casefold())
    plain = "".join(char for char in folded if not unicodedata.combining(char))
    words = " ".join(_NON_WORD.sub(" ", plain).split())
    return _ARTICLES.sub("", words) or words


def agreement(agreeing: int, contradicting: int) -> float:
    """Return how far the sources carry a value, from 0 to 1."""
    return round(agreeing / (agreeing + contradicting) * (1 - 0.5**agreeing), 4)


@dataclass(frozen=True, slots=True)
class MergedField:
    """A field of a thing, as its sources tell it."""

    name: str
    claims: Sequence[tuple[Json, tuple[str, ...]]]
    """The different values with who gives them, the one that most sources give first."""

    @property
    def confidence(self) -> float:
        """How far the sources carry the first value."""
        (_, agreeing), *others = self.claims
        contradicting = {source for _, against in others for source in against} - set(agreeing)
        return agreement(len(agreeing), len(contradicting))


@dataclass(frozen=True, slots=True)
class MergedRecord:
    """A thing, as all that name it tell it."""

    name: str
    fields: Sequence[MergedField]
    mentions: Sequence[RecordMention]

    @property
    def sources(self) -> list[str]:
        """Who names it, each once."""
        return [*dict.fromkeys(mention.source for mention in self.mentions)]

    @property
    def confidence(self) -> float:
        """The mean of its fields; of a thing of which nothing is told but its name, how far the
        sources agree that there is one.
        """
        if not self.fields:
            return agreement(len(self.sources), 0)
        return _mean([field.confidence for field in self.fields])


def merged_record(mentions: Sequence[RecordMention], key: str) -> MergedRecord:
    """Return a thing as its mentions tell it; `key` is the field of its name."""
    names = dict.fromkeys(name for mention in mentions for name in mention.record if name != key)
    fields = [MergedField(name, _values_by_source(mentions, name)) for name in names]
    told = [field for field in fields if field.claims]
    return MergedRecord(_best_name(mentions), told, mentions)


def merge_mentions(groups: Sequence[Sequence[RecordMention]], key: str) -> JsonObject:
    """Return merged records, conflicts and the mean confidence of all their values."""
    merged = [merged_record(group, key) for group in groups]
    figures = [field.confidence for record in merged for field in record.fields]
    return {
        "records": [_record_json(record, key) for record in merged],
        "conflicts": [
            _conflict_json(record.name, field)
            for record in merged
            for field in record.fields
            if len(field.claims) > 1
        ],
        "confidence": _mean(figures) if figures else 0.0,
    }


def _mean(figures: Sequence[float]) -> float:
    return round(math.fsum(figures) / len(figures), 4)


def _record_json(merged: MergedRecord, key: str) -> JsonObject:
    record: JsonObject = {key: merged.name}
    details: JsonObject = {}
    for field in merged.fields:
        value, agreeing = field.claims[0]
        record[field.name] = value
        details[field.name] = {"confidence": field.confidence, "sources": [*agreeing]}
    return {
        "record": record,
        "names": [*dict.fromkeys(mention.name for mention in merged.mentions)],
        "sources": [*merged.sources],
        "fields": details,
        "confidence": merged.confidence,
    }


def _conflict_json(name: str, field: MergedField) -> JsonObject:
    count = len(field.claims)
    return {
        "subject": f"{name}: {field.name}",
        "message": f"the sources give {count} different values of {field.name!r} for {name!r}",
        "values": [{"value": value, "sources": [*sources]} for value, sources in field.claims],
    }


def _best_name(group: Sequence[RecordMention]) -> str:
    """Return the name that most sources use; of those the longest, then the first."""
    sources: dict[str, set[str]] = {}
    for mention in group:
        sources.setdefault(mention.name, set()).add(mention.source)
    return max(sources, key=lambda name: (len(sources[name]), len(name)))


def _values_by_source(
    group: Sequence[RecordMention], field: str
) -> list[tuple[Json, tuple[str, ...]]]:
    """Return the different values of a field with who gives them, the one that most sources give
    first.
    """
    values: dict[bytes, tuple[Json, dict[str, None]]] = {}
    for mention in group:
        value = mention.record.get(field)
        if value is None or value in ("", [], {}):
            continue
        _, sources = values.setdefault(canonical_json(_comparable(value)), (value, {}))
        sources[mention.source] = None
    claims = [(value, tuple(sources)) for value, sources in values.values()]
    return sorted(claims, key=lambda one: -len(one[1]))


def _comparable(value: Json) -> Json:
    """Return a value as it is compared: names without case, whole floats as integers, lists without
    order.
    """
    if isinstance(value, str):
        return normal_name(value) or value.strip()
    if isinstance(value, float):
        return int(value) if value.is_integer() else round(value, 9)
    if isinstance(value, list):
        return sorted((_comparable(item) for item in value), key=canonical_json)
    if isinstance(value, dict):
        return {name: _comparable(member) for name, member in value.items()}
    return value


def group_mentions(
    mentions: Sequence[RecordMention], same: Mapping[str, str]
) -> list[list[RecordMention]]:
    """Return the mentions of each thing together, in the order of first mention.

    `same` says of a normalised name which other one it is an alias of; names that are equal once
    normalised are one.
    """
    groups: dict[str, list[RecordMention]] = {}
    for mention in mentions:
        name = normal_name(mention.name)
        groups.setdefault(same.get(name, name), []).append(mention)
    return list(groups.values())


_HINT_WORDS = 12
"""Words of a record that help to tell what its name means."""

_SOURCE_SCHEMA: JsonSchema = {
    "type": "object",
    "required": ["source", "records"],
    "properties": {
        "source": {"type": "string", "minLength": 1, "description": "What the source is called."},
        "records": {"type": "array", "items": {"type": "object"}, "description": "What it says."},
    },
}
_MERGED_SCHEMA: JsonSchema = {
    "type": "object",
    "required": ["record", "names", "sources", "fields", "confidence"],
    "properties": {
        "record": {
            "type": "object",
            "description": "The value of each field that most sources give.",
        },
        "names": {
            "type": "array",
            "items": {"type": "string"},
            "description": "All names that it goes by.",
        },
        "sources": {"type": "array", "items": {"type": "string"}},
        "fields": {
            "type": "object",
            "description": "Of each field, its confidence and the sources that agree.",
        },
        "confidence": {"type": "number", "description": "The mean of its fields' figures."},
    },
}
_CONFLICT_SCHEMA: JsonSchema = {
    "type": "object",
    "required": ["subject", "message", "values"],
    "properties": {
        "subject": {"type": "string"},
        "message": {"type": "string"},
        "values": {"type": "array", "items": {"type": "object"}},
    },
}

CROSS_REFERENCE_SPEC = WorkerSpec(
    name="cross_reference",
    description=(
        "Merge records of several sources, with conflicts and a confidence for each value from the number of "
        "sources that agree."
    ),
    prompt="text/cross_reference",
    input_schema={
        "type": "object",
        "required": ["sources"],
        "additionalProperties": False,
        "properties": {
            "sources": {
                "type": "array",
                "minItems": 1,
                "items": _SOURCE_SCHEMA,
                "description": "Who says what.",
            },
            "key": {
                "type": "string",
                "minLength": 1,
                "description": "Field that names a record; `name` where absent.",
            },
            "subject": {
                "type": ["string", "null"],
                "description": "What kind of things the records are about.",
            },
        },
    },
    output_schema={
        "type": "object",
        "required": ["records", "conflicts", "confidence", "method", "unnamed"],
        "additionalProperties": False,
        "properties": {
            "records": {
                "type": "array",
                "items": _MERGED_SCHEMA,
                "description": "One entry for each thing.",
            },
            "conflicts": {
                "type": "array",
                "items": _CONFLICT_SCHEMA,
                "description": "What the sources disagree on.",
            },
            "confidence": {
                "type": "number",
                "description": "The mean of the figures of all values, from 0 to 1.",
            },
            "unnamed": {
                "type": "integer",
                "description": "Records without a name, which were left out.",
            },
            "method": {
                "enum": ["agent", "suggested", "generated"],
                "description": "Who told which names mean the same: a model, or code by their spelling.",
            },
        },
    },
    token_share=0.1,
    max_input_chars=100_000,
    tags=frozenset({"text", "analysis"}),
    expected_seconds=15.0,
)


def cross_referencer() -> Worker:
    """Return the worker that brings sources together."""
    return Worker(
        CROSS_REFERENCE_SPEC,
        generate=partial(_merged, same={}),
        show=_model_view,
        asks_for=_answer_schema,
        finish=_finish_groups,
    )


def _answer_schema(params: JsonObject) -> JsonSchema:
    del params
    group: JsonSchema = {"type": "array", "minItems": 2, "items": {"type": "integer"}}
    return {
        "type": "object",
        "required": ["same"],
        "additionalProperties": False,
        "properties": {
            "same": {
                "type": "array",
                "items": group,
                "description": "Groups of numbers whose names mean the same thing; who stands alone is left out.",
            }
        },
    }


def _model_view(params: JsonObject, draft: JsonObject) -> JsonObject:
    """Return the distinct names by number, each with who uses it and some words of what is said of
    it.
    """
    del draft
    mentions, _ = _mentions(params)
    by_name: dict[str, list[RecordMention]] = {}
    for mention in mentions:
        by_name.setdefault(normal_name(mention.name), []).append(mention)
    names: list[Json] = [
        {
            "number": number,
            "name": found[0].name,
            "sources": [*dict.fromkeys(mention.source for mention in found)],
            "said": _description_words(found[0].record, _key(params)),
        }
        for number, found in enumerate(by_name.values(), 1)
    ]
    return {"names": names, "subject": params.get("subject")}


def _description_words(record: JsonObject, key: str) -> str:
    texts = [
        f"{field}: {value}"
        for field, value in record.items()
        if field != key and value not in (None, "")
    ]
    return " ".join("; ".join(texts).split()[:_HINT_WORDS])


def _finish_groups(found: AnswerToFinish) -> Json:
    mentions, _ = _mentions(found.params)
    names = list(dict.fromkeys(normal_name(mention.name) for mention in mentions))
    same: dict[str, str] = {}
    for group in as_list(as_object(found.answer)["same"]):
        members = _members(group, names)
        taken = [name for name in members if name in same]
        if taken:
            raise AnswerRefused(
                [f"the name {taken[0]!r} stands in two groups: join them, or choose one"]
            )
        same |= dict.fromkeys(members, members[0])
    return _merged(found.params, same)


def _merged(params: JsonObject, same: Mapping[str, str]) -> Json:
    mentions, unnamed = _mentions(params)
    return {**merge_mentions(group_mentions(mentions, same), _key(params)), "unnamed": unnamed}


def _members(group: Json, names: list[str]) -> list[str]:
    numbers = [number for number in as_list(group) if isinstance(number, int)]
    unknown = [number for number in numbers if not 1 <= number <= len(names)]
    if unknown:
        raise AnswerRefused([f"there is no name {unknown[0]}; the numbers are 1 to {len(names)}"])
    return [names[number - 1] for number in dict.fromkeys(numbers)]


def _mentions(params: JsonObject) -> tuple[list[RecordMention], int]:
    """Return every record with its name and source, and how many had no name.

    Raises:
        ToolError: no record at all has a name.
    """
    key = _key(params)
    found: list[RecordMention] = []
    unnamed = 0
    for source in map(as_object, as_list(params["sources"])):
        for record in map(as_object, as_list(source.get("records"))):
            name = record.get(key)
            if isinstance(name, str) and name.strip():
                found.append(RecordMention(str(source["source"]), name.strip(), record))
            else:
                unnamed += 1
    if unnamed and not found:
        raise ToolError(
            f"none of the {unnamed} records has the field {key!r}",
            hint="set 'key' to the field that names a record",
        )
    return found, unnamed


def _key(params: JsonObject) -> str:
    return str(params.get("key", "name"))
