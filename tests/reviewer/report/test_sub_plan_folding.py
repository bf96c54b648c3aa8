"""The picture of a plan with sub-plans: each of them is one box, until it is opened."""

from __future__ import annotations

import pytest

from wavewright.executor.events.types import StepStatus
from wavewright.planner.types import StepId
from wavewright.reviewer.records import StepReport, StepStanding
from wavewright.reviewer.report.sub_plan_folding import draw_plans


def entry(id_: str, wave: int, *sources: str, status: StepStatus = "ok") -> StepReport:
    return StepReport(
        id=StepId(id_),
        tool="look",
        status=status,
        wave=wave,
        depends_on=tuple(map(StepId, sources)),
        seconds=1.0,
    )


LOG = [
    entry("first", 1),
    entry("refine.1.search", 2, "first"),
    entry("refine.1", 3, "refine.1.search"),
    entry("refine.2.search", 4, "refine.1", status="failed"),
    entry("refine.2", 5, "refine.2.search", status="blocked"),
    entry("refine", 6, "refine.1", "refine.2"),
    entry("last", 7, "refine", "first"),
]


def test_a_sub_plan_is_one_box_with_the_worst_end_of_its_steps() -> None:
    folded, whole = draw_plans(LOG, {StepId("refine.1.search"): "warn"})

    boxes = {node.step.id: node.step for node in folded.picture.nodes}
    assert {name: step.wave for name, step in boxes.items()} == {"first": 1, "refine": 2, "last": 3}
    assert (boxes[StepId("refine")].status, boxes[StepId("refine")].tool) == ("failed", "4 steps")
    assert boxes[StepId("refine")].seconds == 5.0
    assert {(edge.source, edge.target) for edge in folded.picture.edges} == {
        ("first", "refine"),
        ("refine", "last"),
        ("first", "last"),
    }
    assert folded.hidden == 4
    assert folded.failed_gate_steps == {"refine": "warn"}
    assert {node.step.id for node in whole.picture.nodes} == {step.id for step in LOG}
    [alone] = draw_plans(LOG, {}, "folded")
    [opened] = draw_plans(LOG, {}, "open")
    assert (alone.picture, opened.picture) == (folded.picture, whole.picture)
    assert (alone.shows_sub_plans, opened.shows_sub_plans) == (False, True)


@pytest.mark.parametrize("standing", ["running", "asking", "ready"])
def test_a_sub_plan_stands_where_a_step_of_it_does(standing: StepStanding) -> None:
    log = [entry("call.one", 1), entry("call.two", 2, "call.one"), entry("call", 3, "call.two")]
    log[1] = log[1].model_copy(update={"status": standing})
    log[2] = log[2].model_copy(update={"status": "waiting"})

    [folded] = draw_plans(log, {}, "folded")

    assert [node.step.status for node in folded.picture.nodes] == [standing]


def test_a_plan_without_sub_plans_has_one_picture() -> None:
    [drawn] = draw_plans([entry("a", 1), entry("b", 2, "a")], {})

    assert drawn.hidden == 0


def test_a_sub_plan_that_is_read_in_its_middle_stays_open() -> None:
    log = [
        entry("call.one", 1),
        entry("outside", 2, "call.one"),
        entry("call.two", 3, "outside"),
        entry("call", 4, "call.two"),
    ]

    [drawn] = draw_plans(log, {})

    assert len(drawn.picture.nodes) == 4
