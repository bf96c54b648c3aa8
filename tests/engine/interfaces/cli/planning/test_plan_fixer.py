"""What `check --fix` mends, and what it leaves to the author."""

from __future__ import annotations

import json
import zlib
from textwrap import dedent

import anyio
import pytest
import yaml
from hypothesis import given, settings, strategies as st

from tests.executor.execution_harness import ExecutionHarness
from wavewright.config.documents import read_document
from wavewright.engine.interfaces.cli.planning.check_fix import CheckedPlan, FixedDocument, fix_plan
from wavewright.engine.interfaces.cli.planning.plan_fixes import difference
from wavewright.engine.run.jobs.plan_drafts import PlanOrigin
from wavewright.planner.checks.checker import check
from wavewright.planner.diagnostics.diagnostic import Diagnostic
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import StepId
from wavewright.tools.functions.tool import ToolCall

LOOK = ToolSignature(
    name="look",
    input_schema={
        "type": "object",
        "properties": {"at": {}, "also": {}},
        "additionalProperties": False,
    },
    output_schema={"type": "string"},
    deterministic=True,
)
TOOLS = {
    "look": LOOK,
    "write": LOOK.model_copy(update={"name": "write", "effects": frozenset({"read", "write"})}),
    "ask": LOOK.model_copy(update={"name": "ask", "needs_approval": True}),
}


def judge(plan: Plan) -> CheckedPlan:
    return CheckedPlan(plan, tuple(check(plan, None, TOOLS)))


def fix(text: str, name: str = "plan.yaml", pointer: str = "") -> FixedDocument:
    document = read_document(text, name)
    value = document.value
    assert isinstance(value, dict)
    plan = Plan.model_validate(value[pointer[1:]] if pointer else value)
    assert not [found for found in judge(plan).diagnostics if found.severity == "error"]
    return fix_plan(plan, PlanOrigin(document, pointer), TOOLS, judge)


def fixed(text: str, name: str = "plan.yaml", pointer: str = "") -> str:
    return fix(dedent(text), name, pointer).origin.document.source.text


REDUNDANT = [
    pytest.param(
        """\
        steps:
          - {id: a, tool: look}
          - {id: b, tool: look, params: {at: "${steps.a}"}, depends_on: [a]}
        """,
        """\
        steps:
          - {id: a, tool: look}
          - {id: b, tool: look, params: {at: "${steps.a}"}}
        """,
        id="a member of an object in braces",
    ),
    pytest.param(
        """\
        steps:
          - id: a   # first
            tool: look
          - id: b
            depends_on:
              - a   # read below
            # why this is so
            tool: look
            params: {at: "${steps.a}"}
        """,
        """\
        steps:
          - id: a   # first
            tool: look
          - id: b
            # why this is so
            tool: look
            params: {at: "${steps.a}"}
        """,
        id="a member on lines of its own",
    ),
    pytest.param(
        """\
        steps:
          - {id: a, tool: look}
          - {id: b, tool: look, params: {at: b}}
          - id: c
            tool: look
            params: {at: "${steps.a}"}
            depends_on: [a, b]  # both
        """,
        """\
        steps:
          - {id: a, tool: look}
          - {id: b, tool: look, params: {at: b}}
          - id: c
            tool: look
            params: {at: "${steps.a}"}
            depends_on: [b]  # both
        """,
        id="the first in brackets",
    ),
    pytest.param(
        """\
        steps:
        - {id: a, tool: look}
        - {id: b, tool: look, params: {at: b}}
        - depends_on:
          - b
          - a
          - b
          id: c
          tool: look
          params: {at: "${steps.a}"}
        """,
        """\
        steps:
        - {id: a, tool: look}
        - {id: b, tool: look, params: {at: b}}
        - depends_on:
          - b
          id: c
          tool: look
          params: {at: "${steps.a}"}
        """,
        id="what is named twice",
    ),
    pytest.param(
        """\
        steps:
        - {id: a, tool: look}
        - depends_on: [a]
          id: c
          tool: look
          params: {at: "${steps.a}"}
        """,
        """\
        steps:
        - {id: a, tool: look}
        - id: c
          tool: look
          params: {at: "${steps.a}"}
        """,
        id="a member beside the dash",
    ),
    pytest.param(
        """\
        steps:
          - {id: a, tool: look}
          - {id: b, tool: look, params: {at: "${steps.a}"}}
          - {id: c, tool: look, params: {at: c}, depends_on: [a, b]}
        """,
        """\
        steps:
          - {id: a, tool: look}
          - {id: b, tool: look, params: {at: "${steps.a}"}}
          - {id: c, tool: look, params: {at: c}, depends_on: [b]}
        """,
        id="what another one waits for",
    ),
]


