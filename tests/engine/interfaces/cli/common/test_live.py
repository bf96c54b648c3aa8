"""The live table of a run, drawn on a recorded terminal."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from wavewright.engine.interfaces.cli.common.live import LiveProgress
from wavewright.engine.interfaces.cli.common.progress import PlainProgress
from wavewright.engine.interfaces.cli.common.run_text import ModelLookup
from wavewright.executor.events.types import (
    Event,
    GateRecord,
    ItemFinished,
    ModelCalled,
    Noted,
    OutputStreamed,
    PlanAccepted,
    RungTaken,
    RunStarted,
    StepFinished,
    StepStatus,
    WaveStarted,
)
from wavewright.planner.language.plan import Plan
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.ports.model_port import ModelUse, Role
from wavewright.planner.types import GateId, JsonObject, PlanHash, RunId, StepId, StepKey

PLAN: JsonObject = {
    "steps": [
        {"id": "prices", "tool": "fetch", "for_each": [1, 2, 3], "params": {"code": "${item}"}},
        {"id": "index", "tool": "fetch", "params": {"code": 9}, "optional": True},
        {"id": "summary", "tool": "summarise", "params": {"of": "${steps.prices}"}},
    ]
}


@dataclass
class Clock:
    """Seconds that pass when a test says so."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def model_of(_goal: JsonObject, phase: str) -> str | None:
    """The model of a project that has one for each phase."""
    return f"openai:{phase}-model"


class Terminal:
    """A live view on a terminal of so many columns and lines; `picture` is what stands there."""

    def __init__(
        self, *, width: int = 80, height: int = 24, at_work: ModelLookup | None = None
    ) -> None:
        self.written = io.StringIO()
        self.clock = Clock()
        self.console = Console(
            file=self.written,
            force_terminal=True,
            width=width,
            height=height,
            color_system=None,
            legacy_windows=False,
        )
        self.live = LiveProgress(self.console, self.clock, at_work)

    def show(self, *events: Event) -> None:
        for event in events:
            self.live.show(event)

    def picture(self) -> str:
        with self.console.capture() as captured:
            self.console.print(self.live.drawing())
        return "\n".join(line.rstrip() for line in captured.get().splitlines())


BEGUN = RunStarted(RunId("20100301-000000-abc123"), 100.0, "Stocks", {}, 100.0)


def started(plan: JsonObject = PLAN) -> list[Event]:
    return [
        BEGUN,
        PlanAccepted(
            100.0, Plan.model_validate(plan).model_dump(mode="json"), PlanHash("sha256:0"), "given"
        ),
    ]


def ended(
    step: str, status: StepStatus = "ok", *, at: float = 101.0, gates: Sequence[GateRecord] = ()
) -> StepFinished:
    return StepFinished(
        at, StepId(step), status, started=100.0, seconds=at - 100.0, gates=tuple(gates)
    )


def item(index: int) -> ItemFinished:
    return ItemFinished(100.5, StepId("prices"), index, StepKey(f"k{index}"), "ok", seconds=0.5)


def red(step: str, severity: str = "block") -> GateRecord:
    return GateRecord(
        GateId("fresh"),
        StepId(step),
        "fresh_within",
        "block" if severity == "block" else "warn",
        "fail",
        "as_of",
        "16 years old",
        "fetch again",
    )


def wide_plan(count: int) -> JsonObject:
    return {
        "steps": [
            {"id": f"s{number}", "tool": "work", "params": {"n": number}} for number in range(count)
        ]
    }


def test_before_the_run_is_open_the_table_says_so() -> None:
    assert Terminal().picture() == "reading the job …"


def test_what_waits_what_runs_and_how_far_the_items_are(snapshot: SnapshotAssertion) -> None:
    terminal = Terminal()
    terminal.show(
        *started(), WaveStarted(100.0, 0, (StepId("prices"), StepId("index"))), item(0), item(2)
    )
    terminal.clock.now = 101.5

    assert terminal.picture() == snapshot


