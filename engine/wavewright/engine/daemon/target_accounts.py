"""What is told of a job with several targets: how each begins and ends, its package, and how many there are by then.

In a job that came as a goal about a zone its targets are told of as zones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from wavewright.engine.daemon.reports import Reporter, shortened, zone_of
from wavewright.engine.messages.ids import package_id
from wavewright.engine.messages.reports import JobStatus
from wavewright.engine.target_waves import COMPLETED, FAILED, JUDGED, SENT, STARTED, Waves
from wavewright.executor.events import Noted, RunFinished, RunStarted
from wavewright.executor.job_store.records import JobRow, Outgoing, SentPackage
from wavewright.planner.types import Json, JsonObject
from wavewright.reviewer.records import Package

TOPICS: Final = frozenset({STARTED, SENT, JUDGED, COMPLETED, FAILED})
_STATUSES: Final[dict[str, tuple[JobStatus, JobStatus]]] = {
    SENT: ("PACKAGE_SENT", "PACKAGE_SENT"),
    JUDGED: ("VALIDATION_RECEIVED", "VALIDATION_RECEIVED"),
    STARTED: ("TARGET_STARTED", "ZONE_STARTED"),
    COMPLETED: ("TARGET_COMPLETED", "ZONE_COMPLETED"),
    FAILED: ("TARGET_FAILED", "ZONE_FAILED"),
}
"""By topic of the note: of a target, and of a zone."""
_ENDS: Final[dict[str, JobStatus]] = {
    "achieved": "JOB_COMPLETED",
    "not_achieved": "JOB_PARTIALLY_COMPLETED",
    "failed": "JOB_FAILED",
}


def tell_target(
    job: JobRow, waves: Waves, noted: Noted, reporter: Reporter, packages: Mapping[str, Package]
) -> list[Outgoing]:
    """Return what is told of one target.

    Args:
        job: The job.
        waves: How far it is after the note.
        noted: What has happened to the target.
        reporter: Makes the messages.
        packages: What came out, by run.
    """
    target, is_zone = str(noted.body["target"]), zone_of(job) is not None
    fields: JsonObject = {**name_of_target(job, target), **_counts(waves, is_zone=is_zone)}
    if isinstance(reason := noted.body.get("reason"), str) and reason:
        fields["reason"] = reason
    sent = waves.packages.get(target)
    iteration = 1 if sent is None else sent.iteration
    told: list[Outgoing] = []
    # One that somebody has looked at went out before it was completed.
    if noted.topic == SENT or (noted.topic == COMPLETED and sent is None):
        package = packages[str(noted.body["run"])]
        told.append(reporter.target_package(job, target, package, noted.at, iteration))
    if sent is not None:
        fields |= {"iteration": iteration, "package_id": package_id(job.job, iteration, target)}
    status = _STATUSES[noted.topic][is_zone]
    told.append(reporter.status(job, status, noted.at, target, iteration, **fields))
    return told


def name_of_target(job: JobRow, target: str) -> dict[str, Json]:
    """Return the field of a status that names a target."""
    return {"zone_name" if zone_of(job) is not None else "target": target}


def sent_with(job: JobRow, waves: Waves, noted: Noted) -> tuple[SentPackage, ...]:
    """Return the package that goes out with a note, to await its verdict."""
    if noted.topic != SENT:
        return ()
    target = str(noted.body["target"])
    iteration = waves.packages[target].iteration
    return (SentPackage(package_id(job.job, iteration, target), iteration),)


def tell_begin(
    job: JobRow, waves: Waves | None, started: RunStarted, reporter: Reporter
) -> Sequence[Outgoing]:
    """Return what is told of a job whose run begins: its targets begin later, one by one."""
    if waves is None:
        return reporter.started(job, started.at)
    return (reporter.status(job, "JOB_STARTED", started.at),)


def tell_failure(
    job: JobRow, waves: Waves | None, ended: RunFinished, reporter: Reporter
) -> Sequence[Outgoing]:
    """Return what is told of a job whose run has failed."""
    return reporter.failed(job, ended.at) if waves is None else (tell_end(job, waves, ended, reporter),)


def tell_end(job: JobRow, waves: Waves, ended: RunFinished, reporter: Reporter) -> Outgoing:
    """Return what is told of a job all of whose targets have ended."""
    is_zone = zone_of(job) is not None
    fields = _counts(waves, is_zone=is_zone)
    name = "zone_name" if is_zone else "target"
    failed: list[Json] = [
        {name: target, "error": shortened(waves.ends[target].reason)} for target in waves.failed
    ]
    if failed:
        fields["zones_failed" if is_zone else "targets_failed"] = failed
    return reporter.status(job, _ENDS[ended.status], ended.at, reason=ended.reason, **fields)


def _counts(waves: Waves, *, is_zone: bool) -> JsonObject:
    what = "zones" if is_zone else "targets"
    return {f"{what}_completed": waves.completed, f"{what}_total": len(waves.known())}
