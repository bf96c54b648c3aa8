"""Values cut to the room that a prompt has for them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st

from wavewright.planner.ports import truncation
from wavewright.planner.ports.truncation import OMITTED_KEY, allot_chars, prompt_size, truncate
from wavewright.planner.types import Json, JsonObject, as_object
from wavewright.prompts import prompt_json

JSON: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=20), inner, max_size=10)
    ),
    max_leaves=60,
)


def leaves(value: Json) -> Iterator[Json]:
    if isinstance(value, dict):
        for entry in value.values():
            yield from leaves(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from leaves(entry)
    else:
        yield value


@given(JSON, st.integers(40, 2000))
def test_what_is_truncated_is_json_of_the_size_that_there_is_room_for(
    value: Json, room: int
) -> None:
    shown = truncate(value, room)

    assert json.loads(prompt_json(shown)) == shown
    assert prompt_size(shown) <= max(room, 120)
    assert shown == value or prompt_size(value) > room


@given(JSON, st.integers(40, 2000))
def test_nothing_is_made_up_but_the_notes_on_what_is_left_out(value: Json, room: int) -> None:
    known = [leaf for leaf in leaves(value) if not isinstance(leaf, str)]
    texts = [leaf for leaf in leaves(value) if isinstance(leaf, str)]

    for leaf in leaves(truncate(value, room)):
        if isinstance(leaf, str):
            is_note = "left out" in leaf or any(
                word in leaf for word in ("entr", "fields", "{", "character")
            )
            assert leaf in texts or is_note
        else:
            assert leaf in known


def test_a_small_value_is_left_as_it_is() -> None:
    value: Json = {"a": [1, 2, {"b": "c"}]}

    assert truncate(value, 100) is value


def test_of_a_series_both_ends_are_kept_and_the_gap_is_counted() -> None:
    series: list[Json] = [{"day": day, "close": day * 1.5} for day in range(400)]
    shown = truncate(series, 600)

    assert isinstance(shown, list)
    assert shown[0] == series[0]
    assert shown[-1] == series[-1]
    gaps = [
        entry[OMITTED_KEY] for entry in shown if isinstance(entry, dict) and OMITTED_KEY in entry
    ]
    kept = len(shown) - len(gaps)
    assert gaps == [f"{400 - kept} entries"]


def test_the_entries_that_are_wanted_first_are_kept() -> None:
    series: list[Json] = [{"day": day} for day in range(400)]
    shown = truncate(series, 300, first=[250])

    assert isinstance(shown, list)
    assert {"day": 250} in shown


def test_of_a_very_long_list_only_what_may_be_kept_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured: list[Json] = []

    def counted(value: object) -> str:
        measured.append(value)  # type: ignore[arg-type]
        return prompt_json(value)

    monkeypatch.setattr(truncation, "prompt_json", counted)
    shown = truncate([{"n": number} for number in range(100_000)], 1000)

    assert isinstance(shown, list)
    assert shown[-1] == {"n": 99_999}
    assert len(measured) < 500


def test_positions_that_there_are_not_are_not_wanted() -> None:
    assert truncate([*range(400)], 200, first=[7, 4000]) == truncate([*range(400)], 200, first=[7])


def test_a_long_text_keeps_both_ends_at_words_and_says_how_much_is_missing() -> None:
    text = "lorem ipsum dolor " * 200
    shown = truncate(text, 300)

    assert isinstance(shown, str)
    head, _, rest = shown.partition(" …(")
    note, _, tail = rest.partition("… ")
    assert text.startswith(head + " ")
    assert text.endswith(" " + tail)
    assert note == f"{len(text) - len(head) - len(tail):,} more characters left out)"


@given(st.lists(st.integers(0, 500), max_size=12), st.integers(0, 3000))
def test_room_is_shared_out_to_whoever_needs_it(needs: list[int], room: int) -> None:
    shares = allot_chars(needs, room)

    assert sum(shares) <= room
    assert all(share <= need for share, need in zip(shares, needs, strict=True))
    assert sum(needs) > room or shares == needs


def test_of_a_long_text_the_passage_that_is_looked_for_is_kept_beside_head_and_tail() -> None:
    words = " ".join(f"word{number}" for number in range(900))
    long = f"HEAD {words} the revenue was 42 million and the price rose {words} TAIL"

    shown = truncate({"text": long}, 1500, words={"revenue", "price"})

    text = as_object(shown)["text"]
    assert isinstance(text, str)
    assert text.startswith("HEAD ")
    assert text.endswith(" TAIL")
    assert "the revenue was 42 million and the price rose" in text
    assert prompt_size(shown) <= 1500
    assert "revenue" not in str(truncate({"text": long}, 1500))


def test_fields_that_are_looked_for_are_kept_before_others() -> None:
    others: JsonObject = {f"other{number}": "x" * 80 for number in range(20)}
    fields: JsonObject = {**others, "price": "z" * 80}

    assert "price" in as_object(truncate(fields, 400, words={"price"}))
    assert "price" not in as_object(truncate(fields, 400))
