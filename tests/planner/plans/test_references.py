"""References: found in text, read, rendered and renamed."""

from __future__ import annotations

import datetime as dt
import json
from typing import NoReturn

import pytest
from hypothesis import assume, given, settings, strategies as st

from tests.crash.run_size import volume
from wavewright.planner.cel.embedded import (
    EmbeddedExpression,
    bare_expression,
    iterate_strings,
    join_references,
    reads,
    split_references,
)
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.plain_paths import Read
from wavewright.planner.plans.binding import repointing
from wavewright.planner.plans.expressions import (
    compile_render,
    evaluate,
    rename_in_expression,
    render,
)
from wavewright.planner.types import Json, StepId

NOON = dt.datetime(2010, 3, 1, 12, tzinfo=dt.UTC)
VALUES: dict[str, Json] = {
    "inputs": {
        "n": 3,
        "half": 0.5,
        "whole": 2.0,
        "none": None,
        "text": "a ${inputs.n} b",
        "yes": True,
    },
    "steps": {"prices": [{"code": "GNP"}], "summary": {"é": 1, "list": [1, "x"]}},
    "item": {"code": "SKS"},
}


def expressions(text: str) -> list[str]:
    return [
        part.expression for part in split_references(text) if isinstance(part, EmbeddedExpression)
    ]


def asked(expression: str) -> Json:
    return evaluate(expression, VALUES, NOON)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        pytest.param("", (), id="empty"),
        pytest.param("plain $ {text}", ("plain $ {text}",), id="plain"),
        pytest.param("${a.b}", (EmbeddedExpression("a.b", 0, 6, 2),), id="whole"),
        pytest.param("x ${a} y", ("x ", EmbeddedExpression("a", 2, 6, 4), " y"), id="mixed"),
        pytest.param(
            "${a}${b}",
            (EmbeddedExpression("a", 0, 4, 2), EmbeddedExpression("b", 4, 8, 6)),
            id="side-by-side",
        ),
        pytest.param("$${a}", ("${a}",), id="literal"),
        pytest.param("$$${a}", ("$${a}",), id="dollar-before-literal"),
        pytest.param(
            "$${ ${a}", ("${ ", EmbeddedExpression("a", 4, 8, 6)), id="literal-then-reference"
        ),
        pytest.param(
            "${ {'k': {'l': 1}}.k }",
            (EmbeddedExpression(" {'k': {'l': 1}}.k ", 0, 22, 2),),
            id="maps",
        ),
        pytest.param(
            """${'}' + "{"}!""",
            (EmbeddedExpression("""'}' + "{\"""", 0, 12, 2), "!"),
            id="braces-in-strings",
        ),
        pytest.param(r"${r'\'}", (EmbeddedExpression(r"r'\'", 0, 7, 2),), id="raw-string"),
        pytest.param(
            "${'''it's }'''}", (EmbeddedExpression("'''it's }'''", 0, 15, 2),), id="triple-quotes"
        ),
        pytest.param(
            "${a // } no\n}", (EmbeddedExpression("a // } no\n", 0, 13, 2),), id="comment"
        ),
    ],
)
def test_references_are_found_in_text(
    text: str, parts: tuple[str | EmbeddedExpression, ...]
) -> None:
    assert split_references(text) == parts
    assert join_references(parts) == text


@pytest.mark.parametrize("text", ["${", "x ${a", "${{}", "${a // }", "${a} ${b"])
def test_an_open_reference_is_a_fault_at_its_place(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        split_references(text)

    assert caught.value.kind == "unclosed_reference"
    assert caught.value.offset == text.rindex("${")


@given(st.text(st.sampled_from("ab${}'\" \n\\")))
def test_printing_what_was_parsed_gives_the_text_again(text: str) -> None:
    try:
        parts = split_references(text)
    except ExpressionError:
        assume(False)
        raise

    assert join_references(parts) == text


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        pytest.param("steps.prices[0].code", [("steps", "prices", False, 6)], id="path"),
        pytest.param("steps['prices']", [("steps", "prices", False, 6)], id="quoted"),
        pytest.param(
            "inputs.stocks[index]",
            [("inputs", "stocks", False, 7), ("index", None, False, 14)],
            id="two",
        ),
        pytest.param(
            "inputs[item.code]",
            [("inputs", None, False, 0), ("item", "code", False, 12)],
            id="computed",
        ),
        pytest.param("item", [("item", None, False, 0)], id="whole-item"),
        pytest.param("'steps.a' + r'steps.b' // steps.c", [], id="strings-and-comments"),
        pytest.param("1 // 'steps.c'", [], id="text-in-comment"),
        pytest.param("[1].map(steps, steps.a)", [], id="hidden-by-a-macro"),
        pytest.param(
            "steps.a.map(item, item.x) + item.list",
            [("steps", "a", False, 6), ("item", "list", False, 33)],
            id="hidden-inside-only",
        ),
        pytest.param(
            "has(steps.a) && steps.a.n > 1",
            [("steps", "a", True, 10), ("steps", "a", True, 22)],
            id="guarded",
        ),
        pytest.param(
            "has(steps.a.n) ? steps.a.n : steps.b.n",
            [("steps", "a", True, 10), ("steps", "a", True, 23), ("steps", "b", False, 35)],
            id="guarded-by-a-field",
        ),
        pytest.param(
            "has(steps.a.rows[steps.b.n].x)",
            [("steps", "a", True, 10), ("steps", "b", False, 23)],
            id="a-place-is-not-asked-for",
        ),
        pytest.param(
            "int(inputs.a) == 1 && now() > now()",
            [("inputs", "a", False, 11)],
            id="types-and-functions",
        ),
        pytest.param("x.y", [("x", "y", False, 2)], id="unknown-root"),
    ],
)
def test_reads_are_found(expression: str, found: list[tuple[str, str | None, bool, int]]) -> None:
    assert list(reads(expression)) == [Read(*read) for read in found]


