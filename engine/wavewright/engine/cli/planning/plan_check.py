"""The checks of `wavewright check`: of a plan, a job's plan, a goal template, a settings file or a worker."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.config.documents import Document, read_faulty_document
from wavewright.config.sources import DocumentError
from wavewright.engine.cli.planning.check_options import CheckOptions
from wavewright.engine.jobs.documents import is_agent, is_job, is_settings, is_template, is_worker
from wavewright.planner.checks.checker import check, check_partial, in_file_order
from wavewright.planner.checks.feasibility import Obstacle, check_readiness
from wavewright.planner.diagnostics.diagnostic import (
    Diagnostic,
    PlanError,
    error_diagnostics,
    locate_diagnostics,
)
from wavewright.planner.language.plan import Limits, Plan
from wavewright.planner.reading.reader import (
    PlanText,
    read_model_answer,
    read_plan,
    read_plan_document,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavewright.config.settings import Settings
    from wavewright.engine.jobs.plan_drafts import PlanDraft
    from wavewright.engine.jobs.resolving import DraftChecker, ResolvedJob
    from wavewright.planner.language.goals import Goal
    from wavewright.planner.language.signatures import ToolSignature
    from wavewright.planner.plans.expanded_plan import ExpandedPlan
    from wavewright.planner.ports.budgets import Allowance


@dataclass(frozen=True, slots=True)
class CheckBasis:
    """A plan as its author wrote it, with the goal and tools that it is checked against."""

    plan: Plan
    document: Document | None
    """Its document; None if a model's answer was repaired."""
    pointer: str
    """Pointer to the plan in that document."""
    goal: Goal | None
    tools: Mapping[str, ToolSignature]
    limits: Limits
    rung: str = "given"
    allowance: Allowance | None = None
    """What a run of it may still spend; None without a project or a configured model."""
    obstacles: Mapping[str, Obstacle] = field(default_factory=dict[str, "Obstacle"])
    """Why tools cannot work in the project, by tool name."""
    can_ask: bool = True
    """Whether a person can be asked in a run."""

    def check(self, plan: Plan) -> tuple[Plan, tuple[Diagnostic, ...]]:
        """Return a plan bound to the goal, with its diagnostics."""
        if self.goal is not None:
            from wavewright.planner.plans.binding import bind_plan

            plan = bind_plan(plan, self.goal, self.tools)
        found = check(
            plan,
            self.goal,
            self.tools,
            limits=self.limits,
            allowance=self.allowance,
            can_ask=self.can_ask,
            can_answer=self.can_ask,
        )
        return plan, tuple(in_file_order([*found, *check_readiness(plan, self.obstacles)], plan))


@dataclass(frozen=True, slots=True)
class CheckedDocument:
    """A checked plan with its diagnostics."""

    text: PlanText
    plan: Plan | None
    """The plan as it was checked: bound to its goal if there is one."""
    diagnostics: tuple[Diagnostic, ...]
    basis: CheckBasis | None = None
    """What the plan was checked against, if it was."""
    kind: str | None = None
    """The kind of the document, if it is neither a plan, a job nor a goal template."""
    others: tuple[CheckedDocument, ...] = ()
    """Further documents of a job that have faults."""

    @property
    def documents(self) -> tuple[CheckedDocument, ...]:
        """The diagnostics of each document."""
        return (self, *self.others)

    @property
    def errors(self) -> int:
        """Number of errors in all documents."""
        return sum(len(error_diagnostics(one.diagnostics)) for one in self.documents)


def check_plan(options: CheckOptions) -> CheckedDocument:
    """Check a plan, the plan of a job or a goal template, or a goal template without one.

    Raises:
        CommandError, DocumentError: a file cannot be read.
    """
    content, name = options.read()
    limits = options.read_limits
    if options.from_model:
        text = read_model_answer(content, name, limits=limits)
    else:
        try:
            document = read_faulty_document(content, name, limits=limits)
        except DocumentError:
            text = read_plan(content, name, limits=limits)  # raises PlanError with the faults
        else:
            if is_settings(document) or is_agent(document) or is_worker(document):
                return _check_other(document, options)
            if is_job(document) or is_template(document):
                return _check_job(document, options, _settings(options))
            text = read_plan_document(document)
    plan = text.plan or (text.partial.plan if text.partial is not None else None)
    if plan is None:
        return CheckedDocument(text, None, text.diagnostics)
    plan = options.inputs.applied_to_plan(plan)
    expanded = _with_sub_plans(text, plan, options)
    if expanded.faults:
        assert text.document is not None
        placed = locate_diagnostics([*text.diagnostics, *expanded.faults], text.document)
        return CheckedDocument(text, None, tuple(placed))
    plan = expanded.plan
    try:
        goal = _goal(options, plan, text.document)
    except PlanError as error:
        return CheckedDocument(text, None, (*text.diagnostics, *error.diagnostics))
    tools = _tools(options, plan, goal)
    if text.plan is None:
        return _check_partial(text, goal, tools, options)
    return _check_plan(text, expanded, goal, tools, options)


