"""Names of `let` and the condition of `stop` are put into the steps of a plan."""

from __future__ import annotations

import pytest

from wavewright.planner import Json, JsonObject
from wavewright.planner.checks.checker import check
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.plans.let_and_stop import (
    in_authors_words,
    in_written_form,
    with_let,
    with_stop,
)
from wavewright.planner.types import StepId

ROW: JsonObject = {"type": "object", "properties": {"v": {"type": "integer"}}, "required": ["v"]}
TOOLS = {
    "rows": ToolSignature(name="rows", output_schema={"type": "array", "items": ROW}),
    "send": ToolSignature(
        name="send",
        input_schema={"type": "object", "properties": {"v": {"type": "integer"}}},
        output_schema={"type": "integer"},
    ),
}


def plan_of(*steps: JsonObject, **fields: Json) -> Plan:
    all_rows: JsonObject = {"id": "all", "tool": "rows"}
    return Plan.model_validate({"steps": [all_rows, *steps], **fields})


def sending(step_id: str, value: str, **fields: Json) -> JsonObject:
    return {"id": step_id, "tool": "send", "params": {"v": value}, **fields}


def put_in(plan: Plan) -> Plan:
    named, faults = with_let(plan)
    assert faults == ()
    return with_stop(named)


def codes(plan: Plan) -> list[str]:
    return [found.code for found in check(put_in(plan), None, TOOLS)]


def test_a_name_becomes_what_it_stands_for() -> None:
    plan = plan_of(sending("a", "${first.v}"), let={"first": "${steps.all[0]}"})

    assert put_in(plan).step(StepId("a")).params == {"v": "${(steps.all[0]).v}"}


def test_a_name_may_read_another_that_stands_below_it() -> None:
    names: JsonObject = {"big": "${known.filter(r, r.v > 1)}", "known": "${steps.all}"}

    found = put_in(plan_of(let=names, result="${big.size()}")).result

    assert found == "${(steps.all.filter(r, r.v > 1)).size()}"


def test_a_name_alone_keeps_the_structure_that_it_stands_for() -> None:
    both: JsonObject = {"rows": "${steps.all}", "kind": "plain"}

    assert put_in(plan_of(let={"both": both}, result="${both}")).result == both


def test_a_variable_of_a_macro_hides_a_name() -> None:
    text = "${steps.all.map(r, r.v)}"

    assert put_in(plan_of(let={"r": "${steps.all}"}, result=text)).result == text


def test_a_step_waits_for_what_the_names_in_it_read() -> None:
    plan = put_in(plan_of(sending("a", "${size}"), let={"size": "${steps.all.size()}"}))

    assert PlanGraph.of(plan).dependencies[StepId("a")] == ("all",)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param({"a": "${b}", "b": "${a}"}, id="each other"),
        pytest.param({"a": "${a.size()}"}, id="itself"),
        pytest.param({"steps": "${inputs.x}"}, id="a root"),
        pytest.param({"math": "1"}, id="a namespace"),
        pytest.param({"a": "${'x' + '" + "y" * 21_000 + "'}"}, id="too long"),
    ],
)
def test_what_cannot_be_a_name_is_a_fault(names: JsonObject) -> None:
    _, faults = with_let(plan_of(let=names))

    assert {fault.code for fault in faults} == {"E314"}
    assert {fault.pointer.split("/")[1] for fault in faults} == {"let"}


def test_names_in_names_do_not_grow_without_end() -> None:
    names: JsonObject = {"n0": "${steps.all.size()}"}
    names |= {f"n{number}": f"${{n{number - 1} + n{number - 1}}}" for number in range(1, 40)}

    _, faults = with_let(plan_of(let=names, result="${n39}"))

    assert faults


@pytest.mark.parametrize(
    ("names", "code"),
    [
        pytest.param({"a": "${steps.none}"}, "E301", id="step"),
        pytest.param({"a": "${steps.all[0].w}"}, "E303", id="field"),
        pytest.param({"a": "${inputs.x}"}, "E302", id="input"),
    ],
)
def test_a_name_is_checked_though_nothing_reads_it(names: JsonObject, code: str) -> None:
    assert code in codes(plan_of(let=names))


