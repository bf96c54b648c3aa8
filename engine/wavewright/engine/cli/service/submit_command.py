"""`wavewright submit`: a job to the daemon, as a message."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Final
from uuid import uuid4

import anyio

from wavewright.config import exit_codes
from wavewright.config.documents import Document
from wavewright.config.sections import DaemonSection
from wavewright.config.settings import Settings
from wavewright.engine.bus.bus import Bus
from wavewright.engine.bus.errors import BusMisconfigured
from wavewright.engine.bus.subscription import Subscription
from wavewright.engine.bus.topology import REASON_HEADER
from wavewright.engine.cli.common.arguments import project_settings, warn_of_foreign_job
from wavewright.engine.cli.common.broker import open_command_bus
from wavewright.engine.cli.common.errors import CommandError, print_error
from wavewright.engine.cli.planning.plan_check import CheckOptions, check_plan
from wavewright.engine.cli.service.tail_command import envelope_in, print_envelope
from wavewright.engine.daemon.settings_check import check_broker_configured
from wavewright.engine.jobs.document_kinds import is_job, is_template
from wavewright.engine.jobs.inline import resolve_inline_job
from wavewright.engine.jobs.input_overrides import InputOverrides
from wavewright.engine.jobs.resolving import read_file, resolve_job
from wavewright.engine.messages.encoding import MessageAddress, encode
from wavewright.engine.messages.models import JobRequest
from wavewright.engine.operations.broker_definitions import daemon_user_of
from wavewright.executor.store.job_records import JobId, MessageId, OutgoingMessage
from wavewright.planner.diagnostics.rendering import printable, render_text
from wavewright.planner.types import Json, JsonObject
from wavewright.reviewer.package.summary import render_summary
from wavewright.reviewer.records import Package
from wavewright.tools.message_contract import UUID_PATTERN

END_EXIT_CODES = {
    "JOB_COMPLETED": exit_codes.OK,
    "JOB_PARTIALLY_COMPLETED": exit_codes.NEGATIVE,
    "JOB_FAILED": exit_codes.NEGATIVE,
}
"""Statuses after which nothing more comes."""


PACKAGE_TIMEOUT: Final = 2.0
"""How long a package is waited for after the end of its job was told: the two may come in any order."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What is to be sent, and what is wanted then."""

    message: OutgoingMessage
    job: str
    waits: bool
    max_seconds: float
    """Seconds that it is waited for."""
    as_json: bool


def submit(
    job: Path,
    *,
    job_id: str | None,
    sender: str,
    waits: bool,
    most: float | None,
    as_json: bool,
    inputs: InputOverrides,
) -> int:
    """Check a job, send it, and return the exit code: that of its end where it is waited for, at most so many seconds.

    Nothing is sent where the check finds a fault; all of them are printed.

    Raises:
        DocumentError, PlanError: the job cannot be read, or the settings say of no broker.
        BusError: the broker does not take it.
    """
    if most is not None and not waits:
        raise CommandError("--timeout says how long --wait waits", hint="give --wait, too")
    warn_of_foreign_job(job)
    settings = project_settings(job)
    check_broker_configured(settings)
    check_sender(sender, settings.daemon)
    if job_id is not None and not re.fullmatch(UUID_PATTERN, job_id):
        raise CommandError(f"{job_id!r} is no UUID", hint="leave --id out, and one is made")
    document = portable_job(read_file(job), job, settings)
    # What would fail at the daemon for its own sake fails here, where its author sits.
    resolve_inline_job(document, settings)
    if _print_faults(CheckOptions(job, inputs=inputs)):
        return exit_codes.NEGATIVE
    document = _with_inputs(document, job, settings, inputs)
    # A message holds ids in lower case, whatever they were typed in.
    own = (job_id or str(uuid4())).lower()
    message = _job_message(document, own, sender, settings)
    submission = Submission(message, own, waits, inf if most is None else most, as_json)
    try:
        return anyio.run(_send, submission, settings)
    except KeyboardInterrupt:
        print_error("interrupted", f"the job goes on; look at it with: wavewright tail {submission.job}")
        return exit_codes.INTERRUPTED


def _print_faults(options: CheckOptions) -> bool:
    """Print what a check finds wrong and return whether there is any; a lacking plan may be made by the daemon."""
    documents = check_plan(options).documents
    faulty = [
        (found, one.text.source)
        for one in documents
        if (found := [each for each in one.diagnostics if each.severity == "error" and each.code != "E114"])
    ]
    if not faulty:
        return False
    shown = "\n\n".join(render_text(found, source) for found, source in faulty)
    count = sum(len(found) for found, _ in faulty)
    sys.stderr.write(f"{shown}\n")
    print_error(f"{str(options.file)!r} was not sent: {count} {'fault' if count == 1 else 'faults'}")
    return True


def _with_inputs(document: Document, file: Path, settings: Settings, inputs: InputOverrides) -> Document:
    """Return a job's document with the inputs that the command line gives."""
    if not inputs:
        return document
    if not isinstance(document.value, dict) or is_template(document):
        raise CommandError("a goal template has no inputs", place=str(file), hint="write a job that names it")
    order = resolve_job(read_file(file), file, None, settings, inputs=inputs)
    given = document.value.get("inputs")
    named = order.draft.plan.inputs if order.draft else ()
    changed = inputs.applied(given if isinstance(given, dict) else {}, order.goal.inputs_schema, named)
    return Document({**document.value, "inputs": changed}, document.source, root=document.root)


