from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given, strategies as st
from pydantic import JsonValue

from tests.config.test_documents import pointers, shown, value_or_faults, values
from wavewright.config.documents import read_document
from wavewright.config.readers import yaml_and_toml as yaml_text
from wavewright.config.sources import DocumentError, ReadLimits


def read(text: str) -> object:
    return read_document(text, "note.yaml").value


@given(values)
def test_json_is_read_alike_by_both_readers(value: JsonValue) -> None:
    text = "# a comment keeps the JSON reader away\n" + json.dumps(
        value, indent=1, ensure_ascii=False
    )
    found = value_or_faults(text, "note.yaml")

    # YAML has a smaller alphabet: what is not in it must be escaped.
    told = [fault.message for fault in found] if isinstance(found, tuple) else []
    assert all("a character that YAML does not allow" in one or "line break" in one for one in told)
    assert told or found == [read_document(json.dumps(value), "note.json").value]


@given(st.text(max_size=40) | st.text("ab: -\n[]{}&*!|>'\"#%?,.0123456789", max_size=30))
def test_any_text_is_read_or_refused_with_a_fault(text: str) -> None:
    found = value_or_faults(text, "note.yaml")

    assert found
    if isinstance(found, list):
        document = read_document(text, "note.yaml")
        assert None not in [document.span(pointer) for pointer in pointers(document.value)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("on: 1", {"on": 1}, id="on is a key"),
        pytest.param(
            "[yes, no, on, off, y, N]", ["yes", "no", "on", "off", "y", "N"], id="words of YAML 1.1"
        ),
        pytest.param(
            "[nan, NaN, inf, -inf, Infinity, none]", None, id="words for what is no number"
        ),
        pytest.param(
            "[1:30, 2010-03-01, 007, 0o17, 0x1F, 1_000, +1, .5]", None, id="numbers of YAML 1.1"
        ),
        pytest.param(
            "[true, False, null, ~, Null]", [True, False, None, None, None], id="constants"
        ),
        pytest.param("[1, -2, 1.5, 1e3, -0.0]", [1, -2, 1.5, 1000.0, -0.0], id="numbers of JSON"),
        pytest.param(
            "1: a\ntrue: b\nnull: c", {"1": "a", "true": "b", "null": "c"}, id="keys are texts"
        ),
        pytest.param("a:\nb: ''", {"a": None, "b": ""}, id="nothing"),
        pytest.param("a: |\n  x\n  y\n", {"a": "x\ny\n"}, id="block text"),
        pytest.param("<<: {a: 1}", {"<<": {"a": 1}}, id="no merging"),
        pytest.param('["1", \'true\', "null"]', ["1", "true", "null"], id="quotes make text"),
        pytest.param("= ", "=", id="no default value"),
    ],
)
def test_plain_words_mean_what_json_would_read(text: str, value: object) -> None:
    expected = value if value is not None else text.strip("[]").split(", ")

    assert read(f"# not JSON\n{text}") == expected


@pytest.mark.parametrize(
    ("text", "kind", "at"),
    [
        pytest.param("a: &x 1\nb: *x", "yaml_alias", "&x 1", id="anchor"),
        pytest.param("a: *x", "yaml_alias", "*x", id="alias"),
        pytest.param(
            "a: !!python/object:os.system x", "yaml_tag", "!!python/object:os.system x", id="tag"
        ),
        pytest.param("a: !!str 5", "yaml_tag", "!!str 5", id="harmless tag"),
        pytest.param("a: 1\nb: 2\na: 3", "duplicate_key", "a", id="duplicate key"),
        pytest.param("a: .inf", "nonfinite_number", ".inf", id="infinity"),
        pytest.param("a: -.INF", "nonfinite_number", "-.INF", id="negative infinity"),
        pytest.param("a: .NaN", "nonfinite_number", ".NaN", id="not a number"),
        pytest.param("a: 1e999", "nonfinite_number", "1e999", id="overflow"),
        pytest.param(
            "a: 9007199254740992", "number_out_of_range", "9007199254740992", id="large integer"
        ),
        pytest.param("a: 1\n---\nb: 2", "not_yaml", "---", id="two documents"),
        pytest.param("? [a]\n: 1", "not_yaml", "[", id="a list as a key"),
        pytest.param('a: "x\\0"', "bad_unicode", '"x\\0"', id="NUL"),
        pytest.param("a: x\u2028y", "bad_unicode", "\u2028", id="line break of Unicode"),
        pytest.param("a: b: c", "not_yaml", ":", id="two colons"),
        pytest.param("# nothing", "not_yaml", "", id="empty"),
        pytest.param("- " * 70 + "x", "too_deep", "-", id="deep"),
        pytest.param(
            "a: " + "[" * 50_000, "too_deep", "[", id="deeper than the interpreter's stack"
        ),
    ],
)
def test_what_json_cannot_say_is_refused_with_its_place(text: str, kind: str, at: str) -> None:
    assert shown(text, "note.yaml") == [(kind, at)]


def test_an_alias_bomb_ends_in_one_fault() -> None:
    layers = [f"l{n}: &l{n} [{', '.join(f'*l{n - 1}' for _ in range(9))}]" for n in range(1, 9)]

    assert [kind for kind, _ in shown("\n".join(["l0: &l0 [x]", *layers]), "note.yaml")] == [
        "yaml_alias"
    ]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        pytest.param("a:\n\t- b", "indent with spaces: YAML takes no tabs", id="tab"),
        pytest.param("a: b: c", "quote text that holds ': '", id="colon"),
        pytest.param("a: ${b ? c : d}", "quote text that holds ': '", id="colon of a choice"),
        pytest.param("a: {code: ${item.code}}", None, id="reference in braces"),
    ],
)
def test_the_usual_mistakes_are_answered_with_their_mend(text: str, hint: str | None) -> None:
    with pytest.raises(DocumentError) as caught:
        read(text)

    mend = caught.value.faults[0].hint
    assert mend is not None
    assert (mend == hint) if hint else ('"${…}"' in mend)


def test_the_place_of_a_block_ends_with_its_last_line() -> None:
    text = "steps:\n  - id: a\n    tool: x\n\ngates: []\n"
    span = read_document(text, "note.yaml").span("/steps/0")

    assert span is not None
    assert text[span.start : span.end] == "id: a\n    tool: x"


def test_the_reader_without_the_c_library_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'on: [1, yes, "x", {a: ~}]\nb: |\n  line\n'
    fast = read_document(text, "note.yaml")
    monkeypatch.setattr(yaml_text, "_Loader", yaml.SafeLoader)
    slow = read_document(text, "note.yaml")

    assert slow.value == fast.value
    assert [slow.span(one) for one in pointers(slow.value)] == [
        fast.span(one) for one in pointers(fast.value)
    ]


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
        pytest.param(
            f"a = {'[' * 5000}", "too_deep", None, id="deeper than the interpreter's stack"
        ),
    ],
)
def test_what_json_cannot_say_is_refused(text: str, kind: str, at: int | None) -> None:
    with pytest.raises(DocumentError) as caught:
        read_document(text, "job.toml")

    assert [(one.kind, one.span.start if one.span else None) for one in caught.value.faults] == [
        (kind, at)
    ]


def test_the_limits_hold_for_toml() -> None:
    with pytest.raises(DocumentError, match="larger than 10 bytes"):
        read_document(JOB, "job.toml", limits=ReadLimits(max_bytes=10))
