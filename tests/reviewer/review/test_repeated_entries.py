"""Entries that count more than once, because a planner's plan joins calls that overlap."""

from __future__ import annotations

import pytest

from tests.reviewer.review.test_evidence import ADD_UP, FETCH, overall, review
from tests.reviewer.scripted_runs import goal_for, plan_of, run_plan
from wavewright.planner.types import Json, JsonObject


def rows_of(*codes: str, price: float = 1.0) -> list[Json]:
    return [{"code": code, "price": price} for code in codes]


@pytest.mark.parametrize(
    ("rows", "more", "joined", "worth"),
    [
        (rows_of("A", "B"), rows_of("B", "C"), "${steps.rows + steps.more}", 0.3),
        ({"page": rows_of("A", "B")}, rows_of("B"), "${steps.rows.page + steps.more}", 0.3),
        (rows_of("A", "B"), rows_of("C"), "${steps.rows + steps.more}", 0.8),
        (rows_of("A", "B"), rows_of("B", price=2.0), "${steps.rows + steps.more}", 0.8),
        # Twice in one output is twice in the data, and figures may be equal by chance.
        (rows_of("A", "A"), rows_of("C"), "${steps.rows + steps.more}", 0.8),
        ([1.0, 2.0], [2.0], "${steps.rows + steps.more}", 0.8),
    ],
)
def test_what_calls_that_overlap_have_both_given_counts_once(
    rows: Json, more: Json, joined: str, worth: float
) -> None:
    plan = plan_of(
        {"id": "rows", "tool": "fetch", "params": {"days": "${inputs.n}"}},
        {"id": "more", "tool": "fetch", "params": {"days": "${inputs.n}", "source": "live"}},
        {"id": "sum", "tool": "add_up", "params": {"of": joined}},
        result={"total": "${steps.sum}"},
    )
    goal = goal_for(plan, inputs={"n": 3})
    answers: dict[str, object] = {"rows": rows, "more": more, "sum": 6.5}
    by_planner, by_person = (
        review(run_plan(plan, answers, FETCH, ADD_UP, goal=goal, rung=rung))
        for rung in ("llm", "given")
    )

    assert overall(by_planner).capped == worth
    assert overall(by_person).capped == 0.8


OF_FIRST = "steps.ids.map(i, {'name': i, 'of': steps.ids[0]})"
WITH_FIRST = "zip(steps.ids, steps.ids.map(i, steps.ids[0]))"


@pytest.mark.parametrize(
    ("items", "asked", "worth"),
    [
        ("${steps.ids}", "A", 0.3),
        ("${steps.ids}", "${steps.ids[0]}", 0.3),
        ("${steps.ids.map(i, {'name': i, 'of': steps.ids[0]})}", "${item.of}", 0.3),
        ("${inputs.of.map(i, {'name': i, 'of': inputs.of[0]})}", {"code": "${item.of}"}, 0.3),
        ("${steps.ids}", "${item}", 0.8),
        ("${steps.ids}", "${steps.ids[index]}", 0.8),
        ("${steps.ids.map(i, {'name': i, 'of': i})}", "${item.of}", 0.8),
        (f"${{{OF_FIRST}.sortBy(i, i.name)}}", "${item.of}", 0.3),
        (f"${{{OF_FIRST}.distinct().map(i, [i.name, i.of])}}", "${item[1]}", 0.3),
        (f"${{{OF_FIRST}.distinct().map(i, [i.name, i.of])}}", "${item[0]}", 0.8),
        (f"${{{WITH_FIRST}}}", "${item[1]}", 0.3),
        (f"${{{WITH_FIRST}}}", "${item[0]}", 0.8),
        (f"${{{WITH_FIRST}.map(p, {{'name': p[0], 'of': p[1]}})}}", "${item.of}", 0.3),
        (f"${{{WITH_FIRST}.map(p, {{'name': p[0], 'of': p[1]}})}}", "${item.name}", 0.8),
        ([{"name": "A", "of": "A"}, {"name": "B", "of": "A"}], "${item.of}", 0.3),
        ([{"name": "A", "of": "A"}, {"name": "B", "of": "A"}], {"code": "${item}"}, 0.8),
    ],
)
def test_a_record_that_no_call_asks_for_by_its_item_counts_once(
    items: Json, asked: Json, worth: float
) -> None:
    plan = plan_of(
        {"id": "ids", "tool": "fetch"},
        {"id": "rows", "tool": "fetch", "for_each": items, "params": {"of": asked}},
        {"id": "sum", "tool": "add_up", "params": {"of": "${steps.rows}"}},
        result={"total": "${steps.sum}"},
    )
    goal = goal_for(plan, inputs={"of": ["A", "B"]})
    answers: dict[str, object] = {"ids": ["A", "B"], "rows": rows_of("A", "A"), "sum": 2.0}

    assert (
        overall(review(run_plan(plan, answers, FETCH, ADD_UP, goal=goal, rung="llm"))).capped
        == worth
    )