def test_a_fault_of_a_name_is_told_where_the_name_is_defined_and_not_by_its_readers() -> None:
    plan = plan_of(
        sending("a", "${wrong.size()}", when="wrong.size() > 0"),
        let={"count": {"of": "${size(wrong)}"}, "wrong": "${steps.all.map(x, x.nope)}"},
        result="${wrong}",
    )

    assert [fault.pointer for fault in check(put_in(plan), None, TOOLS)] == ["/let/wrong"]


def test_the_same_fault_that_a_reader_of_a_name_has_itself_is_told_too() -> None:
    plan = plan_of(
        sending("a", "${steps.all.map(x, x.nope).size()}"),
        let={"wrong": "${steps.all.map(x, x.nope)}"},
    )

    faults = check(put_in(plan), None, TOOLS)

    assert {fault.pointer for fault in faults} == {"/let/wrong", "/steps/1/params/v"}


def test_what_reads_a_name_is_checked_by_its_type() -> None:
    assert codes(plan_of(sending("a", "${rows}"), let={"rows": "${steps.all}"})) == ["E304"]


def test_a_misspelt_name_is_told_the_right_one() -> None:
    [fault] = check(
        put_in(plan_of(sending("a", "${frsh}"), let={"fresh": "${steps.all}"})), None, TOOLS
    )

    assert fault.hint == "did you mean 'fresh'?"


STOP: JsonObject = {"when": "steps.all.size() == 0", "result": "nothing"}


def test_steps_that_depend_on_what_a_stop_reads_get_its_condition() -> None:
    first, second = sending("a", "${steps.all[0].v}"), sending("b", "${steps.a}")
    other = sending("c", "1")

    plan = put_in(plan_of(first, second, other, stop=STOP))

    assert [step.when for step in plan.steps] == [
        None,
        "!(steps.all.size() == 0)",
        "!(steps.all.size() == 0)",
        None,
    ]


def test_a_stop_does_not_skip_what_its_condition_waits_for() -> None:
    later: JsonObject = {"id": "sizes", "tool": "rows", "depends_on": ["all"]}
    stop: JsonObject = {"when": "steps.all.size() == steps.sizes.size()", "result": None}

    plan = put_in(plan_of(later, sending("a", "${steps.all.size()}"), stop=stop))

    assert [step.id for step in plan.steps if step.when is not None] == ["a"]


def test_a_stop_is_put_in_once() -> None:
    once = put_in(
        plan_of(sending("a", "${steps.all[0].v}", when="steps.all.size() > 1"), stop=STOP)
    )

    assert with_stop(once) == once


def test_stopped_steps_need_no_question_whether_they_are_there() -> None:
    steps = [
        sending("a", "${steps.all[0].v}"),
        sending("b", "${steps.a}"),
        sending(
            "c", "${item.v}", for_each="${steps.all.filter(r, r.v > steps.a)}", when="item.v > 1"
        ),
    ]
    caps: list[Json] = [{"field": "overall", "when": "steps.b > 1", "max": 0.5, "because": "big"}]

    result: JsonObject = {"b": "${steps.b}", "c": "${steps.c}"}

    assert codes(plan_of(*steps, stop=STOP, caps=caps, result=result)) == []


@pytest.mark.parametrize(
    ("stop", "code", "pointer"),
    [
        pytest.param({"when": "steps.all", "result": 1}, "E308", "/stop/when", id="no condition"),
        pytest.param(
            {"when": "steps.none > steps.all.size()", "result": 1},
            "E301",
            "/stop/when",
            id="no step",
        ),
        pytest.param(
            {"when": "steps.all.siz() > 1", "result": 1}, "E303", "/stop/when", id="no method"
        ),
        pytest.param(
            {"when": "true", "result": "${inputs.x}"}, "E302", "/stop/result", id="no input"
        ),
    ],
)
def test_a_stop_is_checked_at_its_own_place(stop: JsonObject, code: str, pointer: str) -> None:
    steps = sending("a", "${steps.all[0].v}"), sending("b", "${1}", when="steps.all.size() > 1")
    found = check(put_in(plan_of(*steps, stop=stop)), None, TOOLS)

    assert [(fault.code, fault.pointer) for fault in found] == [(code, pointer)]


