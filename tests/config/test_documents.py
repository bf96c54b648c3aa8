from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from pydantic import JsonValue

from wavewright.config.documents import Document, read_document, read_document_file
from wavewright.config.sources import DocumentError, DocumentFault, ReadLimits

scalars: st.SearchStrategy[JsonValue] = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
)
values: st.SearchStrategy[JsonValue] = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="ascii", min_codepoint=32)), inner)
    ),
    max_leaves=12,
)


def faults(content: str | bytes, name: str = "note.json") -> tuple[DocumentFault, ...]:
    with pytest.raises(DocumentError) as caught:
        read_document(content, name)
    return caught.value.faults


def value_or_faults(content: str, name: str) -> list[JsonValue] | tuple[DocumentFault, ...]:
    """Return the value in a list, or the faults in a tuple."""
    try:
        return [read_document(content, name).value]
    except DocumentError as error:
        return error.faults


def shown(content: str, name: str = "note.json") -> list[tuple[str, str]]:
    """Return the kind of each fault with the text that it points at."""
    found = faults(content, name)
    return [
        (one.kind, content[one.span.start : one.span.end]) for one in found if one.span is not None
    ]


def pointers(value: JsonValue, pointer: str = "") -> list[str]:
    inner: list[tuple[str, JsonValue]] = []
    if isinstance(value, dict):
        inner = [
            (f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}", one)
            for key, one in value.items()
        ]
    elif isinstance(value, list):
        inner = [(f"{pointer}/{index}", one) for index, one in enumerate(value)]
    return [pointer, *(path for start, one in inner for path in pointers(one, start))]


def value_at(document: Document, pointer: str) -> object:
    span = document.span(pointer)
    assert span is not None
    return json.loads(document.source.text[span.start : span.end])


@given(values, st.sampled_from([None, 0, 2]), st.sampled_from(["escaped", "raw"]))
def test_what_json_says_is_read_as_the_interpreter_reads_it(
    value: JsonValue, indent: int | None, escape: str
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=escape == "escaped")

    assert read_document(text, "note.json").value == value


@given(values)
def test_the_text_at_a_nodes_place_is_the_node(value: JsonValue) -> None:
    document = read_document(json.dumps(value, indent=1), "note.json")

    assert [value_at(document, pointer) for pointer in pointers(value)] == [
        value_at(read_document(json.dumps(value), "note.json"), pointer)
        for pointer in pointers(value)
    ]


@given(st.text(max_size=40) | st.text('{}[]":,-+.0123456789eEtrufalsn\\ \n', max_size=30))
def test_any_text_is_read_as_the_strict_decoder_reads_it_or_refused(text: str) -> None:
    found = value_or_faults(text, "note.json")

    assert found
    assert isinstance(found, tuple) or found == [json.loads(text.removeprefix("\ufeff"))]


def test_a_key_has_a_place_of_its_own() -> None:
    text = '{"steps": [{"id": "a"}]}'
    document = read_document(text, "note.json")
    key, value = document.span("/steps/0/id", key=True), document.span("/steps/0/id")

    assert key is not None
    assert value is not None
    assert (text[key.start : key.end], text[value.start : value.end]) == ('"id"', '"a"')


def test_a_node_that_is_not_there_has_no_place() -> None:
    document = read_document('{"steps": [1]}', "note.json")

    assert [
        document.span(pointer) for pointer in ("/goal", "/steps/1", "/steps/x", "/steps/0/id")
    ] == [None] * 4


def test_the_nearest_place_around_a_missing_node_is_its_parent() -> None:
    document = read_document('{"steps": [{"id": "a"}]}', "note.json")

    assert document.nearest_span("/steps/0/tool/name") == document.span("/steps/0")


def test_every_fault_that_does_not_hinder_reading_is_reported_at_once() -> None:
    text = '{"a": 1, "b": NaN, "a": 2, "c": 1e999, "d": 9007199254740993, "e": "\\ud800", "f": "\\u0000"}'

    assert shown(text) == [
        ("nonfinite_number", "NaN"),
        ("duplicate_key", '"a"'),
        ("nonfinite_number", "1e999"),
        ("number_out_of_range", "9007199254740993"),
        ("bad_unicode", "\\ud800"),
        ("bad_unicode", "\\u0000"),
    ]


