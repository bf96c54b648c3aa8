"""Lists of the reference that are written from the code."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import typing
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from typer.core import TyperGroup
from typer.main import get_command

from tests.repository.tree import ROOT
from wavewright.config import exit_codes
from wavewright.config.environment import VARIABLES, EnvironmentSettings, EnvironmentVariable
from wavewright.config.installation import EXTRAS
from wavewright.config.mcp_servers import McpServerSection, McpToolOverrides
from wavewright.config.notices import MailSettings, NoticeRule
from wavewright.config.published_schemas import field_docs
from wavewright.config.schedules import ScheduleSettings
from wavewright.config.sections import (
    BudgetSettings,
    BudgetsSection,
    DaemonSection,
    IdentitySettings,
    MaxLimitsSection,
    ModelProviderSettings,
    ModelsSection,
    PlannerSection,
    PriceSettings,
    QueuesSection,
    StandingSection,
    ValidationSection,
)
from wavewright.config.settings import SettingsFile
from wavewright.engine.interfaces.cli.app import COMMAND_SECTIONS, application
from wavewright.engine.service.messages.models import (
    Envelope,
    GoalRequest,
    JobRequest,
    UserDecisionResponse,
    ValidationResult,
)
from wavewright.executor.events import types as events
from wavewright.planner.cel.functions.catalogue import FUNCTIONS
from wavewright.planner.language.goals import (
    GoalTemplate,
    Job,
    JobTargets,
    Recipe,
    Rules,
    Targets,
)
from wavewright.planner.language.plan import (
    Cap,
    Gate,
    Limits,
    Plan,
    PlanPatch,
    PlanStop,
    Repeat,
    Retry,
    Step,
)
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.ports.model_port import ModelUse
from wavewright.planner.types import RESERVED_IDS
from wavewright.reviewer.records import Package, ReviewResult
from wavewright.tools.functions.options import ToolOptions
from wavewright.tools.workers.agent_tools import AgentLimits
from wavewright.tools.workers.named_agents import AgentSpec
from wavewright.tools.workers.specs import WorkerSpec

REFERENCE = ROOT / "docs" / "reference"
UPDATE = os.environ.get("UPDATE_DOCS") == "1"


TOLD_ELSEWHERE: dict[type[BaseModel], type[BaseModel]] = {
    WorkerSpec: ToolSignature,
    AgentSpec: WorkerSpec,
}
"""A document that has fields of another one, with the same meaning and default: they are listed
there.
"""


WRITTEN_BY_RUNS: frozenset[type[BaseModel]] = frozenset({Package, ReviewResult})
"""Documents that nobody writes by hand: who reads them needs no defaults."""


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
    written = "".join(f"- `{call}`: {meaning}\n" for call, meaning in FUNCTIONS.items())

    assert written_part("expressions.md", "functions", written) == written


def test_every_id_that_no_step_may_have_is_listed() -> None:
    text = (REFERENCE / "plan-language.md").read_text(encoding="utf-8")
    sentence = re.search(r"^No step may be called (.+)\.$", text, re.MULTILINE)
    assert sentence is not None

    assert set(re.findall(r"`(\w+)`", sentence[1])) == RESERVED_IDS


@pytest.mark.parametrize(
    ("page", "name", "model"),
    [
        ("plan-language.md", "a plan", Plan),
        ("plan-language.md", "a step", Step),
        ("gates.md", "a cap", Cap),
        ("jobs.md", "a job", Job),
        ("goal-templates.md", "a goal template", GoalTemplate),
        ("goal-templates.md", "rules", Rules),
        ("goal-templates.md", "limits", Limits),
        ("goal-templates.md", "a recipe", Recipe),
        ("workers.md", "a worker", WorkerSpec),
        ("workers.md", "an agent", AgentLimits),
        ("workers.md", "a named agent", AgentSpec),
        ("jobs.md", "targets", JobTargets),
        ("jobs.md", "the inputs of targets", Targets),
        ("sub-plans.md", "repeat", Repeat),
        ("plan-values.md", "stop", PlanStop),
        ("gates.md", "a patch", PlanPatch),
        ("retries.md", "retries", Retry),
        ("package.md", "a package", Package),
        ("package.md", "a review", ReviewResult),
        ("messages.md", "an envelope", Envelope),
        ("messages.md", "a job request", JobRequest),
        ("messages.md", "a goal request", GoalRequest),
        ("messages.md", "a verdict", ValidationResult),
        ("messages.md", "an answer", UserDecisionResponse),
    ],
)
def test_every_field_of_a_document_is_listed_with_its_default(
    page: str, name: str, model: type[BaseModel]
) -> None:
    elsewhere = field_rows(TOLD_ELSEWHERE[model]) if model in TOLD_ELSEWHERE else []
    rows = [row for row in field_rows(model) if row not in elsewhere]
    written = as_list(rows, has_defaults=model not in WRITTEN_BY_RUNS)

    assert written_part(page, f"fields of {name}", written) == written
    text = (REFERENCE / page).read_text(encoding="utf-8")
    assert [field for field in model.model_fields if f"`{field}`" not in text] == []


def test_every_field_of_a_gate_is_described() -> None:
    text = (REFERENCE / "gates.md").read_text(encoding="utf-8")
    fields = [field.alias or name for name, field in Gate.model_fields.items()]

    assert [name for name in fields if f"`{name}`" not in text and f"`{name}:" not in text] == []


def field_list(model: type[BaseModel], names: Iterable[str] | None = None) -> str:
    """Return the list of a document's fields, in the words of their docstrings."""
    return as_list(field_rows(model, names))


