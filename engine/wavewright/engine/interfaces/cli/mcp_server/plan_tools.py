"""Tools that call nothing: check a plan, forecast its run, list what plans can call, explain a
diagnostic.

Tools take a document as text or as a file of the project. A path that a call gives, itself or in a
plan sent as text, leads to no file outside the project; a job file of the project may name others.

The models of answers are made from the JSON of the same commands; clients read their schemas in the
list of tools.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from mcp.server.mcpserver import Context
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from wavewright.config import DocumentError, Settings, read_document
from wavewright.engine.interfaces.cli.common.output import CommandError, without_secrets
from wavewright.engine.interfaces.cli.planning import plan_check
from wavewright.engine.interfaces.cli.planning.check_command import check_json, verdict_text
from wavewright.engine.interfaces.cli.planning.plan_check import CheckOptions
from wavewright.engine.interfaces.cli.project.tools_command import tool_json
from wavewright.engine.rehearsal.dry_run.exports import dry_run_json
from wavewright.engine.rehearsal.dry_run.outlook import forecast_job
from wavewright.engine.run.jobs.inline import (
    leaves_folder,
    refuse_inline_faults,
    resolve_inline_job,
)
from wavewright.engine.run.jobs.inputs import InputOverrides
from wavewright.engine.run.jobs.resolving import ResolvedJob, resolve_job_file
from wavewright.engine.run.project.sound_part import sound_part
from wavewright.engine.run.project.templates import named_template
from wavewright.engine.run.project.tools import all_tools
from wavewright.executor.store.journal import RunStatus
from wavewright.planner import catalogue, suggest_name
from wavewright.planner.diagnostics.diagnostic import codes_by_kind
from wavewright.planner.types import Severity


@dataclass(frozen=True, slots=True)
class Project:
    """What the server serves."""

    settings: Settings
    allows_runs: bool = False
    """Whether runs begin without asking a person."""


ProjectContext: TypeAlias = Context[Project, Any]


class Answer(BaseModel):
    """Base of what the tools of the server return."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class DiagnosticAnswer(Answer):
    """One fault or warning, with its place and fix."""

    code: str
    kind: str
    severity: Severity
    message: str
    pointer: str = Field(description="JSON Pointer into the document.")
    line: int | None = None
    column: int | None = None
    hint: str | None = None


class CheckAnswer(Answer):
    """What the checker finds in a plan."""

    valid: bool
    summary: str
    diagnostics: tuple[DiagnosticAnswer, ...]


class ToolAnswer(Answer):
    """A tool that plans can call."""

    name: str
    description: str
    input_schema: dict[str, JsonValue]
    output_schema: JsonValue
    effects: tuple[str, ...] = Field(
        description="read, write, egress: what a call does outside the run."
    )
    needs_approval: bool = False
    untrusted_output: bool = False


class ToolsAnswer(Answer):
    """The tools of the project."""

    tools: tuple[ToolAnswer, ...]
    faults: tuple[str, ...] = Field(
        default=(), description="Why functions or files of the project bring no tools."
    )


class DiagnosticExplanation(Answer):
    """What a code of the checker means and how to fix it."""

    code: str
    kind: str
    severity: Severity
    title: str
    meaning: str
    fix: str


class RangeAnswer(Answer):
    """An estimate: the expected value and the 90th percentile."""

    expected: float
    p90: float


class EstimateAnswer(Answer):
    """What the whole plan is expected to take."""

    calls: int
    seconds: RangeAnswer
    tokens: RangeAnswer
    usd: RangeAnswer | None = None


class PlannedStep(Answer):
    """One step of a dry run."""

    id: str
    tool: str
    wave: int
    calls: int | None = None
    effects: tuple[str, ...]
    needs_approval: bool
    depends_on: tuple[str, ...]


class DryRunAnswer(Answer):
    """What a run of the plan would do; nothing has been called."""

    job: str
    goal: str
    plan_hash: str
    waves: tuple[tuple[str, ...], ...]
    steps: tuple[PlannedStep, ...]
    estimate: EstimateAnswer
    approvals: tuple[str, ...] = Field(description="Steps that a person must allow.")
    egress: tuple[JsonValue, ...] = Field(description="Calls that send data out of the run.")
    untrusted: tuple[JsonValue, ...] = Field(
        description="Steps with untrusted output, and who reads it."
    )
    notes: tuple[str, ...]
    refusals: tuple[str, ...] = Field(description="Budgets that would refuse the run.")


class StepAnswer(Answer):
    """How one step ended."""

    id: str
    tool: str
    status: str
    message: str | None = Field(
        default=None, description="Why it failed, was skipped or was blocked."
    )


class TargetAnswer(Answer):
    """One target of a job with several, and its own run."""

    target: str
    wave: int
    status: str
    run: str | None = None
    reason: str = ""


class RunAnswer(Answer):
    """A run and what came of it."""

    run: str
    job: str
    status: RunStatus
    reason: str = ""
    result: JsonValue = None
    confidence: float | None = None
    steps: tuple[StepAnswer, ...] = ()
    diagnostics: tuple[DiagnosticAnswer, ...] = Field(
        default=(), description="What is wrong with its plan, where that was refused."
    )
    targets: tuple[TargetAnswer, ...] = Field(
        default=(),
        description="The targets of a job with several; `show_run` shows each one's run.",
    )
    warnings: tuple[str, ...] = ()
    package: str | None = Field(
        default=None, description="URI of the resource that holds the package."
    )
    hint: str | None = Field(default=None, description="What to do next, if the run has not ended.")


