"""From files to a goal: jobs, goal templates, and where plans come from.

A *job file* is YAML, JSON or TOML. A plan file may stand in its place, and then the plan may use
what the project has; so may a goal template that carries a plan of its own. Every fault is reported
at its place in the file that holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from wavewright.config import Document, DocumentError, Settings, Source, read_document_file
from wavewright.config.documents import read_bytes, read_faulty_document
from wavewright.config.sources import pointer_token
from wavewright.engine.run.jobs.documents import (
    JobErrors,
    is_job,
    is_saved_plan,
    is_template,
    misuse_error,
    no_plan_error,
    refuse_unknown_preference,
    without_unknown_packs,
)
from wavewright.engine.run.jobs.inputs import TARGET, InputOverrides, first_target, inputs_of_target
from wavewright.engine.run.jobs.plan_drafts import (
    AUTO_PLAN,
    PlanDraft,
    PlanOrigin,
    allowed_sub_plans,
    draft_of_job,
    plan_draft,
    template_draft,
)
from wavewright.engine.run.project.templates import read_template_document, template_names
from wavewright.engine.run.project.tools import (
    agent_tools,
    packs_of_project,
    signatures_to_check,
)
from wavewright.planner import (
    Diagnostic,
    Goal,
    GoalTemplate,
    Job,
    JsonObject,
    Limits,
    Plan,
    PlanError,
)
from wavewright.planner.checks.checker import check_partial, errors_in
from wavewright.planner.diagnostics.diagnostic import make_diagnostic
from wavewright.planner.language.goals import AvailableTool, JobTargets
from wavewright.planner.language.plan import (
    LIMITS_OF_OWN_PLANS,
    SUB_PLAN,
    dispatched_tools,
    step_tools,
)
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.goal_resolution import resolve_goal, unknown_names, unknown_tools
from wavewright.planner.plans.sub_plan_call import SubPlan
from wavewright.planner.reading.reader import read_model

_NO_OVERRIDES = InputOverrides()


DraftChecker: TypeAlias = Callable[[PlanDraft, Goal], Iterable[Diagnostic]]
"""Returns the diagnostics of a plan, with pointers into it."""


@dataclass(frozen=True, slots=True)
class TargetExpansion:
    """The expression that finds further targets, with its place."""

    text: str
    origin: PlanOrigin
    pointer: str = "/targets/expand"


@dataclass(frozen=True, slots=True)
class ResolvedJob:
    """A job with its templates and files resolved: the goal, and the plan for it, if there is one."""

    goal: Goal
    draft: PlanDraft | None
    source: Source
    targets: JobTargets | None = None
    """Of a job that runs once for each of several targets; the goal is then that of its first one.
    """
    expansion: TargetExpansion | None = None
    """How further targets are found, if the job may have some."""
    file: Path | None = None
    """The file that it was read from, or that of the plan which replaced its own; permits lie
    beside it.
    """

    def require_draft(self) -> PlanDraft:
        """Return the plan for it.

        Raises:
            PlanError: there is none.
        """
        if self.draft is None:
            raise no_plan_error(self.goal, self.source)
        return self.draft


def resolve_job_file(
    file: Path, plan_file: Path | None, settings: Settings, inputs: InputOverrides = _NO_OVERRIDES
) -> ResolvedJob:
    """Read a job (or a plan, a saved plan, or a goal template with a plan, in its place).

    Raises:
        DocumentError: a file is missing or is no document.
        PlanError: a document is not valid; each fault has its place.
        SavedPlanError: a saved plan was changed, or a tool that it calls has changed since.
    """
    document = read_faulty_document(read_bytes(file), str(file))
    return resolve_job(document, file, plan_file, settings, inputs=inputs)


def resolve_job(
    document: Document,
    file: Path,
    plan_file: Path | None,
    settings: Settings,
    *,
    inputs_follow: bool = False,
    judge: DraftChecker | None = None,
    inputs: InputOverrides = _NO_OVERRIDES,
) -> ResolvedJob:
    """Return the resolved job of a document.

    Args:
        document: The job, or a plan or goal template in its place.
        file: Its path; paths in the document are relative to it.
        plan_file: A plan that replaces the job's.
        settings: Settings of the project.
        inputs_follow: Whether missing inputs are allowed: those of a goal template come with a job.
        judge: Finds the faults of the plan if the documents have faults, so that all are raised
            together; by default with the tools of the project. The plan of a job without faults is
            checked by the caller.
        inputs: Inputs that replace those of the job.

    Raises:
        DocumentError, PlanError, SavedPlanError: as in `resolve_job_file`.
    """
    if is_saved_plan(document):
        if document.faults:
            raise DocumentError(document.source, document.faults)
        saved = _resolve_saved_plan(document, plan_file, settings, inputs)
        return replace(saved, file=plan_file or file)
    faults = JobErrors()
    parts = _read_parts(document, file, plan_file, settings, faults)
    draft = parts.draft
    if parts.template is None and draft is None:
        if not parts.names_any:
            faults.add([_NAMES_NOTHING], document)
        faults.raise_all()
    template = parts.template or _own_template(parts.job, draft, settings)
    plan = None if draft is None else draft.plan
    job = faults.collect(lambda: inputs.applied_to_job(parts.job, template, plan)) or parts.job
    faults.collect(
        lambda: refuse_unknown_preference(
            job, document, template, parts.template_document, settings
        )
    )
    # Of a template that is checked as such, all that it names is looked at.
    if parts.template is not None and not (inputs_follow and is_template(document)):
        faults.add([*unknown_names(parts.template)], parts.template_document)
    targets = _job_targets(job, template)
    if targets is not None:
        faults.add([*_inputs_in_vain(job, template)], document)
        job = _with_first_target(job, template, targets)
    # Inputs of a goal template come with a job; a faulty document may have more than can be read.
    may_lack_inputs = (inputs_follow and is_template(document)) or not parts.knows_inputs
    goal = faults.collect(
        lambda: resolve_goal(job, template, document, inputs_follow=may_lack_inputs)
    )
    if goal is None:
        # What could be read is enough to look for faults of the plan.
        goal = _partial_goal(job, template)
    if goal is not None:
        sub_plans = faults.collect(lambda: _sub_plans(parts, settings)) or {}
        goal = _with_packs(goal, job, file, settings)
        goal = _with_sub_plans(goal, sub_plans)
        goal = goal.model_copy(update={"origin": _origin(file, settings)})
        goal = _with_engine_tools(goal, draft)
        faults.add([*_unknown_overriding_tools(job, goal, settings)], document)
    if faults and goal is not None and draft is not None:
        # Faults of the plan are raised together with those of the documents, but for inputs that
        # are absent: they may stand in what could not be read.
        diagnostics = (judge or draft_checker(settings))(draft, goal)
        certain = [fault for fault in diagnostics if parts.knows_inputs or fault.code != "E302"]
        faults.add(draft.origin.place(certain), draft.origin.document)
    faults.raise_all()
    assert goal is not None
    return ResolvedJob(
        goal,
        draft,
        document.source,
        targets,
        expansion=_expansion(job, template, parts, document, targets),
        file=plan_file or file,
    )


@dataclass(frozen=True, slots=True)
class _JobParts:
    """The valid parts of a job's documents."""

    job: Job
    template: GoalTemplate | None
    template_document: Document
    draft: PlanDraft | None
    names_any: bool
    """Whether the job has a template, a plan or a goal in words, also in a misspelled field."""
    knows_inputs: bool
    """Whether all inputs that the plan may read are known."""


