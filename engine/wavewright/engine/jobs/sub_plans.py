"""Read the plans that steps of other plans call: files, and goal templates with a plan."""

from __future__ import annotations

import os
from pathlib import Path

from wavewright.config.documents import Document, read_document_file
from wavewright.config.settings import Settings
from wavewright.config.sources import DocumentError, DocumentFault, Source
from wavewright.engine.jobs.document_kinds import is_template
from wavewright.engine.project.templates import template_names, template_path
from wavewright.planner.diagnostics.diagnostic import (
    Diagnostic,
    PlanError,
    locate_diagnostics,
    make_diagnostic,
)
from wavewright.planner.diagnostics.suggestions import suggest_name
from wavewright.planner.language.goals import GoalTemplate, Job
from wavewright.planner.language.plan import Plan
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.expanded_plan import ExpandedPlan, SubPlan
from wavewright.planner.plans.goal_resolution import resolve_goal
from wavewright.planner.plans.sub_plans import expand_plan, reading_faults
from wavewright.planner.reading.reader import read_model, read_plan_document
from wavewright.planner.types import JsonSchema, as_object


def plan_with_sub_plans(plan: Plan, document: Document, settings: Settings) -> ExpandedPlan:
    """Return a plan of a document with the sub-plans put in that its steps call; paths are relative to its file."""

    def read(name: str, folder: Path) -> SubPlan:
        return _read_sub_plan(name, folder, settings)

    own = os.path.normpath(document.source.name)
    return expand_plan(plan, Path(own).parent, read, (own,))


def allowed_sub_plans(template: GoalTemplate, document: Document, settings: Settings) -> dict[str, Plan]:
    """Return the plans that a goal template lets a planner call, by name, with their own sub-plans put in.

    Raises:
        PlanError: one of them is faulty; with the place in the template that names it.
    """
    found: dict[str, Plan] = {}
    faults: list[Diagnostic] = []
    for name, path in template.sub_plans.items():
        try:
            found[name] = _whole_sub_plan(path, Path(document.source.name).parent, settings)
        except (PlanError, DocumentError) as error:
            faults += [
                make_diagnostic(
                    "E411", f"/sub_plans/{name}", f"the sub-plan {name!r} cannot be called: {text}", hint
                )
                for text, hint in reading_faults(error)
            ]
    if faults:
        raise PlanError(tuple(locate_diagnostics(faults, document)), document.source)
    return found


def _whole_sub_plan(name: str, folder: Path, settings: Settings) -> Plan:
    """Return a sub-plan with its own sub-plans put in.

    Raises:
        DocumentError, PlanError: it is faulty.
    """
    source = _read_sub_plan(name, folder, settings)
    expanded = plan_with_sub_plans(source.plan, source.document, settings)
    if expanded.faults:
        raise PlanError(expanded.faults, source.document.source)
    return expanded.plan


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
    document = read_document_file(path)
    if not is_template(document):
        text = read_plan_document(document)
        if text.plan is None:
            raise PlanError(text.diagnostics, document.source)
        return SubPlan(text.plan, document, "", path.parent)
    template = read_model(document, GoalTemplate)
    if template.plan is None:
        missing = Diagnostic("E105", f"the goal template {template.name!r} has no plan of its own")
        raise PlanError((missing,), document.source)
    goal = resolve_goal(Job(inputs=template.plan.inputs), template, inputs_follow=True)
    return SubPlan(
        bind_plan(template.plan, goal, {}), document, "/plan", path.parent, _declared_inputs(template)
    )


def _declared_inputs(template: GoalTemplate) -> dict[str, JsonSchema]:
    named = as_object(template.inputs_schema.get("properties"))
    assert template.plan is not None
    return {
        **{name: {} for name in template.plan.inputs},
        **{name: as_object(schema) for name, schema in named.items()},
    }
