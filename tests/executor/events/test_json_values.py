"""Outputs become plain JSON that shares nothing with the tool, and JSON texts of an encoder that is
built once.
"""

from __future__ import annotations

import datetime as dt
import enum
import json
from dataclasses import dataclass
from types import MappingProxyType

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from wavewright.executor.events.json_values import (
    MAX_DEPTH,
    NotJsonError,
    clean_json,
    copy_json,
    make_encoder,
    valid_text,
)
from wavewright.planner.types import Json

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
)


def nested(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4))


plain: st.SearchStrategy[Json] = st.recursive(scalars, nested, max_leaves=20)


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Word(str):
    __slots__ = ()


@dataclass
class Point:
    x: int
    on: dt.date


class Row(BaseModel):
    close: float
    on: dt.date


def containers(value: Json) -> list[int]:
    if isinstance(value, dict):
        return [id(value), *(place for entry in value.values() for place in containers(entry))]
    if isinstance(value, list):
        return [id(value), *(place for entry in value for place in containers(entry))]
    return []


@given(plain)
def test_plain_json_stays_as_it_is_and_is_copied(value: Json) -> None:
    cleaned = clean_json(value)

    assert cleaned == value
    assert json.dumps(cleaned) == json.dumps(value)
    assert set(containers(cleaned)).isdisjoint(containers(value))
    assert copy_json(cleaned) == cleaned
    assert set(containers(copy_json(cleaned))).isdisjoint(containers(cleaned))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (dt.date(2010, 3, 1), "2010-03-01"),
        (dt.datetime(2010, 3, 1, 12, tzinfo=dt.UTC), "2010-03-01T12:00:00+00:00"),
        ((1, (2,)), [1, [2]]),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Word("text"), "text"),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (Point(1, dt.date(2010, 3, 1)), {"x": 1, "on": "2010-03-01"}),
        (Row(close=1.5, on=dt.date(2010, 3, 1)), {"close": 1.5, "on": "2010-03-01"}),
    ],
    ids=repr,
)
def test_what_has_one_obvious_form_takes_it(value: object, expected: Json) -> None:
    cleaned = clean_json({"value": value})

    assert cleaned == {"value": expected}
    assert json.loads(json.dumps(cleaned)) == cleaned


@given(st.text(st.characters(categories=None)), st.text(st.characters(categories=None)))
def test_a_text_stays_as_it_is_or_is_refused_for_half_a_character(key: str, text: str) -> None:
    value = {key: [text]}
    if any("\ud800" <= character <= "\udfff" for character in key + text):
        with pytest.raises(NotJsonError, match="half a character"):
            clean_json(value)
    else:
        cleaned = clean_json(value)
        assert cleaned == json.loads(json.dumps(cleaned, ensure_ascii=False).encode()) == value


@given(st.text(st.characters(categories=None)))
def test_a_text_that_is_shown_has_a_replacement_for_half_a_character(text: str) -> None:
    assert valid_text(text).encode().decode() == valid_text(text)
    assert valid_text(text) == text or any("\ud800" <= character <= "\udfff" for character in text)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "the output is nan, which is not a JSON number"),
        ([1, {"a": float("inf")}], "the output at /1/a is inf, which is not a JSON number"),
        ({"a": {1: 2}}, "the output at /a has the key 1, which is not a text"),
        (
            {"a": ["whole", "cut \ud83d"]},
            "the output at /a/1 holds half a character (a lone surrogate), which no text in a file can",
        ),
        (
            {"a": {"\ud83d": 1}},
            "the output at /a holds half a character (a lone surrogate), which no text in a file can",
        ),
        ({"a": b"x"}, "the output at /a is a bytes, which JSON cannot express"),
        ([{1, 2}], "the output at /0 is a set, which JSON cannot express"),
        (
            {"a": -(10**5000)},
            "the output at /a is an integer of more than 4,200 digits, which JSON readers do not accept",
        ),
        (object, "the output is a type, which JSON cannot express"),
    ],
    ids=lambda value: repr(value) if isinstance(value, str) else type(value).__name__,
)
def test_what_json_cannot_express_is_named_with_its_place(value: object, message: str) -> None:
    with pytest.raises(NotJsonError) as caught:
        clean_json(value)

    assert str(caught.value) == message


def test_an_output_without_end_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)

    with pytest.raises(NotJsonError, match=f"is nested more than {MAX_DEPTH} deep"):
        clean_json(endless)


@given(value=plain, sort_keys=st.booleans())
def test_the_text_is_the_standard_library_s(value: Json, sort_keys: bool) -> None:  # noqa: FBT001
    expected = json.dumps(value, ensure_ascii=True, sort_keys=sort_keys, separators=(",", ":"))

    assert make_encoder(sort_keys=sort_keys)(value) == expected


def test_the_text_is_the_same_where_the_interpreter_has_no_encoder_in_c(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    value: Json = {"b": [1, 2.5, None, "\ud800"], "a": True}
    quick = make_encoder(sort_keys=True)
    monkeypatch.setattr(json.encoder, "c_make_encoder", None)
    plain = make_encoder(sort_keys=True)

    assert quick(value) == plain(value) == '{"a":true,"b":[1,2.5,null,"\\ud800"]}'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")]])
def test_what_is_no_json_number_is_refused(value: Json) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        make_encoder(sort_keys=False)(value)
