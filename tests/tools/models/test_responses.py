"""How an answer is asked for, read back, and shown without secrets while it streams in."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.profiles import ModelProfile

from wavewright.config.redaction import Redactor
from wavewright.planner.ports.model_port import NamedCall
from wavewright.planner.types import JsonSchema
from wavewright.tools.models.endpoints import Endpoint
from wavewright.tools.models.messages import (
    OutputMode,
    StreamRedactor,
    choose_output_mode,
    is_closed,
    split_response,
)

OPEN: JsonSchema = {"type": "object", "properties": {"params": {"type": "object"}}}
CLOSED: JsonSchema = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "additionalProperties": False,
}


def model(*, native: bool = True, tools: bool = True) -> Model:
    def nothing(messages: object, info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[])

    return FunctionModel(
        nothing, profile=ModelProfile(supports_json_schema_output=native, supports_tools=tools)
    )


@pytest.mark.parametrize(
    ("provider", "is_foreign", "schema", "native", "tools", "way"),
    [
        ("openai", False, CLOSED, True, True, "native"),
        ("openai", False, OPEN, True, True, "tool"),
        ("google", False, CLOSED, True, True, "native"),
        ("google", False, OPEN, True, True, "tool"),
        ("vllm", True, OPEN, True, True, "native"),
        ("openai-chat", False, CLOSED, True, True, "native"),
        ("openai-chat", False, OPEN, True, True, "tool"),
        ("openai-chat", True, CLOSED, True, True, "tool"),
        ("openai-chat", True, CLOSED, True, False, "prompted"),
        ("anthropic", False, CLOSED, True, True, "native"),
        ("anthropic", False, OPEN, True, True, "tool"),
        ("anthropic", False, CLOSED, False, True, "tool"),
        ("ollama", False, OPEN, False, False, "prompted"),
        ("openai", False, {"type": "array", "items": CLOSED}, True, True, "prompted"),
        ("openai-chat", True, {"anyOf": [CLOSED, {"type": "string"}]}, True, True, "prompted"),
    ],
)
def test_the_way_to_ask_is_the_one_that_the_model_keeps_to(
    provider: str,
    *,
    is_foreign: bool,
    schema: JsonSchema,
    native: bool,
    tools: bool,
    way: OutputMode,
) -> None:
    endpoint = Endpoint(provider, "name", None, "key", is_foreign)

    assert choose_output_mode(endpoint, model(native=native, tools=tools), schema) == way


@pytest.mark.parametrize(
    "inner",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"properties": {"b": {"type": "string"}}},
        {"type": "array", "items": {}},
        {"type": "array", "items": {"type": "object"}},
        {"anyOf": [{"type": "string"}, {"type": "object"}]},
        {},
        True,
    ],
)
def test_a_schema_with_room_for_anything_is_not_closed(inner: JsonSchema) -> None:
    schema: JsonSchema = {
        "type": "object",
        "properties": {"a": inner},
        "additionalProperties": False,
    }

    assert not is_closed(schema)
    assert not is_closed({"$defs": {"one": schema}, **CLOSED})


def test_a_schema_that_names_every_field_is_closed() -> None:
    nested: JsonSchema = {
        "type": "object",
        "properties": {
            "a": {"type": "array", "items": {"$ref": "#/$defs/b"}},
            "c": {"anyOf": [CLOSED]},
        },
        "$defs": {"b": CLOSED},
        "additionalProperties": False,
    }

    assert is_closed(nested)


def test_the_answers_own_tool_goes_before_words_and_other_tools() -> None:
    response = ModelResponse(
        parts=[
            ThinkingPart("let me see"),
            TextPart("here it is"),
            ToolCallPart("look", '{"at": 1}'),
            ToolCallPart("emit", '{"broken": '),
            ToolCallPart("emit", "{}"),
        ]
    )

    assert split_response(response, "emit") == ('{"broken": ', (NamedCall("look", '{"at": 1}'),))


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("<think>It is short.\n</think>\n\nShort.", "Short."),
        ('<THINK a="1">x</think ><think></think>{"a": "</think>"}', '{"a": "</think>"}'),
        ("So it\nis short.\n</think>\n\nShort.\n</think>\nMore.", "Short.\n</think>\nMore."),
        ("<think>never ended", "<think>never ended"),
        ("A mark: </think> ends it.\nShort.", "A mark: </think> ends it.\nShort."),
        ('{"a": "x\n</think>\ny"}', '{"a": "x\n</think>\ny"}'),
        ("```\n</think>\n```", "```\n</think>\n```"),
        ("So:\n```xml\n</think>\n```\nShort.", "So:\n```xml\n</think>\n```\nShort."),
        ("So:\n```\nx\n```\nis it.\n</think>\nShort.", "Short."),
        ("<a>\n</think>\n</a>", "<a>\n</think>\n</a>"),
        ("Said <think>then\n</think>\nthis.", "Said <think>then\n</think>\nthis."),
        ("", ""),
    ],
)
def test_thinking_that_its_server_left_in_an_answer_is_none_of_it(said: str, text: str) -> None:
    halves = [TextPart(said[: len(said) // 2]), TextPart(said[len(said) // 2 :])]

    assert split_response(ModelResponse(parts=halves), "answer") == (text, ())


def test_arguments_that_are_no_text_become_text() -> None:
    response = ModelResponse(parts=[ToolCallPart("emit", {"a": "é"}), ToolCallPart("other", None)])

    assert split_response(response, "emit") == ('{"a": "é"}', (NamedCall("other", "{}"),))


@pytest.mark.parametrize(
    ("said", "text"),
    [
        pytest.param(["one ", "two"], "one two", id="words"),
        pytest.param(["{}"], "{}", id="a_form"),
        pytest.param([], '{"a": 1}', id="nothing_else_than_a_form_that_was_thought"),
    ],
)
def test_what_was_thought_is_said_where_it_is_a_form_and_all_there_is(
    said: list[str], text: str
) -> None:
    parts: list[ModelResponsePart] = [
        ThinkingPart('{"a": '),
        ThinkingPart("1}"),
        *map(TextPart, said),
    ]

    assert split_response(ModelResponse(parts=parts), "emit") == (text, ())


@pytest.mark.parametrize("thought", ["hm", "", '{"a": 1} or {}', "[1]", "{" * 9_000])
def test_thoughts_that_are_no_form_are_not_said(thought: str) -> None:
    assert split_response(ModelResponse(parts=[ThinkingPart(thought)]), "emit") == ("", ())


KEY = "sk-live-4f9a8b7c6d5e4f3a2b1c"
PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    "MIIEowIBAAKCAQEAu1SU1LfVLPHCozMxH2Mo\n4lgOEePzNm0tRgeL\n"
    "-----END RSA PRIVATE KEY-----"
)


def through(pieces: list[str], redactor: Redactor, *, by_sentence: bool = False) -> list[str]:
    shown: list[str] = []
    stream = StreamRedactor(redactor.redact, shown.append, by_sentence=by_sentence)
    for piece in pieces:
        stream.add(piece)
    stream.close()
    return shown


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(ends)]


texts = st.lists(
    st.sampled_from(["a line\n", "words ", "The end. ", KEY, f"{PEM}\n", "\n", "x" * 700, "é"])
).map("".join)


@pytest.mark.parametrize("by_sentence", [False, True])
@given(text=texts, places=st.lists(st.integers(0, 10_000), max_size=30))
def test_a_secret_is_taken_out_wherever_the_pieces_end(
    *, text: str, places: list[int], by_sentence: bool
) -> None:
    shown = "".join(through(cut(text, places), Redactor([KEY]), by_sentence=by_sentence))

    assert KEY not in shown
    assert "MIIEow" not in shown
    assert shown.count("a line") == text.count("a line")


@given(st.text(alphabet="abc \n", max_size=6000), st.lists(st.integers(0, 10_000), max_size=30))
def test_text_without_secrets_comes_through_whole(text: str, places: list[int]) -> None:
    assert "".join(through(cut(text, places), Redactor())) == text


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_key_with_headers_in_its_block_is_let_go_in_one_piece(size: int) -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEow1\n-----END RSA PRIVATE KEY-----"
    text = f"before\n{key}\nafter\n"
    shown = through([text[at : at + size] for at in range(0, len(text), size)], Redactor())

    assert "".join(shown) == "before\n[redacted]\nafter\n"


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("<think>So it\nis.</think>\n\nShort.\n", "Short.\n"),
        (" <THINK a>x</think > <think></think>\nShort <think>.", "Short <think>."),
        ("<thinking>is a word", "<thinking>is a word"),
        ("<thin", "<thin"),
        ("a < b\n", "a < b\n"),
    ],
)
def test_thinking_before_an_answer_is_not_shown(said: str, text: str, size: int) -> None:
    pieces = [said[at : at + size] for at in range(0, len(said), size)]

    assert "".join(through(pieces, Redactor())) == text


def test_a_line_is_shown_as_soon_as_it_is_complete() -> None:
    shown: list[str] = []
    stream = StreamRedactor(str, shown.append)
    stream.add("one\ntw")
    stream.add("o")

    assert shown == ["one\n"]

    stream.close()

    assert shown == ["one\n", "two"]


def test_by_sentence_a_line_without_secrets_is_shown_up_to_its_last_sentence() -> None:
    pieces = [
        "Rain. The do",
        "or opens. “Who",
        f" is it?” The key is {KEY}. He",
        " nods. Well\n",
        "Gone",
    ]

    assert through(pieces, Redactor([KEY]), by_sentence=True) == [
        "Rain. ",
        "The door opens. ",
        "“Who is it?” The key is [redacted]. He nods. Well\n",
        "Gone",
    ]


def test_a_long_line_is_shown_in_parts() -> None:
    shown: list[str] = []
    stream = StreamRedactor(str, shown.append)
    stream.add("word " * 1000)

    assert "".join(shown) == "word " * 1000
