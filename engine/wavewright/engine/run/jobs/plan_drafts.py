"""Plans as their authors wrote them: in a file, a job or a goal template, with the sub-plans that
they call.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from wavewright.config import (
    Document,
    DocumentError,
    DocumentFault,
    Settings,
    Source,
    read_document,
    read_document_file,
)
from wavewright.config.documents import value_at
from wavewright.engine.run.jobs.documents import (
    JobErrors,
    is_saved_plan,
    is_template,
    plan_or_valid_part,
)
from wavewright.engine.run.project.templates import (
    read_named_document,
    template_names,
    template_path,
)
from wavewright.planner import (
    Diagnostic,
    GoalTemplate,
    Job,
    JsonSchema,
    Plan,
    PlanError,
    ToolSignature,
    ToolSignatures,
    as_list,
    as_object,
    suggest_name,
)
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.partial_plans import PartialPlan
from wavewright.planner.diagnostics.diagnostic import locate_diagnostics, make_diagnostic
from wavewright.planner.language.plan import LIMITS_OF_OWN_PLANS
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.goal_resolution import resolve_goal
from wavewright.planner.plans.sub_plan_call import ExpandedPlan, SubPlan
from wavewright.planner.plans.sub_plans import expand_plan, needs_expansion, reading_faults
from wavewright.planner.reading.reader import read_model, read_plan_document
from wavewright.planner.types import properties_of
from wavewright.tools import pack_templates


@dataclass(frozen=True, slots=True)
class PlanOrigin:
    """The document that holds a plan, and the pointer of the plan in it."""

    document: Document
    pointer: str = ""
    expanded: ExpandedPlan | None = None
    """The plan with its sub-plans put in, if it calls any; diagnostics are of that plan."""

    @classmethod
    def with_plan_value(cls, plan: Plan, document: Document | None) -> PlanOrigin:
        """Return the origin of a plan made by a model: its answer, or the plan as JSON if that is
        no document.
        """
        if document is not None:
            return cls(document)
        text = json.dumps(plan.model_dump(mode="json", by_alias=True, exclude_unset=True), indent=2)
        return cls(read_document(text, "the plan"))

    def place(self, diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
        """Return the diagnostics of the plan with their places in the document."""
        own = diagnostics if self.expanded is None else self.expanded.place(diagnostics)
        moved = [
            replace(diagnostic, pointer=f"{self.pointer}{diagnostic.pointer}") for diagnostic in own
        ]
        return tuple(locate_diagnostics(moved, self.document))


@dataclass(frozen=True, slots=True)
class PlanDraft:
    """A plan as its author wrote it, with its origin and the rung of the ladder that made it."""

    plan: Plan
    origin: PlanOrigin
    rung: str
    is_saved: bool = False
    """Whether it is run unchanged: no planner replaces it, whatever its rung."""
    kept_as: str | None = None
    """The goal template that it was kept in for such a goal, where no other names it."""
    partial: PartialPlan | None = None
    """Set if the plan has faults of shape; `plan` is its valid part, which is checked and never
    run.
    """

    @property
    def is_fallback(self) -> bool:
        """Whether it is what is left where no planner gives a plan."""
        return self.rung == "template" and not self.is_saved


def draft_of_job(
    job: Job, file: Path, document: Document, settings: Settings, faults: JobErrors
) -> PlanDraft | None:
    """Return the plan that a job holds, or whose file it names; None where a planner makes it."""
    if job.plan == AUTO_PLAN:
        return None
    if isinstance(job.plan, str):
        _check_stays_inside(job.plan, file.parent / job.plan, file.parent, settings)
        return plan_draft(
            read_named_document(file.parent / job.plan, "/plan", document), settings, faults
        )
    return embedded_draft(job.plan, document, "given", settings, faults)


AUTO_PLAN: Final = "auto"
"""What a job says in place of a plan, so that the planner makes it though the template has one."""


def template_draft(
    template: GoalTemplate | None,
    document: Document,
    settings: Settings,
    faults: JobErrors,
    *,
    is_planned: bool = False,
) -> PlanDraft | None:
    """Return the plan of a goal template, or its valid part; None where it has none.

    `plan` is the plan: no planner replaces it, unless the job has it planned. `fallback_plan` is
    what is left where no planner gives a plan.
    """
    if template is not None and template.fallback_plan is not None:
        return embedded_draft(
            template.fallback_plan, document, "template", settings, faults, "/fallback_plan"
        )
    plan = None if template is None else template.plan
    draft = embedded_draft(plan, document, "template", settings, faults)
    if draft is None or is_planned:
        return draft
    return replace(draft, is_saved=True)


def embedded_draft(
    plan: Plan | None,
    document: Document,
    rung: str,
    settings: Settings,
    faults: JobErrors,
    pointer: str = "/plan",
) -> PlanDraft | None:
    """Return the plan embedded in a job or a goal template, or its valid part."""
    origin = PlanOrigin(document, pointer)
    if plan is not None:
        return _whole_draft(plan, origin, rung, settings, faults)
    part = plan_or_valid_part(value_at(document.value, pointer), document.source)
    if not isinstance(part, PartialPlan):
        return None
    return PlanDraft(part.plan, origin, rung, partial=part)


def plan_draft(document: Document, settings: Settings, faults: JobErrors) -> PlanDraft | None:
    """Return the plan of a document, or its valid part."""
    if is_saved_plan(document):
        # Imported here: few name a saved plan where another plan is meant.
        from wavewright.engine.run.jobs.saved_plan import SavedPlanError

        message = "a saved plan brings its own goal and is no plan for another job"
        raise SavedPlanError(
            message, place=document.source.name, hint="name it in place of the job"
        )
    text = read_plan_document(document)
    faults.add(text.diagnostics, document)
    if text.plan is not None:
        return _whole_draft(text.plan, PlanOrigin(document), "given", settings, faults)
    if text.partial is None:
        return None
    # What could be read is checked as well, so that its faults are told together with the others.
    return PlanDraft(text.partial.plan, PlanOrigin(document), "given", partial=text.partial)


def _whole_draft(
    plan: Plan, origin: PlanOrigin, rung: str, settings: Settings, faults: JobErrors
) -> PlanDraft | None:
    """Return the draft of a plan with its sub-plans put in; None if one of them cannot be."""
    if not needs_expansion(plan):
        return PlanDraft(plan, origin, rung)
    expanded = plan_with_sub_plans(plan, origin.document, settings)
    faults.add(origin.place(expanded.faults), origin.document)
    if expanded.faults:
        return None
    return PlanDraft(expanded.plan, replace(origin, expanded=expanded), rung)


def plan_with_sub_plans(plan: Plan, document: Document, settings: Settings) -> ExpandedPlan:
    """Return a plan of a document with the sub-plans put in that its steps call; paths are relative
    to its file.
    """

    def read(name: str, folder: Path) -> SubPlan:
        return _read_sub_plan(name, folder, settings)

    own = os.path.normpath(document.source.name)
    return expand_plan(plan, Path(own).parent, read, (own,))


def allowed_sub_plans(
    template: GoalTemplate, document: Document, settings: Settings
) -> dict[str, SubPlan]:
    """Return the plans that a goal template lets a planner call, by name, with their own sub-plans
    put in.

    Raises:
        PlanError: one of them is faulty; with the place in the template that names it.
    """
    plans: dict[str, SubPlan] = {}
    faults: list[Diagnostic] = []
    for name, path in template.sub_plans.items():
        try:
            plans[name] = _whole_sub_plan(path, Path(document.source.name).parent, settings)
        except (PlanError, DocumentError) as error:
            faults += [
                make_diagnostic(
                    "E411",
                    f"/sub_plans/{name}",
                    f"the sub-plan {name!r} cannot be called: {text}",
                    hint,
                )
                for text, hint in reading_faults(error)
            ]
    if faults:
        raise PlanError(tuple(locate_diagnostics(faults, document)), document.source)
    return plans


def _whole_sub_plan(name: str, folder: Path, settings: Settings) -> SubPlan:
    """Return a sub-plan with its own sub-plans put in.

    Raises:
        DocumentError, PlanError: it is faulty.
    """
    source = _read_sub_plan(name, folder, settings)
    expanded = plan_with_sub_plans(source.plan, source.document, settings)
    if expanded.faults:
        raise PlanError(expanded.faults, source.document.source)
    return replace(source, plan=expanded.plan)


def signatures_of_sub_plans(
    plan: Plan, folder: Path, settings: Settings, tools: ToolSignatures
) -> dict[str, ToolSignature]:
    """Return the plans that a plan calls, by what its steps name, without those that are faulty."""
    signatures: dict[str, ToolSignature] = {}
    for name in {step.plan for step in plan.steps if step.plan is not None}:
        with suppress(PlanError, DocumentError):
            called = CheckContext(
                _whole_sub_plan(name, folder, settings).plan, None, tools, LIMITS_OF_OWN_PLANS
            )
            signatures[name] = called.as_signature(name)
    return signatures


def _read_sub_plan(name: str, folder: Path, settings: Settings) -> SubPlan:
    """Return the plan of a file, or of a goal template.

    Raises:
        DocumentError: there is no such file or template, or it is no document.
        PlanError: it is faulty, or the template has no plan.
    """
    path = template_path(name, folder, settings)
    if path is None:
        hint = suggest_name(name, template_names(settings), what="goal templates")
        fault = DocumentFault("unreadable_file", f"there is no goal template {name!r}", hint=hint)
        raise DocumentError(Source(name, ""), (fault,))
    path = Path(os.path.normpath(path))
    _check_stays_inside(name, path, folder, settings)
    document = read_document_file(path, named_from=folder)
    if not is_template(document):
        text = read_plan_document(document)
        if text.plan is None:
            raise PlanError(text.diagnostics, document.source)
        return SubPlan(text.plan, document, "", path.parent)
    template = read_model(document, GoalTemplate)
    plan = template.own_plan
    if plan is None:
        missing = Diagnostic("E105", f"the goal template {template.name!r} has no plan of its own")
        raise PlanError((missing,), document.source)
    goal = resolve_goal(Job(inputs=plan.inputs), template, inputs_follow=True)
    return SubPlan(
        bind_plan(plan, goal),
        document,
        "/plan" if template.fallback_plan is None else "/fallback_plan",
        path.parent,
        _declared_inputs(template, plan),
        frozenset(map(str, as_list(template.inputs_schema.get("required")))) - plan.inputs.keys(),
    )


def _check_stays_inside(name: str, path: Path, folder: Path, settings: Settings) -> None:
    """Refuse a path that leads out of the project, such as one of a symbolic link: what stands
    there would be quoted in the errors of a plan.

    Raises:
        DocumentError: it leads out of the project and out of the folder of the plan that names it.
    """
    whole = path.resolve()
    homes = (settings.root, folder, *settings.templates)
    if any(whole.is_relative_to(home.resolve()) for home in homes):
        return
    if path not in pack_templates().values():
        fault = DocumentFault(
            "unreadable_file",
            f"{name!r} leads out of the project",
            hint="name a plan of the project, or one beside the plan that calls it",
        )
        raise DocumentError(Source(name, ""), (fault,))


def _declared_inputs(template: GoalTemplate, plan: Plan) -> dict[str, JsonSchema]:
    named = properties_of(template.inputs_schema)
    return {
        **{name: {} for name in plan.inputs},
        **{name: as_object(schema) for name, schema in named.items()},
    }
