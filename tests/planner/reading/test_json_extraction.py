"""Every JSON value in a text that is not all JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from wavewright.planner.reading.json_extraction import find_json
from wavewright.planner.types import Json


@pytest.mark.parametrize(
    ("text", "values"),
    [
        pytest.param('{"a": 1}', [{"a": 1}], id="nothing else"),
        pytest.param(
            'Here it is:\n```json\n{"a": 1}\n```\nAnything else?', [{"a": 1}], id="fence and prose"
        ),
        pytest.param(
            'First {"a": 1}, then {"b": [2]}.', [{"a": 1}, {"b": [2]}], id="several objects"
        ),
        pytest.param('[{"a": 1}, {"b": 2}]', [[{"a": 1}, {"b": 2}]], id="a list"),
        pytest.param(
            "{'a': True, // yes\n 'b': None,}", [{"a": True, "b": None}], id="Python and comments"
        ),
        pytest.param(json.dumps('{"a": 1}'), [{"a": 1}], id="JSON in a string"),
        pytest.param('<think>{"a": 1}</think>{"b": 2}', [{"b": 2}], id="reasoning"),
        pytest.param("I would rather not.", [], id="no JSON"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_what_can_be_read_is_found_in_order(text: str, values: list[Json]) -> None:
    found = find_json(text)

    assert [one.value for one in found.values] == values
    assert found.unreadable == ()
    assert all(text[one.span.start : one.span.end].strip() for one in found.values)


def test_values_inside_of_a_broken_one_are_found_and_marked() -> None:
    found = find_json('Fine: {"a": 1}. Cut: [{"b": 2}, {"c": tru')

    assert [(one.value, one.is_inside_broken) for one in found.values] == [
        ({"a": 1}, False),
        ({"b": 2}, True),
    ]
    assert [fault.message for fault in found.unreadable] == ["the text ends inside the word 'tru'"]


@pytest.mark.parametrize(
    "text",
    ['{"a": 1, "a": 2}', '{"a": 1e999}', '{"a": "x"', '{"a": 1}}'],
    ids=["key twice", "inf", "cut", "surplus"],
)
def test_what_readers_disagree_on_is_not_certain(text: str) -> None:
    assert [one.is_certain for one in find_json(text).values] == [False]


def test_an_answer_that_ends_inside_its_reasoning_says_so() -> None:
    found = find_json('<think>{"a": 1}')

    assert found.values == ()
    assert [fault.kind for fault in found.unreadable] == ["truncated"]


@pytest.mark.parametrize(
    "content", [b"\xff\xfe{", "\ud800", "x" * 300_000], ids=["bytes", "surrogate", "too large"]
)
def test_a_text_that_is_none_holds_nothing_and_says_why(content: str | bytes) -> None:
    found = find_json(content)

    assert (found.values, len(found.unreadable)) == ((), 1)


@pytest.mark.parametrize("unit", ["[", '{"a":', '[{"a":1},', '["[",', ' "[\\"'])
def test_a_hostile_text_is_given_up_and_not_searched_to_the_end(unit: str) -> None:
    found = find_json(unit * (200_000 // len(unit)))

    assert len(found.values) + len(found.unreadable) <= 1001


def test_only_words_are_words_alone() -> None:
    assert find_json("No, thank you.").is_prose
    assert not find_json(" ").is_prose
    assert not find_json('No: {"a": 1}').is_prose
    assert not find_json('No: {"a": ').is_prose


words = st.text(
    st.characters(exclude_characters="\0[]{}\"'<`#/", exclude_categories=["Cs"]), max_size=20
)
objects = st.dictionaries(
    st.sampled_from(["a", "b", "c d"]), st.integers(-99, 99) | words, min_size=1, max_size=3
)


@given(st.lists(st.tuples(words, objects), max_size=4), words)
def test_objects_between_words_are_all_found(
    pieces: list[tuple[str, dict[str, Json]]], end: str
) -> None:
    text = "".join(f"{before}\n{json.dumps(value)}\n" for before, value in pieces) + end

    assert [one.value for one in find_json(text).values] == [value for _, value in pieces]


@given(st.text() | st.text('[]{}":,\\ab1<think/>`', max_size=200))
def test_any_text_is_searched_without_an_exception(text: str) -> None:
    for found in find_json(text).values:
        assert isinstance(found.value, list | dict)
