"""The plain form of an expression: other ways to write one thing have one form, other things have not."""

from __future__ import annotations

import pytest

from wavewright.planner.cel.nodes import ExpressionNode, all_nodes
from wavewright.planner.cel.parser import parse_expression
from wavewright.planner.cel.plain_form import plain_form, without_places


def form(expression: str) -> ExpressionNode:
    return without_places(plain_form(parse_expression(expression)))


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("((a) + (b))", "a + b"),
        ("a['b']['c d'].e", "a.b.`c d`.e"),
        ("size(a) + sum(a)", "a.size() + a.sum()"),
        ("1 < a && 'x' == a.b", "a > 1 && a.b == 'x'"),
        ("cel.bind(x, a.b, x + x)", "a.b + a.b"),
        ("cel.bind(x, a, cel.bind(y, x.b, y + x.c))", "a.b + a.c"),
        ("a.map(x, x.n)", "a.map(y, y.n)"),
        ("a.map(x, x.map(x, x))", "a.map(x, x.map(y, y))"),
        ("cel.bind(x, y, a.map(y, x + y))", "a.map(z, y + z)"),
        ("cel.bind(x, a.map(y, y.n), b.map(y, x + y))", "b.map(z, a.map(y, y.n) + z)"),
        (
            "a.map(k, cel.bind(x, b.map(y, y + k), c.map(z, z + k + x)))",
            "a.map(k, c.map(z, z + k + b.map(y, y + k)))",
        ),
        ("a.filter(x, x > 1).size() > 0", "a.exists(x, x > 1)"),
        ("0 != size(a.filter(x, 1 < x))", "a.exists(x, x > 1)"),
        ("a.filter(x, x > 1).size() < 1", "!a.exists(x, x > 1)"),
        ("[] == a.filter(x, x > 1)", "!a.exists(x, x > 1)"),
        ("a.map(x, 1).sum()", "a.size()"),
        ("a.map(x, x > 2, 1.0).sum()", "a.filter(x, x > 2).size()"),
        ("a.map(x, x > 2, x.n).size() > 0", "a.exists(x, x > 2)"),
    ],
)
def test_what_is_written_in_two_ways_has_one_form(written: str, plain: str) -> None:
    assert form(written) == form(plain)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("a.filter(x, x > 1).size() > 1", "a.exists(x, x > 1)"),
        ("a.map(x, 2).sum()", "a.size()"),
        ("a.map(x, true)", "a.map(x, 1)"),
        ("a[0]", "a['0']"),
        ("a < b", "a > b"),
        ("1 < 2", "2 > 1"),
    ],
)
def test_what_is_another_thing_has_another_form(left: str, right: str) -> None:
    assert form(left) != form(right)


def test_names_within_names_stand_for_themselves_before_they_grow_without_end() -> None:
    names = [f"x{number}" for number in range(24)]
    text = "".join(
        f"cel.bind({name}, {before} + {before}, "
        for before, name in zip(["a", *names], names, strict=False)
    )
    tree = plain_form(parse_expression(f"{text}{names[-1]}{')' * len(names)}"))

    assert sum(1 for _ in all_nodes(tree)) < 5_000
