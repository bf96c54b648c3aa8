"""`wavewright keep`: the plan of an achieved run becomes a goal template of the project."""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path

import anyio

from wavewright.config import Settings, exit_codes, read_document
from wavewright.config.atomic_files import write_atomically
from wavewright.engine.interfaces.cli.common.arguments import project_settings
from wavewright.engine.interfaces.cli.common.named_runs import load_run
from wavewright.engine.interfaces.cli.common.output import CommandError, print_aside, unwritable
from wavewright.engine.interfaces.cli.common.terminal import confirm, is_attended
from wavewright.engine.interfaces.cli.planning.plan_report import as_yaml, plan_as_yaml
from wavewright.engine.run.jobs.goal_in_words import (
    generalised,
    inputs_that_may_be_given,
    kept_template,
    tool_lock,
    unbound_plan,
)
from wavewright.engine.run.jobs.plan_drafts import PlanOrigin
from wavewright.engine.run.project.templates import template_names
from wavewright.engine.run.project.tools import signatures_to_check
from wavewright.executor import fold
from wavewright.planner import (
    ID_PATTERN,
    Goal,
    GoalTemplate,
    JsonObject,
    Plan,
    PlanError,
    ToolSignature,
)
from wavewright.planner.checks.checker import errors_in
from wavewright.planner.language.goals import KeptRun
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.let_and_stop import in_written_form, with_let, with_stop


def keep(run: str | None, name: str, *, is_confirmed: bool) -> int:
    """Show the plan with its inputs generalised as a diff, ask, and write the goal template; return
    the exit code.

    Raises:
        CommandError: the run is not achieved, a tool has changed since, or the template cannot be
            written.
        PlanError: the generalised plan is not valid.
    """
    settings = project_settings()
    file = _file_of(name, settings)
    run_id, events = anyio.run(load_run, settings, run)
    state = fold(events)
    if (
        state.started is None
        or state.plan is None
        or state.finished is None
        or state.finished.status != "achieved"
    ):
        hint = "`wavewright runs --status achieved` lists those that are"
        raise CommandError(
            f"run {run_id!r} is not achieved", hint=hint, exit_code=exit_codes.NEGATIVE
        )
    goal, bound = Goal.model_validate(state.started.goal), Plan.model_validate(state.plan)
    tools = signatures_to_check(bound, goal, settings)
    _refuse_changed(bound, state.started.versions, tools)
    before = in_written_form(unbound_plan(bound, goal))
    plan = generalised(before, goal.inputs)
    with_names, _ = with_let(plan)
    running = with_stop(with_names)
    kept = KeptRun(
        run=run_id,
        goal_template=goal.name,
        tools=tool_lock(plan, tools),
        planning_tokens=sum(use.tokens for use in state.uses.values() if use.role == "planner"),
    )
    template = kept_template(name, plan, goal, kept, is_given=state.rung == "given")
    text = as_yaml(_template_json(template))
    for inputs in inputs_that_may_be_given(template.inputs_schema, goal.inputs):
        _check(running, goal.model_copy(update={"inputs": inputs}), tools, text, file)
    change = _diff(before, plan, goal.text, template.goal)
    if not is_confirmed:
        sys.stdout.write(change)
        if not _is_confirmed(file):
            print_aside("not kept")
            return exit_codes.NEGATIVE
    _write(file, text)
    if is_confirmed:
        # After the file: whoever reads what is printed may stop reading, which ends this.
        sys.stdout.write(change)
    sys.stdout.write(f"kept in {file}\n")
    return exit_codes.OK


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(file, error, "make the folder of goal templates writable") from error
    write_atomically(file, text.encode())


def _file_of(name: str, settings: Settings) -> Path:
    """Return the file of a new goal template.

    Raises:
        CommandError: the name is no name of a template or is taken, or the project has no folder of
            templates.
    """
    if not re.fullmatch(ID_PATTERN, name):
        raise CommandError(
            f"--as {name!r} is no name of a goal template",
            hint="use letters, digits and _, as in gnp_and_sks",
        )
    if name in template_names(settings):
        raise CommandError(
            f"there is a goal template {name!r} already",
            hint="choose another name, or remove its file",
        )
    if not settings.templates:
        raise CommandError(
            "the project has no folder of goal templates", hint="set 'templates' in wavewright.yaml"
        )
    return settings.templates[0] / f"{name}.yaml"


def _refuse_changed(plan: Plan, versions: dict[str, str], tools: dict[str, ToolSignature]) -> None:
    """Raise an error if a tool of the plan is not the one that the run has called."""
    for tool in dict.fromkeys(step.tool for step in plan.steps):
        if tool not in tools or versions.get(f"tool {tool}") != tools[tool].version:
            raise CommandError(
                f"tool {tool!r} has changed since the run",
                hint="run the job again, and keep the plan of that run",
                exit_code=exit_codes.NEGATIVE,
            )


def _template_json(template: GoalTemplate) -> JsonObject:
    written: JsonObject = template.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    # What a reader looks for first comes first, the plan last.
    head = {name: written.pop(name) for name in ("name", "goal")}
    plan = written.pop("plan")
    return {"version": template.version, **head, **written, "plan": plan}


def _check(plan: Plan, goal: Goal, tools: dict[str, ToolSignature], text: str, file: Path) -> None:
    """Raise an error if the plan is not valid for the goal of its run: it read what no template
    has, as feedback.
    """
    faults = errors_in(bind_plan(plan, goal), goal, tools)
    if faults:
        document = read_document(text, str(file))
        raise PlanError(PlanOrigin(document, "/plan").place(faults), document.source)


def _diff(before: Plan, after: Plan, goal: str, template_goal: str) -> str:
    """Return what was generalised, as a unified diff of the goal and the plan."""
    old = f"goal: {goal}\n{plan_as_yaml(before)}".splitlines(keepends=True)
    new = f"goal: {template_goal}\n{plan_as_yaml(after)}".splitlines(keepends=True)
    text = "".join(difflib.unified_diff(old, new, "plan of the run", "kept plan"))
    return text or "nothing in the plan equals an input: it is kept as it is\n"


def _is_confirmed(file: Path) -> bool:
    if not is_attended():
        raise CommandError(
            "there is no terminal at which the template could be confirmed", hint="add --yes"
        )
    return confirm(f"Keep this plan in {file}? ")
