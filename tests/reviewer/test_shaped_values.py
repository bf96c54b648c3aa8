"""Plans of a model that give data another value than it has, by what they write beside it: such a
plan is refused, or the field is worth little and says what was written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, TypedDict

import pytest
import yaml

from tests.reviewer.scripted_runs import (
    ScriptedRun,
    goal_for,
    plan_of,
    run_plan,
    signature,
)
from wavewright.planner.checks.checker import check
from wavewright.planner.checks.written_results import check_written_result
from wavewright.planner.diagnostics.diagnostic import error_diagnostics
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.types import Json, JsonObject
from wavewright.reviewer.package.builder import build_package
from wavewright.reviewer.package.confidence_proof import proof_of
from wavewright.reviewer.package.summary import render_summary
from wavewright.reviewer.records import Package, ReviewResult
from wavewright.reviewer.review.by_code import review_by_code
from wavewright.reviewer.review.rounds import provenance_text
from wavewright.tools import make_tool


class Town(TypedDict):
    id: int
    name: str
    people: int
    area: float


class Sum(TypedDict):
    n: int
    total: float
    text: str


class Note(TypedDict):
    day: str
    text: str
    source: str


def list_towns(n: int) -> list[int]:
    """List the towns."""
    return [*range(n)]


def read_town(number: int) -> Town:
    """Read a town."""
    return {"id": number, "name": f"Town {number}", "people": 0, "area": 0.0}


def read_note() -> Note:
    """Read a note."""
    raise NotImplementedError


def rates() -> dict[str, float]:
    """Read the rates, by the name of a currency."""
    return {}


def add_up(
    towns: list[Town], note: str = "", start: float = 0.0, factor: float = 1.0, last: int = 0
) -> Sum:
    """Add up the people."""
    raise NotImplementedError


def scale(value: float, by: float = 1.0, unit: str = "") -> float:
    """Scale a figure."""
    raise NotImplementedError


def tally(values: list[float]) -> float:
    """Add up figures."""
    raise NotImplementedError


def join_up(parts: list[str], mark: str = ", ") -> str:
    """Join texts."""
    raise NotImplementedError


def _signature(function: Any, *tags: str) -> ToolSignature:
    return make_tool(function).signature.model_copy(update={"tags": frozenset(tags)})


RATED: JsonObject = {"properties": {"rating": {"type": "string", "enum": ["low", "fair", "high"]}}}
TOOLS = (
    *(_signature(function, "data") for function in (list_towns, read_town, rates, read_note)),
    *(_signature(function, "analysis") for function in (add_up, scale, tally, join_up)),
    signature("look"),
    signature("ask", expected_tokens=100),
    signature("agent", expected_tokens=100),
    signature("rate", expected_tokens=100, output_schema=RATED),
)
STEPS: tuple[JsonObject, ...] = (
    {"id": "ids", "tool": "list_towns", "params": {"n": "${inputs.n}"}},
    {
        "id": "towns",
        "tool": "read_town",
        "for_each": "${steps.ids}",
        "params": {"number": "${item}"},
    },
    {"id": "sum", "tool": "add_up", "params": {"towns": "${steps.towns}"}},
    {"id": "rates", "tool": "rates"},
    {"id": "note", "tool": "read_note"},
)
ANSWERS: Mapping[str, object] = {
    "ids": [1, 2, 3],
    "towns": [
        {"id": 1, "name": "Abe", "people": 310, "area": 1.5},
        {"id": 2, "name": "Bel", "people": 420, "area": 2.5},
        {"id": 3, "name": "Cor", "people": 530, "area": 3.5},
    ],
    "sum": {"n": 3, "total": 1260.0, "text": "3 towns with 1260 people"},
    "rates": {"EUR": 1.25, "USD": 1.5},
    "note": {"day": "2024-05-03T10:20:00Z", "text": "A flood", "source": ""},
}


GOAL = "The people of all towns above 400 in EUR, in percent"


def run(
    *more: JsonObject, result: Json, answer: object = 7.75, text: str = GOAL
) -> ScriptedRun | None:
    """Return the run of a plan that a model wrote; nothing where the plan is refused."""
    steps = {**{step["id"]: step for step in STEPS}, **{step["id"]: step for step in more}}
    plan = plan_of(*steps.values(), result=result)
    goal = goal_for(plan, inputs={"n": 3}, text=text)
    known = {tool.name: tool for tool in TOOLS}
    bound = bind_plan(plan, goal)
    if error_diagnostics([*check(bound, goal, known), *check_written_result(bound, goal, known)]):
        return None
    answers = {"x": answer, **ANSWERS}
    return run_plan(plan, answers, *TOOLS, goal=goal, rung="llm")


def review(ran: ScriptedRun) -> ReviewResult:
    return review_by_code(ran.plan, ran.goal, ran.state, ran.tools)


def worth(ran: ScriptedRun, field: str = "overall") -> float:
    """Return the confidence in a field; of one without a cap of its own, the whole result's."""
    figures = {each.field: each.capped for each in review(ran).confidences}
    return figures.get(field, figures["overall"])


