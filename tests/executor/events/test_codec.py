"""Events go out as JSON and come back equal; what is not an event is refused with the reason."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import Phase, find, given, settings, strategies as st

from tests.executor.event_examples import EVENT_TYPES, any_event, json_values, step_finished
from wavewright.executor.events.codec import (
    KINDS,
    CodecError,
    decode,
    encode,
    from_json,
    kind_of,
    to_json,
)
from wavewright.executor.events.types import (
    Event,
    GateRecord,
    ModelCalled,
    RunFinished,
    StepError,
    StepFinished,
    WaveStarted,
)
from wavewright.planner.ports.model_port import ModelUse
from wavewright.planner.types import GateId, Json, StepId


@given(any_event)
def test_every_event_comes_back_equal(event: Event) -> None:
    assert decode(*encode(event)) == event


@given(any_event)
def test_the_single_object_form_comes_back_equal_through_any_json_parser(event: Event) -> None:
    assert from_json(json.loads(json.dumps(to_json(event)))) == event


@pytest.mark.parametrize("event_type", EVENT_TYPES, ids=lambda event_type: event_type.__name__)
def test_no_event_type_is_left_out_of_the_round_trip(event_type: type[Event]) -> None:
    # Any one will do: making it small takes most of the time. One in about thirty is of the type;
    # so many are drawn only where none is.
    first = settings(phases=[Phase.generate], max_examples=10_000)

    assert (
        type(find(any_event, lambda event: isinstance(event, event_type), settings=first))
        is event_type
    )


def test_every_event_type_has_a_kind_of_its_own() -> None:
    assert set(KINDS.values()) == set(EVENT_TYPES)


def test_nested_records_and_tuples_come_back_as_their_own_types() -> None:
    gate = GateRecord(
        GateId("g"), StepId("s"), "check", "block", "fail", "size(output) > 0", index=0
    )
    event = StepFinished(
        at=1.0,
        step=StepId("s"),
        status="failed",
        error=StepError("tool", "no"),
        gates=(gate,),
        items=(1, 2),
    )

    back = decode(*encode(event))

    assert isinstance(back, StepFinished)
    assert isinstance(back.error, StepError)
    assert back.gates == (gate,)
    assert back.items == (1, 2)


def test_fields_at_their_default_are_not_written() -> None:
    kind, body = encode(step_finished("fetch"))

    assert (kind, body) == ("step_finished", '{"at":2.0,"step":"fetch","status":"ok"}')


def test_a_lone_surrogate_survives() -> None:
    event = step_finished("fetch", output="half a pair: \ud83d")

    assert decode(*encode(event)) == event


def test_a_model_call_is_written_without_what_it_need_not_say() -> None:
    event = ModelCalled(1.5, ModelUse("worker", "summarize", "acme:one", "answered", 12, 3))

    kind, body = encode(event)

    assert kind == "model_called"
    assert body == (
        '{"at":1.5,"use":{"role":"worker","name":"summarize","model":"acme:one","outcome":"answered",'
        '"input_tokens":12,"output_tokens":3}}'
    )


@pytest.mark.parametrize(
    "output",
    [
        pytest.param(math.nan, id="nan"),
        pytest.param([math.inf], id="infinity"),
        pytest.param({"when": object()}, id="object"),
        pytest.param({"set": {1}}, id="set"),
    ],
)
def test_an_output_that_is_not_json_is_refused_by_step(output: Json) -> None:
    with pytest.raises(CodecError, match="step_finished of step 'fetch' cannot be written as JSON"):
        encode(step_finished("fetch", output=output))


def test_an_output_nested_without_end_is_refused() -> None:
    endless: list[Json] = []
    endless.append(endless)

    with pytest.raises(CodecError, match="cannot be written"):
        encode(step_finished("fetch", output=endless))


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        pytest.param("step_flown", "{}", "unknown kind of event 'step_flown'", id="unknown-kind"),
        pytest.param("wave_started", '{"at":1,', "not valid JSON", id="torn"),
        pytest.param("wave_started", "[]", "not an object", id="not-an-object"),
        pytest.param("wave_started", '{"at":1}', "lacks 'steps', 'wave'", id="missing"),
        pytest.param(
            "run_finished",
            '{"at":1,"status":"failed","cost":2}',
            "unknown field 'cost'",
            id="unknown-field",
        ),
        pytest.param(
            "run_finished",
            '{"at":1,"status":"won"}',
            "run_finished.status is str 'won', none of",
            id="literal",
        ),
        pytest.param(
            "run_finished",
            '{"at":true,"status":"failed"}',
            "run_finished.at is bool 'True', not a number",
            id="bool",
        ),
        pytest.param(
            "run_finished", '{"at":NaN,"status":"failed"}', "NaN is not a JSON number", id="nan"
        ),
        pytest.param(
            "wave_started",
            '{"at":1,"wave":1.5,"steps":[]}',
            "wave_started.wave is float",
            id="fraction",
        ),
        pytest.param(
            "wave_started",
            '{"at":1,"wave":1,"steps":"ab"}',
            "wave_started.steps is str",
            id="not-a-list",
        ),
        pytest.param(
            "wave_started",
            '{"at":1,"wave":1,"steps":[1]}',
            "wave_started.steps is int",
            id="element",
        ),
        pytest.param(
            "step_finished",
            '{"at":1,"step":"s","status":"ok","items":[1]}',
            "step_finished.items has 1 elements, not 2",
            id="short-tuple",
        ),
        pytest.param(
            "step_finished",
            '{"at":1,"step":"s","status":"failed","error":{"kind":"tool"}}',
            "step_finished.error lacks 'message'",
            id="nested",
        ),
    ],
)
def test_a_malformed_body_is_refused_with_the_field(kind: str, body: str, reason: str) -> None:
    with pytest.raises(CodecError) as caught:
        decode(kind, body)

    assert reason in str(caught.value)


@given(kind=st.sampled_from(sorted(KINDS)), value=json_values)
def test_no_json_value_is_taken_for_an_event_that_it_is_not(kind: str, value: Json) -> None:
    try:
        event = decode(kind, json.dumps(value))
    except CodecError:
        return
    assert decode(*encode(event)) == event


def test_the_kind_of_an_event_is_what_it_is_written_under() -> None:
    for event in (WaveStarted(1.0, 0, ()), RunFinished(1.0, "failed")):
        assert kind_of(event) == encode(event)[0]


@pytest.mark.parametrize(
    "value", [None, [], {"kind": 3}, {"at": 1.0}], ids=["null", "list", "number", "no-kind"]
)
def test_an_object_without_a_kind_is_refused(value: Json) -> None:
    with pytest.raises(CodecError, match="'kind'"):
        from_json(value)
