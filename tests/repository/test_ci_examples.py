"""Hooks, the action and the workflow that the documentation gives away: each is read, and its
commands are run.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from tests.docs.blocks import blocks
from tests.repository.tree import ROOT
from tests.support.prepared_command import run_prepared
from wavewright.config import read_document

PAGE = ROOT / "docs" / "how-to" / "run-in-ci.md"
ACTION = ROOT / "docs" / "actions" / "check-plans" / "action.yml"
Hook = dict[str, Any]


def titled(title: str) -> str:
    """Return a block of the page by the file it is to be saved as."""
    return next(
        block.text for block in blocks(PAGE.read_text(encoding="utf-8")) if block.title == title
    )


def hooks_of_the_page() -> list[Hook]:
    (repository,) = yaml.safe_load(titled(".pre-commit-config.yaml"))["repos"]
    return cast("list[Hook]", repository["hooks"])


SHIPPED = cast(
    "list[Hook]", yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
)
HOOKS = [
    pytest.param(hook, id=f"{where} {hook['id']}")
    for where, hooks in (("shipped", SHIPPED), ("of the page", hooks_of_the_page()))
    for hook in hooks
]


@pytest.fixture
def project(tmp_path: Path, starter_project: Path) -> Path:
    return shutil.copytree(starter_project, tmp_path / "project")


def run(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command where this Python's own commands are found first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, **variables}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def run_hook(hook: Hook, project: Path) -> tuple[int, list[str]]:
    """Run a hook as pre-commit does: the entry with every file that it wants; return its code and
    what it changed.
    """
    wanted = re.compile(hook["files"])
    files = sorted(
        path.relative_to(project).as_posix()
        for path in project.rglob("*")
        if path.is_file() and wanted.search(path.relative_to(project).as_posix())
    )
    before = {name: (project / name).read_bytes() for name in files}
    program, *arguments = shlex.split(hook["entry"])
    assert program == "wavewright"
    done = run_prepared(*arguments, *hook.get("args", []), *files, folder=project)
    return done.returncode, [
        name for name in files if (project / name).read_bytes() != before[name]
    ]


def test_the_page_gives_the_same_hooks_as_the_repository() -> None:
    def told(hooks: list[Hook]) -> dict[str, tuple[str, ...]]:
        return {hook["id"]: (hook["name"], hook["entry"], hook["files"]) for hook in hooks}

    assert told(SHIPPED) == told(hooks_of_the_page())


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_has_what_pre_commit_asks_of_one(hook: Hook) -> None:
    assert {"id", "name", "entry", "language", "files"} <= hook.keys()
    assert hook.keys() <= {
        "id",
        "name",
        "entry",
        "language",
        "files",
        "description",
        "require_serial",
    }
    assert hook["language"] in {"python", "system"}


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_lets_sound_plans_pass(hook: Hook, project: Path) -> None:
    assert run_hook(hook, project) == (0, [])


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_stops_a_plan_that_is_not_sound(hook: Hook, project: Path) -> None:
    (project / "plans" / "bad.plan.yaml").write_text("steps: [{id: a, tool: nothing}]\n")

    assert run_hook(hook, project) == (1, [])


def steps_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", document["steps"])


def workflow() -> dict[str, Any]:
    # Read as GitHub reads it: the key `on` is text, and not true as it is for PyYAML.
    return cast(
        "dict[str, Any]", read_document(titled(".github/workflows/plans.yml"), "plans.yml").value
    )


def test_the_workflow_is_one() -> None:
    document = workflow()
    (job,) = document["jobs"].values()

    assert document.keys() == {"name", "on", "permissions", "jobs"}
    assert document["permissions"] == {"contents": "read", "security-events": "write"}
    assert job.keys() == {"runs-on", "steps"}
    for step in steps_of(job):
        assert step.keys() <= {"name", "if", "uses", "with", "run"}
        assert ("uses" in step) != ("run" in step)
        assert re.fullmatch(r"[\w.-]+/[\w./-]+@(?:v\d+|[0-9a-f]{40})", step.get("uses", "a/b@v1"))


@pytest.mark.timeout(120)
def test_the_commands_of_the_workflow_do_what_they_are_for(project: Path) -> None:
    (job,) = workflow()["jobs"].values()
    commands = {step["name"]: step["run"] for step in steps_of(job) if "run" in step}
    upload = next(step["with"] for step in steps_of(job) if "upload-sarif" in step.get("uses", ""))

    assert commands.pop("Install").startswith("python -m pip install 'wavewright[testing]'")
    assert list(commands) == ["Check", "Test"]
    for command in commands.values():
        done = run(["bash", "-e", "-c", command], project)
        assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((project / upload["sarif_file"]).read_text())["runs"][0]["results"] == []


def test_what_the_workflow_uploads_names_the_line_in_the_repository(project: Path) -> None:
    plan = project / "plans" / "words.plan.yaml"
    plan.write_text(plan.read_text().replace("tool: rank_words", "tool: rank_word"))
    (job,) = workflow()["jobs"].values()
    command = next(step["run"] for step in steps_of(job) if step.get("name") == "Check")
    done = run(["bash", "-e", "-c", command], project)
    (result,) = json.loads((project / "plans.sarif").read_text())["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]

    assert done.returncode == 1
    assert place["artifactLocation"]["uri"] == "plans/words.plan.yaml"
    assert "rank_word" in plan.read_text().splitlines()[place["region"]["startLine"] - 1]


def action() -> dict[str, Any]:
    return cast("dict[str, Any]", yaml.safe_load(ACTION.read_text(encoding="utf-8")))


def with_inputs(text: str, given: dict[str, str]) -> str:
    """Return a text with the inputs of an action in their places, as GitHub puts them there."""
    return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: given[found[1]], text)


def test_the_action_is_one() -> None:
    document = action()
    text = ACTION.read_text(encoding="utf-8")

    assert document.keys() == {"name", "description", "inputs", "outputs", "runs"}
    assert document["runs"]["using"] == "composite"
    assert set(re.findall(r"inputs\.(\w+)", text)) == document["inputs"].keys()
    for each in (*document["inputs"].values(), *document["outputs"].values()):
        assert each["description"]
    for step in steps_of(document["runs"]):
        assert {"run", "shell"} <= step.keys() <= {"name", "id", "if", "run", "shell", "env"}
        # What a user gives reaches the shell as a variable, never as a part of the command.
        assert "${{" not in step["run"]


@pytest.mark.parametrize("is_sound", [True, False], ids=["sound", "faulty"])
def test_the_action_keeps_what_it_finds(project: Path, *, is_sound: bool) -> None:
    if not is_sound:
        (project / "plans" / "bad.job.yaml").write_text(
            "name: bad\nplan: {steps: [{id: a, tool: nothing}]}\n"
        )
    codes, summary = run_action(project)
    found = json.loads((project / "plans.sarif").read_text())["runs"][0]["results"]

    assert codes == {"Check": 0 if is_sound else 1, "Tell": 0, "Permits": 0}
    assert (project / "outputs").read_text() == "sarif=plans.sarif\n"
    assert [result["ruleId"] for result in found] == ([] if is_sound else ["E201"])
    assert summary.startswith("```text\n")
    assert ("error[E201]" in summary) is not is_sound


def test_the_action_tells_of_files_that_are_not_there(project: Path) -> None:
    codes, summary = run_action(project, files="plan/*.job.yaml")

    assert codes == {"Check": 2, "Tell": 0, "Permits": 0}
    assert "error[E125]: there is no file 'plan/*.job.yaml'" in summary


def test_the_action_shows_which_permits_a_change_needs_more(project: Path) -> None:
    plan = project / "plans" / "list.plan.yaml"
    plan.write_text("steps: [{id: files, tool: list_notes, params: {folder: notes}}]\n")
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "a"]):
        run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], project)
    base = run(["git", "rev-parse", "HEAD"], project).stdout.strip()
    plan.write_text(plan.read_text().replace("notes}}", "elsewhere}}"))

    codes, summary = run_action(project, base=base, files="plans/*.plan.yaml")

    assert codes["Permits"] == 0
    assert (
        "+ permit path elsewhere (steps.files.params.folder)\n"
        "- permit path notes (steps.files.params.folder)\n"
    ) in summary
    assert not (project / ".base").exists()


def run_action(project: Path, **inputs: str) -> tuple[dict[str, int], str]:
    """Run the steps of the action as GitHub does; return their codes, and the summary of the job."""
    document = action()
    given = {name: str(each["default"]) for name, each in document["inputs"].items()} | inputs
    files = {
        "GITHUB_OUTPUT": str(project / "outputs"),
        "GITHUB_STEP_SUMMARY": str(project / "summary.md"),
    }
    codes: dict[str, int] = {}
    for step in steps_of(document["runs"])[1:]:
        variables = {name: with_inputs(value, given) for name, value in step["env"].items()}
        codes[step["name"]] = run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            project,
            **files,
            **variables,
        ).returncode
    return codes, (project / "summary.md").read_text()


def test_the_page_calls_the_action_with_inputs_that_it_has() -> None:
    block = next(
        block.text
        for block in blocks(PAGE.read_text(encoding="utf-8"))
        if "uses: ./.github/actions" in block.text
    )
    call = next(step for step in steps_of(yaml.safe_load(block)) if step["uses"].startswith("./"))

    assert call["uses"] == "./.github/actions/check-plans"
    assert call["with"].keys() <= action()["inputs"].keys()
