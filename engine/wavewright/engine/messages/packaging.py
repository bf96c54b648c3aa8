"""The message that carries a package.

A job about a target is answered by the first package form of the contract that builds a payload from its package.
Where the contract has no package form, or the job no target, the package goes out whole, as the neutral `package`.
"""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError

from wavewright.config.errors import WavewrightError
from wavewright.engine.messages.models import PackageReport, package_id
from wavewright.executor.store.job_records import JobId
from wavewright.planner.types import JsonObject
from wavewright.reviewer import records
from wavewright.reviewer.values import shorten
from wavewright.tools.message_contract import PackageForm, PackagePayload, Payload

_MAX_FAULTS: Final = 3


class InvalidResult(WavewrightError):
    """A result does not fit the package form of its contract; the message names the fields."""


def package_report(
    job: JobId,
    iteration: int,
    package: records.Package,
    *,
    target: str | None = None,
    forms: tuple[PackageForm, ...] = (),
    goal_target: str | None = None,
    request: JsonObject | None = None,
) -> Payload:
    """Return the payload for a package.

    Args:
        job: The job.
        iteration: Number of the package within the job, from 1.
        package: Package of the run.
        target: The target that the package is about, where the job has several.
        forms: Package forms of the contract.
        goal_target: The target for the package forms; without one the package is neutral.
        request: The payload of the request, where the job came by a request form.

    Raises:
        InvalidResult: a form built a payload that does not fit its model, or no form built one.
    """
    # What tools print stays on the machine that ran them.
    content: JsonObject = package.model_dump(mode="json", exclude={"failed_attempts"})
    for form in forms if goal_target is not None else ():
        built = form.build(content, goal_target or "", request or {})
        if built is not None:
            return _read(form, {**built, **_ids(form, job, iteration, target)})
    if forms and goal_target is not None:
        kinds = ", ".join(form.payload.message_type for form in forms)
        raise InvalidResult(f"its result is no {kinds}, which is what this daemon sends")
    return PackageReport(
        job_id=job,
        package_id=package_id(job, iteration, target),
        iteration=iteration,
        target=target,
        package=content,
    )


def failure_report(
    job: JobId, reason: str, *, forms: tuple[PackageForm, ...], goal_target: str, request: JsonObject
) -> Payload | None:
    """Return the payload that answers the request of a failed job; None where no form has one.

    Args:
        job: The job.
        reason: Why it has failed.
        forms: Package forms of the contract.
        goal_target: The target of the job.
        request: The payload of its request.

    Raises:
        InvalidResult: a form built a payload that does not fit its model.
    """
    for form in forms:
        built = None if form.build_failure is None else form.build_failure(reason, goal_target, request)
        if built is not None:
            return _read(form, {**built, **_ids(form, job, 1)})
    return None


def _ids(form: PackageForm, job: JobId, iteration: int, target: str | None = None) -> JsonObject:
    """Return the fields of a `PackagePayload`; none for another payload."""
    if not issubclass(form.payload, PackagePayload):
        return {}
    return {"job_id": job, "package_id": package_id(job, iteration, target), "iteration": iteration}


def _read(form: PackageForm, payload: JsonObject) -> Payload:
    try:
        return form.payload.model_validate(payload)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        shown = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in faults[:_MAX_FAULTS]]
        more = [f"and {len(faults) - _MAX_FAULTS} more"] * (len(faults) > _MAX_FAULTS)
        listed = shorten("; ".join([*shown, *more]), 400)
        kind = form.payload.message_type
        raise InvalidResult(f"its result does not fit the message `{kind}`: {listed}") from error
