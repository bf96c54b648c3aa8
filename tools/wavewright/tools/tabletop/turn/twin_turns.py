"""A second pipeline of the turn that is run beside the first, and what is compared of the two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from wavewright.engine import Pipeline, TwinReport
from wavewright.planner.types import Json
from wavewright.tools.tabletop.game.events import PhaseBegan
from wavewright.tools.tabletop.turn.agents import TurnAgents
from wavewright.tools.tabletop.turn.context import TurnContext


@dataclass(frozen=True, slots=True)
class TurnTwin:
    """A second pipeline that is run beside the turn's own on some turns."""

    make: Callable[[TurnAgents, int], Pipeline[TurnContext, TurnContext]]
    """Makes it of the agents and the cap of turns of enemies."""
    report: Callable[[TwinReport], None]
    sample: float = 1.0
    seconds: float = 30.0


def view_of_turn(context: TurnContext) -> Json:
    """Return what twin runs compare of a context: all but what it is played on, and the begins of phases."""
    from pydantic_core import to_jsonable_python

    compared = {one.name: getattr(context, one.name) for one in fields(context)}
    del compared["table"], compared["effects"]
    compared["events"] = [event for event in context.events if not isinstance(event, PhaseBegan)]
    shown: Json = to_jsonable_python(compared)
    return shown
