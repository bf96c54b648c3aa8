"""A call of the broker's library ends in a known way, and only a cancellation of one's own passes
as one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import anyio
import pytest
from aio_pika.exceptions import AMQPConnectionError, ChannelInvalidStateError, ChannelNotFoundEntity

from wavewright.engine.service.bus.faults import BusDown, await_reply, translate_errors

pytestmark = pytest.mark.anyio


async def failure() -> None:
    """End as a pending publish does on a connection that is given up."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.set_exception(asyncio.CancelledError())
    await future


async def fail(error: Exception) -> None:
    raise error


async def test_a_cancellation_that_nobody_asked_for_is_an_error_with_a_name() -> None:
    with pytest.raises(BusDown, match="stopped answering"):
        await translate_errors(failure())


async def test_a_task_group_would_end_in_silence_without_the_guard() -> None:
    reached = list[str]()

    async def publish(call: Awaitable[None]) -> None:
        await call
        reached.append("never")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(publish, failure())
    reached.append("as if nothing had been")

    assert reached == ["as if nothing had been"]


async def test_a_cancellation_of_ones_own_stays_one() -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await translate_errors(anyio.sleep_forever())

    assert scope.cancelled_caught


async def test_a_timeout_around_a_call_stays_a_timeout() -> None:
    with pytest.raises(TimeoutError):
        with anyio.fail_after(0.01):
            await translate_errors(anyio.sleep_forever())


async def test_within_a_shield_of_a_cancelled_scope_the_library_still_cannot_cancel() -> None:
    raised = list[BaseException]()
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                try:
                    await translate_errors(failure())
                except BusDown as error:
                    raised.append(error)
            raise

    assert len(raised) == 1


@pytest.mark.parametrize(
    "error",
    [
        AMQPConnectionError("gone"),
        ChannelInvalidStateError("closed"),
        OSError("no route"),
        EOFError(),
        Exception(),
    ],
)
async def test_whatever_ends_a_connection_is_told_as_one_thing(error: Exception) -> None:
    with pytest.raises(BusDown) as caught:
        await translate_errors(fail(error), place="amqp://here:5672/")

    assert caught.value.place == "amqp://here:5672/"
    assert caught.value.__cause__ is error


async def test_what_the_broker_says_about_a_call_is_passed_on() -> None:
    with pytest.raises(ChannelNotFoundEntity):
        await translate_errors(fail(ChannelNotFoundEntity("no queue")))


async def test_a_fault_of_our_own_is_not_taken_for_the_brokers() -> None:
    with pytest.raises(KeyError):
        await translate_errors(fail(KeyError("ours")))


async def test_a_broker_that_gives_no_answer_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wavewright.engine.service.bus.faults.REPLY_SECONDS", 0.01)

    with pytest.raises(BusDown, match="no answer within"):
        await await_reply(anyio.sleep_forever())
