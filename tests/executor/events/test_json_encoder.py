"""JSON texts of an encoder that is built once."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from wavewright.executor.events.json_values import make_encoder
from wavewright.planner.types import Json

scalars = (
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(value=values, sort_keys=st.booleans())
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
