"""As which message a package goes out.

A job that was asked about a zone is answered with a `research_package`, where its result has that shape; what the
result leaves out of sources, conflicts and warnings is the run's. Anything else goes out as a `package`, whole.
"""

from __future__ import annotations

from pydantic import ValidationError

from wavewright.engine.messages.ids import package_id
from wavewright.engine.messages.reports import Package, ResearchPackage
from wavewright.executor.job_store.records import JobId
from wavewright.planner.types import JsonObject
from wavewright.reviewer import records


def package_report(
    job: JobId,
    iteration: int,
    package: records.Package,
    *,
    zone: str | None = None,
    target: str | None = None,
) -> Package | ResearchPackage:
    """Return what is sent of a package.

    Args:
        job: The job.
        iteration: Which package of the job it is, from 1.
        package: What came out of the run.
        zone: The zone that the job was asked about.
        target: The target that the package is about, where the job has several.
    """
    name = package_id(job, iteration, target)
    found = None if zone is None else _research(job, iteration, package, name, zone)
    if found is not None:
        return found
    return Package(
        job_id=job,
        package_id=name,
        iteration=iteration,
        target=target,
        package=package.model_dump(mode="json"),
    )


def _research(
    job: JobId, iteration: int, package: records.Package, name: str, zone: str
) -> ResearchPackage | None:
    result = package.result
    if not isinstance(result, dict) or "zone_data" not in result:
        return None
    of_the_run: JsonObject = {
        "zone_name": zone,
        "sources": [source.model_dump(mode="json") for source in package.sources],
        "conflicts": [conflict.model_dump(mode="json") for conflict in package.conflicts],
        "quality_warnings": [*package.warnings],
    }
    ids: JsonObject = {"job_id": job, "package_id": name, "iteration": iteration}
    try:
        return ResearchPackage.model_validate({**of_the_run, **result, **ids})
    except ValidationError:
        # It is something else, whatever it has in common with what is known of a zone.
        return None
