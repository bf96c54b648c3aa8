"""Patches: finished steps stay, readers follow, and what cannot be applied is refused with its
place.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from syrupy.assertion import SnapshotAssertion

from wavewright.planner.checks.checker import check
from wavewright.planner.language.goals import (
    AvailableTool,
    Goal,
    RecoveryPolicy,
    Rules,
    TerminalRule,
)
from wavewright.planner.language.hashing import plan_hash
from wavewright.planner.language.plan import (
    SUB_PLAN,
    AddStep,
    Cap,
    Gate,
    Limits,
    PatchOp,
    Plan,
    PlanPatch,
    PlanStop,
    RemoveStep,
    ReplaceStep,
    RewireStep,
    Step,
)
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.diff import diff_plans
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.plans.let_and_stop import with_let, with_stop
from wavewright.planner.plans.patches import (
    PatchRefused,
    apply_patch,
    check_patch,
    patch_fingerprint,
)
from wavewright.planner.types import Effect, GateId, PlanHash, StepId

TOOLS = {
    "fetch": ToolSignature(name="fetch", expected_seconds=2.0, freshness_field="as_of"),
    "analyze": ToolSignature(name="analyze"),
    "mail": ToolSignature(name="mail", effects=frozenset({"egress"})),
}
GOAL = Goal(
    name="outlook",
    job="job",
    text="look",
    inputs={},
    tools=(AvailableTool(name="fetch"), AvailableTool(name="analyze"), AvailableTool(name="mail")),
    gates=(
        Gate(id=GateId("fresh"), on_tool="fetch", fresh_within=60.0),
        Gate(id=GateId("enough"), on=StepId("prices"), check="steps.prices != null"),
    ),
    caps=(Cap(field="overall", when="!has(steps.prices)", max=0.5, because="no prices"),),
    limits=Limits(rounds=1),
)


def step(name: str, tool: str = "fetch", **fields: Any) -> Step:
    return Step(id=StepId(name), tool=tool, **fields)


PLAN = bind_plan(
    Plan(
        steps=(
            step("prices", params={"code": "GNP"}),
            step("other", params={"code": "SKS"}),
            step(
                "summary",
                "analyze",
                params={
                    "prices": "${steps.prices}",
                    "text": "at ${steps.prices.close}, not 'steps.prices'",
                },
                when="has(steps.prices)",
                depends_on=(StepId("other"), StepId("prices")),
            ),
            step("each", "analyze", for_each="${steps.prices}"),
        ),
        gates=(Gate(id=GateId("sane"), on=StepId("prices"), check="steps.prices.close > 0"),),
        caps=(Cap(field="trend", when="${!has(steps.prices)}", max=0.1, because="none"),),
        result={"text": "${steps.summary}", "prices": "${steps.prices}"},
    ),
    GOAL,
)
FINISHED = frozenset({StepId("prices"), StepId("other")})
AGAIN = AddStep(
    step=step("prices_2", params={"code": "GNP", "force": True}, supersedes=StepId("prices"))
)


def patch(*ops: PatchOp, plan: Plan = PLAN) -> PlanPatch:
    return PlanPatch(base=plan_hash(plan), reason="the prices are stale", ops=ops)


def applied(*ops: PatchOp, plan: Plan = PLAN, finished: frozenset[StepId] = FINISHED) -> Plan:
    return apply_patch(plan, patch(*ops, plan=plan), finished=finished, goal=GOAL, tools=TOOLS)


def refusals(
    *ops: PatchOp, finished: frozenset[StepId] = FINISHED, **more: Any
) -> list[tuple[str, str, str]]:
    with pytest.raises(PatchRefused) as refused:
        apply_patch(PLAN, patch(*ops), finished=finished, goal=GOAL, tools=TOOLS, **more)
    return [(one.code, one.pointer, one.message) for one in refused.value.diagnostics]


def test_every_reader_of_a_superseded_step_is_pointed_at_the_new_one() -> None:
    plan = applied(AGAIN)

    summary = plan.step("summary")
    assert summary.params == {
        "prices": "${steps.prices_2}",
        "text": "at ${steps.prices_2.close}, not 'steps.prices'",
    }
    assert summary.when == "has(steps.prices_2)"
    assert summary.depends_on == ("other", "prices_2")
    assert plan.step("each").for_each == "${steps.prices_2}"
    assert plan.result == {"text": "${steps.summary}", "prices": "${steps.prices_2}"}
    assert [cap.when for cap in plan.caps] == ["${!has(steps.prices_2)}", "!has(steps.prices_2)"]


def test_the_finished_step_stays_as_it_was() -> None:
    assert applied(AGAIN).step("prices") == PLAN.step("prices")


def test_what_was_asked_of_the_old_step_is_asked_of_the_new_one() -> None:
    gates = {gate.id: (gate.on, gate.check) for gate in applied(AGAIN).gates}

    assert gates == {
        "sane": ("prices_2", "steps.prices_2.close > 0"),
        "fresh__other": ("other", None),
        "fresh__prices_2": ("prices_2", None),
        "enough": ("prices_2", "steps.prices_2 != null"),
    }


def test_a_patched_plan_passes_the_check_that_the_plan_passed() -> None:
    assert [one for one in check(PLAN, GOAL, TOOLS) if one.severity == "error"] == []
    assert [one for one in check(applied(AGAIN), GOAL, TOOLS) if one.severity == "error"] == []


def test_a_patched_plan_can_be_patched_again() -> None:
    once = applied(AGAIN)
    twice = applied(
        AddStep(step=step("prices_3", params={"force": True}, supersedes=StepId("prices_2"))),
        plan=once,
        finished=FINISHED | {StepId("prices_2")},
    )

    assert twice.step("summary").params["prices"] == "${steps.prices_3}"
    assert [gate.on for gate in twice.gates if gate.id == "enough"] == ["prices_3"]
    assert [one for one in check(twice, GOAL, TOOLS) if one.severity == "error"] == []


def test_a_finished_reader_of_a_superseded_step_has_to_be_superseded_too() -> None:
    finished = FINISHED | {StepId("summary"), StepId("each")}
    again = AddStep(
        step=step(
            "summary_2",
            "analyze",
            params={"prices": "${steps.prices}"},
            supersedes=StepId("summary"),
        )
    )
    each = AddStep(
        step=step("each_2", "analyze", for_each="${steps.prices_2}", supersedes=StepId("each"))
    )

    assert refusals(AGAIN, again, finished=finished) == [
        (
            "E408",
            "/ops/0/step/supersedes",
            "step 'each' has finished with what it read from 'prices'",
        )
    ]
    plan = applied(AGAIN, again, each, finished=finished)
    assert plan.step("summary_2").params == {"prices": "${steps.prices_2}"}
    assert plan.step("summary").params == PLAN.step("summary").params
    assert plan.result == {"text": "${steps.summary_2}", "prices": "${steps.prices_2}"}


def test_the_result_of_a_sub_plan_follows_its_steps() -> None:
    inner, result = StepId("got.page"), StepId("got")
    plan = bind_plan(
        Plan(
            steps=(
                step(inner, params={"code": "GNP"}),
                step(result, SUB_PLAN, params={"result": "${steps.`got.page`.close}"}),
                step("summary", "analyze", params={"close": "${steps.got}"}),
            ),
            gates=(Gate(id=GateId("sane"), on=result, check="output > 0"),),
            result="${steps.summary}",
        ),
        GOAL.model_copy(update={"gates": (), "caps": ()}),
    )
    again = AddStep(step=step("page_2", params={"force": True}, supersedes=inner))
    patched = applied(again, plan=plan, finished=frozenset({inner, result}))

    assert patched.step("got") == plan.step("got")
    assert patched.step("got_2").params == {"result": "${steps.page_2.close}"}
    assert patched.step("got_2").supersedes == "got"
    assert patched.step("summary").params == {"close": "${steps.got_2}"}
    assert [gate.on for gate in patched.gates if gate.id == "sane"] == ["got_2"]
    # A step that reads the result, and has finished, is the patch's to do again.
    with pytest.raises(PatchRefused) as refused:
        applied(again, plan=plan, finished=frozenset({inner, result, StepId("summary")}))
    assert [found.message for found in refused.value.diagnostics] == [
        "step 'summary' has finished with what it read from 'got'"
    ]


def test_a_superseded_step_is_no_last_step_and_not_reported_as_unread() -> None:
    plan = applied(AGAIN)

    assert PlanGraph.of(plan).terminal == ("summary", "each")
    assert [one.pointer for one in check(plan, GOAL, TOOLS) if one.code == "W801"] == ["/steps/3"]


def test_reading_a_superseded_step_is_refused_by_the_checker() -> None:
    plan = applied(AGAIN)
    late = plan.model_copy(
        update={"steps": (*plan.steps, step("late", "analyze", params={"x": "${steps.prices}"}))}
    )

    assert [(one.code, one.pointer) for one in check(late, GOAL, TOOLS)] == [("E408", "/steps/5")]


def test_open_steps_can_be_replaced_removed_and_rewired() -> None:
    plan = applied(
        ReplaceStep(step=step("summary", "analyze", params={"x": 1})),
        RemoveStep(id=StepId("each")),
        RewireStep(id=StepId("summary"), depends_on=(StepId("other"),)),
    )

    assert [one.id for one in plan.steps] == ["prices", "other", "summary"]
    assert plan.step("summary").params == {"x": 1}
    assert plan.step("summary").depends_on == ("other",)


def test_finished_steps_are_not_touched() -> None:
    assert refusals(
        ReplaceStep(step=step("prices", params={})),
        RemoveStep(id=StepId("other")),
        RewireStep(id=StepId("prices"), depends_on=()),
    ) == [
        ("E409", "/ops/0/step/id", "step 'prices' has finished and cannot be changed"),
        ("E409", "/ops/1/id", "step 'other' has finished and cannot be changed"),
        ("E409", "/ops/2/id", "step 'prices' has finished and cannot be changed"),
    ]


def test_steps_that_are_not_there_cannot_be_changed() -> None:
    assert refusals(RemoveStep(id=StepId("sumary"))) == [
        ("E409", "/ops/0/id", "the patch speaks of step 'sumary', which the plan does not have")
    ]


def test_a_step_that_somebody_waits_for_cannot_be_removed() -> None:
    assert refusals(RemoveStep(id=StepId("other")), finished=frozenset()) == [
        ("E409", "/ops/0/id", "step 'other' cannot be removed: 'summary' waits for it")
    ]


def test_a_new_step_needs_a_new_id_and_something_to_supersede() -> None:
    assert refusals(
        AddStep(step=step("Prices")), AddStep(step=step("new", supersedes=StepId("nobody")))
    ) == [
        ("E409", "/ops/0/step/id", "the plan has a step 'prices' already"),
        (
            "E408",
            "/ops/1/step/supersedes",
            "step 'new' supersedes 'nobody', which the plan does not have",
        ),
    ]


def test_a_step_is_superseded_once() -> None:
    second = AddStep(step=step("prices_3", supersedes=StepId("prices")))

    assert refusals(AGAIN, second) == [
        ("E408", "/ops/1/step/supersedes", "'prices' is superseded by 'prices_2' already")
    ]


def test_a_finished_step_does_not_become_a_last_step_with_other_parameters() -> None:
    terminal = Rules(terminal=(TerminalRule(tool="analyze", params={"tags": ["x"]}),))
    goal = GOAL.model_copy(update={"rules": terminal, "gates": (), "caps": ()})
    plan = bind_plan(
        Plan(steps=(step("a", "analyze"), step("b", "analyze", depends_on=("a",)))), goal
    )
    without_b = patch(RemoveStep(id=StepId("b")), plan=plan)

    checked = check_patch(plan, without_b, finished={StepId("a")}, goal=goal, tools=TOOLS)

    assert [one.message for one in checked.diagnostics] == [
        "the patch would make the finished step 'a' a last step, with other parameters"
    ]


def test_a_patch_for_another_plan_is_refused() -> None:
    other = PlanPatch(base=PlanHash("sha256:0"), reason="x", ops=(AGAIN,))

    checked = check_patch(PLAN, other, finished=FINISHED, goal=GOAL, tools=TOOLS)

    assert checked.plan is None
    assert [(one.code, one.pointer) for one in checked.diagnostics] == [("E409", "/base")]


def test_a_hash_as_it_is_shown_in_text_is_not_enough_and_the_whole_one_is_given() -> None:
    whole = plan_hash(PLAN)
    cut = patch(AGAIN).model_copy(update={"base": whole[:19]})

    with pytest.raises(PatchRefused) as refused:
        apply_patch(PLAN, cut, finished=FINISHED, goal=GOAL, tools=TOOLS)

    assert [one.hint for one in refused.value.diagnostics] == [f"write the whole hash: {whole}"]


def test_a_patch_that_changes_nothing_is_refused() -> None:
    same = ReplaceStep(step=PLAN.step("each").model_copy(update={"why": "said otherwise"}))

    assert refusals(same) == [("E409", "/ops", "the patch changes nothing")]
    assert refusals() == [("E409", "/ops", "the patch changes nothing")]


def test_a_tool_that_the_goal_does_not_allow_is_refused() -> None:
    assert refusals(AddStep(step=step("shell", "run_shell"))) == [
        (
            "E409",
            "/ops/0/step/tool",
            "step 'shell' calls 'run_shell', which this goal does not allow",
        )
    ]


def test_rounds_are_limited() -> None:
    assert refusals(AGAIN, round_number=2) == [
        ("E409", "", "this would be recovery round 2, and 1 are allowed")
    ]


def test_a_new_step_with_an_effect_needs_approval_and_is_not_refused() -> None:
    mail = AddStep(step=step("tell", "mail", params={"text": "${steps.summary}"}))

    checked = check_patch(PLAN, patch(AGAIN, mail), finished=FINISHED, goal=GOAL, tools=TOOLS)

    assert checked.diagnostics == ()
    assert checked.needs_approval == ("tell",)


EFFECTS: dict[str, frozenset[Effect]] = {
    "write": frozenset({"write"}),
    "post": frozenset({"read", "write", "egress"}),
    "pay": frozenset({"write"}),
    "research": frozenset({"read", "egress"}),
    "agent": frozenset({"read", "egress"}),
}
ACTING = TOOLS | {
    name: ToolSignature(name=name, effects=effects, needs_approval=name == "pay")
    for name, effects in EFFECTS.items()
}
UNATTENDED = GOAL.model_copy(
    update={
        "tools": tuple(AvailableTool(name=name) for name in ACTING),
        "gates": (),
        "caps": (),
        "recovery": RecoveryPolicy(allow="same-effects"),
    }
)


@given(
    st.lists(st.tuples(st.sampled_from(sorted(ACTING)), st.booleans()), min_size=1, max_size=5),
    st.lists(st.sampled_from(sorted(ACTING)), min_size=1, max_size=5),
)
def test_only_tools_that_the_plan_calls_without_approval_are_called_by_a_patch_without_one(
    planned: list[tuple[str, bool]], new: list[str]
) -> None:
    plan = Plan(
        steps=tuple(
            step(f"s{at}", tool, needs_approval=asks) for at, (tool, asks) in enumerate(planned)
        )
    )
    ops = tuple(AddStep(step=step(f"n{at}", tool)) for at, tool in enumerate(new))
    patch = PlanPatch(base=plan_hash(plan), reason="r", ops=ops)
    free = {tool for tool, _ in planned} - {tool for tool, asks in planned if asks} - {"pay"}
    acting = [op.step for op in ops if ACTING[op.step.tool].effects - {"read"}]

    checked = check_patch(plan, patch, finished=(), goal=UNATTENDED, tools=ACTING)
    asking = check_patch(plan, patch, finished=(), goal=GOAL, tools=ACTING)

    assert checked.plan is not None
    assert checked.allowed == tuple(each.id for each in acting if each.tool in free)
    assert checked.needs_approval == tuple(each.id for each in acting if each.tool not in free)
    assert asking.needs_approval == tuple(each.id for each in acting)


@pytest.mark.parametrize(
    ("old", "new", "is_allowed"),
    [
        ({"tools": ["fetch", "analyze"]}, {"tools": ["analyze"]}, True),
        ({"tools": ["fetch"]}, {"tools": ["fetch", "research"]}, False),
        ({"tools": ["fetch"]}, {}, False),
        ({"tools": ["fetch"]}, {"tools": []}, False),
        ({"tools": ["fetch"]}, {"tools": "${inputs.tools}"}, False),
        ({"tools": "${inputs.tools}"}, {"tools": "${inputs.tools}"}, True),
        ({}, {"tools": ["fetch"]}, True),
        ({"agent": "scout"}, {}, False),
        ({"agent": "scout"}, {"agent": "scout"}, True),
        ({}, {"agent": "scout"}, False),
    ],
)
def test_an_agent_of_a_patch_has_no_tool_that_no_agent_of_the_plan_has(
    old: dict[str, Any], new: dict[str, Any], *, is_allowed: bool
) -> None:
    plan = Plan(steps=(step("look", "agent", params={"task": "t", **old}),))
    again = AddStep(step=step("look_2", "agent", params={"task": "u", **new}))
    patch = PlanPatch(base=plan_hash(plan), reason="r", ops=(again,))

    checked = check_patch(plan, patch, finished=(), goal=UNATTENDED, tools=ACTING)

    assert (checked.allowed == ("look_2",)) is is_allowed
    assert (checked.needs_approval == ()) is is_allowed


def test_the_same_patch_against_the_same_failed_gates_is_refused_even_under_another_id() -> None:
    failed, failed_again = [GateId("fresh__prices")], [GateId("fresh__prices_2")]
    first = check_patch(
        PLAN, patch(AGAIN), finished=FINISHED, goal=GOAL, tools=TOOLS, failed_gates=failed
    )
    assert first.plan is not None
    again = AddStep(
        step=step("prices_3", params={"code": "GNP", "force": True}, supersedes=StepId("prices_2"))
    )

    second = check_patch(
        first.plan,
        patch(again, plan=first.plan),
        finished=FINISHED | {StepId("prices_2")},
        goal=GOAL,
        tools=TOOLS,
        failed_gates=failed_again,
        tried={first.fingerprint},
    )

    assert [one.message for one in second.diagnostics] == [
        "the same patch was tried before against the same failed gates"
    ]


def test_a_fingerprint_tells_other_parameters_and_other_gates_apart() -> None:
    changed = AddStep(step=AGAIN.step.model_copy(update={"params": {"code": "BHP"}}))
    marks = {
        patch_fingerprint(PLAN, patch(AGAIN), [GateId("fresh__prices")]),
        patch_fingerprint(PLAN, patch(AGAIN), [GateId("sane")]),
        patch_fingerprint(PLAN, patch(changed), [GateId("sane")]),
        patch_fingerprint(PLAN, patch(RemoveStep(id=StepId("each"))), [GateId("sane")]),
    }

    assert len(marks) == 4


def test_a_refused_patch_says_everything_at_once() -> None:
    assert (
        len(refusals(RemoveStep(id=StepId("a")), RemoveStep(id=StepId("b")), round_number=9)) == 3
    )


def test_a_diff_shows_what_a_patch_does(snapshot: SnapshotAssertion) -> None:
    mail = AddStep(step=step("tell", "mail", params={"text": "${steps.summary}"}))

    assert str(diff_plans(PLAN, applied(AGAIN, mail), TOOLS)) == snapshot


@pytest.mark.parametrize("rest", ["", " && p.output != 5" * 9])
def test_a_diff_shows_what_differs_in_the_words_of_the_author(rest: str) -> None:
    def plan(least: int) -> Plan:
        items = Step(id=StepId("a"), tool="t", for_each=[1, 2], params={"n": "${item}"})
        kept = f"${{joined(steps.a).filter(p, p.output > 1{rest} && p.output > {least})}}"
        written = Plan(steps=(items, Step(id=StepId("b"), tool="t", params={"n": kept})))
        return with_let(written)[0]

    shown = str(diff_plans(plan(7), plan(8), TOOLS)).splitlines()[1]

    assert "joined_" not in shown
    assert shown.count("> 7") == shown.count("> 8") == 1


def test_a_diff_is_json_too(snapshot: SnapshotAssertion) -> None:
    assert diff_plans(PLAN, applied(RemoveStep(id=StepId("each"))), TOOLS).to_json() == snapshot


def test_plans_that_differ_in_prose_only_do_the_same() -> None:
    reworded = PLAN.model_copy(update={"goal": "another"})

    diff = diff_plans(PLAN, reworded, TOOLS)

    assert diff.is_empty
    assert str(diff) == "the plans do the same"


@given(st.sets(st.sampled_from(["summary", "each", "extra"]), min_size=1))
def test_removing_what_was_added_gives_the_plan_back(names: set[str]) -> None:
    added = [
        AddStep(step=step(f"{name}_new", "analyze", params={"x": "${steps.prices}"}))
        for name in sorted(names)
    ]

    there = applied(*added)
    back = applied(*(RemoveStep(id=one.step.id) for one in added), plan=there)

    assert back == PLAN


@given(
    st.lists(st.sampled_from(["prices", "other", "summary", "each", "nobody"]), max_size=4),
    st.sampled_from(["remove", "rewire"]),
)
def test_finished_steps_are_the_same_before_and_after_any_patch(names: list[str], op: str) -> None:
    ops: list[PatchOp] = [
        RewireStep(id=StepId(name), depends_on=())
        if op == "rewire"
        else RemoveStep(id=StepId(name))
        for name in names
    ]

    checked = check_patch(PLAN, patch(*ops), finished=FINISHED, goal=GOAL, tools=TOOLS)

    if checked.plan is None:
        assert checked.diagnostics
    else:
        assert all(checked.plan.step(name) == PLAN.step(name) for name in FINISHED)


def stopping_plan() -> Plan:
    plan = Plan(
        let={"rows": "${steps.prices}"},
        steps=(step("prices"), step("outlook", "analyze", params={"rows": "${rows}"})),
        stop=PlanStop(when="rows.size() == 0", result="nothing"),
    )
    named, faults = with_let(plan)
    assert faults == ()
    return with_stop(named)


def test_a_step_of_a_patch_reads_the_names_of_the_plan_and_stops_with_it() -> None:
    plan = stopping_plan()
    added = step("more", "analyze", params={"rows": "${rows}"})
    patch = PlanPatch(base=plan_hash(plan), reason="more", ops=(AddStep(step=added),))

    patched = apply_patch(plan, patch, finished={StepId("prices")}, goal=None)

    assert patched.step(StepId("more")).params == {"rows": "${steps.prices}"}
    assert patched.step(StepId("more")).when == "!(steps.prices.size() == 0)"


def test_names_and_stop_read_what_supersedes_a_step() -> None:
    plan = stopping_plan()
    added = step("prices2", supersedes=StepId("prices"))
    patch = PlanPatch(base=plan_hash(plan), reason="again", ops=(AddStep(step=added),))

    patched = apply_patch(plan, patch, finished={StepId("prices")}, goal=None)

    assert patched.let == {"rows": "${steps.prices2}"}
    assert patched.stop is not None
    assert patched.stop.when == "steps.prices2.size() == 0"
    assert patched.step(StepId("outlook")).when == "!(steps.prices2.size() == 0)"


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        pytest.param("dear", {}, id="for_each"),
        pytest.param("dear", {"only": "failed"}, id="only_failed"),
        pytest.param("dearest", {}, id="name_that_reads_a_name"),
    ],
)
def test_the_names_of_a_plan_are_no_data_of_a_models_patch(
    name: str, fields: dict[str, Any]
) -> None:
    let: dict[str, Any] = {
        "dear": "${steps.rows.filter(r, r.price > inputs.floor)}",
        "dearest": "${dear.filter(r, r.code == 'GNP')}",
    }
    items: dict[str, Any] = {"for_each": f"${{{name}}}", "params": {"code": "${item.code}"}}
    plan, faults = with_let(
        Plan(inputs={"floor": 9}, let=let, steps=(step("rows"), step("prices", **items)))
    )
    assert faults == ()
    again = step("prices2", supersedes=StepId("prices"), **items, **fields)

    checked = check_patch(
        plan,
        patch(AddStep(step=again), plan=plan),
        finished={StepId("rows"), StepId("prices")},
        tools=TOOLS,
        written_by_model=True,
    )

    assert checked.diagnostics == ()
    assert checked.plan is not None
    assert checked.plan.step("prices2").for_each == plan.step("prices").for_each


def test_a_loop_that_nothing_would_run_is_refused_in_a_patch_as_in_a_plan() -> None:
    plan = Plan(steps=(step("a"),))
    loop = {"until": "true", "max": 2}
    again = AddStep(step=step("a2", supersedes=StepId("a"), repeat=loop))
    patch = PlanPatch(base=plan_hash(plan), reason="again", ops=(again,))

    checked = check_patch(plan, patch, finished={StepId("a")}, tools=TOOLS)

    assert checked.plan is None
    assert [(fault.code, fault.pointer) for fault in checked.diagnostics] == [
        ("E411", "/ops/0/step/repeat")
    ]
