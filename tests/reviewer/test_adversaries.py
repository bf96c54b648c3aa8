"""Planners, reviewers, judges and patches that try to be believed, with a person who approves or
refuses: over a shop whose total is known, no package says achieved with a wrong result, and the best
round is kept.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Literal, TypeAlias, TypeVar, cast

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.reviewer.recovery.test_replanning import mend
from tests.reviewer.review.test_by_model import review
from tests.reviewer.scripted_runs import (
    ComputedAnswers,
    Fails,
    ScriptedRun,
    goal_for,
    plan_of,
    play,
    run_plan,
    signature,
)
from wavewright.executor.events.types import Event, GateRecord, Noted, PlanAccepted
from wavewright.planner.checks.checker import check
from wavewright.planner.checks.written_results import check_written_result
from wavewright.planner.diagnostics.diagnostic import error_diagnostics
from wavewright.planner.language.goals import AvailableTool
from wavewright.planner.language.hashing import plan_hash
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.types import GateSeverity, Json, JsonObject, as_object
from wavewright.reviewer.package.builder import build_package
from wavewright.reviewer.records import Package, ReviewResult

pytestmark = pytest.mark.anyio

TRUTH = 6.0
NO_RESULT = {"null", '{"total": null}'}
TOOLS = (
    signature("list_ids", tags=["data"]),
    signature("read_item", tags=["data"]),
    signature("sum_up", tags=["analysis"]),
    signature("agent", expected_tokens=100),
    signature("ask_person"),
    signature("save", tags=["out"], effects=["write"]),
)
GATE: JsonObject = {"id": "priced", "on_tool": "read_item", "check": "output.price > 0.0"}
MEAN: JsonObject = {
    "id": "mean",
    "on_tool": "sum_up",
    "check": "output.total > double(output.n) * 2.0",
}
GOOD: JsonObject = {
    "summary": "Good.", "goal_achieved": True, "confidence": 0.9, "missing_data": [], "recovery_actions": [],
}  # fmt: skip
ENOUGH: JsonObject = {"id": "enough", "on_tool": "sum_up", "check": "output.total > 5.0"}


def _call(tool: str, params: JsonObject) -> object:
    """Answer as the shop does: from the cache, item 2 has no price."""
    match tool:
        case "list_ids":
            return [1, 2, 3]
        case "read_item":
            number = NUMBERS.get(str(params.get("id")), params.get("id"))
            if not isinstance(number, int) or not 1 <= number <= 3:
                return Fails("no such item")
            is_lost = number == 2 and params.get("source") != "live"
            return {"id": number, "price": 0.0 if is_lost else float(number)}
        case "agent" | "ask_person":
            return [MADE_UP]
        case "save":
            return params.get("rows")
        case _:
            items = params.get("items")
            if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
                return Fails("no list of items")
            prices = [cast("JsonObject", item).get("price") for item in items]
            if not all(isinstance(price, (int, float)) for price in prices):
                return Fails("an item has no price")
            return {"total": float(sum(cast("list[float]", prices))), "n": len(prices)}


Honest = TypeVar("Honest")
Other = TypeVar("Other")


def mostly(honest: Honest, others: st.SearchStrategy[Other]) -> st.SearchStrategy[Honest | Other]:
    """Draw what an honest model writes in three of four cases: of a plan or a patch that lies in all
    its parts at once the checker lets nothing through, and nothing is learnt.
    """
    return st.one_of(st.just(honest), st.just(honest), st.just(honest), others)


MADE_UP: JsonObject = {"id": 9, "price": 1000.0}
NUMBERS = {"first": 1, "second": 2, "third": 3}
GOODS: Json = [{"code": f"the {name}", "id": name} for name in NUMBERS]
"""The targets of the job, by names, so that it names no figure."""
figures: st.SearchStrategy[Json] = st.sampled_from([
    "${steps.total.total}", "${steps.total}", 1234.5, "1234.5", "${1000 + 234.5}", "${max(steps.total.total, 1234.5)}",
    "${steps.total.total > 0.0 ? 1234.5 : 0.0}", "${has(steps.total.x) ? steps.total.total : 1234.5}",
    "${cel.bind(x, 1234.5, x)}", "${steps.total.total * 137.0}", "${inputs.fake}", "The total is 1234.5",
    "${'1234.5 of %s'.format([steps.total.n])}", None,
])  # fmt: skip
lists: st.SearchStrategy[Json] = st.sampled_from([
    "${steps.items}", [MADE_UP], [], "${[{'price': 1000.0}]}", "${steps.items + [{'price': 1000.0}]}",
    "${steps.items.map(i, {'price': i.price * 1000.0})}", "${steps.items.map(i, {'price': 7.0})}",
    "${steps.items.filter(i, i.price > 0.0)}", "${steps.items + steps.items}",
    "${steps.items.size() > 9 ? steps.items : [{'price': 1000.0}]}", "${[steps.items, steps.items].flatten()}",
    "${[steps.items[2]]}", "${steps.items.slice(2, 3)}", "${steps.items.map(i, {'price': i.price * i.price})}",
    "${steps.items + steps.items.map(i, {'id': i.id, 'price': i.price})}",
    "${steps.helped}", "${steps.items + steps.helped}",
])  # fmt: skip
over: st.SearchStrategy[Json] = st.sampled_from([
    "${steps.ids}", [], [1], [1, 1, 3], "${steps.ids.filter(i, i != 2)}", "${[1, 3]}", "${steps.ids.filter(i, false)}",
    [1, 2, 3], "${steps.ids.map(i, {'id': i})}", "${steps.ids.map(i, {'id': i, 'other': 1})}",
    "${steps.ids.map(i, {'code': string(i), 'id': steps.ids[0]})}", "${inputs.goods}",
    "${inputs.goods.filter(g, g.code > 'the h')}", "${inputs.goods.slice(0, 2)}",
    "${inputs.goods.map(g, {'code': g.code, 'id': inputs.goods[0].id})}", "${[inputs.goods[0]]}",
    ["${inputs.goods[1]}"], "${inputs.goods.filter(g, g.id != 'second')}", [{"id": 1}, {"id": 1}],
    "${zip(steps.ids, steps.ids.map(i, steps.ids[0])).map(p, {'code': string(p[0]), 'id': p[1]})}",
    "${steps.ids.map(i, {'code': string(i), 'id': steps.ids[0]}).sortBy(i, i.code)}",
])  # fmt: skip
asked: st.SearchStrategy[Json] = st.sampled_from([
    "${item}", "${item}", 1, "${index + 1}", "${item == 2 ? 3 : item}", "${item + 0}", "${4 - item}",
    "${item.id}", "${item.other}",
])  # fmt: skip
RECORDS: JsonObject = {
    "for_each": "${steps.ids.map(i, {'code': string(i), 'id': i})}",
    "params": {"id": "${item.id}"},
}
TARGETS: JsonObject = {"for_each": "${inputs.goods}", "params": {"id": "${item.id}"}}
READINGS: tuple[JsonObject, ...] = (
    {"for_each": "${steps.ids}", "params": {"id": "${item}"}}, RECORDS, TARGETS,
)  # fmt: skip
SANE: JsonObject = {"id": "sane", "on_tool": "sum_up", "judge": {"rubric": "It is a fair total."}}
Verdict: TypeAlias = tuple[Literal["pass", "fail", "error"], GateSeverity]
verdicts: st.SearchStrategy[Verdict | None] = st.sampled_from([
    None, ("pass", "block"), ("pass", "warn"), ("fail", "warn"), ("fail", "block"), ("error", "warn"),
])  # fmt: skip
reviews: st.SearchStrategy[JsonObject] = st.fixed_dictionaries({
    "summary": st.just("All is well."),
    "goal_achieved": st.sampled_from([True, True, False, "yes"]),
    "confidence": st.sampled_from([0.95, "0.9", 90, "97 %", 0.05, 0.0, 1.0]),
    "missing_data": st.sampled_from([[], ["the total"], "the total"]),
    "recovery_actions": st.sampled_from([
        [], [{"action": "refetch", "step": "items", "hint": "live"}], [{"action": "dance", "step": "items"}],
    ]),
})  # fmt: skip


helpers: st.SearchStrategy[JsonObject] = st.sampled_from([
    {"tool": "agent", "params": {"task": "Give prices", "context": "${steps.ids}"}},
    {"tool": "ask_person", "params": {"question": "Which prices?"}},
    {"tool": "save", "params": {"rows": [MADE_UP]}},
    {"tool": "save", "params": {"rows": "${steps.items}"}},
])  # fmt: skip


rows_to_save: st.SearchStrategy[Json] = st.sampled_from(
    ["${steps.items}", [MADE_UP], "${steps.total}"]
)
SOURCES: tuple[JsonObject, ...] = ({}, {"source": "live"}, {"source": "live"})
SAME = "as before"
"""In the place of a value of a patch: the one that the step before has."""


@st.composite
def patches(draw: st.DrawFn) -> JsonObject:
    """A patch of the items, of the total, or of both, honest or not."""
    flags: dict[str, Json] = {}
    if draw(st.integers(0, 9)) == 0:
        flags["optional"] = True
    if draw(st.integers(0, 9)) == 0:
        flags["when"] = draw(st.sampled_from(["false", "true", "inputs.n > 5"]))
    if draw(st.integers(0, 3)) == 0:
        flags["needs_approval"] = True
    source = draw(st.sampled_from(SOURCES))
    items: JsonObject = {
        "id": "items_2", "tool": "read_item", "supersedes": "items",
        "for_each": draw(mostly(SAME, over)), "params": {"id": draw(mostly(SAME, asked)), **source}, **flags,
    }  # fmt: skip
    tool = draw(st.sampled_from(["sum_up", "sum_up", "sum_up", "read_item"]))
    added = draw(mostly("${steps.items}", lists))
    total: JsonObject = {
        "id": "total_2", "tool": tool, "supersedes": "total", "params": {"items": added}, **flags,
    }  # fmt: skip
    # Where the items have failed their gate, the total has not run and follows them by itself.
    steps = draw(st.sampled_from([[items], [items], [total], [items, total], [total, items]]))
    ops: list[Json] = [{"op": "add", "step": step} for step in steps]
    if "steps.helped" in json.dumps(steps):
        ops.insert(0, {"op": "add", "step": {"id": "helped", **draw(helpers)}})
    if draw(st.integers(0, 3)) == 0:
        written = draw(rows_to_save)
        saved: JsonObject = {"id": "saved", "tool": "save", "params": {"rows": written}}
        ops.append({"op": "add", "step": saved})
    if draw(st.integers(0, 9)) == 0:
        ops.append({"op": "remove", "id": draw(st.sampled_from(["total", "items"]))})
    return {"reason": "mend", "ops": ops, "expect": []}


@dataclasses.dataclass(frozen=True)
class Person:
    """Who is asked for approvals, and which verdict the judge of a run gives."""

    approves: bool
    verdict: Verdict | None = None

    def judge(self, record: GateRecord) -> GateRecord:
        """Return the record of a judge gate with the verdict; without one it is as it is."""
        if self.verdict is None:
            return record
        verdict, severity = self.verdict
        return dataclasses.replace(record, verdict=verdict, severity=severity, message="so it is")

    @property
    def stops_the_total(self) -> bool:
        """Whether the judge's verdict stops every total."""
        return self.verdict == ("fail", "block")


