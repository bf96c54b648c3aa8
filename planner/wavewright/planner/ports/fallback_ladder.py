"""Fallback ladders: ways to a result in order of preference, tried until one succeeds.

A *ladder* is data: its *rungs* by name, each with a timeout, a number of tries and the confidence
ceiling of its results. The caller supplies the code of each rung. A rung that fails records why,
and the last one either gives a result or says why there is none.

A project's ladder replaces the shipped one of the same name. Its rungs must be known and named at
most once; others are an error of the settings.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated, Final, Generic, Literal, TypeAlias, TypeVar

from pydantic import Field

from wavewright.config.documents import Document, read_document
from wavewright.config.model_validation import read_as_model, sort_by_position
from wavewright.config.sources import DocumentError, DocumentFault, Source, pointer_token
from wavewright.config.value_types import Seconds, Share
from wavewright.planner.diagnostics.diagnostic import suggest_name
from wavewright.planner.language.plan import DocumentModel
from wavewright.planner.ports.model_port import ModelError, ModelErrorKind
from wavewright.planner.types import Json

T = TypeVar("T")


MIN_PAST_CALLS: Final = 20
"""Past calls from which a 95th percentile leaves one call above it."""


class RungTimeout(DocumentModel):
    """How long a rung may take: it grows with the size of what is asked and with how long such
    calls took before.
    """

    base: Seconds = 60.0
    """Seconds whatever the size."""
    per_1000_chars: Annotated[float, Field(ge=0)] = 0.0
    """Seconds more for each 1,000 characters asked."""
    of_past: Annotated[float, Field(ge=1)] = 3.0
    """Times the 95th percentile of past calls of the same model and role: what `past` bounds the
    clock by.
    """
    past: Literal["at_least", "at_most"] = "at_least"
    """Whether past calls make the clock longer, or cut it; cut only once there were
    `MIN_PAST_CALLS`.
    """
    least: Seconds = 5.0
    most: Seconds = 600.0


class Rung(DocumentModel):
    """One way to a result."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z_]{0,30}$")]
    clock: RungTimeout | None = None
    """For rungs that ask a model; others have none."""
    tries: Annotated[int, Field(ge=1, le=10)] = 1
    """How often the rung is tried, or for `repaired`: rounds of repair."""
    ceiling: Share = 1.0
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
    """The failure of a rung, with its reason.

    >>> from wavewright.planner import FallbackFailure
    >>> FallbackFailure("the model refused").ends_ladder
    False
    """

    reason: str
    ends_ladder: bool = False
    """Whether no rung below is tried: a person must be asked first, or the work was cancelled."""
    is_outage: bool = False
    """Whether what the rung asks gave no answer that can be used: asked again, it may give one."""
    error: ModelError | None = None
    """Why a model gave no answer; None where the rung failed otherwise."""


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
    data: tuple[str, ...] = ()
    """Names of the run data that the call has written in which an agent took the rung; empty where
    that is unknown.
    """
    is_outage: bool = False
    """Whether what the rung asks gave no answer that can be used: asked again, it may give one."""
    error_kind: ModelErrorKind | None = None
    """Of the model's error; None where the rung failed otherwise."""


@dataclass(frozen=True, slots=True)
class FallbackResult(Generic[T]):
    """The result of a ladder; `value` is None if every rung failed."""

    value: T | None
    records: tuple[RungRecord, ...]
    error: ModelError | None = None
    """The first error of a model, where every rung failed."""

    @property
    def rung(self) -> str | None:
        """The rung that gave the value."""
        last = self.records[-1] if self.records else None
        return last.rung if last is not None and last.outcome == "reached" else None


FallbackStrategy: TypeAlias = Callable[[Rung], Awaitable[T | FallbackFailure]]
"""The code of one rung; an expected failure is a `FallbackFailure`, never an exception."""


def rung_timeout(clock: RungTimeout, chars: int, past: Sequence[float]) -> float:
    """Return the seconds that a rung may take for a question of so many characters.

    `past` are the seconds of earlier calls of the same model and role.
    """
    seconds = clock.base + clock.per_1000_chars * chars / 1000
    if past:
        ordered = sorted(past)
        of_past = clock.of_past * ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
        if clock.past == "at_least":
            seconds = max(seconds, of_past)
        elif len(past) >= MIN_PAST_CALLS:
            seconds = min(seconds, of_past)
    return min(max(seconds, clock.least), clock.most)


