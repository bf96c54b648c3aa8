"""`wavewright doctor`: what works here and how to fix the rest."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.engine.conftest import CommandLine
from tests.engine.normalized_output import worded
from wavewright.engine.interfaces.cli.project import doctor_command
from wavewright.engine.rehearsal.fake_model.replies import AnswerLike, denied, failing, filtered
from wavewright.engine.rehearsal.fake_model.server import API_KEY, FakeModelServer


def findings(wavewright: CommandLine) -> tuple[int, dict[str, dict[str, str]]]:
    answer = wavewright("doctor", "--format", "json")
    return answer.code, {finding["subject"]: finding for finding in json.loads(answer.out)}


def test_a_new_project_is_well(wavewright: CommandLine, project: Path) -> None:
    code, found = findings(wavewright)

    assert code == 0
    assert found["settings"]["detail"] == str(project / "wavewright.yaml")
    assert found["journal"]["detail"].endswith("(none yet; the first run creates it)")
    assert "list_notes" in found["tools"]["detail"]
    assert found["templates"]["detail"] == "word_ranking"
    assert "fetch_stock_data" not in found["tools"]["detail"]
    assert found["packs"]["detail"].startswith("none used (also installed: equities, ")
    assert found["model"]["state"] == "note"
    assert not (project / ".wavewright").exists()


def test_packs_that_the_settings_configure_are_used(wavewright: CommandLine, project: Path) -> None:
    (project / "wavewright.yaml").write_text("packs: {equities: {prices: vega_datasets}}\n")

    _, found = findings(wavewright)

    assert found["packs"]["detail"].startswith("equities (also installed: knowledge, ")
    assert found["templates"]["detail"] == "stock_analysis, word_ranking"
    assert "fetch_stock_data" in found["tools"]["detail"]


def test_an_empty_folder_is_well(wavewright: CommandLine, tmp_path: Path) -> None:
    code, found = findings(wavewright)

    assert code == 0
    assert found["settings"]["detail"].startswith("defaults")
    assert not list(tmp_path.iterdir())


def test_runs_are_counted(wavewright: CommandLine, project: Path) -> None:
    wavewright("run", "plans/words.job.yaml")

    assert project.is_dir()
    assert findings(wavewright)[1]["journal"]["detail"].endswith("(1 run)")


@pytest.mark.parametrize(
    ("path", "content", "subject"),
    [
        ("wavewright.yaml", "tool: []\n", "settings"),
        ("wavewright.yaml", "packs: {equitis: {}}\n", "tools"),
        ("wavewright.yaml", "packs: {equities: {prizes: here}}\n", "tools"),
        ("tools/notes.py", "raise RuntimeError('no database')\n", "tools"),
        ("wavewright.yaml", "daemon: {pack: equitis}\n", "settings"),
        (".wavewright", "a file\n", "journal"),
    ],
)
def test_a_fault_exits_1_and_names_the_fix(
    wavewright: CommandLine, project: Path, path: str, content: str, subject: str
) -> None:
    (project / path).write_text(content)

    code, found = findings(wavewright)

    assert code == 1
    assert found[subject]["state"] == "fault"
    assert found[subject]["hint"]


@pytest.mark.parametrize("has_run", [False, True])
def test_a_full_disk_is_a_fault_of_the_journal(
    wavewright: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch, *, has_run: bool
) -> None:
    if has_run:
        assert wavewright("run", "plans/words.job.yaml").code == 0

    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(doctor_command, "TemporaryFile", full)
    code, found = findings(wavewright)

    assert code == 1
    assert found["journal"]["state"] == "fault"
    assert str(project / ".wavewright" / "journal.sqlite") in found["journal"]["detail"]
    assert "No space left on device" in found["journal"]["detail"]


def test_a_faulty_file_hides_no_other_tool(wavewright: CommandLine, project: Path) -> None:
    file = project / "config" / "workers" / "torn.yaml"
    file.parent.mkdir()
    file.write_text("name: torn\n")
    with (project / "wavewright.yaml").open("a") as settings:
        settings.write("packs: {equities: {prizes: here}}\n")

    answer, listed = wavewright("doctor"), wavewright("tools")

    assert answer.code == 1
    assert re.search(r"^fault tools .*torn\.yaml:1: ", answer.out, re.MULTILINE)
    assert re.search(r"^fault tools .*prizes", answer.out, re.MULTILINE)
    assert re.search(r"^ok    tools .*read_note", answer.out, re.MULTILINE)
    assert listed.code == 2
    assert "torn.yaml:1: " in listed.err
    assert "read_note(path: string)" in listed.out


def test_a_misspelt_setting_is_told_with_its_line_and_the_word_that_was_meant(
    wavewright: CommandLine, project: Path
) -> None:
    (project / "wavewright.yaml").write_text("version: 1\nconcurency: 3\n")

    settings = findings(wavewright)[1]["settings"]

    assert settings["detail"].startswith(
        f"{project / 'wavewright.yaml'}:2: 'concurency' is no field"
    )
    assert settings["hint"] == "did you mean 'concurrency'?"


@pytest.mark.parametrize(
    "content", ["name: [\n", "version: 1\nname: torn\n"], ids=["no_yaml", "half"]
)
def test_a_faulty_template_leaves_the_sound_ones_on_the_list(
    wavewright: CommandLine, project: Path, content: str
) -> None:
    (project / "config" / "goals" / "torn.yaml").write_text(content)

    answer = wavewright("doctor")

    assert answer.code == 1
    assert any(
        line.startswith("fault templates") and "torn.yaml:" in line
        for line in answer.out.splitlines()
    )
    assert re.search(r"^ok    templates   word_ranking$", answer.out, re.MULTILINE)


def test_the_text_is_a_line_a_finding(wavewright: CommandLine, project: Path) -> None:
    (project / "tools" / "notes.py").write_text("import no_such_module\n")

    answer = wavewright("doctor")
    lines = answer.out.splitlines()

    assert answer.code == 1
    assert lines[0].startswith("ok    version     wavewright ")
    assert any(line.startswith("fault tools       ") for line in lines)
    assert any(line.strip().startswith("= help: ") for line in lines)


def use(model_server: FakeModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a server the model of every role."""
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)