def _item(price: str) -> str:
    return f"${{steps.towns.map(t, {{'id': t.id, 'name': t.name, 'people': {price}, 'area': t.area}})}}"


@pytest.mark.parametrize(
    "value",
    [
        # words around a value
        "${steps.sum.total} thousand",
        "minus ${steps.sum.total}",
        "-${steps.sum.total}",
        "about ${steps.sum.n}%",
        "${'nearly ' + string(steps.sum.total)}",
        "${'%s dozen'.format([steps.sum.n])}",
        "${[string(steps.sum.total), 'million'].join(' ')}",
        "${format(steps.note.day, 'in %Y BC')}",
        "${steps.towns.map(t, t.name).join(' hates ')}",
        "${steps.sum.n > 2 ? 'no ' + steps.sum.text : steps.sum.text}",
        # a unit, a sign, a value that meets itself
        "${steps.sum.total + 1.0}",
        "${steps.sum.total - 1.0}",
        "${1.0 - steps.sum.total}",
        "${steps.sum.total * 100.0}",
        "${steps.sum.total / 100.0}",
        "${steps.sum.n + 1}",
        "${-steps.sum.total}",
        "${steps.sum.total + steps.sum.total}",
        "${steps.sum.total - steps.sum.total}",
        "${steps.sum.total / steps.sum.total}",
        "${cel.bind(x, steps.sum.total, x + x)}",
        "${steps.towns.map(t, t.people * 100).sum()}",
        "${[steps.sum.total, steps.sum.total].map(t, t).sum()}",
        "${steps.towns.map(t, t.area).sum() + steps.towns.map(u, u.area).sum()}",
        "${(steps.towns + steps.towns.map(t, {'id': t.id, 'area': t.area})).map(t, t.area).sum()}",
        "${(steps.towns.map(t, {'n': t.area, 'id': t.id}) + steps.towns.map(u, {'id': u.id, 'n': u.area})).size()}",
        "${[steps.sum, steps.sum].filter(s, s.total > 0.0).map(s, s.total).sum()}",
        # keys
        "${steps.rates.USD}",
        "${steps.rates['USD']}",
        "${{'a': steps.sum.n, 'b': steps.sum.total}['a']}",
        "${[steps.sum.n, steps.sum.total][0]}",
        _item("t.id"),
        _item("t.id * t.id"),
        "${steps.towns.map(t, {'name': string(t.area)})}",
        # a part, chosen by the planner
        "${steps.towns[0].people}",
        "${steps.towns[2]['people']}",
        "${steps.towns.map(t, t.people)[0]}",
        "${steps.towns.reverse()[0].people}",
        "${cel.bind(x, steps.towns, x[0].people)}",
        "${cel.bind(x, steps.sum.total, x + steps.sum.total)}",
        "${cel.bind(x, steps.sum, cel.bind(y, steps.sum, x.total + y['total']))}",
        "${steps.sum.total + steps['sum']['total']}",
        "${steps.towns.maxBy(t, 1).name}",
        "${steps.towns.slice(0, 2).map(t, t.people).sum()}",
        "${steps.towns.filter(t, t.people > 500).size()}",
        "${steps.towns.filter(t, t.name == 'Abe')}",
        "${steps.towns.exists(t, t.people > 500)}",
        "${steps.sum.text.substring(0, 1)}",
        "${steps.sum.n > 2 ? steps.towns[0].people : steps.sum.n}",
        "${steps.sum.total > 9999.0}",
        "${!(steps.sum.n > 2)}",
        "${steps.sum.text.contains('Abe')}",
    ],
)
def test_a_value_that_the_planner_shapes_is_refused_or_worth_little(value: str) -> None:
    ran = run(result={"value": value})

    assert ran is None or worth(ran, "value") <= 0.3