@pytest.mark.parametrize(("before", "after"), REDUNDANT)
def test_a_dependency_that_changes_nothing_goes_and_all_else_stays_as_it_is_written(
    before: str, after: str
) -> None:
    assert fixed(before) == dedent(after)


REPEATED = [
    pytest.param(
        """\
        # two looks
        steps:
          - id: a
            tool: look
            params: {at: sky}

          # the same once more
          - id: again
            tool: look
            params:
              at: sky

          - id: b
            tool: look
            params: {at: "${ steps.again }, and again"}   # text stays
            when: size(steps["again"]) > 0
            depends_on: [again]
        caps:
          - {field: overall, when: has(steps.again), max: 0.5, because: again}
        result: {text: '${steps.again} of ${steps.b}'}
        """,
        """\
        # two looks
        steps:
          - id: a
            tool: look
            params: {at: sky}

          # the same once more

          - id: b
            tool: look
            params: {at: "${ steps.a }, and again"}   # text stays
            when: size(steps["a"]) > 0
        caps:
          - {field: overall, when: has(steps.a), max: 0.5, because: again}
        result: {text: '${steps.a} of ${steps.b}'}
        """,
        id="every kind of reader",
    ),
    pytest.param(
        """\
        steps: [{id: a, tool: look}, {id: again, tool: look}]
        result: |
          ${steps.a}
          and "${steps.again}"
        """,
        """\
        steps: [{id: a, tool: look}]
        result: |
          ${steps.a}
          and "${steps.a}"
        """,
        id="text of several lines",
    ),
    pytest.param(
        """\
        steps:
          - {id: a, tool: look}
          - {id: again, tool: look}
          - {id: b, tool: look, params: {at: "${steps.a}"}}
          - {id: c, tool: look, params: {at: "${steps.again}"}}
        result: ["${steps.b}", "${steps.c}"]
        """,
        """\
        steps:
          - {id: a, tool: look}
          - {id: b, tool: look, params: {at: "${steps.a}"}}
        result: ["${steps.b}", "${steps.b}"]
        """,
        id="calls that become equal",
    ),
]


@pytest.mark.parametrize(("before", "after"), REPEATED)
def test_two_equal_calls_become_one_and_their_readers_read_it(before: str, after: str) -> None:
    assert fixed(before) == dedent(after)


def test_json_is_fixed_in_its_own_form() -> None:
    before = """\
    {"steps": [
      {"id": "a", "tool": "look"},
      {"id": "again", "tool": "look"},
      {"id": "b", "tool": "look",
       "params": {"at": "${steps[\\"again\\"]}"},
       "depends_on": [
         "again"
       ]}
    ], "result": "${steps.b}"}
    """
    after = """\
    {"steps": [
      {"id": "a", "tool": "look"},
      {"id": "b", "tool": "look",
       "params": {"at": "${steps[\\"a\\"]}"}}
    ], "result": "${steps.b}"}
    """

    assert fixed(before, "plan.json") == dedent(after)


def test_a_plan_inside_a_job_is_fixed_there() -> None:
    before = """\
    name: inside   # the job
    plan:
      steps:
        - {id: a, tool: look}
        - {id: b, tool: look, params: {at: "${steps.a}"}, depends_on: [a]}
    """

    assert fixed(before, pointer="/plan") == dedent(before).replace(", depends_on: [a]", "")


def test_line_breaks_stay_those_of_the_file() -> None:
    lines = ["steps:", "- {id: a, tool: look}", "- id: b", "  depends_on: [a]", "  tool: look"]
    before = "\r\n".join([*lines, '  params: {at: "${steps.a}"}', ""])

    assert fixed(before) == before.replace("  depends_on: [a]\r\n", "")


