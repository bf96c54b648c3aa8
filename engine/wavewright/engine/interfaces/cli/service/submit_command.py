"""`wavewright submit` and `wavewright daemon --tail`: send a job to the daemon, and print its messages as
they are published.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Final
from uuid import uuid4

import anyio

from wavewright.config import Document, Settings, exit_codes, read_document_file
from wavewright.config.sections import DaemonSection
from wavewright.engine.interfaces.cli.common.arguments import project_settings, warn_of_foreign_job
from wavewright.engine.interfaces.cli.common.broker import open_command_bus
from wavewright.engine.interfaces.cli.common.output import (
    CommandError,
    print_aside,
    print_error,
    print_line,
)
from wavewright.engine.interfaces.cli.planning.plan_check import CheckOptions, check_plan
from wavewright.engine.interfaces.cli.service.daemon_command import check_broker_configured
from wavewright.engine.run.jobs.documents import is_template
from wavewright.engine.run.jobs.inline import absent_paths, portable_job, resolve_inline_job
from wavewright.engine.run.jobs.inputs import InputOverrides
from wavewright.engine.run.jobs.resolving import resolve_job
from wavewright.engine.service.bus.bus import Bus, Subscription
from wavewright.engine.service.bus.faults import BusMisconfigured
from wavewright.engine.service.bus.topology import REASON_HEADER, daemon_user_of
from wavewright.engine.service.job_store.records import JobId, MessageId, OutgoingMessage
from wavewright.engine.service.messages.contract import message_contract
from wavewright.engine.service.messages.decoding import (
    PRIORITY_HEADER,
    TRACE_KEY,
    document_refusal,
)
from wavewright.engine.service.messages.delivery import Delivery, document_rule
from wavewright.engine.service.messages.encoding import MessageAddress, encode
from wavewright.engine.service.messages.models import JobRequest
from wavewright.planner import Json, JsonObject, as_object, render_text
from wavewright.planner.diagnostics.diagnostic import counted, error_diagnostics
from wavewright.planner.diagnostics.rendering import printable, printable_json
from wavewright.reviewer import Package, render_summary
from wavewright.tools.message_contract import UUID_PATTERN

END_EXIT_CODES = {
    "JOB_COMPLETED": exit_codes.OK,
    "JOB_PARTIALLY_COMPLETED": exit_codes.NEGATIVE,
    "JOB_FAILED": exit_codes.NEGATIVE,
    "JOB_CANCELLED": exit_codes.NEGATIVE,
}
"""Final statuses of a job, with the exit code of each."""


PACKAGE_TIMEOUT: Final = 2.0
"""Seconds to wait for a package after its job has ended: the two messages may arrive in any order.
"""


@dataclass(frozen=True, slots=True)
class Submission:
    """A message to send, and how long to follow its job."""

    message: OutgoingMessage
    job: str
    waits: bool
    max_seconds: float
    """Seconds to wait for the job's end."""
    as_json: bool


