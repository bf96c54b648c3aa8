"""Words by which pages of game worlds tell the fields of records."""

from __future__ import annotations

import re
from typing import Final

from wavewright.packs.extraction.blocks import phrase_set, word_set
from wavewright.packs.extraction.facts import FactCues
from wavewright.packs.extraction.kinds import FACTION, NPC, PRESENCES, ZONE
from wavewright.packs.extraction.relations import MEMBERSHIPS, OWNERS, PARENTS
from wavewright.packs.lore.extraction import levels
from wavewright.packs.lore.models import LoreCategory

PRESENCE: Final = FactCues(
    "present", "target", labels=PRESENCES, headings=PRESENCES, kinds=frozenset({ZONE})
)
"""Where a thing is, told on its own page."""

ARC: Final = FactCues(
    "narrative_arc",
    headings=phrase_set(
        ", overview, description, story, synopsis, plot, summary, narrative, narrative arc, the story"
    ),
)
ACCESS_LABELS: Final = phrase_set(
    "requires, requirements, requirement, access, entry, prerequisites, prerequisite, unlocked by, unlock, needed, "
    "key, how to enter, entry requirements"
)
ZONE_FACTS: Final = (
    FactCues("level_range", labels=levels.LABELS | levels.BARE_LABELS, headings=levels.LABELS),
    FactCues(
        "political_climate",
        "quote",
        labels=phrase_set(
            "government, ruler, rulers, ruled by, governed by, politics, political climate, controlled by, "
            "sovereignty, "
            "political status, lord, territory of, control"
        ),
        headings=phrase_set("politics, political climate, government, rule, power, who rules"),
        pattern=re.compile(
            r"^(?P<value>.*\b(?:(?:is|are|was|were)(?:\s+\w+)?\s+(?:ruled|governed|controlled|administered|claimed|"
            r"contested|disputed)\b|under the (?:rule|control|protection|dominion|authority)\b|council\b|"
            r"independent country|treaty federation|no government).*)",
            re.IGNORECASE | re.DOTALL,
        ),
    ),
    FactCues(
        "access_gating",
        "quote",
        labels=ACCESS_LABELS,
        headings=phrase_set("access, entry, requirements, prerequisites, how to enter, getting in"),
        pattern=re.compile(
            r"^(?P<value>.*\b(?:cannot be (?:entered|reached)|(?:can|may) (?:only )?be (?:entered|reached) only|"
            r"can only be (?:entered|reached)|opens only|is (?:locked|sealed|barred|closed) (?:until|to|unless)|"
            r"only after)\b.*)",
            re.IGNORECASE | re.DOTALL,
        ),
    ),
    FactCues("era", labels=phrase_set("era, age, epoch, period, expansion, year, years, time")),
)
PHASE_HEADING: Final = re.compile(r"(?:before|after|during|once|phase|while)\b.*", re.IGNORECASE)
"""Of sections that tell how a zone is at some point of the story."""

