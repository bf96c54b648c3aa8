"""`wavewright retry`: a run that has ended, again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from tests.engine.conftest import CommandLine
from wavewright.planner.types import JsonObject

_TOOL = '''

def rate(words: list[WordCount], factor: int = 1) -> int:
    """Rate.

    Args:
        words: What to rate.
        factor: How much.
    """
    if not Path("key").exists():
        raise ValueError("no key")
    return factor * len(words)
'''
_PLAN = """
inputs: {top: 5}
steps:
  - {id: note, tool: read_note, params: {path: notes/planning.md}}
  - {id: ranking, tool: rank_words, params: {notes: ["${steps.note}"], top: "${inputs.top}"}}
  - {id: rated, tool: rate, params: {words: "${steps.ranking.words}"}}
result: ${steps.rated}
"""


@pytest.fixture
def failed(wavewright: CommandLine, project: Path) -> str:
    """The id of a run that failed for want of a file."""
    file = project / "tools" / "notes.py"
    file.write_text(file.read_text(encoding="utf-8") + _TOOL, encoding="utf-8")
    (project / "wavewright.yaml").write_text("tools: [tools/notes.py]\n", encoding="utf-8")
    (project / "plan.yaml").write_text(_PLAN, encoding="utf-8")
    assert wavewright("run", "plan.yaml").code == 1
    return newest(wavewright)


def newest(wavewright: CommandLine) -> str:
    rows = cast("list[JsonObject]", json.loads(wavewright("runs", "--format", "json").out))
    return str(rows[0]["run"])


def statuses(wavewright: CommandLine) -> dict[str, str]:
    package = json.loads(wavewright("show", "--format", "json").out)
    return {entry["id"]: entry["status"] for entry in package["execution_log"]}


def test_resume_of_a_failed_run_names_retry(wavewright: CommandLine, failed: str) -> None:
    answer = wavewright("resume", failed)

    assert answer.code == 2
    assert f"`wavewright retry {failed}`" in answer.err


def test_a_retry_is_a_new_run_that_calls_only_what_failed(
    wavewright: CommandLine, project: Path, failed: str
) -> None:
    (project / "key").touch()

    answer = wavewright("retry")

    assert answer.code == 0
    assert newest(wavewright) != failed
    assert f"retry of run {failed}" in answer.out
    assert statuses(wavewright) == {"note": "reused", "ranking": "reused", "rated": "ok"}


def test_from_a_step_on_everything_is_called_anew(
    wavewright: CommandLine, project: Path, failed: str
) -> None:
    (project / "key").touch()

    assert wavewright("retry", failed, "--from", "ranking").code == 0

    assert statuses(wavewright) == {"note": "reused", "ranking": "ok", "rated": "ok"}


def test_another_input_calls_what_reads_it(
    wavewright: CommandLine, project: Path, failed: str
) -> None:
    (project / "key").touch()

    assert wavewright("retry", failed, "--set", "top=1").code == 0

    assert statuses(wavewright) == {"note": "reused", "ranking": "ok", "rated": "ok"}
    assert json.loads(wavewright("show", "--format", "json").out)["result"] == 1


@pytest.mark.parametrize("of", ["plan", "job"])
def test_the_goal_reads_the_input_that_a_retry_changes(
    wavewright: CommandLine, project: Path, of: str
) -> None:
    goal = "goal: Read the notes in ${inputs.folder}\n"
    (project / "own.plan.yaml").write_text(
        f"{goal if of == 'plan' else ''}"
        "inputs: {folder: notes, top: 5}\n"
        "steps: [{id: files, tool: list_notes, params: {folder: '${inputs.folder}'}}]\n"
    )
    (project / "own.job.yaml").write_text(
        f"{goal}goal_template: word_ranking\ninputs: {{folder: notes, top: 5}}\nplan: own.plan.yaml\n"
    )
    wavewright("run", f"own.{of}.yaml")

    wavewright("retry", "--set", "folder=pages")

    package = json.loads(wavewright("show", "--format", "json").out)
    assert package["goal"] == "Read the notes in pages"


def test_a_tool_whose_code_has_changed_is_called_again(
    wavewright: CommandLine, project: Path, failed: str
) -> None:
    (project / "key").touch()
    file = project / "tools" / "notes.py"
    # Of another length: Python takes a file of the same size and second for the one that it has
    # compiled.
    text = file.read_text(encoding="utf-8").replace("[a-z]{4,}", "[a-z]{10,}")
    file.write_text(text, encoding="utf-8")

    assert wavewright("retry", failed).code == 0

    assert statuses(wavewright) == {"note": "reused", "ranking": "ok", "rated": "ok"}


def test_only_what_failed_is_called_where_that_is_wanted_whatever_code_has_changed(
    wavewright: CommandLine, project: Path, failed: str
) -> None:
    (project / "key").touch()
    file = project / "tools" / "notes.py"
    text = file.read_text(encoding="utf-8").replace("[a-z]{4,}", "[a-z]{10,}")
    file.write_text(text, encoding="utf-8")

    shown = wavewright("retry", failed, "--failed", "--dry-run")
    answer = wavewright("retry", failed, "--failed")
    nothing = wavewright("retry", "--failed")

    assert answer.code == 0
    assert statuses(wavewright) == {"note": "reused", "ranking": "reused", "rated": "ok"}
    assert [line.split()[0] for line in shown.out.splitlines() if "rank_words" in line] == [
        "reused"
    ]
    assert nothing.code == 2
    assert "has failed" in nothing.err


def test_a_run_without_a_plan_has_no_failed_calls_to_repeat(
    wavewright: CommandLine, project: Path
) -> None:
    (project / "faulty.plan.yaml").write_text("steps: [{id: a, tool: nowhere}]\n")
    assert wavewright("run", "faulty.plan.yaml").code == 1

    answer = wavewright("retry", "--failed")

    assert answer.code == 2
    assert "ended before it had a plan" in answer.err


def test_a_retry_of_a_retry_takes_over_what_the_first_run_did(
    wavewright: CommandLine, project: Path, failed: str
) -> None:
    assert wavewright("retry", failed).code == 1
    (project / "key").touch()

    assert wavewright("retry").code == 0

    assert statuses(wavewright) == {"note": "reused", "ranking": "reused", "rated": "ok"}


def test_an_unknown_step_or_a_faulty_input_is_refused(wavewright: CommandLine, failed: str) -> None:
    step = wavewright("retry", failed, "--from", "rate")
    value = wavewright("retry", failed, "--set", "top")

    assert (step.code, value.code) == (2, 2)
    assert "did you mean 'rated'?" in step.err
    assert "'top' sets no input" in value.err
    assert newest(wavewright) == failed


_SHOP = '''
from pathlib import Path


def charge(who: str) -> str:
    """Charge somebody."""
    with Path("calls.txt").open("a") as calls:
        calls.write(f"charge {who}\\n")
    return f"charged {who}"


def look(who: str) -> str:
    """Look somebody up."""
    if Path(f"no-{who}").exists():
        raise ValueError(f"there is no {who}")
    return who

'''
_SHOP_SETTINGS = """
tools:
  - path: shop.py
    functions:
      charge: {effects: [write]}
      look: {}
