"""What the tools of the server return; clients read their schemas in the list of tools."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from wavewright.executor.store.journal import RunStatus
from wavewright.planner.types import Severity


class Answer(BaseModel):
    """Base of these models: they are made from the JSON of the same commands."""

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
    effects: tuple[str, ...] = Field(description="read, write, egress: what a call does outside the run.")
    needs_approval: bool = False
    untrusted_output: bool = False


class ToolsAnswer(Answer):
    """The tools of the project."""

    tools: tuple[ToolAnswer, ...]


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
    untrusted: tuple[JsonValue, ...] = Field(description="Steps with untrusted output, and who reads it.")
    notes: tuple[str, ...]
    refusals: tuple[str, ...] = Field(description="Budgets that would refuse the run.")


class StepAnswer(Answer):
    """How one step ended."""

    id: str
    tool: str
    status: str
    message: str | None = Field(default=None, description="Why it failed, was skipped or was blocked.")


class RunAnswer(Answer):
    """A run and what came of it."""

    run: str
    job: str
    status: RunStatus
    reason: str = ""
    result: JsonValue = None
    confidence: float | None = None
    steps: tuple[StepAnswer, ...] = ()
    warnings: tuple[str, ...] = ()
    package: str | None = Field(default=None, description="URI of the resource that holds the package.")
    hint: str | None = Field(default=None, description="What to do next, if the run has not ended.")
