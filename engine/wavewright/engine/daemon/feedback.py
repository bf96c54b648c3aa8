"""The verdicts that a job goes on with: on the package that it has sent last, or on those of its targets."""

from __future__ import annotations

from wavewright.config.daemon_settings import DaemonSection
from wavewright.engine.feedback import Feedback, PackageValidation, PackageVerdict
from wavewright.engine.messages.ids import package_id
from wavewright.executor.job_store.records import JobRow


def job_feedback(job: JobRow, section: DaemonSection) -> Feedback | None:
    """Return what was said of a job's package; none where its last package is not out, or was not rejected."""
    verdict = job.feedback[-1] if job.feedback else None
    if verdict is None or verdict.accepted or verdict.iteration != job.iteration:
        return None
    return Feedback(verdict.package, verdict.iteration, verdict.feedback, section.validation.iterations)


def target_validation(job: JobRow, section: DaemonSection) -> PackageValidation:
    """Return who looks at the packages of a job's targets, with what was said of them so far."""
    said = {verdict.package: verdict for verdict in job.feedback}

    def verdict_on(target: str, iteration: int) -> PackageVerdict | None:
        package = package_id(job.job, iteration, target)
        verdict = said.get(package)
        return (
            None
            if verdict is None
            else PackageVerdict(verdict.accepted, package, iteration, verdict.feedback)
        )

    return PackageValidation(section.validation.iterations, verdict_on)