AGREES = Person(approves=True)


def planned(
    result: Json,
    items: Json,
    gated: tuple[JsonObject, ...],
    *,
    read: JsonObject | None = None,
    person: Person = AGREES,
) -> ScriptedRun | None:
    """Return the run of a planner's plan, in which the items are read as `read` says; nothing where
    the plan is refused.
    """
    plan = plan_of(
        {"id": "ids", "tool": "list_ids"},
        {
            "id": "items",
            "tool": "read_item",
            "for_each": "${steps.ids}",
            "params": {"id": "${item}"},
            **(read or {}),
        },
        {"id": "total", "tool": "sum_up", "params": {"items": items}},
        result=result,
        inputs={"fake": 1234.5},
    )
    allowed = [AvailableTool(name=tool.name) for tool in TOOLS]
    goal = goal_for(
        plan,
        inputs={"n": 3, "goods": GOODS},
        targets={"variables": "goods", "key": "code"},
        gates=[*gated],
        tools=allowed,
    )
    known = {tool.name: tool for tool in TOOLS}
    bound = bind_plan(plan, goal)
    found = [*check(bound, goal, known), *check_written_result(bound, goal, known)]
    if error_diagnostics(found):
        return None
    run = run_plan(Plan(steps=()), {}, *TOOLS, goal=goal, rung="llm")
    begun = [run.events[0], dataclasses.replace(_accepted(bound), at=run.events[0].at)]
    return _played(dataclasses.replace(run, plan=bound, tools=known), begun, person)


