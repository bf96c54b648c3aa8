"""The state of a run: a pure fold over its events."""

from __future__ import annotations

from hypothesis import given, strategies as st

from wavewright.executor.events.codec import from_json, to_json
from wavewright.executor.events.state import RunState, fold, reduce
from wavewright.executor.events.types import (
    Event,
    GateRecord,
    ItemFinished,
    LoopToolCalled,
    ModelCalled,
    Noted,
    OutputStreamed,
    PlanAccepted,
    RunFinished,
    RungTaken,
    RunStarted,
    StepError,
    StepFinished,
    StepStarted,
    WaveFinished,
    WaveStarted,
)
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.ports.model_port import ModelUse
from wavewright.planner.types import GateId, GateSeverity, Json, PlanHash, RunId, StepId, StepKey
from wavewright.tools.functions.tool import AgentToolCall

A, B = StepId("a"), StepId("b")

ids = st.sampled_from([A, StepId("b"), StepId("c")])
keys = st.sampled_from([StepKey("k1"), StepKey("k2")])
times = st.integers(0, 1000).map(float)
outputs: st.SearchStrategy[Json] = st.sampled_from([None, [], 1, "x"])
errors = st.none() | st.builds(StepError, st.sampled_from(["tool", "timeout"]), st.text(max_size=3))
gates = st.builds(
    GateRecord,
    gate=st.just(GateId("g")),
    step=ids,
    kind=st.just("check"),
    severity=st.sampled_from(["block", "warn"]),
    verdict=st.sampled_from(["pass", "fail", "error"]),
    inspected=st.just("x > 1"),
)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        RunStarted, run=st.just(RunId("r")), at=times, job=st.just("j"), goal=st.just({}), now=times
    ),
    st.builds(
        PlanAccepted,
        at=times,
        plan=st.just({"steps": [{"id": "b"}, {"id": "a"}]}),
        plan_hash=st.just(PlanHash("sha256:0")),
        rung=st.sampled_from(["given", "patch"]),
        round=st.integers(0, 2),
        patch=st.none() | st.just({"reason": "fresh"}),
    ),
    st.builds(
        WaveStarted, at=times, wave=st.integers(0, 2), steps=st.just(()), round=st.integers(0, 1)
    ),
    st.builds(WaveFinished, at=times, wave=st.integers(0, 2), round=st.integers(0, 1)),
    st.builds(StepStarted, at=times, step=ids, key=keys),
    st.builds(
        ItemFinished,
        at=times,
        step=ids,
        index=st.integers(0, 2),
        key=st.none() | keys,
        status=st.sampled_from(["ok", "failed"]),
        output=outputs,
        error=errors,
    ),
    st.builds(
        StepFinished,
        at=times,
        step=ids,
        status=st.sampled_from(["ok", "empty", "failed", "cancelled", "reused"]),
        key=st.none() | keys,
        output=outputs,
        error=errors,
        gates=st.lists(gates, max_size=2).map(tuple),
    ),
    st.builds(
        ModelCalled,
        at=times,
        use=st.builds(
            ModelUse,
            role=st.sampled_from(["planner", "worker"]),
            name=st.just("n"),
            model=st.just("m"),
            outcome=st.sampled_from(["answered", "failed"]),
            input_tokens=st.integers(0, 9),
            step=st.none() | ids,
        ),
    ),
    st.builds(
        RungTaken,
        at=times,
        rung=st.builds(
            RungRecord,
            ladder=st.just("worker"),
            rung=st.sampled_from(["agent", "forced"]),
            outcome=st.sampled_from(["reached", "fallen"]),
        ),
        step=st.none() | ids,
    ),
    st.builds(OutputStreamed, at=times, step=ids, text=st.just("x")),
    st.builds(
        LoopToolCalled,
        at=times,
        step=ids,
        call=st.builds(
            AgentToolCall,
            tool=st.just("fetch"),
            params=st.just({}),
            status=st.sampled_from(["ok", "refused"]),
        ),
    ),
    st.builds(Noted, at=times, topic=st.just("review"), body=st.just({})),
    st.builds(RunFinished, at=times, status=st.sampled_from(["achieved", "interrupted"])),
)
histories = st.lists(events, max_size=25)


@given(histories)
def test_the_same_events_give_the_same_state(history: list[Event]) -> None:
    assert fold(history) == fold(list(history))


@given(histories, st.integers(0, 25))
def test_folding_a_part_and_then_the_rest_is_folding_all(history: list[Event], cut: int) -> None:
    assert fold(history[cut:], fold(history[:cut])) == fold(history)


@given(histories)
def test_folding_in_bulk_is_reducing_one_by_one(history: list[Event]) -> None:
    state = RunState()
    for event in history:
        state = reduce(state, event)

    assert fold(history) == state


@given(histories, events)
def test_reducing_changes_no_state_that_was_handed_out(history: list[Event], event: Event) -> None:
    state = fold(history)
    reduce(state, event)

    assert state == fold(history)


@given(histories)
def test_a_state_survives_the_journals_json(history: list[Event]) -> None:
    assert fold(from_json(to_json(event)) for event in history) == fold(history)


def red(severity: GateSeverity) -> GateRecord:
    return GateRecord(
        gate=GateId("g"),
        step=A,
        kind="check",
        severity=severity,
        verdict="error",
        inspected="x > 1",
    )


