"""The options and checks of `wavewright check`: of a plan, a job's plan, a goal template, settings
or a worker.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from wavewright.config import Document, DocumentError, ReadLimits, Settings
from wavewright.config.documents import read_bytes, read_faulty_document
from wavewright.engine.interfaces.cli.common.arguments import project_settings
from wavewright.engine.run.jobs.documents import (
    is_agent,
    is_job,
    is_settings,
    is_template,
    is_worker,
    misuse_error,
    no_plan_error,
)
from wavewright.engine.run.jobs.inputs import InputOverrides
from wavewright.engine.run.jobs.plan_drafts import PlanDraft, plan_with_sub_plans
from wavewright.engine.run.jobs.resolving import ResolvedJob, file_stem, goal_of_file, resolve_job
from wavewright.engine.run.project.templates import named_template
from wavewright.engine.run.project.tools import (
    find_obstacles,
    signatures_to_check,
    tools_of_goal,
    tools_of_plan,
)
from wavewright.planner import (
    Diagnostic,
    Goal,
    GoalTemplate,
    Job,
    Limits,
    Plan,
    PlanError,
    PlanText,
    ToolSignatures,
    as_object,
    check,
    read_plan,
)
from wavewright.planner.checks.checker import (
    check_partial,
    check_values,
    errors_of_goal,
    in_file_order,
    refuse_faulty_goal,
)
from wavewright.planner.checks.feasibility import Obstacle, check_readiness
from wavewright.planner.checks.partial_plans import PartialPlan
from wavewright.planner.diagnostics.diagnostic import error_diagnostics, locate_diagnostics
from wavewright.planner.language.plan import LIMITS_OF_OWN_PLANS
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.goal_resolution import check_template
from wavewright.planner.plans.let_and_stop import with_let, with_stop
from wavewright.planner.plans.sub_plan_call import ExpandedPlan
from wavewright.planner.plans.sub_plans import needs_expansion
from wavewright.planner.reading.reader import (
    MODEL_LIMITS,
    read_model,
    read_model_answer,
    read_plan_document,
    read_tools_file,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wavewright.planner.ports.budgets import Allowance


_SETTINGS: Final = "settings"


@dataclass(frozen=True)
class CheckOptions:
    """What is checked, against which goal and tools, within which limits."""

    file: Path
    content: bytes | None = None
    """The document, if it is not read from the file; the file's path then only stands for it."""
    settings: Settings | None = None
    """Of the project; None for that of the working directory, or else of the file."""
    goal: str | None = None
    """A job file, or a goal template: its file or its name."""
    tools: Path | None = None
    from_model: bool = False
    is_strict: bool = False
    """Whether to tell what only a call shows."""
    max_steps: int | None = None
    max_waves: int | None = None
    max_bytes: int | None = None
    max_depth: int | None = None
    inputs: InputOverrides = field(default_factory=InputOverrides)
    """Values that replace inputs of a job or a plan."""
    approve: str | None = None
    """What the run would be given with `--approve`."""

    @cached_property
    def project(self) -> Settings:
        """Settings of the project, read when they are first asked for: a plan that is checked
        against a file of tools belongs to none.
        """
        if self.settings is not None:
            return self.settings
        return project_settings(self.file)

    @property
    def can_ask(self) -> bool:
        """Whether a person can be asked in the run."""
        if self.approve is None:
            return True
        # Few checks say who could be asked.
        from wavewright.engine.interfaces.cli.common.terminal import may_ask

        return may_ask(self.approve)

    @property
    def read_limits(self) -> ReadLimits:
        """Limits of the document's size and nesting."""
        limits = MODEL_LIMITS if self.from_model else ReadLimits()
        return ReadLimits(
            max_bytes=self.max_bytes or limits.max_bytes,
            max_depth=self.max_depth or limits.max_depth,
        )

    def read(self) -> tuple[bytes, str]:
        """Return the document's text and name.

        Raises:
            DocumentError: the file cannot be read.
        """
        if self.content is not None:
            return self.content, str(self.file) if self.settings is not None else self.file.name
        if str(self.file) == "-":
            return sys.stdin.buffer.read(), "<stdin>"
        return read_bytes(self.file, self.read_limits), str(self.file)