@pytest.mark.parametrize(
    ("step", "result"),
    [
        ({"id": "sum", "tool": "add_up", "params": {"towns": "${steps.towns}", "start": 7}}, "sum.total"),
        ({"id": "sum", "tool": "add_up", "params": {"towns": "${steps.towns}", "factor": 2.5}}, "sum.total"),
        ({"id": "sum", "tool": "add_up", "params": {"towns": "${steps.towns}", "last": 1}}, "sum"),
        ({"id": "sum", "tool": "add_up", "params": {"towns": _item("t.id")}}, "sum.total"),
        ({"id": "sum", "tool": "add_up", "params": {"towns": _item("t.people * 100")}}, "sum.total"),
        ({"id": "sum", "tool": "add_up", "params": {"towns": "${steps.towns + steps.towns}"}}, "sum.total"),
        ({"id": "sum", "tool": "add_up", "params": {"towns": "${steps.towns.slice(1, 3)}"}}, "sum.total"),
        ({"id": "sum", "tool": "add_up", "params": {"towns": "${[steps.towns[0]]}"}}, "sum.total"),
        ({"id": "x", "tool": "scale", "params": {"value": "${steps.sum.total}", "by": 2}}, "x"),
        ({"id": "x", "tool": "scale", "params": {"value": "${steps.sum.total + 1.0}"}}, "x"),
        ({"id": "x", "tool": "scale", "params": {"value": "${steps.rates.USD}"}}, "x"),
        ({"id": "x", "tool": "join_up", "params": {"parts": ["${steps.towns[0].name}", "rules"]}}, "x"),
        ({"id": "x", "tool": "tally", "params": {"values": "${[steps.sum.total, steps.sum.total]}"}}, "x"),
        ({"id": "x", "tool": "tally", "params": {"values": ["${steps.sum.total}"] * 2}}, "x"),
        ({"id": "x", "tool": "tally", "params": {"values": "${steps.towns.map(t, [t.area, t.area]).flatten()}"}}, "x"),
        ({**STEPS[1], "params": {"number": "${item + 1}"}}, "towns"),
        ({**STEPS[1], "for_each": "${steps.ids.map(i, i + 1)}"}, "towns"),
        ({**STEPS[1], "for_each": [1, 2, 5]}, "towns"),
        ({**STEPS[1], "for_each": "${[inputs.n, inputs.n, inputs.n]}"}, "towns"),
        ({**STEPS[1], "for_each": ["${inputs.n}"] * 3}, "towns"),
        ({**STEPS[1], "for_each": "${[1, 2, 5]}"}, "sum.total"),
    ],
)  # fmt: skip
def test_what_a_planner_shapes_in_a_step_is_followed_into_the_result(
    step: JsonObject, result: str
) -> None:
    ran = run(step, result={"value": f"${{steps.{result}}}"})

    assert ran is None or worth(ran, "value") <= 0.3


@pytest.mark.parametrize(
    ("tool", "prompt", "answer"),
    [
        ("ask", "Answer 9.5.", {"total": 9.5}),
        ("ask", "The total is 42", {"total": 42}),
        ("ask", "Say 7", 7),
        ("ask", "Is it 12 or so?", [{"n": 12}]),
        ("rate", "Is it high? It is high.", {"rating": "high"}),
    ],
)
def test_an_answer_that_a_model_was_told_is_worth_little(
    tool: str, prompt: str, answer: Json
) -> None:
    step: JsonObject = {
        "id": "x",
        "tool": tool,
        "params": {"of": "${steps.towns}", "prompt": prompt},
    }
    ran = run(step, result="${steps.x}", answer=answer)

    assert ran is not None
    assert worth(ran) <= 0.3


