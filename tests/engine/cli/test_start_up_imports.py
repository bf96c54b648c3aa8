"""What the command imports before it is known what was asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("pydantic", "networkx", "anyio", "mcp", "jinja2", "re2", "httpx", "yaml")


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


def modules_after(*arguments: str) -> set[str]:
    code = (
        "import sys\n"
        "from wavewright.engine.main import main\n"
        "try:\n"
        f"    main({list(arguments)!r})\n"
        "except SystemExit:\n"
        "    pass\n"
        "print('\\n'.join(sorted(sys.modules)), file=sys.stderr)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ran.stderr.splitlines())


@pytest.mark.parametrize("arguments", [("--version",), ("-V",), ("--help",), ()])
def test_nothing_heavy_is_imported_to_print_version_or_help(arguments: tuple[str, ...]) -> None:
    assert modules_after(*arguments) & set(HEAVY) == set()


def test_the_version_is_printed_without_the_command_line_library() -> None:
    assert "typer" not in modules_after("--version")


def test_checking_a_plan_imports_no_event_loop_and_no_model(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("plans")
    plan = folder / "plan.json"
    plan.write_text('{"steps": [{"id": "a", "tool": "look"}]}')
    tools = folder / "tools.json"
    tools.write_text('[{"name": "look"}]')

    loaded = modules_after("check", str(plan), "--tools", str(tools))

    assert "wavewright.planner.checks.checker" in loaded
    assert loaded & {"mcp", "httpx", "rich.live", "re2"} == set()


def test_checking_a_job_imports_nothing_that_only_a_run_needs(project: Path) -> None:
    assert project.is_dir()
    loaded = modules_after("check", "plans/words.job.yaml")

    assert "wavewright.planner.checks.checker" in loaded
    assert (
        loaded & {"anyio", "asyncio", "immutables", "jinja2", "rich", "networkx", "sqlite3", "ssl", "tomllib"}
        == set()
    )
    assert not [name for name in loaded if name.startswith(("wavewright.executor", "wavewright.reviewer"))]
    assert "wavewright.planner.ports.model_port" not in loaded


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "plans/words.job.yaml"),
        ("dry-run", "plans/words.job.yaml"),
        ("plan", "plans/words.job.yaml"),
        ("run", "plans/words.job.yaml"),
        ("runs",),
        ("tools",),
        ("diff", "plans/words.job.yaml", "plans/words.job.yaml"),
        ("schema", "settings"),
        ("schema", "worker"),
    ],
    ids=" ".join,
)
def test_without_a_model_nothing_of_one_is_imported(
    project: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.delenv("WAVEWRIGHT_MODEL", raising=False)

    assert project.is_dir()
    assert modules_after(*arguments) & OF_MODELS == set()


def test_a_plan_that_is_given_is_shown_without_a_template_language(project: Path) -> None:
    assert project.is_dir()
    assert "jinja2" not in modules_after("plan", "plans/words.job.yaml")
