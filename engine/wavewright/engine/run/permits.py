"""The permits of a run: the file beside its job or plan, what a plan needs more, and the hold on
calls.

A run that has permits keeps to them: its first plan may not need more, a person must agree where a
patch does, and each call is compared with its resolved values before it is made. They are journaled
when the plan is accepted, so a resumed run has those that it began with, whatever the file says by
then; what a person has agreed to is added.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wavewright.config import WavewrightError, exit_codes, read_document_file
from wavewright.planner import Goal, Plan
from wavewright.planner.language.plan import SUB_PLAN, Budget
from wavewright.planner.reading.reader import read_model

if TYPE_CHECKING:
    # A check asks for the permits beside a plan, and loads nothing that only a run needs.
    from wavewright.config import Settings
    from wavewright.engine.run.context import RunContext, RunRequest
    from wavewright.executor import Noted, RunState
    from wavewright.planner import ToolSignatures
    from wavewright.planner.checks.permits import Permits
    from wavewright.tools import Tools

PERMITS: Final = "permits"
"""Topic of the note of what a run is permitted to do."""
SUFFIX: Final = ".permits.json"


class PermitsExceeded(WavewrightError):
    """A plan needs more than it is permitted; the message names each entry with its references."""

    exit_code = exit_codes.NEGATIVE


def permits_file(file: Path) -> Path:
    """Return where the permits of a job or a plan lie: `words.permits.json` beside
    `words.job.yaml`.
    """
    return file.with_name(f"{file.name.split('.')[0] or file.name}{SUFFIX}")


def permits_beside(request: RunRequest) -> Permits | None:
    """Return the permits in the file beside the plan or the job of a request, if there is one.

    Raises:
        DocumentError: the file cannot be read.
    """
    file = request.plan_file or request.job_file
    if file is None and request.resolved_job is not None:
        file = request.resolved_job.file
    # A job that came as a message has the name of a file, and there is none.
    if file is None or not file.is_file() or not permits_file(file).is_file():
        return None
    return read_permits(permits_file(file))


def read_permits(file: Path) -> Permits:
    """Return the permits that a file holds.

    Raises:
        DocumentError: it cannot be read, or is no permits file.
    """
    # Imported where there are permits, here and below: most runs have none.
    from wavewright.planner.checks.permits import Permits

    return read_model(read_document_file(file), Permits)


def permits_of_run(state: RunState) -> Permits | None:
    """Return the permits that a run has journaled, if it has any."""
    journaled = [note.body for note in state.notes if note.topic == PERMITS]
    if not journaled:
        return None
    from wavewright.planner.checks.permits import Permits

    # What a person has agreed to since is in the last one.
    return Permits.model_validate(journaled[-1])


def permits_notes(context: RunContext, at: float) -> tuple[Noted, ...]:
    """Return the note of a run's permits, unless they are journaled already."""
    permits = context.permits
    if permits is None or permits == permits_of_run(context.state):
        return ()
    from wavewright.executor import Noted

    return (Noted(at, PERMITS, permits.model_dump(mode="json")),)


def within_permits(goal: Goal, permits: Permits | None) -> Goal:
    """Return a goal whose budget is at most the money of the permits."""
    if permits is None or permits.usd is None:
        return goal
    # Permits narrow, and never widen: a lower budget of the goal stays.
    budget = goal.limits.budget or Budget()
    usd = permits.usd if budget.usd is None else min(budget.usd, permits.usd)
    limits = goal.limits.model_copy(update={"budget": budget.model_copy(update={"usd": usd})})
    return goal.model_copy(update={"limits": limits})


def needs_beyond(
    permits: Permits | None,
    plan: Plan,
    goal: Goal,
    tools: ToolSignatures,
    settings: Settings,
) -> list[str]:
    """Return what a plan needs beyond the permits of a run, an entry each; nothing where the run
    has none.
    """
    if permits is None:
        return []
    from wavewright.engine.run.permit_checks import needed_permits
    from wavewright.planner.checks.permits import excess

    needed = needed_permits(plan, goal, tools, settings)
    # Each call is compared as well, with its values: what is not known before needs only some entry
    # of its kind.
    return [str(entry) for entry in excess(needed, permits, calls_are_held=True)]


def require_permitted(context: RunContext, plan: Plan, settings: Settings) -> None:
    """Return where the first plan of a run keeps to its permits.

    Raises:
        PermitsExceeded: it needs more.
    """
    if more := needs_beyond(context.permits, plan, context.goal, context.signatures, settings):
        raise PermitsExceeded(
            f"the plan needs more than its permits: {'; '.join(more)}",
            "look at each; `wavewright check --permits FILE` writes permits for the plan as it is",
        )


def with_permits_for(context: RunContext, plan: Plan, settings: Settings) -> RunContext:
    """Return the context with permits that cover a patched plan, which a person has agreed to."""
    if context.permits is None:
        return context
    from wavewright.engine.run.permit_checks import needed_permits
    from wavewright.planner.checks.permits import extended_permits

    needed = needed_permits(plan, context.goal, context.signatures, settings)
    return replace(context, permits=extended_permits(context.permits, needed))


def permitted_tools(context: RunContext) -> Tools:
    """Return the tools of a run; where it has permits, they refuse a call which is not permitted,
    and any after the most calls.
    """
    tools, permits = context.tools, context.permits
    if permits is None:
        return tools
    from wavewright.engine.run.permit_checks import CallAllowance, PermittedCall, calls_made

    allowance = CallAllowance(permits, calls_made(context.state))
    # A sub-plan's step calls nothing of its own: it gives the result of the plan that it calls.
    return {
        name: tool if name == SUB_PLAN else replace(tool, call=PermittedCall(tool, allowance))
        for name, tool in tools.items()
    }