LEFT = [
    pytest.param(
        """\
        steps:
          - {id: a, tool: look}
          - {id: b, tool: look, params: {at: "${steps.a}"}, optional: true}
          - {id: c, tool: look, params: {at: c}, depends_on: [a, b]}
        """,
        "'c' would run although a step that it waits for failed",
        id="past an optional step a failure does not go",
    ),
    pytest.param(
        "steps: [{id: a, tool: look}, {id: b, tool: look}]\n",
        "the outputs of other steps would be the result",
        id="the outputs of both are the result",
    ),
    pytest.param(
        "steps: [{id: a, tool: look}, {id: b, tool: look, timeout: 3}]\nresult: '${steps.a}${steps.b}'\n",
        "tried, timed or bounded in other ways",
        id="another timeout",
    ),
    pytest.param(
        "steps: [{id: c, tool: look, params: {at: c}}, {id: a, tool: look}, {id: b, tool: look, depends_on: [c]}]\n"
        "result: '${steps.a}${steps.b}'\n",
        "wait for other steps",
        id="another order",
    ),
    pytest.param(
        "steps: [{id: a, tool: look}, {id: b, tool: look}]\ngates: [{id: g, on: a, check: output != ''}]\n"
        "result: '${steps.a}${steps.b}'\n",
        "gate 'g' looks at 'a' alone",
        id="a gate on one of them",
    ),
    pytest.param(
        "steps: [{id: a, tool: ask}, {id: b, tool: ask}]\nresult: '${steps.a}${steps.b}'\n",
        "needs approval",
        id="a person is asked for each",
    ),
    pytest.param(
        'steps: [{id: a, tool: look}, {id: b, tool: look}]\nresult: "${steps.a}${steps.\\x62}"\n',
        "written with escapes",
        id="a name in escapes",
    ),
    pytest.param(
        'steps:\n- {id: a, tool: look}\n- id: b\n  tool: look\n  params: {at: "${steps.a}"}\n'
        "  depends_on: [a, # the first\n    c]\n- {id: c, tool: look, params: {at: c}}\n",
        "a comment stands between",
        id="a comment would go",
    ),
]


@pytest.mark.parametrize(("text", "why"), LEFT)
def test_what_is_not_safe_is_left_as_it_is_and_told(text: str, why: str) -> None:
    fixed = fix(dedent(text))

    assert fixed.fixes == ()
    assert fixed.origin.document.source.text == dedent(text)
    assert [why in left.why for left in fixed.unfixed] == [True]


def test_a_mend_after_which_the_plan_would_not_be_sound_is_left() -> None:
    def wants_two(plan: Plan) -> CheckedPlan:
        found = check(plan, None, TOOLS)
        few = [Diagnostic("E505", "there must be two looks")] if len(plan.steps) < 2 else []
        return CheckedPlan(plan, (*found, *few))

    document = read_document(
        "steps: [{id: a, tool: look}, {id: b, tool: look}]\nresult: '${steps.a}${steps.b}'", "x"
    )
    fixed = fix_plan(Plan.model_validate(document.value), PlanOrigin(document), TOOLS, wants_two)

    assert fixed.fixes == ()
    assert [left.why for left in fixed.unfixed] == [
        "without it the plan is not valid: there must be two looks"
    ]


def test_a_call_that_writes_is_no_repeated_one() -> None:
    text = "steps: [{id: a, tool: write}, {id: b, tool: write}]\nresult: '${steps.a}${steps.b}'\n"
    fixed = fix(text)

    assert (fixed.fixes, fixed.unfixed, fixed.origin.document.source.text) == ((), (), text)


def test_what_can_be_fixed_alone_is_fixed_where_all_together_cannot() -> None:
    text = """\
    steps:
      - {id: a, tool: look}
      - {id: b, tool: look, params: {at: "${steps.a}"}, optional: true}
      - {id: c, tool: look, params: {at: c}, depends_on: [a, b]}
      - {id: d, tool: look, params: {at: d, also: "${steps.a}"}, depends_on: [a]}
    """
    fixed = fix(dedent(text))

    assert [mend.message for mend in fixed.fixes] == [
        "step 'd' no longer names 'a' in `depends_on`"
    ]
    assert [left.warning.code for left in fixed.unfixed] == ["W803"]


