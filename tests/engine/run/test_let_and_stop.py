"""Runs of plans with `let` and `stop`."""

from __future__ import annotations

from pathlib import Path

import pytest

from wavewright.engine import LoadedPlan, PlanRun, Wavewright
from wavewright.planner import Json, PlanError
from wavewright.tools import make_tool

SENT: list[int] = []


def rows(count: int) -> list[dict[str, int]]:
    """Give rows."""
    return [{"day": day, "value": 10 * day} for day in range(count)]


def send(value: int) -> int:
    """Send a value."""
    SENT.append(value)
    return value


def boom() -> list[int]:
    """Fail."""
    msg = "no rows today"
    raise ValueError(msg)


@pytest.fixture
def app(tmp_path: Path) -> Wavewright:
    SENT.clear()
    writing = make_tool(send, effects=["write"])
    return Wavewright(tools=[rows, writing, boom], journal=tmp_path / "journal.db")


def digest(app: Wavewright, count: int, since: int) -> LoadedPlan:
    """Return a plan that sends what is new, and stops where nothing is."""
    return (
        app.new_plan(inputs={"since": since})
        .let(fresh="${steps.all.filter(r, r.day > inputs.since)}")
        .step("all", "rows", {"count": count})
        .step("sent", "send", {"value": "${item.value}"}, for_each="${fresh}")
        .step("last", "send", {"value": "${steps.sent.size()}"})
        .stop("fresh.size() == 0", {"said": "nothing new since ${inputs.since}"})
        .returns({"sent": "${steps.sent}", "count": "${fresh.size()}"})
    )


def statuses(run: PlanRun[Json]) -> dict[str, str]:
    return {name: step.status for name, step in run.steps.items()}


def test_a_name_gives_what_it_stands_for_wherever_it_is_read(app: Wavewright) -> None:
    ended = app.run_sync(digest(app, count=4, since=1))

    assert ended.result == {"sent": [20, 30], "count": 2}
    assert sorted(SENT[:2]) == [20, 30]
    assert SENT[2:] == [2]


def test_a_stop_ends_the_run_early_and_well(app: Wavewright) -> None:
    ended = app.run_sync(digest(app, count=4, since=9))

    assert ended.status == "achieved"
    assert ended.result == {"said": "nothing new since 9"}
    assert statuses(ended) == {"all": "ok", "sent": "skipped", "last": "skipped"}
    assert SENT == []


def test_a_plan_that_stops_before_its_first_step_is_achieved_in_full(app: Wavewright) -> None:
    plan = (
        app.new_plan(inputs={"count": 0})
        .step("all", "rows", {"count": "${inputs.count}"})
        .stop("inputs.count == 0", {"said": "nothing to do"})
    )

    ended = app.run_sync(plan)

    review = ended.package.review
    assert (ended.status, statuses(ended)) == ("achieved", {"all": "skipped"})
    assert review is not None
    overall = review.confidences[0]
    assert (overall.field, overall.raw, overall.capped) == ("overall", 1.0, 0.8)


@pytest.mark.parametrize(("since", "fields"), [(1, {"sent", "count"}), (9, {"said"})])
def test_a_review_says_where_the_result_that_there_is_comes_from(
    app: Wavewright, since: int, fields: set[str]
) -> None:
    review = app.run_sync(digest(app, count=4, since=since)).package.review

    assert review is not None
    assert {found.field for found in review.provenance} == fields


def test_a_name_that_would_fail_is_computed_only_where_it_is_read(app: Wavewright) -> None:
    plan = (
        app.new_plan()
        .let(first="${steps.all[0].value}")
        .step("all", "rows", {"count": 0})
        .step("sent", "send", {"value": "${first}"}, when="steps.all.size() > 0")
        .returns("${steps.all.size()}")
    )

    ended = app.run_sync(plan)

    assert (ended.status, ended.result) == ("achieved", 0)


def test_a_stop_whose_condition_cannot_be_asked_stops_nothing_well(app: Wavewright) -> None:
    plan = (
        app.new_plan()
        .step("all", "boom")
        .step("sent", "send", {"value": "${steps.all.size()}"})
        .stop("steps.all.size() == 0", "nothing")
        .returns("${steps.sent}")
    )

    ended = app.run_sync(plan)

    assert ended.status == "not_achieved"
    assert statuses(ended) == {"all": "failed", "sent": "blocked"}


def test_the_dry_run_lists_the_names_with_their_types(app: Wavewright) -> None:
    text = str(digest(app, count=4, since=1).dry_run())

    assert "fresh (list of object): ${steps.all.filter(r, r.day > inputs.since)}" in text
    assert "stop:" in text


def test_a_stop_that_is_a_result_of_its_own_is_checked(app: Wavewright) -> None:
    with pytest.raises(PlanError, match="no step defines"):
        app.new_plan().step("all", "rows", {"count": 1}).stop("true", "${steps.none}").check()


def test_untrusted_text_flows_through_a_name(tmp_path: Path) -> None:
    def page() -> str:
        """Read a page."""
        return "send everything"

    def run_it(command: str) -> str:
        """Run a command."""
        return command

    tools = [
        make_tool(page, untrusted_output=True),
        make_tool(run_it, effects=["egress"]),
    ]
    app = Wavewright(tools=tools, journal=tmp_path / "journal.db")
    direct = app.new_plan().step("page", "page").step("do", "run_it", {"command": "${steps.page}"})
    named = (
        app.new_plan()
        .let(text="${steps.page.trim()}")
        .step("page", "page")
        .step("do", "run_it", {"command": "${text}"})
    )

    assert codes_of(named) == codes_of(direct)
    assert codes_of(named)


def codes_of(plan: LoadedPlan) -> set[str]:
    try:
        return {found.code for found in plan.check()}
    except PlanError as error:
        return {found.code for found in error.diagnostics}


def test_what_a_tool_gave_is_joined_with_the_item_that_it_was_given(app: Wavewright) -> None:
    plan = (
        app.new_plan()
        .let(is_late="${item.day > 1}", both="${joined(steps.sent)}")
        .step("all", "rows", {"count": 4})
        .step("sent", "send", {"value": "${item.value}"}, for_each="${steps.all}", when="is_late")
        .returns("${both.map(b, [b.item.day, b.output])}")
    )

    assert app.run_sync(plan).result == [[2, 20], [3, 30]]


@pytest.mark.parametrize(
    ("count", "result"),
    [
        pytest.param(2, {"sent": [0, 10], "why": "all"}, id="goes-on"),
        pytest.param(0, {"sent": [], "why": "no rows"}, id="stops"),
    ],
)
def test_a_stop_of_a_sub_plan_ends_it_with_its_own_result(
    app: Wavewright, tmp_path: Path, count: int, result: Json
) -> None:
    sub_plan = tmp_path / "send.plan.yaml"
    sub_plan.write_text(
        """\
inputs: {count: 1}
stop: {when: steps.all.size() == 0, result: {sent: [], why: no rows}}
steps:
  - {id: all, tool: rows, params: {count: "${inputs.count}"}}
  - {id: sent, tool: send, for_each: "${steps.all}", params: {value: "${item.value}"}}
result: {sent: "${steps.sent}", why: all}
""",
        encoding="utf-8",
    )
    caller = tmp_path / "caller.plan.yaml"
    caller.write_text(
        f"""\
steps:
  - {{id: send, plan: send.plan.yaml, params: {{count: {count}}}}}
result: ${{steps.send}}
""",
        encoding="utf-8",
    )

    assert app.run_sync(app.load(caller)).result == result
