"""What the command imports before it is known what was asked."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("pydantic", "networkx", "anyio", "mcp", "jinja2", "cel_expr_python", "httpx", "yaml")


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
    return set(ran.stderr.split())


@pytest.mark.parametrize("arguments", [("--version",), ("-V",), ("--help",), ()])
def test_nothing_heavy_is_imported_to_print_version_or_help(arguments: tuple[str, ...]) -> None:
    assert modules_after(*arguments) & set(HEAVY) == set()


def test_the_version_is_printed_without_the_command_line_library() -> None:
    assert "typer" not in modules_after("--version")


def test_checking_a_plan_imports_no_networkx_and_no_event_loop(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("plans")
    plan = folder / "plan.json"
    plan.write_text('{"steps": [{"id": "a", "tool": "look"}]}')
    tools = folder / "tools.json"
    tools.write_text('[{"name": "look"}]')

    loaded = modules_after("check", str(plan), "--tools", str(tools))

    assert "wavewright.planner.checker" in loaded
    assert loaded & {"networkx", "mcp", "httpx", "rich.live", "cel_expr_python"} == set()