def fan_out(step_id: str, items: Json, **fields: Json) -> JsonObject:
    return sending(step_id, "${item.v}", for_each=items, **fields)


def test_a_name_that_reads_an_item_means_the_item_where_it_is_read() -> None:
    names: JsonObject = {"twice": "${item.v * 2}", "is_big": "${item.v > 1}"}
    read = plan_of(sending("a", "${twice}", for_each="${steps.all}", when="is_big"), let=names)
    lost = plan_of(sending("a", "${twice}"), let=names)

    assert codes(read) == []
    assert codes(lost) == ["E305"]


def test_items_are_joined_with_what_came_of_them() -> None:
    joined = plan_of(
        fan_out("sent", "${steps.all}", when="item.v > 1"),
        result="${joined(steps.sent).map(p, p.item.v + p.output)}",
    )

    assert codes(joined) == []
    assert put_in(joined).result == (
        "${((steps.all).filter(item, item.v > 1)).transformList(joined_at, joined_item, "
        '{"item": joined_item, "output": steps.sent[joined_at]}).map(p, p.item.v + p.output)}'
    )


def test_both_halves_of_what_is_joined_have_their_types() -> None:
    sent = fan_out("sent", "${steps.all}")

    assert codes(plan_of(sent, result="${joined(steps.sent).map(p, p.item.w)}")) == ["E303"]
    assert codes(plan_of(sent, result="${joined(steps.sent).map(p, p.output.w)}")) == ["E303"]
    assert codes(plan_of(sent, result="${'joined(steps.sent)'}")) == ["W801"]


@pytest.mark.parametrize(
    "step",
    [
        fan_out("sent", "${steps.all}", min_ok=1),
        fan_out("sent", "${steps.all}", when="index > 0"),
    ],
    ids=["items may be missing", "chosen by place"],
)
def test_what_cannot_be_joined_is_refused(step: JsonObject) -> None:
    _, faults = with_let(plan_of(step, result="${joined(steps.sent)}"))

    assert {fault.code for fault in faults} == {"E314"}


@pytest.mark.parametrize(
    ("joined", "code", "pointer"),
    [
        ("joined(steps.one)", "E303", "/result/one"),
        ("joined(inputs)", "E303", "/result/one"),
        ("joined(steps.nobody)", "E301", "/result/one"),
        ("joined(steps.own)", "E311", "/steps/2/for_each"),
    ],
)
def test_what_has_no_items_to_join_is_refused_where_it_stands(
    joined: str, code: str, pointer: str
) -> None:
    own = fan_out("own", f"${{{joined if 'own' in joined else 'steps.all'}}}")
    plan = plan_of(sending("one", "${1}"), own, result={"one": f"${{{joined}}}"})

    assert (code, pointer) in {
        (fault.code, fault.pointer) for fault in check(put_in(plan), None, TOOLS)
    }


def test_a_stop_that_reads_no_step_stops_every_step() -> None:
    plan = plan_of(
        sending("a", "${inputs.n}"),
        sending("b", "${steps.a}", when="inputs.n > 1"),
        inputs={"n": 2},
        stop={"when": "inputs.n > 3", "result": 0},
        result={"b": "${steps.b}", "all": "${steps.all}"},
    )

    stopped = put_in(plan)

    assert codes(plan) == []
    assert [step.when for step in stopped.steps] == [
        "!(inputs.n > 3)",
        "!(inputs.n > 3)",
        "!(inputs.n > 3) && (inputs.n > 1)",
    ]


