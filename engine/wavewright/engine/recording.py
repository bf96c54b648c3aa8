"""The way of an event: into the journal, then to whoever watches, then into the state."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from wavewright.config.documents import read_document
from wavewright.engine.context import Ports, RunContext
from wavewright.engine.jobs import PlanDraft, PlanOrigin
from wavewright.executor.events import Event, Noted, RunFinished
from wavewright.executor.state import RunState, fold
from wavewright.planner.diagnostics import Diagnostic
from wavewright.planner.models import Plan
from wavewright.planner.types import JsonObject, RunId

STOPPED_REASON = "stopped from outside"
"""Why a run is interrupted that somebody stopped."""


async def record(ports: Ports, context: RunContext, *events: Event, run: RunId | None = None) -> RunContext:
    """Journal events and return the context with them folded in; they are durable when this returns."""
    await ports.journal.append(run or context.run, events)
    for event in events:
        ports.on_event(event)
    return replace(context, state=fold(events, context.state))


async def record_note(ports: Ports, context: RunContext, topic: str, body: JsonObject) -> RunContext:
    """Journal what a phase did or decided."""
    return await record(ports, context, Noted(ports.clock().timestamp(), topic, body))


async def record_resumed(ports: Ports, context: RunContext) -> RunContext:
    """Journal that another attempt begins, and whether it announces its calls."""
    return await record_note(ports, context, "resumed", {"announced": True} if ports.announces_calls else {})


async def end_interrupted(ports: Ports, context: RunContext, reason: str) -> RunContext:
    """Journal that the run was stopped before its end and can be resumed."""
    if context.state.is_interrupted:
        return context
    return await record(ports, context, RunFinished(ports.clock().timestamp(), "interrupted", reason))


def draft_note(draft: PlanDraft, at: float) -> Noted:
    """Return the note of a plan as its author wrote it, with the rung that it is."""
    plan = draft.plan.model_dump(mode="json", by_alias=True, exclude_unset=True)
    body: JsonObject = {"plan": plan, "rung": draft.rung}
    return Noted(at, "draft", {**body, "is_sealed": True} if draft.is_saved else body)


def pending_draft(state: RunState) -> PlanDraft | None:
    """Return the plan that a run was given and has not accepted yet."""
    body = next((noted.body for noted in reversed(state.notes) if noted.topic == "draft"), None)
    if body is None:
        return None
    document = read_document(json.dumps(body["plan"], indent=2), f"the plan given to run {state.run}")
    plan = Plan.model_validate(document.value)
    return PlanDraft(plan, PlanOrigin(document), str(body["rung"]), is_saved=body.get("is_sealed") is True)


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