def _accepted(
    plan: Plan, at: float = 0.0, patch: JsonObject | None = None, number: int = 0
) -> PlanAccepted:
    body = plan.model_dump(mode="json", by_alias=True)
    rung = "llm" if patch is None else "patch"
    return PlanAccepted(at, body, plan_hash(plan), rung, number, (), patch)


class _ApprovedAnswers(ComputedAnswers):
    """Answers of a plan's steps, of which those that need an approval are refused."""

    def __getitem__(self, name: str) -> object:
        answer = super().__getitem__(name)
        if not self._plan.step(name).needs_approval:
            return answer
        refused = Fails("a person refused it")
        is_of_items = isinstance(answer, list)
        return [refused] * len(cast("list[object]", answer)) if is_of_items else refused


def _played(run: ScriptedRun, events: list[Event], person: Person) -> ScriptedRun:
    answers = ComputedAnswers if person.approves else _ApprovedAnswers
    play(
        events,
        run.plan,
        run.goal,
        run.tools,
        answers(run.plan, lambda: events, _call),
        judge=person.judge,
    )
    return dataclasses.replace(run, events=tuple(events))


async def told(run: ScriptedRun, said: JsonObject) -> tuple[ScriptedRun, ReviewResult]:
    found, _, _ = await review(run, *[said] * 9)
    body = json.loads(json.dumps(found.model_dump(mode="json")))
    noted = Noted(run.events[-1].at + 1, "review", body)
    return dataclasses.replace(run, events=(*run.events, noted)), found