def test_items_are_joined_wherever_an_expression_may_stand() -> None:
    pairs = "joined(steps.sent)"
    plan = plan_of(
        fan_out("sent", "${steps.all}"),
        sending("last", "${steps.sent.size()}"),
        stop={"when": f"{pairs}.size() == 0", "result": f"${{{pairs}}}"},
        result="${steps.last}",
    )

    assert codes(plan) == []


def test_what_is_said_of_a_name_is_said_in_its_words() -> None:
    names: JsonObject = {"big": "${steps.all.filter(r, r.v > 1).sortBy(r, -r.v)}"}
    plan = plan_of(sending("a", "${big[0].v}"), let=names, result="${steps.a}")

    [warning] = check(put_in(plan), None, TOOLS)

    assert warning.message == "'big' may be empty, and its element [0] is read"
    assert str(warning.hint).endswith("big.size() > 0 ? big[0] : …")


JOINED = (
    "(steps.all).transformList(joined_at, joined_item, "
    '{"item": joined_item, "output": steps.b[joined_at]})'
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("'inputs.a + 1' is null", "'x' is null"),
        ("'(inputs.a + 1).b' is null", "'x.b' is null"),
        ("'inputs.a + 10' is null", "'inputs.a + 10' is null"),
        ("'inputs.a + 1.5' is null", "'inputs.a + 1.5' is null"),
        ("'int(inputs.a + 1)' is null", "'int(x)' is null"),
        ("'my.inputs.a + 1' is null", "'my.inputs.a + 1' is null"),
        (f"'{JOINED}.map(p, p.item)' is", "'joined(steps.b).map(p, p.item)' is"),
        (f"{JOINED[:59]}…", "joined(steps.b)…"),
        ("'steps.b[joined_at].v' is null", "'joined(steps.b).v' is null"),
        ('{"item": joined_item, "output": steps.b[joined_at]}', "joined(steps.b)"),
    ],
)
def test_only_what_stands_for_a_name_is_said_in_its_words(text: str, words: str) -> None:
    plan = plan_of(
        sending("a", "${x}"),
        fan_out("b", "${steps.all}"),
        let={"x": "${inputs.a + 1}"},
        result="${joined(steps.b)}",
    )

    assert in_authors_words(put_in(plan))(text) == words


BIG: JsonObject = {"big": "${steps.all.filter(r, r.v > 1)}"}


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(plan_of(fan_out("a", "${big}"), let=BIG, result="${big}"), id="alone"),
        pytest.param(
            plan_of(
                sending("a", "${most}", when="big.size() > 0"),
                let={"most": "${big.maxBy(r, r.v).v}", **BIG},
                result={"text": "most: ${most}", "big": ["${big}"]},
            ),
            id="in other names",
        ),
        pytest.param(
            plan_of(
                fan_out("a", "${big}", when="item.v < 9"),
                fan_out("b", "${joined(steps.a).map(j, j.item)}"),
                let={**BIG, "both": "${joined(steps.b).map(j, j.output)}"},
                stop={"when": "big.size() == 0", "result": {"none": "${big}"}},
                result="${both}",
            ),
            id="joined, and a stop",
        ),
        pytest.param(
            plan_of(fan_out("a", "${chosen}"), let={"chosen": [{"v": 1}, {"v": 2}]}), id="a list"
        ),
    ],
)
def test_what_was_put_in_is_taken_out_again(plan: Plan) -> None:
    assert in_written_form(put_in(plan)) == plan
    assert in_written_form(plan) == plan


def test_a_name_that_is_not_known_again_where_it_was_put_in_goes() -> None:
    names: JsonObject = {"least": 10, "big": "${steps.all.filter(r, r.v > least)}"}
    running = put_in(plan_of(sending("a", "${least}"), let=names, result="${big}"))

    written = in_written_form(running)

    assert written.let == {"big": "${steps.all.filter(r, r.v > 10)}"}
    assert written.result == "${big}"
    assert written.step(StepId("a")).params == {"v": 10}
    assert put_in(written).steps == running.steps
