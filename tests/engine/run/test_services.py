"""What phases that ask a model let be known, where the program ends under them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest
from anyio import lowlevel

from wavewright.config.settings import load_settings
from wavewright.engine.run.model_phases import open_recorder
from wavewright.engine.run.ports import ApprovalRequest, Attempt, Means, People, Ports
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.types import RunId
from wavewright.tools.workers.services import make_services


class NobodyApproves:
    async def approve(self, request: ApprovalRequest) -> bool:
        return False


@pytest.fixture
def ports(tmp_path: Path) -> Ports:
    settings = load_settings(tmp_path, {})
    return Ports(
        attempt=Attempt(journal=MemoryJournal()),
        means=Means(settings=settings, services=make_services(settings)),
        people=People(approver=NobodyApproves()),
    )


def test_a_program_that_ends_at_once_ends_without_another_fault(ports: Ports) -> None:
    faults: list[str] = []

    def interrupt() -> None:
        raise KeyboardInterrupt

    async def work() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, fault: faults.append(str(fault)))
        async with open_recorder(ports.attempt, RunId("r")) as recorder:
            await lowlevel.checkpoint()
            loop.call_soon(interrupt)
            try:
                await anyio.sleep_forever()
            finally:
                # As a model call ends that is given up: once its cost is settled, it is told in any
                # case.
                with anyio.CancelScope(shield=True):
                    for _ in range(3):
                        await lowlevel.checkpoint()
                    recorder.record_rung(RungRecord("planner", "llm", "fallen", "nobody answered"))

    with pytest.raises(KeyboardInterrupt):
        anyio.run(work)

    assert faults == []
