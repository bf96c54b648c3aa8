"""The rules as tools: what each does and what it refuses. No model decides anything here; no text
changes a rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal

from wavewright.packs.tabletop.game import events as happened
from wavewright.packs.tabletop.game.events import GameEvent
from wavewright.packs.tabletop.game.fold import D20, DiceExpression, Play, read_dice
from wavewright.packs.tabletop.game.state import Creature, GameState
from wavewright.packs.tabletop.game.world import CONDITION_TURNS, GOLD, PLAYER, Place, Side
from wavewright.planner import JsonObject, ToolSignatures
from wavewright.tools import ToolError, make_tool

GAME_TOOLS: Final = ("start_combat", "attack", "end_combat", "move", "talk", "give", "roll")
_GROWTH_TOOLS: Final = ("level_up", "create_place")
_FRIGHT: Final = -2
"""Of the attacks of whoever is frightened."""
_POISON: Final = DiceExpression(1, 4, 0)
_MAX_WORDS: Final = 500
AUTO_RUN_CAP: Final = 20
"""Most turns of enemies in one turn of the player, unless a setting says otherwise."""
MAX_PLACES: Final = 24
"""Of a map with all that was added to it."""
_MAX_NAME: Final = 40
_MAX_DESCRIPTION: Final = 300


@dataclass(frozen=True, slots=True)
class GameRules:
    """The tools of the game: each method is one, its docstring what agents are told of it.

    Every method raises `ToolError` where the rules do not allow the call.
    """

    play: Play

    def start_combat(self, enemies: Sequence[str] = ()) -> None:
        """Begin a fight with enemies at the player's place, and roll initiative.

        Args:
            enemies: Names of the enemies; all that are there where it is empty.
        """
        play = self.play
        self._require_peace()
        if not play.state.player.is_standing:
            raise ToolError("the player lies on the ground and cannot fight")
        here = play.state.standing("hostile")
        chosen = [play.creature(name) for name in enemies] or list(here)
        for enemy in chosen:
            if enemy not in here:
                raise ToolError(f"{enemy.name} is no enemy that stands at the player's place")
        if not chosen:
            raise ToolError("there is no enemy at the player's place")
        fighters = {one.id: one for one in (*play.state.standing("party"), *chosen)}.values()
        rolled = {
            one.id: play.check(one.id, one.sheet.agility, "initiative").total for one in fighters
        }
        order = sorted(rolled.items(), key=lambda entry: (-entry[1], entry[0]))
        play.emit(happened.CombatBegan(tuple(order)), happened.CombatTurnBegan(order[0][0], 1))

    def attack(self, target: str, attacker: str = "") -> None:
        """Attack in a fight, for the one whose turn it is; the rules roll, and the turn passes to
        the next.

        Args:
            target: Whom to attack.
            attacker: Who attacks; the one whose turn it is where it is empty.
        """
        play, aimed = self.play, self.play.creature(target)
        actor = self._actor(attacker)
        opposed: Side = "hostile" if actor.side == "party" else "party"
        if aimed not in play.state.standing(opposed):
            raise ToolError(
                f"{actor.name} cannot attack {aimed.name}: it is no opponent that stands in this fight"
            )
        modifier = actor.attack + (_FRIGHT if "frightened" in actor.conditions else 0)
        rolled = play.check(actor.id, modifier, "attack")
        is_critical = rolled.faces[0] == D20
        has_hit = is_critical or (rolled.faces[0] != 1 and rolled.total >= aimed.armor)
        play.emit(happened.Attacked(actor.id, aimed.id, rolled.total, has_hit))
        if has_hit:
            dice = read_dice(actor.sheet.damage)
            dice = replace(dice, count=dice.count * (2 if is_critical else 1))
            damage = max(1, play.roll(actor.id, dice, "damage").total)
            play.emit(happened.HitPointsChanged(aimed.id, -damage, actor.sheet.damage))
            inflicted = actor.sheet.inflicts
            if inflicted is not None and play.state.creatures[aimed.id].is_standing:
                play.emit(happened.ConditionChanged(aimed.id, inflicted, CONDITION_TURNS))
        self._pass_turn()

    def end_combat(self) -> None:
        """End the fight, once one side has nobody left who stands."""
        play = self.play
        if play.state.combat is None:
            raise ToolError("there is no fight to end")
        if not play.state.standing("hostile"):
            self._take_victory()
        elif not play.state.standing("party"):
            self._take_defeat()
        else:
            left = ", ".join(one.name for one in play.state.standing("hostile"))
            raise ToolError(f"the fight goes on: {left} still stands")

    def move(self, place: str) -> None:
        """Go with the party to a place next to the player's; not during a fight. At the refuge the
        party rests.

        Args:
            place: Id or name of the place.
        """
        play = self.play
        self._require_peace()
        state, wanted = play.state, place.strip().lower()
        here = state.places[state.player.place]
        target = next(
            (id_ for id_, one in state.places.items() if wanted in (id_, one.name.lower())), None
        )
        if target == state.player.place:
            raise ToolError(f"{state.player.name} is in {here.name} already")
        if target is None or target not in here.exits:
            ways = ", ".join(state.places[id_].name for id_ in here.exits)
            shown = place if target is None else state.places[target].name
            raise ToolError(
                f"no way leads from {here.name} to {shown!r}", hint=f"ways lead to {ways}"
            )
        needed = state.places[target].needs
        if needed is not None and not state.player.has(needed):
            raise ToolError(f"{state.places[target].name} is closed: the player has no {needed}")
        followers = [
            one.id for one in state.creatures.values() if one.side == "party" and one.id != PLAYER
        ]
        play.emit(*(happened.Moved(who, target) for who in (PLAYER, *followers)))
        if target == state.refuge:
            self._rest(1)

    def talk(self, npc: str, words: str = "") -> None:
        """Speak to a person at the player's place; not during a fight.

        Args:
            npc: Who is spoken to.
            words: What the player says.
        """
        self._require_peace()
        person = self.play.creature(npc)
        if (
            person.id == PLAYER
            or person.side == "hostile"
            or person.place != self.play.state.player.place
        ):
            raise ToolError(f"{person.name} is nobody to talk to here")
        self.play.emit(happened.Talked(person.id, words[:_MAX_WORDS]))

    def give(self, item: str, receiver: str, count: int = 1, giver: str = PLAYER) -> None:
        """Hand items over: a potion heals whoever of the party is given it, a person sells at its
        price.

        Args:
            item: The item.
            receiver: Who gets it; the player may give a potion to itself.
            count: How many.
            giver: Who gives it away; a person gives only what it sells, and the player pays.
        """
        play, state = self.play, self.play.state
        owner, taker, item = play.creature(giver), play.creature(receiver), item.strip().lower()
        if owner.side != "hostile" and state.combat is not None:
            owner = self._actor(owner.id)
        if owner.side == "hostile" or taker.side == "hostile":
            raise ToolError("nothing is given to enemies or by them")
        if owner.place != taker.place or owner.place != state.player.place or not owner.is_standing:
            raise ToolError(f"{owner.name} cannot hand anything to {taker.name} here")
        if count < 1 or not owner.has(item, count):
            raise ToolError(f"{owner.name} has no {count} {item}")
        price = self._price(owner, taker, item) * count
        if not taker.has(GOLD, price):
            raise ToolError(
                f"{count} {item} cost {price} gold, and {taker.name} has {taker.items.get(GOLD, 0)}"
            )
        heals = state.items[item].heals
        if owner.id != taker.id:
            play.emit(happened.Given(owner.id, taker.id, item, count, price))
        elif heals is None:
            raise ToolError(f"{owner.name} has the {item} already")
        if owner.side == "party" and taker.side == "party" and heals is not None:
            self._heal(taker, item, read_dice(heals))
        if (
            item == GOLD
            and taker.side == "neutral"
            and taker.sheet.hire
            and count >= taker.sheet.hire
        ):
            play.emit(happened.JoinedParty(taker.id))
        if state.combat is not None:
            self._pass_turn()

    def roll(self, dice: str, reason: str) -> None:
        """Roll dice where the outcome of something is open; it changes nothing by itself.

        Args:
            dice: Such as d20 or 2d6+3.
            reason: What is decided by it.
        """
        self.play.roll(PLAYER, read_dice(dice), reason[:_MAX_WORDS])

    def _require_peace(self) -> None:
        if self.play.state.combat is not None:
            raise ToolError(
                "there is a fight going on", hint="attack, or end the fight when one side is beaten"
            )

    def _actor(self, name: str) -> Creature:
        """Return who acts in the fight, whose turn it has to be."""
        combat = self.play.state.combat
        if combat is None:
            raise ToolError("there is no fight", hint="begin one with start_combat")
        actor = self.play.creature(name or combat.current)
        if actor.id != combat.current:
            raise ToolError(
                f"it is not {actor.name}'s turn but {self.play.state.creatures[combat.current].name}'s"
            )
        if not actor.is_standing:
            raise ToolError(f"{actor.name} lies on the ground")
        return actor

    @staticmethod
    def _price(owner: Creature, taker: Creature, item: str) -> int:
        """Return what one of an item costs; nothing between members of the party and from them."""
        if owner.side == "party":
            return 0
        if item not in owner.sheet.prices or taker.id != PLAYER:
            raise ToolError(
                f"{owner.name} gives no {item} away", hint="a person gives only what it sells"
            )
        return owner.sheet.prices[item]

    def _heal(self, taker: Creature, item: str, dice: DiceExpression) -> None:
        play = self.play
        rolled = play.roll(taker.id, dice, item).total
        # Nobody regains more than was lost.
        healed = min(rolled, taker.max_hit_points - taker.hit_points)
        play.emit(
            happened.Consumed(taker.id, item), happened.HitPointsChanged(taker.id, healed, item)
        )
        if "poisoned" in taker.conditions:
            play.emit(happened.ConditionChanged(taker.id, "poisoned", 0))

    def _pass_turn(self) -> None:
        """Let the next one who stands have its turn, with what its conditions do to it."""
        play, combat = self.play, self.play.state.combat
        assert combat is not None
        names = [name for name, _ in combat.order]
        position, number = names.index(combat.current), combat.round
        while play.state.standing("party") and play.state.standing("hostile"):
            position += 1
            if position == len(names):
                position, number = 0, number + 1
            if not play.state.creatures[names[position]].is_standing:
                continue
            play.emit(happened.CombatTurnBegan(names[position], number))
            self._suffer(play.state.creatures[names[position]])
            if play.state.creatures[names[position]].is_standing:
                return

    def _suffer(self, creature: Creature) -> None:
        """Let the conditions of a creature do their harm, and shorten them by a turn."""
        play = self.play
        for condition, turns in creature.conditions.items():
            if condition == "poisoned":
                lost = play.roll(creature.id, _POISON, condition).total
                play.emit(happened.HitPointsChanged(creature.id, -lost, condition))
            play.emit(happened.ConditionChanged(creature.id, condition, turns - 1))

    def _take_victory(self) -> None:
        beaten = [one for one in self._end_fight("victory") if one.side == "hostile"]
        for enemy in beaten:
            given = (
                happened.Given(enemy.id, PLAYER, item, count) for item, count in enemy.items.items()
            )
            self.play.emit(*given)
        if learned := sum(enemy.sheet.experience for enemy in beaten):
            self.play.emit(happened.ExperienceGained(learned))

    def _take_defeat(self) -> None:
        self._end_fight("defeat")
        state = self.play.state
        party = [one.id for one in state.creatures.values() if one.side == "party"]
        self.play.emit(*(happened.Moved(who, state.refuge) for who in party))
        self._rest(2)

    def _end_fight(self, outcome: happened.CombatOutcome) -> list[Creature]:
        """End the fight and its conditions, with one hit point for the party; return who fought, as
        they were then.
        """
        play, state = self.play, self.play.state
        fought = [state.creatures[name] for name, _ in state.combat.order] if state.combat else []
        play.emit(happened.CombatEnded(outcome))
        for one in fought:
            if one.side == "party" and not one.is_standing:
                play.emit(happened.HitPointsChanged(one.id, 1, "rest"))
            for condition in one.conditions:
                play.emit(happened.ConditionChanged(one.id, condition, 0))
        return fought

    def _rest(self, share: int) -> None:
        """Let the party regain its hit points, up to the most divided by `share`."""
        for one in self.play.state.creatures.values():
            missing = one.max_hit_points // share - one.hit_points
            if one.side == "party" and missing > 0:
                self.play.emit(happened.HitPointsChanged(one.id, missing, "rest"))


class GrowthRules(GameRules):
    """The tools of the agents that raise the player's level and add places."""

    __slots__ = ()

    def level_up(self, choice: Literal["hit_points", "attack", "armor"]) -> None:
        """Raise the player's level, once it has the experience; not during a fight.

        Args:
            choice: What gets better: five hit points more, or one more for attack or armor.
        """
        self._require_peace()
        if not self.play.state.is_level_due:
            state = self.play.state
            raise ToolError(
                f"the next level needs {state.experience_needed} experience, "
                f"and the player has {state.experience}"
            )
        self.play.emit(happened.LevelGained(choice))

    def create_place(self, name: str, description: str) -> None:
        """Add a place to the map, next to the player's; not during a fight.

        Args:
            name: What it is called.
            description: What is to be seen there.
        """
        self._require_peace()
        state = self.play.state
        shown = " ".join(name.split())[:_MAX_NAME]
        id_ = re.sub(r"\W+", "_", shown.lower()).strip("_")
        if not id_ or id_ in state.places:
            raise ToolError(
                f"{name!r} cannot be the name of a new place", hint="choose another name"
            )
        if len(state.places) >= MAX_PLACES:
            raise ToolError(f"the map has {MAX_PLACES} places, and no room for another one")
        here = state.places[state.player.place]
        rows = [place.at[1] for place in state.places.values() if place.map == here.map]
        place = Place(
            name=shown,
            map=here.map,
            at=(here.at[0], max(rows) + 1),
            exits=(state.player.place,),
            description=description[:_MAX_DESCRIPTION],
        )
        self.play.emit(happened.PlaceAdded(id_, place))


@lru_cache(maxsize=1)
def tool_signatures() -> ToolSignatures:
    """Return the signatures of all tools of the game: each writes, and what it writes is the game."""
    rules = GrowthRules(Play(GameState()))
    return {
        name: make_tool(
            getattr(rules, name), name=name, effects={"read", "write"}, idempotent=True
        ).signature
        for name in (*GAME_TOOLS, *_GROWTH_TOOLS)
    }


def events_of_call(state: GameState, tool: str, params: JsonObject) -> tuple[GameEvent, ...]:
    """Return what a call of a tool makes happen.

    Raises:
        ToolError: the rules do not allow it.
    """
    play = Play(state)
    call: Callable[..., None] = getattr(GrowthRules(play), tool)
    call(**params)
    return tuple(play.events)
