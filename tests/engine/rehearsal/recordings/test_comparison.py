"""What a replay changes, sentence by sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import anyio
import pytest

from tests.engine.conftest import CommandLine
from tests.engine.rehearsal.recordings.test_replay import ran
from tests.engine.stale_quotes_project import write_quotes_project
from wavewright.config.settings import load_settings
from wavewright.engine.rehearsal.recordings.replay import ReplayResult, replay_run
from wavewright.engine.rehearsal.recordings.replay_models import ReplayOptions
from wavewright.executor.events.state import fold
from wavewright.executor.events.types import Event, StepFinished
from wavewright.reviewer.package.comparison import ComparedRun
from wavewright.reviewer.records import CapRecord, Confidence, ReviewResult


@pytest.fixture
def same(wavewright: CommandLine, tmp_path: Path) -> tuple[ReplayResult, list[Event]]:
    """A run of the desk, replayed with nothing changed, and its events."""
    write_quotes_project(tmp_path)

    async def work() -> tuple[ReplayResult, list[Event]]:
        run, events = await ran(tmp_path)
        return await replay_run(run, events, load_settings(tmp_path), ReplayOptions()), events

    return anyio.run(work)


def with_gates(
    event: Event, verdict: Literal["pass", "fail"], severity: Literal["block", "warn"]
) -> Event:
    if not isinstance(event, StepFinished) or not event.gates:
        return event
    return replace(
        event,
        gates=tuple(replace(gate, verdict=verdict, severity=severity) for gate in event.gates),
    )


def test_gates_are_told_by_verdict_and_by_what_they_stop(
    same: tuple[ReplayResult, list[Event]],
) -> None:
    replayed, events = same
    state = fold(with_gates(event, "fail", "warn") for event in events)

    found = replace(replayed, after=replace(replayed.after, state=state)).compare()

    assert found.gates == (
        "gate fresh__quotes on quotes[0] now only warns",
        "gate fresh__quotes on quotes[1] now only warns",
        "gate fresh__quotes_2 on quotes_2[0] pass → fail",
        "gate fresh__quotes_2 on quotes_2[0] now only warns",
        "gate fresh__quotes_2 on quotes_2[1] pass → fail",
        "gate fresh__quotes_2 on quotes_2[1] now only warns",
    )


def test_a_gate_that_only_one_side_asked_is_told(same: tuple[ReplayResult, list[Event]]) -> None:
    replayed, events = same
    without = [
        replace(event, gates=())
        if isinstance(event, StepFinished) and event.step == "quotes_2"
        else event
        for event in events
    ]
    fewer = replace(replayed.before, state=fold(without))

    assert replace(replayed, after=fewer).compare().gates == (
        "gate fresh__quotes_2 on quotes_2[0] is not evaluated",
        "gate fresh__quotes_2 on quotes_2[1] is not evaluated",
    )
    assert replace(replayed, before=fewer).compare().gates == (
        "gate fresh__quotes_2 on quotes_2[0] (new): pass",
        "gate fresh__quotes_2 on quotes_2[1] (new): pass",
    )


def reviewed(side: ComparedRun, *caps: CapRecord, **confidences: float) -> ComparedRun:
    """Return a side whose review has other caps and confidences."""
    assert side.package is not None
    assert side.package.review is not None
    fields = tuple(
        Confidence(field=name, raw=figure, capped=figure) for name, figure in confidences.items()
    )
    review: ReviewResult = side.package.review.model_copy(
        update={"caps": caps, "confidences": fields}
    )
    return replace(side, package=side.package.model_copy(update={"review": review}))


def test_caps_and_confidences_are_told_by_their_figures(
    same: tuple[ReplayResult, list[Event]],
) -> None:
    replayed, _ = same
    npcs = CapRecord(field="npcs", max=0.4, because="no source names them", applied=True)
    names = CapRecord(field="names", max=0.5, because="half are missing", applied=True)
    places = CapRecord(field="places", max=0.6, because="no map", applied=False)
    before = reviewed(replayed.before, npcs, names, places, overall=0.8, names=0.5)
    after = reviewed(
        replayed.after,
        npcs.model_copy(update={"max": 0.2}),
        places.model_copy(update={"applied": True}),
        overall=0.4,
        places=0.6,
    )

    found = replace(replayed, before=before, after=after).compare()

    assert found.confidence == (
        "confidence overall 0.80 → 0.40",
        "confidence names is not computed",
        "confidence places is computed",
        "cap npcs 0.4 → 0.2",
        "cap places 0.6 applies: no map",
        "cap names 0.5 applies no longer: half are missing",
    )


def test_a_replay_without_a_package_says_why(same: tuple[ReplayResult, list[Event]]) -> None:
    replayed, events = same
    cut = ComparedRun(
        fold(events[:2]), None, "there is no valid plan: E201: there is no tool 'fetsch'"
    )

    found = replace(replayed, after=cut).compare()

    assert found.plan == ("one of them has no plan",)
    assert found.review[:2] == (
        "verdict achieved → failed",
        "it ended without a package: there is no valid plan: E201: there is no tool 'fetsch'",
    )
