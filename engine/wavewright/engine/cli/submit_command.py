"""`wavewright submit`: a job to the daemon, as a message."""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import dataclass
from math import inf
from pathlib import Path
from uuid import uuid4

import anyio

from wavewright.config.daemon_settings import DaemonSection
from wavewright.config.documents import Document
from wavewright.config.settings import Settings
from wavewright.engine.bus.errors import BusError
from wavewright.engine.bus.watcher import Watcher
from wavewright.engine.cli import exit_codes
from wavewright.engine.cli.broker import reached_bus, told_of_bus
from wavewright.engine.cli.failures import CommandError, print_error
from wavewright.engine.cli.project import project_settings
from wavewright.engine.cli.tail_command import envelope_in, show
from wavewright.engine.daemon.faults import refuse_no_broker
from wavewright.engine.document_kinds import is_job
from wavewright.engine.inline_jobs import read_inline_order
from wavewright.engine.jobs import read_file
from wavewright.engine.messages.encoding import Address, encode
from wavewright.engine.messages.fields import UUID_PATTERN
from wavewright.engine.messages.requests import JobRequest
from wavewright.engine.operations.definitions import daemon_user_of
from wavewright.executor.job_store.records import JobId, MessageId, Outgoing
from wavewright.planner.types import Json, JsonObject

ENDS = {
    "JOB_COMPLETED": exit_codes.OK,
    "JOB_PARTIALLY_COMPLETED": exit_codes.NEGATIVE,
    "JOB_FAILED": exit_codes.NEGATIVE,
}
"""Statuses after which nothing more comes."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What is to be sent, and what is wanted then."""

    message: Outgoing
    job: str
    waits: bool
    most: float
    """Seconds that it is waited for."""
    as_json: bool


def submit(
    job: Path, *, job_id: str | None, sender: str, waits: bool, most: float | None, as_json: bool
) -> int:
    """Send a job and return the exit code: that of its end where it is waited for, at most so many seconds.

    Raises:
        DocumentError, PlanError: the job is faulty, or the settings say of no broker.
        CommandError: the broker does not take it.
    """
    if most is not None and not waits:
        raise CommandError("--timeout says how long --wait waits", hint="give --wait, too")
    settings = project_settings(job)
    refuse_no_broker(settings)
    refuse_sender(sender, settings.daemon)
    if job_id is not None and not re.fullmatch(UUID_PATTERN, job_id):
        raise CommandError(f"{job_id!r} is no UUID", hint="leave --id out, and one is made")
    document = portable(read_file(job), job, settings)
    # What would fail at the daemon for its own sake fails here, where its author sits.
    read_inline_order(document, settings)
    # A message holds ids in lower case, whatever they were typed in.
    own = (job_id or str(uuid4())).lower()
    message = _message(document, own, sender, settings)
    submission = Submission(message, own, waits, inf if most is None else most, as_json)
    try:
        return anyio.run(_send, submission, settings)
    except BusError as error:
        raise told_of_bus(error) from error
    except KeyboardInterrupt:
        print_error("interrupted", f"the job goes on; look at it with: wavewright tail {submission.job}")
        return exit_codes.INTERRUPTED


def refuse_sender(sender: str, section: DaemonSection) -> None:
    """Return where the settings believe a sender that it is one of jobs.

    The daemon has the same settings, and would lay the job aside without a word to whoever sent it.

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


def portable(document: Document, file: Path, settings: Settings) -> Document:
    """Return a job's document as it can be sent: with its plan in it, and with paths from the project's folder."""
    if not isinstance(document.value, dict) or not is_job(document):
        return document
    value = dict(document.value)
    if isinstance(plan := value.get("plan"), str):
        value["plan"] = read_file(file.parent / plan).value
    for name in ("goal_template", "tools"):
        if name in value:
            value[name] = _from_root(value[name], file.parent, settings.root)
    return Document(value, document.source, root=document.root)


def _from_root(value: Json, folder: Path, root: Path) -> Json:
    """Return a value in which each text that is a path from a folder is that path from the project's."""
    match value:
        case str() if (folder / value).exists() and (folder / value).resolve().is_relative_to(root.resolve()):
            return (folder / value).resolve().relative_to(root.resolve()).as_posix()
        case list():
            return [_from_root(item, folder, root) for item in value]
        case dict():
            return {key: _from_root(item, folder, root) for key, item in value.items()}
        case _:
            return value


def _message(document: Document, job: str, sender: str, settings: Settings) -> Outgoing:
    section, key = settings.daemon, settings.hmac_key
    value: JsonObject = document.value if isinstance(document.value, dict) else {}
    address = Address(
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
        async with reached_bus(section, "wavewright submit") as bus:
            await bus.publish(submission.message)
        _say(submission)
        return exit_codes.OK
    async with (
        reached_bus(section, "wavewright submit") as bus,
        # Whoever looks on begins before the job is sent, or would miss how it starts.
        bus.watch(section.queues.status) as watcher,
    ):
        await bus.publish(submission.message)
        _say(submission)
        with anyio.move_on_after(submission.most):
            return await _end_of(submission, watcher)
    # Perhaps it was told while the connection was lost, or the daemon knew the id, or refused the message.
    print_error(
        f"nobody told within {submission.most:g} s that job {submission.job} has ended",
        f"look on with: wavewright tail {submission.job}; what a daemon refuses lies in the queue "
        f"{section.queues.dead!r} with the reason, and what it has done before is not told again",
    )
    return exit_codes.INTERRUPTED


async def _end_of(submission: Submission, watcher: Watcher) -> int:
    """Show how a job goes, and return the exit code of its end."""
    async for delivery in watcher:
        envelope = envelope_in(delivery)
        payload = envelope["payload"] if envelope is not None else None
        if envelope is not None and isinstance(payload, dict) and payload.get("job_id") == submission.job:
            show(envelope, as_json=submission.as_json)
            if (code := ENDS.get(str(payload.get("status")))) is not None:
                return code
    raise AssertionError


def _say(submission: Submission) -> None:
    line = json.dumps({"job_id": submission.job}) if submission.as_json else submission.job
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
