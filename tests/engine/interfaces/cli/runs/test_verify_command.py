"""`wavewright verify` and `receipt`: what was done to a journal is seen, and who has a receipt needs
no journal.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from tests.engine.conftest import CommandLine
from wavewright.engine.interfaces.cli.common.terminal import local_user
from wavewright.planner.types import JsonObject

PLAN = """\
steps:
  - {id: list, tool: list_notes, params: {folder: notes}, needs_approval: true}
"""


@pytest.fixture
def run(wavewright: CommandLine, project: Path) -> str:
    """The id of a run of one step that was approved."""
    (project / "plan.yaml").write_text(PLAN, encoding="utf-8")
    assert wavewright("run", "plan.yaml", "--approve", "always").code == 0
    return _newest(wavewright)


@pytest.fixture
def keys(project: Path) -> tuple[Path, Path]:
    """Files of a private key and its public one."""
    return _write_keys(project, "receipts")


def _write_keys(folder: Path, name: str) -> tuple[Path, Path]:
    key = Ed25519PrivateKey.generate()
    private, public = folder / f"{name}.pem", folder / f"{name}.pub.pem"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public


def _newest(wavewright: CommandLine) -> str:
    return str(json.loads(wavewright("runs", "--format", "json").out)[0]["run"])


def _change(project: Path, statement: str) -> None:
    with closing(sqlite3.connect(project / ".wavewright" / "journal.sqlite")) as connection:
        connection.execute("DROP TRIGGER event_unchanged")
        connection.execute("DROP TRIGGER event_kept")
        connection.execute(statement)
        connection.commit()


def test_an_untouched_run_is_intact(wavewright: CommandLine, run: str) -> None:
    answer = wavewright("verify")

    assert answer.code == 0
    assert answer.out.startswith(f"run {run}: intact, ")


def test_a_changed_event_is_named(wavewright: CommandLine, project: Path, run: str) -> None:
    _change(project, "UPDATE event SET body = replace(body, 'notes', 'other') WHERE seq = 2")

    answer = wavewright("verify", run)
    as_json = json.loads(wavewright("verify", run, "--format", "json").out)

    assert (answer.code, answer.out) == (
        1,
        f"run {run}: changed at event 2: its text is not what was written\n",
    )
    assert (as_json["verdict"], as_json["event"], as_json["kind"]) == ("changed", 2, "text")


def test_a_cut_is_told(wavewright: CommandLine, project: Path, run: str) -> None:
    _change(project, "DELETE FROM event WHERE seq >= 3")

    answer = wavewright("verify", run)

    assert (answer.code, answer.out) == (
        1,
        f"run {run}: cut at event 3: it and all after it are missing\n",
    )


def test_the_package_names_the_head_and_shows_a_journal_that_was_written_anew(
    wavewright: CommandLine, project: Path, run: str
) -> None:
    file = project / ".wavewright" / "runs" / run / "package.json"
    package = json.loads(file.read_bytes())
    intact = wavewright("verify", str(file))
    package["journal_head"]["hash"] = "0" * 64
    file.write_text(json.dumps(package), encoding="utf-8")

    changed = wavewright("verify", run)

    assert intact.code == 0
    assert changed.code == 1
    assert changed.out.endswith("(compared with its package)\n")


def test_a_receipt_says_what_ran_and_who_agreed(
    wavewright: CommandLine, project: Path, run: str
) -> None:
    receipt = json.loads(wavewright("receipt").out)
    package = json.loads((project / ".wavewright" / "runs" / run / "package.json").read_bytes())

    assert receipt["run"] == run
    assert receipt["status"] == "achieved"
    assert receipt["plans"] == [package["plan_hash"]]
    assert list(receipt["tools"]) == ["list_notes"]
    assert receipt["tools"]["list_notes"]["code"]
    [approval] = receipt["approvals"]
    assert (approval["approved"], approval["by"]) == (True, local_user())
    assert approval["binding"]["step"] == "list"
    assert approval["binding"]["params"].startswith("sha256:")
    assert receipt["signature"] is None


def test_a_receipt_shows_no_secret_of_what_was_permitted(
    wavewright: CommandLine, project: Path
) -> None:
    secret = "ghp_" + "synthetic1" * 4
    (project / "notes" / secret).mkdir()
    (project / "notes" / secret / "a.md").write_text("a\n")
    plan = PLAN.replace("folder: notes", f"folder: notes/{secret}")
    (project / "plan.yaml").write_text(plan, encoding="utf-8")
    assert wavewright("check", "--permits", "plan.yaml").code == 0
    assert wavewright("run", "plan.yaml", "--approve", "always").code == 0

    receipt = wavewright("receipt", "--out", "receipt.json")
    written = (project / "receipt.json").read_text()

    assert receipt.code == 0
    assert secret not in written
    assert json.loads(written)["permits"]["paths"] == {
        "notes/[redacted]": ["steps.list.params.folder"]
    }
    assert wavewright("verify", "receipt.json").code == 0


def test_a_signed_receipt_is_valid_where_there_is_no_journal(
    wavewright: CommandLine,
    tmp_path: Path,
    run: str,
    keys: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    private, public = keys
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    wavewright("receipt", run, "--key", str(private), "--out", str(elsewhere / "receipt.json"))
    monkeypatch.chdir(elsewhere)

    answer = wavewright("verify", "receipt.json", "--key", str(public))

    assert answer.code == 0
    assert answer.out.startswith(f"receipt of run {run}: signature valid")


def test_the_keys_of_the_settings_sign_and_check(
    wavewright: CommandLine, project: Path, run: str, keys: tuple[Path, Path]
) -> None:
    private, public = keys
    with (project / "wavewright.yaml").open("a", encoding="utf-8") as settings:
        settings.write(f"receipts: {{private_key: {private.name}, public_key: {public.name}}}\n")
    wavewright("receipt", run, "--out", "receipt.json")

    answer = wavewright("verify", "receipt.json", "--format", "json")

    assert answer.code == 0
    assert json.loads(answer.out)["receipt"] == {"run": run, "signature": "valid"}


@pytest.mark.parametrize(
    "change",
    [
        {"status": "failed"},
        {"plans": []},
        {"tools": {}},
        {"approvals": []},
        {"permits": {"models": ["other"]}},
        {"head": {"events": 1, "hash": "0" * 64}},
    ],
)
def test_a_receipt_that_was_changed_is_not_what_was_signed(
    wavewright: CommandLine,
    project: Path,
    run: str,
    keys: tuple[Path, Path],
    change: JsonObject,
) -> None:
    private, public = keys
    wavewright("receipt", run, "--key", str(private), "--out", "receipt.json")
    file = project / "receipt.json"
    file.write_text(json.dumps(json.loads(file.read_bytes()) | change), encoding="utf-8")

    answer = wavewright("verify", "receipt.json", "--key", str(public))

    assert answer.code == 1
    assert "signature not valid: the receipt is not what was signed" in answer.out


def test_a_receipt_of_another_key_is_refused(
    wavewright: CommandLine, project: Path, run: str, keys: tuple[Path, Path]
) -> None:
    _, other = _write_keys(project, "other")
    wavewright("receipt", run, "--key", str(keys[0]), "--out", "receipt.json")

    answer = wavewright("verify", "receipt.json", "--key", str(other))

    assert answer.code == 1
    assert "signed with another key" in answer.out


def test_a_receipt_shows_a_journal_that_was_changed_after_it(
    wavewright: CommandLine, project: Path, run: str, keys: tuple[Path, Path]
) -> None:
    private, public = keys
    wavewright("receipt", run, "--key", str(private), "--out", "receipt.json")
    _change(project, "DELETE FROM event WHERE seq >= 3")

    answer = wavewright("verify", "receipt.json", "--key", str(public))

    assert answer.code == 1
    assert answer.out.endswith(f"run {run}: cut at event 3: it and all after it are missing\n")


def test_a_receipt_whose_signature_was_removed_fails_where_a_key_is_named(
    wavewright: CommandLine, project: Path, run: str, keys: tuple[Path, Path]
) -> None:
    private, public = keys
    wavewright("receipt", run, "--out", "receipt.json", "--key", str(private))
    receipt = json.loads((project / "receipt.json").read_text())
    (project / "receipt.json").write_text(json.dumps({**receipt, "signature": None}))

    assert wavewright("verify", "receipt.json", "--key", str(public)).code == 1


def test_a_receipt_without_a_signature_is_held_against_the_journal(
    wavewright: CommandLine, project: Path, run: str
) -> None:
    assert wavewright("receipt", run, "--out", "receipt.json").code == 0
    as_written = wavewright("verify", "receipt.json")
    receipt = json.loads((project / "receipt.json").read_text())
    (project / "receipt.json").write_text(json.dumps({**receipt, "status": "failed", "job": "x"}))

    changed = wavewright("verify", "receipt.json")

    assert as_written.code == 0, as_written.out
    assert changed.code == 1
    assert "the journal says something else of its job, status" in changed.out


def test_a_receipt_agrees_with_the_journal_after_its_run_was_removed(
    wavewright: CommandLine, run: str, keys: tuple[Path, Path]
) -> None:
    private, public = keys
    wavewright("receipt", run, "--key", str(private), "--out", "receipt.json")
    wavewright("runs", "prune", "--keep", "0")

    answer = wavewright("verify", "receipt.json", "--key", str(public))

    assert answer.code == 0
    assert f"run {run}: removed " in answer.out


def test_no_receipt_is_made_of_a_run_that_was_changed(
    wavewright: CommandLine, project: Path, run: str
) -> None:
    _change(project, "UPDATE event SET body = replace(body, 'notes', 'other') WHERE seq = 2")

    answer = wavewright("receipt", run)

    assert answer.code == 2
    assert "changed at event 2" in answer.err


@pytest.mark.parametrize("content", ["", "not a key", "-----BEGIN PRIVATE KEY-----\n"])
def test_a_file_that_is_no_key_is_told(
    wavewright: CommandLine, project: Path, run: str, content: str
) -> None:
    (project / "key.pem").write_text(content, encoding="utf-8")

    answer = wavewright("receipt", run, "--key", "key.pem")

    assert answer.code == 2
    assert "the key key.pem cannot be used" in answer.err


def test_of_a_removed_run_an_unsigned_receipt_shows_nothing(
    wavewright: CommandLine, project: Path, run: str, keys: tuple[Path, Path]
) -> None:
    private, public = keys
    wavewright("receipt", run, "--out", "unsigned.json")
    wavewright("receipt", run, "--key", str(private), "--out", "signed.json")
    receipt = json.loads((project / "unsigned.json").read_text())
    changes: dict[str, JsonObject] = {
        "status": {"status": "failed"},
        "longer": {"head": {**receipt["head"], "events": 99}},
    }
    for name, change in changes.items():
        (project / f"{name}.json").write_text(json.dumps({**receipt, **change}))
    assert wavewright("runs", "prune", "--keep", "0").code == 0

    assert wavewright("verify", "signed.json", "--key", str(public)).code == 0
    assert wavewright("verify", "unsigned.json").code == 1
    assert wavewright("verify", "status.json").code == 1
    assert f"cut at event {receipt['head']['events']}" in wavewright("verify", "longer.json").out
    assert wavewright("verify", run).code == 0
