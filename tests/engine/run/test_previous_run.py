"""Runs that read the last achieved run of their job."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from wavewright.engine import Wavewright
from wavewright.planner import PlanError
from wavewright.tools import make_tool

DAY = "2026-11-%02dT07:00:00Z"

PLAN = """\
name: digest
as_of: "{as_of}"
plan:
  steps:
    - {{id: feed, tool: feed}}
    - id: told
      tool: told
      params:
        items: "${{steps.feed.filter(x, !(has(previous.result) && x in previous.result.seen))}}"
  result:
    seen: ${{steps.feed}}
    new: ${{steps.told}}
    since: "${{has(previous.started) ? previous.started : ''}}"
"""

ITEMS: list[str] = []


def feed() -> list[str]:
    """Give what there is."""
    if not ITEMS:
        msg = "the feed is away"
        raise ValueError(msg)
    return [*ITEMS]


def told(items: list[str]) -> list[str]:
    """Tell of items."""
    return items


@pytest.fixture
def app(tmp_path: Path) -> Wavewright:
    ITEMS[:] = ["a", "b"]
    return Wavewright(tools=[feed, told], journal=tmp_path / "journal.db")


def run(app: Wavewright, folder: Path, day: int, *, text: str = PLAN) -> dict[str, object]:
    """Return the result of the job in a folder on a day."""
    folder.mkdir(exist_ok=True)
    file = folder / "digest.yaml"
    file.write_text(text.format(as_of=DAY % day), encoding="utf-8")
    ended = app.run_sync(app.load(file))
    assert isinstance(ended.result, dict)
    return dict(ended.result)


def test_a_run_reads_the_result_of_the_last_achieved_run_of_its_job(
    app: Wavewright, tmp_path: Path
) -> None:
    first = run(app, tmp_path, 1)
    ITEMS.append("c")
    second = run(app, tmp_path, 2)

    assert first == {"seen": ["a", "b"], "new": ["a", "b"], "since": ""}
    assert second == {"seen": ["a", "b", "c"], "new": ["c"], "since": DAY % 1}


def test_a_run_that_has_failed_is_not_the_previous_one(app: Wavewright, tmp_path: Path) -> None:
    run(app, tmp_path, 1)
    ITEMS.clear()
    file = tmp_path / "digest.yaml"
    file.write_text(PLAN.format(as_of=DAY % 2), encoding="utf-8")
    assert app.run_sync(app.load(file)).status != "achieved"
    ITEMS[:] = ["a", "b", "c"]

    assert run(app, tmp_path, 3)["since"] == DAY % 1


def test_a_job_of_the_same_name_in_another_folder_is_another_job(
    app: Wavewright, tmp_path: Path
) -> None:
    run(app, tmp_path / "north", 1)

    assert run(app, tmp_path / "south", 2)["since"] == ""
    assert run(app, tmp_path / "north", 3)["since"] == DAY % 1


def test_a_run_for_an_earlier_day_does_not_read_a_later_one_nor_come_before_it(
    app: Wavewright, tmp_path: Path
) -> None:
    run(app, tmp_path, 5)

    assert run(app, tmp_path, 3)["since"] == ""
    assert run(app, tmp_path, 6)["since"] == DAY % 5


def test_a_repeated_run_reads_what_the_run_has_read(app: Wavewright, tmp_path: Path) -> None:
    run(app, tmp_path, 1)
    ITEMS.append("c")
    file = tmp_path / "digest.yaml"
    file.write_text(PLAN.format(as_of=DAY % 2), encoding="utf-8")
    second = app.run_sync(app.load(file))
    ITEMS.append("d")
    run(app, tmp_path, 3)

    async def repeat() -> object:
        async with app:
            return (await app.retry(second.id, from_="feed")).result

    assert anyio.run(repeat) == {"seen": ["a", "b", "c", "d"], "new": ["c", "d"], "since": DAY % 1}


def test_a_result_of_another_type_is_not_read_and_the_run_says_why(
    app: Wavewright, tmp_path: Path
) -> None:
    run(app, tmp_path, 1)
    other = PLAN.replace("new: ${{steps.told}}", "new: ${{steps.told.size()}}")

    file = tmp_path / "digest.yaml"
    file.write_text(other.format(as_of=DAY % 2), encoding="utf-8")
    ended = app.run_sync(app.load(file))

    assert ended.result == {"seen": ["a", "b"], "new": 2, "since": ""}
    assert any("`previous` is absent: of run" in warning for warning in ended.package.warnings)


def test_a_result_is_typed_by_that_of_the_plan(app: Wavewright, tmp_path: Path) -> None:
    wrong = PLAN.replace("x in previous.result.seen", "x in previous.result.read")

    with pytest.raises(PlanError, match="E303") as refused:
        run(app, tmp_path, 1, text=wrong)

    assert "has no field 'read'" in refused.value.diagnostics[0].message


def test_whoever_reads_the_previous_run_asks_first_whether_it_is_there(
    app: Wavewright, tmp_path: Path
) -> None:
    bold = PLAN.replace("has(previous.result) && ", "")

    with pytest.raises(PlanError) as refused:
        run(app, tmp_path, 1, text=bold)

    assert [found.code for found in refused.value.diagnostics] == ["E306"]


def test_a_condition_that_asks_for_it_lets_the_step_read_it(
    app: Wavewright, tmp_path: Path
) -> None:
    asking = PLAN.replace("has(previous.result) && ", "").replace(
        "tool: told", "tool: told\n      when: has(previous.result)"
    )

    assert run(app, tmp_path, 1, text=asking)["new"] is None
    assert run(app, tmp_path, 2, text=asking)["new"] == []


def test_a_dry_run_shows_the_plan_with_the_previous_run(app: Wavewright, tmp_path: Path) -> None:
    run(app, tmp_path, 1)
    text = PLAN.replace("tool: told", "tool: told\n      when: has(previous.result)")
    file = tmp_path / "digest.yaml"
    file.write_text(text.format(as_of=DAY % 2), encoding="utf-8")

    forecast = app.load(file).dry_run()

    assert forecast.plan.previous["started"] == DAY % 1


def test_a_plan_may_say_what_stands_for_the_run_before_the_first(
    app: Wavewright, tmp_path: Path
) -> None:
    seeded = PLAN.replace(
        "plan:\n", "plan:\n  previous: {{result: {{seen: [a], new: [], since: ''}}}}\n"
    )

    assert run(app, tmp_path, 1, text=seeded)["new"] == ["b"]
    ITEMS.append("c")
    assert run(app, tmp_path, 2, text=seeded)["new"] == ["c"]


TRUSTING = """\
name: news
as_of: "{as_of}"
plan:
  steps:
    - {{id: feed, tool: feed}}
    - {{id: page, tool: page}}
  result:
    last: ${{steps.SOURCE}}
    old: "${{has(previous.result) ? previous.result.last : []}}"
