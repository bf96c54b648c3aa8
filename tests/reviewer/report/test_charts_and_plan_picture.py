from __future__ import annotations

import math
from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given, strategies as st

from wavewright.planner.types import StepId
from wavewright.reviewer.records import Chart, ChartSeries, StepReport
from wavewright.reviewer.report.charts import draw_chart, linear_ticks, log_ticks, time_ticks
from wavewright.reviewer.report.plan_picture import PlanPicture, draw_plan
from wavewright.reviewer.report.sections import draw_gantt, duration_ticks


@st.composite
def logs(draw: st.DrawFn) -> list[StepReport]:
    """Logs of plans with up to 40 steps in layers."""
    count = draw(st.integers(1, 40))
    log: list[StepReport] = []
    for number in range(count):
        befores = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set[int]()
        wave = 1 + max((log[before].wave for before in befores), default=0)
        log.append(
            StepReport(
                id=StepId(f"s{number}"),
                tool="look",
                status="ok",
                wave=wave,
                depends_on=tuple(log[before].id for before in sorted(befores)),
            )
        )
    return log


def overlaps(picture: PlanPicture) -> list[tuple[str, str]]:
    nodes = picture.nodes
    return [
        (one.step.id, other.step.id)
        for number, one in enumerate(nodes)
        for other in nodes[number + 1 :]
        if one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
    ]


@given(logs())
def test_no_two_steps_overlap_and_all_lie_inside_the_picture(log: list[StepReport]) -> None:
    picture = draw_plan(log)

    assert overlaps(picture) == []
    assert {node.step.id for node in picture.nodes} == {entry.id for entry in log}
    for node in picture.nodes:
        assert 0 <= node.x <= picture.width - node.width
        assert 0 <= node.y <= picture.height - node.height


@given(logs())
def test_every_dependency_is_a_line_that_goes_onward(log: list[StepReport]) -> None:
    picture = draw_plan(log)
    places = {node.step.id: node for node in picture.nodes}

    assert {(edge.source, edge.target) for edge in picture.edges} == {
        (before, entry.id) for entry in log for before in entry.depends_on
    }
    for edge in picture.edges:
        one, other = places[edge.source], places[edge.target]
        assert one.y < other.y if picture.direction == "down" else one.x < other.x


@given(logs())
def test_a_line_is_implied_where_a_transitive_reduction_leaves_it_out(
    log: list[StepReport],
) -> None:
    picture = draw_plan(log)
    graph: nx.DiGraph[str] = nx.DiGraph((edge.source, edge.target) for edge in picture.edges)

    shown = {(edge.source, edge.target) for edge in picture.edges if not edge.is_implied}
    assert shown == set(nx.transitive_reduction(graph).edges)
    assert picture.implied == len(picture.edges) - len(shown)


@given(logs())
def test_the_same_log_gives_the_same_picture(log: list[StepReport]) -> None:
    assert draw_plan(log) == draw_plan(log)


def test_a_long_chain_runs_down_the_page_and_a_wide_plan_across() -> None:
    chain = [
        StepReport(
            id=StepId(f"s{n}"),
            tool="t",
            status="ok",
            wave=n + 1,
            depends_on=(StepId(f"s{n - 1}"),) if n else (),
        )
        for n in range(9)
    ]
    wide = [StepReport(id=StepId(f"s{n}"), tool="t", status="ok", wave=1) for n in range(30)]

    assert draw_plan(chain).direction == "down"
    assert draw_plan(wide).direction == "across"
    assert draw_plan([]).nodes == ()


def test_bars_lie_on_the_axis_in_the_order_in_which_the_steps_began() -> None:
    log = [
        StepReport(id=StepId("late"), tool="t", status="ok", wave=2, started=103.0, seconds=1.0),
        StepReport(id=StepId("never"), tool="t", status="blocked", wave=2),
        StepReport(id=StepId("early"), tool="t", status="ok", wave=1, started=100.0, seconds=2.0),
        StepReport(id=StepId("instant"), tool="t", status="ok", wave=2, started=104.0, seconds=0.0),
    ]
    drawn = draw_gantt(log)

    assert [bar.step.id for bar in drawn.bars] == ["early", "late", "instant"]
    assert (drawn.bars[0].start, drawn.bars[0].width) == (0.0, 50.0)
    assert all(bar.start >= 0 and bar.start + bar.width <= 100.0001 for bar in drawn.bars)
    assert all(bar.width > 0 for bar in drawn.bars)


def chart(*series: tuple[str, list[tuple[str, float]]], normalise: bool = False) -> Chart:
    lines = tuple(ChartSeries(name=name, points=tuple(points)) for name, points in series)
    return Chart(step=StepId("a"), title="T", series=lines, normalise=normalise)