def test_the_last_ending_of_a_step_counts() -> None:
    state = fold([StepFinished(1.0, A, "failed"), StepFinished(2.0, A, "ok", output=3)])

    assert (state.status(A), state.outputs()) == ("ok", {A: 3})
    assert state.status(StepId("b")) is None


def test_a_red_block_gate_hides_an_output_and_a_warning_does_not() -> None:
    blocked = fold([StepFinished(1.0, A, "ok", output=3, gates=(red("block"),))])
    warned = fold([StepFinished(1.0, A, "ok", output=3, gates=(red("warn"),))])

    assert (blocked.is_present(A), blocked.outputs()) == (False, {})
    assert (warned.is_present(A), warned.outputs()) == (True, {A: 3})


def test_a_write_stays_open_until_its_end_is_known() -> None:
    key = StepKey("k")
    begun = fold([StepStarted(1.0, A, key)])

    assert (A, key) in begun.begun
    assert (A, key) in fold([StepFinished(2.0, A, "cancelled", key)], begun).begun
    assert (A, key) in fold([StepFinished(2.0, A, "ok", StepKey("other"))], begun).begun
    assert not fold([StepFinished(2.0, A, "failed", key)], begun).begun
    assert not fold([ItemFinished(2.0, A, 0, key, "ok")], begun).begun


def test_a_step_runs_from_its_start_to_its_end_or_until_its_attempt_is_over() -> None:
    started = fold([StepStarted(1.0, A), StepStarted(1.0, B, StepKey("k"))])

    assert set(started.under_way) == {A, B}
    assert set(reduce(started, StepFinished(2.0, A, "ok")).under_way) == {B}
    assert set(fold([StepFinished(2.0, A, "ok")], started).under_way) == {B}
    assert not reduce(started, Noted(2.0, "resumed", {})).under_way
    assert not reduce(started, RunFinished(2.0, "interrupted")).under_way
    assert set(started.begun) == {(B, StepKey("k"))}


def test_anything_that_happens_after_the_end_opens_the_run_again() -> None:
    ended = [RunFinished(1.0, "interrupted", "stopped")]

    assert fold(ended).is_interrupted
    assert fold([*ended, Noted(2.0, "review", {})]).is_interrupted
    assert fold([*ended, StepFinished(2.0, A, "ok")]).finished is None
    assert fold([*ended, OutputStreamed(2.0, A, "x")]).finished is None


def used(tokens: int, step: StepId | None = None) -> ModelCalled:
    return ModelCalled(
        1.0, ModelUse("worker", "n", "m", "answered", input_tokens=tokens, step=step)
    )


def test_the_uses_of_models_are_numbered_as_they_were_settled() -> None:
    state = fold([used(3), StepFinished(2.0, A, "ok"), used(5, A), used(3)])

    assert sorted(state.uses) == [0, 1, 2]
    assert [state.uses[number].tokens for number in range(3)] == [3, 5, 3]


def test_rungs_stand_in_the_order_in_which_they_were_tried() -> None:
    first = RungTaken(1.0, RungRecord("planner", "llm", "fallen", "no answer"))
    second = RungTaken(2.0, RungRecord("worker n", "agent", "reached"), A, 0)

    assert fold([first, StepFinished(2.0, A, "ok"), second]).rungs == (first, second)


def test_an_agents_calls_are_kept_by_step() -> None:
    calls = [LoopToolCalled(float(n), A, AgentToolCall("fetch", {"n": n}, "ok")) for n in range(2)]
    other = LoopToolCalled(
        3.0, StepId("b"), AgentToolCall("fetch", {}, "refused", message="not allowed")
    )

    state = fold([calls[0], other, calls[1]])

    assert dict(state.loop_calls) == {A: tuple(calls), StepId("b"): (other,)}


def test_a_streamed_piece_changes_nothing_that_is_known() -> None:
    state = fold([StepFinished(1.0, A, "ok", output="whole")])

    assert reduce(state, OutputStreamed(2.0, A, "wh")) == state


def test_the_first_plan_gives_the_rung_and_the_last_one_the_rest() -> None:
    first = PlanAccepted(1.0, {"steps": []}, PlanHash("sha256:1"), "template")
    patch = PlanAccepted(
        2.0, {"steps": [{"id": "a"}]}, PlanHash("sha256:2"), "patch", 1, (), {"reason": "stale"}
    )
    state = fold([first, patch])

    assert (state.rung, state.round, state.plan_hash) == ("template", 1, "sha256:2")
    assert state.patches == ({"reason": "stale"},)
    assert state.plan == {"steps": [{"id": "a"}]}


def test_gates_stand_in_the_plans_order() -> None:
    plan = PlanAccepted(1.0, {"steps": [{"id": "b"}, {"id": "a"}]}, PlanHash("sha256:1"), "given")
    first, second = red("warn"), red("block")
    state = fold(
        [
            plan,
            StepFinished(2.0, A, "ok", gates=(first,)),
            StepFinished(3.0, StepId("b"), "ok", gates=(second,)),
        ]
    )

    assert state.gates == (second, first)


def test_a_state_writes_itself_down_in_one_line_whatever_it_holds() -> None:
    started = RunStarted(RunId("r"), at=0.0, job="j", goal={}, now=0.0)
    state = fold(
        [started, *(StepFinished(1.0, StepId(f"s{n}"), "ok", output="x" * 100) for n in range(9))]
    )

    assert repr(state) == "<RunState of 'r': 9 steps, round 0, finished=None>"
