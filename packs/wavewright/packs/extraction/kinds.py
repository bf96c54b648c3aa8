"""Words by which pages tell what a thing is and which places belong together; of no one world."""

from __future__ import annotations

import re
from typing import Final

from wavewright.packs.extraction.blocks import phrase_set, word_set
from wavewright.packs.extraction.entities import KindCues

ZONE: Final = "zone"
NPC: Final = "npc"
FOE: Final = "foe"
FACTION: Final = "faction"
ITEM: Final = "item"
LORE: Final = "lore"
QUEST: Final = "quest"
OTHER: Final = "other"
"""A page about none of these, such as a skill or a recipe."""

WAYS_OUT: Final = phrase_set(
    "leads to, lead to, exits, exit, exits to, ways out, way out, next, next zone, next area, north, south, east, "
    "west, north-east, north-west, south-east, south-west, northeast, northwest, southeast, southwest, up, down, "
    "paths, paths to, roads, roads to, routes, travel, travel to, travel routes, portals, portals to, gates to, "
    "passages, ways on, where to go next, where next, onward, links to, linked to, linked maps, map links, teleports "
    "to, stairs, doors"
)
"""Of rows and headings that say where one can go from a place."""
WAYS_IN: Final = phrase_set(
    "reached from, reached by, previous, previous zone, previous area, access from, entrance from, entered from, ways "
    "in, way in, arrivals from, comes from, accessible from"
)
"""Of rows and headings that say from where one comes to a place."""
NEIGHBOURS: Final = phrase_set(
    "connects to, connected to, connections, connected zones, connected areas, connected locations, adjacent, adjacent "
    "to, adjacent zones, adjacent areas, adjacent regions, adjacent locations, neighbours, neighbors, neighbouring "
    "zones, neighboring zones, neighbouring regions, neighboring regions, neighbouring lands, borders, bordering, "
    "bordering zones, entrances"
)
"""Of rows and headings that say what a place lies beside."""
CONNECTION_LABELS: Final = WAYS_OUT | WAYS_IN | NEIGHBOURS
PRESENCES: Final = phrase_set(
    "found in, appears in, active in, seen in, met in, encountered in, located in, location, locations, home, region, "
    "zone, zones, area, areas, place, places, where, where found, whereabouts, lives in, haunts, hometown, residence, "
    "based in, headquarters, seat, stronghold, origin, setting, dwells in, drops in, obtained in, found at, hiding "
    "place, stationed in, stationed at, posted in, posted to, last seen, last known location, current location, "
    "habitat, habitats, found on, found near, works in, works at, lives at, lives on, base, base of operations, home "
    "town, address, dropped in, sold in, spawns in, workplace"
)
"""Of rows and headings that say where a thing is."""

SPATIAL: Final = re.compile(
    r"^(?!.*\?$)(?!.*\b(?:I|[Ww]e|[Yy]ou|[Oo]ur|[Yy]our|[Mm]y)\b).*(?:"
    r"\b(?:north|south|east|west)(?:-?(?:east|west))?(?:ern|wards?)?\b|"
    r"\b(?:border|bound|adjoin|neighbou?r|adjacent|surround|connect)\w*|\b[Ll](?:ies?|ying)\b|\b(?:situated|located)\b|"
    r"\b(?:coast|shore|delta|rising in|flows?|runs? (?:from|to|into|down)|empties|leads?|road|path|pass|bridge|tunnel|"
    r"stairs?|gate|door|ferry|trail|track|climbs?|descends?|opens?) |\bacross\b|\bbetween\b|\bbeyond\b|\bpart of\b)",
    re.DOTALL,
)
"""Of sentences that say where one place is from another."""

