"""Records of several sources merged into one a thing, with what they agree on and where they contradict each other.

The confidence of a value comes from counting alone: `a` sources that give it and `d` that give another make
`a / (a + d) · (1 - 0.5 ** a)`. One source carries half; each further one that agrees halves the doubt that is left; a
source counts once, however often it repeats itself.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wavewright.planner.hashing import canonical_json
from wavewright.planner.types import Json, JsonObject

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


def merge_mentions(groups: Sequence[Sequence[RecordMention]], key: str) -> JsonObject:
    """Return merged records, conflicts and the mean confidence of all their values."""
    records: list[Json] = []
    conflicts: list[Json] = []
    figures: list[float] = []
    for group in groups:
        record, found, confidences = _merge_group(group, key)
        records.append(record)
        conflicts += found
        figures += confidences
    mean = round(math.fsum(figures) / len(figures), 4) if figures else 0.0
    return {"records": records, "conflicts": conflicts, "confidence": mean}


def _merge_group(group: Sequence[RecordMention], key: str) -> tuple[JsonObject, list[Json], list[float]]:
    name = _best_name(group)
    names = dict.fromkeys(mention.name for mention in group)
    record: JsonObject = {key: name}
    details: JsonObject = {}
    conflicts: list[Json] = []
    figures: list[float] = []
    for field in dict.fromkeys(field for mention in group for field in mention.record if field != key):
        told = _values_by_source(group, field)
        if not told:
            continue
        (value, agreeing), *others = told
        contradicting = {source for _, against in others for source in against} - set(agreeing)
        confidence = agreement(len(agreeing), len(contradicting))
        record[field] = value
        details[field] = {"confidence": confidence, "sources": [*agreeing]}
        figures.append(confidence)
        if others:
            conflicts.append(_conflict(name, field, told))
    sources = dict.fromkeys(mention.source for mention in group)
    entry: JsonObject = {
        "record": record,
        "names": [*names],
        "sources": [*sources],
        "fields": details,
        # Of a thing of which nothing is told but its name, the sources agree that there is one.
        "confidence": round(math.fsum(figures) / len(figures), 4) if figures else agreement(len(sources), 0),
    }
    return entry, conflicts, figures


def _best_name(group: Sequence[RecordMention]) -> str:
    """Return the name that most sources use; of those the longest, then the first."""
    sources: dict[str, set[str]] = {}
    for mention in group:
        sources.setdefault(mention.name, set()).add(mention.source)
    return max(sources, key=lambda name: (len(sources[name]), len(name)))


def _values_by_source(group: Sequence[RecordMention], field: str) -> list[tuple[Json, tuple[str, ...]]]:
    """Return the different values of a field with who gives them, the one that most sources give first."""
    values: dict[bytes, tuple[Json, dict[str, None]]] = {}
    for mention in group:
        value = mention.record.get(field)
        if value is None or value in ("", [], {}):
            continue
        _, sources = values.setdefault(canonical_json(_comparable(value)), (value, {}))
        sources[mention.source] = None
    told = [(value, tuple(sources)) for value, sources in values.values()]
    return sorted(told, key=lambda one: -len(one[1]))


def _comparable(value: Json) -> Json:
    """Return a value as it is compared: names without case, whole floats as integers, lists without order."""
    if isinstance(value, str):
        return normal_name(value) or value.strip()
    if isinstance(value, float):
        return int(value) if value.is_integer() else round(value, 9)
    if isinstance(value, list):
        return sorted((_comparable(item) for item in value), key=canonical_json)
    if isinstance(value, dict):
        return {name: _comparable(member) for name, member in value.items()}
    return value


def _conflict(name: str, field: str, told: Sequence[tuple[Json, tuple[str, ...]]]) -> JsonObject:
    return {
        "subject": f"{name}: {field}",
        "message": f"the sources give {len(told)} different values of {field!r} for {name!r}",
        "values": [{"value": value, "sources": [*sources]} for value, sources in told],
    }


def group_mentions(mentions: Sequence[RecordMention], same: Mapping[str, str]) -> list[list[RecordMention]]:
    """Return the mentions of each thing together, in the order of first mention.

    `same` says of a normalised name which other one it is an alias of; names that are equal once normalised are one.
    """
    groups: dict[str, list[RecordMention]] = {}
    for mention in mentions:
        name = normal_name(mention.name)
        groups.setdefault(same.get(name, name), []).append(mention)
    return list(groups.values())
