"""The events of a game: what is journaled, what the state is folded from, and what players are
shown.

Events of one call of a tool are journaled together, so a crash leaves a call either done or not
begun.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from wavewright.packs.tabletop.game.world import Condition, Place, World
from wavewright.planner import JsonObject

CombatOutcome: TypeAlias = Literal["victory", "defeat"]
Speech: TypeAlias = Literal["narration", "npc", "system", "ally_suggestion"]
"""What a text is: of a game master, of a person, of the rules, or a proposal for the turn of an
ally.
"""


@dataclass(frozen=True, slots=True)
class GameBegan:
    """A game began, with the world as it was then."""

    seed: str
    world: World
    kind: Literal["game_began"] = "game_began"


@dataclass(frozen=True, slots=True)
class TurnBegan:
    """The player said something."""

    turn: int
    message: str
    agent_hint: str | None = None
    kind: Literal["turn_began"] = "turn_began"


@dataclass(frozen=True, slots=True)
class PhaseBegan:
    """A phase of the turn's pipeline began."""

    phase: str
    kind: Literal["phase_began"] = "phase_began"


@dataclass(frozen=True, slots=True)
class AgentSelected:
    """An agent answers this turn."""

    agent: str
    kind: Literal["agent_selected"] = "agent_selected"


@dataclass(frozen=True, slots=True)
class Rolled:
    """Dice were thrown."""

    who: str
    reason: str
    sides: int
    faces: tuple[int, ...]
    modifier: int
    kind: Literal["rolled"] = "rolled"

    @property
    def total(self) -> int:
        """The sum of faces and modifier."""
        return sum(self.faces) + self.modifier


@dataclass(frozen=True, slots=True)
class CombatBegan:
    """A fight began."""

    order: tuple[tuple[str, int], ...]
    """Creatures with their initiative, the highest first."""
    kind: Literal["combat_began"] = "combat_began"


@dataclass(frozen=True, slots=True)
class CombatTurnBegan:
    """It is a creature's turn in the fight."""

    who: str
    round: int
    kind: Literal["combat_turn_began"] = "combat_turn_began"


@dataclass(frozen=True, slots=True)
class Attacked:
    """A creature attacked another; hit points that it lost are an event of their own."""

    attacker: str
    target: str
    total: int
    """Of the die and the attacker's bonus."""
    has_hit: bool
    kind: Literal["attacked"] = "attacked"


@dataclass(frozen=True, slots=True)
class HitPointsChanged:
    """A creature lost or gained hit points."""

    who: str
    change: int
    reason: str
    kind: Literal["hit_points_changed"] = "hit_points_changed"


@dataclass(frozen=True, slots=True)
class ConditionChanged:
    """A condition of a creature lasts this many of its turns from now; 0 ends it."""

    who: str
    condition: Condition
    turns: int
    kind: Literal["condition_changed"] = "condition_changed"


@dataclass(frozen=True, slots=True)
class CombatEnded:
    """The fight is over."""

    outcome: CombatOutcome
    kind: Literal["combat_ended"] = "combat_ended"


@dataclass(frozen=True, slots=True)
class Moved:
    """A creature went to a place."""

    who: str
    place: str
    kind: Literal["moved"] = "moved"


@dataclass(frozen=True, slots=True)
class Talked:
    """The player spoke to somebody."""

    npc: str
    words: str
    kind: Literal["talked"] = "talked"


@dataclass(frozen=True, slots=True)
class Given:
    """Items changed hands."""

    giver: str
    receiver: str
    item: str
    count: int
    price: int = 0
    """Gold that went the other way."""
    kind: Literal["given"] = "given"


@dataclass(frozen=True, slots=True)
class Consumed:
    """A creature used one of its items up."""

    who: str
    item: str
    kind: Literal["consumed"] = "consumed"


@dataclass(frozen=True, slots=True)
class JoinedParty:
    """A person came over to the party."""

    who: str
    kind: Literal["joined_party"] = "joined_party"


@dataclass(frozen=True, slots=True)
class ExperienceGained:
    """The player learned from a fight."""

    amount: int
    kind: Literal["experience_gained"] = "experience_gained"


@dataclass(frozen=True, slots=True)
class LevelGained:
    """The player rose a level."""

    choice: Literal["hit_points", "attack", "armor"]
    kind: Literal["level_gained"] = "level_gained"


@dataclass(frozen=True, slots=True)
class PlaceAdded:
    """A place was added to the map, with ways to its exits and back."""

    id: str
    place: Place
    kind: Literal["place_added"] = "place_added"


@dataclass(frozen=True, slots=True)
class DialogueBegan:
    """The player turned to people."""

    npcs: tuple[str, ...]
    kind: Literal["dialogue_began"] = "dialogue_began"


@dataclass(frozen=True, slots=True)
class DialogueEnded:
    """The player turned to something else."""

    kind: Literal["dialogue_ended"] = "dialogue_ended"


@dataclass(frozen=True, slots=True)
class Refused:
    """The rules refused a call of a tool; nothing changed."""

    tool: str
    reason: str
    kind: Literal["refused"] = "refused"


@dataclass(frozen=True, slots=True)
class Said:
    """A text for the player."""

    speaker: str
    text: str
    speech: Speech = "narration"
    kind: Literal["said"] = "said"


@dataclass(frozen=True, slots=True)
class Option:
    """A call of a tool that the rules allow now, as a player would say it."""

    label: str
    tool: str
    params: JsonObject


@dataclass(frozen=True, slots=True)
class Suggested:
    """What the player can do next."""

    options: tuple[Option, ...]
    kind: Literal["suggested"] = "suggested"


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is over; nothing of it is left to be done."""

    turn: int
    halted: str | None = None
    """Why its pipeline ended early."""
    kind: Literal["turn_ended"] = "turn_ended"


@dataclass(frozen=True, slots=True)
class TurnUndone:
    """The last turn that was not undone yet counts no more."""

    turn: int
    kind: Literal["turn_undone"] = "turn_undone"


GameEvent: TypeAlias = (
    GameBegan
    | TurnBegan
    | PhaseBegan
    | AgentSelected
    | Rolled
    | CombatBegan
    | CombatTurnBegan
    | Attacked
    | HitPointsChanged
    | ConditionChanged
    | CombatEnded
    | Moved
    | Talked
    | Given
    | Consumed
    | JoinedParty
    | ExperienceGained
    | LevelGained
    | PlaceAdded
    | DialogueBegan
    | DialogueEnded
    | Refused
    | Said
    | Suggested
    | TurnEnded
    | TurnUndone
)

EVENTS: Final[TypeAdapter[tuple[GameEvent, ...]]] = TypeAdapter(
    tuple[Annotated[GameEvent, Field(discriminator="kind")], ...]
)
"""Reads and writes events as JSON."""
