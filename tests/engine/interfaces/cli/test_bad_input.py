"""Bad input: one clear message with the place and the mend, a documented exit code, no traceback."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.engine.conftest import Answer, CommandLine
from tests.engine.normalized_output import worded
from wavewright.executor.sqlite.event_store import SqliteEventStore
from wavewright.executor.store.entries import AppendEntry

JOB = "version: 1\nname: words\ngoal_template: word_ranking\n"
GOOD = f"{JOB}inputs: {{folder: notes, top: 5}}\nplan: plans/words.plan.yaml\n"
PRICES = "date,close\n2024-11-27,10\n2024-11-28,11\n2024-11-29,12\n"
DOCUMENTED = (1, 2, 3)


def stocks_job(prices: str = "prices") -> str:
    return (
        "version: 1\nname: stocks\ngoal_template: stock_analysis\nas_of: 2024-12-02\n"
        f"variables: [{{code: ALFA}}]\ntools: {{equities: {{prices: {prices}}}}}\n"
    )


def assert_told(answer: Answer) -> None:
    told = answer.out + answer.err
    assert answer.code in DOCUMENTED
    assert "Traceback" not in told
    assert "fault of wavewright" not in told


@pytest.mark.parametrize(
    ("content", "command"),
    [
        pytest.param("goal: [1, 2\nsteps: }\n", "check", id="broken_yaml"),
        pytest.param("a: &a [1, 1]\nb: &b [*a, *a]\nsteps: *b\n", "check", id="alias_bomb"),
        pytest.param("steps: !!python/object:os.system {}\n", "check", id="tag"),
        pytest.param("goal: a\ngoal: b\nsteps: []\n", "check", id="duplicate_key"),
        pytest.param("", "check", id="empty_file"),
        pytest.param("goal: [1, 2\nsteps: }\n", "run", id="broken_yaml_of_a_run"),
        pytest.param("steps: nothing\ninputs: [1]\n", "run", id="wrong_types"),
        pytest.param(
            "steps:\n  - {id: a, tol: list_notes, params: {}}\n",
            "run",
            id="unknown_field_of_a_step",
        ),
        pytest.param(
            "version: 1\nname: words\ngoal_templat: word_ranking\nplan: 3\n",
            "run",
            id="unknown_field_of_a_job",
        ),
        pytest.param("version: 1\nname: words\n", "run", id="neither_template_nor_plan"),
        pytest.param(JOB, "run", id="no_plan"),
        pytest.param(JOB, "check", id="no_plan_to_check"),
        pytest.param(JOB, "dry-run", id="no_plan_to_forecast"),
        pytest.param(f"{JOB}plan: plans/word.plan.yaml\n", "run", id="missing_plan_file"),
        pytest.param(f"{JOB}plan: plans\n", "run", id="folder_as_plan_file"),
        pytest.param(
            "version: 1\nname: words\ngoal_template: word_rankin\n", "run", id="unknown_template"
        ),
        pytest.param(
            "version: 1\nname: words\ngoal_template: goals/none.yaml\n",
            "run",
            id="missing_template_file",
        ),
        pytest.param(
            f"{JOB}plan:\n  steps:\n    - {{id: files, tool: list_notes, params: {{folde: notes}}}}\n",
            "run",
            id="unsound_plan_in_the_job",
        ),
        pytest.param(f"{GOOD}tools: {{equitis: {{}}}}\n", "run", id="unknown_pack"),
        pytest.param(
            stocks_job().replace("prices: prices", "prizes: prices"),
            "run",
            id="unknown_setting_of_a_pack",
        ),
        pytest.param(
            f"{GOOD}overrides: {{limits: {{max_step: 3}}}}\n", "run", id="unknown_override"
        ),
    ],
)
def test_a_faulty_file_is_told_at_its_place(
    wavewright: CommandLine, project: Path, snapshot: SnapshotAssertion, content: str, command: str
) -> None:
    (project / "given.yaml").write_text(content)

    answer = wavewright(command, "given.yaml")

    assert_told(answer)
    assert worded(answer, project) == snapshot


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("run", "plans/word.job.yaml"), id="unknown_file"),
        pytest.param(("check", "plans/word.job.yaml"), id="unknown_file_to_check"),
        pytest.param(("run", "plans"), id="folder"),
        pytest.param(("check", "plans"), id="folder_to_check"),
        pytest.param(
            ("check", "plans/words.plan.yaml", "--goal", "word_rankin"), id="unknown_goal"
        ),
        pytest.param(
            ("check", "plans/words.plan.yaml", "--tools", "none.json"), id="unknown_tools_file"
        ),
        pytest.param(
            ("run", "plans/words.job.yaml", "--plan", "none.yaml"), id="unknown_plan_option"
        ),
        pytest.param(
            ("run", "plans/words.job.yaml", "--as-of", "yesterday"), id="as_of_is_no_date"
        ),
        pytest.param(("run", "plans/words.job.yaml", "--concurrency", "0"), id="no_concurrency"),
        pytest.param(("run", "plans/words.job.yaml", "--schedule", "wave"), id="unknown_schedule"),
        pytest.param(("run", "plans/words.job.yaml", "--colour"), id="unknown_option"),
        pytest.param(("rum",), id="unknown_command"),
        pytest.param(("run",), id="missing_argument"),
        pytest.param(("schema", "plam"), id="unknown_schema"),
        pytest.param(("run", "\0"), id="impossible_name"),
    ],
)
def test_a_misused_command_says_what_it_takes(
    wavewright: CommandLine, project: Path, snapshot: SnapshotAssertion, arguments: tuple[str, ...]
) -> None:
    answer = wavewright(*arguments)

    assert answer.code == 2
    assert_told(answer)
    assert worded(answer, project) == snapshot


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("job.toml", 'version = 1\nname = "words\n', id="broken_toml"),
        pytest.param("job.json", '{"version": 1, "name": "words",}', id="broken_json"),
        pytest.param("job.yaml", b"version: 1\nname: caf\xe9\n", id="another_encoding"),
    ],
)
def test_a_file_that_is_no_document_is_told_at_its_place(
    wavewright: CommandLine,
    project: Path,
    snapshot: SnapshotAssertion,
    name: str,
    content: str | bytes,
) -> None:
    (project / name).write_bytes(content.encode() if isinstance(content, str) else content)

    answer = wavewright("run", name)

    assert answer.code == 2
    assert_told(answer)
    assert worded(answer, project) == snapshot


@pytest.mark.parametrize(
    ("path", "content"),
    [
        pytest.param("wavewright.yaml", "templates: 3\n", id="wrong_type_in_settings"),
        pytest.param("wavewright.yaml", "tool: [tools/notes.py]\n", id="unknown_setting"),
        pytest.param(
            "wavewright.yaml", "packs: {equitis: {}}\ntools: [tools/notes.py]\n", id="unknown_pack"
        ),
        pytest.param("wavewright.yaml", "tools: [tools/none.py]\n", id="missing_tool_module"),
        pytest.param(
            "wavewright.yaml", "templates: [config/goals]\n", id="template_without_its_tools"
        ),
        pytest.param(
            "wavewright.yaml",
            "tools: [{path: tools/notes.py, functions: {list_note: {}}}]\n",
            id="missing_function",
        ),
        pytest.param(
            "tools/notes.py", "raise RuntimeError('the database is down')\n", id="import_raises"
        ),
        pytest.param("tools/notes.py", "import sys\nsys.exit(3)\n", id="import_exits"),
        pytest.param("tools/notes.py", "def list_notes(:\n", id="syntax_error"),
        pytest.param("tools/notes.py", "import no_such_module\n", id="import_of_nothing"),
        pytest.param(
            "config/goals/word_ranking.yaml",
            "version: 1\nname: word_ranking\ngoal: x\navailable_tools: [{name: list_notes}, {name: read_note}]\n",
            id="template_without_a_tool_of_the_plan",
        ),
        pytest.param(
            "config/goals/word_ranking.yaml",
            "version: 1\nname: word_ranking\ngoal: x\navailable_tools: [{name: list_notes}]\ngate: []\n",
            id="unknown_field_of_the_template",
        ),
    ],
)
def test_a_faulty_project_is_told_at_its_place(
    wavewright: CommandLine, project: Path, snapshot: SnapshotAssertion, path: str, content: str
) -> None:
    (project / path).write_text(content)

    answer = wavewright("run", "plans/words.job.yaml")

    assert_told(answer)
    assert worded(answer, project) == snapshot


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(None, "the folder has no price files", id="empty_folder"),
        pytest.param(
            PRICES.replace("close", "closing"), "no column of prices", id="missing_column"
        ),
        pytest.param(
            PRICES.replace("2024-11-28", "2024-11-27"),
            "2024-11-27 duplicate",
            id="duplicate_date",
        ),
        pytest.param(
            PRICES.encode().replace(b",11", b",1\xe91"), "'1é1' is no number", id="another_encoding"
        ),
        pytest.param("", "ALFA.csv", id="empty_file"),
    ],
)
def test_bad_prices_stop_the_analysis_and_the_outcome_says_what_mends_them(
    wavewright: CommandLine,
    project: Path,
    snapshot: SnapshotAssertion,
    content: str | bytes | None,
    told: str,
) -> None:
    (project / "prices").mkdir()
    (project / "stocks.yaml").write_text(stocks_job())
    if content is not None:
        raw = content.encode() if isinstance(content, str) else content
        (project / "prices" / "ALFA.csv").write_bytes(raw)

    answer = wavewright("run", "stocks.yaml")
    summary = answer.out.partition("\n\n")[0]

    assert answer.code == 1
    assert_told(answer)
    assert told in summary.replace("\n", " ")
    assert summary == snapshot


@pytest.mark.parametrize("command", ["runs", "doctor", "run"])
@pytest.mark.parametrize("kind", ["folder", "garbage", "other_database", "other_version"])
def test_a_journal_that_is_none_is_left_as_it_is(
    wavewright: CommandLine,
    project: Path,
    snapshot: SnapshotAssertion,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    command: str,
) -> None:
    journal = project / "journal.sqlite"
    monkeypatch.setenv("WAVEWRIGHT_JOURNAL", str(journal))
    _spoil(journal, kind, wavewright)
    before = journal.read_bytes() if journal.is_file() else None

    answer = wavewright(command, *(["plans/words.job.yaml"] if command == "run" else []))

    assert answer.code == (1 if command == "doctor" else 3)
    assert_told(answer)
    assert (journal.read_bytes() if journal.is_file() else None) == before
    if command == "runs":
        assert worded(answer, project) == snapshot


def _spoil(journal: Path, kind: str, wavewright: CommandLine) -> None:
    if kind == "folder":
        journal.mkdir()
    elif kind == "garbage":
        journal.write_bytes(b"these are no pages of a database" * 200)
    elif kind == "other_database":
        with sqlite3.connect(journal) as connection:
            connection.execute("CREATE TABLE friend (name TEXT)")
        connection.close()
    else:
        assert wavewright("run", "plans/words.job.yaml").code == 0
        connection = sqlite3.connect(journal)
        connection.execute("PRAGMA user_version = 99")
        connection.close()


def test_a_damaged_journal_names_the_event_and_keeps_the_other_runs(
    wavewright: CommandLine, project: Path
) -> None:
    wavewright("run", "plans/words.job.yaml")
    wavewright("run", "plans/words.job.yaml")
    journal = project / ".wavewright" / "journal.sqlite"
    connection = sqlite3.connect(journal)
    runs = [row[0] for row in connection.execute("SELECT run FROM run ORDER BY no")]
    connection.execute("DROP TRIGGER event_unchanged")
    connection.execute("UPDATE event SET body = body || ' ' WHERE run = 1 AND seq = 2")
    connection.commit()
    connection.close()

    damaged = wavewright("show", runs[0])
    whole = wavewright("show", runs[1])

    assert damaged.code == 3
    assert_told(damaged)
    assert runs[0] in damaged.err
    assert "= help: " in damaged.err
    assert whole.code == 0


@pytest.mark.parametrize(
    ("variable", "command"),
    [
        pytest.param("WAVEWRIGHT_STATE", "run", id="state"),
        pytest.param("WAVEWRIGHT_OUTPUT", "run", id="output"),
        pytest.param("WAVEWRIGHT_STATE", "doctor", id="state_for_the_doctor"),
    ],
)
def test_a_file_in_the_place_of_a_folder_is_told_before_anything_runs(
    wavewright: CommandLine,
    project: Path,
    snapshot: SnapshotAssertion,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    command: str,
) -> None:
    (project / "taken").write_text("here already\n")
    monkeypatch.setenv(variable, "taken")

    answer = wavewright(command, *(["plans/words.job.yaml"] if command == "run" else []))

    assert answer.code == (3 if command == "run" else 1)
    assert_told(answer)
    assert "wave 1" not in answer.err
    assert (project / "taken").read_text() == "here already\n"
    if command == "run":
        assert worded(answer, project) == snapshot


def test_an_environment_that_makes_no_sense_is_told_by_its_variable(
    wavewright: CommandLine,
    project: Path,
    snapshot: SnapshotAssertion,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WAVEWRIGHT_CONCURRENCY", "many")

    answer = wavewright("run", "plans/words.job.yaml")

    assert answer.code == 2
    assert worded(answer, project) == snapshot


def mount(folder: Path, options: str) -> None:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no command to mount a small disk with")
    if mounted.returncode != 0:
        pytest.skip("a small disk can be mounted by root alone")


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], check=False)


@pytest.fixture
def small_disk(project: Path) -> Iterator[Path]:
    """A disk with room for the journal, or for the package, and not for both."""
    folder = project / "small"
    folder.mkdir()
    mount(folder, "size=300k")
    yield folder
    unmount(folder)


def test_a_disk_that_is_full_for_the_package_loses_no_result(
    wavewright: CommandLine, project: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (small_disk / "ballast").write_bytes(bytes(290 * 1024))
    monkeypatch.setenv("WAVEWRIGHT_OUTPUT", str(small_disk))
    (project / "calls.txt").touch()

    full = wavewright("run", "plans/words.job.yaml")
    mend = full.err.rpartition("wavewright resume ")[2].split()[0]
    resumed = wavewright("resume", mend, "--output", project / "output")

    assert full.code == 3
    assert_told(full)
    assert "the disk is full" in full.err
    assert resumed.code == 0, resumed.err
    assert "resuming: 3 steps done before" in resumed.err
    assert list((project / "output").glob("*/package.json"))


def test_a_disk_that_is_full_for_the_journal_ends_the_run_and_does_not_hang(
    wavewright: CommandLine, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (small_disk / "ballast").write_bytes(bytes(240 * 1024))
    monkeypatch.setenv("WAVEWRIGHT_STATE", str(small_disk))

    answer = wavewright("run", "plans/words.job.yaml")

    assert answer.code == 3
    assert_told(answer)
    assert "the disk is full" in answer.err
    assert "= help: free some space" in answer.err


@pytest.mark.parametrize("variable", ["WAVEWRIGHT_STATE", "WAVEWRIGHT_OUTPUT"])
def test_a_read_only_disk_is_told_before_anything_runs(
    wavewright: CommandLine, small_disk: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, str(small_disk))
    remounted = subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=False)
    assert remounted.returncode == 0

    answer = wavewright("run", "plans/words.job.yaml")

    assert answer.code == 3
    assert_told(answer)
    assert "ead-only" in answer.err
    assert "wave 1" not in answer.err


@pytest.fixture
def read_only_journal(
    wavewright: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """The journal of a run on a disk that is read-only, beside a copy with a log that is not in it."""
    folder = project / "archive"
    folder.mkdir()
    mount(folder, "size=8m")
    journal = folder / "journal.sqlite"
    monkeypatch.setenv("WAVEWRIGHT_JOURNAL", str(journal))
    assert wavewright("run", "plans/words.job.yaml").code == 0
    with closing(sqlite3.connect(journal)) as writing:
        writing.execute("CREATE TABLE newer (id INTEGER)")
        for name in ("journal.sqlite", "journal.sqlite-wal"):
            shutil.copy(folder / name, folder / f"cut-{name}")
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    yield journal
    unmount(folder)


@pytest.mark.parametrize("command", ["runs", "show", "logs", "verify", "receipt", "decisions"])
def test_a_journal_that_can_only_be_read_is_shown(
    wavewright: CommandLine, read_only_journal: Path, command: str
) -> None:
    answer = wavewright(command)

    assert read_only_journal.exists()
    assert (answer.code, answer.err) == (0, "")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("run", "plans/words.job.yaml"), 3),
        (("retry",), 3),
        (("runs", "prune", "--keep", "0"), 3),
        (("doctor",), 1),
    ],
)
def test_a_journal_that_can_only_be_read_is_not_written(
    wavewright: CommandLine, read_only_journal: Path, command: Sequence[str], code: int
) -> None:
    answer = wavewright(*command)

    assert_told(answer)
    assert answer.code == code
    assert "read-only" in answer.out + answer.err
    assert str(read_only_journal) in answer.out + answer.err
    assert "wave 1" not in answer.err


def test_a_daemon_does_not_start_on_a_journal_that_can_only_be_read(
    project: Path, read_only_journal: Path
) -> None:
    command = [sys.executable, "-m", "wavewright.engine.main", "serve"]
    refused = subprocess.run(
        command, cwd=project, capture_output=True, text=True, check=False, timeout=30
    )

    assert refused.returncode == 2
    assert "the journal can only be read" in refused.stderr
    assert str(read_only_journal) in refused.stderr


def test_a_log_that_cannot_be_read_with_its_journal_is_told_with_the_way_to_read_it(
    wavewright: CommandLine, read_only_journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = read_only_journal.with_name("cut-journal.sqlite")
    monkeypatch.setenv("WAVEWRIGHT_JOURNAL", str(journal))

    answer = wavewright("runs")

    assert answer.code == 3
    assert f"({journal.name}-wal)" in answer.err
    assert "= help: copy both to a folder that can be written" in answer.err


@pytest.mark.parametrize("arguments", [("check", "-"), ("run", "plans/words.job.yaml"), ("tools",)])
def test_ctrl_c_while_something_is_read_ends_the_command_at_once(
    project: Path, arguments: tuple[str, ...]
) -> None:
    # What is read is a pipe that says nothing, or a module that hangs in its import.
    (project / "tools" / "notes.py").write_text(
        "import sys, time\nprint('importing', file=sys.stderr, flush=True)\ntime.sleep(60)\n"
    )
    command = [sys.executable, "-c", _SAYING_WHEN_READING, *arguments]
    running = subprocess.Popen(
        command,
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    assert running.stderr.readline() in ("reading\n", "importing\n")

    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=30)

    assert running.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in out + err


_SAYING_WHEN_READING = """
import sys
from wavewright.engine.main import run_process
class Pipe:
    def read(self):
        print("reading", file=sys.stderr, flush=True)
        return sys.__stdin__.buffer.read()
