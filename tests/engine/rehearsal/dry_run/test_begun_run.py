"""`dry-run --run`: what of a run that has begun would run again, on resume or after a patch; and
what is reused.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.engine.conftest import CommandLine
from tests.engine.journaled_history import append
from tests.engine.normalized_output import worded
from tests.engine.stale_quotes_project import JOB, TEMPLATE, take_calls, write_quotes_project
from tests.executor.event_examples import run_started
from wavewright.config.settings import load_settings
from wavewright.executor.events.state import fold
from wavewright.executor.events.types import Event, ItemFinished, Noted, PlanAccepted
from wavewright.executor.sqlite.transaction import JournalReader
from wavewright.planner.language.plan import Plan, PlanPatch
from wavewright.planner.plans.patches import patch_fingerprint
from wavewright.planner.types import JsonObject

FRESH_JOB = JOB.replace("as_of: 2010-03-01", "as_of: 2009-01-01")
NO_ROUNDS = f"{TEMPLATE}limits: {{rounds: 0}}\n"


@pytest.fixture
def quotes_project(tmp_path: Path) -> Path:
    """A project whose job has two quotes fetched and written down."""
    write_quotes_project(tmp_path, template=NO_ROUNDS, job=FRESH_JOB)
    return tmp_path


def record(wavewright: CommandLine, *arguments: str | Path) -> JsonObject:
    answer = wavewright("dry-run", *arguments, "--format", "json")
    assert answer.code == 0, answer.err
    return cast("JsonObject", json.loads(answer.out))


def calls_told(told: JsonObject) -> Counter[str]:
    """Return how many calls of each tool a dry run speaks of."""
    calls: Counter[str] = Counter()
    for step in cast("list[JsonObject]", told["steps"]):
        calls[str(step["tool"])] += cast("int", step["calls_made"])
    return +calls


def calls_made(folder: Path) -> Counter[str]:
    """Return how many calls of each tool were made since this was last asked."""
    calls: Counter[str] = Counter()
    for call, times in take_calls(folder).items():
        calls[call.split()[0]] += times
    return calls


def events_of(folder: Path) -> list[Event]:
    with JournalReader.open(load_settings(folder).journal) as reader:
        [row] = reader.list_runs()
        return reader.load(row.run)


def journal_again(folder: Path, events: Sequence[Event]) -> None:
    """Begin the journal anew, with these events of one run."""
    journal = load_settings(folder).journal
    for file in journal.parent.glob(f"{journal.name}*"):
        file.unlink()
    append(journal, "r1", events)


def run_of(folder: Path) -> str:
    with JournalReader.open(load_settings(folder).journal) as reader:
        return reader.list_runs()[0].run


def test_wherever_a_run_is_cut_off_what_is_said_to_run_is_what_resuming_calls(
    wavewright: CommandLine, quotes_project: Path
) -> None:
    assert wavewright("run", "quotes.job.yaml").code == 0
    events = events_of(quotes_project)
    accepted = next(at for at, event in enumerate(events) if isinstance(event, PlanAccepted))
    told, made = list[Counter[str]](), list[Counter[str]]()

    for end in range(accepted + 1, len(events)):
        journal_again(quotes_project, events[:end])
        take_calls(quotes_project)
        told.append(calls_told(record(wavewright, "--run", "r1")))
        assert wavewright("resume", "r1").code == 0
        made.append(calls_made(quotes_project))

    assert told == made
    assert told[0] == {"fetch": 2, "rate": 1, "write_down": 1}
    assert not told[-1]


def patch_of(quotes_project: Path, run: str, ops: list[JsonObject]) -> Path:
    with JournalReader.open(load_settings(quotes_project).journal) as reader:
        [accepted] = [
            each for each in reader.load(reader.find_run(run)) if isinstance(each, PlanAccepted)
        ]
    patch = {"base": accepted.plan_hash, "reason": "the quotes are stale", "ops": ops}
    (quotes_project / "patch.json").write_text(json.dumps(patch))
    return quotes_project / "patch.json"


AGAIN: JsonObject = {
    "op": "add",
    "step": {
        "id": "quotes_2",
        "tool": "fetch",
        "for_each": "${inputs.codes}",
        "params": {"code": "${item}", "force": True},
        "supersedes": "quotes",
    },
}


@pytest.fixture
def stale(wavewright: CommandLine, quotes_project: Path) -> str:
    """A run that ended with stale quotes, so that nothing was written down; it may still be
    patched.
    """
    template = TEMPLATE[: TEMPLATE.index("recipes:")]
    write_quotes_project(quotes_project, template=template)
    assert wavewright("run", "quotes.job.yaml").code == 1
    return run_of(quotes_project)


def test_after_a_patch_only_what_it_brings_and_what_needs_it_runs(
    wavewright: CommandLine, quotes_project: Path, stale: str
) -> None:
    told = record(wavewright, "--run", stale, "--patch", patch_of(quotes_project, stale, [AGAIN]))

    rerun = cast("JsonObject", told["rerun"])
    assert (rerun["runs"], rerun["kept"]) == (["sheet", "quotes_2"], ["quotes", "rate"])
    assert rerun["patch"] == "the quotes are stale"
    assert calls_told(told) == {"fetch": 2, "write_down": 1}


def test_the_text_of_a_patched_run(
    wavewright: CommandLine, quotes_project: Path, stale: str, snapshot: SnapshotAssertion
) -> None:
    answer = wavewright(
        "dry-run", "--run", stale, "--patch", patch_of(quotes_project, stale, [AGAIN])
    )

    assert max(map(len, answer.out.splitlines())) <= 80
    assert answer.out == snapshot


def test_a_patch_that_cannot_be_applied_is_told_at_its_place(
    wavewright: CommandLine, quotes_project: Path, stale: str, snapshot: SnapshotAssertion
) -> None:
    patch = patch_of(quotes_project, stale, [{"op": "remove", "id": "rate"}])

    answer = wavewright("dry-run", "--run", stale, "--patch", patch)

    assert answer.code == 1
    assert worded(answer, quotes_project) == snapshot


def test_a_patch_that_the_run_has_tried_is_refused_as_the_run_would(
    wavewright: CommandLine, stale: str, quotes_project: Path
) -> None:
    file, events = patch_of(quotes_project, stale, [AGAIN]), events_of(quotes_project)
    state = fold(events)
    tried = patch_fingerprint(
        Plan.model_validate(state.plan),
        PlanPatch.model_validate_json(file.read_text()),
        [gate.gate for gate in state.gates if gate.has_failed],
    )
    noted = Noted(events[-1].at, "recovery", {"fingerprint": tried, "round": state.round})
    journal_again(quotes_project, [*events[:-1], noted, events[-1]])

    answer = wavewright("dry-run", "--run", "r1", "--patch", file)

    assert answer.code != 0
    assert "the same patch was tried before against the same failed gates" in answer.err


def test_a_new_side_effect_of_a_patch_is_a_question(
    wavewright: CommandLine, quotes_project: Path, stale: str
) -> None:
    more: JsonObject = {
        "op": "add",
        "step": {
            "id": "note",
            "tool": "write_down",
            "params": {"quotes": [], "rate": "${steps.rate}"},
        },
    }

    told = record(wavewright, "--run", stale, "--patch", patch_of(quotes_project, stale, [more]))

    assert told["approvals"] == ["the patch brings step 'note', which calls 'write_down' (write)"]


@pytest.mark.parametrize(
    ("effects", "policy", "permits", "approvals"),
    [
        pytest.param("[read, egress]", "", None, [], id="a call repeated as a recipe says"),
        pytest.param(
            "[read]",
            "auto_approve: false\n",
            None,
            ["the goal lets no patch apply without a person's word"],
            id="a goal that lets none apply by itself",
        ),
        pytest.param(
            "[read]",
            "",
            4,
            ["the patch needs more than the permits: calls up to 6"],
            id="more calls than are permitted",
        ),
    ],
)
def test_of_a_patch_is_told_what_its_run_would_ask(
    wavewright: CommandLine,
    quotes_project: Path,
    effects: str,
    policy: str,
    permits: int | None,
    approvals: list[str],
) -> None:
    template = TEMPLATE.replace("gate: fresh, set", "on: feedback, step: quotes, set")
    write_quotes_project(quotes_project, template=template + policy)
    settings = quotes_project / "wavewright.yaml"
    written = settings.read_text()
    settings.write_text(written.replace("as_of}", f"as_of, effects: {effects}}}"))
    if permits is not None:
        assert wavewright("check", "--permits", "quotes.job.yaml").code == 0
        file = quotes_project / "quotes.permits.json"
        assert json.loads(file.read_text())["calls"] == permits
    assert wavewright("run", "quotes.job.yaml").code == 1
    run = run_of(quotes_project)

    told = record(wavewright, "--run", run, "--patch", patch_of(quotes_project, run, [AGAIN]))

    assert told["approvals"] == approvals


@pytest.mark.parametrize("command", [("dry-run", "--run", "../"), ("answer", "../", "yes")])
def test_a_run_of_an_edited_journal_is_refused_by_what_can_be_no_id(
    wavewright: CommandLine, quotes_project: Path, command: tuple[str, ...]
) -> None:
    append(load_settings(quotes_project).journal, "../evil", [run_started("../evil")])

    answer = wavewright(*command)

    assert answer.code != 0
    assert "'../evil' can be no id of a run" in answer.err


def test_an_approval_is_told_until_it_is_answered(
    wavewright: CommandLine, quotes_project: Path
) -> None:
    job = FRESH_JOB.replace("tool: write_down,", "tool: write_down, needs_approval: true,")
    write_quotes_project(quotes_project, job=job)
    assert wavewright("run", "quotes.job.yaml", "--approve", "wait").code == 130
    run = run_of(quotes_project)

    waiting = record(wavewright, "--run", run)
    assert wavewright("answer", run, "approve").code == 0
    answered = record(wavewright, "--run", run)

    assert waiting["approvals"] == ["step 'sheet' calls 'write_down', which needs approval"]
    assert answered["approvals"] == []


def test_text_from_outside_is_told_of_steps_that_still_act(
    wavewright: CommandLine, quotes_project: Path
) -> None:
    write_quotes_project(quotes_project, job=FRESH_JOB)
    settings = quotes_project / "wavewright.yaml"
    told = settings.read_text().replace("field: as_of", "field: as_of, untrusted_output: true")
    settings.write_text(told.replace("write_down: {", "write_down: {accepts_untrusted: [quotes], "))
    assert wavewright("run", "quotes.job.yaml").code == 0
    more: JsonObject = {
        "op": "add",
        "step": {
            "id": "more",
            "tool": "write_down",
            "params": {"quotes": "${steps.quotes}", "rate": 1.5},
        },
    }
    run = run_of(quotes_project)

    before = record(wavewright, "quotes.job.yaml")
    after = record(wavewright, "--run", run, "--patch", patch_of(quotes_project, run, [more]))

    acting = [cast("list[JsonObject]", told["untrusted"])[0]["acting"] for told in (before, after)]
    assert acting == [["sheet"], ["more"]]


def test_of_a_run_that_has_ended_nothing_runs_again_without_a_patch(
    wavewright: CommandLine, quotes_project: Path, stale: str
) -> None:
    answer = wavewright("dry-run", "--run", stale)

    assert answer.code == 2
    assert "has ended (not achieved); no step of it would run again" in answer.err
    assert "--patch FILE" in answer.err


def test_what_has_ended_is_kept_although_its_tool_has_changed_since(
    wavewright: CommandLine, quotes_project: Path
) -> None:
    assert wavewright("run", "quotes.job.yaml").code == 0
    journal_again(quotes_project, events_of(quotes_project)[:-3])
    settings = quotes_project / "wavewright.yaml"
    settings.write_text(settings.read_text().replace("rate: {}", 'rate: {version: "2"}'))
    take_calls(quotes_project)

    told = record(wavewright, "--run", "r1")
    assert wavewright("resume", "r1").code == 0

    assert calls_made(quotes_project) == calls_told(told) == {}
    sheet = next(step for step in cast("list[JsonObject]", told["steps"]) if step["id"] == "sheet")
    assert cast("JsonObject", sheet["standing"])["reason"] == "it is done"


@pytest.mark.parametrize(
    "arguments",
    [
        ("quotes.job.yaml", "--run", "r1"),
        ("--run", "r1", "--out", "x.json"),
        ("--patch", "x.json"),
        (),
    ],
    ids=["job", "out", "patch", "nothing"],
)
def test_what_does_not_go_together_is_told(
    wavewright: CommandLine,
    quotes_project: Path,
    arguments: Sequence[str],
    snapshot: SnapshotAssertion,
) -> None:
    answer = wavewright("dry-run", *arguments)

    assert answer.code == 2
    assert worded(answer, quotes_project) == snapshot


def test_where_nothing_has_run_there_is_no_run_to_look_at(
    wavewright: CommandLine, quotes_project: Path
) -> None:
    answer = wavewright("dry-run", "--run", "r1")

    assert "there are no runs yet" in answer.err
    assert not load_settings(quotes_project).journal.exists()


# Reuse of other runs' outputs


def let_reuse(quotes_project: Path, seconds: int = 3600) -> None:
    settings = quotes_project / "wavewright.yaml"
    settings.write_text(
        settings.read_text().replace(
            "freshness_field: as_of", f"freshness_field: as_of, cache_for: {seconds}"
        )
    )


def test_what_the_journal_answers_is_told_and_is_what_the_next_run_reuses(
    wavewright: CommandLine, quotes_project: Path
) -> None:
    let_reuse(quotes_project)
    assert wavewright("run", "quotes.job.yaml").code == 0
    take_calls(quotes_project)

    told = record(wavewright, "quotes.job.yaml")
    text = wavewright("dry-run", "quotes.job.yaml").out
    assert wavewright("run", "quotes.job.yaml").code == 0

    assert calls_told(told) == calls_made(quotes_project) == {"rate": 1, "write_down": 1}
    assert re.search(r"─ quotes .* 0 s +0 s$", text, re.MULTILINE)
    quotes = next(
        step for step in cast("list[JsonObject]", told["steps"]) if step["id"] == "quotes"
    )
    assert cast("JsonObject", quotes["reuse"])["calls"] == 2
    assert quotes["expected_seconds"] == 0


def test_one_item_more_is_one_call(wavewright: CommandLine, quotes_project: Path) -> None:
    let_reuse(quotes_project)
    assert wavewright("run", "quotes.job.yaml").code == 0
    (quotes_project / "quotes.job.yaml").write_text(
        FRESH_JOB.replace("[GNP, SKS]", "[GNP, NEW, SKS]")
    )
    take_calls(quotes_project)

    told = record(wavewright, "quotes.job.yaml")
    text = wavewright("dry-run", "quotes.job.yaml").out
    assert wavewright("run", "quotes.job.yaml").code == 0

    assert (
        calls_told(told) == calls_made(quotes_project) == {"fetch": 1, "rate": 1, "write_down": 1}
    )
    assert "2 of 3 calls reused from run" in text


def test_what_a_begun_run_keeps_is_not_counted_as_reused_as_well(
    wavewright: CommandLine, quotes_project: Path
) -> None:
    let_reuse(quotes_project)
    (quotes_project / "quotes.job.yaml").write_text(
        FRESH_JOB.replace("[GNP, SKS]", "[GNP, NEW, SKS]")
    )
    assert wavewright("run", "quotes.job.yaml").code == 0
    events = events_of(quotes_project)
    items = [at for at, event in enumerate(events) if isinstance(event, ItemFinished)]
    journal_again(quotes_project, events[: items[1] + 1])
    take_calls(quotes_project)

    told = record(wavewright, "--run", "r1")
    assert wavewright("resume", "r1").code == 0

    assert calls_told(told) == calls_made(quotes_project)
    assert calls_told(told)["fetch"] == 1


def test_equal_calls_of_a_deterministic_tool_are_told_once(
    wavewright: CommandLine, quotes_project: Path
) -> None:
    settings = quotes_project / "wavewright.yaml"
    settings.write_text(
        settings.read_text().replace(
            "freshness_field: as_of", "freshness_field: as_of, deterministic: true"
        )
    )
    (quotes_project / "quotes.job.yaml").write_text(
        FRESH_JOB.replace("[GNP, SKS]", "[GNP, SKS, GNP]")
    )

    told = record(wavewright, "quotes.job.yaml")
    text = wavewright("dry-run", "quotes.job.yaml").out
    assert wavewright("run", "quotes.job.yaml").code == 0

    assert calls_told(told) == calls_made(quotes_project)
    assert calls_told(told)["fetch"] == 2
    assert "1 of 3 calls served by an equal call" in text


def test_what_a_tool_does_not_let_others_reuse_is_called_again(
    wavewright: CommandLine, quotes_project: Path
) -> None:
    assert wavewright("run", "quotes.job.yaml").code == 0

    assert calls_told(record(wavewright, "quotes.job.yaml")) == {
        "fetch": 2,
        "rate": 1,
        "write_down": 1,
    }


def test_what_is_too_old_is_called_again(wavewright: CommandLine, quotes_project: Path) -> None:
    let_reuse(quotes_project, 100_000)
    assert wavewright("run", "quotes.job.yaml").code == 0
    old = [replace_time(event) for event in events_of(quotes_project)]
    journal_again(quotes_project, old)
    take_calls(quotes_project)

    told = record(wavewright, "quotes.job.yaml")
    assert wavewright("run", "quotes.job.yaml").code == 0

    assert (
        calls_told(told) == calls_made(quotes_project) == {"fetch": 2, "rate": 1, "write_down": 1}
    )


def replace_time(event: Event) -> Event:
    """Return an event as if it had been journaled two days earlier."""
    return replace(event, at=event.at - 200_000)
