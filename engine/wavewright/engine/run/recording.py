"""What phases write into the journal of a run.

A recorded event goes into the journal, then to the listener, then into the state.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeVar

from wavewright.config import read_document
from wavewright.config.identities import Identity
from wavewright.engine.run.context import RunContext
from wavewright.engine.run.jobs.plan_drafts import PlanDraft, PlanOrigin
from wavewright.engine.run.ports import Attempt
from wavewright.executor import Event, Noted, RunState, fold
from wavewright.executor.events.state import last_instant
from wavewright.planner import Diagnostic, Json, JsonObject, Plan, RunId, as_list, as_object
from wavewright.reviewer.package.call_reports import token_shares

C = TypeVar("C", bound=RunContext)


async def record(attempt: Attempt, context: C, *events: Event, run: RunId | None = None) -> C:
    """Journal events and return the context with them folded in; they are durable when this
    returns.
    """
    await attempt.journal.append(run or context.run, events)
    for event in events:
        attempt.on_event(event)
    return replace(context, state=fold(events, context.state))


async def record_note(attempt: Attempt, context: C, topic: str, body: JsonObject) -> C:
    """Journal what a phase did or decided."""
    return await record(attempt, context, Noted(attempt.now(), topic, body))


async def record_resumed(attempt: Attempt, context: C) -> C:
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
    return await record_attempt(attempt, context, body)


async def record_attempt(attempt: Attempt, context: C, body: JsonObject) -> C:
    """Journal that another attempt begins, with what observers need of earlier ones, and until when
    the run has worked.
    """
    body = {**body, "worked_until": last_instant(context.state)}
    if attempt.announces_calls:
        body = {"announced": True, **body}
    if context.request.by is not None:
        body = {**body, **Identity.parse(context.request.by).fields}
    return await record_note(attempt, context, "resumed", body)


async def record_refusal(
    attempt: Attempt, context: C, topic: str, faults: Iterable[Diagnostic]
) -> C:
    """Journal why a plan or a patch is not accepted."""
    return await record_note(attempt, context, topic, {"diagnostics": [*diagnostics_json(faults)]})


def faults_of_plan(state: RunState) -> list[JsonObject]:
    """Return why the plan of a run was refused, as the checker has said it last."""
    refusals = [note for note in state.notes if note.topic == "plan_refused"]
    return [*map(as_object, as_list(refusals[-1].body["diagnostics"]))] if refusals else []


def draft_note(draft: PlanDraft, at: float) -> Noted:
    """Return the note of a plan as its author wrote it, with its rung."""
    plan = draft.plan.model_dump(mode="json", by_alias=True, exclude_unset=True)
    body: JsonObject = {"plan": plan, "rung": draft.rung}
    if draft.is_saved:
        body["is_saved"] = True
    return Noted(at, "draft", body)


def pending_draft(state: RunState) -> PlanDraft | None:
    """Return the draft of a run that is not accepted yet."""
    drafts = [noted.body for noted in state.notes if noted.topic == "draft"]
    if not drafts:
        return None
    body = drafts[-1]
    # Read from a text as its author's was: faults that the check finds have places in it.
    document = read_document(
        json.dumps(body["plan"], indent=2), f"the plan given to run {state.run}"
    )
    plan = Plan.model_validate(document.value)
    is_saved = body.get("is_saved") is True
    return PlanDraft(plan, PlanOrigin(document), str(body["rung"]), is_saved=is_saved)


def diagnostics_json(diagnostics: Iterable[Diagnostic]) -> list[JsonObject]:
    """Return diagnostics as the journal keeps them: what and where, without the source text."""
    return [
        {
            "code": diagnostic.code,
            "severity": diagnostic.severity,
            "message": diagnostic.message,
            "pointer": diagnostic.pointer,
            "hint": diagnostic.hint,
        }
        for diagnostic in diagnostics
    ]


KEPT_PLAN_TOPIC: Final = "kept_plan"
"""Topic of the note of what became of a kept plan in a run."""