class Standard:
    buffer = Pipe()
    isatty = sys.__stdin__.isatty
sys.stdin = Standard()
run_process()
"""


def test_a_reader_that_goes_away_stops_no_run(project: Path) -> None:
    running = subprocess.Popen(
        [sys.executable, "-m", "wavewright.engine.main", "run", "plans/words.job.yaml", "--json"],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdout is not None
    running.stdout.close()
    running.stdout = None
    _, told = running.communicate(timeout=30)

    assert running.returncode == 0
    assert told == b""
    assert list((project / ".wavewright" / "runs").glob("*/package.json"))


@pytest.mark.parametrize("arguments", [["schema", "plan"], ["--version"]], ids=" ".join)
def test_output_that_cannot_be_written_is_told(project: Path, arguments: list[str]) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no device that is always full")
    with full.open("w") as stream:
        ran = subprocess.run(
            [sys.executable, "-m", "wavewright.engine.main", *arguments],
            cwd=project,
            stdout=stream,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert ran.returncode == 3
    assert ran.stderr == "error: the output cannot be written: No space left on device\n"


def test_a_name_that_is_no_text_is_written_as_well_as_can_be(project: Path) -> None:
    name = os.fsencode(project) + b"/caf\xe9.yaml"
    ran = subprocess.run(
        [sys.executable, "-m", "wavewright.engine.main", "check", name],
        cwd=project,
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
    )

    assert ran.returncode == 2
    assert b"there is no file" in ran.stderr
    assert b"Traceback" not in ran.stderr


def test_a_fault_of_the_journals_writer_reaches_the_user(
    wavewright: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = SqliteEventStore.write

    def fail_later(
        self: SqliteEventStore, entries: Sequence[AppendEntry], *, may_wait: bool = True
    ) -> object:
        if any(row.kind == "step_finished" for entry in entries for row in entry.rows):
            raise RuntimeError("the writer has broken down")
        return written(self, entries, may_wait=may_wait)

    monkeypatch.setattr(SqliteEventStore, "write", fail_later)

    answer = wavewright("run", "plans/words.job.yaml")

    assert project.is_dir()
    assert answer.code in (3, 70)
    assert "the writer has broken down" in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "absent.yaml"),
        ("check", "."),
        ("check", "plans/words.plan.yaml", "--set", "a"),
        ("check", "plans/words.plan.yaml", "--goal", "absent"),
        ("check", "--unknown"),
        ("dry-run", "absent.yaml"),
        ("plan", "absent.yaml"),
        ("runs", "--since", "some day"),
        ("show", "absent"),
        ("logs", "absent"),
        ("replay", "absent"),
        ("verify", "absent"),
        ("decisions", "absent"),
        ("diff", "a", "b"),
    ],
)
def test_a_command_that_fails_says_so_in_json_where_that_is_asked_for(
    arguments: Sequence[str], wavewright: CommandLine, project: Path
) -> None:
    answer = wavewright(*arguments, "--format", "json")

    (fault,) = json.loads(answer.out)["diagnostics"]
    assert (answer.code, fault["severity"]) == (2, "error")
    assert fault["message"] in answer.err
    assert {"code", "file", "line", "hint"} <= fault.keys()


@pytest.mark.parametrize(
    "settings", ["tools: [absent_module]\n", "tols: 3\n"], ids=["no module", "no field"]
)
@pytest.mark.parametrize("command", ["check", "dry-run"])
def test_faulty_settings_are_told_in_json(
    settings: str, command: str, wavewright: CommandLine, project: Path
) -> None:
    (project / "wavewright.yaml").write_text(settings)

    answer = wavewright(command, "plans/words.plan.yaml", "-f", "json")

    (fault,) = json.loads(answer.out)["diagnostics"]
    assert (answer.code, fault["severity"]) == (2, "error")


def test_of_several_files_those_that_can_be_read_are_told_too(
    wavewright: CommandLine, project: Path
) -> None:
    answer = wavewright("check", "absent.yaml", "plans/words.plan.yaml", "--format=json")

    absent, words = json.loads(answer.out)["files"]
    assert (answer.code, absent["diagnostics"][0]["code"]) == (2, "E125")
    assert (words["plan"] is not None, words["diagnostics"]) == (True, [])