def lines_about_models(out: str) -> str:
    lines = [
        line
        for line in out.splitlines()
        if line[6:12].strip() in ("model", "answer", "budget", "casset")
    ]
    return "\n".join(lines)


def all_of(wavewright: CommandLine, subject: str, *options: str) -> list[dict[str, str]]:
    listed = json.loads(wavewright("doctor", "--format", "json", *options).out)
    return [finding for finding in listed if finding["subject"] == subject]


def test_a_model_is_named_with_the_reason_asked_once_and_its_cost_shown(
    wavewright: CommandLine,
    project: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
    snapshot: SnapshotAssertion,
) -> None:
    use(model_server, monkeypatch)
    model_server.answer("ready")

    answer = wavewright("doctor")

    assert answer.code == 0
    assert lines_about_models(worded(answer, project)) == snapshot
    assert len(model_server.requests) == 1
    assert API_KEY not in answer.out


def test_offline_asks_nobody(
    wavewright: CommandLine,
    project: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(model_server, monkeypatch)

    answer = wavewright("doctor", "--offline")

    assert project.is_dir()
    assert answer.code == 0
    assert "ok    model       openai-chat:scripted for every role" in answer.out
    assert model_server.requests == ()


def test_each_model_of_the_roles_is_asked_once(
    wavewright: CommandLine,
    project: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WAVEWRIGHT_API_KEY", API_KEY)
    with (project / "wavewright.yaml").open("a") as settings:
        settings.write(
            "model: openai-chat:small\n"
            f"models: {{base_url: '{model_server.openai_url}', roles: {{planner: 'openai-chat:large'}}}}\n"
        )
    model_server.answer("ready")

    chosen = all_of(wavewright, "model")

    assert sorted(request.model for request in model_server.requests) == ["large", "small"]
    assert [finding["detail"].split(":")[:2] for finding in chosen] == [
        ["openai-chat", "large for planner"],
        ["openai-chat", "small for recovery, reviewer, judge, agent, worker"],
    ]


@pytest.mark.parametrize(
    "answered",
    [
        pytest.param(denied(401), id="a wrong key"),
        pytest.param(failing(500), id="a broken server"),
        pytest.param(filtered(), id="a content filter"),
    ],
)
def test_a_model_that_gives_no_answer_is_a_fault(
    wavewright: CommandLine,
    project: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
    answered: AnswerLike,
) -> None:
    use(model_server, monkeypatch)
    with (project / "wavewright.yaml").open("a") as settings:
        settings.write("models: {attempts: 1}\n")
    model_server.answer(answered)

    [found] = all_of(wavewright, "answer")

    assert found["state"] == "fault"
    assert found["detail"].startswith("openai-chat:scripted gave no answer: ")
    assert found["hint"]
    assert API_KEY not in str(found)


def test_a_fallback_that_answered_instead_is_named(
    wavewright: CommandLine,
    project: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WAVEWRIGHT_API_KEY", API_KEY)
    with (project / "wavewright.yaml").open("a") as settings:
        settings.write(
            "model: openai-chat:small\n"
            f"models: {{base_url: '{model_server.openai_url}', attempts: 1, fallbacks: ['openai-chat:spare']}}\n"
        )
    model_server.answer(failing(500), when=lambda request: request.model == "small")
    model_server.answer("ready")

    [found] = all_of(wavewright, "answer")

    assert found["state"] == "note"
    assert "openai-chat:spare answered" in found["detail"]
    assert "openai-chat:small gave no answer" in found["detail"]


@pytest.mark.parametrize(
    ("settings", "variables", "words", "hint"),
    [
        pytest.param(
            "model: gpt-5\n", {}, "the provider is missing", "openai:gpt-5", id="no provider"
        ),
        pytest.param(
            "model: opnai:gpt-5\n", {}, "unknown provider", "openai", id="unknown provider"
        ),
        pytest.param("model: openai:gpt-5\n", {}, "no key", "OPENAI_API_KEY", id="no key"),
        pytest.param(
            "model: ollama:small\nmodels: {roles: {planner: prow}}\n",
            {},
            "'prow'",
            "pro",
            id="preference",
        ),
        pytest.param(
            "model: ollama:small\nmodels: {thinking: {low: lots}}\n",
            {},
            "'lots'",
            "high",
            id="thinking",
        ),
        pytest.param(
            "", {"WAVEWRIGHT_MODEL": "gpt-5"}, "the provider is missing", "gpt-5", id="variable"
        ),
    ],
)
def test_a_faulty_name_or_a_missing_key_is_reported_with_its_fix(
    wavewright: CommandLine,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: str,
    variables: dict[str, str],
    words: str,
    hint: str,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with (project / "wavewright.yaml").open("a") as file:
        file.write(settings)

    [found] = all_of(wavewright, "model", "--offline")

    assert found["state"] == "fault"
    assert words in found["detail"]
    assert hint in found["hint"]


def test_what_is_left_of_the_budgets_is_shown(
    wavewright: CommandLine,
    project: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(model_server, monkeypatch)
    with (project / "wavewright.yaml").open("a") as settings:
        settings.write(
            "models: {prices: {scripted: {input: 1000, output: 1000}}}\n"
            "budgets: {run: {tokens: 5000}, day: {tokens: 100000, usd: 1000}}\n"
        )
    wavewright("run", "plans/words.job.yaml")
    before = all_of(wavewright, "budgets", "--offline")[0]["detail"]
    model_server.answer("ready")
    wavewright("doctor")
    after = all_of(wavewright, "budgets", "--offline")[0]["detail"]

    assert before.startswith("run: 5,000 tokens; day: ")
    assert "of 100,000 tokens left" in before
    assert "of 1,000.0000 USD left" in before
    assert before != after


def test_a_cassette_is_named_as_one_and_nobody_is_asked(
    wavewright: CommandLine,
    project: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(model_server, monkeypatch)
    model_server.answer("ready")
    monkeypatch.setenv("WAVEWRIGHT_CASSETTE", "answers.json")
    missing = all_of(wavewright, "cassette")
    monkeypatch.setenv("WAVEWRIGHT_CASSETTE_MODE", "record")
    recording = all_of(wavewright, "cassette")

    assert missing[0]["state"] == "fault"
    assert "WAVEWRIGHT_CASSETTE_MODE=record" in missing[0]["hint"]
    assert recording[0]["detail"].endswith("answers.json: missing answers are asked and recorded")
    assert len(model_server.requests) == 1
    assert (
        not (project / "answers.json").exists()
        or "ready" not in (project / "answers.json").read_text()
    )


def test_a_projects_own_prompts_are_listed_and_faulty_ones_found(
    wavewright: CommandLine, project: Path
) -> None:
    (project / "prompts" / "planner" / "request.md.j2").write_text("one\n{% if %}\n")
    (project / "prompts" / "planner" / "repairs.md.j2").write_text("never asked for\n")

    faulty, own, unused = all_of(wavewright, "prompts")

    assert faulty["state"] == "fault"
    assert "request.md.j2:2:" in faulty["detail"]
    assert own["detail"] == "planner/instructions of this project"
    assert unused["state"] == "note"
    assert unused["hint"] == "did you mean 'planner/repair'?"


def test_a_ladder_with_an_unknown_rung_is_found(wavewright: CommandLine, project: Path) -> None:
    with (project / "wavewright.yaml").open("a") as settings:
        settings.write("ladders: {planner: [{name: lmm}]}\n")

    [found] = all_of(wavewright, "ladders")

    assert found["state"] == "fault"
    assert "llm" in found["hint"]


def test_a_key_that_was_written_into_the_settings_is_not_shown(
    wavewright: CommandLine, project: Path
) -> None:
    key = "sk-proj-4f9a7c21e0b84d5a9c3e7f1b2d6a8c0e"
    with (project / "wavewright.yaml").open("a") as settings:
        settings.write(f"models: {{api_key: {key}}}\n")

    doctor, run = wavewright("doctor"), wavewright("run", "plans/words.job.yaml")

    assert (doctor.code, run.code) == (1, 2)
    assert "api_key" in doctor.out
    assert "api_key" in run.err
    assert key not in doctor.out + run.out + run.err


@pytest.mark.parametrize(
    "settings",
    [
        "mcp: {servers: {a: {url: 'https://ann:hunter2@mcp.example/'}}}",
        "notify: {ops: {on: [run_failed], webhook: 'https://ann:hunter2@ops.example/'}}",
        "api_key: hunter2",
    ],
)
def test_a_secret_in_the_settings_is_told_of_and_not_shown(
    wavewright: CommandLine, project: Path, settings: str
) -> None:
    (project / "wavewright.yaml").write_text(f"{settings}\n")

    printed = [wavewright("doctor"), wavewright("check", "wavewright.yaml"), wavewright("runs")]

    assert all(answer.code for answer in printed)
    assert "hunter2" not in "".join(answer.out + answer.err for answer in printed)


def test_names_in_the_settings_that_stand_for_nothing_are_faults(
    wavewright: CommandLine, project: Path
) -> None:
    (project / "wavewright.yaml").write_text(
        "models: {providers: {antropic: {requests_per_minute: 3}}}\n"
        "schedules: {nightly: {job: nowhere.job.yaml, cron: '0 3 * * *'}}\n"
    )

    code, found = findings(wavewright)
    checked = wavewright("check", "wavewright.yaml")

    assert code == checked.code == 1
    assert found["model"]["hint"] == "did you mean 'anthropic'?"
    assert "'nightly' begins nothing: there is no file" in found["schedule"]["detail"]
    assert "models.providers.antropic: there is no provider 'antropic'" in checked.out


@pytest.mark.parametrize(
    ("section", "subject", "detail"),
    [
        (
            "daemon: {goal_template: nowhere}",
            "daemon",
            "there is no goal template and no file 'nowhere'",
        ),
        (
            "daemon: {standing: {start: Westfall}}",
            "daemon",
            "a standing job needs a goal template",
        ),
        (
            "daemon: {identities: {ui: {may_send: [job_requests]}}}",
            "daemon",
            "'job_requests' is not a message type that the daemon reads",
        ),
        ("fleet: {tools: [read_note]}", "fleet", "a fleet needs a journal in PostgreSQL"),
        ("runtime: nowhere:open", "runtime", "there is no module 'nowhere'"),
        (
            "notify: {oncall: {on: [run_failed], webhook: '${env:NOBODY_SETS_THIS}'}}",
            "notify",
            "rule 'oncall': the variable NOBODY_SETS_THIS is not set",
        ),
        ("receipts: {private_key: gone.pem}", "receipts", "gone.pem cannot be used"),
        ("receipts: {public_key: wavewright.yaml}", "receipts", "it is no public key in PEM"),
    ],
)
def test_what_would_fail_only_when_it_is_used_is_a_fault(
    wavewright: CommandLine, project: Path, section: str, subject: str, detail: str
) -> None:
    (project / "wavewright.yaml").write_text(f"tools: [tools/notes.py]\n{section}\n")

    code, found = findings(wavewright)

    assert code == 1
    assert found[subject]["state"] == "fault"
    assert detail in found[subject]["detail"]
    assert found[subject]["hint"]


@pytest.mark.parametrize(
    ("section", "place", "message"),
    [
        ("model: opnai:gpt-6", "2:8", "'opnai:gpt-6' names an unknown provider, 'opnai'"),
        ("model: gpt-6", "2:8", "'gpt-6' is no model name: the provider is missing"),
        ("fleet: {tools: ['*', read_notes]}", "2:22", "fleet.tools: there is no tool 'read_notes'"),
        ("daemon: {goal_template: nowhere}", "2:25", "there is no goal template"),
        ("daemon: {standing: {start: a}}", "2:20", "a standing job needs a goal template"),
        ("daemon: {pack: nowhere}", "2:9", "daemon.pack: no pack is called 'nowhere'"),
        (
            "daemon: {identities: {ui: {may_send: [job_requests]}}}",
            "2:38",
            "'job_requests' is not a message type",
        ),
    ],
)
def test_a_name_in_the_settings_that_stands_for_nothing_is_shown_at_its_place(
    wavewright: CommandLine, project: Path, section: str, place: str, message: str
) -> None:
    (project / "wavewright.yaml").write_text(f"tools: [tools/notes.py]\n{section}\n")

    checked = wavewright("check", "wavewright.yaml")

    assert checked.code == 1
    assert message in checked.out
    assert f"wavewright.yaml:{place}" in checked.out
