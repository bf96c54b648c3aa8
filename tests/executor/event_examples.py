"""Events for tests: a strategy for any event, and short ways to write the usual ones."""

from __future__ import annotations

from typing import cast, get_args

from hypothesis import strategies as st

from wavewright.executor.events import types as events
from wavewright.executor.events.types import (
    Event,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStatus,
)
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.ports.model_port import ModelOutcome, ModelQuestion, ModelUse, Role
from wavewright.planner.types import (
    GATE_KINDS,
    GateId,
    GateSeverity,
    Json,
    JsonObject,
    PlanHash,
    RunId,
    StepId,
    StepKey,
)
from wavewright.tools.functions.tool import AgentToolCall

EVENT_TYPES: tuple[type[Event], ...] = get_args(Event)

texts = st.text(max_size=12)
numbers = st.floats(allow_nan=False, allow_infinity=False)
seconds = st.floats(min_value=0, max_value=1e10)
counts = st.integers(min_value=0, max_value=2**40)
json_values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
json_objects: st.SearchStrategy[JsonObject] = st.dictionaries(texts, json_values, max_size=3)

step_ids = texts.map(StepId)
step_keys = texts.map(StepKey)
step_statuses = st.sampled_from(cast("tuple[StepStatus, ...]", get_args(StepStatus)))
severities = st.sampled_from(cast("tuple[GateSeverity, ...]", get_args(GateSeverity)))
errors = st.builds(
    events.StepError,
    kind=st.sampled_from(cast("tuple[events.ErrorKind, ...]", get_args(events.ErrorKind))),
    message=texts,
    attempts=counts,
    hint=st.none() | texts,
    frames=st.lists(
        st.builds(events.TracebackFrame, file=texts, line=counts, function=texts, code=texts),
        max_size=2,
    ).map(tuple),
)
gates = st.builds(
    events.GateRecord,
    gate=texts.map(GateId),
    step=step_ids,
    kind=st.sampled_from(GATE_KINDS),
    severity=severities,
    verdict=st.sampled_from(("pass", "fail", "error")),
    inspected=texts,
    message=texts,
    hint=st.none() | texts,
    index=st.none() | counts,
    template_gate=st.none() | texts.map(GateId),
)
indices = st.none() | counts
uses = st.builds(
    ModelUse,
    role=st.sampled_from(cast("tuple[Role, ...]", get_args(Role))),
    name=texts,
    model=texts,
    outcome=st.sampled_from(cast("tuple[ModelOutcome, ...]", get_args(ModelOutcome))),
    input_tokens=counts,
    output_tokens=counts,
    usd=st.none() | seconds,
    seconds=seconds,
    attempts=counts,
    is_estimated=st.booleans(),
    rung=texts,
    step=st.none() | step_ids,
    index=indices,
    input_chars=counts,
    message=texts,
)
rung_records = st.builds(
    RungRecord,
    ladder=texts,
    rung=texts,
    outcome=st.sampled_from(("reached", "fallen")),
    reason=texts,
    seconds=seconds,
    ceiling=st.floats(0, 1),
    because=texts,
)
loop_calls = st.builds(
    AgentToolCall,
    tool=texts,
    params=json_objects,
    status=st.sampled_from(("ok", "failed", "refused")),
    seconds=seconds,
    message=texts,
)
any_event: st.SearchStrategy[Event] = st.one_of(
    st.builds(events.ModelCalled, at=seconds, use=uses),
    st.builds(
        events.AnswerKept,
        at=seconds,
        key=texts,
        answer=json_objects,
        question=st.none()
        | st.builds(
            ModelQuestion,
            role=texts,
            name=texts,
            text=texts,
            step=st.none() | step_ids,
            index=st.none() | counts,
        ),
    ),
    st.builds(
        events.AttemptLogged,
        at=seconds,
        step=step_ids,
        attempt=counts,
        index=indices,
        traceback=texts,
        stdout=texts,
        stderr=texts,
        log=texts,
    ),
    st.builds(
        events.OutputLogged,
        at=seconds,
        step=step_ids,
        attempt=counts,
        stream=st.sampled_from(["stdout", "stderr", "log"]),
        text=texts,
        index=indices,
    ),
    st.builds(
        events.RungTaken, at=seconds, rung=rung_records, step=st.none() | step_ids, index=indices
    ),
    st.builds(events.OutputStreamed, at=seconds, step=step_ids, text=texts, index=indices),
    st.builds(events.LoopToolCalled, at=seconds, step=step_ids, call=loop_calls, index=indices),
    st.builds(
        events.RunStarted,
        run=texts.map(RunId),
        at=seconds,
        job=texts,
        goal=json_objects,
        now=seconds,
        versions=st.dictionaries(texts, texts, max_size=2),
    ),
    st.builds(
        events.PlanAccepted,
        at=seconds,
        plan=json_objects,
        plan_hash=texts.map(PlanHash),
        rung=texts,
        round=counts,
        warnings=st.lists(json_objects, max_size=2).map(tuple),
        patch=st.none() | json_objects,
    ),
    st.builds(
        events.WaveStarted,
        at=seconds,
        wave=counts,
        steps=st.lists(step_ids, max_size=3).map(tuple),
        round=counts,
    ),
    st.builds(events.StepStarted, at=seconds, step=step_ids, key=step_keys),
    st.builds(
        events.ItemFinished,
        at=seconds,
        step=step_ids,
        index=counts,
        key=st.none() | step_keys,
        status=st.sampled_from(("ok", "empty", "failed", "reused")),
        output=json_values,
        error=st.none() | errors,
        seconds=seconds,
        attempts=counts,
    ),
    st.builds(
        events.StepFinished,
        at=seconds,
        step=step_ids,
        status=step_statuses,
        key=st.none() | step_keys,
        output=json_values,
        error=st.none() | errors,
        gates=st.lists(gates, max_size=2).map(tuple),
        started=st.none() | seconds,
        seconds=seconds,
        attempts=counts,
        items=st.none() | st.tuples(counts, counts),
        reason=st.none() | texts,
    ),
    st.builds(events.WaveFinished, at=seconds, wave=counts, round=counts),
    st.builds(events.Noted, at=seconds, topic=texts, body=json_objects),
    st.builds(
        events.RunFinished,
        at=seconds,
        status=st.sampled_from(("achieved", "not_achieved", "failed", "interrupted")),
        reason=texts,
    ),
)


def run_started(run: str, *, job: str = "equities", at: float = 1.0) -> RunStarted:
    """Return the first event of a run."""
    return RunStarted(run=RunId(run), at=at, job=job, goal={}, now=at)


def step_finished(
    step: str,
    *,
    status: StepStatus = "ok",
    key: str | None = None,
    output: Json = None,
    at: float = 2.0,
) -> StepFinished:
    """Return the end of a step."""
    return StepFinished(
        at=at,
        step=StepId(step),
        status=status,
        key=None if key is None else StepKey(key),
        # An output that may serve other runs is found by this key.
        cache_key=None if key is None else StepKey(key),
        output=output,
    )


def run_finished(*, at: float = 9.0) -> RunFinished:
    """Return the end of a run that achieved its goal."""
    return RunFinished(at=at, status="achieved")
