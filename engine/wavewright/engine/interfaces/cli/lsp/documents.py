"""The documents that an editor has open, as they stand there, saved or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from wavewright.config.documents import Document, read_faulty_document
from wavewright.config.model_validation import read_as_model
from wavewright.config.sources import DocumentError
from wavewright.engine.run.jobs.documents import DocumentKind, is_foreign, kind_of
from wavewright.engine.run.jobs.plan_drafts import plan_with_sub_plans, signatures_of_sub_plans
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.names import pointer_in_plan
from wavewright.planner.checks.partial_plans import read_partial_plan
from wavewright.planner.language.plan import LIMITS_OF_OWN_PLANS, Plan
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.plans.sub_plans import needs_expansion
from wavewright.planner.types import Json, StepId, as_list, as_object

if TYPE_CHECKING:
    from wavewright.config.errors import WavewrightError
    from wavewright.config.settings import Settings
    from wavewright.config.sources import Source
    from wavewright.engine.interfaces.cli.lsp.positions import TextPositions
    from wavewright.engine.interfaces.cli.lsp.projects import OpenProject
    from wavewright.engine.interfaces.cli.planning.plan_check import CheckedDocument
    from wavewright.planner.diagnostics.diagnostic import Diagnostic
    from wavewright.planner.language.goals import Goal
    from wavewright.planner.language.signatures import ToolSignature


FoundInTexts: TypeAlias = "tuple[tuple[Source, tuple[Diagnostic, ...]], ...]"


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """What a check of an open document has found."""

    found: FoundInTexts
    """The diagnostics of each text; the document's own first."""
    fault: WavewrightError | None = None
    """Why the project could not be asked."""
    checked: CheckedDocument | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Surroundings:
    """What a document may name, and what is known of it."""

    project: OpenProject
    outcome: CheckOutcome | None
    """Of the last check of the document."""
    good: GoodCheck | None
    """The last version of the document that could be read."""
    open_texts: Mapping[Path, str]
    """The texts that stand in the editor, by their files."""

    @property
    def settings(self) -> Settings:
        """The settings of the document's project."""
        return self.project.settings

    @cached_property
    def tools(self) -> Mapping[str, ToolSignature]:
        """Every tool of the project."""
        return self.project.tools().signatures

    @property
    def goal(self) -> Goal | None:
        """What the plan of a job is for, as the last check had it."""
        checked = None if self.outcome is None else self.outcome.checked
        basis = None if checked is None else checked.basis
        return None if basis is None else basis.goal

    @property
    def inputs(self) -> Mapping[str, Json]:
        """The inputs of the plan that a job names, as the last check had it."""
        checked = None if self.outcome is None else self.outcome.checked
        return {} if checked is None or checked.plan is None else checked.plan.inputs


@dataclass(frozen=True)
class ReadText:
    """A document that could be read."""

    document: Document

    @cached_property
    def kind(self) -> DocumentKind:
        """What it is meant as."""
        return kind_of(self.document)

    @cached_property
    def base(self) -> str | None:
        """Where its plan stands; None where it has none of its own."""
        if self.kind == "plan":
            return ""
        fields = as_object(self.document.value)
        for name in ("plan", "fallback_plan"):
            if isinstance(fields.get(name), dict):
                return f"/{name}"
        # A template's gates are those of every plan that is made with it.
        return "" if self.kind == "goal" else None

    def in_plan(self, pointer: str) -> str | None:
        """Return a pointer of the document as one of its plan; None outside the plan."""
        return pointer_in_plan(pointer, self.base)

    @cached_property
    def _plan(self) -> tuple[Plan, frozenset[StepId]] | None:
        """The plan, or its valid part, and the steps of whose outputs nothing is known."""
        if self.base is None:
            return None
        value = self.document.value
        if self.base:
            value = as_object(value)[self.base[1:]]
        elif self.kind == "goal":
            value = _plan_of_template(as_object(value))
        part = Document(value, self.document.source, keeps_places=False)
        try:
            return read_as_model(part, Plan), frozenset()
        except DocumentError as error:
            partial = read_partial_plan(value, error.faults)
            return None if partial is None else (partial.plan, partial.untyped)

    def subject(self, around: Surroundings) -> CheckContext | None:
        """Return the plan with what it may use; None where there is no plan to be read."""
        if self._plan is None:
            return None
        plan, untyped = self._plan
        goal = around.goal
        if goal is not None:
            plan = plan.model_copy(update={"inputs": {**plan.inputs, **goal.inputs}})
        folder = Path(self.document.source.name).parent
        called = signatures_of_sub_plans(plan, folder, around.settings, around.tools)
        return CheckContext(plan, goal, around.tools, LIMITS_OF_OWN_PLANS, untyped, called)

    def waves(self, subject: CheckContext, settings: Settings) -> Mapping[StepId, int]:
        """Return in which wave of a run each step begins, from 0: names of `let` and sub-plans are
        put in for that.
        """
        if not needs_expansion(subject.plan):
            return subject.graph.wave_of()
        whole = plan_with_sub_plans(subject.plan, self.document, settings).plan
        found: dict[StepId, int] = {}
        for name, wave in PlanGraph.of(whole).wave_of().items():
            caller = next((step for step in _callers(name) if step in subject.steps), name)
            found[caller] = min(wave, found.get(caller, wave))
        return found


def _callers(step: StepId) -> Iterator[StepId]:
    """Yield the steps that a step of a sub-plan may stand for, its own id first."""
    name = str(step)
    while name:
        yield StepId(name)
        name = name.rpartition(".")[0]


def _plan_of_template(fields: Mapping[str, Json]) -> Json:
    """Return a plan with the gates of a goal template, and a call of each tool that they look at."""
    gates = fields.get("gates", [])
    looked_at = [as_object(gate).get("on_tool") for gate in as_list(gates)]
    tools = sorted({tool for tool in looked_at if isinstance(tool, str)})
    steps: list[Json] = [{"id": f"step_{n}", "tool": tool} for n, tool in enumerate(tools)]
    return {"steps": steps, "gates": gates, "inputs": fields.get("inputs", {})}


@dataclass(frozen=True)
class OpenDocument:
    """One version of a document."""

    uri: str
    path: Path
    version: int | None
    places: TextPositions

    @property
    def text(self) -> str:
        """The whole text."""
        return self.places.text

    @cached_property
    def is_foreign(self) -> bool:
        """Whether it is no document of wavewright's."""
        return is_foreign(self.text, str(self.path))

    def take(self, document: Document) -> None:
        """Take what a check has read, so that the text is read once."""
        if document.source.text == self.text:
            self.__dict__.setdefault("read", ReadText(document))

    @cached_property
    def read(self) -> ReadText | None:
        """What it says; None where it cannot be read, or is foreign."""
        if self.is_foreign:
            return None
        try:
            return ReadText(read_faulty_document(self.text, str(self.path)))
        except DocumentError:
            return None


@dataclass(frozen=True, slots=True)
class GoodCheck:
    """The last version of a document that could be read, and what was found in it."""

    document: OpenDocument
    diagnostics: tuple[Diagnostic, ...]
