"""As which message a package goes out.

A job that was asked about a zone is answered with a `research_package` where its result is an object with `zone_data`;
what the result leaves out of sources, confidence, conflicts and warnings is the run's. Any other result goes out as a
`package`, whole. A result that claims to be of a zone and does not fit the message goes out as neither.
"""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError

from wavewright.config.errors import WavewrightError
from wavewright.engine.messages.ids import package_id
from wavewright.engine.messages.models import PackageReport, ResearchPackage
from wavewright.executor.store.job_records import JobId
from wavewright.planner.types import Json, JsonObject
from wavewright.reviewer import records
from wavewright.reviewer.review.caps import OVERALL
from wavewright.reviewer.values import shorten

_MAX_FAULTS: Final = 3


class InvalidResult(WavewrightError):
    """A result of a zone that does not fit `research_package`; the message names the fields."""


def package_report(
    job: JobId,
    iteration: int,
    package: records.Package,
    *,
    zone: str | None = None,
    target: str | None = None,
) -> PackageReport | ResearchPackage:
    """Return what is sent of a package.

    Args:
        job: The job.
        iteration: Which package of the job it is, from 1.
        package: What came out of the run.
        zone: The zone that the job was asked about.
        target: The target that the package is about, where the job has several.

    Raises:
        InvalidResult: the result has `zone_data`, and its other fields do not fit the message.
    """
    name = package_id(job, iteration, target)
    if zone is not None and isinstance(package.result, dict) and "zone_data" in package.result:
        ids: JsonObject = {"job_id": job, "package_id": name, "iteration": iteration}
        return _research(package, package.result, zone, ids)
    return PackageReport(
        job_id=job,
        package_id=name,
        iteration=iteration,
        target=target,
        # What tools print is for whoever runs them.
        package=package.model_dump(mode="json", exclude={"failed_attempts"}),
    )


def _research(package: records.Package, result: JsonObject, zone: str, ids: JsonObject) -> ResearchPackage:
    of_the_run: JsonObject = {
        "zone_name": zone,
        "sources": [source.model_dump(mode="json") for source in package.sources],
        "confidence": _confidence(package, result.get("confidence")),
        "conflicts": [conflict.model_dump(mode="json") for conflict in package.conflicts],
        "quality_warnings": [*package.warnings],
    }
    found: JsonObject = {**of_the_run, **result, **ids, "confidence": of_the_run["confidence"]}
    warnings = found["quality_warnings"]
    if package.status != "achieved" and isinstance(warnings, list):
        # The message has no status of its own.
        verdict = package.review.summary if package.review is not None else f"the run ended {package.status}"
        found["quality_warnings"] = [verdict, *warnings]
    try:
        return ResearchPackage.model_validate(found)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        told = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in faults[:_MAX_FAULTS]]
        more = [f"and {len(faults) - _MAX_FAULTS} more"] * (len(faults) > _MAX_FAULTS)
        listed = shorten("; ".join([*told, *more]), 400)
        raise InvalidResult(f"its result does not fit the message `research_package`: {listed}") from error


def _confidence(package: records.Package, stated: Json) -> Json:
    """Return the settled figure of each field that the review has one for, besides what the result states."""
    if stated is not None and not isinstance(stated, dict):
        return stated
    review = package.review
    settled: JsonObject = {} if review is None else {one.field: one.capped for one in review.confidences}
    return {**{field: figure for field, figure in settled.items() if field != OVERALL}, **(stated or {})}