def project_of(context: ProjectContext) -> Project:
    """Return the project that a call works in."""
    return context.request_context.lifespan_context


def _as_text(value: Any) -> Any:
    """Return the JSON text of an object: models often send one where a text is asked for."""
    return json.dumps(value, indent=2) if isinstance(value, dict) else value


# Plain `str` with "" for absence: of any other type the SDK parses a JSON text before a reader of
# plans sees it.
DocumentText: TypeAlias = Annotated[
    str,
    BeforeValidator(_as_text),
    Field(
        description="The plan as YAML or JSON text; a job or a goal template with a plan may stand there."
    ),
]
DocumentFile: TypeAlias = Annotated[
    str, Field(description="In place of `plan`: its file, as a path within the project.")
]
Inputs: TypeAlias = Annotated[
    dict[str, JsonValue] | None,
    Field(description="Inputs by name; they replace those of the document."),
]


def check_plan(
    context: ProjectContext,
    plan: DocumentText = "",
    file: DocumentFile = "",
    goal: Annotated[
        str,
        Field(
            description="A goal template by its name, or a job's file, whose rules the plan must obey."
        ),
    ] = "",
) -> CheckAnswer:
    """Check a plan and return every fault with its place and fix; nothing runs."""
    settings = project_of(context).settings
    if goal and named_template(goal, settings) is None:
        project_file(goal, settings)
    path = document_file(plan, file, settings)
    if path is None:
        _refuse_inline_faults(plan, settings)
    options = CheckOptions(
        file=path or settings.root / "plan",
        content=plan.encode() if path is None else None,
        goal=goal or None,
    )
    checked = plan_check.check_plan(options)
    return CheckAnswer.model_validate(
        {
            "valid": not checked.errors,
            "summary": verdict_text(checked, checked.text.source),
            "diagnostics": check_json(checked)["diagnostics"],
        }
    )


def dry_run(
    context: ProjectContext, plan: DocumentText = "", file: DocumentFile = "", inputs: Inputs = None
) -> DryRunAnswer:
    """Show what a run would do: waves, calls, time, cost, side effects and approvals; calls no
    tool.
    """
    settings = project_of(context).settings
    _, forecast = forecast_job(resolve_document(plan, file, inputs, settings), settings)
    shown = dry_run_json(forecast)
    return DryRunAnswer.model_validate({**shown, "refusals": forecast.budget.refusals})


def list_tools(context: ProjectContext) -> ToolsAnswer:
    """List the tools that plans of this project can call, with their schemas and effects."""
    settings, faults = sound_part(project_of(context).settings)
    registry = all_tools(settings)
    return ToolsAnswer.model_validate(
        {
            "tools": [tool_json(registry[name].signature) for name in sorted(registry)],
            "faults": [without_secrets(fault.describe()) for fault in faults],
        }
    )


def explain_diagnostic(
    code: Annotated[str, Field(description="Such as E302, or its kind, such as unknown_step.")],
) -> DiagnosticExplanation:
    """Explain a code of the checker: what is wrong, why it matters, and how to fix it."""
    entries = catalogue()
    entry = entries.get(codes_by_kind().get(code, code.upper()))
    if entry is None:
        hint = suggest_name(code, [*entries, *codes_by_kind()], what="codes and kinds")
        raise CommandError(f"there is no diagnostic {code!r}", hint=hint)
    return DiagnosticExplanation.model_validate({**entry._asdict(), "severity": entry.severity})


def resolve_document(plan: str, file: str, inputs: Inputs, settings: Settings) -> ResolvedJob:
    """Return the resolved job of a document that a call gives, with the inputs of the call.

    Raises:
        CommandError: both or neither of text and file are given, or the file is none of the
            project's.
        DocumentError, PlanError, SavedPlanError: the document cannot be used.
    """
    overrides = InputOverrides(from_file=inputs or {})
    path = document_file(plan, file, settings)
    if path is not None:
        return resolve_job_file(path, None, settings, overrides)
    return resolve_inline_job(read_document(plan, "plan"), settings, overrides)


def _refuse_inline_faults(text: str, settings: Settings) -> None:
    try:
        document = read_document(text, "plan")
    except DocumentError:
        return  # the check says what is wrong
    refuse_inline_faults(document, settings)


def document_file(plan: str, file: str, settings: Settings) -> Path | None:
    """Return the file that holds the document; None if its text is given.

    Raises:
        CommandError: both or neither are given, or the path leaves the project.
    """
    if bool(plan.strip()) == bool(file):
        raise CommandError("a call has either 'plan' or 'file'", hint="give one of the two")
    return project_file(file, settings) if file else None


def project_file(path: str, settings: Settings) -> Path:
    """Return a path within the project's root as an absolute path.

    Raises:
        CommandError: it leaves the project, also by a symbolic link.
    """
    file = (settings.root / path).resolve()
    if leaves_folder(path) or not file.is_relative_to(settings.root.resolve()):
        raise CommandError(
            f"{path!r} leads out of the project's folder", hint="name a file of the project"
        )
    return file
