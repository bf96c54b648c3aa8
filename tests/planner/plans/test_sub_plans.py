"""Plans whose steps call plans: what they become, and what is wrong with them at its place."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from wavewright.planner.checks.checker import check
from wavewright.planner.diagnostics.diagnostic import Diagnostic
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.plans.sub_plan_call import ExpandedPlan, SubPlan
from wavewright.planner.plans.sub_plans import expand_plan, needs_expansion
from wavewright.planner.reading.reader import read_plan
from wavewright.planner.types import Json, JsonSchema

CALLED = """\
inputs: {code: GNP, days: 10}
steps:
  - {id: fetch, tool: fetch, params: {code: "${inputs.code}", days: "${inputs.days}"}}
  - {id: sum, tool: sum, when: inputs.days > 1, params: {rows: "${steps.fetch.rows.filter(r, r < inputs.days)}"}}
gates:
  - {id: some, on: fetch, check: "steps.fetch.rows.size() > 0 && output.code == inputs.code"}
caps:
  - {field: total, when: "!has(steps.sum)", max: 0.5, because: nothing to add up}
result: {total: "${has(steps.sum) ? steps.sum : 0.0}", of: "${steps.fetch.code}"}
"""


def shape(**fields: Json) -> JsonSchema:
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


STRING: JsonSchema = {"type": "string"}
NUMBERS: JsonSchema = {"type": "array", "items": {"type": "number"}}
TOOLS = {
    tool.name: tool
    for tool in (
        ToolSignature(
            name="fetch",
            input_schema=shape(code=STRING, days={"type": "integer"}),
            output_schema=shape(code=STRING, rows=NUMBERS),
            untrusted_output=True,
            accepts_untrusted=frozenset({"code"}),
            effects=frozenset({"read", "egress"}),
        ),
        ToolSignature(
            name="sum", input_schema=shape(rows=NUMBERS), output_schema={"type": "number"}
        ),
        ToolSignature(name="send", input_schema=shape(text=STRING), effects=frozenset({"write"})),
    )
}


def expand(text: str, **called: str) -> ExpandedPlan:
    def read(name: str, folder: Path) -> SubPlan:
        found = read_plan(called[name], f"{name}.yaml")
        assert found.plan is not None, found.diagnostics
        assert found.document is not None
        return SubPlan(found.plan, found.document, "", folder)

    own = read_plan(text, "own.yaml")
    assert own.plan is not None, own.diagnostics
    return expand_plan(own.plan, Path(), read, ("own.yaml",))


def errors(expanded: ExpandedPlan) -> list[Diagnostic]:
    found = [one for one in check(expanded.plan, None, TOOLS) if one.severity == "error"]
    return [*expanded.faults] or [*expanded.place(found)]


def test_a_sub_plan_becomes_steps_with_the_id_of_the_step_that_calls_it() -> None:
    expanded = expand(
        """\
steps:
  - {id: first, tool: fetch, params: {code: A, days: 3}}
  - {id: clean, plan: called, when: steps.first.rows.size() > 0, params: {code: "${steps.first.code}"}}
  - {id: last, tool: sum, when: has(steps.clean), params: {rows: ["${steps.clean.total}"]}}
result: ${steps.clean}
""",
        called=CALLED,
    )
    plan = expanded.plan

    assert errors(expanded) == []
    assert [step.id for step in plan.steps] == [
        "first",
        "clean.fetch",
        "clean.sum",
        "clean",
        "last",
    ]
    assert plan.step("clean.fetch").params == {"code": "${steps.first.code}", "days": 10}
    assert plan.step("clean.sum").when == "steps.first.rows.size() > 0 && 10 > 1"
    assert plan.step("clean.sum").params == {
        "rows": "${steps.`clean.fetch`.rows.filter(r, r < 10)}"
    }
    assert (
        plan.gates[0].check
        == "steps.`clean.fetch`.rows.size() > 0 && output.code == steps.first.code"
    )
    assert (plan.gates[0].id, plan.gates[0].on) == ("clean.some", "clean.fetch")
    assert plan.caps[0].because == "clean: nothing to add up"
    assert PlanGraph.of(plan).dependencies[plan.step("last").id] == ("clean",)
    assert Plan.model_validate(plan.model_dump(mode="json", by_alias=True)) == plan


def test_types_and_untrusted_text_are_followed_through_a_sub_plan() -> None:
    expanded = expand(
        """\