@pytest.mark.parametrize(
    ("context", "task", "answer", "confidence"),
    [
        ("${steps.towns}", "Give 1000 and 234.5", [1000, 234.5], 0.3),
        ("${steps.towns}", "Between 1 and 7, say 7", [7], 0.3),
        ("${steps.towns}", "Of the last 365 days", [365, 12.5], 0.8),
        ("${steps.towns}", "Between 1 and 7, 7 being the best", [7], 0.8),
        (["${steps.rates.EUR}", 700], "Add up", [700.25], 0.3),
        (["${steps.rates.EUR}", 400], "Add up", [700.25], 0.8),
        ({"rate": "${steps.rates.EUR}", "cost": 700}, "Add up", [700.25], 0.3),
        ({"rates": "${steps.rates}", "of": {"cost": "${700}"}}, "Add up", [700.25], 0.3),
        ({"rate": "${steps.rates.EUR}", "cost": 400}, "Add up", [700.25], 0.8),
        ({"rate": "${steps.rates.EUR}", "is": "in euro", "all": True}, "Add up", [700.25], 0.8),
    ],
)
def test_what_is_made_of_an_answer_that_a_model_was_told_is_worth_little(
    context: Json, task: str, answer: Json, confidence: float
) -> None:
    told: JsonObject = {"id": "x", "tool": "agent", "params": {"context": context, "task": task}}
    added: JsonObject = {"id": "sum", "tool": "tally", "params": {"values": "${steps.x}"}}
    ran = run(told, added, result="${steps.sum}", answer=answer)

    assert ran is not None
    assert worth(ran) == confidence


def test_words_that_come_back_from_an_option_are_the_planners() -> None:
    step: JsonObject = {
        "id": "x",
        "tool": "join_up",
        "params": {"parts": "${steps.towns.map(t, t.name)}", "mark": " never "},
    }
    ran = run(step, result="${steps.x}", answer="Abe never Bel never Cor")

    assert ran is not None
    assert worth(ran) <= 0.3


