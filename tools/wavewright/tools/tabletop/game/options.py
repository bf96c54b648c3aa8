"""What the rules allow somebody to do next, for suggestions to players and agents."""

from __future__ import annotations

from collections.abc import Iterator

from wavewright.planner.types import JsonObject
from wavewright.tools.tabletop.game.events import Option
from wavewright.tools.tabletop.game.state import Creature, GameState
from wavewright.tools.tabletop.game.world import GOLD, PLAYER


def options_of(state: GameState, who: str = PLAYER) -> tuple[Option, ...]:
    """Return what a creature can do now; nothing where it is somebody else's turn in a fight."""
    actor = state.creatures[who]
    if state.combat is not None:
        if not state.standing("hostile") or not state.standing("party"):
            return (Option("end the fight", "end_combat", {}),)
        return tuple(_in_fight(state, actor)) if state.combat.current == who else ()
    return tuple(_in_peace(state, actor))


def _in_fight(state: GameState, actor: Creature) -> Iterator[Option]:
    for opponent in state.standing("hostile" if actor.side == "party" else "party"):
        yield Option(f"attack {opponent.name}", "attack", {"target": opponent.id, "attacker": actor.id})
    if actor.side == "party":
        yield from _potions(state, actor)


def _in_peace(state: GameState, actor: Creature) -> Iterator[Option]:
    if state.standing("hostile") and actor.is_standing:
        yield Option("attack", "start_combat", {})
    for person in state.standing("neutral"):
        yield Option(f"talk to {person.name}", "talk", {"npc": person.id})
        for item, price in person.sheet.prices.items():
            if person.has(item) and actor.has(GOLD, price):
                params: JsonObject = {"item": item, "giver": person.id, "receiver": PLAYER, "count": 1}
                yield Option(f"buy {item} from {person.name} for {price} gold", "give", params)
        if (hire := person.sheet.hire) and actor.has(GOLD, hire):
            wages: JsonObject = {"item": GOLD, "giver": PLAYER, "receiver": person.id, "count": hire}
            yield Option(f"hire {person.name} for {hire} gold", "give", wages)
    for place in state.places[actor.place].exits:
        needed = state.places[place].needs
        if needed is None or actor.has(needed):
            yield Option(f"go to {state.places[place].name}", "move", {"place": place})
    yield from _potions(state, actor)


def _potions(state: GameState, actor: Creature) -> Iterator[Option]:
    """Return who of the party can be healed with something that the actor carries."""
    for item, kind in state.items.items():
        if kind.heals is None or not actor.has(item):
            continue
        for hurt in state.creatures.values():
            if hurt.side == "party" and hurt.place == actor.place and hurt.hit_points < hurt.max_hit_points:
                label = f"drink {item}" if hurt.id == actor.id else f"give {item} to {hurt.name}"
                params: JsonObject = {"item": item, "giver": actor.id, "receiver": hurt.id, "count": 1}
                yield Option(label, "give", params)
