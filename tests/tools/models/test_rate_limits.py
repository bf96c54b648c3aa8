from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.support.served_models import models_over, question
from wavewright.engine.rehearsal.fake_model.replies import delayed
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer
from wavewright.tools.network import ProviderLimiter, RateLimiter

pytestmark = pytest.mark.anyio


async def test_no_more_questions_are_under_way_than_a_provider_lets(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(delayed("one", 0.02))
    limits = {"openai-chat": {"concurrency": 3}}
    async with (
        models_over(model_server, tmp_path, providers=limits) as asking,
        anyio.create_task_group() as group,
    ):
        for _ in range(12):
            group.start_soon(asking.models.ask, question())

    assert len(model_server.requests) == 12
    assert model_server.max_in_flight == 3


async def test_a_limit_of_another_provider_holds_nobody_up(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(delayed("one", 0.1))
    limits = {"anthropic": {"concurrency": 1}}
    async with (
        models_over(model_server, tmp_path, providers=limits) as asking,
        anyio.create_task_group() as group,
    ):
        for _ in range(6):
            group.start_soon(asking.models.ask, question())

    assert model_server.max_in_flight == 6


async def test_no_more_begin_in_any_span_than_the_pace_lets() -> None:
    pace, begun = RateLimiter(4, span=0.2), list[float]()

    async def begin() -> None:
        await pace.wait()
        begun.append(anyio.current_time())

    async with anyio.create_task_group() as group:
        for _ in range(11):
            group.start_soon(begin)

    assert all(later - sooner >= 0.2 for sooner, later in zip(begun, begun[4:], strict=False))


async def test_as_many_begin_at_once_as_the_pace_lets() -> None:
    pace, begun = RateLimiter(4, span=600), list[int]()

    async def begin(number: int) -> None:
        await pace.wait()
        begun.append(number)

    async with anyio.create_task_group() as group:
        for number in range(6):
            group.start_soon(begin, number)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()

    assert begun == [0, 1, 2, 3]


async def test_who_waits_for_the_pace_and_gives_up_takes_no_turn() -> None:
    pace = RateLimiter(1, span=0.3)
    begun = anyio.current_time()
    await pace.wait()
    with anyio.move_on_after(0.01) as scope:
        await pace.wait()
    await pace.wait()

    assert scope.cancelled_caught
    assert anyio.current_time() - begun >= 0.3


async def test_who_gives_up_in_a_gate_gives_its_place_back() -> None:
    limiter = ProviderLimiter(concurrency=1)
    with anyio.move_on_after(0.01):
        async with limiter.slot():
            await anyio.sleep_forever()

    with anyio.fail_after(5):
        async with limiter.slot():
            pass


async def test_a_minutes_limit_counts_every_attempt(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer("one")
    limits = {"openai-chat": {"requests_per_minute": 2}}
    async with models_over(model_server, tmp_path, providers=limits) as asking:
        await asking.models.ask(question())
        await asking.models.ask(question())
        with anyio.move_on_after(0.2) as scope:
            await asking.models.ask(question())

    assert scope.cancelled_caught
    assert len(model_server.requests) == 2