@pytest.mark.parametrize(("result", "worth"), [("call.price", 0.8), ("call.rate", 0.3)])
def test_what_a_sub_plan_reads_for_each_item_alone_counts_once_an_item(
    result: str, worth: float
) -> None:
    each: JsonObject = {"for_each": "${steps.ids}"}
    plan = plan_of(
        {"id": "ids", "tool": "fetch"},
        {"id": "call.rate", "tool": "fetch", "params": {"of": "A"}, **each},
        {"id": "call.price", "tool": "fetch", "params": {"of": "${item}", "at": "${steps.`call.rate`[index]}"}, **each},
        {"id": "call", "tool": "sub_plan", "params": {"result": f"${{steps.`{result}`[index]}}"}, **each},
        {"id": "sum", "tool": "add_up", "params": {"of": "${steps.call}"}},
        result={"total": "${steps.sum}"},
    )  # fmt: skip
    rates = rows_of("A", "A")
    prices = rows_of("A", "B")
    answers: dict[str, object] = {
        "ids": ["A", "B"],
        "call.rate": rates,
        "call.price": prices,
        "call": prices if result == "call.price" else rates,
        "sum": 2.0,
    }
    goal = goal_for(plan, inputs={"of": ["A", "B"]})
    found = review(run_plan(plan, answers, FETCH, ADD_UP, goal=goal, rung="llm"))

    assert overall(found).capped == worth


def test_calls_that_are_made_twice_are_named() -> None:
    plan = plan_of(
        {"id": "first", "tool": "fetch", "params": {"days": "${inputs.n}"}},
        {"id": "second", "tool": "fetch", "params": {"days": "${inputs.n}", "source": "live"}},
        {"id": "prices", "tool": "fetch", "for_each": "${steps.first + steps.second}", "params": {"of": "${item}"}},
        {"id": "sum", "tool": "add_up", "params": {"of": "${steps.prices}"}},
        result={"total": "${steps.sum}"},
    )  # fmt: skip
    answers: dict[str, object] = {
        "first": ["A", "B"],
        "second": ["B", "C"],
        "prices": [1, 2, 2, 3],
        "sum": 8,
    }
    goal = goal_for(plan, inputs={"n": 3})
    found = review(run_plan(plan, answers, FETCH, ADD_UP, goal=goal, rung="llm"))

    named = "1 entry came more than once to 'prices': B"
    assert overall(found).lowered_by[-1] == f"at most 0.3: {named}"


ORDERS: list[Json] = [{"id": "o1", "town": "A"}, {"id": "o2", "town": "B"}]
TOWNS = "${steps.first.map(o, o.town) + steps.second.map(o, o.town)}"


