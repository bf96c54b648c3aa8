"""The fallback ladder: ways to a result, best first, until one gives it.

A *ladder* is data: its *rungs* by name, each with its clock, its tries and the ceiling that a result from there puts
on confidence. Who uses a ladder gives each rung its code. A rung that gives nothing says why, and that is on record;
the last rung always gives something or says why nobody can, so a ladder never ends in silence.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, Literal, TypeAlias, TypeVar

from pydantic import Field

from wavewright.config.durations import Seconds
from wavewright.planner.models import DocumentModel

T = TypeVar("T")


class RungTimeout(DocumentModel):
    """How long a rung may take: it grows with the size of what is asked and with how long such calls took before."""

    base: Seconds = 60.0
    """Seconds whatever the size."""
    per_1000_chars: Annotated[float, Field(ge=0)] = 0.0
    """Seconds more for each 1,000 characters asked."""
    of_past: Annotated[float, Field(ge=1)] = 3.0
    """The clock is at least this many times the 95th percentile of past calls of the same model and role."""
    least: Seconds = 5.0
    most: Seconds = 600.0


class Rung(DocumentModel):
    """One way to a result."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z_]{0,30}$")]
    clock: RungTimeout | None = None
    """For rungs that ask a model; others have none."""
    tries: Annotated[int, Field(ge=1, le=10)] = 1
    """How often the rung is tried, or for `repaired`: rounds of repair."""
    ceiling: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Ceiling of every confidence, where the result comes from this rung."""
    because: str = ""
    """Why the ceiling, for the report."""


class Ladder(DocumentModel):
    """The rungs of one user of the mechanism, best first, each once."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z_]{0,30}$")]
    rungs: Annotated[tuple[Rung, ...], Field(strict=False, min_length=1)]

    def rung(self, name: str) -> Rung | None:
        """Return a rung by its name; none where the ladder leaves it out."""
        return next((rung for rung in self.rungs if rung.name == name), None)


@dataclass(frozen=True, slots=True)
class FallbackFailure:
    """A rung gave nothing, and why."""

    reason: str
    ends_ladder: bool = False
    """Whether no rung below is tried: somebody has to be asked first, or the work was called off."""


@dataclass(frozen=True, slots=True)
class RungRecord:
    """One rung that was tried."""

    ladder: str
    """The ladder's name, and for a worker its own: `worker summarize_content`."""
    rung: str
    outcome: Literal["reached", "fallen"]
    reason: str = ""
    seconds: float = 0.0
    ceiling: float = 1.0
    because: str = ""


@dataclass(frozen=True, slots=True)
class FallbackResult(Generic[T]):
    """Where a descent ended; `value` is absent where no rung gave anything."""

    value: T | None
    records: tuple[RungRecord, ...]

    @property
    def rung(self) -> str | None:
        """The rung that gave the value."""
        last = self.records[-1] if self.records else None
        return last.rung if last is not None and last.outcome == "reached" else None


FallbackStrategy: TypeAlias = Callable[[Rung], Awaitable[T | FallbackFailure]]
"""The code of one rung; what goes wrong in an expected way is `Fallen`, never an exception."""


def rung_timeout(clock: RungTimeout, chars: int, past: Sequence[float]) -> float:
    """Return the seconds that a rung may take for a question of so many characters.

    `past` are the seconds of earlier calls of the same model and role; the answer grows with their 95th percentile.
    """
    seconds = clock.base + clock.per_1000_chars * chars / 1000
    if past:
        ordered = sorted(past)
        seconds = max(seconds, clock.of_past * ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))])
    return min(max(seconds, clock.least), clock.most)


async def run_ladder(
    ladder: Ladder,
    ways: Mapping[str, FallbackStrategy[T]],
    *,
    label: str | None = None,
    on_rung: Callable[[RungRecord], None] | None = None,
) -> FallbackResult[T]:
    """Try the rungs from the top and return what the first that succeeds gives, with a record of each.

    A rung without a way is passed over: it has no meaning for this user. `label` stands for the ladder's name on
    record.
    """
    records: list[RungRecord] = []
    for rung in ladder.rungs:
        way = ways.get(rung.name)
        if way is None:
            continue
        started = time.monotonic()
        result = await way(rung)
        seconds = time.monotonic() - started
        if isinstance(result, FallbackFailure):
            record = RungRecord(label or ladder.name, rung.name, "fallen", result.reason, seconds)
        else:
            record = RungRecord(
                label or ladder.name, rung.name, "reached", "", seconds, rung.ceiling, rung.because
            )
        records.append(record)
        if on_rung is not None:
            on_rung(record)
        if not isinstance(result, FallbackFailure):
            return FallbackResult(result, tuple(records))
        if result.ends_ladder:
            break
    return FallbackResult(None, tuple(records))
