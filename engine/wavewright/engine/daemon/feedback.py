"""The verdict that a job goes on with: a rejection of the package that it has sent last."""

from __future__ import annotations

from wavewright.config.daemon_settings import DaemonSection
from wavewright.engine.feedback import Feedback
from wavewright.executor.job_store.records import JobRow


def feedback_of(job: JobRow, section: DaemonSection) -> Feedback | None:
    """Return what was said of a job's package; none where its last package is not out, or was not rejected."""
    verdict = job.feedback[-1] if job.feedback else None
    if verdict is None or verdict.accepted or verdict.iteration != job.iteration:
        return None
    return Feedback(verdict.package, verdict.iteration, verdict.feedback, section.validation.iterations)