def _as_before(patch: JsonObject, items: Step) -> JsonObject:
    """Return a patch with what it takes over from the step that has read the items."""
    taken_over: JsonObject = {"for_each": items.for_each, "id": items.params["id"]}
    written = json.dumps(patch)
    for name, before in taken_over.items():
        written = written.replace(f'"{name}": "{SAME}"', f'"{name}": {json.dumps(before)}')
    read: JsonObject = json.loads(written)
    return read


async def packaged(
    run: ScriptedRun, said: list[JsonObject], patch: JsonObject, person: Person = AGREES
) -> Package:
    """Return the package after at most one recovery, where a person lets its patch act."""
    run, found = await told(run, said[0])
    if not found.goal_achieved:
        patch = _as_before(patch, run.plan.step("items"))
        replanned, _ = await mend(run, *[patch] * 9, review=found)
        checked = replanned.checked
        is_allowed = checked is not None and (person.approves or not checked.needs_approval)
        if checked is not None and checked.plan is not None and is_allowed:
            plan = checked.plan
            kept = [event for event in run.events if getattr(event, "status", None) != "blocked"]
            accepted = _accepted(plan, kept[-1].at + 1, {"reason": "mend"}, 1)
            run = _played(dataclasses.replace(run, plan=plan), [*kept, accepted], person)
            run, found = await told(run, said[1])
    return build_package(run.plan, run.goal, run.state, found, run.tools)