steps:
  - {id: clean, plan: called, params: {days: 3}}
  - {id: typo, tool: sum, params: {rows: "${[steps.clean.totl]}"}}
  - {id: wrong, tool: sum, params: {rows: "${steps.clean.of}"}}
  - {id: tell, tool: send, params: {text: "${steps.clean.of}"}}
""",
        called=CALLED,
    )

    assert [(one.code, one.pointer) for one in errors(expanded)] == [
        ("E303", "/steps/1/params/rows"),
        ("E304", "/steps/2/params/rows"),
        ("E601", "/steps/3/params/text"),
    ]


ROUND: Final = """\
inputs: {last: none}
steps:
  - {id: page, tool: fetch, params: {code: GNP, days: 3}}
  - {id: tell, tool: send, params: {text: "${inputs.last}"}}
result: ${steps.page.code}
"""


@pytest.mark.parametrize(
    ("params", "code", "step"),
    [
        pytest.param('{last: "${steps.r}"}', "E601", "r.2.tell", id="what the round before read"),
        pytest.param("{}", "W809", "r.2.tell", id="whether there is another round"),
    ],
)
def test_untrusted_text_is_followed_from_one_round_of_a_loop_to_the_next(
    params: str, code: str, step: str
) -> None:
    plan = f"""\
steps:
  - {{id: r, plan: round, repeat: {{until: steps.r == 'done', max: 3, params: {params}}}}}
"""

    found = check(expand(plan, round=ROUND).plan, None, TOOLS)

    assert [one.code for one in found if repr(step) in one.message] == [code]


def test_a_fault_in_a_sub_plan_stands_at_the_call_and_names_its_own_place() -> None:
    inner = 'inputs: {code: A}\nsteps:\n  - {id: go, tool: fetch, params: {code: "${inputs.code}", days: x}}\n'
    outer = (
        'inputs: {n: 1}\nsteps:\n  - {id: deep, plan: inner, params: {code: "${inputs.code}"}}\n'
    )

    [unfit] = errors(expand("steps:\n  - {id: a, plan: inner}\n", inner=inner))
    [twice] = errors(
        expand(
            "steps:\n  - {id: a, plan: outer}\n",
            inner=inner.replace("days: x", "days: 1"),
            outer=outer,
        )
    )

    assert (unfit.code, unfit.pointer) == ("E205", "/steps/0/plan")
    assert unfit.message.startswith("inner.yaml:3:66: argument 'days' of 'fetch'")
    assert (twice.code, twice.pointer) == ("E411", "/steps/0/params")
    assert "lacks the input 'code' of 'outer'" in twice.message


def test_a_sub_plan_for_each_item_runs_each_of_its_steps_once_an_item() -> None:
    plain = """\
inputs: {code: A}
steps:
  - {id: fetch, tool: fetch, params: {code: "${inputs.code}", days: 2}}
  - {id: sum, tool: sum, params: {rows: "${steps.fetch.rows}"}}
gates:
  - {id: some, on: sum, check: steps.sum > steps.fetch.rows.size()}
"""
    expanded = expand(
        """\
inputs: {stocks: [{code: A}, {code: B}]}
steps:
  - {id: each, plan: plain, for_each: "${inputs.stocks}", params: {code: "${item.code}"}}
  - {id: all, tool: sum, params: {rows: "${steps.each}"}}
""",
        plain=plain,
    )

    assert errors(expanded) == []
    assert expanded.plan.step("each.sum").params == {"rows": "${steps.`each.fetch`[index].rows}"}
    assert expanded.plan.gates[0].check == "output > steps.`each.fetch`[index].rows.size()"
    assert [step.for_each for step in expanded.plan.steps] == [*["${inputs.stocks}"] * 3, None]


def test_a_repeated_sub_plan_is_written_out_to_its_greatest_number() -> None:
    expanded = expand(
        """\
