"""The road of a run, from a request to its package: each phase is called here, in its order.

Set a breakpoint in `run_job` and step: every phase is a function in a file beside this
one. A phase takes a frozen context and returns the next one. It leaves the road in one of two ways:
`RunHalted` ends the run's attempt, and `PatchDropped` goes on to the package without the patch.
"""

from __future__ import annotations

from wavewright.engine.run.approve import accept_plan, approve
from wavewright.engine.run.check_plan import check_plan, recheck_plan
from wavewright.engine.run.context import PlannedContext, RunContext, RunRequest, TargetsContext
from wavewright.engine.run.endings import PatchDropped, RunHalted
from wavewright.engine.run.execute_plan import execute_plan
from wavewright.engine.run.make_plan import make_plan
from wavewright.engine.run.open_run import gather_tools, open_run
from wavewright.engine.run.package import build_package, publish_package
from wavewright.engine.run.pipeline.phase import Outcome, PhaseRecorder, PhaseResult, PipelineRun
from wavewright.engine.run.ports import Ports
from wavewright.engine.run.read_job import read_job
from wavewright.engine.run.recover import goal_not_achieved, recover, take_feedback
from wavewright.engine.run.review_run import review_run
from wavewright.engine.run.session import attended, end_if_cancelled


async def run_job(request: RunRequest, ports: Ports) -> PipelineRun[RunContext]:
    """Run or resume what the request asks for; return the last context and a record of each phase.

    A cancel request that is made meanwhile ends the run as `cancelled`, unless it comes to its own
    end before.

    Raises:
        DocumentError, PlanError: a job, a template or a plan is faulty.
        PromptError: a prompt template is faulty.
        JournalError: the run cannot be journaled; what was journaled stays.
    """
    phase = PhaseRecorder("run", ports.on_phase)
    async with attended(request, ports) as own:
        attempt, means, people = own.attempt, own.means, own.people
        context: RunContext
        try:
            with phase("read_job", request) as done:
                context = done(await read_job(request, attempt, means.settings))
            if isinstance(context, TargetsContext):
                # Imported here: most jobs have no targets.
                from wavewright.engine.run.run_targets import run_targets

                # Each target has a run of its own, which comes by here again.
                with phase("run_targets", context):
                    raise await run_targets(context, own, run_job)
            with phase("gather_tools", context) as done:
                context = done(gather_tools(context, means))
            with phase("open_run", context) as done:
                context = done(await open_run(context, attempt, means))
            if isinstance(context, PlannedContext):
                # It is resumed, and follows its plan; a rejected package may bring a patch of it.
                with phase("recheck_plan", context) as done:
                    context = done(await recheck_plan(context, means, people))
                if request.feedback is not None:
                    with phase("take_feedback", context) as done:
                        taken = await take_feedback(context, request.feedback, attempt, means)
                        context = done(taken.context, taken.reason)
            else:
                with phase("make_plan", context) as done:
                    context = done(await make_plan(context, attempt, means, people))
            planned = await _follow_plan(context, own, phase)
            with phase("build_package", planned) as done:
                packaged = done(build_package(planned))
            with phase("publish_package", packaged) as done:
                context = done(
                    await publish_package(packaged, attempt, own.publish, means.settings)
                )
        except RunHalted as halted:
            context = halted.context
        return await end_if_cancelled(PipelineRun(context, tuple(phase.records)), own)
    raise AssertionError("the context lets exceptions through")


async def _follow_plan(context: RunContext, ports: Ports, phase: PhaseRecorder) -> PlannedContext:
    """Check, accept, execute and review the plan, and again each plan that a recovery has patched."""
    attempt, means, people = ports.attempt, ports.means, ports.people
    while True:
        # A resumed run has no candidate: its plan was checked and accepted before.
        if context.candidate is not None:
            try:
                with phase("check_plan", context) as done:
                    context = done(await check_plan(context, attempt, means, people))
                with phase("approve", context) as done:
                    context = done(await approve(context, attempt, means.settings, people))
            except PatchDropped as dropped:
                # The plan that the run has followed so far has given what there is to package.
                return dropped.context
        with phase("accept_plan", context) as done:
            planned = done(await accept_plan(context, attempt))
        with phase("execute_plan", planned) as done:
            planned = done(await execute_plan(planned, attempt, means, people))
        with phase("review_run", planned) as done:
            planned = done(await review_run(planned, attempt, means))
        if not goal_not_achieved(planned):
            return planned
        with phase("recover", planned) as done:
            recovery = await recover(planned, attempt, means)
            if recovery.context.candidate is None:
                return done(recovery.context, recovery.reason)
            again = PhaseResult(Outcome.BRANCH, recovery.context, recovery.reason, "check_plan")
            context = done.record(again)
