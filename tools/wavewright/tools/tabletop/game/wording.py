"""Events in words: what tools answer, what the rule-based game master says, and what a log shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wavewright.tools.tabletop.game import events as happened
from wavewright.tools.tabletop.game.events import GameEvent
from wavewright.tools.tabletop.game.rules import CONDITION_TURNS
from wavewright.tools.tabletop.game.state import GameState
from wavewright.tools.tabletop.game.world import CONDITIONS


def describe_events(events: Iterable[GameEvent], state: GameState) -> str:
    """Return what happened, a sentence for each event; rolls only where nothing came of them.

    Args:
        events: What happened.
        state: The state after it.
    """
    known = [*events]
    narrated = [event for event in known if not isinstance(event, happened.Rolled)] or known
    moved = [event for event in narrated if isinstance(event, happened.Moved)]
    last = {event.who: event for event in narrated if isinstance(event, happened.HitPointsChanged)}
    texts: list[str] = []
    for event in narrated:
        match event:
            case happened.Moved():
                texts.append(_describe_moves(moved, state) if event is moved[0] else "")
            case happened.HitPointsChanged(who=who) if event is not last[who]:
                texts.append(_describe_hit_points(event, state, is_last=False))
            case _:
                texts.append(describe_event(event, state))
    return " ".join(text for text in texts if text)


def _describe_moves(moved: Sequence[happened.Moved], state: GameState) -> str:
    """Return who went where, in one sentence: a party goes together."""
    *others, last = (_name(state, event.who) for event in moved)
    who = f"{', '.join(others)} and {last} go" if others else f"{last} goes"
    return f"{who} to {state.places[moved[-1].place].name}."


def describe_event(event: GameEvent, state: GameState) -> str:
    """Return one event as a sentence; empty for one that nothing is to be said of."""
    match event:
        case happened.Rolled(reason=reason, faces=faces, sides=sides, modifier=modifier):
            shown = f"{len(faces)}d{sides}" + (f"{modifier:+}" if modifier else "")
            return f"{_name(state, event.who)} rolls {shown} for {reason}: {event.total}."
        case happened.CombatBegan(order=order):
            listed = ", ".join(f"{_name(state, who)} {initiative}" for who, initiative in order)
            return f"A fight begins. Initiative: {listed}."
        case happened.CombatTurnBegan(who=who):
            return f"It is {_name(state, who)}'s turn."
        case happened.Attacked(attacker=attacker, target=target, total=total, has_hit=has_hit):
            done = "hits" if has_hit else "misses"
            return f"{_name(state, attacker)} {done} {_name(state, target)} with {total}."
        case happened.CombatEnded(outcome=outcome):
            return f"The fight is over: {outcome}."
        case happened.ExperienceGained(amount=amount):
            gained = f"{state.player.name} gains {amount} experience"
            return f"{gained}: {state.experience} of {state.experience_needed}."
        case happened.LevelGained(choice=choice):
            return f"{state.player.name} rises to level {state.level}: {choice.replace('_', ' ')}."
        case happened.PlaceAdded(place=place):
            return f"A way leads to a new place: {place.name}."
        case happened.JoinedParty(who=who):
            return f"{_name(state, who)} joins the party."
        case happened.Refused(reason=reason):
            return f"The rules do not allow it: {reason}."
        case _:
            return _describe_change(event, state)


def _describe_change(event: GameEvent, state: GameState) -> str:
    match event:
        case happened.HitPointsChanged():
            return _describe_hit_points(event, state, is_last=True)
        case happened.ConditionChanged(who=who, condition=condition, turns=turns):
            is_news = turns in (0, CONDITION_TURNS)
            state_text = condition if turns else f"no longer {condition}"
            return f"{_name(state, who)} is {state_text}." if is_news else ""
        case happened.Given(giver=giver, receiver=receiver, item=item, count=count, price=price):
            paid = f" for {price} gold" if price else ""
            return f"{_name(state, receiver)} gets {count} {item} from {_name(state, giver)}{paid}."
        case _:
            return ""


def _describe_hit_points(event: happened.HitPointsChanged, state: GameState, *, is_last: bool) -> str:
    """Return what a creature lost or regained; what is left of it where nothing more is told."""
    creature, change = state.creatures[event.who], event.change
    points = f"{abs(change)} hit point{'' if abs(change) == 1 else 's'}"
    done = f"{creature.name} {'loses' if change < 0 else 'regains'} {points}"
    if event.reason in CONDITIONS:
        done += f" by being {event.reason}"
    if not is_last:
        return f"{done}."
    end = "" if creature.is_standing else " and falls"
    return f"{done}{end}, {creature.hit_points} of {creature.max_hit_points} left."


def describe_scene(state: GameState, *, has_come: bool = False) -> str:
    """Return where the player is, who else is there, and what leads away; who has just come knows where it is."""
    place = state.places[state.player.place]
    others = [one for one in state.creatures.values() if one.place == state.player.place]
    present = [one.name for one in others if one.is_standing and one.side != "party"]
    ways = ", ".join(state.places[name].name for name in place.exits)
    here = f" Here: {', '.join(present)}." if present else ""
    return f"{'' if has_come else f'{place.name}. '}{place.description}{here} Ways: {ways}."


def describe_party(state: GameState) -> str:
    """Return hit points, conditions and items of the party and of whoever it fights."""
    fighters = {name for name, _ in state.combat.order} if state.combat is not None else set[str]()
    lines: list[str] = []
    for one in state.creatures.values():
        if one.side != "party" and one.id not in fighters:
            continue
        conditions = "".join(f", {name}" for name in one.conditions)
        items = ", ".join(f"{count} {item}" for item, count in one.items.items()) or "nothing"
        points = f"{one.hit_points}/{one.max_hit_points} hit points{conditions}"
        lines.append(f"{one.name} ({one.id}, {one.side}): {points}; carries {items}")
    return "\n".join(lines)


def _name(state: GameState, who: str) -> str:
    return state.creatures[who].name