FieldRow: TypeAlias = tuple[str, str, str]
"""The name of a field, its default and its meaning."""


def field_rows(model: type[BaseModel], names: Iterable[str] | None = None) -> list[FieldRow]:
    """Return a row for each field."""
    docs = field_docs(model)
    fields = {name: model.model_fields[name] for name in names or model.model_fields}
    return [
        (f"`{field.alias or name}`", shown_default(field.default), one_line_each(docs[name]))
        for name, field in fields.items()
    ]


def as_list(rows: Sequence[FieldRow], *, has_defaults: bool = True) -> str:
    """Return a line for each field, with its default behind its name where it has one."""
    return "".join(
        f"- {name}{f' ({default})' if default and has_defaults else ''}: {meaning}\n"
        for name, default, meaning in rows
    )


@pytest.mark.parametrize("event", typing.get_args(events.Event), ids=lambda event: event.__name__)
def test_every_event_and_its_fields_are_described(event: type) -> None:
    text = (REFERENCE / "events.md").read_text(encoding="utf-8")
    (row,) = [line for line in text.splitlines() if line.startswith(f"- `{event.__name__}`: ")]

    assert [name for name in own_fields(event) if f"`{name}`" not in row] == []


def test_every_figure_of_a_model_call_is_described() -> None:
    text = (REFERENCE / "events.md").read_text(encoding="utf-8")

    assert [
        field.name for field in dataclasses.fields(ModelUse) if f"`{field.name}`" not in text
    ] == []


def own_fields(event: type) -> list[str]:
    """Return what only this event has; `at` stands in every one and is described once."""
    return [entry.name for entry in dataclasses.fields(event) if entry.name != "at"]


