"""The mends of warnings that an editor offers: what they change, and what they leave alone."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import pytest

from wavewright.config.documents import read_document
from wavewright.config.text_edits import NotEditable
from wavewright.planner.checks.checker import check
from wavewright.planner.checks.mends import CheckedPlan, mend
from wavewright.planner.diagnostics.diagnostic import locate_diagnostics
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature

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
    "ask": LOOK.model_copy(update={"name": "ask", "needs_approval": True}),
    "ask_model": LOOK.model_copy(update={"name": "ask_model", "input_schema": {}}),
}


def fixed(text: str, name: str = "plan.yaml", pointer: str = "") -> str:
    """Return a text after the mend of the first warning that can be fixed."""
    document = read_document(text, name)
    value = document.value
    assert isinstance(value, dict)
    plan = Plan.model_validate(value[pointer[1:]] if pointer else value)
    warnings = (
        replace(found, pointer=f"{pointer}{found.pointer}")
        for found in check(plan, None, TOOLS)
        if found.code in {"W802", "W803"}
    )
    found = locate_diagnostics(warnings, document)[0]
    edits = mend(found, document, pointer, CheckedPlan(plan, plan, TOOLS))
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


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
    assert fixed(dedent(before)) == dedent(after)


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
            depends_on: [a]
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
]


@pytest.mark.parametrize(("before", "after"), REPEATED)
def test_two_equal_calls_become_one_and_their_readers_read_it(before: str, after: str) -> None:
    assert fixed(dedent(before)) == dedent(after)


def test_a_plan_inside_a_job_is_fixed_there() -> None:
    text = dedent("""\
    name: inside   # the job
    plan:
      steps:
        - {id: a, tool: look}
        - {id: b, tool: look, params: {at: "${steps.a}"}, depends_on: [a]}
    """)

    assert fixed(text, pointer="/plan") == text.replace(", depends_on: [a]", "")


def test_line_breaks_stay_those_of_the_file() -> None:
    lines = ["steps:", "- {id: a, tool: look}", "- id: b", "  depends_on: [a]", "  tool: look"]
    before = "\r\n".join([*lines, '  params: {at: "${steps.a}"}', ""])

    assert fixed(before) == before.replace("  depends_on: [a]\r\n", "")


LEFT = [
    pytest.param(
        "steps: [{id: a, tool: look}, {id: b, tool: look}]\n",
        "its output is part of the result",
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
def test_what_would_change_more_is_not_offered(text: str, why: str) -> None:
    with pytest.raises(NotEditable, match=why):
        fixed(dedent(text))


def test_a_reader_in_a_question_reads_the_earlier_call() -> None:
    text = """\
steps:
  - {id: a, tool: look}
  - {id: b, tool: look}
  - {id: q, ask: {of: "${steps.b}", for: {day: date}}}
result: ["${steps.a}", "${steps.q}"]
"""
    assert (
        fixed(text)
        == """\
steps:
  - {id: a, tool: look}
  - {id: q, ask: {of: "${steps.a}", for: {day: date}}}
result: ["${steps.a}", "${steps.q}"]
"""
    )