inputs: {n: 3}
steps:
  - id: more
    plan: called
    params: {days: "${inputs.n}"}
    repeat: {until: steps.more.total >= 9.0, max: 3, params: {code: "${steps.more.of}"}}
result: ${steps.more.of}
""",
        called=CALLED,
    )
    plan = expanded.plan

    assert errors(expanded) == []
    assert plan.step("more.2.fetch").params == {
        "code": "${steps.`more.1`.of}",
        "days": "${inputs.n}",
    }
    assert plan.step("more.3").when == (
        "has(steps.`more.1`) && has(steps.`more.2`) && !(steps.`more.2`.total >= 9.0)"
    )
    assert (plan.gates[0].id, plan.gates[0].severity) == ("more.1.some", "block")
    assert (plan.gates[-1].id, plan.gates[-1].severity) == ("more.until", "warn")


@pytest.mark.parametrize(
    ("step", "code", "pointer"),
    [
        ("plan: called, params: {coed: A}", "E411", "/steps/0/params/coed"),
        ("plan: called, params: {days: x}", "E411", "/steps/0/params/days"),
        ("plan: called, timeout: 3", "E411", "/steps/0/timeout"),
        ("plan: called, tool: sum", "E411", "/steps/0/tool"),
        ('plan: called, params: {code: "${item}"}', "E305", "/steps/0/params"),
        ("plan: called, for_each: [1]", "E411", "/steps/0/for_each"),
        ("plan: plain, for_each: [1], when: item > 0", "E411", "/steps/0/when"),
        ("plan: again", "E410", "/steps/0/plan"),
        ('plan: hides, for_each: [1, 2], params: {n: "${item}"}', "E411", "/steps/0/plan"),
    ],
)
def test_what_no_sub_plan_can_be_asked_is_refused(step: str, code: str, pointer: str) -> None:
    again = "steps:\n  - {id: b, plan: again}\n"
    hides = 'inputs: {n: 1}\nsteps:\n  - {id: s, tool: sum, params: {rows: "${[1.0].map(item, inputs.n)}"}}\n'
    expanded = expand(
        f"steps:\n  - {{id: a, {step}}}\n",
        called=CALLED,
        plain="steps:\n  - {id: s, tool: sum, params: {rows: []}}\n",
        again=again,
        hides=hides,
    )

    assert (code, pointer) in {(one.code, one.pointer) for one in errors(expanded)}


def test_an_optional_sub_plan_may_be_absent_as_a_whole() -> None:
    expanded = expand(
        """\
steps:
  - {id: clean, plan: called, optional: true, params: {code: A}}
  - {id: last, tool: sum, params: {rows: "${has(steps.clean) ? [steps.clean.total] : []}"}}
result: ${steps.last}
""",
        called=CALLED,
    )
    plan = expanded.plan

    assert errors(expanded) == []
    assert [step.id for step in plan.steps if step.optional] == [
        "clean.fetch",
        "clean.sum",
        "clean",
    ]
    # Without the first step the next one is skipped, not blocked.
    assert plan.step("clean.sum").when == "10 > 1 && has(steps.`clean.fetch`)"
    assert plan.step("clean").when == "has(steps.`clean.fetch`)"


def test_an_optional_sub_plan_is_read_only_where_it_is_there() -> None:
    expanded = expand(
        """\
steps:
  - id: clean
    plan: called
    optional: true
    repeat: {until: steps.clean.total > 3.0, max: 2}
  - {id: last, tool: sum, params: {rows: ["${steps.clean.total}"]}}
result: ${steps.last}
""",
        called=CALLED,
    )

    assert [(one.code, one.pointer) for one in errors(expanded)] == [
        ("E306", "/steps/1/params/rows/0")
    ]


ITEMS: Final = """\
inputs: {days: 10}
steps:
  - {id: fetch, tool: fetch, params: {code: A, days: "${inputs.days}"}}
  - {id: each, tool: sum, for_each: "${steps.fetch.rows}", when: item > 1, params: {rows: ["${item}"]}}
  - {id: sum, tool: sum, params: {rows: "${steps.each}"}}