_TRAITS: Final = word_set(
    "aloof ambitious arrogant bitter blunt brave calm cautious cheerful clever cold "
    "compassionate cowardly cruel cunning curious cynical devout dour earnest fearless fierce "
    "forgiving generous gentle gloomy good-natured greedy gruff haughty honest honourable "
    "honorable hot-tempered humble impatient jealous jovial kind kindly lazy loyal melancholy "
    "merciful merciless mild modest noble paranoid patient pious proud quarrelsome quiet "
    "reckless reserved restless ruthless sarcastic secretive selfish shrewd shy sly soft- "
    "spoken stern stubborn superstitious suspicious taciturn talkative timid vain vengeful "
    "wary wise wry"
)
MEMBERSHIP: Final = FactCues(
    "faction_ids",
    "target",
    labels=MEMBERSHIPS,
    verbs=phrase_set(
        "serve, belong to, lead, command, be member of, swear to the, fight for, be leader of, be captain of"
    ),
    kinds=frozenset({FACTION}),
)
"""Of the factions that a character belongs to."""
NPC_FACTS: Final = (
    FactCues(
        "role",
        labels=phrase_set(
            "role, rank, occupation, occupations, profession, position, job, title, office, trade, function, duty, "
            "post, vocation, employment"
        ),
        noun_kind=NPC,
    ),
    FactCues(
        "personality",
        "quote",
        labels=phrase_set(
            "personality, temperament, temper, demeanour, demeanor, traits, nature, disposition, manner"
        ),
        headings=phrase_set("personality, temperament, character, traits, demeanour, demeanor"),
        words=_TRAITS,
    ),
    FactCues(
        "motivations",
        "list",
        labels=phrase_set(
            "motivation, motivations, goal, goals, aim, aims, wants, seeks, desire, desires, ambition"
        ),
        headings=phrase_set("motivation, motivations, goals, aims"),
        verbs=phrase_set(
            "want, seek, hope, long, intend, aim, yearn, plot, wish, strive, vow, swear, dream of, be determined, "
            "search for, look for"
        ),
    ),
    FactCues(
        "quest_threads",
        "list",
        labels=phrase_set(
            "quest, quests, starts, ends, quest giver for, tasks, involved in, gives, missions"
        ),
        headings=phrase_set("quests, tasks, missions, quest threads, errands"),
    ),
    FactCues("phased_state", labels=phrase_set("status, state, fate, condition, phase")),
    MEMBERSHIP,
)
FACTION_FACTS: Final = (
    FactCues("level", labels=phrase_set("type, kind, level, class, form")),
    FactCues(
        "parent_faction_id",
        "target",
        labels=PARENTS,
        verbs=phrase_set(
            "be branch of, be part of, be arm of, be wing of, be chapter of, answer to, belong to"
        ),
        kinds=frozenset({FACTION}),
    ),
    FactCues(
        "allied",
        "target",
        labels=phrase_set("allies, ally, allied with, friends, friendly to"),
        headings=phrase_set("allies"),
        verbs=phrase_set(
            "ally with, ally to, be allied with, be allied to, be ally of, fight beside, support"
        ),
        kinds=frozenset({FACTION}),
    ),
    FactCues(
        "hostile",
        "target",
        labels=phrase_set(
            "enemies, enemy, hostile to, rivals, rival, at war with, opposed to, foes, opponents"
        ),
        headings=phrase_set("enemies, rivals"),
        verbs=phrase_set("be at war with, be hostile to, be enemy of, hate, oppose, fight against"),
        kinds=frozenset({FACTION}),
    ),
    FactCues(
        "neutral",
        "target",
        labels=phrase_set("neutral, neutral to, neutral towards"),
        verbs=phrase_set(
            "be neutral to, be neutral towards, be neutral toward, stay neutral to, stay neutral towards, "
            "remain neutral to, remain neutral towards"
        ),
        kinds=frozenset({FACTION}),
    ),
    FactCues(
        "exclusive_with",
        "target",
        labels=phrase_set(
            "exclusive with, mutually exclusive with, mutually exclusive, excludes, cannot join with"
        ),
        verbs=phrase_set("be mutually exclusive with, take no members of, exclude"),
        kinds=frozenset({FACTION}),
    ),
    FactCues(
        "ideology",
        labels=phrase_set("ideology, belief, beliefs, creed, philosophy, motto, values"),
        headings=phrase_set("ideology, beliefs, creed, philosophy"),
        verbs=phrase_set("believe, believe that, hold that, preach, preach that, teach that"),
    ),
    FactCues(
        "goals",
        "list",
        labels=phrase_set("goal, goals, aim, aims, purpose, objective, objectives"),
        headings=phrase_set("goals, aims, purpose"),
        verbs=phrase_set("seek, aim, want, strive, intend, work to, hope"),
    ),
)
FACTION_NOUN: Final = FactCues("noun", noun_kind=FACTION)
LORE_TEXT: Final = FactCues(
    "content",
    headings=phrase_set(
        ", overview, description, story, summary, text, account, introduction, history, legend, the tale"
    ),
)
LORE_FACTS: Final = (
    FactCues("era", labels=phrase_set("era, age, epoch, period, year, years, date, time")),
)
LORE_CATEGORIES: Final[tuple[tuple[LoreCategory, frozenset[str]], ...]] = (
    (
        "cosmology",
        word_set(
            "cosmology cosmos plane planes heavens sky moon moons world-disc creation universe afterlife"
        ),
    ),
    (
        "mythology",
        word_set(
            "myth myths mythology legend legends god gods goddess prophecy saint spirits folklore"
        ),
    ),
    ("power_source", word_set("magic mana arcane rune runes spell sorcery power")),
    (
        "history",
        word_set(
            "history histories war wars battle chronicle calendar founding rebellion siege era age year years timeline "
            "event events treaty century reign society"
        ),
    ),
)
LORE_SECTIONS: Final = phrase_set(
    "history, mythology, legend, legends, cosmology, origins, origin, myths, myths and legends, history and legends"
)
"""Headings of sections of a zone's page that are lore of their own."""
ITEM_STORY: Final = FactCues(
    "story_arc",
    headings=phrase_set(", overview, description, story, history, legend, origin, lore"),
)
ITEM_FACTS: Final = (
    FactCues(
        "wielder_lineage",
        "list",
        labels=OWNERS | phrase_set("maker, forged by"),
        headings=phrase_set("wielders, owners, bearers, lineage"),
        verbs=phrase_set("wield by, carry by, bear by, own by, hold by, wear by"),
    ),
    FactCues(
        "power_description",
        "quote",
        labels=phrase_set(
            "power, powers, effect, effects, bonus, ability, abilities, enchantment, properties, use"
        ),
        headings=phrase_set("power, powers, effects, abilities, properties"),
        verbs=phrase_set(
            "grant, burn, heal, protect, shield, reveal, open, let, allow, give, cut, ward, turn, absorb"
        ),
    ),
    FactCues(
        "significance",
        labels=phrase_set("rarity, quality, significance, importance, type, kind, class"),
    ),
)