@pytest.mark.parametrize(
    ("first", "second", "of_second", "items", "calls", "worth"),
    [
        # Two orders of one town are two orders, and one order on two pages is one.
        (ORDERS, [{"id": "o3", "town": "A"}], "${inputs.of.one}", TOWNS, 3, 0.8),
        (ORDERS, ORDERS[:1], "${inputs.of.one}", TOWNS, 3, 0.3),
        (
            {"page": 1, "rows": ORDERS},
            ORDERS[:1],
            "all",
            TOWNS.replace("first", "first.rows"),
            3,
            0.3,
        ),
        # Lines that are equal in two orders are no order twice.
        (
            [{"id": "o1", "lines": [{"code": "A"}]}],
            [{"id": "o2", "lines": [{"code": "A"}]}],
            "${inputs.of.one}",
            "${(steps.first + steps.second).map(o, o.lines).flatten()}",
            2,
            0.8,
        ),
        # Two accounts of the job that hold one share hold it twice.
        (["A", "B"], ["B", "C"], "${inputs.of.two}", "${steps.first + steps.second}", 4, 0.8),
        (["A", "B"], ["B", "C"], "all", "${steps.first + steps.second}", 4, 0.3),
        (["A", "B"], ["B", "C"], "${inputs.of}", "${steps.first + steps.second}", 4, 0.3),
        (
            {"code": "A"},
            {"code": "A"},
            "${inputs.of.two}",
            ["${steps.first}", "${steps.second}"],
            2,
            0.8,
        ),
        (
            {"code": "A"},
            {"code": "A"},
            "${inputs.of.one}",
            ["${steps.first}", "${steps.second}"],
            2,
            0.3,
        ),
    ],
)
def test_equal_calls_count_once_where_what_asks_for_them_is_the_same(
    first: Json, second: Json, of_second: str, items: Json, calls: int, worth: float
) -> None:
    plan = plan_of(
        {"id": "first", "tool": "fetch", "params": {"of": "${inputs.of.one}"}},
        {"id": "second", "tool": "fetch", "params": {"of": of_second, "source": "live"}},
        {"id": "prices", "tool": "fetch", "for_each": items, "params": {"of": "${item}"}},
        {"id": "sum", "tool": "add_up", "params": {"of": "${steps.prices}"}},
        result={"total": "${steps.sum}"},
    )
    goal = goal_for(plan, inputs={"of": {"one": "x", "two": "y"}})
    answers: dict[str, object] = {
        "first": first,
        "second": second,
        "prices": [1.5] * calls,
        "sum": 8,
    }

    found = review(run_plan(plan, answers, FETCH, ADD_UP, goal=goal, rung="llm"))

    assert overall(found).capped == worth


CACHED: list[Json] = [{"id": 1, "price": 1.5, "source": "cache"}]
LIVE: list[Json] = [{"id": 1, "price": 1.5, "source": "live"}]
AGAIN: JsonObject = {"of": "x", "source": "live"}