async def run_ladder(
    ladder: Ladder,
    ways: Mapping[str, FallbackStrategy[T]],
    *,
    label: str | None = None,
    on_rung: Callable[[RungRecord], None] | None = None,
) -> FallbackResult[T]:
    """Try the rungs from the top and return what the first that succeeds gives, with a record of
    each.

    A rung without code is skipped: the caller does not support it. `label` stands for the ladder's
    name on record.
    """
    records: list[RungRecord] = []
    error: ModelError | None = None
    for rung in ladder.rungs:
        way = ways.get(rung.name)
        if way is None:
            continue
        started = time.monotonic()
        result = await way(rung)
        seconds = time.monotonic() - started
        if isinstance(result, FallbackFailure):
            error = error or result.error
            record = RungRecord(
                label or ladder.name,
                rung.name,
                "fallen",
                result.reason,
                seconds,
                is_outage=result.is_outage,
                error_kind=result.error.kind if result.error else None,
            )
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
    return FallbackResult(None, tuple(records), error)


RUNGS_BY_LADDER: Final[Mapping[str, tuple[str, ...]]] = {
    "planner": ("llm", "repaired", "guided", "suggested", "template", "minimal"),
    "reviewer": ("model", "code"),
    "worker": ("agent", "suggested", "generated", "forced"),
    "recovery": ("recipe", "model"),
}
"""The rungs that there is code for, by ladder, best first."""

SETTINGS_NAME = "wavewright.yaml"
"""Where a project's ladders stand, for faults of ladders that come from no file."""


class _RungList(DocumentModel):
    """A ladder as it is written: the list of its rungs."""

    rungs: tuple[Rung, ...] = Field(strict=False)


def read_ladders(
    settings_ladders: Mapping[str, Json], settings_file: Document | None = None
) -> Mapping[str, Ladder]:
    """Return all ladders by name.

    Args:
        settings_ladders: A project's own ladders.
        settings_file: The file that they stand in, under `ladders`; without it faults have no line.

    Raises:
        DocumentError: a ladder of the settings is faulty; each fault names the rung and the fix.
    """
    if settings_file is None:
        value: Json = {"ladders": dict(settings_ladders)}
        settings_file = Document(value, Source(SETTINGS_NAME, ""), keeps_places=False)
    return {**shipped_ladders(), **_parse_ladders(settings_ladders, settings_file, "/ladders")}


@cache
def shipped_ladders() -> Mapping[str, Ladder]:
    """Return the ladders that come with the package.

    >>> from wavewright.planner import shipped_ladders
    >>> [rung.name for rung in shipped_ladders()["planner"].rungs][:2]
    ['llm', 'repaired']
    """
    file = files("wavewright.config") / "ladders.yaml"
    document = read_document(file.read_text(encoding="utf-8"), "ladders.yaml")
    value = document.value
    assert isinstance(value, dict)
    return _parse_ladders(value, document, "")


def _parse_ladders(
    written: Mapping[str, Json], document: Document, pointer: str
) -> dict[str, Ladder]:
    ladders: dict[str, Ladder] = {}
    faults: list[DocumentFault] = []
    for name, rungs in written.items():
        place = pointer + pointer_token(name)
        if name not in RUNGS_BY_LADDER:
            hint = suggest_name(name, RUNGS_BY_LADDER, what="ladders")
            faults.append(
                DocumentFault(
                    "unknown_field", f"there is no ladder {name!r}", pointer=place, hint=hint
                )
            )
            continue
        try:
            shaped = read_as_model(
                Document({"rungs": rungs}, Source(name, ""), keeps_places=False), _RungList
            )
        except DocumentError as error:
            faults += [_relocated_fault(fault, name, place) for fault in error.faults]
            continue
        if not shaped.rungs:
            hint = f"name at least one of {', '.join(RUNGS_BY_LADDER[name])}"
            faults.append(
                DocumentFault(
                    "bad_value", f"ladder {name!r} has no rungs", pointer=place, hint=hint
                )
            )
            continue
        ladder = Ladder(name=name, rungs=shaped.rungs)
        faults += _rung_faults(ladder, place)
        ladders[name] = ladder
    if faults:
        raise DocumentError(document.source, sort_by_position(document, faults))
    return ladders


def _relocated_fault(fault: DocumentFault, name: str, place: str) -> DocumentFault:
    """Return a fault of a list of rungs as one of the document that the list stands in."""
    pointer = place + fault.pointer.removeprefix("/rungs")
    return DocumentFault(
        fault.kind, f"ladder {name!r}: {fault.message}", pointer=pointer, hint=fault.hint
    )


def _rung_faults(ladder: Ladder, place: str) -> Iterator[DocumentFault]:
    known = RUNGS_BY_LADDER[ladder.name]
    seen: set[str] = set()
    for number, rung in enumerate(ladder.rungs):
        pointer = f"{place}/{number}/name"
        if rung.name not in known:
            hint = suggest_name(rung.name, known, what=f"rungs of {ladder.name!r}")
            message = f"ladder {ladder.name!r} has no rung {rung.name!r}"
            yield DocumentFault("bad_value", message, pointer=pointer, hint=hint)
        elif rung.name in seen:
            message = f"the rung {rung.name!r} stands twice in ladder {ladder.name!r}"
            yield DocumentFault(
                "bad_value", message, pointer=pointer, hint="write 'tries' to try it more than once"
            )
        seen.add(rung.name)
