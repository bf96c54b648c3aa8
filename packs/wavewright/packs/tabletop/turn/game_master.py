"""The rule-based game master: plays every agent without a model, by words that it knows. It says
that it is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from wavewright.packs.tabletop.game.state import Creature, GameState, describe_scene, options_of
from wavewright.packs.tabletop.game.world import GOLD, PLAYER
from wavewright.packs.tabletop.turn.agents import AgentRequest, ToolUser
from wavewright.planner import JsonObject
from wavewright.tools import ToolError

INTRODUCTION: Final = (
    "No language model is configured: a rule-based game master plays with you. It understands words such as look, "
    "go to, talk to, attack, buy, give, drink and roll, the suggestions below, and create place NAME: DESCRIPTION."
)
_FIGHT: Final = re.compile(r"\b(attack|fight|strike|hit|kill|shoot)\b")
_GO: Final = re.compile(r"\b(go|move|walk|enter|travel|climb)\b")
_ROLL: Final = re.compile(
    r"\b(?:roll|throw)\b.*?(?P<dice>\d*d\d+(?:\s*[+-]\s*\d+)?)(?:\s+for\s+(?P<reason>.{1,100}))?"
)
_LOOK: Final = re.compile(r"\b(look|see|search|examine|where|wait)\b")
_PUZZLED: Final = "I do not know how to do that. "
_DRINK: Final = re.compile(r"\b(drink|quaff|use)\b")
_FAREWELL: Final = re.compile(r"\b(bye|goodbye|farewell|leave)\b")
_BUY: Final = re.compile(r"\b(buy|sell me|give me)\b")
_HAND: Final = re.compile(r"\b(give|pay|hand|hire)\b")
_ONWARD: Final = re.compile(r"(to|through|into|back|up|down|out|toward|towards|at|i)\b(?!.*\?)")
"""How a message begins that says what the player does, and asks nothing."""
_COUNT: Final = re.compile(r"\b(\d[\d,]*)\b")


class IntendedCall(NamedTuple):
    """The call of a tool that a message asks for, allowed or not."""

    tool: str
    params: JsonObject


async def narrate(request: AgentRequest, tools: ToolUser) -> str:
    """Answer outside a fight: do what the message says, and tell what happened or what is to be
    seen.
    """
    before = tools.table.state
    intended = intended_call(request.message, before) if request.by_player else None
    if intended is None:
        text = request.message.lower()
        is_understood = not request.by_player or _LOOK.search(text)
        item = named_in(text, before.items)
        if not is_understood and item is not None:
            about = before.items[item].description
            return f"{_PUZZLED}The {item}: {about}"
        return f"{'' if is_understood else _PUZZLED}{describe_scene(before)}"
    done = await attempt(tools, intended)
    state = tools.table.state
    if state.combat is not None:
        return (
            f"{state.player.name} attacks."  # that and how the fight begins is said by the engine
        )
    if state.player.place == before.player.place:
        return done
    done = f"{done} {describe_scene(state, has_come=True)}"
    if not state.standing("hostile"):
        return done
    await tools.call("start_combat", {})
    return f"{done} They have noticed you."


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
    intended = intended_call(request.message, state)
    if intended is None:
        offered = ", ".join(option.label for option in options_of(state, current.id))
        return f"{current.name} hesitates. You can: {offered}."
    return await attempt(tools, intended)


async def speak(request: AgentRequest, tools: ToolUser) -> str:
    """Answer as a person: one line after the other; sell, and join for its wages, if the message
    says so.
    """
    state = tools.table.state
    assert request.npc is not None
    person = state.creatures[request.npc]
    if not request.by_player:
        return f"I could {request.suggestions[0].label}." if request.suggestions else ""
    intended = intended_call(request.message, state, person)
    done = (
        await attempt(tools, intended) if intended is not None and intended.tool == "give" else ""
    )
    lines = _lines_of(person) or ("…",)
    said = lines[(state.talks.get(person.id, 1) - 1) % len(lines)]
    return f"“{said}” {done}".strip()


def _lines_of(person: Creature) -> tuple[str, ...]:
    """Return what a person may say now: an ally asks no wages, and nobody offers what is sold."""
    if person.side == "party":
        return person.sheet.ally_lines or person.sheet.lines
    has_goods = any(person.has(item, 1) for item in person.sheet.prices)
    is_for_hire = person.sheet.hire is not None
    offer = (person.sheet.offer,) if person.sheet.offer and (has_goods or is_for_hire) else ()
    return (*offer, *person.sheet.lines)


def continues_talk(message: str, state: GameState) -> bool:
    """Return whether a message goes on with the talk that is open: it is no farewell, and asks for
    nothing but what its people can give.
    """
    text = message.lower()
    turns_away = (_FAREWELL.search(text), _LOOK.search(text), _ONWARD.match(text))
    if not state.dialogue or any(turns_away):
        return False
    person = state.creatures[state.dialogue[0]]
    intended = intended_call(message, state, person)
    if intended is None:
        return True
    partners = [intended.params.get("giver"), intended.params.get("receiver")]
    return intended.tool == "give" and any(partner in partners for partner in state.dialogue)


_NEAR: Final = 0.8


def named_in(text: str, names: Iterable[str]) -> str | None:
    """Return the name that a text holds: as it is, by its last word, or nearly so written."""
    known = [*names]
    words = re.findall(r"[^\W\d_]+", text)
    for name in sorted(known, key=len, reverse=True):
        if re.search(rf"\b{re.escape(name)}s?\b", text):
            return name
    by_last = [name for name in known if " " in name and name.rpartition(" ")[2] in words]
    if len(by_last) == 1:
        return by_last[0]
    for name in known:
        size = name.count(" ") + 1
        spans = (" ".join(words[at : at + size]) for at in range(len(words) - size + 1))
        if any(SequenceMatcher(None, span, name).ratio() >= _NEAR for span in spans):
            return name
    return None


def near_names(text: str, name: str) -> list[str]:
    """Return the words of a text that are nearly a name."""
    words = re.findall(r"[^\W\d_]{3,}", text)
    return [w for w in words if SequenceMatcher(None, w, name.lower()).ratio() >= _NEAR]


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
    text = message.lower()
    actor = PLAYER if state.combat is None else state.combat.current
    for option in options_of(state, actor):
        if option.tool != "talk" and option.label.lower() == text.rpartition(": ")[2].strip():
            return IntendedCall(option.tool, option.params)
    if dice := _ROLL.search(text):
        return IntendedCall("roll", {"dice": dice["dice"], "reason": dice["reason"] or "luck"})
    if (handed := _handed_over(text, state, actor, person)) is not None:
        return handed
    if _FIGHT.search(text):
        if state.combat is None:
            return IntendedCall("start_combat", {})
        enemies = [one for one in state.creatures.values() if one.side == "hostile"]
        named = [one.id for one in enemies if _is_named(text, one.id, one.name)]
        aimed = named or [one.id for one in state.standing("hostile")]
        return IntendedCall("attack", {"target": aimed[0], "attacker": actor})
    if _GO.search(text):
        place = next(
            (id_ for id_, one in state.places.items() if _is_named(text, id_, one.name)),
            message[:100],
        )
        return IntendedCall("move", {"place": place})
    return None


def _handed_over(
    text: str, state: GameState, actor: str, person: Creature | None
) -> IntendedCall | None:
    """Return the call by which items change hands, where a message asks for one."""
    buys, hands, drinks = (bool(pattern.search(text)) for pattern in (_BUY, _HAND, _DRINK))
    if not (buys or hands or drinks):
        return None
    named = named_in(text, state.items)
    item = named or GOLD
    counted = _COUNT.search(text)
    count = int(counted[1].replace(",", "")) if counted else 1
    others = [
        one
        for one in state.creatures.values()
        if one.id != actor and _is_named(text, one.id, one.name)
    ]
    neutral = [one for one in state.standing("neutral") if not buys or item in one.sheet.prices]
    other = next(iter([*others, *([person] if person else []), *neutral]), None)
    if drinks:
        healing = next((name for name, kind in state.items.items() if kind.heals), None)
        drunk = named or ("" if "use" in text.split() else healing)
        if not drunk or not state.items[drunk].heals:
            return None
        return IntendedCall("give", {"item": drunk, "giver": actor, "receiver": actor})
    if other is None:
        return None
    if buys:
        return IntendedCall(
            "give", {"item": item, "giver": other.id, "receiver": PLAYER, "count": count}
        )
    if "hire" in text and other.sheet.hire:
        item, count = GOLD, other.sheet.hire
    return IntendedCall(
        "give", {"item": item, "giver": actor, "receiver": other.id, "count": count}
    )


def _is_named(text: str, id_: str, name: str) -> bool:
    return named_in(text, (id_, name.lower())) is not None
