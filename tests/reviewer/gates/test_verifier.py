from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Sequence

import pytest

from tests.reviewer.scripted_runs import NOW, goal_for, plan_of, signature
from wavewright.executor.events.types import GateRecord
from wavewright.executor.run.ports import GateRecords, GateView
from wavewright.planner.types import Json, JsonObject, StepId
from wavewright.reviewer import make_verifier

PRICES = StepId("prices")


def ask(
    gate: JsonObject,
    output: Json,
    *,
    step: JsonObject | None = None,
    view: GateView | None = None,
    now: dt.datetime = NOW,
    as_of: dt.datetime | None = NOW,
    freshness_field: str | None = "as_of",
) -> tuple[GateRecord, ...]:
    plan = plan_of({"id": "prices", **(step or {})}, gates=[{"id": "gate", "on": "prices", **gate}])
    tools = {"look": signature("look", freshness_field=freshness_field)}
    verify = make_verifier(plan, tools, goal_for(plan, as_of=as_of), now)
    return at_once(verify(PRICES, output, view or GateView()))


def at_once(records: GateRecords | Awaitable[GateRecords]) -> GateRecords:
    assert isinstance(records, tuple), "no judge is asked here"
    return records


def test_a_step_without_gates_leaves_no_record() -> None:
    plan = plan_of(
        {"id": "prices"}, {"id": "index"}, gates=[{"id": "gate", "on": "index", "check": "true"}]
    )

    assert make_verifier(plan, {}, None, NOW)(PRICES, {"a": 1}, GateView()) == ()


@pytest.mark.parametrize(
    ("check", "output", "verdict", "inspected"),
    [
        pytest.param(
            "output.rows >= 20",
            {"rows": 41},
            "pass",
            "output.rows >= 20 with output.rows = 41",
            id="holds",
        ),
        pytest.param(
            "output.rows >= 20",
            {"rows": 3},
            "fail",
            "output.rows >= 20 with output.rows = 3",
            id="broken",
        ),
        pytest.param(
            "${output.rows >= 20}",
            {"rows": 3},
            "fail",
            "output.rows >= 20 with output.rows = 3",
            id="wrapped",
        ),
        pytest.param(
            "output.size() > 1",
            [1, 2],
            "pass",
            "output.size() > 1 with output = [1, 2]",
            id="method",
        ),
        pytest.param('output.a != "output.b"', {"a": "x"}, "pass", None, id="path_in_a_string"),
        pytest.param(
            "output.rows >= 20",
            {},
            "error",
            "output.rows >= 20 with output.rows = absent",
            id="absent",
        ),
        pytest.param(
            "output.rows",
            {"rows": 3},
            "error",
            "output.rows with output.rows = 3",
            id="no_condition",
        ),
    ],
)
def test_a_check_says_what_it_looked_at_with_the_values_found(
    check: str, output: Json, verdict: str, inspected: str | None
) -> None:
    (record,) = ask({"check": check}, output)

    assert record.verdict == verdict
    assert record.has_failed == (verdict != "pass")
    if inspected is not None:
        assert record.inspected == inspected


def test_a_check_that_cannot_be_compiled_is_red_and_says_so() -> None:
    (record,) = ask({"check": "output.rows >="}, {"rows": 3})

    assert record.verdict == "error"
    assert "not an expression" in record.message


def test_a_check_reads_inputs_other_steps_and_now() -> None:
    view = GateView(inputs={"least": 2}, steps={"other": [1, 2, 3]})
    check = 'output.rows > inputs.least && steps.other.size() == 3 && now() == timestamp("2010-03-01T00:00:00Z")'

    assert ask({"check": check}, {"rows": 3}, view=view)[0].verdict == "pass"


def test_a_check_may_ask_whether_a_step_is_there() -> None:
    assert ask({"check": "has(steps.other)"}, 1)[0].verdict == "fail"
    assert (
        ask({"check": "has(steps.other)"}, 1, view=GateView(steps={"other": None}))[0].verdict
        == "pass"
    )


def test_a_hint_comes_with_red_records_only() -> None:
    gate: JsonObject = {"check": "output > 1", "hint": "ask for more"}

    assert ask(gate, 2)[0].hint is None
    assert ask(gate, 1)[0].hint == "ask for more"


FOR_EACH: JsonObject = {"for_each": ["a", "b", "c"]}


def items(*pairs: tuple[int, Json]) -> GateView:
    return GateView(items=list(pairs))


def test_a_check_that_reads_output_is_asked_once_a_call_with_its_item() -> None:
    records = ask(
        {"check": "output.code == item && index < 3"},
        [{"code": "a"}, {"code": "c"}],
        step=FOR_EACH,
        view=items((0, "a"), (2, "b")),
    )

    assert [(record.index, record.verdict) for record in records] == [(0, "pass"), (2, "fail")]