"""
_SHOP_PLAN = """
version: 1
inputs: {who: ann, others: [bob, cid]}
steps:
  - {id: paid, tool: charge, params: {who: "${inputs.who}"}}
  - {id: known, tool: look, params: {who: dan}, depends_on: [paid]}
  - {id: seen, tool: look, for_each: "${inputs.others}", min_ok: 1, params: {who: "${item}"}}
  - {id: told, tool: look, params: {who: "${steps.known}"}}
result: ${steps.told}
"""


@pytest.fixture
def shop(wavewright: CommandLine, tmp_path: Path) -> Path:
    """A project with a run whose step `known` and an item of `seen` have failed."""
    (tmp_path / "shop.py").write_text(_SHOP)
    (tmp_path / "wavewright.yaml").write_text(_SHOP_SETTINGS)
    (tmp_path / "plan.yaml").write_text(_SHOP_PLAN)
    (tmp_path / "no-dan").touch()
    (tmp_path / "no-cid").touch()
    assert wavewright("run", "plan.yaml").code == 1
    return tmp_path


def fates(text: str) -> dict[str, str]:
    """Return what the printed list says of each step."""
    lines = [line.split() for line in text.splitlines() if line.startswith("  ")]
    return {line[1]: line[0] for line in lines if line[0] in ("called", "reused", "left")}


def test_a_dry_run_of_a_retry_lists_what_is_called_and_reused_and_calls_nothing(
    wavewright: CommandLine, shop: Path
) -> None:
    before = (shop / "calls.txt").read_text()
    run = newest(wavewright)

    answer = wavewright("retry", "--dry-run")

    assert answer.code == 0
    assert fates(answer.out) == {
        "paid": "reused",
        "known": "called",
        "seen": "called",
        "told": "called",
    }
    assert "1 of its 2 items failed; 1 reused" in answer.out
    assert (shop / "calls.txt").read_text() == before
    assert newest(wavewright) == run


def test_a_retry_lists_what_it_does_before_it_does_it(wavewright: CommandLine, shop: Path) -> None:
    (shop / "no-dan").unlink()

    answer = wavewright("retry")

    assert answer.err.index("reused  paid") < answer.err.index("wave 1")
    assert statuses(wavewright)["paid"] == "reused"


def test_steps_that_a_changed_input_reaches_are_listed_as_called(
    wavewright: CommandLine, shop: Path
) -> None:
    answer = wavewright("retry", "--dry-run", "--set", "who=eve")

    assert fates(answer.out)["paid"] == "called"


def test_items_are_not_counted_where_a_changed_input_is_their_list(
    wavewright: CommandLine, shop: Path
) -> None:
    answer = wavewright("retry", "--dry-run", "--set", 'others=["bob"]')

    assert fates(answer.out)["seen"] == "called"
    assert "where a changed input makes it another call" in answer.out
    assert "items failed" not in answer.out


def test_a_step_that_is_named_is_listed_as_called_with_all_that_depend_on_it(
    wavewright: CommandLine, shop: Path
) -> None:
    answer = wavewright("retry", "--dry-run", "--from", "paid")

    assert {step for step, fate in fates(answer.out).items() if fate == "called"} >= {
        "paid",
        "known",
        "told",
    }
    assert "--from paid" in answer.out
