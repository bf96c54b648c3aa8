"""What the phases share: recording events, asking a language model, and opening the models.

A recorded event goes into the journal, then to the listener, then into the state. A phase that asks
a model may take long, may be cancelled and runs under the run's time limit; each model call is
journaled as soon as it has ended, so a crash loses no cost.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import anyio

from wavewright.config.documents import read_document
from wavewright.config.installation import install_hint, is_installed
from wavewright.config.settings import Settings
from wavewright.engine.run.jobs.plan_drafts import PlanDraft, PlanOrigin
from wavewright.engine.run.pipeline.context import Ports, RunContext
from wavewright.engine.run.pipeline.phase import PhaseResult, halt
from wavewright.engine.run.pipeline.runtimes import open_runtime
from wavewright.executor.events.state import RunState, fold
from wavewright.executor.events.types import Event, ModelCalled, Noted, RunFinished, RungTaken
from wavewright.planner.diagnostics.diagnostic import Diagnostic
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan
from wavewright.planner.ports.budgets import Allowance, BudgetScope, InspectableBudgetStore
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.ports.model_port import ALWAYS_CLOSED, CircuitBreaker, ModelError, ModelUse
from wavewright.planner.ports.replay_cache import NULL_REPLAY_CACHE, ReplayCache
from wavewright.planner.types import Json, JsonObject, RunId
from wavewright.reviewer.package.call_reports import token_shares
from wavewright.reviewer.records import RunStatus
from wavewright.tools.functions.errors import ToolDefinitionError
from wavewright.tools.functions.tool import ServerCaller
from wavewright.tools.models import model_configured
from wavewright.tools.workers.services import Services, make_services

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from wavewright.tools.mcp.lock import ServerListing

C = TypeVar("C", bound=RunContext)
T = TypeVar("T")


async def record(ports: Ports, context: C, *events: Event, run: RunId | None = None) -> C:
    """Journal events and return the context with them folded in; they are durable when this
    returns.
    """
    await ports.journal.append(run or context.run, events)
    for event in events:
        ports.on_event(event)
    return replace(context, state=fold(events, context.state))


async def record_note(ports: Ports, context: C, topic: str, body: JsonObject) -> C:
    """Journal what a phase did or decided."""
    return await record(ports, context, Noted(ports.clock().timestamp(), topic, body))


async def record_resumed(ports: Ports, context: C) -> C:
    """Journal that another attempt begins, whether it announces its calls, and what observers need
    of earlier ones.
    """
    state = context.state
    steps = () if state.plan is None else Plan.model_validate(state.plan).steps
    finished = state.finished_steps()
    ended = [step.id for step in steps if step.id in finished]
    orchestrator, worker = token_shares(state)
    body: JsonObject = {
        "tools": {str(step.id): step.tool for step in steps},
        "ended": list[Json](ended),
        "step": len(ended),
        "queue_size": len(steps) - len(ended),
        "orchestrator_tokens": orchestrator,
        "worker_tokens": worker,
    }
    return await record_attempt(ports, context, body)


async def record_attempt(ports: Ports, context: C, body: JsonObject) -> C:
    """Journal that another attempt begins, with what observers need of earlier ones."""
    if ports.announces_calls:
        body = {"announced": True, **body}
    if context.request.by is not None:
        body = {**body, "by": context.request.by}
    return await record_note(ports, context, "resumed", body)


async def record_end(ports: Ports, context: C, status: RunStatus, reason: str) -> C:
    """Journal how the run ends."""
    return await record(ports, context, RunFinished(ports.clock().timestamp(), status, reason))


async def halt_failed(ports: Ports, context: C, reason: str) -> PhaseResult[C]:
    """Journal that the run has failed, and end the pipeline."""
    return halt(await record_end(ports, context, "failed", reason), reason)


async def halt_stopped(ports: Ports, context: C) -> PhaseResult[C]:
    """Journal that the run was stopped from outside and can be resumed, and end the pipeline."""
    return replace(await halt_waiting(ports, context, "stopped from outside"), reason="interrupted")


async def halt_waiting(ports: Ports, context: C, reason: str) -> PhaseResult[C]:
    """Journal what the run waits for, after which it can be resumed, and end the pipeline."""
    if not context.state.is_interrupted:
        context = await record_end(ports, context, "interrupted", reason)
    return halt(context, reason)


async def record_refusal(ports: Ports, context: C, topic: str, found: Iterable[Diagnostic]) -> C:
    """Journal why a plan or a patch is not accepted."""
    return await record_note(ports, context, topic, {"diagnostics": [*diagnostics_json(found)]})


def draft_note(draft: PlanDraft, at: float) -> Noted:
    """Return the note of a plan as its author wrote it, with its rung."""
    plan = draft.plan.model_dump(mode="json", by_alias=True, exclude_unset=True)
    body: JsonObject = {"plan": plan, "rung": draft.rung}
    return Noted(at, "draft", {**body, "is_saved": True} if draft.is_saved else body)


def pending_draft(state: RunState) -> PlanDraft | None:
    """Return the draft of a run that is not accepted yet."""
    body = next((noted.body for noted in reversed(state.notes) if noted.topic == "draft"), None)
    if body is None:
        return None
    document = read_document(
        json.dumps(body["plan"], indent=2), f"the plan given to run {state.run}"
    )
    plan = Plan.model_validate(document.value)
    return PlanDraft(
        plan, PlanOrigin(document), str(body["rung"]), is_saved=body.get("is_saved") is True
    )


def diagnostics_json(diagnostics: Iterable[Diagnostic]) -> list[JsonObject]:
    """Return diagnostics as the journal keeps them: what and where, without the source text."""
    return [
        {
            "code": found.code,
            "severity": found.severity,
            "message": found.message,
            "pointer": found.pointer,
            "hint": found.hint,
        }
        for found in diagnostics
    ]


class ModelEventRecorder:
    """Takes the events of model calls without waiting; a task of its own journals them."""

    def __init__(self, ports: Ports) -> None:
        self.journaled: list[Event] = []
        """What is durable so far, in order."""
        self._ports = ports
        self._send, self._events = anyio.create_memory_object_stream[Event](math.inf)

    def record_use(self, use: ModelUse) -> None:
        """Record what a model call cost."""
        self._send_event(ModelCalled(self._ports.clock().timestamp(), use))

    def record_rung(self, rung: RungRecord) -> None:
        """Record a rung that was tried."""
        self._send_event(RungTaken(self._ports.clock().timestamp(), rung))

    def _send_event(self, event: Event) -> None:
        # If the program is ended by a second signal, the journaling task may have ended already;
        # then only the budget store has the cost of the call.
        with suppress(anyio.BrokenResourceError):
            self._send.send_nowait(event)

    def close(self) -> None:
        """Take no more events; `journal` returns once the rest is durable."""
        self._send.close()

    async def journal(self, run: RunId) -> None:
        """Journal events until `close`; shielded, so that a cancelled run still journals what it
        has spent.
        """
        with anyio.CancelScope(shield=True):
            async with self._events:
                async for event in self._events:
                    await self._ports.journal.append(run, [event])
                    self._ports.on_event(event)
                    self.journaled.append(event)


@asynccontextmanager
async def open_recorder(ports: Ports, run: RunId) -> AsyncGenerator[ModelEventRecorder]:
    """Open a recorder; on leaving the context, everything that it took is durable."""
    recorder = ModelEventRecorder(ports)
    async with open_task_group() as group:
        group.start_soon(recorder.journal, run)
        try:
            yield recorder
        finally:
            recorder.close()


@dataclass(frozen=True, slots=True)
class ModelPhaseResult(Generic[C, T]):
    """The result of work that asks a model."""

    context: C
    """With the events of the work folded in, and its time counted."""
    value: T | None
    """None if the work was cancelled."""
    was_stopped: bool = False
    """Whether it was cancelled from outside; otherwise the run's time limit was reached."""


