"""Whatever comes, it is taken in or refused: nothing else happens."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import cast

from hypothesis import example, given, strategies as st

from tests.engine.service.messages.sample_messages import (
    ANSWER,
    GOAL,
    NOW,
    RULES,
    VERDICT,
    Loose,
    delivered,
    envelope,
)
from wavewright.engine.service.job_store.records import ReceivedMessage
from wavewright.engine.service.messages.decoding import decode
from wavewright.engine.service.messages.delivery import Delivery
from wavewright.engine.service.messages.reading import MessageRejected

KEYED = replace(RULES, key=b"a key")
SOUND = [
    envelope(GOAL),
    envelope(VERDICT, "validation_result"),
    envelope(ANSWER, "user_decision_response"),
]

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(
        ["\0", "\ud800", "x" * 5_000, "9999-12-31T23:59:59-23:59", "2026-04-14T09:29:60Z", 10**400]
    )
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return where something could be changed: every node but the root."""
    found = list[tuple[str | int, ...]]()
    if isinstance(value, dict):
        for name, inner in cast("Loose", value).items():
            found += [(*path, name), *places(inner, (*path, name))]
    elif isinstance(value, list):
        for number, inner in enumerate(cast("list[object]", value)):
            found += [(*path, number), *places(inner, (*path, number))]
    return found


def changed(value: object, path: tuple[str | int, ...], to: object) -> object:
    if not path:
        return to
    if isinstance(value, dict):
        members = dict(cast("Loose", value))
        members[str(path[0])] = changed(members[str(path[0])], path[1:], to)
        return members
    items = [*cast("list[object]", value)]
    items[int(path[0])] = changed(items[int(path[0])], path[1:], to)
    return items


@st.composite
def spoilt(draw: st.DrawFn) -> object:
    """Give a sound envelope with a few of its nodes changed into anything."""
    document: object = draw(st.sampled_from(SOUND))
    for _ in range(draw(st.integers(1, 3))):
        where = draw(st.sampled_from(places(document) or [()]))
        document = changed(document, where, draw(anything))
    return document


def outcome(delivery: Delivery) -> ReceivedMessage | MessageRejected:
    try:
        return decode(delivery, RULES, NOW)
    except MessageRejected as refused:
        return refused


@given(st.binary(max_size=200) | anything.map(lambda value: json.dumps(value).encode()))
@example(b"[" * 100_000)
@example(b'{"a":' * 100_000)
@example(b"9" * 100_000)
@example(b'"' + b"\\" * 100_000)
def test_no_body_is_more_than_refused(body: bytes) -> None:
    assert isinstance(outcome(delivered(body)), MessageRejected)


@given(spoilt())
def test_a_spoilt_envelope_is_understood_or_refused(document: object) -> None:
    result = outcome(delivered(json.dumps(document).encode()))

    assert isinstance(result, ReceivedMessage) or (result.reason and len(result.reason) <= 500)


@given(
    st.dictionaries(
        st.sampled_from(["x-wavewright-signature", "x-wavewright-version", "x-death"]),
        anything | st.binary() | st.text(alphabet="0123456789abcdefé", min_size=64, max_size=64),
    ),
    st.text(max_size=20) | st.none(),
    st.text(max_size=20) | st.none(),
)
def test_no_header_and_no_property_is_more_than_refused(
    headers: dict[str, object], content_type: str | None, user: str | None
) -> None:
    delivery = delivered(envelope(GOAL), headers=headers, content_type=content_type, user_id=user)

    try:
        decode(delivery, KEYED, NOW)
    except MessageRejected:
        return
    raise AssertionError("it was never signed")
