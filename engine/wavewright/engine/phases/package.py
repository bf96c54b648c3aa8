"""What leaves the run."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wavewright.engine.context import Ports, RunContext
from wavewright.engine.pipeline import PhaseResult, proceed
from wavewright.engine.recording import record, record_note
from wavewright.executor.events import RunFinished
from wavewright.reviewer.packaging import build_package
from wavewright.reviewer.records import Package


@dataclass(frozen=True, slots=True)
class BuildPackage:
    """Gather result, documents, gates, confidence, plan, patches and log into one package."""

    ports: Ports
    name: str = "build_package"

    async def run(self, context: RunContext) -> PhaseResult[RunContext]:
        """Build the package from the goal, the review and the state of the run alone."""
        assert context.plan is not None
        assert context.goal is not None
        package = build_package(context.plan, context.goal, context.state, context.review, context.signatures)
        return proceed(replace(context, package=package))


@dataclass(frozen=True, slots=True)
class PublishPackage:
    """Let the package out, as files with a report unless told otherwise, and end the run in the journal."""

    ports: Ports
    name: str = "publish_package"

    async def run(self, context: RunContext) -> PhaseResult[RunContext]:
        """Publish, then journal the end; a crash between the two repeats the publishing."""
        package = context.package
        assert package is not None
        folder = (context.request.output_dir or self.ports.settings.output_dir) / context.run
        files = self.ports.publish(package, folder)
        if files:
            context = await record_note(
                self.ports, context, "package", {"files": [str(path) for path in files]}
            )
        ended = RunFinished(self.ports.clock().timestamp(), package.status, _finish_reason(package))
        context = await record(self.ports, context, ended)
        return proceed(replace(context, files=files))


def _finish_reason(package: Package) -> str:
    return package.review.summary if package.review is not None else ""
