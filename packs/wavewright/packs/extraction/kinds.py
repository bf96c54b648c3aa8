"""What a thing is and which places belong together, by the words of pages (`kinds.toml`); of no one
world.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from wavewright.packs.extraction.blocks import Phrases
from wavewright.packs.extraction.entities import KindCues

ZONE: Final = "zone"
NPC: Final = "npc"
FOE: Final = "foe"
FACTION: Final = "faction"
ITEM: Final = "item"
LORE: Final = "lore"
OTHER: Final = "other"
"""A page about none of these, such as a skill or a recipe."""


class _WordsOfKinds(BaseModel):
    """The form of `kinds.toml`."""

    labels: Mapping[str, Phrases]
    kinds: tuple[KindCues, ...]


_WORDS: Final = _WordsOfKinds.model_validate(
    tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
)
LABELS: Final = _WORDS.labels
"""Labels of rows and headings of lists, by what they say of the things that they name."""
WAYS_IN: Final = LABELS["ways_in"]
NEIGHBOURS: Final = LABELS["neighbours"]
CONNECTION_LABELS: Final = LABELS["ways_out"] | WAYS_IN | NEIGHBOURS
PRESENCES: Final = LABELS["presences"]

SPATIAL: Final = re.compile(
    r"^(?!.*\?$)(?!.*\b(?:I|[Ww]e|[Yy]ou|[Oo]ur|[Yy]our|[Mm]y)\b).*(?:"
    r"\b(?:north|south|east|west)(?:-?(?:east|west))?(?:ern|wards?)?\b|"
    r"\b(?:border|bound|adjoin|neighbou?r|adjacent|surround|connect)\w*|\b[Ll](?:ies?|ying)\b|\b(?:situated|located)\b|"
    r"\b(?:[Ss]hips? sails?|[Bb]oats? (?:go|goes|run|sails?)|"
    r"coast|shore|delta|rising in|flows?|runs? (?:from|to|into|down)|empties|leads?|road|path|pass|bridge|tunnel|"
    r"stairs?|gate|door|ferry|trail|track|climbs?|descends?|opens?) |\bacross\b|\bbetween\b|\bbeyond\b|\bpart of\b)",
    re.DOTALL,
)
"""Of sentences that say where one place is from another."""

KINDS: Final = tuple(
    replace(cues, lists=cues.lists | CONNECTION_LABELS | PRESENCES) if cues.kind == ZONE else cues
    for cues in _WORDS.kinds
)
"""What pages are about, in the order in which they are tried."""


def kind_of_word(word: str) -> str | None:
    """Return the kind that a word for a kind of thing names, such as `town`."""
    known = (cue.kind for cue in KINDS if word in cue.groups or word in cue.nouns)
    endings = (cue.kind for cue in KINDS if word.endswith((*cue.endings,)))
    return next(known, None) or next(endings, None)


_TYPES: Final = {
    NPC: "person",
    FOE: "creature",
    ZONE: "place",
    FACTION: "organization",
}


def type_of_kind(kind: str) -> str:
    """Return the word by which graphs call things of a kind."""
    return _TYPES.get(kind, kind)


def type_of_noun(noun: str) -> str:
    """Return the type that a noun tells, such as `place` for `town`: the noun itself where it is of
    no kind that is known.
    """
    kind = kind_of_word(noun)
    return noun if kind is None or kind not in _TYPES else _TYPES[kind]