async def run_model_phase(
    ports: Ports, context: C, work: Callable[[ModelEventRecorder], Awaitable[T]]
) -> ModelPhaseResult[C, T]:
    """Do the work and journal its events; cancel it from outside or at the run's time limit."""
    started = time.monotonic()
    value: T | None = None
    async with open_recorder(ports, context.run) as recorder:
        with ports.cancellation.scope(), anyio.move_on_after(context.time_left):
            value = await work(recorder)
    state = fold(recorder.journaled, context.state)
    executed = context.executed_seconds + time.monotonic() - started
    return ModelPhaseResult(
        replace(context, state=state, executed_seconds=executed),
        value,
        ports.cancellation.is_cancelled,
    )


@asynccontextmanager
async def open_task_group() -> AsyncGenerator[TaskGroup]:
    """Open a task group that raises the first exception in it alone."""
    try:
        async with anyio.create_task_group() as group:
            yield group
    except BaseExceptionGroup as failures:
        raise single_exception(failures) from None


def single_exception(failure: BaseException) -> BaseException:
    """Return the first exception of a group, however deep: that a task group was used is internal."""
    while isinstance(failure, BaseExceptionGroup):
        failure = cast("BaseExceptionGroup[BaseException]", failure).exceptions[0]
    return failure


async def remaining_allowance(
    services: Services, settings: Settings, goal: Goal, *, run: RunId, plan: Plan | None = None
) -> Allowance | None:
    """Return what a run's steps may still spend; None if no model is configured.

    If a budget of money is set, also by a step of the plan, the allowance holds the price of a
    token of the model that a worker without a preference would ask.
    """
    if services.budget_store is None:
        return None
    allowance = await services.budget_store.left(BudgetScope(run=run, job=goal.job, role="worker"))
    steps = plan.steps if plan is not None else ()
    if not allowance.bounds_usd and all(
        step.budget is None or step.budget.usd is None for step in steps
    ):
        return allowance
    return replace(allowance, usd_per_1000_tokens=_worker_price(services, settings, goal))


