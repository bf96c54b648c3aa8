"""A run from the command line, until its exit code: a new one, or one that goes on from another."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from wavewright.config import Settings, exit_codes, known_secrets_redactor
from wavewright.config.atomic_files import FileNotWrittenError
from wavewright.engine.interfaces.cli.common.arguments import (
    from_root,
    open_journal,
    project_notes,
    project_settings,
)
from wavewright.engine.interfaces.cli.common.output import CommandError, print_error
from wavewright.engine.interfaces.cli.common.progress import (
    JsonProgress,
    PlainProgress,
    Progress,
    QuietProgress,
)
from wavewright.engine.interfaces.cli.common.run_text import model_lookup
from wavewright.engine.interfaces.cli.common.terminal import (
    InterruptHandler,
    approver_for,
    asker_for,
    can_answer,
    can_approve,
    named_steps,
)
from wavewright.engine.interfaces.cli.common.tool_output import redacted_tool_output
from wavewright.engine.run.cancellation import CancellationToken
from wavewright.engine.run.context import RunContext, RunRequest
from wavewright.engine.run.decisions.approvals import (
    QUESTION,
    asking_step,
    open_question,
    question_id,
)
from wavewright.engine.run.pipeline.phase import PipelineRun
from wavewright.engine.run.ports import Approver, Asker, Attempt, Means, People, Ports
from wavewright.engine.run.project.tools import functions_elsewhere
from wavewright.engine.run.run_job import run_job
from wavewright.engine.run.services import open_services
from wavewright.engine.run.target_waves import target_waves
from wavewright.engine.service.operations.trace_export import export_traces, traced
from wavewright.executor import Event, JournalReplayCache, Noted, RunFinished, RunState, fold
from wavewright.planner import RunId
from wavewright.planner.cel.errors import join_names
from wavewright.planner.diagnostics.rendering import printable

SECONDS_TO_SHOW_END: Final = 1.0
"""For which the live page of a run is served after its end to viewers who open it then."""
_SECONDS_TO_END_STREAMS: Final = 5
"""For which the page may still show the end to those who view it already; a long run takes a while
to draw.
"""


def execute_request(
    request: RunRequest,
    *,
    approve: str,
    answers: Sequence[str],
    as_json: bool,
    is_quiet: bool = False,
    is_viewed: bool = False,
    reuses_results: bool = True,
) -> int:
    """Execute a request, show its progress, and return the exit code.

    With `is_viewed` the live page of the project is served meanwhile.

    `answers` are for the questions of planner and steps, in the order in which they are asked.

    Raises:
        CommandError: the folder for the package cannot be used, or the run to resume has ended.
    """
    settings = replace(project_settings(request.job_file), reuses_results=reuses_results)
    request = replace(
        request,
        job_file=from_root(request.job_file, settings),
        plan_file=from_root(request.plan_file, settings),
        output_dir=from_root(request.output_dir, settings),
    )
    notes = project_notes(settings, request.job_file)
    progress = _progress_for(settings, as_json=as_json, is_quiet=is_quiet)
    interruption = InterruptHandler(progress.print_line)

    def on_event(event: Event) -> None:
        interruption.observe(event)
        progress.show(event)
        if (line := _target_line(event)) is not None:
            progress.print_line(line)

    def on_earlier(events: Sequence[Event]) -> None:
        progress.replay(events)
        interruption.run = request.run

    try:
        with (
            redacted_tool_output(known_secrets_redactor(settings).redact_known),
            progress,
            export_traces(),
            contextlib.chdir(settings.root),  # where tools run
        ):
            for line in notes:
                progress.print_line(line)
            approver = approver_for(approve, progress, is_resumed=request.run is not None)
            asker = asker_for(answers, progress)
            run = partial(
                run_in_project,
                request,
                settings,
                approver=approver,
                asker=asker,
                on_event=on_event,
                on_earlier=on_earlier,
                cancellation=interruption.cancellation,
                surroundings=_attended(settings, progress, interruption, is_viewed=is_viewed),
            )
            outcome = anyio.run(run)
            if outcome.context.package is not None:
                progress.print_result(outcome.context.package, outcome.context.files)
            for line in asker.unused_lines():
                progress.print_line(line)
    except KeyboardInterrupt:
        return _report_interrupted(interruption.run)
    except FileNotWrittenError as error:
        hint = f"every result is journaled; continue with: wavewright resume {error.path.parent.name} --output DIR"
        raise CommandError(str(error), hint=hint, exit_code=exit_codes.ENVIRONMENT) from error
    return _exit_code(outcome)


@contextlib.asynccontextmanager
async def _attended(
    settings: Settings, progress: Progress, interruption: InterruptHandler, *, is_viewed: bool
) -> AsyncGenerator[None]:
    """Handle signals while a run goes on; if it is to be viewed, serve the live page until its end
    is shown.
    """
    with interruption.handle_signals():
        if not is_viewed:
            yield
            return
        # Only `--view` needs the extra of pages.
        from wavewright.engine.interfaces.cli.common.page_serving import page_beside_run

        async with page_beside_run(settings, grace=_SECONDS_TO_END_STREAMS) as url:
            progress.print_line(f"live page: {url}")
            yield
            await anyio.sleep(SECONDS_TO_SHOW_END)


async def run_in_project(
    request: RunRequest,
    settings: Settings,
    *,
    approver: Approver,
    asker: Asker | None,
    on_event: Callable[[Event], None],
    on_earlier: Callable[[Sequence[Event]], None],
    cancellation: CancellationToken,
    surroundings: AbstractAsyncContextManager[None] | None = None,
) -> PipelineRun[RunContext]:
    """Run or resume what is asked for, with the project's journal and models.

    `on_earlier` is called with the events of a run that is resumed, before it goes on.
    `surroundings` is open meanwhile.

    Raises:
        CommandError: the folder for the package cannot be used, or the run to resume has ended or
            not begun.
    """
    async with surroundings or contextlib.nullcontext(), open_journal(settings) as journal:
        _check_output_folder(request.output_dir or settings.output_dir)
        if request.run is not None:
            events = await journal.load(request.run)
            if not events:
                # Only of a run that is resumed.
                from wavewright.engine.interfaces.cli.common.named_runs import not_begun

                raise not_begun(request.run)
            _check_unfinished(request.run, events)
            on_earlier(events)
            require_tools_here(fold(events), settings)
        async with open_services(
            settings, memory=JournalReplayCache(journal), uses_runtime=True
        ) as services:
            ports = Ports(
                attempt=Attempt(journal=journal, on_event=on_event, cancellation=cancellation),
                means=Means(settings=settings, services=services),
                people=People(
                    approver=approver,
                    asker=asker,
                    can_ask=can_approve(approver),
                    can_answer=can_answer(approver, asker),
                    answered=[] if asker is None else named_steps(asker),
                    find_answer=journal.find_left_answer,
                ),
                find_cancel_request=journal.find_cancel_request,
            )
            with traced(ports) as ports:
                return await run_job(request, ports)


def _check_unfinished(run_id: RunId, events: Sequence[Event]) -> None:
    last = events[-1] if events else None
    if isinstance(last, RunFinished) and last.status != "interrupted":
        msg = f"run {run_id!r} has ended ({last.status.replace('_', ' ')}); there is nothing to resume"
        # A root run calls no tool, so `retry` takes the run of a target only.
        if target_waves(fold(events)) is not None:
            hint = f"`wavewright show {run_id}` lists the runs of its targets: retry one of them"
        else:
            hint = f"`wavewright retry {run_id}` repeats what failed, as a new run"
        raise CommandError(msg, hint=hint)


def _check_output_folder(folder: Path) -> None:
    """Raise an error, before any tool is called, if the folder cannot be made or written to."""
    existing = next(
        (place for place in (folder, *folder.absolute().parents) if place.exists()), folder
    )
    if not existing.is_dir():
        msg = f"the package cannot be written to {str(folder)!r}: {str(existing)!r} is no folder"
    elif not os.access(existing, os.W_OK | os.X_OK):
        msg = f"the package cannot be written to {str(folder)!r}: {str(existing)!r} is read-only"
    else:
        return
    raise CommandError(
        msg, hint="name another folder with --output", exit_code=exit_codes.ENVIRONMENT
    )


def _exit_code(outcome: PipelineRun[RunContext]) -> int:
    context = outcome.context
    if context.state.is_interrupted:
        asked = open_question(context.state)
        if asked is None:
            return _report_interrupted(context.run)
        run, whose = context.run, "a step's" if context.plan else "its planner's"
        if asked.topic == QUESTION:
            step = asking_step(asked)
            named = "TEXT" if step == "planner" else f"{step}=TEXT"
            hint = f"continue with: wavewright resume {run} --answer {named}"
            print_error(f"run {run} waits for the answer to {whose} question", hint)
        else:
            name = question_id(context.state, asked)
            then = f"wavewright answer {name} approve; wavewright resume {run}"
            hint = f"`wavewright decisions {run}` shows it; then: {then}"
            print_error(f"run {run} waits for approval", hint)
        return exit_codes.INTERRUPTED
    finished = context.state.finished
    if finished is not None and finished.status == "cancelled":
        print_error(
            f"run {context.run} was {printable(finished.reason)}",
            f"begin anew with: wavewright retry {context.run}",
        )
        return exit_codes.NEGATIVE
    if finished is not None and context.package is None and finished.status == "achieved":
        return exit_codes.OK
    if outcome.halted is not None:
        print_error(outcome.halted)
        return exit_codes.NEGATIVE
    assert context.package is not None
    return exit_codes.OK if context.package.status == "achieved" else exit_codes.NEGATIVE


def _target_line(event: Event) -> str | None:
    """Return the line of an event of one of several targets; None for any other event."""
    body = event.body if isinstance(event, Noted) else {}
    target, reason = (printable(str(body.get(name, ""))) for name in ("target", "reason"))
    match event:
        case Noted(topic="target_started"):
            return f"target {target}: run {body['run']} begins"
        case Noted(topic="target_completed"):
            status = str(body["status"]).replace("_", " ")
            return f"target {target}: {status} (run {body['run']})" + (reason and f"; {reason}")
        case Noted(topic="target_failed"):
            return f"target {target}: failed: {reason}"
        case _:
            return None


def _progress_for(settings: Settings, *, as_json: bool, is_quiet: bool) -> Progress:
    """Return the progress display: JSON or quiet on request, a live table on a terminal, lines
    elsewhere.
    """
    if as_json:
        return JsonProgress()
    if is_quiet:
        return QuietProgress()
    if sys.stderr.isatty():
        # Imported here: its library takes a while to load.
        from wavewright.engine.interfaces.cli.common.live import LiveProgress

        redact = known_secrets_redactor(settings).redact_known
        return LiveProgress(at_work=model_lookup(settings), redact=redact)
    return PlainProgress()


def _report_interrupted(run: RunId | None) -> int:
    if run is None:
        print_error("interrupted before the run began")
    else:
        print_error(f"run {run} was interrupted", f"continue with: wavewright resume {run}")
    return exit_codes.INTERRUPTED


def require_tools_here(state: RunState, settings: Settings) -> None:
    """Raise an error where a run's plan calls functions that only a Python program has.

    Raises:
        CommandError: the functions, the program, and how it goes on from there.
    """
    elsewhere = functions_elsewhere(state, settings)
    if elsewhere:
        started = state.started
        assert started is not None
        continued = "ww.retry" if state.finished and not state.is_interrupted else "ww.resume"
        raise CommandError(
            f"run {started.run!r} calls {join_names(elsewhere)} of {started.program}, which this "
            "project does not have",
            hint=f"continue in that program: await {continued}({started.run!r})",
        )