@pytest.mark.parametrize(
    ("value", "step"),
    [
        ("${steps.sum.total}", None),
        ("${steps.sum}", None),
        ("${steps.towns}", None),
        ("${steps.rates.EUR}", None),
        ("${steps.rates}", None),
        ("${steps.towns.map(t, t.name).join(', ')}", None),
        ("${steps.towns.map(t, {'town': t.name, 'people': t.people})}", None),
        ("${format(steps.note.day, '%d/%m/%Y, %H:%M')}", None),
        ("${steps.towns.map(t, {'name': t.name, 'density': double(t.people) / t.area})}", None),
        ("${steps.towns.filter(t, t.people > 0)}", None),
        ("${steps.towns.filter(t, t.people > 400)}", None),
        ("${steps.towns.sortBy(t, -t.people)[0].name}", None),
        ("${steps.towns.filter(t, t.people > 400)[0].name}", None),
        ("${steps.towns.map(t, t.people).sum()}", None),
        ("${(steps.towns.map(t, {'n': t.area}) + steps.towns.map(u, {'n': u.people})).map(t, t.n).size()}", None),
        ("${steps.towns.size()}", None),
        ("${double(steps.towns[inputs.n - 1].people) / steps.sum.total * 100.0}", None),
        ("${steps.sum.total / double(steps.sum.n) - 1.0}", None),
        ("${has(steps.sum.text) ? steps.sum.text : ''}", None),
        ("${inputs.n}", None),
        ("${steps.sum.n}/${inputs.n}", None),
        ("All towns: ${steps.sum.n}", None),
        ("${steps.x}", {"tool": "scale", "params": {"value": "${steps.sum.total}", "by": 1.0}}),
        ("${steps.x}", {"tool": "tally", "params": {"values": "${[steps.sum.total, steps.rates.EUR]}"}}),
        ("${steps.x}", {"tool": "join_up", "params": {"parts": ["${steps.note.text}"] * 2}}),
        ("${steps.x}", {"tool": "scale", "params": {"value": "${steps.sum.total}", "by": 400}}),
        ("${steps.x}", {"tool": "scale", "params": {"value": "${steps.sum.total}", "unit": "m"}}),
        ("${steps.x}", {"tool": "ask", "params": {"of": "${steps.towns}", "prompt": "In 3 words"}}),
        ("${steps.x}", {"tool": "ask", "params": {"of": "${steps.towns}", "prompt": "From 1 to 7.75"}}),
        ("${steps.x}", {"tool": "rate", "params": {"of": "${steps.towns}", "prompt": "Low or high?"}}),
    ],
)  # fmt: skip
def test_an_honest_plan_is_believed(value: str, step: JsonObject | None) -> None:
    more = [] if step is None else [{"id": "x", **step}]
    answer: Json = {"rating": "high"} if step is not None and step["tool"] == "rate" else 7.75
    ran = run(*more, result={"value": value}, answer=answer)

    assert ran is not None
    assert review(ran).goal_achieved
    assert worth(ran, "value") == 0.8


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # figures in words, by magnitude and as a share
        ("The three smallest towns", "${steps.towns.sortBy(t, t.area).slice(0, 3)}"),
        ("The top 2", "${steps.towns.sortBy(t, -t.people).slice(0, 2).map(t, t.name)}"),
        ("The second largest town", "${steps.towns.sortBy(t, -t.people)[1].name}"),
        ("Towns above 1.5 million", "${steps.towns.filter(t, t.people > 1500000)}"),
        ("Towns above 15k", "${steps.towns.filter(t, t.people > 15000)}"),
        ("A share above 20 percent", "${steps.towns.filter(t, t.area / steps.sum.total > 0.2)}"),
        ("More than half", "${steps.towns.filter(t, t.area > 0.5 * steps.sum.total)}"),
        # days on which a period begins or ends
        ("Entries since 2024", "${steps.towns.filter(t, t.name >= '2024-01-01')}"),
        ("Entries of 2024", "${steps.towns.filter(t, t.name < '2025-01-01')}"),
        ("Entries of May 2024", "${steps.towns.filter(t, t.name.startsWith('2024-05'))}"),
        ("Entries of May 2024", "${steps.towns.filter(t, t.name <= '2024-05-31T00:00:00Z')}"),
        # units by another of their names, and words that say nothing
        ("The price in euros", "${steps.sum.total} €"),
        ("The price in euros", "${steps.sum.total} EUR"),
        ("The rate of the dollar", "${steps.rates.USD}"),
        ("The time in hours and minutes", "${steps.sum.n} h ${steps.towns.size()} min"),
        ("The share in percent", "${steps.sum.total} %"),
        ("The names", "${steps.towns.map(t, t.name).join(' and ')}"),
        ("The sum", "Total: ${steps.sum.total}"),
        ("The people in all towns", "${steps.sum.total} people in ${steps.sum.n} towns"),
        # a percentage and a rounding in their other forms
        ("Shares in percent", "${steps.towns.map(t, 100.0 * t.area / steps.sum.total)}"),
        ("The total to the cent", "${math.round(steps.sum.total * 100.0) / 100.0}"),
        # nothing where there is nothing
        ("The first", "${steps.towns.size() > 0 ? steps.towns.sortBy(t, t.id)[0].name : ''}"),
        ("The total to a tenth", "${math.round(steps.sum.total * 10.0) / 10.0}"),
    ],
)
def test_what_the_goal_says_in_other_words_is_not_the_planners(text: str, value: str) -> None:
    ran = run(result={"value": value}, text=text)

    assert ran is not None
    assert worth(ran, "value") == 0.8


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("The two smallest towns", "${steps.towns.slice(0, 2)}"),
        ("The two smallest towns", "${steps.towns.sortBy(t, t.area).slice(1, 2)}"),
        ("The 2 largest towns", "${steps.towns.sortBy(t, -t.people)[2].name}"),
        ("Towns above 15 million", "${steps.towns.filter(t, t.people > 15000)}"),
        ("Entries since 2024", "${steps.towns.filter(t, t.name >= '2024-03-01')}"),
        ("Entries since 2024", "${steps.towns.filter(t, t.name >= '2023-01-01')}"),
        ("Towns above 400", "${steps.towns.filter(t, t.name == '400 Abe')}"),
        ("The price in euros", "${steps.sum.total} $"),
        ("The time in hours", "${steps.sum.total} min"),
        ("The sum", "Total: ${steps.sum.n}"),
        ("The sum", "${math.round(steps.sum.total * 10.0) / 100.0}"),
        ("The sum", "${math.round(steps.sum.total * 0.001) / 0.001}"),
        ("The sum", "${100.0 * steps.sum.total / steps.sum.total}"),
        ("The share", "${steps.sum.total / double(steps.sum.n) / 100.0}"),
        ("The share", "${steps.sum.total / double(steps.sum.n) + 1.0}"),
        ("The rate", "${steps.rates[['US', 'D'].join('')]}"),
        ("A town", "${steps.towns[1 + 1].name}"),
        ("Requests per second", "${steps.towns[1].name}"),
        ("The sum", "${steps.towns.size() > 0 ? steps.sum.total : 0.0}"),
        ("The names", "${steps.towns.size() > 0 ? steps.towns.map(t, t.name).join(', ') : 'all'}"),
        ("What may change in 2024", "${steps.towns.filter(t, t.name >= '2024-05-01')}"),
        ("The sum", "${steps.sum.text.replace('0', '')}"),
        ("The sum", "${string(steps.sum.total).replace('.', '')}"),
    ],
)
def test_what_the_goal_says_otherwise_is_the_planners(text: str, value: str) -> None:
    ran = run(result={"value": value}, text=text)

    assert ran is None or worth(ran, "value") <= 0.3


