"""Words by which pages of game worlds tell the fields of records."""

from __future__ import annotations

import re
from typing import Final

from wavewright.packs.extraction.blocks import phrase_set, word_set
from wavewright.packs.extraction.facts import FactCues
from wavewright.packs.extraction.kinds import FACTION, PRESENCES, ZONE
from wavewright.packs.extraction.relations import KINSHIP, MEMBERSHIPS, OWNERS, PARENTS
from wavewright.packs.lore.models import LoreCategory

PRESENCE: Final = FactCues(
    "present", "target", labels=PRESENCES, headings=PRESENCES, kinds=frozenset({ZONE})
)
"""Where a thing is, told on its own page."""

_DO: Final = r"(?:\s+(?:now|still|also|only|always|openly|secretly|once))?\s+"


def _said(verbs: str) -> re.Pattern[str]:
    """Return the pattern of `X VERBS value`, up to the end of the clause."""
    return re.compile(rf"^{_DO}(?:{verbs})\s+(?P<value>[^.;!?]+)", re.IGNORECASE)


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
    FactCues(
        "level_range",
        labels=phrase_set(
            "level, levels, level range, recommended level, recommended levels, suggested level, "
            "danger level, difficulty level, threat level, zone level, area level, enemy level, "
            "enemy levels, monster level, monster levels, mob level, mob levels, creature level, "
            "player level, character level, required level, minimum level, level requirement, lvl, lv"
        ),
        pattern=re.compile(
            r"\b(?:levels?|lvls?|lv)\b\.?(?:\s+range)?\s*:?\s*"
            r"(?P<value>\d{1,3}(?:\s*(?:-|–|—|~|to|and|through)\s*(?:levels?\s+)?\d{1,3})?)\b",
            re.IGNORECASE,
        ),
    ),
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

