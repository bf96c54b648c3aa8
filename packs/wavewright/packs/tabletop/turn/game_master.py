"""The rule-based game master: plays every agent without a model, by words that it knows. It says
that it is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from wavewright.packs.tabletop.game.state import (
    Creature,
    GameState,
    describe_party,
    describe_scene,
    handing,
    options_of,
)
from wavewright.packs.tabletop.game.world import GOLD, PLAYER
from wavewright.packs.tabletop.turn.agents import AgentRequest, ToolUser
from wavewright.packs.tabletop.turn.context import unwrapped_action
from wavewright.packs.tabletop.turn.wording import (
    DENIAL,
    NUMBERS,
    asks,
    corrected,
    count_in,
    is_nearly,
    named_in,
    says_nothing_more,
    without_courtesy,
    words_of,
)
from wavewright.planner import JsonObject
from wavewright.tools import ToolError

INTRODUCTION: Final = (
    "No language model is configured: a rule-based game master plays with you. It understands words such as look, "
    "go to, talk to, attack, buy, give, drink and roll, the suggestions below, and create place NAME: DESCRIPTION."
)
_FIGHT: Final = re.compile(r"\b(?:attack|fight|strike|hit|kill|shoot)\b")
_GO: Final = re.compile(
    r"\b(?:go|goes|move|walk|head|run|enter|travel|climb|return|leave|exit|visit|approach|proceed|step|"
    r"(?:take|bring|lead) (?:me|us|\w+(?= (?:back )?to\b)))\b"
    r"(?:\s+(?:(?:in|on)?to\b|towards?\b|through\b|(?:up|down|over)(?=\s)|out(?:side)?\b|back\b))*"
    r"(?:\s+the\b)?(?P<where>.*)"
)
_LEAVE: Final = re.compile(
    r"(?:leave|exit)\b(?P<left>.*?)(?:\b(?:for|to|towards?|through)\b(?P<where>.*))?$"
)
_ASIDE: Final = re.compile(r"\bfrom\b.*?(?=\bto\b|$)|\bwith\b.*")
"""Where one comes from and who comes along, told beside where one goes."""
_THROUGH: Final = re.compile(r"(\bthrough\s+\S.*?)\s+(?=to\b)")
"""A way over a place: two ways, one after the other."""
_ROLL: Final = re.compile(
    r"(?:\b(?:roll|throw)\b.*?|^\W*)(?P<dice>\d*d\d+(?:\s*[+-]\s*\d+)?)(?:\s+for\s+(?P<reason>.{1,100}))?"
)
_LOOK: Final = re.compile(r"\b(?:look|see|search|examine|inspect|read|where|wait)\b")
_OWN: Final = re.compile(
    r"\b(?:inventory|carry|carrying|my (?:bag|pack|things|stuff|gold|health|hit points)|do i have)\b|"
    r"^\W*(?:i|status)\W*$"
)
_GREETING: Final = re.compile(r"\W*(?:hello|hi|hey|greetings|good \w+)\W*$")
_LOOK_AT: Final = re.compile(
    r"\b(?:look|search|examine|inspect|read)\b(?:\s+(?:at|in|into|under|behind|for|through|inside|around|on|over)\b)*"
    r"(?:\s+(?:the|my|an?)\b)?\s*(?P<what>[^.!?]*)"
)
_HELP: Final = re.compile(
    r"^\W*help\b|\bwhat (?:can|could|should|may) (?:i|we) do\b|^\W*who are you\b|"
    r"\bhow (?:do|does|can) (?:i|we|this|it) (?:play|work)"
)
_REPEAT: Final = re.compile(
    r"\bwhat (?:did|was it) (?:\w+ ){1,2}(?:say|said|tell|told)\b|"
    r"\b(?:say|tell me|repeat) (?:it|that)\b|^\W*(?:repeat|pardon|again)\b"
)
_DRINK: Final = re.compile(r"\b(?:drink|quaff|use|swallow)\b(?P<what>.*)")
_TRADE: Final = re.compile(
    r"\b(?:buy|sell|sale|price|prices|costs?|pay|hire|wages|goods|trade|how much)\b"
)
_FAREWELL: Final = re.compile(r"\b(?:bye|goodbye|farewell|leave|see you)\b")
_BUY: Final = re.compile(
    r"\b(?:buy|purchase|sell me|give me)\b|\bi(?:['’]d| would) (?:like|love)\b(?! to\b)|"
    r"\bi(?:['’]ll| will) (?:take|have)\b|\b(?:can|may|could) i (?:have|get)\b|"
    rf"^(?:yes\W+)?(?=(?:another|\d+|{'|'.join(NUMBERS)})\b.*\bplease\b)"
)
_CHEAPEST: Final = re.compile(r"\b(?:cheapest|least expensive)\b")
_DEAREST: Final = re.compile(r"\b(?:dearest|most expensive)\b")
_HAND: Final = re.compile(
    r"\b(?:give|pay|hand|hire)\b(?! (?:up|in|me)\b)|^\W*here(?:['’]s| is| are)\b(?!.*\?)"
)
_HIRE: Final = re.compile(r"\bhire\b")
_OF_GOLD: Final = re.compile(rf"\b(?:\d+|{'|'.join(NUMBERS)}|pay|wages)\b")
"""What is handed over where nothing is named: a number, or payment."""
_OF_TRADE: Final = frozenset(
    {
        "from",
        "off",
        "to",
        "for",
        "him",
        "her",
        "them",
        "would",
        "like",
        "want",
        "gold",
        "wages",
        *NUMBERS,
    }
)
"""Words beside a trade that name nothing that is traded."""
_ONWARD: Final = re.compile(
    r"(?:to|through|into|back|up|down|out|toward|towards|at|i(?!['’]))\b(?!.*\?)"
)
"""How a message begins that says what the player does, and asks nothing."""


_OWNED: Final = re.compile(r"\w['’]s\b")
"""A name that tells whose something is: "Mira's hut"."""
_TALK: Final = re.compile(r"(?:talk|speak|chat|ask|tell|greet)\b")
_ACTIONS: Final = (_FIGHT, _GO, _DRINK, _BUY, _HAND, _ROLL, _LOOK, _TALK)
_OF_EACH: Final = re.compile(
    rf"(?:{_BUY.pattern})|(?:attack|strike|hit|kill|shoot|drink|quaff|use|swallow|go|move|walk|head|run|travel|"
    r"return|look at|examine|inspect|read)\b|(?:give|hand)\b(?:\s+(?!(?:an?|the|my|some|over)\b)[a-z]+(?=\s))?"
)
"""The verbs that may have several things behind them; "give" with whom it is given to."""
_ANOTHER: Final = re.compile(
    rf"(?:an?|the|some|another|(?:on |back |in)?to|through|back|\d+|{'|'.join(NUMBERS)})\b"
)
"""How the second of two things begins."""
_NEXT: Final = re.compile(
    r"(\s*(?:[,;.!]\s*)?(?:\b(?:and then|and|then)|&)\s+|\s*[;.!]\s+(?:then\s+)?|\s*\n\s*(?:then\s+)?|,\s+)",
    re.IGNORECASE,
)
"""What stands between two things that are to be done."""
_LEADING: Final = re.compile(
    r"^(?:(?:ok|okay|please|now|first|so|let(?:['’]s| us)|(?:can|could|may) (?:i|we|you)|(?:i|we)(?:['’](?:d|ll|m|re))?"
    r"(?: (?:will|would|want|like|love|wish|try|need|am|are|going|shall|must))*(?: to)?)\b\W*)+"
)
"""Words before the verb of what is to be done."""
_VERBS: Final = (
    "attack", "drink", "travel", "climb", "return", "examine", "inspect", "search", "inventory",
)  # fmt: skip
"""Words that are understood with a slip of the pen: they are long, and near to no other word."""


class IntendedCall(NamedTuple):
    """The call of a tool that a message asks for, allowed or not."""

    tool: str
    params: JsonObject


async def narrate(request: AgentRequest, tools: ToolUser) -> str:
    """Answer outside a fight: do what the message says, and tell what happened or what is to be
    seen.
    """
    if not request.by_player:
        return describe_scene(tools.table.state)
    first, *others = _actions_of(request.message)
    told, is_done = await _act(first, tools)
    for place, action in enumerate(others):
        if not is_done:
            return f"{told}{_left_undone(others[place:])}"
        more, is_done = await _act(action, tools)
        told = f"{told} {more}"
    return told


def _actions_of(message: str) -> list[str]:
    """Return the things that a message says to do one after the other; a question is one.

    No part is dropped: one without a verb takes that of the part before, or is not understood.
    """
    if asks(message):
        return [message]
    text = re.sub(r"[^\S\n]+", " ", message.strip())
    begun, *pieces = _NEXT.split(_THROUGH.sub(r"\1 then ", text))
    actions = [begun]
    for separator, part in zip(pieces[::2], pieces[1::2], strict=True):
        last, between = _from_its_verb(actions[-1]), separator.strip()
        has_begun = _is_action(last) or DENIAL.match(last) is not None
        is_told = _TALK.match(last) is not None and between in {",", "and"}
        each = _OF_EACH.match(last)
        if is_told or says_nothing_more(part) or (between == "," and not has_begun):
            # "Tell Mira this and that", "Sela, attack the wolf".
            actions[-1] += f"{separator}{part}"
        elif _is_action(part):
            actions.append(part)
        elif each is not None and _ANOTHER.match(part.lower()):
            # "Buy a potion and a rope": the verb is that of each thing.
            actions.append(f"{each[0]} {part}")
        elif between == "," or not has_begun:
            actions[-1] += f"{separator}{part}"
        else:
            actions.append(part)
    return actions


def _from_its_verb(text: str) -> str:
    """Return a text without the words that lead up to its verb."""
    return _LEADING.sub("", text.strip().lower())


def _is_action(text: str) -> bool:
    """Whether a text begins with what may be done."""
    starts = (text.lower(), _from_its_verb(text))
    return any(one.match(start) for start in starts for one in _ACTIONS)


def _left_undone(actions: Sequence[str]) -> str:
    return f" “{' and '.join(actions)}” is left undone." if actions else ""


async def _act(action: str, tools: ToolUser) -> tuple[str, bool]:
    """Do one thing; return what is to be told of it, and whether something may follow it."""
    before = tools.table.state
    text = corrected(action.lower(), _VERBS)
    intended = intended_call(action, before)
    if intended is None:
        is_understood = asks(text) or any(one.search(text) for one in (_LOOK, _FAREWELL, DENIAL))
        return _told(text, before), is_understood
    try:
        done = await tools.call(intended.tool, intended.params)
    except ToolError as error:
        return f"That cannot be done: {error.message}.", False
    state = tools.table.state
    if state.combat is not None:
        # That and how the fight begins is said by the engine.
        return f"{state.player.name} attacks.", False
    if state.player.place == before.player.place:
        return done, True
    done = f"{done} {describe_scene(state, has_come=True)}"
    if not state.standing("hostile"):
        return done, True
    await tools.call("start_combat", {})
    return f"{done} They have noticed you.", False


def _told(text: str, state: GameState) -> str:
    """Return what is to be told where nothing is to be done: of what the message names, else of the
    place.
    """
    scene = describe_scene(state)
    if not words_of(text):
        return scene
    if _HELP.search(text):
        offered = ", ".join(option.label for option in options_of(state))
        return f"{INTRODUCTION} You can: {offered}."
    if _REPEAT.search(text):
        return _last_said(state, [*state.creatures]) or f"Nobody has said anything yet. {scene}"
    denied = DENIAL.search(text)
    if denied is not None and any(one.search(text, denied.end()) for one in _ACTIONS):
        return f"Nothing of the kind is done. {scene}"
    if _OWN.search(text):
        return describe_party(state)
    if _FAREWELL.search(text):
        return scene
    is_asked = asks(text) or _LOOK.search(text) is not None
    puzzled = "" if is_asked else f"{puzzled_by(text)} "
    person = _person_named(text, [*_people_here(state), *state.standing("hostile")])
    item = named_in(text, state.items)
    if person is None and item is None:
        return _told_of_none(text, state, puzzled)
    if item is not None:
        sellers = [one for one in state.standing("neutral") if one.has(item)]
        sold = [
            f" {one.name} sells it for {one.sheet.prices[item]} gold."
            for one in sellers
            if item in one.sheet.prices
        ]
        is_price_asked = asks(text) and _TRADE.search(text) is not None
        is_wanted = is_price_asked or _BUY.search(text) is not None
        unsold = " Nobody here sells it." if is_wanted and not sold else ""
        return f"{puzzled}The {item}: {state.items[item].description}{''.join(sold)}{unsold}"
    assert person is not None
    if person.side == "party" and _HIRE.search(text):
        return f"{person.name} is with {state.player.name} already."
    if _TALK.match(text):
        return f"{person.name} is here: “{text}” is for your next turn."
    if person.sheet.about and is_asked:
        return f"{person.name}: {person.sheet.about}"
    return f"{puzzled}{scene}"


def _told_of_none(text: str, state: GameState, puzzled: str) -> str:
    """Return what is to be told of a message that names nobody and nothing that is here."""
    scene = describe_scene(state)
    away = _person_named(text, [one for one in state.creatures.values() if one.side == "neutral"])
    if away is not None:
        return f"{away.name} is not here. {scene}"
    if _GREETING.match(text):
        people = " or ".join(one.name for one in _people_here(state))
        return f"Whom do you greet, {people}?" if people else f"Nobody answers. {scene}"
    looked_for = _LOOK_AT.search(text)
    if looked_for is None or asks(text) or says_nothing_more(looked_for["what"]):
        return f"{puzzled}{scene}"
    places = [name for id_, one in state.places.items() for name in (id_, one.name.lower())]
    shown = words_of(state.places[state.player.place].description)
    if named_in(looked_for["what"], [*places, *(word for word in shown if len(word) > 2)]):
        return scene
    return f"There is no “{looked_for['what'].strip()[:100]}” to be seen here. {scene}"


def puzzled_by(text: str) -> str:
    """Return that a message is not understood, with its words."""
    return f"I do not know how to “{text.strip(' .!?')[:100]}”."


def _last_said(state: GameState, people: Iterable[str]) -> str:
    """Return the last words of some people; empty where they have said none that are remembered."""
    for text in reversed(state.said):
        speaker, _, words = text.partition(": ")
        if speaker in people and speaker != PLAYER:
            return f"{state.creatures[speaker].name} said: {words}"
    return ""


def _people_here(state: GameState) -> list[Creature]:
    """Return the people whom the player may speak to."""
    party = (one for one in state.standing("party") if one != state.player)
    return [*state.standing("neutral"), *party]


def _person_named(text: str, people: list[Creature]) -> Creature | None:
    by_name = {name: one for one in people for name in one.names}
    name = named_in(text, by_name)
    return None if name is None else by_name[name]


async def fight(request: AgentRequest, tools: ToolUser) -> str:
    """Answer in a fight: play the turn of whoever acts."""
    state = tools.table.state
    if state.combat is None:
        return ""
    if not state.standing("hostile") or not state.standing("party"):
        done = await attempt(tools, IntendedCall("end_combat", {}))
        return (
            "" if tools.table.state.combat is None else done
        )  # how it ended is said by the engine
    current = state.creatures[state.combat.current]
    if current.side == "hostile":
        weakest = min(state.standing("party"), key=lambda one: (one.hit_points, one.id))
        return await attempt(tools, IntendedCall("attack", {"target": weakest.id}))
    if not request.by_player:
        return f"It is {current.name}'s turn."
    first, *others = _actions_of(unwrapped_action(request.message))
    intended = intended_call(first, state)
    if intended is None:
        offered = ", ".join(option.label for option in options_of(state, current.id))
        is_asked = asks(first) or any(one.search(first.lower()) for one in (_LOOK, _OWN, _REPEAT))
        told = _told(first.lower(), state) if is_asked else puzzled_by(first)
        return f"{told} {current.name} hesitates. You can: {offered}."
    return f"{await attempt(tools, intended)}{_left_undone(others)}"


async def speak(request: AgentRequest, tools: ToolUser) -> str:
    """Answer as a person: one line after the other; sell, and join for its wages, if the message
    says so.
    """
    state = tools.table.state
    assert request.npc is not None
    person = state.creatures[request.npc]
    if not request.by_player:
        return f"I could {request.suggestions[0].label}." if request.suggestions else ""
    if _REPEAT.search(request.message.lower()) and (again := _last_said(state, [person.id])):
        return again.partition(": ")[2]
    first, *others = _actions_of(request.message)
    intended, done = intended_call(first, state, person), ""
    if intended is not None and intended.tool == "give":
        done = f"{await attempt(tools, intended)}{_left_undone(others)}"
    lines = _lines_of(person, request.message) or ("…",)
    said = lines[(state.talks.get(person.id, 1) - 1) % len(lines)]
    return f"“{said}” {done}".strip()


def _lines_of(person: Creature, message: str) -> tuple[str, ...]:
    """Return what a person may say now: an ally asks no wages, nobody offers what is sold, and a
    question is answered by an offer only where it asks for one.
    """
    sheet = person.sheet
    if person.side == "party":
        return sheet.ally_lines or sheet.lines
    goods = [item for item in sheet.prices if person.has(item, 1)]
    if not sheet.offer or not (goods or sheet.hire is not None):
        return sheet.lines
    if _TRADE.search(message.lower()) or named_in(message, goods):
        return (sheet.offer,)
    is_other_question = "?" in message and bool(sheet.lines)
    return sheet.lines if is_other_question else (sheet.offer, *sheet.lines)


def continues_talk(message: str, state: GameState) -> bool:
    """Return whether a message goes on with the talk that is open: it is no farewell, no question
    about the player or the game, and asks for one thing at most, which its people can give.
    """
    text = message.lower()
    turns_away = (
        _FAREWELL.search(text),
        _LOOK.search(text),
        _ONWARD.match(text),
        _OWN.search(text),  # what is in one's bag, nobody else knows
        _HELP.search(text),
    )
    if not state.dialogue or any(turns_away) or len(_actions_of(message)) > 1:
        return False
    person = state.creatures[state.dialogue[0]]
    intended = intended_call(message, state, person)
    if intended is None:
        return True
    partners = [intended.params.get("giver"), intended.params.get("receiver")]
    return intended.tool == "give" and any(partner in partners for partner in state.dialogue)


async def attempt(tools: ToolUser, call: IntendedCall) -> str:
    """Make a call and return what happened, or why the rules do not allow it."""
    try:
        return await tools.call(call.tool, call.params)
    except ToolError as error:
        return f"That cannot be done: {error.message}."


def intended_call(
    message: str, state: GameState, person: Creature | None = None
) -> IntendedCall | None:
    """Return the call that a message asks for; None where it asks for none that the game master
    knows.

    Args:
        message: What the player says.
        state: Of the game.
        person: To whom it is said.
    """
    # What stands behind a denial is not done: "go to the inn, not to the smithy".
    text = DENIAL.split(corrected(message.lower(), _VERBS))[0]
    actor = PLAYER if state.combat is None else state.combat.current
    for option in options_of(state, actor):
        if option.tool != "talk" and option.label.lower() == text.rpartition(": ")[2].strip():
            return IntendedCall(option.tool, option.params)
    if dice := _ROLL.search(text):
        return IntendedCall("roll", {"dice": dice["dice"], "reason": dice["reason"] or "luck"})
    if asks(text):
        return None
    return (
        _handed_over(text, state, actor, person)
        or _fought(text, state, actor)
        or (_moved(text, state) if state.combat is None else None)
    )


def _fought(text: str, state: GameState, actor: str) -> IntendedCall | None:
    if not _FIGHT.search(text):
        return None
    person = _person_named(text, [one for one in state.creatures.values() if one.id != PLAYER])
    if state.combat is None:
        # Whom the message names is attacked, and nobody else in the place of whoever is no enemy.
        return IntendedCall("start_combat", {"enemies": [person.id]} if person else {})
    target = person or state.standing("hostile")[0]
    return IntendedCall("attack", {"target": target.id, "attacker": actor})


def _moved(text: str, state: GameState) -> IntendedCall | None:
    here = state.player.place
    exits = state.places[here].exits
    go = _GO.search(text)
    if go is None:
        # "North", where a way leads to the North gate, and nothing else is said.
        words = {word for word in words_of(text) if not says_nothing_more(word)}
        fitting = [id_ for id_ in exits if words and words <= {*words_of(state.places[id_].name)}]
        return IntendedCall("move", {"place": fitting[0]}) if len(fitting) == 1 else None
    where, leaves = _ASIDE.sub("", go["where"]), _LEAVE.match(go[0])
    if leaves is not None:
        # "Leave the inn for the smithy": where the player is is left, and is no place to go to.
        left, where = _ASIDE.sub("", leaves["left"]), leaves["where"] or ""
        if not says_nothing_more(left) and named_in(left, _named_places(state, [here])) is None:
            return None
    others = [id_ for id_ in state.places if id_ != here]
    # Where the way leads to is meant before any other place with such a word in its name.
    for ids in (exits, others, [here]):
        by_name = _named_places(state, ids)
        if (name := named_in(where, by_name)) is not None:
            return IntendedCall("move", {"place": by_name[name]})
    if not says_nothing_more(where):
        people = [one for one in state.creatures.values() if one.side == "neutral"]
        if _person_named(where, people) is not None and not _OWNED.search(where):
            # "Approach Sela": whoever is meant is no place, and no way is missing.
            return None
        return IntendedCall("move", {"place": without_courtesy(where)[:100]})
    is_back = leaves is not None or re.search(r"\b(?:return|back)\b", go[0]) is not None
    if is_back and len(exits) > 1 and state.came_from in exits:
        return IntendedCall("move", {"place": state.came_from})
    return IntendedCall("move", {"place": exits[0]}) if len(exits) == 1 else None


def _named_places(state: GameState, ids: Iterable[str]) -> dict[str, str]:
    """Return places by what they may be called."""
    return {name: id_ for id_ in ids for name in (id_, state.places[id_].name.lower())}


def _handed_over(
    text: str, state: GameState, actor: str, person: Creature | None
) -> IntendedCall | None:
    """Return the call by which items change hands, where a message asks for one."""
    if drinks := _DRINK.search(text):
        return _drunk(drinks, state, actor)
    buys, hands = _BUY.search(text), _HAND.search(text)
    if not (buys or hands):
        return None
    item, count = named_in(text, state.items), count_in(text)
    others = [one for one in state.creatures.values() if one.id != actor]
    myself = state.player if re.search(r"\bmyself\b", text) else None
    named = myself or _person_named(text, others) or person
    if buys:
        if item is None and (best := _best_offer(text, state, named)):
            return best
        sellers = [
            one for one in state.standing("neutral") if item is None or item in one.sheet.prices
        ]
        seller = named or next(iter(sellers), None)
        is_open = _names_nothing(text[buys.end() :], others)
        if item is None and is_open and seller is not None and len(seller.sheet.prices) == 1:
            # "I would like to buy it": there is one thing to be had.
            [item] = seller.sheet.prices
        if seller is None or item is None:
            return None
        return IntendedCall("give", handing(item, seller.id, PLAYER, count))
    for_hire = [one for one in state.standing("neutral") if one.sheet.hire]
    is_hire = _HIRE.search(text) is not None
    other = named or next(iter(for_hire if is_hire else state.standing("neutral")), None)
    if other is None or (is_hire and other not in for_hire):
        return None  # who is with the player already takes no wages again
    if is_hire:
        item, count = GOLD, other.sheet.hire or count
    elif item is None and hands is not None and _names_nothing(text[hands.end() :], others):
        item = GOLD if _OF_GOLD.search(text) else None
    if item is None:
        return None
    return IntendedCall("give", handing(item, actor, other.id, count))


def _best_offer(text: str, state: GameState, seller: Creature | None) -> IntendedCall | None:
    """Return the call that buys the cheapest or the dearest thing, where a message asks for it."""
    is_cheapest = _CHEAPEST.search(text) is not None
    offers = [
        (price, item, one.id)
        for one in state.standing("neutral")
        if seller is None or one == seller
        for item, price in one.sheet.prices.items()
        if one.has(item)
    ]
    if not offers or not (is_cheapest or _DEAREST.search(text)):
        return None
    _, item, owner = min(offers) if is_cheapest else max(offers)
    return IntendedCall("give", handing(item, owner, PLAYER, count_in(text)))


def _names_nothing(text: str, people: list[Creature]) -> bool:
    """Whether a text has no word for a thing: only numbers, people and words that name nothing."""
    names = [name for one in people for name in one.names]
    others = (word for word in words_of(text) if not any(is_nearly(word, name) for name in names))
    return says_nothing_more(" ".join(word for word in others if word not in _OF_TRADE))


def _drunk(said: re.Match[str], state: GameState, actor: str) -> IntendedCall | None:
    """Return the call by which somebody of the party is healed; None where something else is to be
    drunk or used.
    """
    what = said["what"]
    healing = [name for name, kind in state.items.items() if kind.heals]
    item = named_in(what, state.items)
    is_drink = not said[0].startswith("use")
    if item is None and is_drink and says_nothing_more(what) and healing:
        # "Drink": there is one kind of thing to be drunk. What is to be used, nothing says.
        item = healing[0]
    if item not in healing:
        return None
    others = [one for one in state.creatures.values() if one.id != actor]
    before = said.string[: said.start()]
    # "Sela, drink the potion": who is spoken to drinks it, unless somebody says "I".
    addressed = None if re.search(r"\bi\b", before) else _person_named(before, others)
    receiver = _person_named(what, others) or addressed
    if receiver is not None and receiver.side != "party":
        return None
    to = actor if receiver is None else receiver.id
    return IntendedCall("give", handing(item, actor, to))
