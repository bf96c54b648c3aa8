"""Ids of runs are names of folders, and nothing is removed that no run has made."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from wavewright.config.settings import Settings, load_settings
from wavewright.engine import Wavewright
from wavewright.engine.run.find_run import find_run
from wavewright.engine.run.package import remove_run_files, run_folder
from wavewright.executor.events.types import RunStarted
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.types import RunId, RunIdRefused, read_run_id

BAD = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "/srv/x",
    "a b",
    "-x",
    "x:y",
    "a\0b",
    "A\nb",
    "\ud800",
    "é",
    "y" * 300,
    "a.",
    "con",
    "NUL.txt",
]

pytestmark = pytest.mark.anyio


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(load_settings(tmp_path, {}), root=tmp_path)


@pytest.mark.parametrize("text", [*BAD, True, 1.5, None, b"x", ["a"]])
def test_what_is_no_plain_name_is_no_id_of_a_run(text: object) -> None:
    with pytest.raises(RunIdRefused, match="can be no id of a run"):
        read_run_id(text)


async def test_a_run_of_an_edited_database_is_found_by_no_id_that_leads_out() -> None:
    journal = MemoryJournal()
    run = RunId("../../evil")
    await journal.append(run, [RunStarted(run, 1.0, "job", {}, 1.0)])

    for prefix in (None, run, "..", "../"):
        with pytest.raises(RunIdRefused, match="evil' can be no id of a run"):
            await find_run(journal, prefix)


def test_a_uuid_and_an_integer_become_their_text() -> None:
    number = uuid.UUID(int=7)

    assert (read_run_id(number), read_run_id(42)) == (str(number), "42")


@pytest.mark.parametrize("text", BAD)
def test_a_bad_id_is_refused_by_its_path_too(settings: Settings, text: str) -> None:
    with pytest.raises(RunIdRefused):
        run_folder(settings.output_dir, RunId(text))


@pytest.mark.parametrize("text", BAD)
async def test_a_bad_id_is_refused_before_anything_is_called(tmp_path: Path, text: str) -> None:
    calls: list[str] = []

    def note() -> str:
        calls.append("note")
        return "noted"

    async with Wavewright(tools=[note], journal=tmp_path / "j.db") as ww:
        plan = ww.new_plan("x").step("a", "note", {}).returns("${steps.a}")
        for run in (ww.run(plan, run=text), ww.resume(text)):
            with pytest.raises(RunIdRefused):
                await run

    assert calls == []


async def test_a_run_may_have_a_uuid_or_a_number_as_its_id(tmp_path: Path) -> None:
    def one() -> int:
        return 1

    async with Wavewright(tools=[one], journal=tmp_path / "j.db") as ww:
        plan = ww.new_plan("x").step("a", "one", {}).returns("${steps.a}")
        ids = [(await ww.run(plan, run=run)).id for run in (uuid.UUID(int=7), 42)]

    assert ids == [str(uuid.UUID(int=7)), "42"]


def test_the_files_of_a_run_are_removed_and_its_folder(settings: Settings) -> None:
    folder = run_folder(settings.output_dir, RunId("r"))
    folder.mkdir(parents=True)
    (folder / "package.json").write_text("{}")
    (folder / "report.html").write_text("<p>")

    assert remove_run_files(settings, [RunId("r")]) == 5
    assert not folder.exists()


def test_what_a_person_has_put_beside_a_package_stays(settings: Settings) -> None:
    folder = run_folder(settings.output_dir, RunId("r"))
    folder.mkdir(parents=True)
    (folder / "package.json").write_text("{}")
    (folder / "notes.txt").write_text("mine")

    remove_run_files(settings, [RunId("r")])

    assert [file.name for file in folder.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("text", BAD)
def test_an_id_of_an_older_journal_that_leads_elsewhere_removes_nothing(
    settings: Settings, text: str
) -> None:
    settings.output_dir.mkdir(parents=True)
    package = settings.state_dir / "package.json"
    package.write_text("{}")

    assert remove_run_files(settings, [RunId(text)]) == 0
    assert package.exists()
