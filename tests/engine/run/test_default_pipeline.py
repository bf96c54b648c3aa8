"""The declaration of a run, as a reader sees it."""

from __future__ import annotations

from pathlib import Path

from syrupy.assertion import SnapshotAssertion

from wavewright.config.settings import load_settings
from wavewright.engine.run.default_pipeline import default_pipeline
from wavewright.engine.run.pipeline.context import ApprovalRequest, Ports
from wavewright.executor.store.journal import MemoryJournal
from wavewright.tools.workers.services import make_services


class NobodyApproves:
    async def approve(self, request: ApprovalRequest) -> bool:
        return False


def test_the_pipeline_reads_like_a_header(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    settings = load_settings(tmp_path, {})
    ports = Ports(
        journal=MemoryJournal(),
        settings=settings,
        services=make_services(settings),
        approver=NobodyApproves(),
    )

    declaration = default_pipeline(ports).describe()

    print(declaration)
    assert declaration == snapshot
