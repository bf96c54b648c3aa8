"""Tools that run plans and show runs.

A run begins only if the server was started with `--allow-runs`, or if a person agrees: the client
is asked to show the plan (*elicitation*). Approvals that steps of the plan need are never given
here: such a run waits for `wavewright answer`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Annotated, TypeAlias

import anyio
import anyio.to_thread
from mcp.server.mcpserver import Elicit, Resolve
from pydantic import BaseModel, Field

from wavewright.config import Settings, known_secrets_redactor
from wavewright.engine.interfaces.cli.common.output import CommandError
from wavewright.engine.interfaces.cli.common.progress import step_line
from wavewright.engine.interfaces.cli.mcp_server.plan_tools import (
    DiagnosticAnswer,
    DocumentFile,
    DocumentText,
    Inputs,
    ProjectContext,
    RunAnswer,
    StepAnswer,
    TargetAnswer,
    project_of,
    resolve_document,
)
from wavewright.engine.interfaces.cli.runs.earlier_runs import find_resumable_run
from wavewright.engine.interfaces.cli.runs.run_command import run_in_project
from wavewright.engine.interfaces.cli.runs.runs_command import (
    load_listed_run,
    package_of,
    target_rows,
)
from wavewright.engine.rehearsal.dry_run.outlook import forecast_job
from wavewright.engine.run.cancellation import CancellationToken
from wavewright.engine.run.context import RunContext, RunRequest
from wavewright.engine.run.jobs.goal_in_words import with_kept_plan
from wavewright.engine.run.jobs.resolving import ResolvedJob
from wavewright.engine.run.pipeline.phase import PipelineRun
from wavewright.engine.run.ports import ApprovalRequest
from wavewright.engine.run.project.tools import signatures_to_check
from wavewright.engine.run.recording import faults_of_plan
from wavewright.engine.run.target_waves import target_waves
from wavewright.engine.run.task_groups import open_task_group
from wavewright.executor import Event, PlanAccepted, RunState, StepFinished, fold
from wavewright.planner import RunId, StepId, catalogue, plan_hash
from wavewright.planner.diagnostics.rendering import printable

RUN_URI = "wavewright://runs/{run}"

ResumedRun: TypeAlias = Annotated[
    str,
    Field(
        description="In place of a plan: an interrupted run to continue, by its id or a prefix of it."
    ),
]
_HINTS = {
    "interrupted": "call run_plan with resume: {run}",
    "waiting_for_answer": "a person continues it with: wavewright resume {run} --answer TEXT",
    "waiting_for_approval": (
        "a person reads `wavewright decisions {run}` and answers as it says, with the question's id; "
        "then call run_plan with resume: {run}"
    ),
}


class Consent(BaseModel):
    """A person's answer to whether a run may begin."""

    approve: bool = Field(description="Whether the run may begin.")


async def requested_run(
    context: ProjectContext, plan: str, file: str, inputs: Inputs, resume: str
) -> RunRequest:
    """Return what a call asks to run; the consent and the run are about this one reading of it.

    Raises:
        CommandError: the arguments do not go together, or the run to resume belongs to a daemon.
        DocumentError, PlanError, RunNotFound: the document cannot be used, its plan is not valid,
            or there is no such run.
    """
    settings = project_of(context).settings
    if not resume:
        job = await anyio.to_thread.run_sync(_valid_job, plan, file, inputs, settings)
        return RunRequest(resolved_job=job)
    if plan or file or inputs:
        raise CommandError(
            "'resume' goes with no plan and no inputs", hint="leave them out, or 'resume'"
        )
    return RunRequest(run=await find_resumable_run(resume, settings))


def _valid_job(plan: str, file: str, inputs: Inputs, settings: Settings) -> ResolvedJob:
    job = resolve_document(plan, file, inputs, settings)
    followed = with_kept_plan(job, settings)
    if followed.draft is not None:
        forecast_job(followed, settings)  # which refuses a plan that is not valid
    return job


RequestedRun: TypeAlias = Annotated[RunRequest, Resolve(requested_run)]


def ask_consent(context: ProjectContext, request: RequestedRun) -> Consent | Elicit[Consent]:
    """Return the question to the person at the client; a consent where runs are allowed.

    Raises:
        CommandError: runs are not allowed, and the client cannot ask a person.
    """
    project = project_of(context)
    if project.allows_runs:
        return Consent(approve=True)
    capabilities = context.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        raise CommandError(
            "this server begins no run without a person's consent, and its client cannot ask for it",
            hint="start the server with --allow-runs, or run the plan with `wavewright run FILE`",
        )
    if request.resolved_job is None:
        return Elicit(f"May run {request.run} continue?", Consent)
    return Elicit("\n".join(_consent_lines(request.resolved_job, project.settings)), Consent)


def _consent_lines(job: ResolvedJob, settings: Settings) -> list[str]:
    """Return what a person reads before a run: its inputs, each call with its effects, and the hash
    of the plan.

    The same job gives the same lines: a client that is asked in several rounds is asked one
    question.
    """
    redactor = known_secrets_redactor(settings)
    lines = [
        f"May this plan run? {job.goal.text}",
        f"inputs: {json.dumps(job.goal.inputs, ensure_ascii=False)}",
    ]
    draft = with_kept_plan(job, settings).draft
    if draft is None or (draft.is_fallback and settings.model is not None):
        return [printable(redactor.redact(line)) for line in (*lines, "a model makes the plan")]
    tools = signatures_to_check(draft.plan, job.goal, settings)
    for step in draft.plan.steps:
        effects = ", ".join(sorted(tools[step.tool].effects))
        params = json.dumps(step.params, ensure_ascii=False)
        lines.append(f"{step.id}: {step.tool} ({effects}) {params}")
    lines.append(f"plan {plan_hash(draft.plan)}")
    return [printable(redactor.redact(line)) for line in lines]