def check_sender(sender: str, section: DaemonSection) -> None:
    """Return where the settings believe a sender that it is one of jobs.

    The daemon has the same settings, and would dead-letter the job without a word to whoever sent it.

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
        message = (
            f"{sender!r} is the broker's user {identity.user_id!r}, and WAVEWRIGHT_AMQP_URL names {user!r}"
        )
        raise CommandError(message, hint=f"write the address with the user {identity.user_id!r}")
    names = ", ".join(sorted(may_send)) or "nobody, for none of `daemon.identities` may"
    raise CommandError(
        f"the settings do not let {sender!r} send jobs", hint=f"name who sends it with --as: {names}"
    )


def portable_job(document: Document, file: Path, settings: Settings) -> Document:
    """Return a job's document as it can be sent: with its plan in it, and with paths from the project's folder."""
    if not isinstance(document.value, dict) or not is_job(document):
        return document
    value = dict(document.value)
    if isinstance(plan := value.get("plan"), str):
        value["plan"] = read_file(file.parent / plan).value
    for name in ("goal_template", "tools"):
        if name in value:
            value[name] = _with_paths_from_root(value[name], file.parent, settings.root)
    return Document(value, document.source, root=document.root)


def _with_paths_from_root(value: Json, folder: Path, root: Path) -> Json:
    """Return a value in which each text that is a path from a folder is that path from the project's."""
    match value:
        case str() if (folder / value).exists() and (folder / value).resolve().is_relative_to(root.resolve()):
            return (folder / value).resolve().relative_to(root.resolve()).as_posix()
        case list():
            return [_with_paths_from_root(item, folder, root) for item in value]
        case dict():
            return {key: _with_paths_from_root(item, folder, root) for key, item in value.items()}
        case _:
            return value


def _job_message(document: Document, job: str, sender: str, settings: Settings) -> OutgoingMessage:
    section, key = settings.daemon, settings.hmac_key
    value: JsonObject = document.value if isinstance(document.value, dict) else {}
    address = MessageAddress(
        source=sender,
        target=section.agent,
        exchange=section.exchange,
        routing_key=section.queues.intake,
        key=None if key is None else key.encode(),
    )
    return encode(
        JobRequest(job_id=job, job=value),
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
        # Whoever looks on begins before the job is sent, or would miss how it starts.
        _subscribe(bus, section) as watcher,
    ):
        await bus.publish(submission.message)
        _print_submission(submission)
        with anyio.move_on_after(submission.max_seconds):
            return await _follow_to_end(submission, watcher)
    # Perhaps it was told while the connection was lost, or the daemon knew the id, or refused the message unseen.
    print_error(
        f"nobody told within {submission.max_seconds:g} s that job {submission.job} has ended",
        f"look on with: wavewright tail {submission.job}; what a daemon refuses lies in the queue "
        f"{section.queues.dead!r} with the reason, and what it has done before is not told again",
    )
    return exit_codes.INTERRUPTED


@asynccontextmanager
async def _subscribe(bus: Bus, section: DaemonSection) -> AsyncGenerator[Subscription]:
    """Look on at statuses and, where the broker lets this user, at packages and dead letters as well."""
    queues = section.queues
    async with AsyncExitStack() as stack:
        try:
            watcher = await stack.enter_async_context(
                bus.subscribe(queues.status, queues.packages, sees_dead=True)
            )
        except BusMisconfigured:
            watcher = await stack.enter_async_context(bus.subscribe(queues.status))
        yield watcher


async def _follow_to_end(submission: Submission, watcher: Subscription) -> int:
    """Show how a job goes and what came out, and return the exit code of its end."""
    packages: list[JsonObject] = []
    code: int | None = None
    status: JsonObject | None = None
    with anyio.CancelScope() as patience:
        async for delivery in watcher:
            if delivery.message_id == submission.message.message and REASON_HEADER in delivery.headers:
                print_error(
                    f"job {submission.job} was refused: {printable(str(delivery.headers[REASON_HEADER]))}"
                )
                return exit_codes.NEGATIVE
            envelope = envelope_in(delivery)
            payload = envelope["payload"] if envelope is not None else None
            if envelope is None or not isinstance(payload, dict) or payload.get("job_id") != submission.job:
                continue
            if isinstance(package := payload.get("package"), dict):
                packages.append(package)
                if submission.as_json:
                    print_envelope(envelope, as_json=True)
            elif (ended := END_EXIT_CODES.get(str(payload.get("status")))) is not None:
                code, status = ended, envelope
                patience.deadline = anyio.current_time() + PACKAGE_TIMEOUT
            elif "status" in payload:
                print_envelope(envelope, as_json=submission.as_json)
            if code is not None and (packages or payload.get("status") == "JOB_FAILED"):
                break
    assert code is not None
    assert status is not None
    print_envelope(status, as_json=submission.as_json)
    if not submission.as_json:
        for package in packages:
            _show_package(package)
    return code


def _show_package(value: JsonObject) -> None:
    """Print the summary of a package with how to get its report."""
    package = Package.model_validate(value)
    sys.stdout.write(f"\n{render_summary(package)}report    wavewright show {package.run} --format html\n")


def _print_submission(submission: Submission) -> None:
    line = json.dumps({"job_id": submission.job}) if submission.as_json else submission.job
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