def submit(
    job: Path,
    *,
    job_id: str | None,
    sender: str,
    priority: int | None = None,
    waits: bool,
    most: float | None,
    as_json: bool,
    inputs: InputOverrides,
) -> int:
    """Check a job, send it, and return the exit code.

    If `waits`, the job is followed for at most `most` seconds and the exit code is that of its end.
    If the check finds faults, they are printed and nothing is sent.

    Raises:
        DocumentError, PlanError: the job cannot be read, or the settings name no broker.
        BusError: the broker cannot be reached or does not accept the message.
    """
    if most is not None and not waits:
        raise CommandError("--timeout needs --wait", hint="add --wait, or leave out --timeout")
    warn_of_foreign_job(job)
    settings = project_settings(job)
    check_broker_configured(settings)
    check_sender(sender, settings.daemon)
    if job_id is not None and not re.fullmatch(UUID_PATTERN, job_id):
        raise CommandError(f"{job_id!r} is no UUID", hint="leave out --id to have one generated")
    if _print_faults(CheckOptions(job, inputs=inputs)):
        return exit_codes.NEGATIVE
    document = read_document_file(job)
    for path in absent_paths(document, job, settings):
        print_aside(
            f"{path!r} stands neither beside the job nor in the project {settings.root}: "
            "the daemon reads it where its project is"
        )
    document = portable_job(document, job, settings)
    # The daemon would refuse such a job; its author is told here.
    resolve_inline_job(document, settings)
    rule = document_rule(message_contract(settings))
    if (reason := document_refusal(as_object(document.value), rule)) is not None:
        raise CommandError(reason, place=str(job))
    document = _with_inputs(document, job, settings, inputs)
    # Ids are in lower case in messages.
    own = (job_id or str(uuid4())).lower()
    message = _job_message(document, own, sender, settings)
    if priority is not None:
        message = replace(message, headers={**message.headers, PRIORITY_HEADER: priority})
    submission = Submission(message, own, waits, inf if most is None else most, as_json)
    try:
        return anyio.run(_send, submission, settings)
    except KeyboardInterrupt:
        print_error(
            "interrupted",
            f"the job continues; follow it with: wavewright daemon --tail {submission.job}",
        )
        return exit_codes.INTERRUPTED


def _print_faults(options: CheckOptions) -> bool:
    """Print the faults that a check finds and return whether there are any; the daemon may make a
    missing plan.
    """
    count, texts = 0, list[str]()
    for document in check_plan(options).documents:
        faults = [
            fault for fault in error_diagnostics(document.diagnostics) if fault.code != "E114"
        ]
        if faults:
            count += len(faults)
            texts.append(render_text(faults, document.text.source))
    if not texts:
        return False
    shown = "\n\n".join(texts)
    print_aside(shown)
    print_error(f"{str(options.file)!r} was not sent: {counted(count, 'fault')}")
    return True


def _with_inputs(
    document: Document, file: Path, settings: Settings, inputs: InputOverrides
) -> Document:
    """Return a job's document with the inputs of the command line."""
    if not inputs:
        return document
    if not isinstance(document.value, dict) or is_template(document):
        raise CommandError(
            "a goal template has no inputs", place=str(file), hint="write a job that names it"
        )
    order = resolve_job(read_document_file(file), file, None, settings, inputs=inputs)
    given = document.value.get("inputs")
    changed = inputs.applied(
        as_object(given),
        order.goal.inputs_schema,
        of_plan={} if order.draft is None else order.draft.plan.inputs,
    )
    return Document({**document.value, "inputs": changed}, document.source, root=document.root)


def check_sender(sender: str, section: DaemonSection) -> None:
    """Check that the settings let a sender send jobs; the daemon would dead-letter the job without
    an answer.

    Raises:
        CommandError: they do not.
    """
    known = section.identities
    may_send = {name for name, one in known.items() if "job_request" in one.may_send}
    if not known or sender in may_send:
        identity = known.get(sender)
        user = daemon_user_of(section.amqp_url)
        if identity is None or identity.user_id in (None, user):
            return
        message = f"{sender!r} is the broker's user {identity.user_id!r}, and WAVEWRIGHT_AMQP_URL names {user!r}"
        raise CommandError(message, hint=f"write the address with the user {identity.user_id!r}")
    names = ", ".join(sorted(may_send))
    hint = (
        f"name the sender with --as: {names}"
        if names
        else "let one of `daemon.identities` send `job_request`"
    )
    raise CommandError(f"the settings do not let {sender!r} send jobs", hint=hint)


def _job_message(document: Document, job: str, sender: str, settings: Settings) -> OutgoingMessage:
    section, key = settings.daemon, settings.hmac_key
    address = MessageAddress(
        source=sender,
        target=section.agent,
        exchange=section.exchange,
        routing_key=section.queues.intake,
        key=None if key is None else key.encode(),
        trace=os.environ.get(TRACE_KEY.upper()),
    )
    return encode(
        JobRequest(job_id=job, job=as_object(document.value)),
        address,
        message=MessageId(str(uuid4())),
        correlation=job,
        at=time.time(),
        job=JobId(job),
    )