_TRAITS: Final = (
    "aloof|ambitious|arrogant|bitter|blunt|brave|calm|cautious|cheerful|clever|cold|compassionate|cowardly|cruel|"
    "cunning|curious|cynical|devout|dour|earnest|fearless|fierce|forgiving|generous|gentle|gloomy|good-natured|greedy|"
    "gruff|haughty|honest|honourable|honorable|hot-tempered|humble|impatient|jealous|jovial|kind|kindly|lazy|loyal|"
    "melancholy|merciful|merciless|mild|modest|noble|paranoid|patient|pious|proud|quarrelsome|quiet|reckless|reserved|"
    "restless|ruthless|sarcastic|secretive|selfish|shrewd|shy|sly|soft-spoken|stern|stubborn|superstitious|"
    "suspicious|taciturn|talkative|timid|vain|vengeful|wary|wise|wry"
)
MEMBERSHIP: Final = FactCues(
    "faction_ids",
    "target",
    labels=MEMBERSHIPS,
    pattern=_said(
        "serves?|belongs? to|leads?|commands?|is a member of|is sworn to|fights? for|is the leader of"
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
        pattern=re.compile(
            r"^(?:,\s+(?:an?|the)\s+|\s+(?:is|was)\s+(?:the|an?)\s+|,\s+(?=[^,.;()]*(?:\s[—–]|$)))"
            r"(?P<value>[^,.;()—–]{3,80}?)(?=\s+(?:who|that|which)\b|\s*[,.;—–]|$)"
        ),
    ),
    FactCues(
        "personality",
        "quote",
        labels=phrase_set(
            "personality, temperament, temper, demeanour, demeanor, traits, nature, disposition, manner"
        ),
        headings=phrase_set("personality, temperament, character, traits, demeanour, demeanor"),
        pattern=re.compile(
            rf"^(?P<value>{_DO}(?:is|was|remains|seems)\b[^.;]*?\b(?:{_TRAITS})\b[^.;]*)",
            re.IGNORECASE,
        ),
    ),
    FactCues(
        "motivations",
        "list",
        labels=phrase_set(
            "motivation, motivations, goal, goals, aim, aims, wants, seeks, desire, desires, ambition"
        ),
        headings=phrase_set("motivation, motivations, goals, aims"),
        pattern=_said(
            "(?:wants|seeks|hopes|longs|intends|aims|yearns|plots|wishes|strives|vows?|vowed|swore|dreams of|"
            "is determined|is searching for|is looking for)"
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
RELATION_SENTENCE: Final = re.compile(
    rf"^[^.;]*?\b(?:is|was|and|,)\s+(?:the\s+|an?\s+)?(?:\w+\s+)?(?P<type>{'|'.join(KINSHIP)})\s+of\s+(?P<value>[^.;,]+)",
    re.IGNORECASE,
)
FACTION_FACTS: Final = (
    FactCues("level", labels=phrase_set("type, kind, level, class, form")),
    FactCues(
        "parent_faction_id",
        "target",
        labels=PARENTS,
        pattern=_said(
            "is (?:a|the) (?:\\w+ )?(?:branch|part|arm|wing|chapter) of|answers? to|belongs? to"
        ),
        kinds=frozenset({FACTION}),
    ),
    FactCues(
        "allied",
        "target",
        labels=phrase_set("allies, ally, allied with, friends, friendly to"),
        headings=phrase_set("allies"),
        pattern=_said(
            "(?:is|are) allied (?:with|to)|(?:is|are) allies of|fights? beside|supports?"
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
        pattern=_said(
            "(?:is|are) (?:at war with|hostile to|enemies of|sworn enemies of)|hates?|opposes?|fights? against"
        ),
        kinds=frozenset({FACTION}),
    ),
    FactCues(
        "neutral",
        "target",
        labels=phrase_set("neutral, neutral to, neutral towards"),
        pattern=_said("(?:is|are|stays?|remains?) neutral (?:to|towards?)"),
        kinds=frozenset({FACTION}),
    ),
    FactCues(
        "exclusive_with",
        "target",
        labels=phrase_set(
            "exclusive with, mutually exclusive with, mutually exclusive, excludes, cannot join with"
        ),
        pattern=_said(
            "(?:is|are) mutually exclusive with|takes? no (?:members?|one) (?:of|from)|excludes?"
        ),
        kinds=frozenset({FACTION}),
    ),
    FactCues(
        "ideology",
        labels=phrase_set("ideology, belief, beliefs, creed, philosophy, motto, values"),
        headings=phrase_set("ideology, beliefs, creed, philosophy"),
        pattern=_said("believes?(?: that)?|holds? that|preach(?:es)?|teach(?:es)? that"),
    ),
    FactCues(
        "goals",
        "list",
        labels=phrase_set("goal, goals, aim, aims, purpose, objective, objectives"),
        headings=phrase_set("goals, aims, purpose"),
        pattern=_said("(?:seeks?|aims?|wants?|strives?|intends?|works? to|hopes?)"),
    ),
)
FACTION_NOUN: Final = re.compile(
    r"^\s+(?:is|are|was|were)\s+(?:the|an?)\s+(?:[\w-]+\s+){0,3}?(?P<value>guild|order|clan|brotherhood|sisterhood|cult|"
    r"alliance|league|company|syndicate|legion|sect|coven|cabal|covenant|fellowship|militia|major faction)\b",
    re.IGNORECASE,
)
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
        pattern=_said("(?:is|was|were) (?:wielded|carried|borne|owned|held|worn) by"),
    ),
    FactCues(
        "power_description",
        "quote",
        labels=phrase_set(
            "power, powers, effect, effects, bonus, ability, abilities, enchantment, properties, use"
        ),
        headings=phrase_set("power, powers, effects, abilities, properties"),
        pattern=re.compile(
            rf"^(?P<value>[^.;]*?{_DO}(?:grants?|burns?|heals?|protects?|shields?|reveals?|opens?|lets?|allows?|gives?|"
            r"cuts?|wards?|turns?|absorbs?)\b.+)",
            re.IGNORECASE,
        ),
    ),
    FactCues(
        "significance",
        labels=phrase_set("rarity, quality, significance, importance, type, kind, class"),
    ),
)