result: ${steps.sum}
"""
SHARED_CONDITION: Final = """\
inputs: {days: 10}
steps:
  - {id: fetch, tool: fetch, params: {code: A, days: "${inputs.days}"}}
  - {id: part, tool: sum, when: steps.fetch.rows.size() > 1, params: {rows: "${steps.fetch.rows}"}}
  - {id: sum, tool: sum, when: steps.fetch.rows.size() > 1, params: {rows: ["${steps.part}"]}}
result: "${has(steps.sum) ? steps.sum : 0.0}"
"""
CHAIN: Final = """\
steps:
  - {id: fetch, tool: fetch, params: {code: A, days: 3}}
  - {id: part, tool: sum, params: {rows: "${steps.fetch.rows}"}}
  - {id: sum, tool: sum, params: {rows: ["${steps.part}"]}}
"""


@pytest.mark.parametrize(
    "called",
    [
        pytest.param(ITEMS, id="a condition on items"),
        pytest.param(SHARED_CONDITION, id="a condition that a step and its reader have"),
        pytest.param(
            f"{CHAIN}result: ${{steps.sum}}\n"
            "stop: {when: steps.fetch.rows.size() == 0, result: 0.0}\n",
            id="a stop",
        ),
        pytest.param(
            f"{CHAIN}result: ${{steps.sum}}\n"
            "caps: [{field: overall, when: steps.part > 3, max: 0.5, because: much}]\n",
            id="a cap",
        ),
        pytest.param(
            "steps:\n  - {id: loop, plan: looped, repeat: {until: steps.loop > 3, max: 3}}\n"
            "result: ${steps.loop}\n",
            id="a loop",
        ),
    ],
)
def test_any_sound_plan_can_be_an_optional_sub_plan(called: str) -> None:
    looped = f"{CHAIN}result: ${{steps.sum}}\n"
    text = "steps: [{id: clean, plan: called, optional: true}]\nresult: ${steps.clean}\n"

    assert errors(expand(called, looped=looped)) == []
    assert errors(expand(text, called=called, looped=looped)) == []


def test_what_is_computed_of_items_is_absent_where_their_list_is() -> None:
    text = "steps: [{id: clean, plan: called, optional: true}]\nresult: ${steps.clean}\n"
    plan = expand(text, called=ITEMS).plan

    assert plan.step("clean.each").for_each == (
        "${has(steps.`clean.fetch`) ? (steps.`clean.fetch`.rows) : []}"
    )
    # Without its list the step ends empty: that is no sum of 0.
    assert plan.step("clean.sum").when == "has(steps.`clean.each`) && has(steps.`clean.fetch`)"


@pytest.mark.parametrize(
    "call",
    ["when: inputs.days > 3", "repeat: {until: steps.clean > 3, max: 2}"],
)
def test_a_list_of_items_with_a_condition_is_empty_where_the_call_is_skipped(call: str) -> None:
    text = f"inputs: {{days: 3}}\nsteps: [{{id: clean, plan: called, {call}}}]\n"
    plan = expand(text, called=ITEMS).plan
    run = "clean.2" if "repeat" in call else "clean"

    assert plan.step(f"{run}.each").for_each == (
        f"${{has(steps.`{run}.fetch`) ? (steps.`{run}.fetch`.rows) : []}}"
    )


LOOP = """\
steps:
  - id: again
    plan: called
    params: {{code: A}}
    repeat: {{until: "{until}", max: 5}}
result: ${{steps.again}}
"""


def test_a_loop_of_a_step_without_a_plan_is_refused() -> None:
    expanded = expand(
        """\
steps:
  - {id: sum, tool: sum, params: {rows: []}, repeat: {until: steps.sum > 1, max: 3}}
