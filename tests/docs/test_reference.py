"""Tables of the reference that are written from the code."""

from __future__ import annotations

import dataclasses
import os
import re
import typing

import pytest
from pydantic import BaseModel
from typer.core import TyperGroup
from typer.main import get_command

from tests.repository.tree import ROOT
from wavewright.config import exit_codes
from wavewright.config.environment import VARIABLES, EnvironmentVariable
from wavewright.config.sections import (
    BudgetSettings,
    BudgetsSection,
    DaemonSection,
    IdentitySettings,
    MaxLimitsSection,
    ModelProviderSettings,
    ModelsSection,
    PriceSettings,
    QueuesSection,
    ValidationSection,
)
from wavewright.config.settings import SettingsFile
from wavewright.engine.cli.app import app
from wavewright.executor.events import types as events
from wavewright.planner.cel.functions import FUNCTIONS
from wavewright.planner.language.goals import GoalTemplate, Job, Limits, Recipe, Rules
from wavewright.planner.language.plan import Cap, Gate, Plan, Retry, Step
from wavewright.planner.ports.model_port import ModelUse
from wavewright.reviewer.records import Package, ReviewResult
from wavewright.tools.functions.user_tools import ToolOptions
from wavewright.tools.workers.agent_limits import AgentLimits
from wavewright.tools.workers.specs import WorkerSpec

REFERENCE = ROOT / "docs" / "reference"
UPDATE = os.environ.get("UPDATE_DOCS") == "1"


def written_part(page: str, name: str, expected: str) -> str:
    """Return what stands between the marks of a page; with UPDATE_DOCS=1 it is written first."""
    path = REFERENCE / page
    text = path.read_text(encoding="utf-8")
    between = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)", re.DOTALL)
    if UPDATE:
        text = between.sub(lambda _: expected, text)
        path.write_text(text, encoding="utf-8")
    found = between.search(text)
    assert found is not None, f"{page} has no part called {name!r}"
    return found.group()


def test_every_function_of_expressions_is_listed() -> None:
    rows = [f"| `{call.replace('|', '&#124;')}` | {meaning} |" for call, meaning in FUNCTIONS.items()]
    table = "\n".join(["| function | meaning |", "|---|---|", *rows, ""])

    assert written_part("expressions.md", "functions", table) == table


@pytest.mark.parametrize(
    ("page", "model"),
    [
        pytest.param("plan-language.md", Plan, id="plan"),
        pytest.param("plan-language.md", Step, id="step"),
        pytest.param("plan-language.md", Gate, id="gate"),
        pytest.param("plan-language.md", Cap, id="cap"),
        pytest.param("retries.md", Retry, id="retry"),
        pytest.param("jobs-and-goals.md", Job, id="job"),
        pytest.param("jobs-and-goals.md", GoalTemplate, id="goal template"),
        pytest.param("jobs-and-goals.md", Rules, id="rules"),
        pytest.param("jobs-and-goals.md", Limits, id="limits"),
        pytest.param("jobs-and-goals.md", Recipe, id="recipe"),
        pytest.param("settings.md", SettingsFile, id="settings"),
        pytest.param("settings.md", ModelsSection, id="models"),
        pytest.param("settings.md", ModelProviderSettings, id="providers"),
        pytest.param("settings.md", PriceSettings, id="prices"),
        pytest.param("settings.md", BudgetsSection, id="budgets"),
        pytest.param("settings.md", BudgetSettings, id="budget"),
        pytest.param("settings.md", DaemonSection, id="daemon"),
        pytest.param("settings.md", MaxLimitsSection, id="max limits"),
        pytest.param("settings.md", QueuesSection, id="queues"),
        pytest.param("settings.md", ValidationSection, id="validation"),
        pytest.param("settings.md", IdentitySettings, id="identity"),
        pytest.param("workers.md", WorkerSpec, id="worker"),
        pytest.param("workers.md", AgentLimits, id="agent"),
        pytest.param("package.md", Package, id="package"),
        pytest.param("package.md", ReviewResult, id="review"),
    ],
)
def test_every_field_of_a_document_is_described(page: str, model: type[BaseModel]) -> None:
    text = (REFERENCE / page).read_text(encoding="utf-8")
    fields = [field.alias or name for name, field in model.model_fields.items()]

    assert [name for name in fields if f"`{name}`" not in text and f"`{name}:" not in text] == []


@pytest.mark.parametrize("event", typing.get_args(events.Event), ids=lambda event: event.__name__)
def test_every_event_and_its_fields_are_described(event: type) -> None:
    text = (REFERENCE / "events.md").read_text(encoding="utf-8")
    (row,) = [line for line in text.splitlines() if line.startswith(f"| `{event.__name__}` |")]

    assert [name for name in own_fields(event) if f"`{name}`" not in row] == []


def test_every_figure_of_a_model_call_is_described() -> None:
    text = (REFERENCE / "events.md").read_text(encoding="utf-8")

    assert [field.name for field in dataclasses.fields(ModelUse) if f"`{field.name}`" not in text] == []


def own_fields(event: type) -> list[str]:
    """Return what only this event has; `at` stands in every one and is described once."""
    return [entry.name for entry in dataclasses.fields(event) if entry.name != "at"]


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda variable: variable.name)
def test_every_environment_variable_is_described_with_its_setting(variable: EnvironmentVariable) -> None:
    text = (REFERENCE / "settings.md").read_text(encoding="utf-8")

    assert f"| `{variable.name}` | `{variable.setting}`" in text


def test_every_option_of_a_function_is_described_where_tools_are_written() -> None:
    text = (ROOT / "docs" / "how-to" / "write-a-tool.md").read_text(encoding="utf-8")

    assert [name for name in ToolOptions.model_fields if f"`{name}`" not in text] == []


def test_every_command_is_described() -> None:
    text = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    commands = get_command(app)
    assert isinstance(commands, TyperGroup)

    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [*commands.commands]


def test_every_exit_code_is_described() -> None:
    text = (REFERENCE / "exit-codes.md").read_text(encoding="utf-8")
    codes = [value for name, value in vars(exit_codes).items() if name.isupper()]

    assert [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)] == codes
