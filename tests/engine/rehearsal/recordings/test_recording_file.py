"""The file of a recording, and the calls that stand in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.engine.rehearsal.recordings.conftest import ProjectMaker
from wavewright.config.redaction import Redactor
from wavewright.engine.rehearsal.recordings.job_recording import (
    Recording,
    RecordingError,
    read_recording,
    recording_text,
    write_recording,
)
from wavewright.engine.rehearsal.recordings.recorded_calls import EmittedEvent, RecordedCall
from wavewright.executor.events.types import (
    LoopToolCalled,
    ModelCalled,
    OutputStreamed,
    RungTaken,
    StepError,
)
from wavewright.planner.language.hashing import step_key
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.ports.model_port import ModelUse
from wavewright.planner.types import Json, JsonObject, StepId
from wavewright.tools.functions.tool import AgentToolCall

TEXTS = st.text(alphabet=st.characters(), max_size=8)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
TOLD = (
    ModelCalled(1.0, ModelUse("worker", "w", "m", "answered", 3, 4, rung="agent")),
    RungTaken(1.5, RungRecord("worker w", "agent", "reached"), StepId("a"), 2),
    OutputStreamed(1.75, StepId("a"), "piece", 2),
    LoopToolCalled(1.8, StepId("a"), AgentToolCall("look", {"at": 1}, "ok"), 2),
)


@given(
    params=st.dictionaries(TEXTS, VALUES, max_size=3),
    output=VALUES,
    index=st.none() | st.integers(0, 5),
    error=st.none() | st.builds(StepError, st.just("timeout"), TEXTS, hint=st.none() | TEXTS),
    told=st.lists(st.sampled_from(TOLD), max_size=3),
)
def test_a_recording_that_is_written_is_read_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory,
    params: JsonObject,
    output: Json,
    index: int | None,
    error: StepError | None,
    told: list[EmittedEvent],
) -> None:
    file = tmp_path_factory.getbasetemp() / "law.json"
    call = RecordedCall(
        step=StepId("a"),
        tool="look",
        params=params,
        status="failed" if error else "ok",
        index=index,
        output=output,
        error=error,
        emitted=tuple(told),
    )
    recording = Recording(
        "job", 1.5, (call,), {"cassette": 1, "entries": []}, (("look", "1"),), "p:m"
    )

    write_recording(file, recording)

    assert read_recording(file) == recording


def test_each_recorded_call_has_the_parameters_that_its_key_was_made_of(
    quotes_project: ProjectMaker,
) -> None:
    ran, recording = quotes_project().record()
    assert ran.context.state.started is not None

    keys = [
        step_key(
            call.tool,
            call.params,
            config=call.config,
            run=ran.context.run,
            step=call.step,
        )
        for call in recording.calls
    ]

    assert len(keys) == 6
    assert keys == [call.key for call in recording.calls]


def test_a_recording_is_the_same_text_whichever_call_ended_first(
    quotes_project: ProjectMaker,
) -> None:
    _, recording = quotes_project().record()
    other_way_round = Recording(
        recording.job, recording.now, recording.calls[::-1], tools=recording.tools
    )

    assert recording_text(other_way_round) == recording_text(recording)


def test_secrets_are_taken_out_of_all_that_a_call_says() -> None:
    told = "correct-horse-battery"
    call = RecordedCall(
        step=StepId("a"),
        tool="look",
        params={"with": f"key {told}"},
        status="failed",
        config={"header": told},
        error=StepError("tool", f"{told} was refused", hint=f"not {told}"),
        output=[told],
        emitted=(OutputStreamed(1.0, StepId("a"), told),),
    )

    text = recording_text(Recording("job", 1.0, (call.without_secrets(Redactor([told])),)))

    assert told not in text
    assert text.count("[redacted]") == 6


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(None, "cannot be read: No such file", id="absent"),
        pytest.param("{", "is damaged: Expecting property name", id="cut off"),
        pytest.param(
            "[]", "is no recording that this program reads: its format is None", id="no recording"
        ),
        pytest.param(
            '{"format": "wavewright/recording/2"}',
            "its format is 'wavewright/recording/2'",
            id="version",
        ),
        pytest.param(
            '{"format": "wavewright/recording/1", "job": "j", "now": 1.0, "calls": [{"step": 3}]}',
            "is damaged at calls.0.step: Input should be a valid string",
            id="wrong type",
        ),
        pytest.param(
            json.dumps(
                {
                    "format": "wavewright/recording/1",
                    "job": "j",
                    "now": 1.0,
                    "calls": [
                        {
                            "step": "a",
                            "tool": "t",
                            "params": {},
                            "status": "ok",
                            "emitted": [{"kind": "noted"}],
                        }
                    ],
                }
            ),
            "is damaged: noted lacks",
            id="told something else",
        ),
    ],
)
def test_a_file_that_is_no_recording_is_refused_with_its_place(
    tmp_path: Path, content: str | None, told: str
) -> None:
    file = tmp_path / "run.json"
    if content is not None:
        file.write_text(content)

    with pytest.raises(RecordingError) as caught:
        read_recording(file)

    assert str(file) in caught.value.message
    assert told in caught.value.message
    assert caught.value.hint