def _with_sub_plans(text: PlanText, plan: Plan, options: CheckOptions) -> ExpandedPlan:
    """Return a plan of a file with its sub-plans put in; a faulty one, or a model's, as it is."""
    from wavewright.planner.plans.expanded_plan import ExpandedPlan

    calls_any = any(step.plan is not None for step in plan.steps)
    if text.plan is None or text.document is None or options.from_model or not calls_any:
        return ExpandedPlan(plan)
    from wavewright.engine.jobs.plan_drafts import plan_with_sub_plans

    return plan_with_sub_plans(plan, text.document, _settings(options))


def _check_other(document: Document, options: CheckOptions) -> CheckedDocument:
    """Check a settings file, an agent or a worker: a document without a plan."""
    from wavewright.engine.cli.project.project_checks import check_agent, check_settings, check_worker

    text = PlanText(None, document.source, document)
    if is_settings(document):
        found = check_settings(document, lambda: _settings(options))
        return CheckedDocument(text, None, found, kind="settings")
    if is_agent(document):
        return CheckedDocument(text, None, check_agent(document, _settings(options)), kind="an agent")
    return CheckedDocument(text, None, check_worker(document, _settings(options)), kind="a worker")


def _check_job(document: Document, options: CheckOptions, settings: Settings) -> CheckedDocument:
    """Check the plan of a job or of a goal template; faults of these documents are reported as a plan's are.

    A job without a plan is faulty only if no model is configured to make one.
    """
    from wavewright.engine.jobs.documents import no_plan_error
    from wavewright.engine.jobs.resolving import resolve_job

    try:
        order = resolve_job(
            document,
            options.file,
            None,
            settings,
            inputs_follow=True,
            judge=_draft_checker(options),
            inputs=options.inputs,
        )
        if is_template(document) and order.draft is None:
            return _check_template(document, options, order.goal)
        if order.draft is None and settings.model is None:
            raise no_plan_error(order.goal, order.source)
        if order.draft is None:
            return CheckedDocument(PlanText(None, document.source, document), None, ())
    except PlanError as error:
        return _checked_with_errors(error, document)
    draft = order.draft
    origin = draft.origin
    text = PlanText(draft.plan, origin.document.source, origin.document)
    tools = _tools(options, draft.plan, order.goal)
    limits, allowance = _limits(options, order.goal), _allowance(options, draft.plan, order.goal)
    obstacles = _obstacles(options, draft.plan, tools)
    goal, unfound = _check_expansion(order, tools)
    basis = CheckBasis(
        draft.plan,
        origin.document,
        origin.pointer,
        goal,
        tools,
        limits,
        draft.rung,
        allowance,
        obstacles,
        options.can_ask,
    )
    plan, found = basis.check(draft.plan)
    found = origin.place(found)
    if unfound and order.expansion is not None and order.expansion.origin.document is not origin.document:
        # Its place is in another document than the plan.
        other = order.expansion.origin.document
        others = (CheckedDocument(PlanText(None, other.source, other), None, unfound),)
        return CheckedDocument(text, plan, found, basis, others=others)
    found = (*found, *unfound)
    if is_template(document):
        own = _check_template(document, options, order.goal).diagnostics
        found = tuple(locate_diagnostics([*own, *found], document))
    return CheckedDocument(text, plan, found, None if origin.expanded is not None else basis)


def _check_expansion(
    order: ResolvedJob, tools: Mapping[str, ToolSignature]
) -> tuple[Goal, tuple[Diagnostic, ...]]:
    """Return the goal as further targets have it, and what is wrong with how they are found."""
    if order.expansion is None:
        return order.goal, ()
    from wavewright.engine.targets.root_run import check_expansion_of_job, goal_of_found_targets

    return goal_of_found_targets(order, tools), check_expansion_of_job(order, tools)


def _draft_checker(options: CheckOptions) -> DraftChecker:
    """Return the checker of a plan in a job that has other faults."""

    def check_draft(draft: PlanDraft, goal: Goal) -> tuple[Diagnostic, ...]:
        tools, limits = _tools(options, draft.plan, goal), _limits(options, goal)
        allowance = _allowance(options, draft.plan, goal)
        if draft.partial is not None:
            return tuple(check_partial(draft.partial, goal, tools, limits=limits, allowance=allowance))
        _, found = CheckBasis(draft.plan, None, "", goal, tools, limits, allowance=allowance).check(
            draft.plan
        )
        return tuple(error_diagnostics(found))

    return check_draft