@pytest.mark.parametrize(
    ("outputs", "severity"),
    [([0, 1, 1], "warn"), ([0, 0, 1, 1], "block"), ([0, 0], "block"), ([1, 1], "block")],
)
def test_a_gate_may_block_from_a_share_of_the_calls_on_and_warn_below_it(
    outputs: list[Json], severity: str
) -> None:
    records = ask(
        {"check": "output > 0", "blocks_from": 0.5},
        outputs,
        step=FOR_EACH,
        view=items(*enumerate(outputs)),
    )

    assert {record.severity for record in records if record.has_failed} <= {severity}
    assert [record.has_failed for record in records] == [output == 0 for output in outputs]


@pytest.mark.parametrize("tenths", range(1, 11))
def test_a_share_of_the_calls_that_is_just_reached_blocks(tenths: int) -> None:
    outputs: list[Json] = [int(number >= tenths) for number in range(10)]
    records = ask(
        {"check": "output > 0", "blocks_from": tenths / 10},
        outputs,
        step=FOR_EACH,
        view=items(*enumerate(outputs)),
    )

    assert {record.severity for record in records if record.has_failed} == {"block"}


def test_a_check_of_the_whole_step_is_asked_once() -> None:
    records = ask(
        {"check": "steps.prices.size() == 2"}, [1, 2], step=FOR_EACH, view=items((0, "a"), (1, "b"))
    )

    assert [(record.index, record.verdict) for record in records] == [(None, "pass")]


@pytest.mark.parametrize(
    ("on_empty", "expected"),
    [
        ({}, ("not_evaluated", "warn", True)),
        ({"on_empty": "warn"}, ("not_evaluated", "warn", True)),
        ({"on_empty": "block"}, ("not_evaluated", "block", True)),
        ({"on_empty": "pass"}, ("pass", "block", False)),
    ],
)
def test_a_gate_on_a_step_without_items_is_not_evaluated(
    on_empty: JsonObject, expected: tuple[str, str, bool]
) -> None:
    (record,) = ask({"required": ["code"], **on_empty}, [], step={"for_each": []}, view=items())

    assert (record.verdict, record.severity, record.has_failed) == expected
    assert record.inspected == "no calls: the list of items is empty"


def test_of_very_many_calls_that_pass_the_last_are_counted_and_every_red_one_is_kept() -> None:
    outputs: list[Json] = [{"n": number} for number in range(300)]
    outputs[250] = {"n": None}
    records = ask(
        {"required": ["n"]},
        outputs,
        step=FOR_EACH,
        view=GateView(items=[(n, n) for n in range(300)]),
    )

    assert [record.index for record in records if record.has_failed] == [250]
    assert records[-1].inspected == "199 more calls, all of which pass"


def test_a_schema_names_the_first_faults_with_their_places() -> None:
    schema: JsonObject = {
        "type": "object",
        "required": ["rows"],
        "properties": {
            "rows": {"type": "array", "items": {"required": ["close"]}},
            "code": {"type": "string"},
            "years": {"additionalProperties": {"type": "integer"}},
        },
    }
    output: JsonObject = {"rows": [{"close": 1}, {}], "code": 7, "years": {"2020": "x"}}
    (record,) = ask({"schema": schema}, output)

    assert record.verdict == "fail"
    assert "rows[1]" in record.message
    assert "'close'" in record.message
    assert "code" in record.message
    assert "years.2020 is" in record.message


@pytest.mark.parametrize(
    "schema",
    [{"type": "no such type"}, {"$ref": "http://localhost:9/schema.json"}],
    ids=["unknown_type", "remote"],
)
def test_a_schema_that_is_none_is_red_and_fetches_nothing(schema: JsonObject) -> None:
    (record,) = ask({"schema": schema}, {})

    assert record.verdict == "error"
    assert "not a JSON Schema" in record.message


def at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("as_of", "now", "verdict"),
    [
        pytest.param("2010-03-01T00:00:00Z", "2010-03-02T00:00", "pass", id="just_fresh"),
        pytest.param("2010-03-01T00:00:00Z", "2010-03-02T00:00:01", "fail", id="just_stale"),
        pytest.param("2010-03-01T02:00:00+02:00", "2010-03-02T00:00", "pass", id="another_zone"),
        pytest.param("2010-03-01", "2010-03-01T00:00", "pass", id="a_date_is_of_its_whole_day"),
        pytest.param("2010-03-01", "2010-03-03T00:00", "pass", id="a_date_counts_from_its_end"),
        pytest.param("2010-03-01", "2010-03-03T00:01", "fail", id="a_date_that_is_stale"),
        pytest.param("2010-03-02", "2010-03-01T23:59", "fail", id="a_day_that_has_not_begun"),
        pytest.param("2010-03-01T12:00:00Z", "2010-03-01T11:59", "fail", id="after_now"),
    ],
)
def test_freshness_is_the_age_at_now(as_of: str, now: str, verdict: str) -> None:
    (record,) = ask({"fresh_within": "24h"}, {"as_of": as_of}, now=at(now), as_of=at(now))

    assert record.verdict == verdict


