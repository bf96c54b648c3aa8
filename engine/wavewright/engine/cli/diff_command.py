"""`wavewright diff`: what differs between two plans."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import anyio

from wavewright.config.documents import Document
from wavewright.config.settings import Settings
from wavewright.engine.cli import exit_codes
from wavewright.engine.cli.failures import CommandError
from wavewright.engine.cli.project import has_journal, open_journal, project_settings
from wavewright.engine.document_kinds import is_job, is_template
from wavewright.engine.job_faults import misuse_error
from wavewright.engine.jobs import read_file, resolve_job
from wavewright.engine.owned_runs import no_plan_reason
from wavewright.engine.toolbox import tools_of_plan
from wavewright.executor.events import Event
from wavewright.executor.state import RunState, fold
from wavewright.planner.binding import bind_plan
from wavewright.planner.diagnostics import PlanError, locate_diagnostics
from wavewright.planner.goals import Goal
from wavewright.planner.models import Plan, PlanPatch
from wavewright.planner.patches import PatchRefused, apply_patch
from wavewright.planner.plan_diff import diff_plans
from wavewright.planner.reader import read_model
from wavewright.planner.rendering import printable_json
from wavewright.planner.signatures import ToolSignature


def diff(before: str, after: str | None, *, output_format: str) -> int:
    """Print what differs between the plans of two files or runs; `after` may be a patch of `before`.

    Of two jobs that is also their inputs, gates, caps, limits and whatever else their goals say.

    Without `after` it is what the recovery of the run `before` made of its first plan.

    Raises:
        CommandError, DocumentError: a name stands for no plan, or the patch cannot be applied.
    """
    settings = project_settings(Path(before) if _is_file(before) else None)
    if after is None:
        if _is_file(before):
            msg = f"there is nothing to compare {before!r} with"
            raise CommandError(msg, hint="name a second plan; only a run is compared with its own first plan")
        from wavewright.engine.cli.diff_rounds import diff_rounds

        return diff_rounds(_state_of_run(before, settings), settings, output_format=output_format)
    first, goal = _read_plan(before, settings)
    patched = _patched(first, after)
    second, other = (patched, None) if patched is not None else _read_plan(after, settings)
    goals: tuple[Goal, Goal] | None = None
    if goal is not None and other is not None:
        # Two jobs differ also in what they put into their plans, and ask for beside them.
        goals = (goal, other)
        first, second = bind_plan(first, goal, {}), bind_plan(second, other, {})
    found = diff_plans(first, second, _signatures(first, second, settings), goals)
    if output_format == "json":
        sys.stdout.write(printable_json(found.to_json(), indent=2) + "\n")
    else:
        sys.stdout.write(f"{found}\n")
    return exit_codes.OK if found.is_empty else exit_codes.NEGATIVE


def _signatures(first: Plan, second: Plan, settings: Settings) -> dict[str, ToolSignature]:
    """Return the signatures of the tools that either plan names, as far as they are installed here."""
    return {**tools_of_plan(first, settings).signatures, **tools_of_plan(second, settings).signatures}


def _read_plan(name: str, settings: Settings) -> tuple[Plan, Goal | None]:
    """Return the plan of a file or a run, with its goal where the file is a job."""
    if _is_file(name):
        path = Path(name)
        return _plan_of_document(read_file(path), path, settings)
    return Plan.model_validate(_state_of_run(name, settings).plan), None


def _is_file(name: str) -> bool:
    path = Path(name)
    return path.exists() or bool(path.suffix)


def _state_of_run(name: str, settings: Settings) -> RunState:
    """Return a run that has a plan.

    Raises:
        CommandError: there is none.
    """
    if not has_journal(settings):
        msg = f"there is no file {name!r}, and no run either"
        raise CommandError(msg, hint="name plans, jobs or runs", place=str(Path(name)))
    state = fold(anyio.run(_events, name, settings))
    if state.plan is None:
        raise CommandError(no_plan_reason(state, f"run {state.run!r} ended before it had a plan"))
    return state


async def _events(prefix: str, settings: Settings) -> Sequence[Event]:
    async with open_journal(settings) as journal:
        return await journal.load(await journal.find_run(prefix))


def _plan_of_document(document: Document, path: Path, settings: Settings) -> tuple[Plan, Goal | None]:
    if not (is_job(document) or is_template(document)):
        return read_model(document, Plan), None
    order = resolve_job(document, path, None, settings)
    draft = order.draft
    if draft is None:
        msg = f"{str(path)!r} has no plan: neither the job nor its goal template carries one"
        raise CommandError(msg, hint="name a plan file instead")
    return draft.plan, order.goal


def _patched(plan: Plan, name: str) -> Plan | None:
    """Return the plan after the patch in that file, where the file holds a patch."""
    path = Path(name)
    if not path.is_file():
        return None
    document = read_file(path)
    if not (isinstance(document.value, dict) and "ops" in document.value):
        return None
    try:
        return apply_patch(plan, read_model(document, PlanPatch), finished=())
    except PatchRefused as error:
        placed = locate_diagnostics(error.diagnostics, document)
        raise misuse_error(PlanError(placed, document.source)) from error
