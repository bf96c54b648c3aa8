"""Words by which rows, lists and sentences tell how two things are related; of no one subject."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from wavewright.tools.extraction.kinds import (
    FACTION,
    FOE,
    ITEM,
    NEIGHBOURS,
    NPC,
    PRESENCES,
    WAYS_IN,
    WAYS_OUT,
    ZONE,
    phrases,
    words,
)

Told: TypeAlias = tuple[str, bool]
"""A relation, and whether it leads from what is named second to what is named first."""

_KIN: Final = (
    "father mother son daughter brother sister husband wife spouse parent child sibling uncle aunt nephew niece cousin "
    "grandfather grandmother mentor teacher master apprentice student pupil servant ally friend companion rival enemy "
    "nemesis lover"
)
KINSHIP: Final = tuple(_KIN.split())
KIN_LABELS: Final[Mapping[str, str]] = {
    **{label: name for name in KINSHIP for label in (name, f"{name}s")},
    "parents": "parent",
    "children": "child",
    "siblings": "sibling",
    "wives": "wife",
    "allies": "ally",
    "enemies": "enemy",
    "family": "family",
    "relatives": "family",
    "relations": "family",
    "partner": "spouse",
    "married to": "spouse",
}
"""Label of a row to what the person that it names is to the subject."""
MEMBERSHIPS: Final = phrases(
    "allegiance, allegiances, affiliation, affiliations, faction, factions, guild, order, member of, serves, "
    "organisation, organization, clan, sworn to, side, team, works for, employer, employed by, company, crew, union, "
    "corporation, memberships, group, groups, loyalty, loyal to"
)
PARENTS: Final = phrases(
    "part of, parent, parent faction, belongs to, subgroup of, branch of, under, answers to"
)
OWNERS: Final = phrases(
    "wielder, wielders, owner, owners, bearer, bearers, carried by, held by, wielded by, keeper, keepers, "
    "previous owners"
)
_LABELS: Final[Mapping[str, Told]] = {
    label: relation
    for relation, labels in (
        (("leads_to", False), WAYS_OUT),
        (("leads_to", True), WAYS_IN),
        (("connects_to", False), NEIGHBOURS),
        (("located_in", False), PRESENCES),
        (("member_of", False), MEMBERSHIPS),
        (
            ("member_of", True),
            phrases("members, known members, notable members, member, membership, ranks"),
        ),
        (("part_of", False), PARENTS),
        (("part_of", True), phrases("contains, consists of, parts, subgroups, branches, chapters, includes")),
        (("leads", False), phrases("leader of, ruler of, commands, leads, rules, captain of")),
        (
            ("leads", True),
            phrases(
                "leader, leaders, led by, ruler, rulers, ruled by, governed by, head, chief, commander, captain, lord"
            ),
        ),
        (("owns", True), OWNERS),
        (("owns", False), phrases("owns, carries, wields, possessions, belongings, carried items")),
        (
            ("made_by", False),
            phrases("maker, makers, made by, forged by, built by, creator, author, authors"),
        ),
    )
    for label in labels
} | {label: (f"{kin}_of" if kin != "family" else "family_of", True) for label, kin in KIN_LABELS.items()}
KIND_PAIRS: Final[Mapping[tuple[str, str], Told]] = {
    **{(ZONE, kind): ("located_in", True) for kind in (NPC, FOE, ITEM)},
    **{(kind, ZONE): ("located_in", False) for kind in (NPC, FOE, ITEM)},
    (FACTION, NPC): ("member_of", True),
    (NPC, FACTION): ("member_of", False),
}
"""What a list on a page about the first kind, of the second kind, says."""
_NO_RELATION: Final = re.compile(
    r"\b(?:see also|mention\w*|related|references?|trivia|notes?|gallery|links?|sources?|external|disambiguation)\b"
)
"""Headings of lists that only point elsewhere."""

_SIDES: Final = r"(?P<side>(?:north|south)-?(?:east|west)?|east|west)"
_DO: Final = (
    r"(?:(?:now|still|also|only|always|openly|secretly|once|today|usually|often|directly|currently)\s+)?"
)
_PLACE: Final = r"(?:in|at|on|near|within|inside|beneath|below|under|above|outside|beside|by)"
_ARTICLE: Final = r"(?:\s+(?:the|an?|its|his|her|their))?\s*"
_HEADS: Final = "leader|head|chief|captain|commander|ruler|king|queen|master|mistress|warden|boss|governor"
_MEMBERS: Final = "member|agent|servant|soldier|follower|officer|recruit|initiate|veteran"
_PARTS: Final = "part|branch|chapter|wing|arm|division|section|district|quarter|component|subsystem|module"
_BE: Final = r"(?:is|are|was|were)"
_VERBS: Final[Mapping[str, Told]] = {
    rf"(?:lies?|stands?|sits?|lying|{_BE})\s+(?:\w+\s+)?(?:to\s+the\s+)?{_SIDES}\s+of": ("", False),
    r"(?:lives?|dwells?|stands?|lies?|sits?|rests?|resides?|works?|sleeps?|hides?|meets?|lived|dwelt|stood|lay)"
    rf"\s+{_PLACE}": ("located_in", False),
    rf"(?:{_BE}|(?:can|may)\s+be)\s+(?:located|situated|found|set|built|hidden|kept|buried|based|stored|met|seen|"
    rf"housed|moored|docked)\s+{_PLACE}": ("located_in", False),
    rf"(?:,|is|was)\s+(?:the|an?)\s+(?:[\w-]+\s+){{1,4}}?{_PLACE}": ("located_in", False),
    r"(?:leads?|opens?|runs?|climbs?|descends?|drops?|goes|winds?)\s+(?:\w+\s+)?(?:to|into|onto|towards?)": (
        "leads_to",
        False,
    ),
    rf"{_BE}\s+reached\s+(?:\w+\s+)?(?:from|by|through|via)": ("leads_to", True),
    rf"(?:borders?|adjoins?|neighbou?rs|(?:connects?|{_BE}\s+(?:connected|linked|joined))\s+(?:to|with)|"
    rf"(?:{_BE}|lies?)\s+(?:next|adjacent|close)\s+to)": ("connects_to", False),
    r"(?:leads|led|commands?|commanded|rules|ruled|heads|headed|governs|governed|runs)": ("leads", False),
    rf"{_BE}\s+(?:led|ruled|governed|commanded|headed|run)\s+by": ("leads", True),
    rf"(?:,|{_BE})\s+(?:the\s+|an?\s+)?(?:[\w-]+\s+){{0,2}}?(?:{_HEADS})\s+of": ("leads", False),
    rf"(?:belongs?\s+to|serves?(?:\s+(?:in|under|with))?|joined|(?:fights?|works?)\s+for|{_BE}\s+sworn\s+to)": (
        "member_of",
        False,
    ),
    rf"(?:,|{_BE})\s+(?:an?\s+|one\s+of\s+the\s+|the\s+)?(?:[\w-]+\s+){{0,2}}?(?:{_MEMBERS})s?\s+of": (
        "member_of",
        False,
    ),
    rf"{_BE}\s+(?:an?\s+|the\s+)?(?:[\w-]+\s+){{0,2}}?(?:{_PARTS})\s+of": ("part_of", False),
    r"(?:contains|includes|comprises)": ("part_of", True),
    r"(?:owns|owned|carries|carried|wields|wielded|holds|bears|keeps|wears)": ("owns", False),
    rf"{_BE}\s+(?:owned|carried|wielded|held|borne|kept|worn)\s+by": ("owns", True),
    rf"{_BE}\s+(?:made|forged|built|written|created|crafted|founded)\s+by": ("made_by", False),
    rf"(?:{_BE}\s+(?:allied\s+(?:with|to)|allies\s+of|friends\s+with)|fights?\s+beside|supports?)": (
        "ally_of",
        False,
    ),
    rf"(?:{_BE}\s+(?:at\s+war\s+with|hostile\s+to|(?:sworn\s+)?enemies\s+of)|hates?|opposes?|fights?(?:\s+against)?)": (
        "enemy_of",
        False,
    ),
}
"""What a verb phrase says; empty where its group `side` does."""
_PATTERNS: Final = tuple(
    (re.compile(f"{_DO}(?:{verb}){_ARTICLE}"), relation) for verb, relation in _VERBS.items()
)
_NOUN_OF: Final = re.compile(
    rf"(?:,|is|was|are|were)\s+(?:the\s+|an?\s+)?(?:[\w-]+\s+){{0,2}}?(?P<noun>[a-z][a-z-]{{2,}})\s+of{_ARTICLE}"
)
_PASSIVE: Final = re.compile(
    rf"(?:is|are|was|were)\s+{_DO}(?P<verb>[a-z]{{3,}}(?:ed|en|wn|lt|pt|ght|de))\s+(?P<with>by|to|with|from|for|in|on){_ARTICLE}"
)
_ACTIVE: Final = re.compile(
    rf"{_DO}(?P<verb>[a-z]{{2,}}[a-z](?:s|ed))(?:\s+(?P<with>to|with|from|for|into|on|upon|through|against|at|in|by))?"
    rf"{_ARTICLE}"
)
_NO_VERBS: Final = words(
    "is was has its his hers this thus as us yes does across towards afterwards besides perhaps always sometimes "
    "unless whereas versus plus minus less needed indeed red hundred theirs ours yours named called"
)
_NO_NOUNS: Final = words("one some many most all any out because instead kind sort type name time")
MAX_VERB_PHRASE: Final = 90
"""Characters."""
_ASIDE: Final = re.compile(r"^\s*,[^,.;]{1,60},\s*")
PATH_SENTENCE: Final = re.compile(
    r"(?:From here,?\s+)?(?:The|A|An|Its|One)\s+(?:[\w-]+\s+){0,2}(?:road|path|way|bridge|tunnel|ferry|gate|stairs?|"
    r"door|trail|track|passage|corridor|lift|ladder|hatch|tram|shuttle)\s+(?:[\w-]+\s+){0,3}?(?:to|into|towards)\s+"
    r"(?:the\s+)?"
)
"""Of the beginning of a sentence about a place, up to where the way that it tells of leads."""
SIDE_SENTENCE: Final = re.compile(
    rf"(?:To|In|On|Towards)\s+the\s+{_SIDES},?\s+(?:is|are|lies?|stands?|rises?|across\s+\w+\s+\w+\s+is)\s+(?:the\s+)?",
    re.IGNORECASE,
)
"""Of the beginning of a sentence about a place, up to what lies on one side of it."""


def label_relation(label: str) -> Told | None:
    """Return what a row's label or a list's heading says of what it names."""
    return _LABELS.get(" ".join(label.casefold().split()))


def points_elsewhere(heading: str) -> bool:
    """Return whether a list under a heading only points to other pages."""
    return _NO_RELATION.search(heading.casefold()) is not None


def verb_relation(text: str, *, is_subject: bool) -> Told | None:
    """Return what the words between two names say, where they are a verb phrase and nothing else.

    Any verb counts where `is_subject`: where the sentence begins with the first name.
    """
    text = " ".join(_ASIDE.sub(" ", text, count=1).split())
    if not text or len(text) > MAX_VERB_PHRASE:
        return None
    for pattern, (relation, is_inverse) in _PATTERNS:
        match = pattern.fullmatch(text)
        if match is not None:
            return relation or f"{match['side'].replace('-', '')}_of", is_inverse
    if not is_subject:
        return None
    noun = _NOUN_OF.fullmatch(text)
    if noun is not None and noun["noun"] not in _NO_NOUNS:
        return f"{noun['noun']}_of", False
    verb = _PASSIVE.fullmatch(text) or _ACTIVE.fullmatch(text)
    if verb is not None and verb["verb"] not in _NO_VERBS:
        return "_".join(filter(None, (verb["verb"], verb["with"]))), False
    return None