def test_a_time_after_now_is_said_to_be_from_the_future() -> None:
    (record,) = ask({"fresh_within": "24h"}, {"as_of": "2010-06-01"})

    assert record.message == "as_of is from the future, 92 days after now"


def test_data_may_come_in_while_a_live_run_goes_on() -> None:
    late: JsonObject = {"as_of": "2010-03-01T00:30:00Z"}

    assert ask({"fresh_within": "24h"}, late, as_of=None)[0].verdict == "pass"
    assert ask({"fresh_within": "24h"}, late, as_of=NOW)[0].verdict == "fail"
    assert (
        ask({"fresh_within": "24h"}, {"as_of": "2010-03-01T02:00:00Z"}, as_of=None)[0].verdict
        == "fail"
    )


def test_stale_data_is_told_with_its_age_and_the_age_allowed() -> None:
    (record,) = ask(
        {"fresh_within": "24h"}, {"as_of": "2010-03-01"}, now=at("2026-11-21"), as_of=None
    )

    assert record.message == "as_of is 16.7 years old, and at most 24 h is allowed"
    assert record.inspected == 'as_of = "2010-03-01", now = 2026-11-21T00:00:00Z'


@pytest.mark.parametrize(
    ("output", "message"),
    [
        pytest.param({}, "as_of is missing, so the age is unknown", id="missing"),
        pytest.param({"as_of": None}, "as_of is missing, so the age is unknown", id="null"),
        pytest.param(
            {"as_of": "yesterday"},
            'as_of is "yesterday", which is no ISO 8601 date or date-time',
            id="word",
        ),
        pytest.param(
            {"as_of": 1267401600},
            "as_of is 1267401600, which is no ISO 8601 date or date-time",
            id="number",
        ),
        pytest.param([], "as_of is missing, so the age is unknown", id="list"),
    ],
)
def test_a_time_that_cannot_be_read_is_red(output: Json, message: str) -> None:
    (record,) = ask({"fresh_within": "24h"}, output)

    assert record.verdict == "fail"
    assert record.message.removeprefix("[].") == message


def test_freshness_follows_a_dotted_path_and_the_oldest_of_a_list_decides() -> None:
    output: JsonObject = {"meta": [{"time": "2010-02-28"}, {"time": "2009-01-01"}]}
    (record,) = ask({"fresh_within": "24h"}, output, freshness_field="meta.time")

    assert record.verdict == "fail"
    assert "meta[1].time" in record.message


def test_freshness_of_a_tool_that_declares_no_field_cannot_be_asked() -> None:
    (record,) = ask({"fresh_within": "24h"}, {"as_of": "2010-03-01"}, freshness_field=None)

    assert record.verdict == "error"
    assert "'look' declares no freshness field" in record.message


@pytest.mark.parametrize(
    ("output", "missing"),
    [
        pytest.param({"code": "A", "rows": [{"close": 0}]}, [], id="zero_is_there"),
        pytest.param({"code": "A", "rows": [{"close": False}]}, [], id="false_is_there"),
        pytest.param({"code": "", "rows": [{"close": 1}]}, ['code ("")'], id="empty_text"),
        pytest.param({"code": "A", "rows": []}, ["rows[].close (absent)"], id="empty_list"),
        pytest.param(
            {"code": "A", "rows": [{"close": 1}, {"close": None}]},
            ["rows[1].close (null)"],
            id="null_in_a_row",
        ),
        pytest.param(
            {"rows": {"close": {}}}, ["code (absent)", "rows.close ({})"], id="all_at_once"
        ),
        pytest.param("text", ["code (absent)", "rows (absent)"], id="no_object"),
    ],
)
def test_required_fields_are_missing_where_they_are_null_or_empty(
    output: Json, missing: Sequence[str]
) -> None:
    (record,) = ask({"required": ["code", "rows.close"]}, output)

    assert record.verdict == ("fail" if missing else "pass")
    assert record.message == (f"missing: {', '.join(missing)}" if missing else "")


def test_a_judge_gate_without_a_model_is_an_unanswered_warning() -> None:
    (record,) = ask(
        {"judge": {"rubric": "Is it well written?"}, "severity": "block"}, {"text": "…"}
    )

    assert (record.verdict, record.severity) == ("error", "warn")
    assert "needs a model" in record.message


def test_a_record_names_the_template_gate_that_it_stands_for() -> None:
    gate: JsonObject = {"id": "fresh", "on_tool": "look", "fresh_within": "24h"}
    plan = plan_of(
        {"id": "prices"},
        gates=[
            {"id": "fresh__prices", "on": "prices", "fresh_within": "24h"},
            {"id": "own", "on": "prices", "check": "true"},
        ],
    )
    tools = {"look": signature("look", freshness_field="as_of")}
    verify = make_verifier(plan, tools, goal_for(plan, gates=[gate]), NOW)
    records = at_once(verify(PRICES, {"as_of": "2010-03-01"}, GateView()))

    assert [(record.gate, record.template_gate) for record in records] == [
        ("fresh__prices", "fresh"),
        ("own", None),
    ]
