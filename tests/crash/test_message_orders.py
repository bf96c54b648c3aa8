"""The messages of a job lead to the same end in whatever order and however often they come."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from pathlib import Path

import pytest

from tests.crash import oracle
from tests.crash.crash_project import (
    AGENT,
    EXCHANGE,
    INTAKE,
    KEY,
    SENT_AT,
    VALIDATOR,
    job_id,
    judged_job,
    request_of,
)
from tests.crash.measurements import note
from tests.crash.minimal_daemon import Agreeing
from tests.crash.run_size import IS_WHOLE, chance, volume
from tests.crash.simulation import Simulation, remember_tools
from wavewright.engine.service.job_store.records import OutgoingMessage
from wavewright.engine.service.messages.encoding import MessageAddress, encode
from wavewright.engine.service.messages.models import ValidationResult, message_id, package_id

JOB = job_id(1)
PERSON = Agreeing(accepts=False)
ORDERS = list(permutations(range(5)))


def _messages() -> list[OutgoingMessage]:
    """Return the request, the same once more under another id, and verdicts on two packages."""
    document = judged_job(JOB)
    return [
        request_of(JOB, document),
        request_of(JOB, document, message="the same again"),
        _verdict(1, "warmer, please"),
        _verdict(2),
    ]


def _verdict(iteration: int, *feedback: str) -> OutgoingMessage:
    verdict = ValidationResult(
        job_id=JOB,
        package_id=package_id(JOB, iteration),
        accepted=not feedback,
        iteration=iteration,
        feedback=[*feedback],
    )
    address = MessageAddress(VALIDATOR, AGENT, EXCHANGE, INTAKE, KEY.encode())
    return encode(
        verdict, address, message=message_id(JOB, iteration, "verdict"), correlation=JOB, at=SENT_AT
    )


@pytest.mark.timeout(volume(200, 1200))
@pytest.mark.parametrize("is_doubled", [False, True])
def test_all_orders_of_a_jobs_messages_have_one_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_doubled: bool
) -> None:
    remember_tools(monkeypatch)
    orders = ORDERS if IS_WHOLE else chance().sample(ORDERS, 12)
    ends = Counter(
        _end(tmp_path / str(number), order, is_doubled=is_doubled)
        for number, order in enumerate(orders)
    )

    note("orders", tried=ends.total(), is_doubled=is_doubled, ends=len(ends))
    assert len(ends) == 1, ends
    [end] = ends
    assert end.startswith("['completed']")
    assert end.count("package ") == 2


def _end(folder: Path, order: tuple[int, ...], *, is_doubled: bool) -> str:
    sim, messages = Simulation(folder, validation=2), _messages()
    try:
        daemon = sim.start()
        for number in order:
            # The fifth is a person's word on whatever is asked by then; nobody answers what was
            # never asked.
            said = messages[number : number + 1] or PERSON.answer(sim.broker.sent())
            for message in said * (2 if is_doubled else 1):
                sim.submit(JOB, message)
                sim.run(daemon.parts.take_in())
            while sim.run(daemon.parts.work()) or sim.run(daemon.parts.send()):
                pass
        sim.settle(PERSON)
        found = sim.found()
        assert oracle.violations(found) == [], order
        told = sorted(
            f"{one.kind} {one.body['payload'].get('status')}"  # type: ignore[union-attr]
            for one in sim.broker.sent()
        )
        calls = sum(call.event == "start" for call in found.ledger)
        return f"{[row.state for row in found.rows]} {calls} {told}"
    finally:
        sim.close()