"""
    )

    [fault] = errors(expanded)

    assert (fault.code, fault.pointer) == ("E411", "/steps/0/repeat")
    assert needs_expansion(expanded.plan)


def test_what_is_wrong_with_the_condition_of_a_loop_is_said_once_and_there() -> None:
    [fault] = errors(expand(LOOP.format(until="result.total > 1"), called=CALLED))

    assert fault.pointer.startswith("/steps/0/repeat/until")


def test_what_does_not_fit_in_the_condition_of_a_loop_is_said_once() -> None:
    [fault] = errors(expand(LOOP.format(until="steps.again.total > 'much'"), called=CALLED))

    assert fault.pointer.startswith("/steps/0/repeat/until")


def test_what_is_wrong_with_the_condition_of_a_call_is_said_once_and_there() -> None:
    text = """\
steps:
  - {id: clean, plan: called, when: inputs.wanted, params: {code: A}}
result: ${steps.clean}
"""
    [fault] = errors(expand(text, called=CALLED))

    assert (fault.code, fault.pointer) == ("E302", "/steps/0/when")


def test_what_is_wrong_in_each_run_of_a_loop_is_said_once() -> None:
    wrong = CALLED.replace("rows.filter", "rws.filter")
    [fault] = errors(expand(LOOP.format(until="steps.again.total > 1"), called=wrong))

    assert (fault.pointer, fault.code) == ("/steps/0/plan", "E303")


def test_an_input_that_each_run_of_a_loop_lacks_is_named_once() -> None:
    lacking = CALLED.replace("{code: GNP, days: 10}", "{code: GNP}")
    faults = errors(expand(LOOP.format(until="steps.again.total > 1"), called=lacking))

    assert [fault.pointer for fault in faults] == ["/steps/0/params"]


def test_two_places_of_a_sub_plan_with_the_same_fault_are_both_named() -> None:
    wrong = CALLED.replace("rows.filter", "rws.filter").replace(
        "steps.fetch.rows.size()", "steps.fetch.rws.size()"
    )
    faults = errors(expand(LOOP.format(until="steps.again.total > 1"), called=wrong))

    assert len(faults) == 2


STOPS = """\
inputs: {code: GNP}
stop: {when: steps.fetch.rows.size() == 0, result: {total: 0.0, of: nobody}}
steps:
  - {id: fetch, tool: fetch, params: {code: "${inputs.code}", days: 1}}
  - {id: sum, tool: sum, params: {rows: "${steps.fetch.rows}"}}
result: {total: "${steps.sum}", of: "${steps.fetch.code}"}
"""


def test_a_sub_plan_that_stops_gives_the_result_of_its_stop() -> None:
    expanded = expand(
        """\
steps:
  - {id: clean, plan: called}
  - {id: last, tool: sum, params: {rows: ["${steps.clean.total}"]}}