@st.composite
def plans(draw: st.DrawFn) -> dict[str, object]:
    """Return a plan with calls and dependencies that are likely to be superfluous."""
    steps: list[dict[str, object]] = []
    for number in range(draw(st.integers(2, 8))):
        earlier = [f"s{before}" for before in range(number)]
        names = st.lists(st.sampled_from(earlier), max_size=3) if earlier else st.just(list[str]())
        read = draw(names)
        step: dict[str, object] = {"id": f"s{number}", "tool": "look"}
        if read:
            step["params"] = {"at": [_read(name) for name in read]}
        if waited := draw(names):
            step["depends_on"] = waited
        if draw(st.integers(0, 4)) == 0:
            step["optional"] = True
        steps.append(step)
    return {"steps": steps, "result": [_read(f"s{number}") for number in range(len(steps))]}


def _read(name: str) -> str:
    return f'${{has(steps.{name}) ? steps.{name} : ""}}'


@settings(max_examples=60)
@given(plan=plans(), form=st.sampled_from(["json", "lines", "yaml"]))
def test_a_fixed_plan_does_the_same_and_has_nothing_left_to_fix(
    plan: dict[str, object], form: str
) -> None:
    text = (
        yaml.safe_dump(plan, sort_keys=False)
        if form == "yaml"
        else json.dumps(plan, indent=2 if form == "lines" else None)
    )
    before = Plan.model_validate(plan)
    fixed = fix(text, "plan.yaml" if form == "yaml" else "plan.json")
    merged = {old: new for mend in fixed.fixes for old, new in mend.merged.items()}
    last = {old: _followed(old, merged) for old in merged}

    found = [found for found in fixed.checked.diagnostics if found.code in {"W802", "W803"}]
    assert {one.message for one in found} == {left.warning.message for left in fixed.unfixed}
    assert all(left.why.endswith(REASONS) for left in fixed.unfixed)
    assert difference(before, fixed.plan, last) is None
    assert fix(fixed.origin.document.source.text, fixed.origin.document.source.name).fixes == ()


@settings(max_examples=40, deadline=None)
@given(plan=plans(), failing=st.integers(0, 3))
def test_a_fixed_plan_ends_as_before_whatever_fails(plan: dict[str, object], failing: int) -> None:
    before = Plan.model_validate(plan)
    after = fix(json.dumps(plan), "plan.json").plan

    ended, ended_fixed = _run(before, failing), _run(after, failing)

    assert ended_fixed == {step.id: ended[step.id] for step in after.steps}


def _run(plan: Plan, failing: int) -> dict[str, tuple[str, object]]:
    """Return how each step ends, and its output, where a call fails or not as its parameters have
    it.
    """

    def look(call: ToolCall) -> str:
        said = zlib.crc32(json.dumps(call.params, sort_keys=True).encode())
        if said % 4 == failing:
            msg = "it cannot be seen"
            raise ValueError(msg)
        return f"seen {said}"

    bench = ExecutionHarness().add(
        look, "look", input_schema=LOOK.input_schema, output_schema=LOOK.output_schema
    )
    state = anyio.run(bench.run, plan)
    ended = {name: record.status for name, record in state.steps.items()}
    return {
        name: ("ok" if status == "reused" else status, state.steps[name].output)
        for name, status in ended.items()
    }


REASONS = (
    "would run although a step that it waits for failed",
    "wait for other steps",
    "bounded in other ways",
)


def _followed(name: StepId, merged: dict[StepId, StepId]) -> StepId:
    while name in merged:
        name = merged[name]
    return name


def test_another_call_another_order_and_another_result_are_differences() -> None:
    def plan(text: str) -> Plan:
        return Plan.model_validate(read_document(text, "plan.yaml").value)

    base = "steps: [{id: a, tool: look}, {id: b, tool: look, params: {at: 1}, depends_on: [a]}]\nresult: 2\n"

    assert difference(plan(base), plan(base), {}) is None
    assert (
        difference(plan(base), plan(base.replace("at: 1", "at: 2")), {})
        == "step 'b' makes another call"
    )
    assert "wait for other steps" in (
        difference(plan(base), plan(base.replace(", depends_on: [a]", "")), {}) or ""
    )
    assert "result" in (
        difference(plan(base), plan(base.replace("result: 2", "result: 3")), {}) or ""
    )
    assert difference(plan(base), plan("steps: [{id: a, tool: look}]"), {}) == "it has other steps"