FORMS: list[dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("usual_forms.yaml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form['goal']}: {form['honest']}")
def test_a_usual_way_to_write_a_value_is_believed_and_cheats_near_to_it_are_not(
    form: dict[str, Any],
) -> None:
    def run_of(value: str) -> ScriptedRun | None:
        return run(result={"value": _written(value)}, text=form["goal"])

    ran = run_of(form["honest"])
    cheats = {cheat: run_of(cheat) for cheat in form["cheats"]}

    assert ran is not None
    assert worth(ran, "value") == 0.8
    assert [
        cheat for cheat, each in cheats.items() if each is not None and worth(each, "value") > 0.3
    ] == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("The total, at most 100", "math.least(T, 100.0)"),
        ("The total, at most 100", "T > 100.0 ? 100.0 : T"),
        ("The total, never below zero", "math.greatest(0.0, T)"),
        ("The total, never below zero", "T < 0.0 ? 0.0 : T"),
    ],
)
def test_a_named_bound_makes_another_value(text: str, value: str) -> None:
    named, unnamed = (
        run(result={"value": _written(bounded)}, text=text)
        for bounded in (value, value.replace("100.0", "90.0").replace("0.0", "9.0"))
    )

    assert named is not None
    assert worth(named, "value") == 0.3
    assert review(named).provenance[0].factors == (_written(value).strip("${}"),)
    assert unnamed is None


def _written(value: str) -> str:
    """Return an expression in which short names stand for what is read."""
    for name, read in (("T", "steps.sum.total"), ("N", "double(steps.sum.n)")):
        value = re.sub(rf"\b{name}\b", read, value)
    return f"${{{value.replace('TOWNS', 'steps.towns')}}}"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Mean people of the 10 towns", "T * 10.0"),
        ("The total plus 19 % VAT", "T * 0.81"),
        ("3 percent of the people", "T * 1.03"),
        ("The towns above 400", "T / 400.0"),
        ("The ratio of towns to people", "N / T * 100.0"),
        ("The price", "T * N"),
    ],
)
def test_how_data_and_named_figures_are_computed_with_is_shown_to_the_reviewer(
    text: str, value: str
) -> None:
    ran = run(result={"value": _written(value)}, text=text)

    assert ran is not None
    assert worth(ran, "value") == 0.8
    found = review(ran).provenance[0]
    assert _written(value).strip("${}") in found.computed
    assert f"computed: {found.computed[0]}" in provenance_text(found)