"""


def page() -> list[str]:
    """Give what somebody outside wrote."""
    return ["send all"]


def test_untrusted_text_of_an_earlier_plan_is_not_read_where_the_plan_trusts_it(
    tmp_path: Path,
) -> None:
    ITEMS[:] = ["a"]
    app = Wavewright(
        tools=[feed, make_tool(page, untrusted_output=True)], journal=tmp_path / "journal.db"
    )
    run(app, tmp_path, 1, text=TRUSTING.replace("SOURCE", "page"))

    after_page = run(app, tmp_path, 2, text=TRUSTING.replace("SOURCE", "feed"))
    after_feed = run(app, tmp_path, 3, text=TRUSTING.replace("SOURCE", "feed"))

    assert (after_page["old"], after_feed["old"]) == ([], ["a"])


def test_plans_of_programs_are_told_apart_by_their_goals(tmp_path: Path) -> None:
    def add(number: int) -> int:
        """Add one."""
        return number + 1

    def counted(journal: Path, goal: str | None) -> object:
        ww = Wavewright(journal=journal)
        before = "${has(previous.result) ? previous.result : 0}"
        plan = ww.new_plan(goal).step("sum", add, {"number": before}).returns("${steps.sum}")
        return ww.run_sync(plan).result

    journal = tmp_path / "programs.db"
    goals = ["Count apples", "Count pears", "Count\n apples", None, None, "Count apples"]
    assert [counted(journal, goal) for goal in goals] == [1, 1, 2, 1, 2, 3]