@dataclass(frozen=True, slots=True)
class CheckBasis:
    """A plan as its author wrote it, with the goal and tools that it is checked against."""

    plan: Plan
    goal: Goal | None
    tools: ToolSignatures
    limits: Limits
    allowance: Allowance | None
    """What a run of it may still spend; None without a project or a configured model."""
    document: Document | None = None
    """Its document; None if a model's answer was repaired."""
    obstacles: Mapping[str, Obstacle] = field(default_factory=dict[str, "Obstacle"])
    """Why tools cannot work in the project, by tool name."""
    can_ask: bool = True
    """Whether a person can be asked in a run."""
    is_strict: bool = False
    """Whether to tell what only a call shows."""

    def check(self, plan: Plan) -> tuple[Plan, tuple[Diagnostic, ...]]:
        """Return a plan bound to the goal, with its diagnostics."""
        if self.goal is not None:
            plan = bind_plan(plan, self.goal)
        diagnostics = check(
            plan,
            self.goal,
            self.tools,
            limits=self.limits,
            allowance=self.allowance,
            can_ask=self.can_ask,
            can_answer=self.can_ask,
        )
        if self.is_strict and not error_diagnostics(diagnostics):
            diagnostics += check_values(plan, self.goal, self.tools)
        return plan, tuple(
            in_file_order([*diagnostics, *check_readiness(plan, self.obstacles)], plan)
        )

    def check_partial(self, part: PartialPlan) -> Sequence[Diagnostic]:
        """Return the diagnostics of the valid part of a plan that has faults of shape."""
        return check_partial(
            part, self.goal, self.tools, limits=self.limits, allowance=self.allowance
        )


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
    called: frozenset[str] = frozenset()
    """The tools that a model may plan with, of a document without a plan."""

    @classmethod
    def without_plan(
        cls, document: Document, found: Iterable[Diagnostic], kind: str | None = None
    ) -> Self:
        """Return a document that has no plan, or none that can be checked, with its diagnostics."""
        return cls(PlanText(None, document.source, document), None, tuple(found), kind=kind)

    @property
    def documents(self) -> tuple[CheckedDocument, ...]:
        """The diagnostics of each document."""
        return (self, *self.others)

    @property
    def errors(self) -> int:
        """Number of errors in all documents."""
        return sum(len(error_diagnostics(document.diagnostics)) for document in self.documents)


def check_plan(options: CheckOptions) -> CheckedDocument:
    """Check a plan, the plan of a job or a goal template, or a goal template without one, with the
    prompts of the project that a run of it may render.

    Raises:
        CommandError, DocumentError: a file cannot be read.
    """
    checked = _check_document(options)
    if options.tools is not None or (checked.kind == _SETTINGS and checked.errors):
        return checked  # it belongs to no project, or to one whose settings cannot be read
    settings, called = options.project, None if checked.kind == _SETTINGS else checked.called
    if called is not None and settings.model is None:
        return checked  # nothing renders a prompt where no model is asked
    # Loads the template engine, which no check without a model needs.
    from wavewright.engine.interfaces.cli.project.project_checks import faulty_prompts

    faulty = faulty_prompts(settings, called, is_planned=checked.plan is not None)
    prompts = (
        CheckedDocument(PlanText(None, source), None, tuple(found)) for source, found in faulty
    )
    return replace(checked, others=(*checked.others, *prompts))


def _check_document(options: CheckOptions) -> CheckedDocument:
    content, name = options.read()
    limits = options.read_limits
    if options.from_model:
        text = read_model_answer(content, name, limits=limits)
    else:
        try:
            document = read_faulty_document(content, name, limits=limits)
        except DocumentError:
            text = read_plan(content, name, limits=limits)  # no plan, with the faults
        else:
            if is_settings(document) or is_agent(document) or is_worker(document):
                return _check_other(document, options)
            if is_job(document) or is_template(document):
                checked = _check_job(document, options, options.project)
                return _with_schedule(checked, document, options)
            text = read_plan_document(document)
    plan = text.plan or (text.partial.plan if text.partial is not None else None)
    if plan is None:
        return CheckedDocument(text, None, text.diagnostics)
    expanded = _with_sub_plans(text, options.inputs.applied_to_plan(plan), options)
    if expanded.faults:
        assert text.document is not None
        placed = locate_diagnostics([*text.diagnostics, *expanded.faults], text.document)
        return CheckedDocument(text, None, tuple(placed))
    try:
        goal = _goal(options, expanded.plan, text.document)
    except PlanError as error:
        return CheckedDocument(text, None, (*text.diagnostics, *error.diagnostics))
    if text.plan is None:
        return _check_partial(text, goal, options)
    return _check_plan(text, expanded, goal, options)


def _with_sub_plans(text: PlanText, plan: Plan, options: CheckOptions) -> ExpandedPlan:
    """Return a plan of a file with its sub-plans put in; a faulty one, or a model's, as it is."""
    if text.plan is None or text.document is None or not needs_expansion(plan):
        return ExpandedPlan(plan)
    if options.from_model:
        named, faults = with_let(plan)
        return ExpandedPlan(with_stop(named), faults=faults)
    return plan_with_sub_plans(plan, text.document, options.project)