def months(*figures: float, first: int = 1) -> list[tuple[str, float]]:
    return [(f"2009-{first + number:02d}-01", figure) for number, figure in enumerate(figures)]


def test_lines_of_a_normalised_chart_are_100_on_the_first_day_that_all_have() -> None:
    drawn = draw_chart(
        chart(("long", months(50, 100, 200)), ("short", months(8, 4, first=2)), normalise=True)
    )

    assert drawn is not None
    assert "100 on 2009-02-01" in drawn.note
    assert [line.last for line in drawn.wide.lines] == ["200", "50"]
    assert drawn.wide.base is not None
    assert "logarithmic" not in drawn.note


def test_a_normalised_chart_of_a_wide_range_has_a_logarithmic_axis() -> None:
    drawn = draw_chart(chart(("up", months(1, 2, 40)), ("down", months(10, 8, 5)), normalise=True))

    assert drawn is not None
    assert "logarithmic axis" in drawn.note


def test_lines_that_share_no_day_are_each_100_on_their_first() -> None:
    drawn = draw_chart(chart(("a", months(10, 20)), ("b", months(5, 15, first=6)), normalise=True))

    assert drawn is not None
    assert drawn.note == "each line is 100 on its first day"
    assert [line.last for line in drawn.wide.lines] == ["200", "300"]


def test_the_names_at_the_lines_ends_do_not_touch() -> None:
    drawn = draw_chart(chart(*((f"s{n}", months(1, 100 + n / 10)) for n in range(10))))

    assert drawn is not None
    places = sorted(line.label_y for line in drawn.wide.lines)
    assert all(later - earlier >= 14.9 for earlier, later in pairwise(places))


def test_a_long_series_is_thinned_without_losing_its_peaks() -> None:
    days = [
        (f"{1990 + n // 336:04d}-{1 + n // 28 % 12:02d}-{1 + n % 28:02d}", 10.0)
        for n in range(6000)
    ]
    days[3333] = (days[3333][0], 99.0)
    drawn = draw_chart(chart(("x", days)))

    assert drawn is not None
    (line,) = drawn.wide.lines
    assert line.path.count("L") < 1000
    assert min(float(pair.split()[1]) for pair in line.path[1:].split("L")) < drawn.wide.bottom / 2


@pytest.mark.parametrize(
    "figures", [[5.0], [5.0, 5.0], [-3.0, 4.0], [0.0, 0.0]], ids=["one", "flat", "negative", "zero"]
)
@pytest.mark.parametrize("normalise", [False, True])
def test_odd_series_are_drawn_inside_the_frame(figures: list[float], normalise: bool) -> None:  # noqa: FBT001
    drawn = draw_chart(chart(("x", months(*figures)), normalise=normalise))

    assert drawn is not None
    for drawing in (drawn.wide, drawn.narrow):
        for line in drawing.lines:
            assert drawing.left - 0.01 <= line.end_x <= drawing.right + 0.01
            assert drawing.top - 0.01 <= line.end_y <= drawing.bottom + 0.01


def test_a_chart_without_figures_is_not_drawn() -> None:
    assert draw_chart(chart(("x", []))) is None


RANGES = st.tuples(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))


@given(RANGES, st.integers(2, 9))
def test_marks_lie_inside_the_range_and_are_few_and_told_apart(
    ends: tuple[float, float], most: int
) -> None:
    low, high = ends[0], ends[0] + ends[1]
    ticks = linear_ticks(low, high, most)

    assert len(ticks) <= most
    slack = abs(high - low) * 1e-6 + abs(low) * 1e-9
    assert all(low - slack <= tick.value <= high + slack for tick in ticks)


@given(st.floats(1e-3, 1e6), st.floats(1.01, 1e5), st.integers(4, 9))
def test_logarithmic_marks_lie_inside_the_range(low: float, ratio: float, most: int) -> None:
    assert all(low <= tick.value <= low * ratio for tick in log_ticks(low, low * ratio, most))


@given(st.integers(0, 2_000_000_000), st.integers(1, 3_000_000_000), st.integers(3, 9))
def test_marks_of_time_lie_inside_the_range_and_are_few(low: int, span: int, most: int) -> None:
    ticks = time_ticks(low, low + span, most)

    assert len(ticks) <= most
    assert all(low <= tick.value <= low + span for tick in ticks)
    assert len({tick.label for tick in ticks}) == len(ticks)


@given(st.floats(0, 1e7))
def test_marks_of_duration_begin_at_zero(seconds: float) -> None:
    ticks = duration_ticks(seconds, 6)

    assert ticks[0].label == "0"
    assert all(tick.value <= seconds * (1 + 1e-6) or math.isclose(tick.value, 0) for tick in ticks)
