"""`wavewright tail`: the daemon's messages, as they are published."""

from __future__ import annotations

import json
import sys

import anyio

from wavewright.config import exit_codes
from wavewright.config.settings import Settings
from wavewright.engine.cli.common.arguments import project_settings
from wavewright.engine.cli.common.broker import open_command_bus
from wavewright.engine.cli.common.output import print_line
from wavewright.engine.daemon.settings_check import check_broker_configured
from wavewright.engine.messages.contract import message_contract
from wavewright.engine.messages.delivery import Delivery
from wavewright.planner.diagnostics.rendering import printable, printable_json
from wavewright.planner.types import Json, JsonObject

_SHOWN_FIELDS = ("target", "step", "decision_id", "reason")


def tail(job: str | None, *, packages: bool, as_json: bool) -> int:
    """Print statuses, questions and, if wanted, packages until Ctrl-C.

    Raises:
        DocumentError: the settings name no broker.
        BusError: the broker cannot be reached, or closes the connection.
    """
    settings = project_settings()
    check_broker_configured(settings)
    try:
        anyio.run(_tail, settings, job, packages, as_json)
    except KeyboardInterrupt:
        return exit_codes.OK
    return exit_codes.OK


async def _tail(settings: Settings, job: str | None, packages: bool, as_json: bool) -> None:  # noqa: FBT001 - as anyio.run calls it
    section = settings.daemon
    own_target = message_contract(settings).fields.get("target", "target")
    keys = [section.queues.status, section.queues.decisions]
    if packages:
        keys.append(section.queues.packages)
    async with open_command_bus(section, "wavewright tail") as bus, bus.subscribe(*keys) as watcher:
        sys.stderr.write(f"listening to {section.exchange}; Ctrl-C ends it\n")
        sys.stderr.flush()
        async for delivery in watcher:
            envelope = envelope_in(delivery)
            if envelope is not None and (job is None or _is_about(envelope, job)):
                print_envelope(envelope, as_json=as_json, own_target=own_target)


def envelope_in(delivery: Delivery) -> JsonObject | None:
    """Return the envelope in a message; None if it holds something else."""
    try:
        value: Json = json.loads(delivery.body)
    except ValueError:
        return None
    return value if isinstance(value, dict) and isinstance(value.get("payload"), dict) else None


def _is_about(envelope: JsonObject, job: str) -> bool:
    payload = envelope["payload"]
    named = payload.get("job_id") if isinstance(payload, dict) else None
    return str(named or envelope.get("correlation_id", "")).startswith(job.lower())


def print_envelope(envelope: JsonObject, *, as_json: bool, own_target: str = "target") -> None:
    """Print one message as JSON or as a line of text; `own_target` is the contract's name of the field `target`."""
    print_line(printable_json(envelope) if as_json else _envelope_line(envelope, own_target))


def _envelope_line(envelope: JsonObject, own_target: str) -> str:
    payload = envelope["payload"]
    assert isinstance(payload, dict)
    when = str(envelope.get("timestamp", ""))[:19].replace("T", " ")
    what = str(payload.get("status") or envelope.get("message_type", ""))
    job = str(payload.get("job_id") or envelope.get("correlation_id", ""))[:8]
    parts = [when, job, f"{what:<17}"]
    if "steps_completed" in payload:
        parts.append(f"{payload['steps_completed']}/{payload.get('steps_total', '?')}")
    shown = dict.fromkeys((own_target, *_SHOWN_FIELDS))
    parts += [str(payload[name]) for name in shown if payload.get(name)]
    if "question" in payload:
        parts.append(str(payload["question"]))
    return printable(" ".join(parts).rstrip())
