"""A job with several targets, run without a daemon: a run for each, in waves, and on where it was
cut off.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.engine.conftest import CommandLine
from tests.engine.run_in_process import run_request
from tests.support.prepared_command import PipedCommand
from wavewright.config.settings import load_settings
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.engine.run.context import RunRequest
from wavewright.engine.run.ports import ApprovalRequest, withhold_package
from wavewright.engine.run.target_waves import (
    Target,
    TargetEnd,
    TargetWaves,
    read_targets,
    target_waves,
)
from wavewright.executor.events.state import fold
from wavewright.executor.events.types import Event, ModelCalled, StepFinished
from wavewright.executor.store.journal import MemoryJournal
from wavewright.executor.store.transaction import Alongside
from wavewright.planner.language.goals import Goal, JobTargets
from wavewright.planner.ports.model_port import ModelUse
from wavewright.planner.types import Json, JsonObject, RunId

PATIENCE = 40.0
TOOLS = '''
import time
from pathlib import Path

_HERE = Path(__file__).parent
_NEAR = {
    "A": ["B", "C", "A"],
    "B": ["C", {"name": "D", "priority": 5}, "E"],
    "C": ["E", 7, "x" * 200, "Too far"],
    "D": ["F"],
}


def survey(place: str) -> dict:
    """Look at a place."""
    with (_HERE / "calls.txt").open("a") as calls:
        calls.write(place + "\\n")
    while place == "B" and (_HERE / "closed").exists():
        time.sleep(0.01)
    if place == "E":
        raise RuntimeError("there is nothing at E")
    return {"place": place, "near": _NEAR.get(place, [])}
'''
TEMPLATE = """\
name: survey
goal: Survey ${inputs.target}
available_tools: [{name: survey}]
inputs_schema: {type: object, properties: {target: {type: string, maxLength: 3}}, required: [target]}
targets: {expand: "${steps.seen.near}"}
gates: [{id: there, on: seen, required: [place]}]
plan:
  steps: [{id: seen, tool: survey, params: {place: "${inputs.target}"}}]
  result: ${steps.seen.place}
