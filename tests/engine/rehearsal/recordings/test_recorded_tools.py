"""A call that was never recorded is told with the one that is most like it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wavewright.engine.rehearsal.recordings.recorded_calls import CallStatus, RecordedCall
from wavewright.engine.rehearsal.recordings.recorded_tools import describe_call_miss
from wavewright.planner.types import Json, JsonObject, StepId


def call(
    step: str = "prices",
    *,
    tool: str = "fetch",
    index: int | None = None,
    config: JsonObject | None = None,
    status: CallStatus = "ok",
    **params: Json,
) -> RecordedCall:
    return RecordedCall(StepId(step), tool, params, status, index, config or {})


@pytest.mark.parametrize(
    ("recorded", "wanted", "differences"),
    [
        pytest.param(call(code="A"), call(code="B"), ('code "A" → "B"',), id="changed"),
        pytest.param(call(code="A"), call(code="A", force=True), ("force added: true",), id="new"),
        pytest.param(call(code="A", days=3), call(code="A"), ("days gone: 3",), id="gone"),
        pytest.param(
            call(of={"codes": ["A", "B"]}),
            call(of={"codes": ["A", "C"]}),
            ('of.codes[1] "B" → "C"',),
            id="deep",
        ),
        pytest.param(
            call(codes=["A"]),
            call(codes=["A", "B"]),
            ('codes ["A"] → ["A", "B"]',),
            id="another length",
        ),
        pytest.param(call(days=1), call(days=True), ("days 1 → true",), id="another type"),
        pytest.param(
            call(config={"at": "x"}),
            call(config={"at": "y"}),
            ('config.at "x" → "y"',),
            id="configuration",
        ),
        pytest.param(
            call(status="cancelled"),
            call(),
            ("the recorded run was cut off before it ended",),
            id="cut off",
        ),
    ],
)
def test_each_difference_to_the_nearest_call_is_one_sentence(
    recorded: RecordedCall, wanted: RecordedCall, differences: tuple[str, ...]
) -> None:
    miss = describe_call_miss(StepId("now"), None, wanted, [recorded])

    assert (miss.nearest, miss.differences) == ("prices", differences)


def test_the_nearest_call_is_the_most_like_of_the_same_tool() -> None:
    recorded = [
        call("far", title="Something else altogether", code="Z"),
        call("near", title="Outlook for the year", code="B"),
        call("other", tool="search", title="Outlook for the year", code="A"),
    ]

    miss = describe_call_miss(
        StepId("now"), None, call("now", title="Outlook for the year", code="A"), recorded
    )

    assert miss.nearest == "near"


def test_of_equally_near_calls_that_of_the_same_item_is_told() -> None:
    recorded = [call(index=index, code=code) for index, code in enumerate("ABC")]

    miss = describe_call_miss(StepId("prices"), 1, call(index=1, code="X"), recorded)

    assert miss.nearest == "prices[1]"


def test_where_the_tool_was_never_called_the_miss_says_so() -> None:
    miss = describe_call_miss(StepId("now"), 2, call(tool="search", q="waves"), [call(code="A")])

    assert str(miss) == (
        'now[2] calls \'search\' with {"q": "waves"}, which was never recorded\n'
        "  no call of 'search' was recorded"
    )
    assert miss.step_message() == "this call was never recorded: nothing of this tool was"


def test_many_differences_are_told_in_part() -> None:
    recorded = replace(call(), params={f"p{number}": number for number in range(9)})
    wanted = replace(call(), params={f"p{number}": -1 for number in range(9)})

    miss = describe_call_miss(StepId("now"), None, wanted, [recorded])

    assert len(miss.differences) == 7
    assert miss.differences[-1] == "and 3 differences more"
