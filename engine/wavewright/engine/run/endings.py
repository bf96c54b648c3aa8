"""The ways in which a phase leaves the road of a run, and the journaling of how a run ends."""

from __future__ import annotations

from typing import TypeVar, cast

from wavewright.engine.run.context import PlannedContext, RunContext
from wavewright.engine.run.pipeline.phase import PhaseExit, PhaseResult, branch, halt
from wavewright.engine.run.ports import Attempt
from wavewright.engine.run.recording import record
from wavewright.executor import RunFinished
from wavewright.reviewer.records import RunStatus

C = TypeVar("C", bound=RunContext)


class RunHalted(PhaseExit):
    """The attempt ends here, with its end in the journal."""

    @property
    def context(self) -> RunContext:
        """The last context."""
        return cast("RunContext", self.result.context)


class PatchDropped(PhaseExit):
    """A patch was refused, by the checker or by a person; the package is built without it."""

    @property
    def context(self) -> PlannedContext:
        """The context, with the plan that the run has followed so far."""
        return cast("PlannedContext", self.result.context)


def patch_dropped(context: RunContext, reason: str) -> PatchDropped:
    """Return the way from a refused patch to the package."""
    result: PhaseResult[RunContext] = branch(context, "build_package", reason)
    return PatchDropped(result)


async def record_end(attempt: Attempt, context: C, status: RunStatus, reason: str) -> C:
    """Journal how the run ends."""
    return await record(attempt, context, RunFinished(attempt.now(), status, reason))


async def run_ended(
    attempt: Attempt, context: RunContext, status: RunStatus, reason: str
) -> RunHalted:
    """Journal how the run ends, and return the way out."""
    return RunHalted(halt(await record_end(attempt, context, status, reason), reason))


async def run_failed(attempt: Attempt, context: RunContext, reason: str) -> RunHalted:
    """Journal that the run has failed, and return the way out."""
    return await run_ended(attempt, context, "failed", reason)


async def run_stopped(attempt: Attempt, context: RunContext) -> RunHalted:
    """Journal that the run was stopped from outside and can be resumed, and return the way out."""
    context = await _interrupted(attempt, context, "stopped from outside")
    return RunHalted(halt(context, "interrupted"))


async def run_waits(attempt: Attempt, context: RunContext, reason: str) -> RunHalted:
    """Journal what the run waits for, after which it can be resumed, and return the way out."""
    return RunHalted(halt(await _interrupted(attempt, context, reason), reason))


async def _interrupted(attempt: Attempt, context: RunContext, reason: str) -> RunContext:
    # One end is enough: a run that was interrupted before and does nothing more has its own.
    if context.state.is_interrupted:
        return context
    return await record_end(attempt, context, "interrupted", reason)