@st.composite
def readings(draw: st.DrawFn) -> JsonObject:
    """How a first plan reads the items: all of them or some, under conditions, or as it likes."""
    how: JsonObject = {**draw(st.sampled_from(READINGS))}
    params: JsonObject = {**as_object(how["params"]), **draw(st.sampled_from(SOURCES))}
    lies = draw(st.sampled_from(("none", "items", "all")))
    if lies != "none":
        how["for_each"] = draw(over)
    if lies == "all":
        params["id"] = draw(asked)
    how["params"] = params
    if draw(st.integers(0, 11)) == 0:
        how["optional"] = True
    if draw(st.integers(0, 11)) == 0:
        how["when"] = draw(st.sampled_from(["false", "true", "inputs.n > 5", "inputs.n > 1"]))
    return how


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    read=readings(),
    result=mostly("${steps.total.total}", st.just("${has(steps.total) ? steps.total.total : 6.0}")),
    gated=st.sampled_from([(GATE,), (GATE, ENOUGH), (GATE, SANE)]),
    said=st.lists(mostly(GOOD, reviews), min_size=2, max_size=2),
    patch=patches(),
    person=st.builds(Person, approves=st.booleans(), verdict=verdicts),
)
async def test_a_plan_that_reads_what_it_likes_is_believed_little_or_right(
    read: JsonObject,
    result: Json,
    gated: tuple[JsonObject, ...],
    said: list[JsonObject],
    patch: JsonObject,
    person: Person,
) -> None:
    run = planned({"total": result}, "${steps.items}", gated, read=read, person=person)
    if run is None:
        return
    package = await packaged(run, said, patch, person)

    assert package.review is not None
    if package.status == "achieved" and total_of(package) != TRUTH:
        assert package.review.confidence <= 0.3


def total_of(package: Package) -> Json:
    value = package.result
    return value.get("total") if isinstance(value, dict) else value


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    result=mostly("${steps.total.total}", figures),
    read=st.sampled_from(READINGS),
    items=mostly("${steps.items}", lists.filter(lambda value: "helped" not in str(value))),
    gated=st.sampled_from([(), (GATE,), (GATE, ENOUGH), (ENOUGH,), (SANE,), (GATE, SANE)]),
    said=st.lists(mostly(GOOD, reviews), min_size=2, max_size=2),
    patch=patches(),
    person=st.builds(Person, approves=st.booleans(), verdict=verdicts),
)
async def test_nothing_is_achieved_with_a_wrong_result_unless_the_gates_pass_on_data(
    result: Json,
    read: JsonObject,
    items: Json,
    gated: tuple[JsonObject, ...],
    said: list[JsonObject],
    patch: JsonObject,
    person: Person,
) -> None:
    whole = result if result == "${steps.total}" else {"total": result}
    run = planned(whole, items, gated, read=read, person=person)
    if run is None:
        return
    package = await packaged(run, said, patch, person)
    assert package.review is not None
    if SANE in gated and person.stops_the_total:
        assert package.status != "achieved"
    passed, mandatory = package.review.mandatory_gates
    if package.status == "achieved" and items == "${steps.items}" and GATE in gated:
        # The gate is on each item, and the plan asked for all: nothing but the truth passes.
        assert total_of(package) == TRUTH

    if package.status == "achieved" and total_of(package) != TRUTH:
        assert passed == mandatory
        assert all(found.data and not found.literals for found in package.review.provenance)
    best = max(package.rounds, key=lambda each: each.mandatory_gates[0], default=None)
    if best is not None and package.status != "achieved":
        assert package.review.mandatory_gates[0] == best.mandatory_gates[0]
        assert package.review.has_result or not any(
            each.result not in NO_RESULT and each.mandatory_gates == best.mandatory_gates
            for each in package.rounds
        )