def _read_parts(
    document: Document, file: Path, plan_file: Path | None, settings: Settings, faults: JobErrors
) -> _JobParts:
    draft: PlanDraft | None = None
    if plan_file is not None:
        draft = faults.collect(lambda: plan_draft(read_document_file(plan_file), settings, faults))
    if is_template(document):
        template, _ = faults.read(document, GoalTemplate)
        return _JobParts(
            Job(name=_name_of(template, file)),
            template,
            document,
            draft or template_draft(template, document, settings, faults),
            names_any=True,
            knows_inputs=template is not None,
        )
    if is_job(document):
        return _parts_of_job(document, file, draft, settings, faults)
    draft = draft or plan_draft(document, settings, faults)
    job = Job(name=file_stem(file))
    if draft is not None:
        plan = draft.plan
        job = Job(name=_name_of_plan(plan, file), goal=plan.goal, inputs=plan.inputs)
    return _JobParts(job, None, document, draft, names_any=True, knows_inputs=True)


def _parts_of_job(
    document: Document,
    file: Path,
    draft: PlanDraft | None,
    settings: Settings,
    faults: JobErrors,
) -> _JobParts:
    """Return the parts of a job's own document, with `draft` in place of its plan if there is one."""
    read, unread = faults.read(document, Job)
    job = without_unknown_packs(read or Job(), document, faults)
    if draft is None:
        draft = faults.collect(lambda: draft_of_job(job, file, document, settings, faults))
    template: GoalTemplate | None = None
    template_document = document
    name = job.goal_template
    if name is not None:
        named = faults.collect(
            lambda: read_template_document(name, file.parent, document, settings)
        )
        if named is not None:
            template, _ = faults.read(named, GoalTemplate)
            template_document = named
            draft = draft or template_draft(
                template, named, settings, faults, is_planned=job.plan == AUTO_PLAN
            )
    elif job.goal and (words := job.goal.strip()) in template_names(settings):
        message = f"the goal {words!r} is the name of a goal template, which it would not follow"
        hint = f"write 'goal_template: {words}', or a goal of more words"
        faults.add([make_diagnostic("E107", "/goal", message, hint)], document)
    if job.name is None:
        job = job.model_copy(update={"name": _name_of(template, file)})
    lacks_template = name is not None and template is None
    return _JobParts(
        job,
        template,
        template_document,
        draft,
        names_any=bool(name or job.plan or job.goal or unread & {"goal_template", "plan", "goal"}),
        knows_inputs=not lacks_template and not unread & _INPUT_FIELDS,
    )


