from __future__ import annotations

import pytest

from wavewright.config.documents import read_document
from wavewright.config.sources import DocumentError, ReadLimits

JOB = """\
name = "levels"
as_of = 2010-03-01

[[variables]]
code = "north"
measured = 2010-03-01T09:30:00Z
depth = 1.5
"""


def test_toml_gives_values_of_json() -> None:
    assert read_document(JOB, "job.toml").value == {
        "name": "levels",
        "as_of": "2010-03-01",
        "variables": [{"code": "north", "measured": "2010-03-01T09:30:00+00:00", "depth": 1.5}],
    }


def test_toml_keeps_no_places() -> None:
    assert read_document(JOB, "job.toml").nearest_span("/variables/0/code") is None


@pytest.mark.parametrize(
    ("text", "kind", "at"),
    [
        pytest.param('a = 1\nname = "x', "not_toml", len('a = 1\nname = "x'), id="open string"),
        pytest.param("a = 1\nb = x\n", "not_toml", 10, id="text without quotes"),
        pytest.param("a = 1\na = 2\n", "not_toml", 11, id="a key twice"),
        pytest.param("a = inf", "nonfinite_number", None, id="infinity"),
        pytest.param("a = 9007199254740992", "number_out_of_range", None, id="large integer"),
        pytest.param(f"a = {'7' * 5000}", "not_toml", None, id="integer of many digits"),
        pytest.param('a = "\\u0000"', "bad_unicode", None, id="NUL"),
        pytest.param(f"a = {'[' * 70}{']' * 70}", "too_deep", None, id="deep"),
        pytest.param(f"a = {'[' * 5000}", "too_deep", None, id="deeper than the interpreter's stack"),
    ],
)
def test_what_json_cannot_say_is_refused(text: str, kind: str, at: int | None) -> None:
    with pytest.raises(DocumentError) as caught:
        read_document(text, "job.toml")

    assert [(one.kind, one.span.start if one.span else None) for one in caught.value.faults] == [(kind, at)]


def test_the_limits_hold_for_toml() -> None:
    with pytest.raises(DocumentError, match="larger than 10 bytes"):
        read_document(JOB, "job.toml", limits=ReadLimits(max_bytes=10))