KINDS: Final = (
    KindCues(
        QUEST,
        groups=word_set("quest mission task objective"),
        lists=word_set("quest mission task objective errand"),
        nouns=word_set("quest mission errand"),
    ),
    KindCues(
        FACTION,
        is_told_by_names=True,
        groups=word_set("faction guild organization organisation clan alliance syndicate"),
        lists=word_set(
            "faction guild organization organisation allegiance affiliation membership clan order"
        )
        | phrase_set("member of, members of, belongs to, sworn to, serves"),
        nouns=word_set(
            "faction guild order clan brotherhood sisterhood cult alliance league company syndicate organisation "
            "organization legion sect coven cabal covenant fellowship militia union corporation consortium federation "
            "cartel gang conglomerate tribe corps"
        ),
        labels=word_set(
            "leader leaders members ideology founded founder headquarters goals motto enemies allies rivals"
        ),
    ),
    KindCues(
        ZONE,
        groups=word_set(
            "zone place location map area region land territory dungeon raid city town village geography realm "
            "province scenario level settlement site world geography deck sector district planet room"
        ),
        lists=word_set(
            "zone place location map area region land territory dungeon city town village landmark settlement exit "
            "site deck sector district planet room building"
        )
        | CONNECTION_LABELS
        | PRESENCES,
        nouns=word_set(
            "zone region area city town village hamlet settlement forest wood woodland swamp marsh bog fen desert "
            "mountain range valley vale island isle lake river sea ocean coast cave cavern dungeon ruin fortress fort "
            "castle keep temple tower mine tunnel crypt catacomb tomb province continent plain steppe pass harbour "
            "harbor port outpost camp district quarter realm moor heath glen crater archipelago bay monastery abbey "
            "labyrinth vault farmland highland lowland hill meadow delta wilderness sewer prison citadel kingdom "
            "street square lane alley plaza market bazaar quay pier wharf dock jetty canal bridge gate garden park "
            "cemetery graveyard inn tavern lighthouse mill farm factory warehouse hall chamber room library academy "
            "school hospital arena theatre theater palace manor mansion estate house shipyard station deck ring hangar "
            "bay corridor shaft laboratory colony base sector planet moon asteroid world cliff beach cape headland "
            "peninsula canyon gorge ravine chasm plateau peak summit waterfall spring oasis dune jungle rainforest "
            "thicket grove orchard savanna tundra glacier volcano reef lagoon strait fjord marshland wasteland badland "
            "crossroad trail road pit quarry den lair nest necropolis mausoleum chapel cathedral church shrine "
            "sanctuary ward slum suburb borough hub bunker wreck shipwreck area place location underworld cellar lock "
            "attic basement bathhouse granary stable barn kitchen pond brook creek ford well"
        ),
        labels=phrase_set(
            "level range, levels, recommended level, leads to, reached from, exits, connected zones, connects to, "
            "neighbours, neighbors, borders, climate, population, terrain, capital, ruler, government, access"
        ),
    ),
    KindCues(
        FOE,
        groups=word_set("foe enemy monster creature beast boss bestiary mob fiend opponent"),
        lists=word_set(
            "foe enemy monster creature beast boss bestiary mob fiend opponent danger threat hostile"
        ),
        nouns=word_set(
            "monster creature beast demon skeleton zombie golem wraith fiend drone leech slime vermin parasite"
        ),
    ),
    KindCues(
        NPC,
        are_people=True,
        groups=word_set(
            "npc character person people cast hero figure villager inhabitant biography vendor"
        ),
        lists=word_set(
            "npc character person people cast hero figure villager inhabitant resident merchant vendor trader folk "
            "crew staff personnel passenger citizen denizen local villain companion protagonist antagonist leader "
            "founder ruler owner wielder bearer mentor apprentice who parent father mother brother sister husband wife "
            "spouse son daughter"
        )
        | phrase_set(
            "who is here, who lives here, who you meet, who to meet, quest givers, quest giver"
        ),
        nouns=word_set(
            "man woman boy girl child blacksmith smith merchant trader vendor mage wizard witch sorcerer sorceress "
            "priest priestess knight king queen prince princess lord lady captain commander guard hunter ranger thief "
            "rogue warrior soldier farmer innkeeper healer sage scholar monk nun druid elder chief chieftain mayor "
            "baron baroness duke duchess count countess hermit apprentice miller bard alchemist herbalist guide "
            "warlord champion assassin spy warden keeper abbot abbess widow shepherd fisher fisherman sailor pirate "
            "smuggler miner carpenter weaver ferryman lich necromancer general marshal steward archivist cartographer "
            "cook baker butcher tailor constable officer engineer mechanic pilot doctor surgeon nurse teacher clerk "
            "trooper loader docker porter gardener caretaker detective inspector journalist lawyer judge governor "
            "ambassador senator emperor empress sultan regent heir mercenary gladiator monarch orphan twin bishop "
            "owner leader founder director president minister author writer poet painter architect "
            "oceanographer photographer composer singer actor professor chairman secretary treasurer politician"
        ),
        endings=tuple(
            word_set("ist man woman keeper smith maker monger wright seller mender master")
        ),
        labels=word_set(
            "rank occupation profession race gender sex age allegiance affiliation species personality role father "
            "mother spouse siblings parents born died title"
        ),
    ),
    KindCues(
        ITEM,
        is_told_by_names=True,
        groups=word_set(
            "item artifact artefact relic object equipment weapon armor armour treasure loot gear consumable"
        ),
        lists=word_set(
            "item artifact artefact relic object equipment weapon armor armour treasure loot reward drop thing "
            "curiosity possession valuable keepsake belonging tool"
        ),
        nouns=word_set(
            "sword blade axe bow staff wand ring amulet crown sceptre scepter orb gem gemstone jewel shield armor "
            "armour helm helmet cloak book tome scroll artifact artefact relic weapon item potion key hammer spear "
            "dagger knife horn lantern chalice talisman medallion necklace bell lamp mask compass badge whistle ledger "
            "coin statue idol instrument flute drum harp pistol rifle device machine map letter diary vial flask sabre "
            "spyglass pendant charm boat ship vessel schooner ferry"
        ),
        labels=word_set(
            "wielder wielders owner owners bearer bearers rarity quality effect power damage weight material"
        ),
    ),
    KindCues(
        LORE,
        is_told_by_names=True,
        groups=word_set(
            "lore history legend myth mythology chronicle story book cosmology religion event tale background timeline "
            "encyclopedia encyclopaedia saga codex"
        ),
        lists=word_set(
            "lore history legend myth mythology chronicle story book tale saga event codex cosmology"
        ),
        nouns=word_set(
            "legend myth tale war battle event prophecy chronicle calendar religion era age story song language "
            "festival ritual belief creed uprising rebellion treaty pact disaster collapse flood plague famine "
            "massacre revolt drowning burning"
        ),
    ),
    KindCues(
        OTHER,
        groups=word_set(
            "race species class skill spell ability recipe user talk help special template file unit"
        ),
        lists=word_set(
            "race species class skill spell ability recipe troop unit reference link source note"
        ),
        nouns=word_set("game series wiki website expansion"),
    ),
)
"""What pages are about, in the order in which they are tried."""


def kind_of_word(word: str) -> str | None:
    """Return the kind that a word for a kind of thing names, such as `town`."""
    known = (cue.kind for cue in KINDS if word in cue.groups or word in cue.nouns)
    endings = (cue.kind for cue in KINDS if cue.endings and word.endswith(cue.endings))
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