async def run_plan(
    context: ProjectContext,
    request: RequestedRun,
    consent: Annotated[Consent, Resolve(ask_consent)],
    plan: DocumentText = "",
    file: DocumentFile = "",
    inputs: Inputs = None,
    resume: ResumedRun = "",
) -> RunAnswer:
    """Run a plan, or continue an interrupted run, and return its result; progress is reported for
    each step.

    A person is asked before, unless the server allows runs.
    """
    del plan, file, inputs, resume  # `requested_run` reads them
    if not consent.approve:
        raise CommandError("the run was not approved", hint="change the plan as the person wishes")
    settings = project_of(context).settings
    run = await _run_until_cancelled(request, settings, ProgressNotifier(context))
    return await _run_answer(run, settings)


async def show_run(
    context: ProjectContext,
    run: Annotated[
        str, Field(description="Its id or a prefix of it; the newest run if it is left out.")
    ] = "",
) -> RunAnswer:
    """Show a run: its status, its steps, its result and its confidence."""
    return await _run_answer(run or None, project_of(context).settings)


class NoApproval:
    """Approves nothing: a run that needs an approval waits for it."""

    async def approve(self, request: ApprovalRequest) -> None:
        """Leave the request open."""


class ProgressNotifier:
    """Sends a progress notification for each step that ends; the run does not wait for the client."""

    def __init__(self, context: ProjectContext) -> None:
        self._context = context
        self._send, self._events = anyio.create_memory_object_stream[Event](math.inf)

    def show(self, event: Event) -> None:
        """Take an event of the run."""
        with suppress(
            anyio.BrokenResourceError
        ):  # the caller is gone, and the run comes to its end
            self._send.send_nowait(event)

    def close(self) -> None:
        """Take no more events; `deliver` returns once the rest is sent. Closing again does nothing."""
        self._send.close()

    async def deliver(self) -> None:
        """Send notifications until `close`."""
        ended, total = set[StepId](), None
        async with self._events:
            async for event in self._events:
                if isinstance(event, PlanAccepted):
                    steps = event.plan.get("steps")
                    total = len(steps) if isinstance(steps, list) else None
                elif isinstance(event, StepFinished) and event.step not in ended:
                    ended.add(event.step)
                    await self._context.report_progress(
                        len(ended), total, " ".join(step_line(event).split())
                    )


async def _run_until_cancelled(
    request: RunRequest, settings: Settings, progress: ProgressNotifier
) -> RunId:
    """Run the request to its end; if the caller is cancelled, the run is journaled as interrupted
    first.
    """
    cancellation, has_ended = CancellationToken(), anyio.Event()
    outcome: PipelineRun[RunContext] | None = None

    def on_earlier(events: Sequence[Event]) -> None:
        for event in events:
            progress.show(event)

    try:
        async with open_task_group() as group:
            group.start_soon(progress.deliver)
            group.start_soon(_cancel_with_caller, cancellation, has_ended)
            with anyio.CancelScope(shield=True):
                outcome = await run_in_project(
                    request,
                    settings,
                    approver=NoApproval(),
                    asker=None,
                    on_event=progress.show,
                    on_earlier=on_earlier,
                    cancellation=cancellation,
                )
            has_ended.set()
            progress.close()
    finally:
        progress.close()
    assert outcome is not None
    return outcome.context.run


async def _cancel_with_caller(cancellation: CancellationToken, has_ended: anyio.Event) -> None:
    try:
        await has_ended.wait()
    finally:
        cancellation.cancel()


async def _run_answer(prefix: str | None, settings: Settings) -> RunAnswer:
    row, events = await load_listed_run(settings, prefix)
    answer = RunAnswer(
        run=row.run,
        job=row.job,
        status=row.status,
        hint=_HINTS[row.status].format(run=row.run) if row.status in _HINTS else None,
    )
    state = fold(events)
    if state.accepted is None:
        waves = target_waves(state)
        rows = [] if waves is None else target_rows(waves)
        return answer.model_copy(
            update={
                "reason": state.finished.reason if state.finished is not None else "",
                "diagnostics": tuple(_faults_of_plan(state)),
                "targets": tuple(TargetAnswer.model_validate(row) for row in rows),
            }
        )
    package = package_of(row, state)
    return answer.model_copy(
        update={
            "reason": package.reason,
            "result": package.result,
            "confidence": package.review.confidence if package.review is not None else None,
            "steps": tuple(
                StepAnswer(
                    id=step.id,
                    tool=step.tool,
                    status=step.status,
                    message=step.error.message if step.error is not None else step.reason,
                )
                for step in package.execution_log
            ),
            "warnings": package.warnings,
            "package": f"{RUN_URI.format(run=row.run)}/package",
        }
    )


def _faults_of_plan(state: RunState) -> Iterator[DiagnosticAnswer]:
    """Yield what is wrong with the plan that a run could not begin with."""
    for fault in faults_of_plan(state):
        # An older version may have journaled a code that there is no more.
        entry = catalogue().get(str(fault["code"]))
        kind = "" if entry is None else entry.kind
        yield DiagnosticAnswer.model_validate({"kind": kind, **fault})
