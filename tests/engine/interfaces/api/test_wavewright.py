"""Plans and runs from Python, as a program writes them."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.engine.conftest import CommandLine
from tests.engine.model_runs.model_run_project import review
from wavewright.config.errors import WavewrightError
from wavewright.engine import LoadedPlan, NoResult, Wavewright
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.engine.run.ports import ApprovalRequest
from wavewright.executor import Event, RunFinished, StepFinished
from wavewright.planner import Json, PlanError, UserQuestion
from wavewright.tools import make_tool

pytestmark = pytest.mark.anyio

NUMBERS = """
version: 1
inputs: {numbers: [1, 2, 3]}
steps:
  - id: doubled
    tool: double
    for_each: ${inputs.numbers}
    params: {number: "${item}"}
  - id: total
    tool: add
    params: {numbers: "${steps.doubled}"}
result: {total: "${steps.total}"}
"""


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


async def add(numbers: list[int]) -> int:
    """Add numbers."""
    return sum(numbers)


@dataclass
class Sum:
    total: int


@pytest.fixture
def ww(wavewright: CommandLine, tmp_path: Path) -> Wavewright:
    (tmp_path / "numbers.yaml").write_text(NUMBERS)
    return Wavewright(tools=[double, add], journal="runs.db")


async def test_a_plan_of_a_file_is_checked_forecast_run_and_streamed(ww: Wavewright) -> None:
    async with ww:
        plan = ww.load("numbers.yaml")
        assert plan.check() == ()
        assert "└─ doubled  double ×3" in str(plan.dry_run())

        run = await ww.run(plan)
        events = [event async for event in ww.stream(plan)]

    assert (run.status, run.result, run.steps["total"].output) == ("achieved", {"total": 12}, 12)
    assert run.package.status == "achieved"
    assert "<!doctype html>" in run.report().lower()
    assert [event.step for event in events if isinstance(event, StepFinished)] == [
        "doubled",
        "total",
    ]
    assert isinstance(events[-1], RunFinished)


async def test_runs_are_in_the_journal_that_is_named(
    ww: Wavewright, wavewright: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ww:
        run = await ww.run("numbers.yaml")
    monkeypatch.setenv("WAVEWRIGHT_JOURNAL", str(tmp_path / "runs.db"))

    listed = await anyio.to_thread.run_sync(lambda: wavewright("runs", "--format", "json"))

    assert [row["run"] for row in json.loads(listed.out)] == [run.id]


async def test_every_fault_of_a_plan_is_raised_with_its_place(ww: Wavewright) -> None:
    plan = (
        ww.new_plan().step("a", "doubel", {"number": 1}).step("b", double, {"numbr": "${steps.c}"})
    )

    with pytest.raises(PlanError) as raised:
        plan.check()
    with pytest.raises(PlanError):
        async with ww:
            await ww.run(plan)

    assert {one.code for one in raised.value.diagnostics} == {"E201", "E203", "E204", "E301"}
    assert all(one.span is not None for one in raised.value.diagnostics)


async def test_a_plan_built_in_code_is_checked_and_run_as_one_of_a_file(ww: Wavewright) -> None:
    start = ww.new_plan("Add doubles", {"numbers": [1, 2]})
    plan = (
        start.step("doubled", double, {"number": "${item}"}, for_each="${inputs.numbers}")
        .step("total", add, {"numbers": "${steps.doubled}"})
        .gate("positive", on="total", check="output > 0")
        .returns("${steps.total}")
    )

    async with ww:
        run = await ww.run(plan)
        other = await ww.run(plan.with_inputs({"numbers": [10]}))
        refused = await ww.run(plan.with_inputs({"numbers": [-1]}))

    assert (run.result, other.result) == (6, 20)
    assert refused.status != "achieved"
    assert [gate.gate for gate in refused.package.gates if gate.has_failed] == ["positive"]
    assert start.job.draft is not None
    assert start.job.draft.plan.steps == ()


async def test_a_result_is_read_as_the_wanted_type(ww: Wavewright) -> None:
    async with ww:
        run = await ww.run("numbers.yaml", result_type=Sum)
        wrong = await ww.run(ww.load("numbers.yaml").returns("${steps.total}"), result_type=Sum)

    assert run.result == Sum(12)
    with pytest.raises(NoResult, match=r"no Sum: result"):
        _ = wrong.result


@pytest.mark.parametrize(
    ("wanted", "name"), [(int | None, "int | None"), (list[int], "list[int]"), (int, "int")]
)
def test_a_result_of_another_type_names_the_wanted_type_in_full(
    ww: Wavewright, wanted: Any, name: str
) -> None:
    run = ww.run_sync("numbers.yaml", result_type=wanted)

    with pytest.raises(NoResult, match=re.escape(f"is no {name}: result")):
        _ = run.result


def test_a_plain_program_runs_a_plan_without_async(ww: Wavewright) -> None:
    assert ww.run_sync("numbers.yaml").result == {"total": 12}
    assert ww.run_sync(ww.load("numbers.yaml", {"numbers": [4]}), result_type=Sum).result == Sum(8)


async def test_what_is_called_in_the_wrong_place_says_where_it_belongs(ww: Wavewright) -> None:
    with pytest.raises(WavewrightError) as closed:
        await ww.run("numbers.yaml")
    async with ww:
        with pytest.raises(WavewrightError) as opened:
            ww.run_sync("numbers.yaml")

    assert closed.value.hint == "write `async with Wavewright(…) as ww:`, or call `run_sync`"
    assert opened.value.hint == "write `await ww.run(…)`"


async def test_a_result_is_what_the_user_asked_for_and_the_package_is_redacted(
    wavewright: CommandLine,
) -> None:
    link = "https://example.org/password-reset/token=asfbuy3y2cdaqhvei"

    def read_mail() -> str:
        """Read a mail."""
        return f"Reset here: {link}"

    people = Wavewright(tools=[make_tool(read_mail)], journal="runs.db")
    async with people:
        ended = await people.run(
            people.new_plan().step("mail", "read_mail").returns("${steps.mail}")
        )

    assert ended.result == f"Reset here: {link}"
    assert link not in str(ended.package.result)


async def test_functions_answer_approvals_and_questions(wavewright: CommandLine) -> None:
    asked: list[str] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.extend(request.needs)
        return True

    async def answer(question: UserQuestion) -> str:
        asked.append(question.question)
        return "blue"

    tools = [make_tool(double, needs_approval=True)]
    people = Wavewright(tools=tools, journal="runs.db", approve=approve, ask=answer)

    def plan_of(ww: Wavewright) -> LoadedPlan:
        return (
            ww.new_plan()
            .step("colour", "ask_person", {"question": "Which colour?"})
            .step("doubled", "double", {"number": 2})
            .returns(["${steps.colour}", "${steps.doubled}"])
        )

    async with people:
        assert (await people.run(plan_of(people))).result == ["blue", 4]
    assert min(asked) == "Which colour?"
    assert len(asked) == 2

    with pytest.raises(PlanError, match="nobody"):
        plan_of(Wavewright(tools=tools)).check()


async def test_a_model_makes_the_plan_for_a_goal_in_words(
    wavewright: CommandLine, model_server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    steps: list[Json] = [
        {
            "why": "each",
            "id": "d",
            "tool": "double",
            "for_each": [1, 2, 3],
            "params": {"number": "${item}"},
        },
        {"why": "asked for", "id": "total", "tool": "add", "params": {"numbers": "${steps.d}"}},
    ]
    model_server.answer({"steps": steps, "result": "${steps.total}"}, when=asked_for("plan"))
    model_server.answer(review(), when=asked_for("review"))

    async with Wavewright(tools=[double, add], journal="runs.db") as ww:
        plan = await ww.plan("Add the doubles of 1 to 3")
        assert plan.check() == ()
        run = await ww.run(plan)

    assert run.result == 12
    [asked] = [
        exchange.request
        for exchange in model_server.ledger
        if exchange.request.schema_name == "plan"
    ]
    assert "Add the doubles of 1 to 3" in asked.text


async def test_without_a_model_a_goal_in_words_says_what_to_set(ww: Wavewright) -> None:
    with pytest.raises(WavewrightError) as raised:
        await ww.plan("Add the doubles of 1 to 3")

    assert "WAVEWRIGHT_MODEL" in (raised.value.hint or "")


async def test_a_project_s_tools_jobs_journal_and_packages_are_used(project: Path) -> None:
    async with Wavewright.from_project(project, tools=[double]) as ww:
        run = await ww.run("plans/words.job.yaml")
        built = await ww.run(ww.new_plan().step("d", double, {"number": 4}).returns("${steps.d}"))

    assert (run.status, built.result) == ("achieved", 8)
    assert (project / ".wavewright" / "runs" / run.id / "report.html").is_file()


async def test_a_stream_that_is_left_early_leaves_a_run_that_can_be_resumed(
    wavewright: CommandLine,
) -> None:
    calls: list[str] = []
    released: list[bool] = []

    def first() -> int:
        """Count."""
        calls.append("first")
        return 1

    async def second(number: int) -> int:
        """Add one, once it is released."""
        calls.append("second")
        if not released:
            await anyio.sleep_forever()
        return number + 1

    async with Wavewright(tools=[first, second], journal="runs.db") as ww:
        plan = (
            ww.new_plan()
            .step("a", first)
            .step("b", second, {"number": "${steps.a}"}, retry={"attempts": 1})
            .returns("${steps.b}")
        )
        async for event in ww.stream(plan, run="r-1"):
            if isinstance(event, StepFinished):
                break

    released.append(True)
    async with ww:
        run = await ww.resume("r-1")
        again = await ww.run(plan, run="r-1")

    assert (run.id, run.result, again.result) == ("r-1", 2, 2)
    assert calls.count("first") == 1


async def test_a_stream_that_is_left_again_and_again_is_followed_to_its_end_without_loss(
    ww: Wavewright,
) -> None:
    seen: list[Event] = []
    ended = None
    async with ww:
        plan = ww.load("numbers.yaml", {"numbers": [*range(8)]})
        for most in itertools.cycle([1, 2, 30]):
            stream = ww.stream(plan, run="r", after=len(seen))
            async with aclosing(aiter(stream)) as following:
                async for place, event in numbered(following):
                    seen.append(event)
                    if place == most:
                        break
            if ended := stream.run:
                break
        again = [event async for event in ww.stream(plan, run="r", after=0)]

    assert ended is not None
    assert ended.result == {"total": 56}
    assert again == seen


async def numbered(events: AsyncIterable[Event]) -> AsyncIterator[tuple[int, Event]]:
    place = 0
    async for event in events:
        place += 1
        yield place, event


def test_a_plan_may_be_what_a_file_of_one_holds(ww: Wavewright) -> None:
    plan = {
        "steps": [{"id": "total", "tool": "add", "params": {"numbers": (1, 2)}}],
        "result": {"total": "${steps.total}"},
    }

    assert ww.run_sync(plan).result == {"total": 3}
    assert ww.load(plan).check() == ()
    with pytest.raises(PlanError, match="did you mean 'add'"):
        ww.run_sync({"steps": [{"id": "total", "tool": "ad"}]})


@pytest.mark.parametrize("plan", [[{"steps": []}], None, 3])
def test_what_can_be_no_plan_is_refused_with_what_to_give(plan: Any, ww: Wavewright) -> None:
    with pytest.raises(TypeError, match="a file or a dict"):
        ww.run_sync(plan)


@pytest.mark.parametrize("inputs", [[1], "n=3", 5, ["ab"], {"ab"}])
def test_what_can_be_no_inputs_is_refused_with_what_to_give(inputs: Any, ww: Wavewright) -> None:
    with pytest.raises(TypeError, match="inputs are a dict"):
        ww.load({"steps": []}, inputs)


@pytest.mark.parametrize("params", [[1], "n=3", 5, ["ab"]])
def test_what_can_be_no_parameters_is_refused_with_what_to_give(
    params: Any, ww: Wavewright
) -> None:
    with pytest.raises(TypeError, match="the parameters of step 'total' are a dict"):
        ww.new_plan().step("total", "add", params)


def test_importing_the_package_loads_nothing_heavy() -> None:
    def loaded_by(code: str) -> set[str]:
        program = f"import sys\n{code}\nprint(*sys.modules)"
        ran = subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True
        )
        return set(ran.stdout.split())

    of_models = {"networkx", "openai", "pydantic_ai"}
    heavy = {"anyio", "httpx", "jinja2", "pydantic", "typer"} | of_models

    assert loaded_by("import wavewright.engine") & heavy == set()
    assert loaded_by("from wavewright.engine import Pipeline") & heavy == set()
    assert (
        loaded_by("from wavewright.engine import Wavewright\nWavewright(tools=[])") & of_models
        == set()
    )


async def test_a_plan_that_a_person_wrote_may_have_many_steps_and_waves(tmp_path: Path) -> None:
    app = Wavewright(tools=[double], journal=tmp_path / "journal.db")
    plan = app.new_plan().step("s0", double, {"number": 1})
    for number in range(1, 60):
        plan = plan.step(f"s{number}", double, {"number": f"${{steps.s{number - 1} % 1000}}"})

    assert plan.check() == ()


async def test_a_plan_that_a_person_wrote_may_have_as_many_items_as_a_step_says(
    tmp_path: Path,
) -> None:
    plan = (
        Wavewright(tools=[double], journal=tmp_path / "journal.db")
        .new_plan(inputs={"numbers": list(range(1200))})
        .step("many", double, {"number": "${item}"}, for_each="${inputs.numbers}", max_items=1500)
    )

    assert plan.check() == ()
