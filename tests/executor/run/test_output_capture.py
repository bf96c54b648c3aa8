"""What attempts print, log and raise is kept in the journal, each attempt's own."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Mapping

import anyio
import anyio.to_thread
import pytest

from tests.executor.execution_harness import RUN, ExecutionHarness, plan_of
from wavewright.config.redaction import Redactor
from wavewright.executor.events.types import AttemptLogged, Event, OutputLogged
from wavewright.executor.run import emissions
from wavewright.executor.run.emissions import MAX_CHARS, OutputCapture
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.types import Json
from wavewright.reviewer.package.log_lines import log_lines
from wavewright.tools.functions.injected import TextChunk
from wavewright.tools.functions.tool import ToolCall

pytestmark = pytest.mark.anyio


async def logged_by(
    bench: ExecutionHarness, *steps: Mapping[str, object], **options: object
) -> list[AttemptLogged]:
    journal = MemoryJournal()
    await bench.run(plan_of(*steps), journal=journal, **options)
    return [event for event in await journal.load(RUN) if isinstance(event, AttemptLogged)]


def printing(call: ToolCall) -> Json:
    print(f"out of {call.step}")
    print(f"err of {call.step}", file=sys.stderr)
    logging.getLogger("mine").warning("log of %s", call.step)
    return {}


async def test_what_a_call_prints_and_logs_is_journaled_and_printed_all_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (event,) = await logged_by(ExecutionHarness().add(printing), {"id": "a"})

    assert event.stdout == "out of a\n"
    # The log record is there once, though a handler writes it to standard error.
    assert event.stderr == "err of a\n"
    assert event.log.endswith(" WARNING mine: log of a\n")
    assert event.traceback == ""
    seen = capsys.readouterr()
    assert seen.out == "out of a\n"
    assert seen.err.startswith("err of a\n")


async def test_a_tool_that_closes_a_stream_closes_it_for_nobody(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def closing(_: ToolCall) -> Json:
        print("last words")
        sys.stdout.close()
        return {}

    (event,) = await logged_by(ExecutionHarness().add(closing), {"id": "a"})
    print("still there")

    assert event.stdout == "last words\n"
    assert capsys.readouterr().out == "last words\nstill there\n"


async def test_a_call_that_prints_nothing_leaves_no_event() -> None:
    assert await logged_by(ExecutionHarness().add(lambda _: {}), {"id": "a"}) == []


async def _both(wait: Callable[[], None], name: str) -> Json:
    def work() -> None:
        print(f"begin {name}")
        wait()
        print(f"end {name}")

    await anyio.to_thread.run_sync(work)
    return {}


async def test_parallel_calls_in_threads_do_not_mix() -> None:
    meeting = threading.Barrier(2)
    bench = ExecutionHarness().add(lambda call: _both(lambda: void(meeting.wait(10)), call.step))

    events = await logged_by(bench, {"id": "a"}, {"id": "b"})

    assert {event.step: event.stdout for event in events} == {
        "a": "begin a\nend a\n",
        "b": "begin b\nend b\n",
    }


def void(value: object) -> None:
    del value


async def test_parallel_async_calls_do_not_mix() -> None:
    arrived = list[str]()
    both = anyio.Event()

    async def work(call: ToolCall) -> Json:
        print(f"begin {call.step}")
        arrived.append(call.step)
        if len(arrived) == 2:
            both.set()
        await both.wait()
        async with anyio.create_task_group() as group:
            group.start_soon(later, call)
        return {}

    async def later(call: ToolCall) -> None:
        print(f"end {call.step}")

    events = await logged_by(ExecutionHarness().add(work), {"id": "a"}, {"id": "b"})

    assert {event.step: event.stdout for event in events} == {
        "a": "begin a\nend a\n",
        "b": "begin b\nend b\n",
    }


async def test_runs_of_one_process_do_not_mix_and_give_the_streams_back() -> None:
    before = (sys.stdout, sys.stderr, logging.getLogRecordFactory())
    bench = ExecutionHarness().add(printing)

    found = dict[str, list[AttemptLogged]]()

    async def run(step: str) -> None:
        found[step] = await logged_by(bench, {"id": step})

    async with anyio.create_task_group() as group:
        group.start_soon(run, "a")
        group.start_soon(run, "b")

    assert {step: [event.stdout for event in events] for step, events in found.items()} == {
        "a": ["out of a\n"],
        "b": ["out of b\n"],
    }
    assert (sys.stdout, sys.stderr, logging.getLogRecordFactory()) == before


async def test_each_attempt_has_its_own_output_and_traceback() -> None:
    def flaky(call: ToolCall) -> Json:
        print(f"try {call.attempt}")
        if call.attempt == 1:
            raise ConnectionError("gone")
        return {}

    retry = {"attempts": 2, "wait_initial": 0.001, "wait_jitter": 0.0}
    first, second = await logged_by(ExecutionHarness().add(flaky), {"id": "a", "retry": retry})

    assert (first.attempt, first.stdout) == (1, "try 1\n")
    assert first.traceback.endswith("ConnectionError: gone")
    assert (second.attempt, second.stdout, second.traceback) == (2, "try 2\n", "")


async def test_what_a_watcher_prints_is_not_the_calls() -> None:
    def watch(event: Event) -> None:
        print(f"watched {type(event).__name__}")

    def work(call: ToolCall) -> Json:
        call.emit(TextChunk("x" * 3000))
        print("mine")
        return {}

    (event,) = await logged_by(ExecutionHarness().add(work), {"id": "a"}, on_event=watch)

    assert event.stdout == "mine\n"


async def test_secrets_are_taken_out_of_all_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = "zQ9-known-to-nobody"
    monkeypatch.setenv("MY_API_KEY", hidden)

    def work(call: ToolCall) -> Json:
        del call
        print(f"key={hidden}")
        logging.getLogger("mine").warning("key %s", hidden)
        raise ValueError(f"refused {hidden}")

    (event,) = await logged_by(ExecutionHarness().add(work), {"id": "a"})

    kept = event.stdout + event.stderr + event.log + event.traceback
    assert hidden not in kept
    assert kept.count("[redacted]") >= 3


async def test_of_a_long_output_the_end_is_kept() -> None:
    def work(call: ToolCall) -> Json:
        del call
        for number in range(50_000):
            print(f"line {number}")
        return {}

    (event,) = await logged_by(ExecutionHarness().add(work), {"id": "a"})

    assert event.stdout.endswith("line 49998\nline 49999\n")
    assert event.stdout.startswith("… ")
    assert len(event.stdout) < MAX_CHARS + 100


async def test_a_secret_that_the_cut_goes_through_is_not_kept_by_half(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = "S3cret" * 100
    monkeypatch.setenv("MY_API_KEY", secret)

    def work(call: ToolCall) -> Json:
        del call
        print("x" * 100_000 + secret + "y" * (MAX_CHARS - 300), end="")
        return {}

    (event,) = await logged_by(ExecutionHarness().add(work), {"id": "a"})

    assert "S3cret" not in event.stdout


@pytest.mark.parametrize(("limit", "kept"), [("MAX_LOGGED_ATTEMPTS", 30), ("MAX_LOGGED_CHARS", 1)])
async def test_of_a_step_with_many_failing_items_some_tracebacks_are_kept(
    monkeypatch: pytest.MonkeyPatch, limit: str, kept: int
) -> None:
    monkeypatch.setattr(emissions, limit, 30)

    def work(call: ToolCall) -> Json:
        raise ValueError(call.index)

    step = {"id": "a", "for_each": [*range(60)], "params": {"by": "${item}"}, "min_ok": 0}
    events = await logged_by(ExecutionHarness().add(work), step)

    assert len(events) == kept


async def test_what_a_call_prints_is_journaled_while_it_is_at_work() -> None:
    journal, seen = MemoryJournal(), anyio.Event()

    async def work(call: ToolCall) -> Json:
        await anyio.to_thread.run_sync(printing, call)
        print("no whole", end="")
        print(" line", end="")
        await seen.wait()
        print(" before this")
        return {}

    def listen(event: Event) -> None:
        if isinstance(event, OutputLogged) and event.stream == "log":
            seen.set()

    plan = plan_of({"id": "a"})
    await ExecutionHarness().add(work).run(plan, journal=journal, on_event=listen)

    events = await journal.load(RUN)
    parts = {event.stream: event for event in events if isinstance(event, OutputLogged)}
    assert (parts["stdout"].text, parts["stdout"].attempt) == ("out of a\n", 1)
    assert parts["stderr"].text == "err of a\n"
    lines, _ = log_lines(events)
    assert [line.text for line in lines if line.stream == "stdout"] == [
        "out of a",
        "no whole line before this",
    ]


def test_a_secret_of_several_lines_is_never_taken_by_half() -> None:
    hidden = "first-part-of-it\nsecond-part-of-it\nthird-part-of-it"
    redactor = Redactor([hidden])
    capture = OutputCapture(lambda: None)
    taken = ""

    for piece in ("before\n", *(f"{line}\n" for line in hidden.split("\n")), "after\n" * 30):
        capture.add("stdout", piece)
        taken += "".join(lines.text for lines in capture.take(redactor))

    assert taken.startswith("before\n")
    assert "part-of-it" not in taken
    assert taken.endswith("after\n")


def test_a_private_key_is_never_taken_by_half() -> None:
    capture = OutputCapture(lambda: None)
    key = [
        "-----BEGIN PRIVATE KEY-----\n",
        "MIIabcdefghijklmnopqrstuvwxyz012345\n",
        "-----END PRIVATE KEY-----\n",
    ]
    taken = ""

    for piece in ("before\n", *key, "after\n"):
        capture.add("log", piece)
        taken += "".join(lines.text for lines in capture.take(Redactor()))

    assert taken.startswith("before\n")
    assert "MIIabc" not in taken
    assert taken.endswith("after\n")