@pytest.mark.parametrize(
    "expression",
    ["steps", "steps.map(s, s)", "steps[item.code]", "size(steps)", "has(steps[item.code].x)"],
)
def test_steps_without_a_name_is_refused(expression: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        reads(expression)

    assert caught.value.kind == "bad_expression"


def test_every_string_is_walked_with_its_pointer() -> None:
    value: Json = {"a": ["x", {"b/c": "y", "d~e": "z"}], "n": 1, "": "w"}

    assert list(iterate_strings(value, "/params")) == [
        ("/params/a/0", "x"),
        ("/params/a/1/b~1c", "y"),
        ("/params/a/1/d~0e", "z"),
        ("/params/", "w"),
    ]


@pytest.mark.parametrize(
    ("value", "rendered"),
    [
        pytest.param("${inputs.n}", 3, id="whole-keeps-its-type"),
        pytest.param("${steps.prices}", [{"code": "GNP"}], id="whole-list"),
        pytest.param("${inputs.none}", None, id="whole-null"),
        pytest.param("n=${inputs.n}", "n=3", id="number"),
        pytest.param("${inputs.half}|${inputs.whole}", "0.5|2", id="numbers-as-cel-writes-them"),
        pytest.param("is ${inputs.yes}", "is true", id="condition"),
        pytest.param(
            "${item.code}: ${steps.summary}", 'SKS: {"é": 1, "list": [1, "x"]}', id="json"
        ),
        pytest.param(" ${inputs.n}", " 3", id="a-space-makes-it-text"),
        pytest.param("$${inputs.n}", "${inputs.n}", id="literal"),
        pytest.param(
            {"a": ["${inputs.n}", "b", 1, None], "k": {}},
            {"a": [3, "b", 1, None], "k": {}},
            id="deep",
        ),
        pytest.param("${inputs.text}", "a ${inputs.n} b", id="whole-data-is-not-searched"),
        pytest.param("<${inputs.text}>", "<a ${inputs.n} b>", id="mixed-data-is-not-searched"),
    ],
)
def test_values_are_rendered(value: Json, rendered: Json) -> None:
    assert render(value, asked) == rendered
    assert compile_render(value)(VALUES, NOON) == rendered


@pytest.mark.parametrize("text", ["is ${inputs.none}", "is ${inputs.nope}", "${steps.nope.x}!"])
def test_nothing_is_never_put_into_text(text: str) -> None:
    with pytest.raises(ExpressionError):
        render(text, asked)
    with pytest.raises(ExpressionError):
        compile_render(text)(VALUES, NOON)


def test_what_holds_no_reference_is_not_copied() -> None:
    constant: Json = {"rows": [1, 2]}
    value: Json = {"code": "${item.code}", "constant": constant}

    rendered = compile_render(value)(VALUES, NOON)

    assert isinstance(rendered, dict)
    assert rendered["constant"] is constant
    assert compile_render(constant)(VALUES, NOON) is constant


def test_a_rendered_value_is_made_anew_each_time() -> None:
    renderer = compile_render({"list": ["${inputs.n}"]})

    first, second = renderer(VALUES, NOON), renderer(VALUES, NOON)

    assert first == second
    assert first is not second


_DATA = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text("a${}.n'", max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.text("a${}", max_size=4), inner, max_size=2)
    ),
    max_leaves=5,
)