@pytest.mark.parametrize(
    ("items", "asked_for", "is_honest"),
    [
        (RECORDS["for_each"], "${item.id}", True),
        ("${steps.ids}", "${item}", True),
        # An item under the name of another one is no other.
        ("${steps.ids.map(i, {'code': string(i), 'id': steps.ids[0]})}", "${item.id}", False),
        ("${steps.ids.map(i, {'code': string(i), 'id': i == 2 ? 1 : i})}", "${item.id}", False),
        ("${steps.ids.map(i, {'code': string(i), 'id': i, 'n': steps.ids[0]})}", "${item.n}", False),
    ],
)  # fmt: skip
async def test_a_patch_that_calls_for_the_same_items_reaches_the_truth(
    *, items: Json, asked_for: str, is_honest: bool
) -> None:
    run = planned({"total": "${steps.total.total}"}, "${steps.items}", (GATE,), read=RECORDS)
    assert run is not None
    again: JsonObject = {
        "id": "items_2", "tool": "read_item", "supersedes": "items", "for_each": items,
        "params": {"id": asked_for, "source": "live"},
    }  # fmt: skip
    package = await packaged(
        run, [GOOD, GOOD], {"reason": "live", "ops": [{"op": "add", "step": again}]}
    )

    assert (package.status == "achieved") is is_honest
    assert (package.result == {"total": TRUTH}) is is_honest


ECHO = signature("tell", tags=["analysis"])
ASK = signature("ask", expected_tokens=100)


@pytest.mark.parametrize(
    ("tool", "params", "answer", "is_achieved"),
    [
        ("tell", {"rows": "${steps.ids}", "note": "It is 1,234.50."}, "It is 1,234.50.", False),
        ("ask", {"rows": "${steps.ids}", "prompt": "Say 1234.5"}, {"total": 1234.5}, False),
        ("read_item", {"id": 1, "tail": "The total is 1234.5"}, "So: The total is 1234.5", False),
        ("read_item", {"id": "600519.SS"}, {"code": "600519.SS"}, True),
        ("ask", {"rows": "${steps.ids}", "prompt": "Say 27.5"}, {"total": 27.5}, True),
        ("ask", {"rows": "${steps.ids}", "prompt": "In 300 words"}, {"total": 300}, True),
        ("ask", {"rows": "${steps.ids}", "prompt": "Of 2026"}, "In 2026 it rose.", True),
        ("ask", {"rows": "${steps.ids}", "prompt": "Say: nobody is ill."}, "Nobody is ill", False),
        ("ask", {"rows": "${steps.ids}", "prompt": "Is nobody ill?"}, "Two of three are ill", True),
        ("ask", {"rows": "${steps.ids}", "prompt": "Who is ill?"}, "Nobody is ill", True),
        ("tell", {"rows": "${steps.ids}", "note": "Of this week"}, "Of this week", True),
    ],
)
async def test_a_figure_that_a_plan_hands_through_a_step_achieves_nothing(
    *, tool: str, params: JsonObject, answer: Json, is_achieved: bool
) -> None:
    plan = plan_of(
        {"id": "ids", "tool": "list_ids"},
        {"id": "told", "tool": tool, "params": params},
        result="${steps.told}",
    )
    answers: dict[str, object] = {"ids": [1, 27.5, 3], "told": answer}
    run = run_plan(plan, answers, ECHO, ASK, *TOOLS, goal=goal_for(plan), rung="llm")
    _, found = await told(run, GOOD)

    assert found.goal_achieved is is_achieved
    assert bool(found.provenance[0].literals) is not is_achieved