def _worker_price(services: Services, settings: Settings, goal: Goal) -> float | None:
    """Return the price of 1,000 tokens; None if it is unknown: such calls are then refused when
    they are made.
    """
    from wavewright.tools.models.pricing import price_per_1000_tokens

    if services.models is None:
        return None
    try:
        return price_per_1000_tokens(
            services.models.choose(goal.model_preference, "worker").model, settings, os.environ
        )
    except ModelError:
        return None


@asynccontextmanager
async def open_services(
    settings: Settings,
    budget_store: InspectableBudgetStore | None = None,
    memory: ReplayCache = NULL_REPLAY_CACHE,
    circuit: CircuitBreaker = ALWAYS_CLOSED,
    *,
    uses_runtime: bool = False,
) -> AsyncGenerator[Services]:
    """Open the configured models under the configured budgets, and sessions with MCP servers, as
    far as configured.

    Args:
        settings: The project's.
        budget_store: Keeps the budgets; by default the store of the journal.
        memory: Answers from earlier attempts of the runs.
        circuit: Stops calls to a provider that fails.
        uses_runtime: Whether the fleet or the runtime of the settings makes calls, where there is
            one.

    Raises:
        RuntimeNotOpened: the settings name a fleet or a runtime that there cannot be.
        ModelConfigError: a model's name, its key or an address is wrong or missing.
        DocumentError: a ladder of the settings is faulty.
        PlanError: the calibration of the settings is absent or faulty.
        JournalError: the journal's file, which keeps the budgets, cannot be used.
        ToolDefinitionError: the extra `mcp` is not installed, and the settings have a server.
    """
    async with (
        _mcp_sessions(settings) as sessions,
        _open_models(settings, budget_store, memory, circuit) as services,
        open_runtime(settings) if uses_runtime else nullcontext() as runtime,
    ):
        yield replace(services, mcp=sessions, runtime=runtime)


@asynccontextmanager
async def _mcp_sessions(settings: Settings) -> AsyncGenerator[ServerCaller | None]:
    """Open sessions with the MCP servers of the settings; each is started at its first call."""
    if not settings.mcp.servers:
        yield None
        return
    if not is_installed("mcp"):
        raise ToolDefinitionError("the extra 'mcp' is not installed", install_hint("mcp"))
    from wavewright.tools.mcp.lock import McpServerError, read_lock, refuse_changed_tools
    from wavewright.tools.mcp.sessions import McpSessions
    from wavewright.tools.mcp.tools import McpServerSettings, server_settings

    sections = settings.mcp.servers
    servers, unusable = list[McpServerSettings](), dict[str, McpServerError]()
    for name, section in sections.items():
        try:
            servers.append(server_settings(name, section, settings.root))
        except McpServerError as error:
            unusable[name] = error

    def verify(server: str, listing: ServerListing) -> None:
        # The lock may have been written since: a daemon lives for long.
        locked = read_lock(settings.root).servers.get(server)
        refuse_changed_tools(server, locked, listing, sections[server].tools)

    async with McpSessions(servers, verify, unusable) as sessions:
        yield sessions


@asynccontextmanager
async def _open_models(
    settings: Settings,
    budget_store: InspectableBudgetStore | None,
    memory: ReplayCache,
    circuit: CircuitBreaker,
) -> AsyncGenerator[Services]:
    if not model_configured(settings):
        yield make_services(settings)
        return
    from wavewright.executor.stores import budget_store_of
    from wavewright.reviewer.gates.judge import read_calibration
    from wavewright.tools.models import open_models

    if settings.calibration is not None:
        read_calibration(settings.calibration)  # reports faults before a plan is paid for
    async with (
        budget_store_of(settings) if budget_store is None else nullcontext(budget_store) as kept,
        open_models(settings, kept, memory=memory, circuit=circuit) as models,
    ):
        services = make_services(settings, models, kept, memory)
        services.ladder("planner")  # reports faulty ladders before a run begins
        yield services