@pytest.mark.parametrize(
    ("text", "kind", "at"),
    [
        pytest.param("[1, 2,]", "not_json", ",", id="trailing comma"),
        pytest.param("{'a': 1}", "not_json", "'", id="single quotes"),
        pytest.param("[True]", "not_json", "True", id="python literal"),
        pytest.param("[1] 2", "not_json", "2", id="text behind the value"),
        pytest.param("[01]", "not_json", "01", id="leading zero"),
        pytest.param("[1 2]", "not_json", "2", id="missing comma"),
        pytest.param('{"a" 1}', "not_json", "1", id="missing colon"),
        pytest.param('["a\nb"]', "not_json", "\n", id="raw line break"),
        pytest.param(r'["\q"]', "not_json", "\\", id="unknown escape"),
        pytest.param('{"a": [1', "truncated", "", id="cut"),
        pytest.param('["a', "truncated", '"', id="cut in a string"),
        pytest.param("[tru", "truncated", "tru", id="cut in a word"),
        pytest.param("[1.", "truncated", "1.", id="cut in a number"),
        pytest.param("[" * 65 + "]" * 65, "too_deep", "[", id="deep"),
        pytest.param("[" * 100_000, "too_deep", "[", id="deeper than the interpreter's stack"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(text: str, kind: str, at: str) -> None:
    assert shown(text) == [(kind, at)]


def test_a_python_literal_is_answered_with_its_json() -> None:
    assert [one.hint for one in faults("[None]")] == ["write null"]


def test_a_pair_of_escaped_surrogates_is_one_character() -> None:
    assert read_document(r'["\ud83d\ude80", "\\ud800"]', "note.json").value == [
        "\N{ROCKET}",
        r"\ud800",
    ]


def test_integers_are_exact_up_to_the_limit_and_refused_beyond_it() -> None:
    assert read_document(f"[{2**53 - 1}, -{2**53 - 1}]", "note.json").value == [
        2**53 - 1,
        -(2**53) + 1,
    ]
    assert [one.kind for one in faults(f"[{2**53}, -{2**53}, {'7' * 200_000}]")] == [
        "number_out_of_range"
    ] * 3


def test_no_more_than_a_hundred_faults_are_told() -> None:
    assert len(faults(f"[{'NaN,' * 5000} 1]")) == 101


def test_a_byte_order_mark_is_dropped() -> None:
    assert read_document(b'\xef\xbb\xbf{"a": 1}', "note.json").value == {"a": 1}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "latin-1"])
def test_another_encoding_is_one_fault(encoding: str) -> None:
    found = faults('{"name": "Zürich"}'.encode(encoding))

    assert [(one.kind, one.hint) for one in found] == [("bad_encoding", "save the file as UTF-8")]


def test_a_text_with_half_a_surrogate_pair_is_refused() -> None:
    assert [one.kind for one in faults('["\ud800"]')] == ["bad_unicode"]


@pytest.mark.parametrize("content", ["é" * 60, "é".encode() * 60, "x" * 101])
def test_the_size_is_counted_in_bytes(content: str | bytes) -> None:
    with pytest.raises(DocumentError, match="larger than 100 bytes"):
        read_document(content, "note.yaml", limits=ReadLimits(max_bytes=100))


def test_content_that_begins_with_a_bracket_is_json_whatever_its_name() -> None:
    assert shown("{a: 1}", "<stdin>") == [("not_json", "a")]


def test_yaml_in_its_json_like_notation_is_read_under_a_yaml_name() -> None:
    assert read_document("{a: [1, x,]}", "note.yaml").value == {"a": [1, "x"]}


def test_a_missing_file_is_answered_with_near_names(tmp_path: Path) -> None:
    (tmp_path / "harvest.yaml").touch()

    with pytest.raises(DocumentError) as caught:
        read_document_file(tmp_path / "harvst.yaml")

    assert [(one.kind, one.message, one.hint) for one in caught.value.faults] == [
        (
            "unreadable_file",
            f"there is no file {str(tmp_path / 'harvst.yaml')!r}",
            f"did you mean {str(tmp_path / 'harvest.yaml')!r}?",
        )
    ]


def test_a_file_that_a_document_names_is_answered_with_a_path_to_write_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "harvest.yaml").touch()
    (tmp_path / "jobs").mkdir()

    with pytest.raises(DocumentError) as caught:
        read_document_file(tmp_path / "jobs/../harvst.yaml", named_from=tmp_path / "jobs")

    assert caught.value.faults[0].hint == "did you mean '../harvest.yaml'?"


def test_a_folder_is_answered_with_the_files_in_it(tmp_path: Path) -> None:
    (tmp_path / "harvest.yaml").touch()

    with pytest.raises(DocumentError, match="is a folder") as caught:
        read_document_file(tmp_path)

    assert (
        caught.value.faults[0].hint
        == f"name a file in it, such as {str(tmp_path / 'harvest.yaml')!r}"
    )


@pytest.mark.parametrize("name", ["a\0b", "x" * 300, "none/at/all.json"])
def test_a_path_that_can_be_no_file_is_one_fault(tmp_path: Path, name: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_document_file(tmp_path / name)

    assert [one.kind for one in caught.value.faults] == ["unreadable_file"]


def test_a_file_is_read_no_further_than_the_limit() -> None:
    with pytest.raises(DocumentError, match="larger than 1,000 bytes"):
        read_document_file(Path("/dev/zero"), limits=ReadLimits(max_bytes=1000))
