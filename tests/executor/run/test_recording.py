"""Outputs that hold secrets: the journal keeps what a later step reads, and nothing is gone on with
that it lacks.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.executor.execution_harness import RUN, ExecutionHarness, output_of, plan_of, statuses
from wavewright.executor.events.state import RunState, fold
from wavewright.executor.events.types import Event, GateRecord, ItemFinished, StepFinished
from wavewright.executor.run.ports import GateView
from wavewright.executor.run.rules import ReuseSource, RunSoFar
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.language.plan import Plan
from wavewright.planner.types import GateId, Json, JsonObject, StepId
from wavewright.tools.functions.tool import ToolCall

pytestmark = pytest.mark.anyio

GIVEN = "tok-synthetic-1"
LOGIN: JsonObject = {"token": GIVEN, "password": "pw-synthetic-1", "user": "ann"}
MARK = "[redacted]"


def log_in(_: ToolCall) -> Json:
    return dict(LOGIN)


def use(call: ToolCall) -> Json:
    return f"used {call.params['with']}"


def bench(**signature: object) -> ExecutionHarness:
    return ExecutionHarness().add(log_in, "log_in", **signature).add(use, "use")


LOGIN_STEP: JsonObject = {"id": "login", "tool": "log_in", "params": {}}


def reading(expression: str) -> Plan:
    return plan_of(LOGIN_STEP, {"id": "used", "tool": "use", "params": {"with": expression}})


def journaled(events: list[Event], step: str) -> StepFinished:
    [ending] = [event for event in events if isinstance(event, StepFinished) and event.step == step]
    return ending


@pytest.mark.parametrize(
    ("expression", "kept", "withheld"),
    [
        ("${steps.login.token}", {"token": GIVEN, "password": MARK, "user": "ann"}, ("password",)),
        (
            "as ${steps.login.user}",
            {"token": MARK, "password": MARK, "user": "ann"},
            ("token", "password"),
        ),
        ("${steps.login}", LOGIN, ()),
        ("${steps.login['token'] + '!'}", LOGIN, ()),
        ("nothing", {"token": MARK, "password": MARK, "user": "ann"}, ("token", "password")),
    ],
)
async def test_the_journal_keeps_of_the_secrets_in_an_output_what_another_step_reads(
    expression: str, kept: Json, withheld: tuple[str, ...]
) -> None:
    journal, told = MemoryJournal(), list[Event]()

    state = await bench().run(reading(expression), journal=journal, on_event=told.append)
    ending = journaled(await journal.load(RUN), "login")

    assert (ending.output, ending.withheld) == (kept, withheld)
    assert output_of(state, "login") == LOGIN
    assert journaled(told, "login").output == {"token": MARK, "password": MARK, "user": "ann"}


async def test_a_secret_that_a_reader_gives_away_goes_from_its_output_although_nothing_names_it_there() -> (
    None
):
    journal = MemoryJournal()

    state = await bench().run(reading("${steps.login.token}"), journal=journal)

    assert output_of(state, "used") == f"used {GIVEN}"
    assert journaled(await journal.load(RUN), "used").output == f"used {MARK}"


async def test_items_of_a_step_that_another_reads_are_kept_and_others_are_not() -> None:
    fan: JsonObject = {
        "id": "fan",
        "for_each": [1, 2],
        "tool": "log_in",
        "params": {"n": "${item}"},
    }
    read = {"id": "used", "tool": "use", "params": {"with": "${steps.fan[0].token}"}}
    journals = MemoryJournal(), MemoryJournal()

    await bench().run(plan_of(fan), journal=journals[0])
    await bench().run(plan_of(fan, read), journal=journals[1])
    unread, kept = [
        [event.output for event in await journal.load(RUN) if isinstance(event, ItemFinished)]
        for journal in journals
    ]

    assert unread == [{"token": MARK, "password": MARK, "user": "ann"}] * 2
    assert kept == [LOGIN] * 2


@pytest.mark.parametrize(
    ("outputs", "kept"),
    [
        (
            [{"said": GIVEN}, LOGIN, {"said": "x"}],
            [{"said": MARK}, {"token": MARK, "password": MARK, "user": "ann"}, {"said": "x"}],
        ),
        (
            ["-----BEGIN PRIVATE KEY-----", "MIIEvQIBADANBgkqhkiG9w0B", "so it is"],
            [MARK, MARK, "so it is"],
        ),
        ([{"said": "x"}, {"said": "y"}], [{"said": "x"}, {"said": "y"}]),
    ],
    ids=["a later item names it", "a key over several items", "none"],
)
async def test_the_list_of_items_outputs_loses_secrets_that_no_item_shows_alone(
    outputs: list[Json], kept: list[Json]
) -> None:
    fan: JsonObject = {
        "id": "fan",
        "for_each": [*range(len(outputs))],
        "tool": "say",
        "params": {"n": "${item}"},
        "concurrency": 1,
    }
    journal = MemoryJournal()

    await (
        ExecutionHarness()
        .add(lambda call: outputs[int(str(call.params["n"]))], "say")
        .run(plan_of(fan), journal=journal)
    )

    assert journaled(await journal.load(RUN), "fan").output == kept


async def test_what_gates_look_at_is_journaled_without_secrets_and_seen_with_them() -> None:
    seen = list[Json]()

    def verify(step: StepId, output: Json, view: GateView) -> tuple[GateRecord, ...]:
        del view
        seen.append(output)
        return (
            GateRecord(GateId("g"), step, "check", "warn", "fail", inspected=f"token = '{GIVEN}'"),
        )

    journal = MemoryJournal()
    await bench().run(plan_of(LOGIN_STEP), journal=journal, verify=verify)

    assert seen == [LOGIN]
    assert [gate.inspected for gate in journaled(await journal.load(RUN), "login").gates] == [
        f"token = '{MARK}'"
    ]


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_a_run_goes_on_with_what_the_journal_kept(store: str, tmp_path: Path) -> None:
    plan, tools = reading("${steps.login.token}"), bench()
    async with (
        MemoryJournal() if store == "memory" else SqliteJournal(tmp_path / "journal.db") as journal
    ):
        await tools.run(plan, journal=journal)
        events = await journal.load(RUN)
    prior = fold(
        event for event in events if not (isinstance(event, StepFinished) and event.step == "used")
    )
    tools.calls.clear()

    state = await tools.run(plan, prior=prior)

    assert tools.called == ["used"]
    assert output_of(state, "used") == f"used {GIVEN}"


async def prior_of(plan: Plan, tools: ExecutionHarness) -> RunState:
    """Return what the journal of a finished run gives, for a plan that reads more of it."""
    journal = MemoryJournal()
    await tools.run(plan, journal=journal)
    tools.calls.clear()
    return fold(await journal.load(RUN))


@pytest.mark.parametrize(
    "signature", [{}, {"effects": ["write"], "idempotent": True}], ids=["reading", "idempotent"]
)
async def test_a_call_is_made_again_whose_secret_is_read_now_and_was_not_kept(
    signature: JsonObject,
) -> None:
    tools = bench(**signature)
    prior = await prior_of(reading("${steps.login.user}"), tools)

    state = await tools.run(reading("${steps.login.token}"), prior=prior)

    assert tools.called == ["login", "used"]
    assert output_of(state, "used") == f"used {GIVEN}"


async def test_a_write_is_not_repeated_for_a_secret_that_was_not_kept_but_fails_and_says_why() -> (
    None
):
    tools = bench(effects=["write"], idempotent=False)
    prior = await prior_of(reading("${steps.login.user}"), tools)

    state = await tools.run(reading("${steps.login.token}"), prior=prior)
    error = state.steps[StepId("login")].error

    assert tools.called == []
    assert statuses(state) == {"login": "failed", "used": "blocked"}
    assert error is not None
    assert "the journal does not keep" in error.message


async def test_no_other_call_is_served_by_an_output_of_which_something_was_withheld() -> None:
    again: JsonObject = {**LOGIN_STEP, "id": "again"}
    tools = bench(cache_for=3600)
    journal = MemoryJournal()
    prior = await prior_of(plan_of(LOGIN_STEP), tools)
    await tools.run(plan_of(LOGIN_STEP), journal=journal)
    tools.calls.clear()

    state = await tools.run(
        plan_of(
            LOGIN_STEP,
            again,
            {"id": "used", "tool": "use", "params": {"with": "${steps.again.token}"}},
        ),
        prior=prior,
        journal=journal,
    )

    assert tools.called == ["again", "used"]
    assert output_of(state, "used") == f"used {GIVEN}"


async def test_a_retry_takes_over_what_the_journal_withheld_only_where_nobody_needs_it() -> None:
    tools = bench()
    plan = reading("${steps.login.user}")
    past = await prior_of(plan, tools)
    gates = [
        {
            "id": "long",
            "on": "login",
            "check": "steps.login.password.size() == 14",
            "severity": "warn",
        }
    ]
    gated = plan.model_copy(update={"gates": plan_of(LOGIN_STEP, gates=gates).gates})

    called = list[list[str]]()
    for again in (plan, reading("${steps.login.token}"), gated):
        tools.calls.clear()
        journal = MemoryJournal()
        await tools.run(again, donor=ReuseSource((RunSoFar(RUN, past),)), journal=journal)
        called.append(tools.called)

    assert called == [[], ["login", "used"], ["login"]]


async def test_what_a_retry_took_over_still_lacks_what_was_withheld() -> None:
    plan, tools, journal = reading("${steps.login.user}"), bench(), MemoryJournal()
    past = await prior_of(plan, tools)

    await tools.run(plan, donor=ReuseSource((RunSoFar(RUN, past),)), journal=journal)
    taken = journaled(await journal.load(RUN), "login")

    assert (taken.status, taken.withheld) == ("reused", ("token", "password"))
