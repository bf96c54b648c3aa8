"""The commands where the journal is in PostgreSQL: they do what they do over a file, and nobody
sees the password.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import cast

import pytest

from tests.engine.conftest import Answer, CommandLine
from tests.support.postgres import PASSWORD, OwnServer, PostgresServer
from tests.support.prepared_command import PipedCommand
from wavewright.planner.types import JsonObject


@pytest.fixture
def url(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty database, which the environment names as the journal."""
    url = postgres.database()
    monkeypatch.setenv("WAVEWRIGHT_PG_URL", url)
    return url


def rows(wavewright: CommandLine) -> list[JsonObject]:
    return cast("list[JsonObject]", json.loads(wavewright("runs", "--format", "json").out))


def test_a_run_is_listed_and_shown_and_no_file_is_made(
    wavewright: CommandLine,
    project: Path,
    postgres: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WAVEWRIGHT_PG_URL", postgres.database())
    assert wavewright("runs").out == "no runs yet; `wavewright run JOB` starts one\n"

    assert wavewright("run", "plans/words.job.yaml").code == 0
    [row] = rows(wavewright)
    shown = wavewright("show", str(row["run"]), "--format", "json")

    assert (row["status"], row["job"]) == ("achieved", "words")
    assert shown.code == 0
    assert json.loads(shown.out)["run"] == row["run"]
    assert not (project / ".wavewright" / "journal.sqlite").exists()


def test_the_settings_file_may_name_the_database(
    wavewright: CommandLine, project: Path, postgres: PostgresServer
) -> None:
    with (project / "wavewright.yaml").open("a") as file:
        file.write(f"\njournal: {postgres.database()}\n")

    assert wavewright("run", "plans/words.job.yaml").code == 0
    assert len(rows(wavewright)) == 1


def test_a_killed_run_is_resumed_and_repeats_nothing(
    wavewright: CommandLine, project: Path, url: str, postgres: PostgresServer
) -> None:
    marks = project / "marks"
    (project / "tools.py").write_text(
        "import pathlib, time\n\n"
        "__all__ = ['early', 'late']\n"
        f"marks = pathlib.Path({str(marks)!r})\n\n"
        "def mark(word: str) -> None:\n"
        "    with marks.open('a') as file:\n"
        "        file.write(f'{word}\\n')\n\n"
        "def early() -> str:\n"
        '    """Say something once."""\n'
        "    mark('early')\n"
        "    return 'said'\n\n"
        "def late(said: str) -> str:\n"
        '    """Wait at the first time."""\n'
        "    first = 'late' not in marks.read_text()\n"
        "    mark('late')\n"
        "    time.sleep(600 if first else 0)\n"
        "    return said\n"
    )
    (project / "wavewright.yaml").write_text("tools: [tools.py]\n")
    (project / "slow.yaml").write_text(
        "steps:\n"
        "  - {id: one, tool: early, params: {}}\n"
        '  - {id: two, tool: late, params: {said: "${steps.one}"}}\n'
    )
    with PipedCommand(
        "run", "slow.yaml", folder=project, environment=os.environ | {"WAVEWRIGHT_PG_URL": url}
    ):
        wait_for(marks, "late")
    [row] = rows(wavewright)
    assert row["status"] == "interrupted"

    resumed = wavewright("resume", str(row["run"]))

    assert resumed.code == 0, resumed.err
    assert marks.read_text().split() == ["early", "late", "late"]
    assert [one["status"] for one in rows(wavewright)] == ["achieved"]


def wait_for(marks: Path, word: str) -> None:
    deadline = time.monotonic() + 40
    while not (marks.exists() and word in marks.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)  # noqa: TID251 - another process tells nobody


def test_doctor_names_the_database_and_counts_its_runs(
    wavewright: CommandLine, project: Path, url: str
) -> None:
    wavewright("run", "plans/words.job.yaml")

    assert f"{url} (1 run)" in wavewright("doctor", "--offline").out


def test_a_forecast_is_drawn_from_past_calls(
    wavewright: CommandLine, project: Path, url: str
) -> None:
    for _ in range(3):
        wavewright("run", "plans/words.job.yaml")

    forecast = wavewright("dry-run", "plans/words.job.yaml")

    assert forecast.code == 0, forecast.err
    assert "all of 3 steps from past calls" in forecast.out


def test_no_command_shows_the_password(
    wavewright: CommandLine,
    project: Path,
    mortal_postgres: OwnServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = mortal_postgres.database().rpartition("/")[2]
    mortal_postgres.run(f"GRANT ALL ON DATABASE {database} TO guarded")
    right = mortal_postgres.url_of(database, user="guarded", password=PASSWORD)
    wrong = mortal_postgres.url_of(database, user="guarded", password="wrong-but-telling")  # noqa: S106

    told: list[Answer] = []
    for url in (right, wrong):
        monkeypatch.setenv("WAVEWRIGHT_PG_URL", url)
        told += [
            wavewright("run", "plans/words.job.yaml"),
            wavewright("runs"),
            wavewright("doctor", "--offline"),
        ]
    monkeypatch.delenv("WAVEWRIGHT_PG_URL")
    (project / "wavewright.yaml").write_text(f"journal: {wrong}\n")
    told.append(wavewright("runs"))
    (project / "wavewright.yaml").write_text(f"journal: {wrong}\nnonsense: 1\n")
    told.append(wavewright("runs"))

    assert [answer.code for answer in told] == [0, 0, 0, 3, 3, 1, 3, 2]
    assert told[4].err == (
        "error: the database refuses the user or the password\n"
        f"  --> postgresql://guarded@127.0.0.1:{right.rpartition(':')[2]}\n"
        "  = help: check the user and password of the address, where '%' is written %25, and the server's pg_hba.conf\n"
    )
    everything = "".join(answer.out + answer.err for answer in told)
    assert PASSWORD not in everything
    assert "telling" not in everything