result: ${steps.last}
""",
        called=STOPS,
    )

    assert errors(expanded) == []
    assert expanded.plan.step("clean").params["result"] == (
        "${!(steps.`clean.fetch`.rows.size() == 0) && has(steps.`clean.sum`)"
        ' ? {"total": steps.`clean.sum`, "of": steps.`clean.fetch`.code}'
        ' : {"total": 0.0, "of": "nobody"}}'
    )


def test_an_optional_sub_plan_whose_step_failed_gives_no_result_of_its_stop() -> None:
    expanded = expand(
        "steps: [{id: clean, plan: called, optional: true}]\nresult: ${steps.clean}\n",
        called=STOPS,
    )

    assert expanded.plan.step("clean").when == (
        "has(steps.`clean.fetch`)"
        " && ((steps.`clean.fetch`.rows.size() == 0) || has(steps.`clean.sum`))"
    )


def test_a_sub_plan_that_stops_is_asked_for_what_has_a_condition_of_its_own() -> None:
    expanded = expand(
        "steps: [{id: clean, plan: called}]\nresult: ${steps.clean}\n",
        called=STOPS.replace("sum, params", "sum, when: inputs.code != 'A', params"),
    )

    assert [one.code for one in errors(expanded)] == ["E306"]


PLAIN = "inputs: {n: 1}\nsteps:\n  - {id: s, tool: sum, params: {rows: []}}\n"


@pytest.mark.parametrize(
    ("called", "said"),
    [
        (
            "steps:\n  - {id: m, plan: plain, repeat: {until: steps.m > 1, max: 3}}\n",
            ["step 'm' has 'repeat'"],
        ),
        (f"{PLAIN}stop: {{when: steps.s > 1, result: 0}}\n", ["it has 'stop'"]),
        (f"{PLAIN[:-2]}, when: inputs.n > 0}}\n", ["step 's' has 'when'"]),
        (
            "steps:\n  - {id: m, plan: stops}\n  - {id: n, plan: plain}\n",
            ["the plan that step 'm' calls has conditions, lists or optional steps"],
        ),
    ],
)
def test_what_a_plan_of_items_cannot_have_is_said_once_as_it_is_written(
    called: str, said: list[str]
) -> None:
    stops = (
        "steps:\n  - {id: s, tool: sum, params: {rows: []}}\n"
        "  - {id: t, tool: sum, params: {rows: ['${steps.s}']}}\n"
        "  - {id: u, tool: sum, params: {rows: ['${steps.t}']}}\n"
        "stop: {when: steps.s > 1, result: 0}\n"
    )
    expanded = expand(
        "steps:\n  - {id: a, plan: called, for_each: [1, 2]}\n",
        called=called,
        plain=PLAIN,
        stops=stops,
    )

    assert [fault.message.partition("each item, and ")[2] for fault in expanded.faults] == said


def test_a_fault_in_a_plan_that_several_steps_call_is_said_once() -> None:
    text = "steps:\n  - {id: a, plan: middle}\n  - {id: b, plan: middle}\n"
    middle = "steps:\n  - {id: c, plan: inner}\n"
    inner = "steps:\n  - {id: s, tool: smu, params: {rows: []}}\n"
    expanded = expand(text, middle=middle, inner=inner)

    [fault] = [one for one in errors(expanded) if one.code == "E201"]
    assert fault.pointer == "/steps/0/plan"
    assert "inner.yaml:2:" in fault.message


def test_an_item_that_no_step_of_a_sub_plan_takes_is_told_once_in_the_list() -> None:
    inner = (
        "inputs: {rows: []}\nsteps:\n"
        "  - {id: s, tool: sum, params: {rows: '${inputs.rows}'}}\n"
        "  - {id: t, tool: sum, params: {rows: '${inputs.rows}'}}\n"
    )
    call = "{id: a, plan: inner, for_each: [[], 3], params: {rows: '${item}'}}"

    [fault] = errors(expand(f"steps:\n  - {call}\n", inner=inner))

    assert (fault.code, fault.pointer) == ("E205", "/steps/0/for_each/1")


@pytest.mark.parametrize(
    ("middle", "place", "message"),
    [
        (
            "{id: i, plan: inner, params: {rows: '${steps.none}'}}",
            "/steps/0/plan",
            "middle.yaml:3:41: step 'a.i' reads 'a.none', which no step defines",
        ),
        (
            "{id: i, plan: inner, params: {rows: '${inputs.rows}'}}",
            "/steps/0/params/rows",
            "step 'a' reads 'none', which no step defines",
        ),
        (
            "{id: i, plan: inner, repeat: {until: steps.i > 1, max: 3, params: {rows: '${steps.x}'}}}",
            "/steps/0/plan",
            "middle.yaml:3:78: step 'a.i' reads 'a.x', which no step defines",
        ),
    ],
)
def test_a_wrong_name_in_what_a_plan_gives_is_told_where_it_gives_it(
    middle: str, place: str, message: str
) -> None:
    inner = (
        "inputs: {rows: []}\nsteps:\n"
        "  - {id: s, tool: sum, params: {rows: '${inputs.rows}'}}\n"
        "  - {id: t, tool: sum, params: {rows: ['${steps.s}', '${inputs.rows.size()}']}}\n"
    )
    expanded = expand(
        "steps:\n  - {id: a, plan: middle, params: {rows: '${steps.none}'}}\n",
        middle=f"inputs: {{rows: []}}\nsteps:\n  - {middle}\n",
        inner=inner,
    )

    [fault] = errors(expanded)
    assert (fault.code, fault.pointer, fault.message) == ("E301", place, message)
