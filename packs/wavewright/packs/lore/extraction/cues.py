"""How pages of game worlds tell the fields of records: by the words of `cues.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from wavewright.packs.extraction.blocks import Phrases
from wavewright.packs.extraction.facts import FactCues
from wavewright.packs.extraction.kinds import FACTION, PRESENCES, ZONE
from wavewright.packs.lore.models import LoreCategory


class _WordsOfCues(BaseModel):
    """The form of `cues.toml`."""

    lore_sections: Phrases
    lore_categories: Mapping[LoreCategory, Phrases]
    zone_arc: tuple[FactCues, ...]
    zone: tuple[FactCues, ...]
    npc: tuple[FactCues, ...]
    faction: tuple[FactCues, ...]
    lore_text: tuple[FactCues, ...]
    lore: tuple[FactCues, ...]
    item_story: tuple[FactCues, ...]
    item: tuple[FactCues, ...]


_WORDS: Final = _WordsOfCues.model_validate(
    tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
)
_PATTERNS: Final[Mapping[str, re.Pattern[str]]] = {
    "access_gating": re.compile(
        r"^(?P<value>.*\b(?:cannot be (?:entered|reached)|(?:can|may) (?:only )?be (?:entered|reached) only|"
        r"can only be (?:entered|reached)|opens only|is (?:locked|sealed|barred|closed) (?:until|to|unless)|"
        r"only after)\b.*)",
        re.IGNORECASE | re.DOTALL,
    ),
}
"""Of sentences about a zone, by field."""
PHASE_HEADING: Final = re.compile(r"(?:before|after|during|once|phase|while)\b.*", re.IGNORECASE)
"""Of sections that tell how a zone is at some point of the story."""

PRESENCE: Final = FactCues(
    "present", "target", labels=PRESENCES, headings=PRESENCES, kinds=frozenset({ZONE})
)
"""Where a thing is, told on its own page."""
(ARC,) = _WORDS.zone_arc
ZONE_FACTS: Final = tuple(replace(cues, pattern=_PATTERNS.get(cues.field)) for cues in _WORDS.zone)
ACCESS_LABELS: Final = next(cues.labels for cues in ZONE_FACTS if cues.field == "access_gating")
NPC_FACTS: Final = _WORDS.npc
MEMBERSHIP: Final = next(cues for cues in NPC_FACTS if cues.field == "faction_ids")
"""Of the factions that a character belongs to."""
FACTION_FACTS: Final = (*_WORDS.faction, FactCues("noun", noun_kind=FACTION))
(LORE_TEXT,) = _WORDS.lore_text
LORE_FACTS: Final = _WORDS.lore
LORE_CATEGORIES: Final = _WORDS.lore_categories
LORE_SECTIONS: Final = _WORDS.lore_sections
(ITEM_STORY,) = _WORDS.item_story
ITEM_FACTS: Final = _WORDS.item
