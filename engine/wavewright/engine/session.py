"""One run from request to end, in this process: the way in for the command line and for Python callers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from contextlib import nullcontext

from wavewright.config.settings import Settings
from wavewright.engine.default_pipeline import default_pipeline
from wavewright.engine.pipeline.cancellation import CancellationToken
from wavewright.engine.pipeline.context import (
    Approver,
    Asker,
    PackageValidation,
    PeopleForRun,
    Ports,
    Publish,
    RunContext,
    RunRequest,
    TargetObserver,
    ToolWrapper,
    ignore_target_events,
    keep_tools,
    write_package_files,
)
from wavewright.engine.pipeline.pipeline import Observer, PipelineRun
from wavewright.engine.pipeline.services import OpenServices, open_services
from wavewright.executor.events.types import Event
from wavewright.executor.run.reuse import JournalReplayCache
from wavewright.executor.store.journal import Journal


def utc_now() -> dt.datetime:
    """Return the time of the system's clock, in UTC."""
    return dt.datetime.now(dt.UTC)


def ignore_run_event(event: Event) -> None:
    """Watch nothing."""


async def run_request(  # noqa: PLR0913 - the ports of a run, each with its default
    request: RunRequest,
    *,
    settings: Settings,
    journal: Journal,
    approver: Approver,
    asker: Asker | None = None,
    on_event: Callable[[Event], None] = ignore_run_event,
    observe: Observer | None = None,
    stopper: CancellationToken | None = None,
    tools_through: ToolWrapper = keep_tools,
    publish: Publish = write_package_files,
    people_of: PeopleForRun | None = None,
    watch_target: TargetObserver = ignore_target_events,
    validation: PackageValidation | None = None,
    opened: OpenServices | None = None,
    announces_calls: bool = False,
) -> PipelineRun[RunContext]:
    """Run or resume what the request asks for and return the last context.

    Args:
        request: The job, or the run to resume.
        settings: The project's.
        journal: Where the run's events go.
        approver: Who is asked for approvals.
        asker: Who is asked a planner's question; nobody where absent.
        on_event: Told of each event once it is journaled.
        observe: Told of each phase that has ended.
        stopper: Stops the run from outside.
        tools_through: Puts others in the place of the tools that the goal allows, with the same signatures.
        publish: Lets the package out; it is built either way.
        people_of: Whom the runs of targets ask, where a job has several; the same people where absent.
        watch_target: Gives whoever is told of the events of one target's run.
        validation: Who looks at the packages of targets; nobody where absent.
        opened: Models and purse, where several runs share them; opened for this run alone where absent.
        announces_calls: Journal the start of every call before it is made.

    Raises:
        DocumentError, PlanError: a job, a template or a plan is faulty.
        ModelConfigError: the configured model cannot be asked at all; nothing was journaled.
        PromptError: a prompt template is faulty.
        JournalError: the run cannot be journaled; what was journaled stays.
    """
    services = (
        nullcontext(opened)
        if opened is not None
        else open_services(settings, memory=JournalReplayCache(journal))
    )
    async with services as asked:
        if request.run is not None:
            await asked.services.memory.load(request.run)
        ports = Ports(
            journal=journal,
            settings=settings,
            services=asked.services,
            budget_store=asked.budget_store,
            approver=approver,
            asker=asker,
            clock=utc_now,
            on_event=on_event,
            cancellation=stopper or CancellationToken(),
            wrap_tools=tools_through,
            publish=publish,
            people_for_run=people_of,
            observe_target=watch_target,
            validation=validation,
            announces_calls=announces_calls,
        )
        try:
            return await default_pipeline(ports).run(RunContext(request), observe)
        finally:
            if request.run is not None:
                asked.services.memory.evict(request.run)