def _check_other(document: Document, options: CheckOptions) -> CheckedDocument:
    """Check a settings file, an agent or a worker: a document without a plan."""
    from wavewright.engine.interfaces.cli.project.project_checks import (
        check_agent,
        check_settings,
        check_worker,
    )

    if is_settings(document):
        diagnostics, kind = check_settings(document, lambda: options.project), _SETTINGS
    elif is_agent(document):
        diagnostics, kind = check_agent(document, options.project), "an agent"
    else:
        diagnostics, kind = check_worker(document, options.project), "a worker"
    return CheckedDocument.without_plan(document, diagnostics, kind)


def _check_job(document: Document, options: CheckOptions, settings: Settings) -> CheckedDocument:
    """Check the plan of a job or of a goal template; faults of these documents are reported as a
    plan's are.

    A job without a plan is faulty only if no model is configured to make one.
    """
    try:
        order = resolve_job(
            document,
            options.file,
            None,
            settings,
            inputs_follow=True,
            judge=partial(_check_draft, options),
            inputs=options.inputs,
        )
        if is_template(document) and order.draft is None:
            return _check_template(document, options, order.goal)
        if order.draft is None:
            # Most jobs bring their plan.
            from wavewright.engine.run.jobs.goal_in_words import with_kept_plan

            order = with_kept_plan(order, settings)
        if order.draft is None and settings.model is None:
            raise no_plan_error(order.goal, order.source)
        if order.draft is None:
            refuse_faulty_goal(order.goal, _tools(options, None, order.goal))
            unplanned = CheckedDocument.without_plan(document, ())
            return replace(unplanned, called=order.goal.tool_names)
    except PlanError as error:
        first, *others = (
            CheckedDocument(PlanText(None, fault.source, document), None, fault.diagnostics)
            for fault in (error, *error.others)
        )
        return replace(first, others=tuple(others))
    draft, origin = order.draft, order.draft.origin
    text = PlanText(draft.plan, origin.document.source, origin.document)
    basis = _run_basis(options, draft.plan, order.goal)
    goal, unfound = _check_expansion(order, basis.tools)
    basis = replace(basis, goal=goal, document=origin.document)
    plan, diagnostics = basis.check(draft.plan)
    own = (
        _check_template(document, options, order.goal).diagnostics if is_template(document) else ()
    )
    own_codes = {error.code for error in own}
    diagnostics = origin.place(
        [
            diagnostic
            for diagnostic in diagnostics
            if not (diagnostic.code in own_codes and _is_of_goal(diagnostic, draft.plan))
        ]
    )
    if (
        unfound
        and order.expansion is not None
        and order.expansion.origin.document is not origin.document
    ):
        # Its place is in another document than the plan.
        other = CheckedDocument.without_plan(order.expansion.origin.document, unfound)
        return CheckedDocument(text, plan, diagnostics, basis, others=(other,))
    diagnostics = (*diagnostics, *unfound)
    if is_template(document):
        diagnostics = tuple(locate_diagnostics([*own, *diagnostics], document))
    return CheckedDocument(text, plan, diagnostics, None if origin.expanded is not None else basis)


def _is_of_goal(diagnostic: Diagnostic, plan: Plan) -> bool:
    """Whether a diagnostic of a bound plan is of a gate or a cap that the goal has added."""
    _, field, number, *_ = [*diagnostic.pointer.split("/"), "", ""]
    written = {"gates": plan.gates, "caps": plan.caps}.get(field)
    return written is not None and number.isdigit() and int(number) >= len(written)


def _with_schedule(
    checked: CheckedDocument, document: Document, options: CheckOptions
) -> CheckedDocument:
    """Return a checked job with what is wrong with the inputs of its own schedule."""
    if checked.errors or not is_job(document) or "schedule" not in as_object(document.value):
        return checked
    # Imported here: most jobs have no schedule, and a check is fast.
    from wavewright.engine.service.schedules.project_schedules import fault_of_job

    terms = read_model(document, Job).schedule
    if terms is None or not terms.inputs:
        return checked
    judge = partial(_check_draft, options)
    fault = fault_of_job(terms, document, options.file, options.project, judge)
    if not fault:
        return checked
    diagnostics = locate_diagnostics([Diagnostic("E107", fault, "/schedule/inputs")], document)
    return replace(
        checked, others=(*checked.others, CheckedDocument.without_plan(document, diagnostics))
    )


def _check_expansion(
    order: ResolvedJob, tools: ToolSignatures
) -> tuple[Goal, tuple[Diagnostic, ...]]:
    """Return the goal as further targets have it, and what is wrong with how they are found."""
    if order.expansion is None:
        return order.goal, ()
    # Few jobs find further targets.
    from wavewright.engine.run.found_targets import (
        check_expansion_of_job,
        goal_of_found_targets,
    )

    return goal_of_found_targets(order, tools), check_expansion_of_job(order, tools)