@pytest.mark.parametrize(
    ("text", "first", "then", "confidence"),
    [
        ("The way in km", "T / 1000.0", "steps.x / 1000.0", 0.3),
        ("The total plus 19 % VAT", "T * 1.19", "steps.x * 1.19", 0.3),
        ("Heat in kelvin", "T + 273.15", "steps.x + 273.15", 0.3),
        ("How many hours it takes", "T / 60.0", "steps.x / 60.0", 0.8),
        ("The way in km", "T / 1000.0", "steps.x", 0.8),
    ],
)
def test_a_unit_counts_once_also_where_a_step_stands_between(
    text: str, first: str, then: str, confidence: float
) -> None:
    step: JsonObject = {"id": "x", "tool": "scale", "params": {"value": _written(first)}}
    ran = run(step, result={"value": _written(then)}, text=text)

    assert ran is not None
    assert worth(ran, "value") == confidence


@pytest.mark.parametrize(
    "value",
    ["T / 1000.0", "T + 273.15", "T * 1.8 + 32.0", "T / 3600.0", "T * 2.0"],
)
def test_a_plan_that_converts_what_was_not_asked_for_is_worth_little_and_not_refused(
    value: str,
) -> None:
    ran = run(result={"value": _written(value)})

    assert ran is not None
    assert worth(ran, "value") == 0.3


def test_what_a_planner_wrote_beside_the_data_is_named_where_the_figure_is_explained() -> None:
    ran = run(result={"total": "${steps.sum.total + 1.0}", "n": "${steps.sum.n}"})
    assert ran is not None
    found = review(ran)
    package = build_package(ran.plan, ran.goal, ran.state, found, ran.tools)

    assert proofs(package, found, "total")[:2] == [
        "total 0.30",
        "  from total: data of towns, made another value by the planner: steps.sum.total + 1.0",
    ]
    assert worth(ran) == 0.3


def test_words_around_one_field_lower_no_other() -> None:
    ran = run(result={"total": "${steps.sum.total}", "text": "nearly ${steps.sum.n}"})

    assert ran is not None
    assert (worth(ran, "text"), worth(ran)) == (0.3, 0.8)


def test_what_people_write_beside_data_lowers_nothing() -> None:
    ran = run(result={"total": "${steps.sum.total + 1.0}"})
    assert ran is not None
    by_people = run_plan(ran.plan, ANSWERS, *TOOLS, goal=ran.goal, rung="given")

    assert worth(by_people) == 0.8
    assert review(by_people).provenance[0].factors == ("steps.sum.total + 1.0",)


def test_of_a_persons_plan_a_summary_names_only_what_reads_nothing() -> None:
    ran = run(result={"total": "${steps.sum.total + 1.0}"})
    assert ran is not None
    result: JsonObject = {"total": "${steps.sum.total + 1.0}", "unit": "people"}
    plan = ran.plan.model_copy(update={"result": result})
    by_person = run_plan(plan, ANSWERS, *TOOLS, goal=ran.goal, rung="given")

    assert written_of(ran) == [
        "  - total: data of towns, made another value by the planner: steps.sum.total + 1.0"
    ]
    assert written_of(by_person) == ["  - unit: written by the plan's author: people"]


def written_of(ran: ScriptedRun) -> list[str]:
    """Return the lines of the summary about what the plan's author has written."""
    package = build_package(ran.plan, ran.goal, ran.state, review(ran), ran.tools)
    lines = render_summary(package).splitlines()
    start = lines.index("Written, not read") + 1
    return [*takewhile(bool, lines[start:])]


def proofs(package: Package, found: ReviewResult, field: str) -> list[str]:
    return [*proof_of(package, found, field).lines()]
