"""From files to a goal: jobs, goal templates, and where plans come from.

A *job file* is YAML, JSON or TOML. A plan file may stand in its place, and then the plan may use what the project
has; so may a goal template that carries a plan of its own. Every fault is reported at its place in the file that
holds it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from wavewright.config.documents import (
    Document,
    DocumentError,
    Fault,
    ReadLimits,
    Source,
    read_bytes,
    read_document,
)
from wavewright.config.settings import Settings
from wavewright.engine.document_kinds import is_job, is_sealed_plan, is_template
from wavewright.engine.named_templates import DEFAULT_LIMITS, read_named, read_template
from wavewright.engine.sealed_plan import SealError, read_sealed_plan
from wavewright.engine.toolbox import agent_tools, signatures_to_check
from wavewright.planner.diagnostics import Diagnostic, PlanError, place
from wavewright.planner.goals import AvailableTool, Goal, GoalTemplate, Job, JobTarget, JobTargets
from wavewright.planner.models import Plan
from wavewright.planner.pointers import child
from wavewright.planner.reader import read_model
from wavewright.planner.resolving import resolve_goal
from wavewright.planner.suggestions import choice
from wavewright.planner.types import JsonObject, Schedule
from wavewright.tools.packs import pack_names

TARGET = "target"
"""Name of the input that holds the target of a run, where a job has several."""


@dataclass(frozen=True, slots=True)
class PlanOrigin:
    """Where a plan stands: the document, and the pointer of the plan in it."""

    document: Document
    pointer: str = ""

    @classmethod
    def of_plan(cls, plan: Plan, document: Document | None) -> PlanOrigin:
        """Return the origin of a plan that a model made: its answer, or the plan written down where that is no text."""
        if document is not None:
            return cls(document)
        text = json.dumps(plan.model_dump(mode="json", by_alias=True, exclude_unset=True), indent=2)
        return cls(read_document(text, "the plan"))

    def place(self, diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
        """Return the diagnostics of the plan with their places in the document."""
        moved = [replace(found, pointer=f"{self.pointer}{found.pointer}") for found in diagnostics]
        return tuple(place(moved, self.document))


@dataclass(frozen=True, slots=True)
class PlanDraft:
    """A plan as its author wrote it, with where it stands and which rung of the ladder it is."""

    plan: Plan
    origin: PlanOrigin
    rung: str
    is_sealed: bool = False
    """Whether it is run as it is: no planner makes another, whichever rung it is."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """What gives further targets, with where it is written."""

    text: str
    origin: PlanOrigin
    pointer: str = "/targets/expand"


@dataclass(frozen=True, slots=True)
class Order:
    """What a job comes to: the goal, and the plan that answers it, if there is one."""

    goal: Goal
    draft: PlanDraft | None
    source: Source
    targets: JobTargets | None = None
    """Of a job that runs once for each of several targets; the goal is then that of its first one."""
    text: str = ""
    """The goal's text before inputs were put into it."""
    expansion: Expansion | None = None
    """How further targets are found, of a job that may have some."""

    def with_schedule(self, schedule: Schedule) -> Order:
        """Return the same order with another schedule."""
        return replace(self, goal=self.goal.model_copy(update={"schedule": schedule}))


def read_order(file: Path, plan_file: Path | None, settings: Settings) -> Order:
    """Read a job (or a plan, a sealed plan, or a goal template with a plan, in its place).

    Raises:
        DocumentError: a file is missing or is no document.
        PlanError: a document does not say what it must, each fault at its place.
        SealError: a sealed plan was changed, or a tool that it calls has changed since.
    """
    return order_of(read_file(file), file, plan_file, settings)