@pytest.mark.parametrize(
    ("of_second", "value", "worth"),
    [
        # What only repeats how an entry was fetched tells it from no other.
        (AGAIN, "${steps.first + steps.second}", 0.3),
        (AGAIN, "${(steps.first + steps.second).map(r, r.price).sum()}", 0.3),
        (AGAIN, "${steps.first.map(r, r.price).sum() + steps.second.map(r, r.price).sum()}", 0.3),
        (AGAIN, "${steps.sum.total + steps.other_sum.total}", 0.3),
        (AGAIN, "${[steps.sum.total, steps.other_sum.total].sum()}", 0.3),
        (AGAIN, "${([steps.sum.total, steps.other_sum.total]).sum()}", 0.3),
        (AGAIN, "${sum([steps.sum.total, steps.other_sum.total])}", 0.3),
        (AGAIN, "${[steps.sum, steps.other_sum].map(s, s.total).sum()}", 0.3),
        (AGAIN, "${[steps.sum, steps.sum].map(s, s.total)[0]}", 0.8),
        # One beside the other, one of both and what is left of both count nothing twice.
        (AGAIN, {"first": "${steps.first}", "second": "${steps.second}"}, 0.8),
        (AGAIN, "${steps.sum.total - steps.other_sum.total}", 0.8),
        (AGAIN, "${(steps.first + steps.second).map(r, r.price).max()}", 0.8),
        (AGAIN, "${steps.first + steps.second.filter(r, !steps.first.exists(o, o.id == r.id))}", 0.8),
        # Subjects are told apart by what the job names, and not by what stands beside them.
        ({"of": "north"}, "${steps.first + steps.second}", 0.8),
        ({"of": "south"}, "${steps.first + steps.second}", 0.3),
        ({"of": "x", "query": "north"}, "${steps.first + steps.second}", 0.3),
        ({"of": "x", "days": "${inputs.n}"}, "${steps.first + steps.second}", 0.3),
    ],
)  # fmt: skip
def test_entries_that_are_fetched_twice_count_once_wherever_they_are_joined(
    of_second: JsonObject, value: Json, worth: float
) -> None:
    plan = plan_of(
        {"id": "first", "tool": "fetch", "params": {"of": "x", "query": "all", "most": "${inputs.m}"}},
        {"id": "second", "tool": "fetch", "params": {"query": "all", **of_second}},
        {"id": "sum", "tool": "add_up", "params": {"of": "${steps.first}"}},
        {"id": "other_sum", "tool": "add_up", "params": {"of": "${steps.second}"}},
        result={"value": value},
    )  # fmt: skip
    goal = goal_for(plan, inputs={"n": 3, "m": 4}, text="All that shop x has, and the shop north")
    total: JsonObject = {"total": 1.5}
    answers: dict[str, object] = {
        "first": CACHED,
        "second": LIVE,
        "sum": total,
        "other_sum": total,
    }
    found = review(run_plan(plan, answers, FETCH, ADD_UP, goal=goal, rung="llm"))

    assert overall(found).capped == worth


MONDAY: list[Json] = [{"id": 1, "n": 1.0}, {"id": 2, "n": 2.0}]
PAGES: list[Json] = [MONDAY[:1], MONDAY[1:]]


@pytest.mark.parametrize(
    ("first", "second", "query", "worth"),
    [
        # What two questions about a thing have as equal answers, such as its prices on two days, is no
        # entry twice; where all are equal it is one question.
        (MONDAY, [{"id": 1, "n": 1.0}, {"id": 2, "n": 3.0}], "tuesday", 0.8),
        (MONDAY, MONDAY, "tuesday", 0.3),
        (MONDAY, [{"id": 1, "n": 1.0}, {"id": 2, "n": 3.0}], "monday", 0.3),
        # A row on two pages is one row.
        (PAGES, [[{"id": 1, "n": 1.0}], [{"id": 3, "n": 3.0}]], "tuesday", 0.3),
    ],
)
@pytest.mark.parametrize("place", ["result", "step"])
def test_equal_answers_to_two_questions_about_one_list_count_each(
    first: list[Json], second: list[Json], query: str, worth: float, place: str
) -> None:
    rows = "(steps.first + steps.second)" + (".flatten()" if first is PAGES else "")
    asked: JsonObject = {"tool": "fetch", "for_each": "${inputs.of}"}
    added = f"${{{rows}}}" if place == "step" else "${steps.first}"
    plan = plan_of(
        {**asked, "id": "first", "params": {"of": "${item}", "query": "monday"}},
        {**asked, "id": "second", "params": {"of": "${item}", "query": query, "source": "live"}},
        {"id": "sum", "tool": "add_up", "params": {"of": added}},
        result={"n": "${steps.sum}" if place == "step" else f"${{{rows}.map(r, r.n).sum()}}"},
    )
    answers: dict[str, object] = {"first": first, "second": second, "sum": 7.0}
    goal = goal_for(plan, inputs={"of": [1, 2]})
    found = review(run_plan(plan, answers, FETCH, ADD_UP, goal=goal, rung="llm"))

    assert overall(found).capped == worth