def test_a_red_gate_stands_below_with_its_mend(snapshot: SnapshotAssertion) -> None:
    terminal = Terminal()
    terminal.show(
        *started(),
        WaveStarted(100.0, 0, (StepId("prices"), StepId("index"))),
        ended("prices", gates=[red("prices")]),
        ended("index", "failed"),
        StepFinished(101.0, StepId("summary"), "blocked", reason="'prices' is stopped by a gate"),
    )

    assert terminal.picture() == snapshot


def test_a_round_of_recovery_stands_in_the_headline_and_its_steps_in_the_table() -> None:
    terminal = Terminal()
    terminal.show(*started(), ended("prices"), ended("index"), ended("summary", "failed"))
    summary_2: JsonObject = {"id": "summary_2", "tool": "summarise", "params": {}}
    patched = {**PLAN, "steps": [*PLAN["steps"], summary_2]}  # type: ignore[misc]
    again = PlanAccepted(
        102.0,
        Plan.model_validate(patched).model_dump(mode="json"),
        PlanHash("sha256:1"),
        "patch",
        1,
    )

    terminal.show(again, WaveStarted(102.0, 0, (StepId("summary_2"),), 1))
    picture = terminal.picture()

    assert "recovery round 1" in picture
    assert re.search(r"summary_2 +summarise +running", picture)


def test_without_waves_a_step_runs_as_soon_as_what_it_waits_for_has_ended() -> None:
    terminal = Terminal()
    terminal.show(*started(), ended("index"))

    picture = terminal.picture()

    assert re.search(r"prices +fetch +running", picture)
    assert re.search(r"summary +summarise +waiting", picture)


def test_a_resumed_run_shows_what_was_done_before() -> None:
    terminal = Terminal()
    terminal.live.replay([*started(), ended("prices"), ended("index")])

    picture = terminal.picture()

    assert "2 of 3 steps" in picture
    assert re.search(r"prices +fetch +ok", picture)


@pytest.mark.parametrize("height", [10, 12, 24])
def test_a_plan_that_is_taller_than_the_terminal_shows_what_matters(height: int) -> None:
    terminal = Terminal(height=height)
    terminal.show(*started(wide_plan(60)))
    steps = tuple(StepId(f"s{number}") for number in range(60))
    terminal.show(
        WaveStarted(100.0, 0, steps), *(ended(f"s{number}") for number in range(58) if number != 30)
    )
    terminal.show(ended("s30", "failed"))

    picture = terminal.picture()

    assert len(picture.splitlines()) < height
    assert "s30" in picture
    assert re.search(r"s58 +work +running", picture)
    assert re.search(r"s59 +work +running", picture)
    assert "more" in picture


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    terminal = Terminal(width=width)
    name = "a_step_with_a_name_that_is_as_long_as_a_name_may_be_in_a_plan"
    terminal.show(
        *started({"steps": [{"id": name, "tool": name, "params": {}}]}), ended(name, "failed")
    )

    assert max(map(len, terminal.picture().splitlines())) <= width


def test_cancelled_steps_count_as_neither_begun_nor_done() -> None:
    terminal = Terminal()
    terminal.show(*started(), ended("index"))
    terminal.show(
        *(StepFinished(102.0, StepId(step), "cancelled") for step in ("prices", "summary"))
    )

    assert "1 of 3 steps · wave 1 of 2" in terminal.picture()


def use(role: Role = "planner", step: str | None = None) -> ModelCalled:
    spent = ModelUse(
        role=role,
        name=role,
        model="openai:gpt-5",
        outcome="answered",
        input_tokens=2_000,
        output_tokens=500,
        usd=0.01,
        step=StepId(step) if step else None,
    )
    return ModelCalled(101.0, spent)


def reviewed(*, achieved: bool, round_number: int = 0) -> Noted:
    return Noted(103.0, "review", {"goal_achieved": achieved, "round": round_number})


def test_while_a_planner_is_waited_for_its_model_and_the_cost_so_far_are_shown() -> None:
    terminal = Terminal(at_work=model_of)
    terminal.show(BEGUN)
    before = terminal.picture()
    terminal.show(use(), use())

    assert "planning with openai:planner-model" in before
    assert "planning with openai:planner-model · 5,000 tokens, 0.0200 USD" in terminal.picture()