def order_of(
    document: Document,
    file: Path,
    plan_file: Path | None,
    settings: Settings,
    *,
    inputs_follow: bool = False,
) -> Order:
    """Return what a job document comes to; `file` is where it stands, for the paths in it.

    `inputs_follow` is for a goal template whose plan is only looked at: its inputs come with a job.
    """
    if is_sealed_plan(document):
        return _sealed_order(document, plan_file, settings)
    given = _read_plan(plan_file) if plan_file is not None else None
    template: GoalTemplate | None = None
    template_document = document
    if is_template(document):
        template = read_model(document, GoalTemplate)
        job = Job(name=template.name)
    elif is_job(document):
        job = read_model(document, Job)
        _refuse_unknown_packs(job, document)
        given = given or _plan_of_job(job, file, document)
        if job.goal_template is not None:
            template, template_document = read_template(job.goal_template, file.parent, document, settings)
    else:
        given = given or PlanDraft(read_model(document, Plan), PlanOrigin(document), "given")
        job = Job(name=stem(file), goal=given.plan.goal, inputs=given.plan.inputs)
    if template is None:
        template = _template_of_plan(job, given, document)
    _refuse_unknown_preference(job, document, template, template_document, settings)
    targets = _targets_of(job, template)
    if targets is not None:
        job = job.model_copy(update={"inputs": {**job.inputs, TARGET: first_of(targets).name}})
    goal = resolve_goal(job, template, document, inputs_follow=inputs_follow and is_template(document))
    goal = _with_packs(goal, job, file, settings)
    if given is None and template.plan is not None:
        given = PlanDraft(template.plan, PlanOrigin(template_document, "/plan"), "template")
    text = template.goal if job.goal is None else job.goal
    own = job.targets.expand if job.targets is not None else None
    expand = template.targets.expand if own is None else own
    written = PlanOrigin(template_document if own is None else document)
    asks = is_template(document) or (targets is not None and targets.depth > 0)
    expansion = Expansion(expand, written) if asks and expand is not None else None
    return Order(goal, given, document.source, targets, text, expansion)


def first_of(targets: JobTargets) -> JobTarget:
    """Return the target that is written first."""
    first = targets.first[0]
    return first if isinstance(first, JobTarget) else JobTarget(name=first)


def _targets_of(job: Job, template: GoalTemplate) -> JobTargets | None:
    if job.targets is None or job.targets.expand is not None:
        return job.targets
    return job.targets.model_copy(update={"expand": template.targets.expand})


def _sealed_order(document: Document, plan_file: Path | None, settings: Settings) -> Order:
    """Return what a sealed plan comes to: its own goal and plan, whatever the job's files say by now."""
    if plan_file is not None:
        message = f"a sealed plan runs as it is; --plan {str(plan_file)!r} cannot take its place"
        raise SealError(message, place=document.source.name, hint="leave --plan out, or name the job instead")
    sealed = read_sealed_plan(document, settings.root)
    sealed.refuse_other_tools(signatures_to_check(sealed.plan, sealed.goal, settings))
    draft = PlanDraft(sealed.plan, PlanOrigin(document, "/plan"), sealed.rung, is_sealed=True)
    return Order(sealed.goal, draft, document.source)


def goal_of_file(file: Path, plan: Plan, plan_document: Document | None, settings: Settings) -> Goal:
    """Return the goal of a job file or a goal template, for a plan that is checked against it.

    Raises:
        DocumentError: the job or the template is faulty.
        PlanError: the plan has inputs that do not fit the template; a plan without any is checked before they come.
    """
    document = read_file(file)
    try:
        if not is_template(document):
            return order_of(document, file, None, settings).goal
        template = read_model(document, GoalTemplate)
    except PlanError as error:
        raise misuse_of(error) from error
    job = Job(name=template.name, inputs=plan.inputs)
    goal = resolve_goal(job, template, plan_document, inputs_follow=not plan.inputs)
    return _with_packs(goal, job, file, settings)


def misuse_of(error: PlanError) -> DocumentError:
    """Return the faults of a document that a plan is checked against: they are none of the plan's."""
    faults = (
        Fault(found.kind, found.message, found.span, found.pointer, found.hint) for found in error.diagnostics
    )
    return DocumentError(error.source, tuple(faults))


def no_plan(goal: Goal, source: Source) -> PlanError:
    """Return the error of a job without a plan, to be raised."""
    missing = Diagnostic(
        code="E114",
        message=f"there is no plan for job {goal.job!r}: neither it nor its goal template has one",
        hint="add 'plan: FILE' to the job, or 'plan:' to the goal template; a language model can make one: "
        "set WAVEWRIGHT_MODEL and call `wavewright plan JOB --out FILE`",
    )
    return PlanError((missing,), source)


