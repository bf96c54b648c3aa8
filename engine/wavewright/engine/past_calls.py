"""What earlier calls of tools took, gathered from the latest events of a journal, wherever that is kept.

A tool's *history* is the seconds of its latest calls that brought something, and what models took for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

WINDOW: Final = 20_000
"""Latest events that are looked through."""
REMEMBERED: Final = 50
"""Latest calls of one tool that are looked at."""


@dataclass(frozen=True, slots=True)
class PastSpend:
    """What models took for one call of a tool."""

    models: frozenset[str]
    """Whoever was asked for it."""
    tokens: int
    usd: float | None
    """None where a price was not known."""


@dataclass(frozen=True, slots=True)
class PastCalls:
    """The latest calls of one tool that brought something, the latest first."""

    seconds: tuple[float, ...] = ()
    spends: tuple[PastSpend, ...] = ()
    """Of those calls for which a model was asked."""

    def of_model(self, model: str) -> tuple[PastSpend, ...]:
        """Return what was spent where this model alone was asked: another has other words and another price."""
        return tuple(spend for spend in self.spends if spend.models == frozenset({model}))


History: TypeAlias = Mapping[str, PastCalls]
"""Past calls by tool."""
NO_HISTORY: Final[History] = MappingProxyType({})


@dataclass(slots=True)
class RunSteps:
    """What the steps of one run call."""

    tools: dict[str, str] = field(default_factory=dict[str, str])
    fans: set[str] = field(default_factory=set[str])
    """Steps that run once an item: their items are the calls."""

    def add(self, step: str, tool: str, *, is_fan: bool) -> None:
        """Take in a step of a plan that the run accepted, the earlier plan first."""
        self.tools[step] = tool
        if is_fan:
            self.fans.add(step)


class Ending(NamedTuple):
    """An event that ends a call, or a step of several."""

    event: int
    run: int
    kind: str
    step: str


class Use(NamedTuple):
    """A model call, and which call of a tool it was for."""

    run: int
    step: str | None
    item: int | None
    model: str
    tokens: int
    usd: float | None


class LatestCalls:
    """The latest calls of some tools, found in a look from the newest event backwards."""

    def __init__(self, tools: Collection[str]) -> None:
        self._found: dict[str, list[Ending]] = {tool: [] for tool in tools}
        self._wanted = set(tools)

    def look_at(self, ending: Ending, steps: RunSteps) -> bool:
        """Take an ending in, and return whether that was the last that is wanted."""
        tool = steps.tools.get(ending.step)
        if tool in self._wanted and (ending.kind == "step_finished") != (ending.step in steps.fans):
            self._found[tool].append(ending)
            if len(self._found[tool]) == REMEMBERED:
                self._wanted.discard(tool)
        return not self._wanted

    @property
    def events(self) -> list[int]:
        """The events in which they ended."""
        return [ending.event for endings in self._found.values() for ending in endings]

    def history(self, calls: Mapping[int, tuple[float, int | None]], uses: Iterable[Use]) -> History:
        """Return the history.

        Args:
            calls: By event, the seconds of a call and its place among a step's items; without those that are damaged.
            uses: Of models, the earliest first.
        """
        spends = _add_up(uses)
        return {
            tool: _past([ending for ending in endings if ending.event in calls], calls, spends)
            for tool, endings in self._found.items()
            if endings
        }


_Place: TypeAlias = tuple[int, str, int | None]
"""Run, step and item of a call."""


def _add_up(uses: Iterable[Use]) -> dict[_Place, PastSpend]:
    spends = dict[_Place, PastSpend]()
    for use in uses:
        if use.step is None:
            continue
        place = use.run, use.step, use.item
        before = spends.get(place, PastSpend(frozenset(), 0, 0.0))
        spends[place] = PastSpend(
            before.models | {use.model},
            before.tokens + use.tokens,
            None if use.usd is None or before.usd is None else before.usd + use.usd,
        )
    return spends


def _past(
    endings: list[Ending],
    calls: Mapping[int, tuple[float, int | None]],
    spends: Mapping[_Place, PastSpend],
) -> PastCalls:
    places = [(ending.run, ending.step, calls[ending.event][1]) for ending in endings]
    return PastCalls(
        tuple(calls[ending.event][0] for ending in endings),
        tuple(spends[place] for place in places if place in spends),
    )