async def _send(submission: Submission, settings: Settings) -> int:
    section = settings.daemon
    if not submission.waits:
        async with open_command_bus(section, "wavewright submit") as bus:
            await bus.publish(submission.message)
        _print_submission(submission)
        return exit_codes.OK
    async with (
        open_command_bus(section, "wavewright submit") as bus,
        # Subscribed before the job is sent, so its first messages are not missed.
        _subscribe(bus, section) as watcher,
    ):
        await bus.publish(submission.message)
        _print_submission(submission)
        with anyio.move_on_after(submission.max_seconds):
            own_target = message_contract(settings).fields.get("target", "target")
            return await _follow_to_end(submission, watcher, own_target)
    # The end may have been published while the connection was lost, or the daemon knew the id or
    # refused the message.
    print_error(
        f"job {submission.job} did not end within {submission.max_seconds:g} s",
        f"follow it with: wavewright daemon --tail {submission.job}; refused messages are in the queue "
        f"{section.queues.dead!r} with the reason, and results of an earlier job of this id are not published again",
    )
    return exit_codes.INTERRUPTED


@asynccontextmanager
async def _subscribe(bus: Bus, section: DaemonSection) -> AsyncGenerator[Subscription]:
    """Subscribe to statuses and, if the user has the permission, to packages and dead letters."""
    queues = section.queues
    async with AsyncExitStack() as stack:
        try:
            watcher = await stack.enter_async_context(
                bus.subscribe(queues.status, queues.packages, sees_dead=True)
            )
        except BusMisconfigured:
            watcher = await stack.enter_async_context(bus.subscribe(queues.status))
        yield watcher


async def _follow_to_end(submission: Submission, watcher: Subscription, own_target: str) -> int:
    """Print a job's statuses and packages, and return the exit code of its end."""
    show = partial(print_envelope, as_json=submission.as_json, own_target=own_target)
    packages: list[JsonObject] = []
    code: int | None = None
    status: JsonObject | None = None
    with anyio.CancelScope() as patience:
        async for delivery in watcher:
            if (
                delivery.message_id == submission.message.message
                and REASON_HEADER in delivery.headers
            ):
                print_error(
                    f"job {submission.job} was refused: {printable(str(delivery.headers[REASON_HEADER]))}"
                )
                return exit_codes.NEGATIVE
            envelope = envelope_in(delivery)
            payload = envelope["payload"] if envelope is not None else None
            if (
                envelope is None
                or not isinstance(payload, dict)
                or payload.get("job_id") != submission.job
            ):
                continue
            if "status" not in payload:
                packages.append(envelope)
                if submission.as_json:
                    show(envelope)
            elif (ended := END_EXIT_CODES.get(str(payload.get("status")))) is not None:
                code, status = ended, envelope
                patience.deadline = anyio.current_time() + PACKAGE_TIMEOUT
            else:
                show(envelope)
            if code is not None and (
                packages or payload.get("status") in {"JOB_FAILED", "JOB_CANCELLED"}
            ):
                break
    assert code is not None
    assert status is not None
    show(status)
    for package in () if submission.as_json else packages:
        payload = package["payload"]
        if isinstance(payload, dict) and isinstance(payload.get("package"), dict):
            done = Package.model_validate(payload["package"])
            sys.stdout.write(
                f"\n{render_summary(done)}report    wavewright show {done.run} --format html\n"
            )
        else:
            # A message of a pack, for another program.
            show(package)
    return code


def _print_submission(submission: Submission) -> None:
    print_line(json.dumps({"job_id": submission.job}) if submission.as_json else submission.job)


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
    async with (
        open_command_bus(section, "wavewright daemon --tail") as bus,
        bus.subscribe(*keys) as watcher,
    ):
        print_aside(f"listening to {section.exchange}; Ctrl-C ends it")
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
    """Print one message as JSON or as a line of text; `own_target` is the contract's name of the
    field `target`.
    """
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