def _checked_with_errors(error: PlanError, document: Document) -> CheckedDocument:
    """Return the diagnostics of an unusable job, by document."""
    first, *others = (
        CheckedDocument(PlanText(None, one.source, document), None, one.diagnostics)
        for one in (error, *error.others)
    )
    return replace(first, others=tuple(others))


def _check_template(document: Document, options: CheckOptions, goal: Goal) -> CheckedDocument:
    """Check what a goal template says of tools, rules and gates; its plan, if it has one, is not checked."""
    from wavewright.planner.language.goals import GoalTemplate
    from wavewright.planner.plans.goal_resolution import check_template
    from wavewright.planner.reading.reader import read_model

    template = read_model(document, GoalTemplate)
    found = check_template(template, _tools(options, None, goal))
    return CheckedDocument(
        PlanText(None, document.source, document), None, tuple(locate_diagnostics(found, document))
    )


def _check_plan(
    text: PlanText,
    expanded: ExpandedPlan,
    goal: Goal | None,
    tools: Mapping[str, ToolSignature],
    options: CheckOptions,
) -> CheckedDocument:
    own = expanded.plan
    document = None if text.repairs else text.document
    allowance = _allowance(options, own, goal)
    obstacles, limits = _obstacles(options, own, tools), _limits(options, goal)
    basis = CheckBasis(
        own,
        document,
        "",
        goal,
        tools,
        limits,
        allowance=allowance,
        obstacles=obstacles,
        can_ask=options.can_ask,
    )
    plan, found = basis.check(own)
    found = tuple(map(expanded.place, found))
    placed = tuple(locate_diagnostics(found, text.document)) if text.document is not None else found
    # An editor of the text cannot fix what stands in a sub-plan.
    return CheckedDocument(text, plan, (*text.diagnostics, *placed), None if expanded.places else basis)


def _check_partial(
    text: PlanText, goal: Goal | None, tools: Mapping[str, ToolSignature], options: CheckOptions
) -> CheckedDocument:
    """Check the valid part of a plan that has faults of shape."""
    assert text.partial is not None
    assert text.document is not None
    limits, allowance = _limits(options, goal), _allowance(options, text.partial.plan, goal)
    further = check_partial(text.partial, goal, tools, limits=limits, allowance=allowance)
    return CheckedDocument(
        text, None, tuple(locate_diagnostics([*text.diagnostics, *further], text.document))
    )


def _settings(options: CheckOptions) -> Settings:
    """Return the project's settings; a plan that is checked against a file of tools belongs to no project."""
    from wavewright.engine.cli.common.arguments import project_settings

    return project_settings(options.file)


def _limits(options: CheckOptions, goal: Goal | None) -> Limits:
    limits = goal.limits if goal is not None else Limits()
    given = {"max_steps": options.max_steps, "max_waves": options.max_waves}
    return limits.model_copy(update={name: value for name, value in given.items() if value is not None})


def _allowance(options: CheckOptions, plan: Plan, goal: Goal | None) -> Allowance | None:
    """Return what a run of the plan may still spend; None for a plan that is checked against a file of tools."""
    if options.tools is not None and goal is None:
        return None
    settings = _settings(options)
    if settings.model is None:
        return None
    from wavewright.engine.dry_run.outlook import read_remaining_allowance
    from wavewright.engine.jobs.resolving import file_stem

    return read_remaining_allowance(
        plan, goal, settings, job=goal.job if goal is not None else file_stem(options.file)
    )


def _obstacles(
    options: CheckOptions, plan: Plan, tools: Mapping[str, ToolSignature]
) -> Mapping[str, Obstacle]:
    """Return why tools of the plan cannot work; unknown for tools that are given as signatures."""
    if options.tools is not None:
        return {}
    from wavewright.engine.project.tools import find_obstacles

    return find_obstacles(plan, tools, _settings(options))


def _goal(options: CheckOptions, plan: Plan, document: Document | None) -> Goal | None:
    if options.goal is None:
        return None
    from wavewright.engine.jobs.resolving import goal_of_file
    from wavewright.engine.project.templates import named_template

    settings = _settings(options)
    file = named_template(options.goal, settings) or Path(options.goal)
    return goal_of_file(file, plan, document, settings)


def _tools(options: CheckOptions, plan: Plan | None, goal: Goal | None) -> Mapping[str, ToolSignature]:
    if options.tools is not None:
        from wavewright.planner.reading.reader import read_tools_file

        try:
            return read_tools_file(options.tools)
        except PlanError as error:
            from wavewright.engine.jobs.documents import misuse_error

            raise misuse_error(error) from error
    from wavewright.engine.project.tools import signatures_to_check, tools_of_goal, tools_of_plan

    settings = _settings(options)
    if goal is not None and plan is not None:
        return signatures_to_check(plan, goal, settings)
    if goal is not None:
        return tools_of_goal(goal, settings).signatures
    return tools_of_plan(plan, settings).signatures if plan is not None else {}