def _check_draft(options: CheckOptions, draft: PlanDraft, goal: Goal) -> tuple[Diagnostic, ...]:
    """Return the errors of a plan in a job that has other faults."""
    basis = _basis(options, draft.plan, goal)
    if draft.partial is not None:
        return tuple(basis.check_partial(draft.partial))
    return tuple(error_diagnostics(basis.check(draft.plan)[1]))


def _check_template(document: Document, options: CheckOptions, goal: Goal) -> CheckedDocument:
    """Check what a goal template says of tools, rules and gates; its plan, if it has one, is not
    checked.
    """
    # With no steps the tools are those of the template, and all where one of them does not exist.
    tools = _tools(options, Plan(steps=()), goal)
    # Inputs that a template does not declare come with a job.
    knows_inputs = "properties" in goal.inputs_schema
    diagnostics = check_template(read_model(document, GoalTemplate), tools) + [
        error for error in errors_of_goal(goal, tools) if knows_inputs or error.code != "E302"
    ]
    checked = CheckedDocument.without_plan(document, locate_diagnostics(diagnostics, document))
    return replace(checked, called=goal.tool_names)


def _check_plan(
    text: PlanText, expanded: ExpandedPlan, goal: Goal | None, options: CheckOptions
) -> CheckedDocument:
    basis = _run_basis(options, expanded.plan, goal)
    basis = replace(basis, document=None if text.repairs else text.document)
    plan, diagnostics = basis.check(expanded.plan)
    diagnostics = tuple(expanded.place(diagnostics))
    placed = (
        tuple(locate_diagnostics(diagnostics, text.document))
        if text.document is not None
        else diagnostics
    )
    # An editor of the text cannot fix what stands in a sub-plan.
    return CheckedDocument(
        text, plan, (*text.diagnostics, *placed), None if expanded.places else basis
    )


def _check_partial(text: PlanText, goal: Goal | None, options: CheckOptions) -> CheckedDocument:
    """Check the valid part of a plan that has faults of shape."""
    assert text.partial is not None
    assert text.document is not None
    further = _basis(options, text.partial.plan, goal).check_partial(text.partial)
    placed = locate_diagnostics([*text.diagnostics, *further], text.document)
    return CheckedDocument(text, None, tuple(placed))


def _run_basis(options: CheckOptions, plan: Plan, goal: Goal | None) -> CheckBasis:
    """Return what a plan is checked against, with the tools and the people that a run of it would
    lack.

    Why tools cannot work is unknown of those that are given as signatures.
    """
    basis = replace(_basis(options, plan, goal), can_ask=options.can_ask)
    if options.tools is not None:
        return basis
    return replace(basis, obstacles=find_obstacles(plan, basis.tools, options.project))


def _basis(options: CheckOptions, plan: Plan, goal: Goal | None) -> CheckBasis:
    """Return what a plan is checked against, without what a run of it would lack."""
    tools, allowance = _tools(options, plan, goal), _allowance(options, plan, goal)
    # See "A plan that a person wrote" in docs/explanation/semantics.md.
    of_author = Limits() if options.from_model else LIMITS_OF_OWN_PLANS
    limits = goal.limits if goal is not None else of_author
    caps = {"max_steps": options.max_steps, "max_waves": options.max_waves}
    limits = limits.model_copy(
        update={name: value for name, value in caps.items() if value is not None}
    )
    return CheckBasis(plan, goal, tools, limits, allowance, is_strict=options.is_strict)


def _allowance(options: CheckOptions, plan: Plan, goal: Goal | None) -> Allowance | None:
    """Return what a run of the plan may still spend; None for a plan that is checked against a file
    of tools.
    """
    if options.tools is not None and goal is None:
        return None
    settings = options.project
    if settings.model is None:
        return None
    # Without a model nothing has a budget.
    from wavewright.engine.rehearsal.dry_run.outlook import read_remaining_allowance

    return read_remaining_allowance(
        plan, goal, settings, job=goal.job if goal is not None else file_stem(options.file)
    )


def _goal(options: CheckOptions, plan: Plan, document: Document | None) -> Goal | None:
    if options.goal is None:
        return None
    settings = options.project
    file = named_template(options.goal, settings) or Path(options.goal)
    return goal_of_file(file, plan, document, settings)


def _tools(options: CheckOptions, plan: Plan | None, goal: Goal | None) -> ToolSignatures:
    if options.tools is not None:
        try:
            return read_tools_file(options.tools)
        except PlanError as error:
            raise misuse_error(error) from error
    settings = options.project
    if goal is not None and plan is not None:
        return signatures_to_check(plan, goal, settings)
    if goal is not None:
        return tools_of_goal(goal, settings).signatures
    return tools_of_plan(plan, settings).signatures if plan is not None else {}