def read_file(path: Path, limits: ReadLimits = DEFAULT_LIMITS) -> Document:
    """Read a YAML, JSON or TOML file.

    Raises:
        DocumentError: the file cannot be read, or is no such document.
    """
    return read_document(read_bytes(path, limits), str(path), limits=limits)


def _plan_of_job(job: Job, file: Path, document: Document) -> PlanDraft | None:
    if job.plan is None:
        return None
    if isinstance(job.plan, Plan):
        return PlanDraft(job.plan, PlanOrigin(document, "/plan"), "given")
    return _plan_draft(read_named(file.parent / job.plan, "/plan", document))


def _read_plan(path: Path) -> PlanDraft:
    return _plan_draft(read_file(path))


def _plan_draft(document: Document) -> PlanDraft:
    if is_sealed_plan(document):
        message = "a sealed plan brings its own goal and is no plan for another job"
        raise SealError(message, place=document.source.name, hint="name it in place of the job")
    return PlanDraft(read_model(document, Plan), PlanOrigin(document), "given")


def _refuse_unknown_packs(job: Job, document: Document) -> None:
    """Raise a fault for each entry of the job's `tools` that names no installed pack."""
    if not job.tools:
        return
    known = pack_names()
    unknown = [
        Diagnostic(
            code="E107",
            message=f"there is no pack {name!r}",
            pointer=child("/tools", name),
            hint=choice(name, known, what="installed packs"),
        )
        for name in job.tools
        if name not in known
    ]
    if unknown:
        raise PlanError(tuple(place(unknown, document)), document.source)


def _refuse_unknown_preference(
    job: Job, document: Document, template: GoalTemplate, template_document: Document, settings: Settings
) -> None:
    """Raise a fault where a word for a model stands for none."""
    given = job.overrides.get("model_preference")
    place_in, pointer, word = (
        (document, "/overrides/model_preference", given)
        if isinstance(given, str)
        else (template_document, "/model_preference", template.model_preference)
    )
    if word == "auto" or ":" in word:
        return
    from wavewright.tools.models.choosing import preference_words

    words = preference_words(settings)
    if word not in words:
        hint = choice(word, words, what="preferences") or "there are none"
        unknown = Diagnostic(
            code="E107",
            message=f"{word!r} is no model preference",
            pointer=pointer,
            hint=f"{hint}; a model's name as PROVIDER:NAME will do as well",
        )
        raise PlanError(tuple(place([unknown], place_in)), place_in.source)


def _template_of_plan(job: Job, given: PlanDraft | None, document: Document) -> GoalTemplate:
    """Return the template of a plan without one: it and its agents may use the tools that it names."""
    if given is None:
        missing = Diagnostic(
            code="E105",
            message="the job names neither a goal template nor a plan",
            hint="add 'goal_template: NAME' or 'plan: FILE'",
        )
        raise PlanError(tuple(place([missing], document)), document.source)
    names = dict.fromkeys(name for step in given.plan.steps for name in (step.tool, *agent_tools(step)))
    tools = tuple(AvailableTool.model_construct(name=name) for name in names)
    text = job.goal or given.plan.goal or job.name
    return GoalTemplate.model_construct(name="plan", goal=text, available_tools=tools)


def _with_packs(goal: Goal, job: Job, file: Path, settings: Settings) -> Goal:
    """Return the goal with the packs' settings: the job's in place of the project's, paths relative to their file."""
    project: JsonObject = {
        name: {"settings": given, "root": str(settings.root), "file": str(settings.file)}
        for name, given in settings.packs.items()
    }
    own: JsonObject = {
        name: {"settings": given, "root": str(file.parent.resolve()), "file": str(file)}
        for name, given in job.tools.items()
    }
    return goal.model_copy(update={"packs": {**project, **own}})


def stem(file: Path) -> str:
    """Return the name of a plan's file without its endings, which is the name of its job."""
    return file.name.removesuffix(file.suffix).removesuffix(".plan")