_INPUT_FIELDS = frozenset({"inputs", "variables", "benchmarks", "targets", "goal_template"})
"""Fields of a job on which the inputs depend."""
_NAMES_NOTHING = Diagnostic(
    code="E105",
    message="the job has neither a goal template nor a plan, nor a goal in words",
    hint="add 'goal_template: NAME' or 'plan: FILE', or 'goal: WORDS' for a model to plan",
)


def _origin(file: Path, settings: Settings) -> str:
    """Return which file a job comes from, for telling jobs of one name apart; empty of one that was
    sent.
    """
    if not file.suffix:
        return ""
    path, root = file.resolve(), settings.root.resolve()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


def _name_of(template: GoalTemplate | None, file: Path) -> str:
    """Return the name of a job that gives none: its file's, or that of its goal template where it
    was sent.
    """
    if file.suffix or template is None:
        return file_stem(file)
    return template.name


def _name_of_plan(plan: Plan, file: Path) -> str:
    """Return the name of the job of a plan alone: its file's, or its goal where it came in no file.

    Plans that programs build are so told apart, in the list of runs and by `previous`.
    """
    goal = "" if file.suffix else " ".join((plan.goal or "").split())
    # No job has a longer name.
    return goal[:200] or file_stem(file)


def _partial_goal(job: Job, template: GoalTemplate) -> Goal | None:
    """Return the known part of the goal of a faulty job, to check its plan against."""
    try:
        bare = job.model_copy(update={"overrides": {}, "goal": "unknown"})
        return resolve_goal(bare, template, inputs_follow=True)
    except PlanError:
        return None


def draft_checker(settings: Settings) -> DraftChecker:
    """Return what finds the errors of a plan with the tools of a project."""

    def judge(draft: PlanDraft, goal: Goal) -> Iterable[Diagnostic]:
        tools = signatures_to_check(draft.plan, goal, settings)
        if draft.partial is not None:
            return check_partial(draft.partial, goal, tools)
        return errors_in(bind_plan(draft.plan, goal), goal, tools)

    return judge


def _job_targets(job: Job, template: GoalTemplate) -> JobTargets | None:
    if job.targets is None or job.targets.expand is not None:
        return job.targets
    return job.targets.model_copy(update={"expand": template.targets.expand})


def _unknown_overriding_tools(job: Job, goal: Goal, settings: Settings) -> Iterator[Diagnostic]:
    """Yield a fault for each tool that a job's own `available_tools` name and that does not exist."""
    if "available_tools" not in job.overrides:
        # Those of a goal template may be tools of an extra that is not installed here.
        return
    tools = signatures_to_check(Plan(steps=()), goal, settings)
    for fault in unknown_tools(goal.tools, tools):
        yield replace(fault, pointer="/overrides" + fault.pointer)


def _inputs_in_vain(job: Job, template: GoalTemplate) -> Iterator[Diagnostic]:
    """Yield a fault for each input of a job with targets that the run of each target has anew."""
    for name in (TARGET, template.targets.wave):
        if name is not None and name in job.inputs:
            yield make_diagnostic(
                "E107",
                f"/inputs{pointer_token(name)}",
                f"the input {name!r} is given, and the run of each target has its own",
                "leave it out; `targets.first` names targets",
            )


def _with_first_target(job: Job, template: GoalTemplate, targets: JobTargets) -> Job:
    """Return the job with the inputs of its first target, for which its goal is resolved."""
    inputs = inputs_of_target(
        job.inputs,
        template.targets,
        first_target(targets).name,
        wave=0,
        is_last_wave=targets.depth == 0,
    )
    return job.model_copy(update={"inputs": inputs})


def _expansion(
    job: Job,
    template: GoalTemplate,
    parts: _JobParts,
    document: Document,
    targets: JobTargets | None,
) -> TargetExpansion | None:
    """Return how further targets are found: as the job says, or else its template."""
    if not is_template(document) and (targets is None or targets.depth == 0):
        return None
    own = None if job.targets is None else job.targets.expand
    if own is not None:
        return TargetExpansion(own, PlanOrigin(document))
    if template.targets.expand is None:
        return None
    return TargetExpansion(template.targets.expand, PlanOrigin(parts.template_document))


