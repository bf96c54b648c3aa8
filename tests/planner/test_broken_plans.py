"""Every diagnostic has a broken plan that gives it, with the exact text beside it, and a page that
shows it.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.planner.broken_plans import BrokenPlan, broken_plans
from wavewright.planner.diagnostics.diagnostic import (
    FAMILIES,
    DiagnosticEntry,
    catalogue,
    severity_of,
)

ROOT = Path(__file__).parents[2]
PLANS = broken_plans()


@pytest.mark.parametrize("broken", [pytest.param(one, id=one.folder.name) for one in PLANS])
def test_a_broken_plan_gives_exactly_its_text(broken: BrokenPlan) -> None:
    assert broken.shown() == broken.expected


@pytest.mark.parametrize("broken", [pytest.param(one, id=one.folder.name) for one in PLANS])
def test_a_broken_plan_shows_one_fault_and_nothing_that_follows_from_it(broken: BrokenPlan) -> None:
    diagnostics, _ = broken.found()

    assert {one.code for one in diagnostics} == {broken.code}
    assert all(one.severity == severity_of(one.code) for one in diagnostics)


@pytest.mark.parametrize("broken", [pytest.param(one, id=one.folder.name) for one in PLANS])
def test_errors_that_are_looked_for_alone_are_those_of_check(broken: BrokenPlan) -> None:
    of_check, alone = broken.errors_both_ways()

    assert alone == of_check


def test_every_code_has_a_broken_plan() -> None:
    assert sorted({one.code for one in PLANS}) == sorted(catalogue())


@pytest.mark.parametrize("entry", [pytest.param(one, id=one.code) for one in catalogue().values()])
def test_every_entry_says_what_is_wrong_and_what_to_do(entry: DiagnosticEntry) -> None:
    assert entry.family in FAMILIES.values()
    assert entry.meaning.endswith(".")
    assert entry.fix.endswith(".")


def test_kinds_are_unique() -> None:
    assert len({entry.kind for entry in catalogue().values()}) == len(catalogue())


def committed_pages() -> tuple[dict[Path, str], Path]:
    spec = importlib.util.spec_from_file_location(
        "build_diagnostics", ROOT / "docs" / "build_diagnostics.py"
    )
    assert spec is not None
    assert spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    return build.pages(), build.PAGES


def test_every_diagnostic_has_its_page_and_the_pages_are_up_to_date() -> None:
    wanted, folder = committed_pages()
    there = {path: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}

    assert sorted(there) == sorted(wanted), "run: python docs/build_diagnostics.py"
    assert [path.name for path in wanted if there[path] != wanted[path]] == [], (
        "run: python docs/build_diagnostics.py"
    )
    assert {path.stem for path in wanted} == {*catalogue(), "index"}
