"""The way of an event: into the journal, then to whoever watches, then into the state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from wavewright.engine.context import Ports, RunContext
from wavewright.executor.events import Event, Noted
from wavewright.executor.state import fold
from wavewright.planner.diagnostics import Diagnostic
from wavewright.planner.types import JsonObject, RunId


async def record(ports: Ports, context: RunContext, *events: Event, run: RunId | None = None) -> RunContext:
    """Journal events and return the context with them folded in; they are durable when this returns."""
    await ports.journal.append(run or context.run, events)
    for event in events:
        ports.on_event(event)
    return replace(context, state=fold(events, context.state))


async def note(ports: Ports, context: RunContext, topic: str, body: JsonObject) -> RunContext:
    """Journal what a phase did or decided."""
    return await record(ports, context, Noted(ports.clock().timestamp(), topic, body))


def found_json(diagnostics: Iterable[Diagnostic]) -> list[JsonObject]:
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