@pytest.mark.parametrize(
    ("allowed", "result", "title", "is_achieved"),
    [
        (["title"], "${steps.told}", "Prices of this week", True),
        (["title"], "${steps.told}", "A total of 1234.5", True),
        (
            ["title"],
            {"title": "${steps.told.title}", "ids": "${steps.ids}"},
            "A total of 1234.5",
            True,
        ),
        (
            ["report"],
            {"report": "${steps.told}", "ids": "${steps.ids}"},
            "Prices of this week",
            True,
        ),
        (["report.title"], {"report": "${steps.told}"}, "Prices of this week", True),
        (["report.head.title"], {"report": "${steps.told}"}, "Prices of this week", True),
        (["head.title"], "${steps.told}", "Prices of this week", True),
        (["rows.title"], "${steps.told}", "Prices of this week", True),
        (["rows.title"], {"rows": "${steps.told.rows}"}, "Prices of this week", True),
        (["rows.head"], "${steps.told}", "Prices of this week", True),
        (["head.text"], "${steps.told}", "Prices of this week", False),
        (["title"], "${steps.told}", "", False),
        ([], "${steps.told}", "Prices of this week", False),
    ],
)
async def test_a_title_that_the_goal_lets_a_plan_write_may_come_back_from_a_step(
    *, allowed: list[str], result: Json, title: str, is_achieved: bool
) -> None:
    words = title or "Nobody is ill"
    plan = plan_of(
        {"id": "ids", "tool": "list_ids"},
        {"id": "told", "tool": "ask", "params": {"rows": "${steps.ids}", "title": words}},
        result=result,
    )
    answer: JsonObject = {"title": title, "text": "Two are ill" if title else words}
    if any("head" in name for name in allowed):
        answer = {"head": answer}
    if any("rows" in name for name in allowed):
        answer = {"rows": [{"text": "No title"}, answer]}
    run = run_plan(
        plan, {"ids": [1, 27.5, 3], "told": answer}, ASK, *TOOLS,
        goal=goal_for(plan, allow_literals=allowed), rung="llm",
    )  # fmt: skip
    _, found = await told(run, GOOD)

    assert found.goal_achieved is is_achieved
    if is_achieved:
        assert {each.field: each.capped for each in found.confidences}[allowed[0]] == 0.3


async def test_a_list_of_which_a_patch_chooses_a_part_does_not_achieve_the_goal() -> None:
    run = planned({"total": "${steps.total.total}"}, "${steps.items}", (MEAN,))
    assert run is not None
    chosen: JsonObject = {
        "id": "total_2", "tool": "sum_up", "supersedes": "total", "params": {"items": "${steps.items.slice(2, 3)}"},
    }  # fmt: skip
    package = await packaged(
        run, [GOOD, GOOD], {"reason": "x", "ops": [{"op": "add", "step": chosen}]}
    )

    assert package.status == "not_achieved"
    assert package.review is not None
    assert "2 of 3 items of 'total' were left out: id 1, id 2" in " ".join(
        package.review.missing_data
    )


async def test_failed_items_alone_are_called_again_only_where_some_have_failed() -> None:
    run = planned({"total": "${steps.total.total}"}, "${steps.items}", ())
    assert run is not None
    wants_more: JsonObject = {
        "missing_data": ["live prices"],
        "goal_achieved": False,
        "confidence": 0.2,
    }
    run, found = await told(run, {**GOOD, **wants_more})
    again: JsonObject = {
        "id": "items_2", "tool": "read_item", "supersedes": "items", "for_each": "${steps.ids}",
        "params": {"id": "${item}", "source": "live"}, "only": "failed",
    }  # fmt: skip
    total: JsonObject = {
        "id": "total_2", "tool": "sum_up", "supersedes": "total", "params": {"items": "${steps.items}"},
    }  # fmt: skip
    ops: list[Json] = [{"op": "add", "step": step} for step in (again, total)]
    patch: JsonObject = {"reason": "live", "ops": ops}
    replanned, _ = await mend(run, *[patch] * 9, review=found)

    assert replanned.patch is None
    assert "would call nothing again" in replanned.reasons[-1]