def _resolve_saved_plan(
    document: Document, plan_file: Path | None, settings: Settings, inputs: InputOverrides
) -> ResolvedJob:
    """Return the resolved job of a saved plan: its own goal and plan, whatever the job's files say
    now.
    """
    # Imported here: most jobs are no saved plans.
    from wavewright.engine.run.jobs.saved_plan import SavedPlanError, read_saved_plan

    if plan_file is not None or inputs:
        refused = "its inputs cannot be set"
        if plan_file is not None:
            refused = f"--plan {str(plan_file)!r} cannot replace it"
        message = f"a saved plan runs as it is; {refused}"
        raise SavedPlanError(
            message,
            place=document.source.name,
            hint="name the job instead, or leave the option out",
        )
    # What was inspected is what runs: neither files of the job nor inputs may change it.
    saved = read_saved_plan(document, settings.root)
    saved.check_tools(signatures_to_check(saved.plan, saved.goal, settings))
    draft = PlanDraft(saved.plan, PlanOrigin(document, "/plan"), saved.rung, is_saved=True)
    return ResolvedJob(saved.goal, draft, document.source)


def goal_of_file(
    file: Path, plan: Plan, plan_document: Document | None, settings: Settings
) -> Goal:
    """Return the goal of a job file or a goal template, for a plan that is checked against it.

    Raises:
        DocumentError: the job or the template is faulty.
        PlanError: the plan has inputs that do not fit the template; a plan without any is checked
            before they come.
    """
    document = read_document_file(file)
    try:
        if not is_template(document):
            return resolve_job(document, file, None, settings).goal
        template = read_model(document, GoalTemplate)
    except PlanError as error:
        raise misuse_error(error) from error
    job = Job(name=template.name, inputs=plan.inputs)
    goal = resolve_goal(job, template, plan_document, inputs_follow=not plan.inputs)
    return _with_packs(goal, job, file, settings)


def _own_template(job: Job, draft: PlanDraft | None, settings: Settings) -> GoalTemplate:
    """Return a template for a job without one: a plan and its agents may use the tools that it
    names, and a planner those of the project.
    """
    if draft is None:
        # Imported here: to see which packs a project uses every pack is loaded.
        from wavewright.engine.run.project.used_packs import project_tools

        # A job may say itself which tools there are.
        has_own = "available_tools" in job.overrides
        names = [] if has_own else project_tools(settings, packs=job.tools)
        limits = Limits()
    else:
        steps = draft.plan.steps
        names = [name for step in steps for name in (*step_tools(step), *agent_tools(step))]
        limits = LIMITS_OF_OWN_PLANS
    tools = tuple(AvailableTool.model_construct(name=name) for name in dict.fromkeys(names))
    text = job.goal or (draft.plan.goal if draft is not None else None) or job.name
    return GoalTemplate.model_construct(
        name="plan", goal=text, available_tools=tools, limits=limits
    )


def _with_packs(goal: Goal, job: Job, file: Path, settings: Settings) -> Goal:
    """Return the goal with the packs' settings: the job's in place of the project's, paths relative
    to their file.
    """
    own: JsonObject = {
        name: {"settings": pack_settings, "root": str(file.parent.resolve()), "file": str(file)}
        for name, pack_settings in job.tools.items()
    }
    return goal.model_copy(update={"packs": {**packs_of_project(settings), **own}})


def _sub_plans(parts: _JobParts, settings: Settings) -> dict[str, SubPlan]:
    """Return the plans that a planner may call."""
    if parts.template is None or not parts.template.sub_plans:
        return {}
    return allowed_sub_plans(parts.template, parts.template_document, settings)


def _with_sub_plans(goal: Goal, sub_plans: Mapping[str, SubPlan]) -> Goal:
    plans = {name: sub_plan.plan for name, sub_plan in sub_plans.items()}
    inputs = {
        name: sub_plan.declared_inputs()
        for name, sub_plan in sub_plans.items()
        if sub_plan.inputs is not None
    }
    return goal.model_copy(update={"sub_plans": plans, "sub_plan_inputs": inputs})


def _with_engine_tools(goal: Goal, draft: PlanDraft | None) -> Goal:
    """Return the goal with the tools that a plan's sub-plans and dispatched calls need."""
    # A goal lists the tools of its author. Sub-plans and unions call nothing but such tools, and
    # nobody lists them.
    called = set[str]() if draft is None else {step.tool for step in draft.plan.steps}
    needed = {name for name in called if goal.tool_names.issuperset(dispatched_tools(name) or [""])}
    if goal.sub_plans or SUB_PLAN in called:
        needed.add(SUB_PLAN)
    added = [AvailableTool(name=name) for name in sorted(needed - goal.tool_names)]
    return goal.model_copy(update={"tools": (*goal.tools, *added)})


def file_stem(file: Path) -> str:
    """Return the name of a job's or a plan's file without its endings."""
    return file.name.removesuffix(file.suffix).removesuffix(".plan").removesuffix(".job")
