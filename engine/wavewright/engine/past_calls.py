"""What earlier calls of tools took, gathered from the latest events of a journal, wherever that is kept.

A tool's *history* is the seconds of its latest calls that brought something, and what models took for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

HISTORY_WINDOW: Final = 20_000
"""Latest events that are looked through."""
MAX_CALLS_PER_TOOL: Final = 50
"""Latest calls of one tool that are looked at."""


@dataclass(frozen=True, slots=True)
class CallSpend:
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
    spends: tuple[CallSpend, ...] = ()
    """Of those calls for which a model was asked."""

    def of_model(self, model: str) -> tuple[CallSpend, ...]:
        """Return what was spent where this model alone was asked: another has other words and another price."""
        return tuple(spend for spend in self.spends if spend.models == frozenset({model}))


History: TypeAlias = Mapping[str, PastCalls]
"""Past calls by tool."""
NO_HISTORY: Final[History] = MappingProxyType({})


@dataclass(slots=True)
class RunSteps:
    """What the steps of one run call."""

    tools: dict[str, str] = field(default_factory=dict[str, str])
    fan_outs: set[str] = field(default_factory=set[str])
    """Steps that run once an item: their items are the calls."""

    def add(self, step: str, tool: str, *, is_fan: bool) -> None:
        """Take in a step of a plan that the run accepted, the earlier plan first."""
        self.tools[step] = tool
        if is_fan:
            self.fan_outs.add(step)


class CallEnding(NamedTuple):
    """An event that ends a call, or a step of several."""

    event: int
    run: int
    kind: str
    step: str


class CallModelUse(NamedTuple):
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
        self._found: dict[str, list[CallEnding]] = {tool: [] for tool in tools}
        self._wanted = set(tools)

    def add_ending(self, ending: CallEnding, steps: RunSteps) -> bool:
        """Take an ending in, and return whether that was the last that is wanted."""
        tool = steps.tools.get(ending.step)
        if tool in self._wanted and (ending.kind == "step_finished") != (ending.step in steps.fan_outs):
            self._found[tool].append(ending)
            if len(self._found[tool]) == MAX_CALLS_PER_TOOL:
                self._wanted.discard(tool)
        return not self._wanted

    @property
    def events(self) -> list[int]:
        """The events in which they ended."""
        return [ending.event for endings in self._found.values() for ending in endings]

    def history(self, calls: Mapping[int, tuple[float, int | None]], uses: Iterable[CallModelUse]) -> History:
        """Return the history.

        Args:
            calls: By event, the seconds of a call and its place among a step's items; without those that are damaged.
            uses: Of models, the earliest first.
        """
        spends = _sum_uses(uses)
        return {
            tool: _past_calls([ending for ending in endings if ending.event in calls], calls, spends)
            for tool, endings in self._found.items()
            if endings
        }


_CallPlace: TypeAlias = tuple[int, str, int | None]
"""Run, step and item of a call."""


def _sum_uses(uses: Iterable[CallModelUse]) -> dict[_CallPlace, CallSpend]:
    spends = dict[_CallPlace, CallSpend]()
    for use in uses:
        if use.step is None:
            continue
        place = use.run, use.step, use.item
        before = spends.get(place, CallSpend(frozenset(), 0, 0.0))
        spends[place] = CallSpend(
            before.models | {use.model},
            before.tokens + use.tokens,
            None if use.usd is None or before.usd is None else before.usd + use.usd,
        )
    return spends


def _past_calls(
    endings: list[CallEnding],
    calls: Mapping[int, tuple[float, int | None]],
    spends: Mapping[_CallPlace, CallSpend],
) -> PastCalls:
    places = [(ending.run, ending.step, calls[ending.event][1]) for ending in endings]
    return PastCalls(
        tuple(calls[ending.event][0] for ending in endings),
        tuple(spends[place] for place in places if place in spends),
    )