@given(_DATA)
def test_data_is_never_searched_for_references(data: Json) -> None:
    def give(expression: str) -> Json:
        assert expression == "inputs.data"
        return data

    def refuse(expression: str) -> NoReturn:
        raise AssertionError(expression)

    variables: dict[str, Json] = {"inputs": {"data": data}}

    assert render({"whole": "${inputs.data}"}, give) == {"whole": data}
    assert compile_render({"whole": "${inputs.data}"})(variables, NOON) == {"whole": data}
    if isinstance(data, str):
        assert render("<${inputs.data}>", give) == f"<{data}>"
        assert compile_render("<${inputs.data}>")(variables, NOON) == f"<{data}>"
        assert render(data.replace("${", "$${"), refuse) == data


@pytest.mark.parametrize(
    ("text", "expression", "offset"),
    [
        pytest.param("steps.a.n > 1", "steps.a.n > 1", 0, id="bare"),
        pytest.param("${steps.a.n > 1}", "steps.a.n > 1", 2, id="wrapped"),
        pytest.param("  ${ x } ", " x ", 4, id="spaces-around"),
        pytest.param("'${a}' == 'b'", "'${a}' == 'b'", 0, id="a-reference-inside-is-text"),
    ],
)
def test_a_condition_may_be_bare_or_wrapped(text: str, expression: str, offset: int) -> None:
    found = bare_expression(text)

    assert (found.expression, found.offset) == (expression, offset)
    assert text[offset : offset + len(expression)] == expression


@pytest.mark.parametrize(
    ("text", "repointed"),
    [
        pytest.param("${steps.prices.x}", "${steps.prices_2.x}", id="path"),
        pytest.param("${steps['prices']}", '${steps["prices_2"]}', id="quoted"),
        pytest.param(
            "${has(steps.prices)} ${steps.prices}",
            "${has(steps.prices_2)} ${steps.prices_2}",
            id="two",
        ),
        pytest.param("steps.prices ${1}", "steps.prices ${1}", id="literal-text"),
        pytest.param("$${steps.prices}", "$${steps.prices}", id="literal-reference"),
        pytest.param(
            "${'steps.prices' + item.prices}",
            "${'steps.prices' + item.prices}",
            id="strings-and-fields",
        ),
        pytest.param(
            "${steps.prices_1 + steps.price}", "${steps.prices_1 + steps.price}", id="other-names"
        ),
        pytest.param(
            "${[1].map(steps, steps.prices)}",
            "${[1].map(steps, steps.prices)}",
            id="hidden-by-a-macro",
        ),
        pytest.param(
            "${steps /* no comment in CEL */}",
            "${steps /* no comment in CEL */}",
            id="not-an-expression",
        ),
        pytest.param("${steps.prices", "${steps.prices", id="not-closed"),
        pytest.param(
            "${ steps . prices // steps.prices\n}",
            "${ steps . prices_2 // steps.prices\n}",
            id="spaces-and-comments",
        ),
    ],
)
def test_readers_are_pointed_at_another_step(text: str, repointed: str) -> None:
    changed = repointing(StepId("prices"), StepId("prices_2")).value({"k": [text, 1]})

    assert changed == {"k": [repointed, 1]}


_NAMES = st.sampled_from(["a", "b", "ab", "steps", "item"])
_PIECES = st.one_of(
    st.tuples(_NAMES).map(lambda names: f"steps.{names[0]}"),
    st.tuples(_NAMES).map(lambda names: f"has(steps.{names[0]}.x)"),
    st.tuples(_NAMES).map(lambda names: f"steps['{names[0]}']"),
    st.tuples(_NAMES, _NAMES).map(lambda names: f"steps.{names[0]}.map({names[1]}, {names[1]}.a)"),
    st.tuples(_NAMES).map(lambda names: f"'steps.{names[0]}'"),
    st.tuples(_NAMES).map(lambda names: f"item.steps.{names[0]}"),
)


@given(st.lists(_PIECES, min_size=1, max_size=4))
@settings(max_examples=volume(50, 200))
def test_renaming_changes_exactly_the_reads_of_that_step(pieces: list[str]) -> None:
    expression = " + ".join(pieces)
    renamed = rename_in_expression(expression, "a", "fresh")

    expected = [
        (read.root, "fresh" if (read.root, read.name) == ("steps", "a") else read.name)
        for read in reads(expression)
    ]
    assert [(read.root, read.name) for read in reads(renamed)] == expected
    assert rename_in_expression(renamed, "a", "other") == renamed


def test_text_shows_json_with_its_own_characters() -> None:
    assert (
        render("${steps.summary}!", asked)
        == json.dumps({"é": 1, "list": [1, "x"]}, ensure_ascii=False) + "!"
    )
