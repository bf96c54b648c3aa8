"""The history of tools: the latest calls that brought something, read without writing and in
bounded time.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.engine.journaled_history import append, asked, begun, ended, item_ended
from tests.support.postgres import PostgresServer
from wavewright.engine.rehearsal.dry_run.history import (
    HISTORY_WINDOW,
    MAX_CALLS_PER_TOOL,
    find_stored,
    read_history,
)
from wavewright.executor.store.errors import JournalError
from wavewright.planner.types import JsonObject, StepKey

STEPS: list[JsonObject] = [
    {"id": "a", "tool": "fetch", "params": {}},
    {"id": "each", "tool": "note", "for_each": "${steps.a}", "params": {}},
]
TWO: JsonObject = {"steps": [*STEPS]}


@pytest.fixture(params=["sqlite", "postgres"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """A journal with nothing in it: a file, or the address of a database."""
    if request.param == "sqlite":
        return tmp_path / "journal.sqlite"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.database()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


def test_where_there_is_no_journal_there_is_no_history_and_none_is_made(file: Path) -> None:
    assert read_history(file, {"fetch"}) == {}
    assert not file.exists()


def test_an_empty_journal_has_no_history(journal: Path | str) -> None:
    append(journal, "r1", list(begun("r1", TWO)))

    assert read_history(journal, {"fetch"}) == {}


def test_the_latest_calls_come_first(journal: Path | str) -> None:
    append(journal, "r1", [*begun("r1", TWO), ended("a", 3.0)])
    append(journal, "r2", [*begun("r2", TWO), ended("a", 1.0)])

    assert read_history(journal, {"fetch"})["fetch"].seconds == (1.0, 3.0)


def test_of_a_step_with_items_the_items_are_the_calls(journal: Path | str) -> None:
    items = [item_ended("each", number, 0.5 + number) for number in range(3)]
    append(journal, "r1", [*begun("r1", TWO), ended("a", 3.0), *items, ended("each", 9.0)])

    assert read_history(journal, {"note"})["note"].seconds == (2.5, 1.5, 0.5)


def test_calls_that_failed_say_nothing_of_what_a_call_takes(journal: Path | str) -> None:
    append(journal, "r1", [*begun("r1", TWO), ended("a", 99.0, status="failed")])

    assert read_history(journal, {"fetch"}) == {}


def test_tools_of_a_step_are_known_by_the_plan_of_its_own_run(journal: Path | str) -> None:
    other: JsonObject = {"steps": [{"id": "a", "tool": "post", "params": {}}]}
    append(journal, "r1", [*begun("r1", TWO), ended("a", 3.0)])
    append(journal, "r2", [*begun("r2", other), ended("a", 1.0)])

    found = read_history(journal, {"fetch", "post", "never"})

    assert {tool: past.seconds for tool, past in found.items()} == {"fetch": (3.0,), "post": (1.0,)}


def test_steps_that_a_patch_added_count(journal: Path | str) -> None:
    patched: JsonObject = {"steps": [*STEPS, {"id": "late", "tool": "post", "params": {}}]}
    accepted = list(begun("r1", patched))[1:]
    append(journal, "r1", [*begun("r1", TWO), ended("a", 3.0), *accepted, ended("late", 2.0)])

    assert read_history(journal, {"post"})["post"].seconds == (2.0,)


def test_what_models_took_is_told_by_call_and_by_model(journal: Path | str) -> None:
    uses = [
        asked("each", 100, 0.25, model="m:one", index=0),
        asked("each", 20, 0.5, model="m:one", index=0),
        asked("each", 40, None, model="m:two", index=1),
    ]
    append(
        journal,
        "r1",
        [*begun("r1", TWO), *uses, item_ended("each", 0, 1.0), item_ended("each", 1, 2.0)],
    )

    past = read_history(journal, {"note"})["note"]

    assert [(spend.tokens, spend.usd) for spend in past.of_model("m:one")] == [(120, 0.75)]
    assert [(spend.tokens, spend.usd) for spend in past.of_model("m:two")] == [(40, None)]
    assert past.of_model("m:three") == ()


def test_no_more_calls_than_are_remembered_are_looked_at(journal: Path | str) -> None:
    calls = [item_ended("each", number, float(number)) for number in range(MAX_CALLS_PER_TOOL + 10)]
    append(journal, "r1", [*begun("r1", TWO), *calls])

    seconds = read_history(journal, {"note"})["note"].seconds

    assert seconds == tuple(float(number) for number in range(MAX_CALLS_PER_TOOL + 9, 9, -1))


def test_what_lies_beyond_the_window_is_not_looked_for(journal: Path | str) -> None:
    append(journal, "r1", [*begun("r1", TWO), ended("a", 3.0)])
    append(
        journal,
        "r2",
        [*begun("r2", TWO), *(item_ended("each", 0, 1.0) for _ in range(HISTORY_WINDOW))],
    )

    assert set(read_history(journal, {"fetch", "note"})) == {"note"}


def test_a_damaged_call_is_left_out(journal: Path | str, request: pytest.FixtureRequest) -> None:
    append(journal, "r1", [*begun("r1", TWO), ended("a", 3.0)])
    append(journal, "r2", [*begun("r2", TWO), ended("a", 1.0)])
    damage = "UPDATE {}event SET body = 'half of' WHERE id = 3"
    if isinstance(journal, str):
        server: PostgresServer = request.getfixturevalue("postgres")
        server.run(
            f"SET session_replication_role = replica; {damage.format('wavewright.')}", journal
        )
    else:
        with closing(sqlite3.connect(journal)) as connection, connection:
            connection.execute("DROP TRIGGER event_unchanged")
            connection.execute(damage.format(""))

    assert read_history(journal, {"fetch"})["fetch"].seconds == (1.0,)


def test_the_newest_call_under_a_key_is_found(journal: Path | str) -> None:
    append(journal, "r1", [*begun("r1", TWO), ended("a", 3.0, cache_key="k")])
    append(journal, "r2", [*begun("r2", TWO), ended("a", 1.0, cache_key="k")])
    keys = {StepKey("k"), StepKey("never")}

    found = find_stored(journal, keys)

    assert {key: (call.run, call.at) for key, call in found.items()} == {"k": ("r2", 1e9)}


def test_reading_leaves_the_file_as_it_was(file: Path) -> None:
    append(file, "r1", [*begun("r1", TWO), ended("a", 3.0)])
    before = file.read_bytes()

    read_history(file, {"fetch"})

    assert file.read_bytes() == before


def test_a_file_that_is_no_journal_is_told(file: Path) -> None:
    file.write_text("not a database, but long enough to be taken for one" * 20)

    with pytest.raises(JournalError, match="journal"):
        read_history(file, {"fetch"})