def test_a_plan_that_was_given_waits_for_no_planner() -> None:
    terminal = Terminal(at_work=model_of)
    terminal.show(BEGUN, Noted(100.0, "draft", {"plan": PLAN, "rung": "given"}))

    assert "checking the plan" in terminal.picture()
    assert "planning" not in terminal.picture()


def test_without_a_model_no_phase_waits_for_one() -> None:
    terminal = Terminal()
    terminal.show(BEGUN)

    assert "checking the plan" in terminal.picture()
    assert "planning" not in terminal.picture()


def test_reviewing_and_recovering_name_their_models() -> None:
    terminal = Terminal(at_work=model_of)
    terminal.show(*started(), ended("prices"), ended("index"))
    running = terminal.picture()
    terminal.show(ended("summary"))
    reviewing = terminal.picture()
    terminal.show(reviewed(achieved=False))
    recovering = terminal.picture()
    terminal.show(reviewed(achieved=True))

    assert "with openai" not in running
    assert "reviewing with openai:reviewer-model" in reviewing
    assert "recovering with openai:recovery-model" in recovering
    assert "with openai" not in terminal.picture()


def test_what_a_worker_writes_is_the_last_line_until_its_step_ends() -> None:
    terminal = Terminal(width=40)
    terminal.show(*started(), OutputStreamed(101.0, StepId("summary"), "Prices rose\nand "))
    terminal.show(OutputStreamed(101.0, StepId("summary"), "\x1b[2Jfell again, says the summary"))
    last = terminal.picture().splitlines()[-1]
    terminal.show(ended("summary"))

    assert last.endswith("fell again, says the summary")
    assert last.isprintable()
    assert len(last) <= 40
    assert "fell again" not in terminal.picture()


def test_a_rung_that_gave_nothing_is_a_line_above_the_table() -> None:
    terminal = Terminal()
    with terminal.live:
        terminal.show(
            *started(), RungTaken(101.0, RungRecord("planner", "llm", "fallen", "two faults"))
        )

    assert "planner: rung llm gave nothing: two faults" in terminal.written.getvalue()


def test_a_rung_that_many_calls_take_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    terminal, plain = Terminal(), PlainProgress()
    generated = RungRecord(
        "worker notes", "generated", "reached", ceiling=0.6, because="code made it"
    )
    forced = RungRecord("worker notes", "forced", "reached", ceiling=0.2)

    with terminal.live as live:
        for index, rung in enumerate([generated, forced, generated, forced]):
            live.show(RungTaken(101.0, rung, StepId("notes"), index))
            plain.show(RungTaken(101.0, rung, StepId("notes"), index))

    for told in (terminal.written.getvalue(), capsys.readouterr().err):
        assert told.count("rung generated reached") == told.count("rung forced reached") == 1


def test_notes_are_lines_above_the_table_and_nothing_flickers_behind() -> None:
    terminal = Terminal()
    with terminal.live as live:
        terminal.show(*started(), Noted(101.0, "recovery", {"reason": "fetch again with force"}))
        live.print_line("a line")
        terminal.show(ended("prices"), ended("index"), ended("summary"))
    last = terminal.written.getvalue().rpartition("a line")[2]

    assert "recovery: fetch again with force" in terminal.written.getvalue()
    assert "3 of 3 steps" in last
    # The cursor is hidden while the table is drawn, and shown again.
    assert (
        terminal.written.getvalue().count("\x1b[?25l")
        == terminal.written.getvalue().count("\x1b[?25h")
        == 1
    )


def test_the_table_goes_away_for_a_question_and_comes_back() -> None:
    terminal = Terminal()
    with terminal.live as live:
        terminal.show(*started())
        with live.paused():
            terminal.console.print("Approve?")
        terminal.show(ended("prices"), ended("index"), ended("summary"))

    assert "3 of 3 steps" in terminal.written.getvalue().rpartition("Approve?")[2]