@pytest.mark.parametrize(
    ("page", "name", "model"),
    [
        ("settings.md", "a project", SettingsFile),
        ("settings.md", "models", ModelsSection),
        ("settings.md", "a provider", ModelProviderSettings),
        ("settings.md", "a price", PriceSettings),
        ("settings.md", "the planner", PlannerSection),
        ("budgets.md", "budgets", BudgetsSection),
        ("budgets.md", "a budget", BudgetSettings),
        ("daemon-settings.md", "the daemon", DaemonSection),
        ("daemon-settings.md", "max_limits", MaxLimitsSection),
        ("daemon-settings.md", "standing", StandingSection),
        ("daemon-settings.md", "queues", QueuesSection),
        ("daemon-settings.md", "validation", ValidationSection),
        ("daemon-settings.md", "an identity", IdentitySettings),
        ("schedules-and-notices.md", "a schedule", ScheduleSettings),
        ("schedules-and-notices.md", "a notice rule", NoticeRule),
        ("schedules-and-notices.md", "mail", MailSettings),
        ("mcp.md", "an MCP server", McpServerSection),
        ("mcp.md", "an MCP tool", McpToolOverrides),
    ],
)
def test_every_setting_is_listed_with_its_default(
    page: str, name: str, model: type[BaseModel]
) -> None:
    written = field_list(model)

    assert written_part(page, f"settings of {name}", written) == written


def shown_default(default: object) -> str:
    """Return a default as YAML; nothing where there is none, or where it is a section."""
    if (
        default is PydanticUndefined
        or isinstance(default, BaseModel)
        or (not default and default != 0)
    ):
        return ""
    if isinstance(default, frozenset):
        names = typing.cast("frozenset[str]", default)
        return f"`{json.dumps(sorted(names))}`"
    if isinstance(default, float):
        return f"`{default:g}`"
    return (
        f"`{json.dumps(default)}`"
        if isinstance(default, bool | list | tuple | dict)
        else f"`{default}`"
    )


def one_line_each(doc: str) -> str:
    """Return a docstring as it stands in a list, one sentence a line."""
    return re.sub(r"(?<=[\w)`'])\. (?=[A-Z])", ".\n  ", " ".join(doc.split()))


def test_every_environment_variable_is_listed_with_its_setting() -> None:
    docs = field_docs(EnvironmentSettings)
    written = "".join(
        f"- `{one.name}`: {described(one, docs.get(field, ''))}\n"
        for field, one in VARIABLES.items()
    )

    assert written_part("settings.md", "variables", written) == written


def described(variable: EnvironmentVariable, doc: str) -> str:
    setting = f"`{variable.setting}`" if variable.setting else ""
    place = "a path is relative to the working directory" if variable.is_path else ""
    known = "; ".join(part for part in (setting, place, variable.expected) if part)
    return f"{known}.\n  {one_line_each(doc)}" if known and doc else known or one_line_each(doc)


def test_every_option_of_a_function_is_listed_with_its_default() -> None:
    page = "tool-options.md"
    # These are a function's own, or follow from its contract, where they are absent.
    derived = {"name", "description", "idempotent", "version"}
    options = [name for name in ToolOptions.__annotations__ if name in ToolSignature.model_fields]

    written = field_list(ToolSignature, [name for name in options if name not in derived])
    assert written_part(page, "options of a function", written) == written
    text = (REFERENCE / page).read_text(encoding="utf-8")
    assert [name for name in ToolOptions.__annotations__ if f"`{name}`" not in text] == []


def test_every_command_is_described() -> None:
    text = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    commands = get_command(application())
    assert isinstance(commands, TyperGroup)

    in_sections = [name for names in COMMAND_SECTIONS.values() for name in names]
    unlisted = [name for name in commands.commands if name not in in_sections]
    rows = re.findall(r"^- `([a-z-]+)`: ", text.partition("\n## ")[0], re.MULTILINE)
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert sorted([*rows, *headings]) == sorted([*in_sections, *unlisted])


def test_every_extra_is_listed_where_the_installation_is_described() -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    named = re.findall(r"^- (`.+?): ", text.partition("## Install")[2], re.MULTILINE)

    assert {name for one in named for name in re.findall(r"`(\w+)`", one)} == {*EXTRAS, "all"}


def test_every_exit_code_is_described() -> None:
    text = (REFERENCE / "exit-codes.md").read_text(encoding="utf-8")
    codes = [value for name, value in vars(exit_codes).items() if name.isupper()]

    assert [int(code) for code in re.findall(r"^- (\d+), ", text, re.MULTILINE)] == codes
