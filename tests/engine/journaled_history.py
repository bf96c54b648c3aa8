"""Journals with a past of one's own choosing, for forecasts that are drawn from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio

from tests.executor.sqlite.inline_store import InlineEventStore
from wavewright.executor.events.types import (
    Event,
    ItemFinished,
    ModelCalled,
    PlanAccepted,
    RunStarted,
    StepFinished,
)
from wavewright.executor.postgres.journal import PostgresJournal
from wavewright.executor.store.entries import append_entry
from wavewright.planner.language.hashing import plan_hash
from wavewright.planner.language.plan import Plan
from wavewright.planner.ports.model_port import ModelUse
from wavewright.planner.types import JsonObject, RunId, StepId, StepKey


def append(journal: Path | str, run: str, events: Sequence[Event]) -> None:
    """Write a run's events into the journal, in a file or at an address."""
    if isinstance(journal, str):
        anyio.run(_append_there, journal, RunId(run), events)
        return
    with InlineEventStore(journal) as store:
        faults = store.write([append_entry(RunId(run), events)])
    assert not faults


async def _append_there(url: str, run: RunId, events: Sequence[Event]) -> None:
    async with PostgresJournal(url) as journal:
        await journal.append(run, events)


def begun(run: str, plan: JsonObject, *, at: float = 1e9) -> Iterator[Event]:
    """Yield the beginning of a run of that plan."""
    yield RunStarted(run=RunId(run), at=at, job="past", goal={}, now=at)
    yield PlanAccepted(
        at=at, plan=plan, plan_hash=plan_hash(Plan.model_validate(plan)), rung="given"
    )


def ended(
    step: str, seconds: float, *, status: str = "ok", cache_key: str | None = None
) -> StepFinished:
    """Return the end of a step that took so long."""
    return StepFinished(
        at=1e9,
        step=StepId(step),
        status="ok" if status == "ok" else "failed",
        cache_key=None if cache_key is None else StepKey(cache_key),
        output="an output",
        seconds=seconds,
    )


def item_ended(step: str, index: int, seconds: float) -> ItemFinished:
    """Return the end of one item of a step."""
    return ItemFinished(
        at=1e9, step=StepId(step), index=index, key=None, status="ok", output=1, seconds=seconds
    )


def asked(
    step: str, tokens: int, usd: float | None, *, model: str, index: int | None = None
) -> ModelCalled:
    """Return what a step's model call took."""
    use = ModelUse(
        role="worker",
        name="worker",
        model=model,
        outcome="answered",
        input_tokens=tokens - tokens // 4,
        output_tokens=tokens // 4,
        usd=usd,
        step=StepId(step),
        index=index,
    )
    return ModelCalled(at=1e9, use=use)
