"""Steps of an answer that is still arriving."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from wavewright.planner.language.goals import AvailableTool, Goal
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.planning.plan_stream import PlanStream, PrefixFault, startable_steps
from wavewright.planner.types import JsonObject

PLAN: JsonObject = {
    "reasoning": 'two look-ups, "quoted", and {braces} with [brackets] \\ 1.5',
    "gates": [{"id": "small", "on": "one", "check": "output < 100"}],
    "steps": [
        {
            "why": 'it says "steps": [{}]',
            "id": "one",
            "tool": "read",
            "params": {"of": {"steps": [{"a": 1}]}},
        },
        {"id": "two", "tool": "read", "params": {"of": "${steps.one}, }] é"}},
        {"id": "three", "tool": "write", "params": {"of": [1, 2.5, None, True]}},
        {"id": "four", "tool": "read", "params": {}},
    ],
    "result": "${steps.two}",
}
TOOLS = {
    "read": ToolSignature(name="read", input_schema={"type": "object"}),
    "write": ToolSignature(name="write", effects=frozenset({"write"})),
    "send": ToolSignature(name="send", effects=frozenset({"read", "egress"})),
    "asked": ToolSignature(name="asked", needs_approval=True),
}
GOAL = Goal(
    name="plan",
    job="plan",
    text="Read",
    inputs={},
    tools=tuple(AvailableTool(name=name) for name in TOOLS),
)


def prefix(*steps: Mapping[str, object], **fields: object) -> Plan:
    return Plan.model_validate({"steps": list(steps), **fields})


def startable(plan: Plan, *, passes_effects: bool = False) -> list[str]:
    return [*startable_steps(plan, GOAL, TOOLS, passes_effects=passes_effects)[1]]


@pytest.mark.parametrize(
    ("fence", "indent"),
    [
        ("", None),
        ("", 2),
        ("```json\n", None),
        ('<think>So:\n{"steps": [{"id": "x"\n</think >\n\n', None),
        ("\n<THINK> </think><think></think>```json\n", 2),
    ],
)
def test_every_cut_of_an_answer_gives_the_same_prefixes_in_the_same_order(
    indent: int | None, fence: str
) -> None:
    text = fence + json.dumps(PLAN, indent=indent, ensure_ascii=False)
    whole = Plan.model_validate(PLAN)

    for cut in range(len(text) + 1):
        stream = PlanStream()
        found = [
            plan
            for part in (text[:cut], text[cut:])
            if part and (plan := stream.add(part)) is not None
        ]

        assert found
        assert found[-1].steps == whole.steps, cut
        for plan in found:
            assert plan.steps == whole.steps[: len(plan.steps)], cut
            assert plan.gates == whole.gates


def test_characters_one_by_one_give_each_step_as_soon_as_it_is_whole() -> None:
    text = json.dumps(PLAN)
    stream = PlanStream()
    ends = [len(plan.steps) for char in text if (plan := stream.add(char)) is not None]

    assert ends == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("Here is the plan: {", id="words"),
        pytest.param("<thinking>hm</thinking>{", id="a tag of another name"),
        pytest.param('[{"id": "one", "tool": "read"}', id="a list"),
        pytest.param('{"steps": [{"id": "one", "tool": "read", "tool": "write"}', id="a key twice"),
        pytest.param("{\"steps\": [{'id': 'one', 'tool': 'read'}", id="single quotes"),
        pytest.param('{"steps": [{"id": "one", "tool_name": "read"}', id="another name"),
        pytest.param('{"steps": [{"id": 1, "tool": "read"}', id="a number for an id"),
    ],
)
def test_what_is_no_plan_in_strict_json_starts_nothing(answer: str) -> None:
    with pytest.raises(PrefixFault):
        _read(answer)


def test_a_step_starts_early_only_where_it_reads_and_nobody_is_asked() -> None:
    read = {"id": "a", "tool": "read"}

    assert startable(prefix(read)) == ["a"]
    assert startable(prefix({**read, "tool": "send"})) == []
    assert startable(prefix({**read, "tool": "asked"})) == []
    assert startable(
        prefix(read, {"id": "b", "tool": "write"}, {"id": "c", "tool": "read", "params": {"n": 1}})
    ) == ["a"]
    assert startable(
        prefix(read, {"id": "b", "tool": "write"}, {"id": "c", "tool": "read", "params": {"n": 1}}),
        passes_effects=True,
    ) == ["a", "c"]


def test_a_step_waits_for_what_it_reads_and_for_a_judge() -> None:
    read = {"id": "a", "tool": "read"}
    after = {"id": "b", "tool": "read", "params": {"n": "${steps.c}"}}
    judge = {"id": "good", "on": "a", "judge": {"rubric": "It is good."}}

    assert startable(prefix(read, after)) == ["a"]
    assert startable(prefix(read, after, {"id": "c", "tool": "read", "params": {"n": 2}})) == [
        "a",
        "c",
    ]
    assert (
        startable(
            prefix(read, {"id": "b", "tool": "read", "params": {"n": "${steps.a}"}}, gates=[judge])
        )
        == []
    )
    assert startable(prefix(read, {"id": "b", "tool": "read"})) == ["a"]


def test_a_step_waits_for_names_that_may_follow_the_steps_and_the_others_do_not() -> None:
    read = {"id": "a", "tool": "read"}
    named: list[Mapping[str, object]] = [
        {"id": "b", "tool": "read", "params": {"n": "${big}"}},
        {"id": "c", "tool": "read", "for_each": "${steps.a.filter(r, r.n in big)}"},
        {"id": "d", "tool": "read", "params": {"n": 1}, "when": "big.size() > 0"},
        {"id": "e", "tool": "read", "params": {"n": "${steps.b}"}},
    ]
    last = {"id": "f", "tool": "read", "params": {"n": "${steps.a}"}}

    assert startable(prefix(read, *named, last)) == ["a", "f"]
    assert startable(prefix(read, {**named[0], "tool": "send"}, last)) == ["a"]
    with pytest.raises(PrefixFault):
        startable(prefix(read, *named, last, let={"small": "${steps.a}"}))


@pytest.mark.parametrize(
    "step",
    [
        pytest.param({"id": "a", "tool": "reed"}, id="an unknown tool"),
        pytest.param({"id": "A", "tool": "read"}, id="an id twice"),
        pytest.param(
            {"id": "b", "tool": "read", "params": {"n": "${inputs.none}"}}, id="no such input"
        ),
    ],
)
def test_a_fault_that_no_further_step_resolves_is_raised(step: Mapping[str, object]) -> None:
    with pytest.raises(PrefixFault):
        startable(prefix({"id": "a", "tool": "read"}, step))


def _read(answer: str) -> None:
    stream = PlanStream()
    for char in answer:
        assert stream.add(char) is None