"""


@pytest.fixture
def places(tmp_path: Path, wavewright: CommandLine) -> Path:
    """A project whose job begins with one place and goes on with those near it."""
    (tmp_path / "survey.py").write_text(TOOLS)
    (tmp_path / "wavewright.yaml").write_text(
        "tools: [{path: survey.py, functions: {survey: {}}}]\n"
    )
    (tmp_path / "survey.yaml").write_text(TEMPLATE)
    return tmp_path


def write_job(folder: Path, targets: str) -> Path:
    file = folder / "places.job.yaml"
    file.write_text(f"name: places\ngoal_template: survey.yaml\ntargets: {targets}\n")
    return file


def calls(folder: Path) -> list[str]:
    return (folder / "calls.txt").read_text().split()


def until_called(folder: Path, place: str) -> None:
    """Wait until another process has looked at a place."""
    deadline, never = time.monotonic() + PATIENCE, threading.Event()
    while not (folder / "calls.txt").exists() or place not in calls(folder):
        assert time.monotonic() < deadline
        never.wait(0.01)


def shown(wavewright: CommandLine) -> list[JsonObject]:
    """Return the targets of the newest run that has several."""
    rows = json.loads(wavewright("runs", "--format", "json").out)
    [root] = [row["run"] for row in rows if row["job"] == "places"]
    found: list[JsonObject] = json.loads(wavewright("show", root, "--format", "json").out)[
        "targets"
    ]
    return found


def test_each_wave_is_what_the_one_before_has_found_each_once_and_the_last_finds_nothing(
    wavewright: CommandLine, places: Path
) -> None:
    answer = wavewright("run", write_job(places, "{first: [A], depth: 2}"))
    targets = shown(wavewright)

    assert answer.code == 1
    assert "4 of 6 targets achieved; failed: E, Too far" in answer.err
    assert "target C: achieved" in answer.err
    assert "; 2 of 4 that were found can be no target" in answer.err
    # D has a higher priority than E, and F would be the next wave's.
    assert [(one["target"], one["wave"], one["status"]) for one in targets] == [
        ("A", 0, "achieved"),
        ("B", 1, "achieved"),
        ("C", 1, "achieved"),
        ("D", 2, "achieved"),
        ("E", 2, "failed"),
        ("Too far", 2, "failed"),
    ]
    assert "Too far" not in calls(places)
    assert Counter(calls(places))["A"] == 1


def question_of(wavewright: CommandLine, run: str) -> str:
    """Return the id of what a run asks now."""
    asked = json.loads(wavewright("decisions", "--format", "json").out)
    [name] = [str(question["id"]) for question in asked if question["run"] == run]
    return name


def test_at_a_fork_a_person_says_which_target_is_next_and_the_others_follow_by_priority(
    wavewright: CommandLine, places: Path
) -> None:
    asked = wavewright("run", write_job(places, "{first: [A], depth: 3, forks: ask}"))
    [root] = [
        row["run"]
        for row in json.loads(wavewright("runs", "--format", "json").out)
        if row["job"] == "places"
    ]
    before = calls(places)
    wavewright("answer", root, "B")
    again = wavewright("resume", root)
    wavewright("answer", question_of(wavewright, root), "D")
    last = wavewright("resume", root)
    wavewright("answer", question_of(wavewright, root), "E")
    wavewright("resume", root)

    assert "A leads to 2 others. Which of them is next?" in asked.err
    assert before == ["A"]
    assert "B leads to 3 others. Which of them is next?" in again.err
    # E was found before, and is offered again where it is one of two ways.
    assert "C leads to 2 others. Which of them is next?" in last.err
    assert calls(places) == ["A", "B", "D", "C", "E", "F"]


def test_a_target_has_a_run_and_a_package_of_its_own(wavewright: CommandLine, places: Path) -> None:
    answer = wavewright(
        "run", write_job(places, "{first: [A, {name: D, priority: 1}], at_once: 2}")
    )
    targets = shown(wavewright)
    packages = [
        json.loads(wavewright("show", str(one["run"]), "--format", "json").out) for one in targets
    ]

    assert answer.code == 0
    assert [(one["target"], one["status"]) for one in targets] == [
        ("D", "achieved"),
        ("A", "achieved"),
    ]
    assert [one["goal"] for one in packages] == ["Survey D", "Survey A"]
    assert [one["job"] for one in packages] == ["places: D", "places: A"]
    assert all(list(places.rglob(f"{one['run']}/*.json")) for one in targets)


def test_the_newest_run_of_a_job_with_targets_is_the_jobs(
    wavewright: CommandLine, places: Path
) -> None:
    wavewright("run", write_job(places, "{first: [A, D], at_once: 2}"))

    newest = json.loads(wavewright("show", "--format", "json").out)

    assert [one["target"] for one in newest["targets"]] == ["A", "D"]


def test_nobody_is_sent_to_retry_a_run_that_only_its_targets_runs_can_repeat(
    wavewright: CommandLine, places: Path
) -> None:
    wavewright("run", write_job(places, "{first: [A, D]}"))
    root = json.loads(wavewright("show", "--format", "json").out)["run"]

    answer = wavewright("resume", root)

    assert answer.code == 2
    assert f"`wavewright show {root}` lists the runs of its targets" in answer.err
    assert f"wavewright retry {root}" not in answer.err


def test_a_killed_job_goes_on_with_the_target_in_hand(
    wavewright: CommandLine, places: Path
) -> None:
    write_job(places, "{first: [A], depth: 1}")
    (places / "closed").touch()
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("WAVEWRIGHT_")
    }
    with PipedCommand("run", "places.job.yaml", folder=places, environment=environment):
        until_called(places, "B")
    (places / "closed").unlink()
    rows = json.loads(wavewright("runs", "--format", "json").out)
    [root] = [row["run"] for row in rows if row["job"] == "places"]
    answer = wavewright("resume", root)

    alone = [
        wavewright(*command, root) for command in (("dry-run", "--run"), ("diff",), ("replay",))
    ]

    assert answer.code == 0
    assert all(f"run {root!r} is that of a job with several targets" in one.err for one in alone)
    assert Counter(calls(places)) == {"A": 1, "B": 2, "C": 1}
    assert [one["status"] for one in shown(wavewright)] == ["achieved"] * 3


@pytest.mark.parametrize(
    ("expand", "told"),
    [
        ("${steps.sen.near}", "error[E301]: the job reads 'sen', which no step defines"),
        (
            "steps.seen.near",
            "error[E309]: the job is to run for each item of 'steps.seen.near', which is text",
        ),
        (
            "${inputs.target}",
            "error[E309]: the job is to run for each item of 'inputs.target', which is",
        ),
        ("${steps.seen.", "error[E"),
    ],
)
@pytest.mark.parametrize("command", ["check", "dry-run", "run"])
def test_an_expansion_that_can_find_nothing_is_told_before_anything_is_called(
    wavewright: CommandLine, places: Path, command: str, expand: str, told: str
) -> None:
    answer = wavewright(command, write_job(places, f"{{first: [A], depth: 1, expand: '{expand}'}}"))

    assert answer.code != 0
    assert told in answer.out + answer.err
    assert "places.job.yaml:3:" in answer.out + answer.err
    assert not (places / "calls.txt").exists()


def test_a_template_is_checked_with_how_it_expands(wavewright: CommandLine, places: Path) -> None:
    sound = wavewright("check", places / "survey.yaml")
    # In a job without further waves nothing is expanded, so its plan need not have that step.
    plan = "{steps: [{id: other, tool: survey, params: {place: X}}], result: '${steps.other}'}"
    flat = write_job(places, f"{{first: [A]}}\nplan: {plan}")
    (places / "survey.yaml").write_text(re.sub("gates: .*", "", TEMPLATE))
    alone = wavewright("check", flat)
    (places / "survey.yaml").write_text(TEMPLATE.replace("steps.seen.near", "steps.sene.near"))
    unsound = wavewright("check", places / "survey.yaml")
    (places / "survey.yaml").write_text(
        TEMPLATE.replace("goal: Survey ${inputs.target}", "goal: ${inputs.tar}")
    )
    misspelt = wavewright("check", places / "survey.yaml")

    assert (sound.code, alone.code, unsound.code, misspelt.code) == (0, 0, 1, 1)
    assert "the job reads 'sene'" in unsound.out
    assert "no input is called 'tar'" in misspelt.out


def test_a_dry_run_says_what_all_the_targets_come_to(wavewright: CommandLine, places: Path) -> None:
    job = write_job(places, "{first: [A, B, {name: C, priority: 1}, A], depth: 2, at_once: 2}")
    notes = json.loads(wavewright("dry-run", job, "--format", "json").out)["notes"]
    flat = json.loads(
        wavewright("dry-run", write_job(places, "{first: [A]}"), "--format", "json").out
    )["notes"]
    saved = wavewright("dry-run", job, "--out", places / "saved.json")

    assert notes == [
        "this is the run for one target, 'A'; there is one for each, with a package of its own",
        "the first wave has 3 targets, 2 at the same time: 2 s, at p90 4 s",
        "at most 2 further waves, of what ${steps.seen.near} gives; 1,000 targets in all at most",
    ]
    assert flat[-1] == "there are no further waves: `targets.depth` is 0"
    assert "a job with targets cannot be saved" in saved.err


class NobodyApproves:
    """Is never asked."""

    async def approve(self, request: ApprovalRequest) -> bool:
        raise AssertionError(request)


class CostlyJournal(MemoryJournal):
    """A journal in which every step of a run is seen to have cost 900 tokens."""

    def append(
        self, run: RunId, events: Sequence[Event], alongside: Alongside | None = None
    ) -> Awaitable[None]:
        ended = [event for event in events if isinstance(event, StepFinished)]
        uses = [
            ModelCalled(event.at, ModelUse("worker", "x", "m", "answered", input_tokens=900))
            for event in ended
        ]
        return super().append(run, [*events, *uses], alongside)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("at_once", "shares"),
    [(1, [1000, 100, None]), (3, [333, 333, 334])],
    ids=["one by one", "at once"],
)
async def test_the_tokens_of_a_job_are_shared_by_its_targets(
    places: Path, at_once: int, shares: list[int | None]
) -> None:
    journal = CostlyJournal()
    file = write_job(places, f"{{first: [A, B, C], at_once: {at_once}}}")
    file.write_text(f"{file.read_text()}overrides: {{limits: {{budget: {{tokens: 1000}}}}}}\n")
    done = await run_request(
        RunRequest(job_file=file),
        settings=load_settings(places, {}),
        journal=journal,
        approver=NobodyApproves(),
        publish=withhold_package,
    )
    waves = target_waves(done.context.state)
    assert waves is not None
    given = list[int | None]()
    for target in "ABC":
        started = fold(await journal.load(waves.runs[target])).started
        budget = None if started is None else Goal.model_validate(started.goal).limits.budget
        given.append(None if budget is None else budget.tokens)

    assert given == shares
    assert waves.failed == [
        name for name, share in zip("ABC", shares, strict=True) if share is None
    ]


def test_the_budget_of_a_job_is_for_all_its_targets_together(
    wavewright: CommandLine,
    places: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    model_server.answer(
        {
            "goal_achieved": True,
            "confidence": 0.9,
            "summary": "It was looked at.",
            "missing_data": [],
            "recovery_actions": [],
        },
        when=asked_for("review"),
    )
    model_server.answer({"cannot_plan": "the template's plan will do"}, when=asked_for("plan"))
    with (places / "wavewright.yaml").open("a") as settings:
        settings.write("budgets: {job: {calls: 3}}\n")
    wavewright("run", write_job(places, "{first: [A, B, C]}"))

    assert len(model_server.requests) == 3


# Waves as such

NAMES = st.sampled_from("ABCDEFG")


@given(
    st.lists(NAMES, min_size=1, max_size=4),
    st.integers(0, 3),
    st.integers(1, 6),
    st.dictionaries(NAMES, st.lists(NAMES, max_size=4)),
)
def test_no_target_is_looked_at_twice_none_beyond_the_depth_and_none_beyond_the_most(
    first: list[str], depth: int, most: int, near: dict[str, list[str]]
) -> None:
    waves = TargetWaves(JobTargets(first=tuple(first), depth=depth, most=most))
    looked_at = list[Target]()
    while wave := waves.current():
        looked_at.append(wave[0])
        found = tuple(Target(name) for name in near.get(wave[0].name, []))
        ends = waves.ends.set(wave[0].name, TargetEnd("achieved", found))
        waves = TargetWaves(waves.targets, ends=ends, runs=waves.runs.set(wave[0].name, RunId("r")))

    names = [target.name for target in looked_at]
    assert len(names) == len(set(names)) <= most
    assert all(target.wave <= depth for target in looked_at)
    assert [target.wave for target in looked_at] == sorted(target.wave for target in looked_at)
    assert {target.name for target in waves.known()} == set(names)


def test_what_is_found_beyond_the_most_is_told() -> None:
    found = tuple(Target(name) for name in "ABCD")
    waves = TargetWaves(JobTargets(first=("A",), depth=1, most=2))
    waves = replace(waves, ends=waves.ends.set("A", TargetEnd("achieved", found)))
    waves = replace(waves, ends=waves.ends.set("B", TargetEnd("achieved")))

    assert waves.current() == []
    assert (
        waves.summary()
        == "2 of 2 targets achieved; left out: 2 more that were found, for 2 are the most"
    )


@pytest.mark.parametrize(
    ("near", "said"),
    [
        ('"B"', "nothing was looked for: the expansion gave no list"),
        ("{}", "nothing was looked for: the expansion gave no list"),
        ("[]", ""),
        ('["A", "A", None]', "1 of 3 that were found can be no target"),
    ],
)
def test_a_job_whose_step_finds_no_targets_ends_well_and_says_so(
    wavewright: CommandLine, places: Path, near: str, said: str
) -> None:
    (places / "survey.py").write_text(
        f'def survey(place: str) -> dict:\n    """Look."""\n    return {{"place": place, "near": {near}}}\n'
    )
    answer = wavewright("run", write_job(places, "{first: [A], depth: 3}"))
    found = wavewright("runs", "--format", "json").out
    [root] = [row["run"] for row in json.loads(found) if row["job"] == "places"]
    [target] = json.loads(wavewright("show", root, "--format", "json").out)["targets"]

    assert answer.code == 0
    assert target["reason"] == said
    assert said in answer.err


def test_what_can_be_no_name_is_no_target() -> None:
    values: list[Json] = [
        " A ",
        "",
        "x" * 129,
        "a\nb",
        3,
        None,
        {"name": "B", "priority": True},
        {"priority": 1},
        ["C"],
    ]

    assert list(read_targets(values)) == [Target("A"), Target("B")]
