"""Plans as their authors wrote them: in a file, a job or a goal template, with the sub-plans that they call."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from wavewright.config.documents import Document, read_document
from wavewright.config.settings import Settings
from wavewright.engine.jobs.document_kinds import is_saved_plan
from wavewright.engine.jobs.errors import JobErrors, valid_part_of_plan
from wavewright.engine.jobs.saved_plan import SavedPlanError
from wavewright.engine.project.templates import read_named_document
from wavewright.planner.checks.checker import PartialPlan
from wavewright.planner.diagnostics.diagnostic import Diagnostic, locate_diagnostics
from wavewright.planner.language.goals import Job
from wavewright.planner.language.plan import Plan
from wavewright.planner.plans.expanded_plan import ExpandedPlan
from wavewright.planner.reading.reader import read_plan_document


@dataclass(frozen=True, slots=True)
class PlanOrigin:
    """The document that holds a plan, and the pointer of the plan in it."""

    document: Document
    pointer: str = ""
    expanded: ExpandedPlan | None = None
    """The plan with its sub-plans put in, if it calls any; diagnostics are of that plan."""

    @classmethod
    def with_plan_value(cls, plan: Plan, document: Document | None) -> PlanOrigin:
        """Return the origin of a plan made by a model: its answer, or the plan as JSON if that is no document."""
        if document is not None:
            return cls(document)
        text = json.dumps(plan.model_dump(mode="json", by_alias=True, exclude_unset=True), indent=2)
        return cls(read_document(text, "the plan"))

    def place(self, diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
        """Return the diagnostics of the plan with their places in the document."""
        own = diagnostics if self.expanded is None else map(self.expanded.place, diagnostics)
        moved = [replace(found, pointer=f"{self.pointer}{found.pointer}") for found in own]
        return tuple(locate_diagnostics(moved, self.document))


@dataclass(frozen=True, slots=True)
class PlanDraft:
    """A plan as its author wrote it, with its origin and the rung of the ladder that made it."""

    plan: Plan
    origin: PlanOrigin
    rung: str
    is_saved: bool = False
    """Whether it is run unchanged: no planner replaces it, whatever its rung."""
    partial: PartialPlan | None = None
    """Set if the plan has faults of shape; `plan` is its valid part, which is checked and never run."""


def draft_of_job(
    job: Job, file: Path, document: Document, settings: Settings, faults: JobErrors
) -> PlanDraft | None:
    """Return the plan that a job holds, or whose file it names."""
    if isinstance(job.plan, str):
        return plan_draft(read_named_document(file.parent / job.plan, "/plan", document), settings, faults)
    return embedded_draft(job.plan, document, "given", settings, faults)


def embedded_draft(
    plan: Plan | None, document: Document, rung: str, settings: Settings, faults: JobErrors
) -> PlanDraft | None:
    """Return the plan embedded in a job or a goal template, or its valid part."""
    origin = PlanOrigin(document, "/plan")
    if plan is not None:
        return _whole_draft(plan, origin, rung, settings, faults)
    partial = valid_part_of_plan(document, origin.pointer)
    return None if partial is None else PlanDraft(partial.plan, origin, rung, partial=partial)


def plan_draft(document: Document, settings: Settings, faults: JobErrors) -> PlanDraft | None:
    """Return the plan of a document, or its valid part."""
    if is_saved_plan(document):
        message = "a saved plan brings its own goal and is no plan for another job"
        raise SavedPlanError(message, place=document.source.name, hint="name it in place of the job")
    text = read_plan_document(document)
    faults.add(text.diagnostics, document)
    if text.plan is not None:
        return _whole_draft(text.plan, PlanOrigin(document), "given", settings, faults)
    partial = text.partial
    return (
        None if partial is None else PlanDraft(partial.plan, PlanOrigin(document), "given", partial=partial)
    )


def _whole_draft(
    plan: Plan, origin: PlanOrigin, rung: str, settings: Settings, faults: JobErrors
) -> PlanDraft | None:
    """Return the draft of a plan with its sub-plans put in; None if one of them cannot be."""
    if all(step.plan is None for step in plan.steps):
        return PlanDraft(plan, origin, rung)
    from wavewright.engine.jobs.sub_plans import plan_with_sub_plans  # most plans call none

    expanded = plan_with_sub_plans(plan, origin.document, settings)
    faults.add(origin.place(expanded.faults), origin.document)
    return None if expanded.faults else PlanDraft(expanded.plan, replace(origin, expanded=expanded), rung)
