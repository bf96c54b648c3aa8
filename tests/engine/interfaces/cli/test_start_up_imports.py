"""What the command imports before it is known what was asked."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

HEAVY = {"pydantic", "networkx", "anyio", "mcp", "jinja2", "re2", "httpx", "yaml"}

OF_MODELS = {
    "pydantic_ai",
    "openai",
    "anthropic",
    "google.genai",
    "httpx2",
    "stamina",
    "genai_prices",
}
"""Libraries that only a configured model needs: together they take a second to import."""


def modules_after(*commands: Sequence[str]) -> set[str]:
    """Return what a process has imported after these commands."""
    code = (
        "import sys\n"
        "from wavewright.engine.main import main\n"
        f"for arguments in {[list(command) for command in commands]!r}:\n"
        "    try:\n"
        "        main(arguments)\n"
        "    except SystemExit:\n"
        "        pass\n"
        "print('\\n'.join(sorted(sys.modules)), file=sys.stderr)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ran.stderr.splitlines())


def test_nothing_heavy_is_imported_to_print_the_help() -> None:
    assert modules_after(["--help"], []) & HEAVY == set()


def test_the_version_is_printed_without_the_command_line_library() -> None:
    assert modules_after(["--version"], ["-V"]) & {"typer", *HEAVY} == set()


def test_checking_a_plan_imports_no_event_loop_and_no_model(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("plans")
    plan = folder / "plan.json"
    plan.write_text('{"steps": [{"id": "a", "tool": "look"}]}')
    tools = folder / "tools.json"
    tools.write_text('[{"name": "look"}]')

    loaded = modules_after(["check", str(plan), "--tools", str(tools)])

    assert "wavewright.planner.checks.checker" in loaded
    assert loaded & {"mcp", "httpx", "rich.live", "re2"} == set()


def test_checking_a_job_imports_nothing_that_only_a_run_needs(project: Path) -> None:
    assert project.is_dir()
    loaded = modules_after(["check", "plans/words.job.yaml"])

    assert "wavewright.planner.checks.checker" in loaded
    assert (
        loaded
        & {
            "anyio",
            "asyncio",
            "immutables",
            "jinja2",
            "rich",
            "networkx",
            "sqlite3",
            "ssl",
            "tomllib",
        }
        == set()
    )
    assert not [
        name for name in loaded if name.startswith(("wavewright.executor", "wavewright.reviewer"))
    ]
    assert "wavewright.planner.ports.model_port" not in loaded


def test_without_a_model_nothing_of_one_is_imported(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WAVEWRIGHT_MODEL", raising=False)
    job = "plans/words.job.yaml"
    of_a_job = [[command, job] for command in ("check", "dry-run", "plan", "run")]
    others = [["runs"], ["tools"], ["diff", job, job], ["schema", "settings"], ["schema", "worker"]]

    loaded = modules_after(*of_a_job, *others)

    assert project.is_dir()
    assert "wavewright.engine.run.run_job" in loaded
    assert loaded & OF_MODELS == set()


def test_a_plan_that_is_given_is_shown_without_a_template_language(project: Path) -> None:
    assert project.is_dir()
    assert "jinja2" not in modules_after(["plan", "plans/words.job.yaml"])


def test_a_daemon_without_a_live_page_needs_no_extra_of_pages() -> None:
    code = (
        "import sys\n"
        "sys.modules['sse_starlette'] = sys.modules['multipart'] = None\n"
        "import wavewright.engine.interfaces.cli.service.daemon_command\n"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stderr) == (0, "")
