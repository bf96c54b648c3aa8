"""What a model answered once is answered again, without the model; what nobody asked is told apart."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.messages import (
    FinishReason,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage
from syrupy.assertion import SnapshotAssertion

from wavewright.config.redaction import Redactor
from wavewright.config.secret_patterns import REDACTED
from wavewright.config.sections import CassetteMode
from wavewright.planner.types import JsonObject
from wavewright.tools.models.cassette.errors import CassetteError, CassetteMiss
from wavewright.tools.models.cassette.file import Cassette
from wavewright.tools.models.cassette.model import CassetteModel

KEY = "the-key-of-the-provider"
ABLE = ModelProfile(
    supports_json_schema_output=True, supports_json_object_output=True, supports_thinking=True
)
FORM: JsonObject = {"type": "object", "properties": {"steps": {"type": "array"}}}


@dataclass
class Scripted:
    """A model that gives its answers in turn, and counts how often it was asked."""

    answers: list[ModelResponse | Exception] = field(
        default_factory=list[ModelResponse | Exception]
    )
    asked: list[list[ModelMessage]] = field(default_factory=list[list[ModelMessage]])

    async def __call__(self, messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        self.asked.append(messages)
        answer = self.answers.pop(0) if self.answers else said(f"answer {len(self.asked)}")
        await anyio.lowlevel.checkpoint()
        if isinstance(answer, Exception):
            raise answer
        return answer


def said(*parts: str | ModelResponsePart, finish: FinishReason | None = "stop") -> ModelResponse:
    return ModelResponse(
        parts=[TextPart(part) if isinstance(part, str) else part for part in parts],
        usage=RequestUsage(input_tokens=12, output_tokens=3, cache_read_tokens=4),
        finish_reason=finish,
        provider_name="scripted",
    )


def asking(prompt: str, instructions: str | None = None) -> list[ModelMessage]:
    return [ModelRequest(parts=[UserPromptPart(prompt)], instructions=instructions)]


def recording(
    path: Path, *answers: ModelResponse | Exception, model: Scripted | None = None
) -> CassetteModel:
    script = model or Scripted(list(answers))
    return CassetteModel(FunctionModel(script, model_name="scripted-1"), tape(path, "record"))


def replaying(path: Path) -> CassetteModel:
    return CassetteModel(FunctionModel(refuse, profile=ABLE), tape(path, "replay"))


def refuse(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    raise AssertionError("a replay asks no model")


def tape(path: Path, mode: CassetteMode) -> Cassette:
    return Cassette.open(path, mode, Redactor([KEY]))


def as_tool(schema: JsonObject = FORM, name: str = "plan") -> ModelRequestParameters:
    tool = ToolDefinition(
        name=name, parameters_json_schema=schema, description="Answer by this.", kind="output"
    )
    return ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)


def as_format(schema: JsonObject = FORM, name: str = "plan") -> ModelRequestParameters:
    wanted = OutputObjectDefinition(json_schema=schema, name=name)
    return ModelRequestParameters(output_mode="native", output_object=wanted)


def content_of(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def write(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8")


def words(response: ModelResponse) -> str:
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


async def recorded(path: Path, response: ModelResponse, parameters: ModelRequestParameters) -> None:
    await model_request(
        recording(path, response), asking("go"), model_request_parameters=parameters
    )


async def replayed(path: Path, parameters: ModelRequestParameters) -> Sequence[ModelResponsePart]:
    answer = await model_request(replaying(path), asking("go"), model_request_parameters=parameters)
    return answer.parts


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.json"


# --- plain requests
# ---------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_an_answer_comes_back_whole_without_a_model(path: Path) -> None:
    first = await model_request(
        recording(path, said("one\ntwo", ThinkingPart("hm\nyes"))), asking("go")
    )
    again = await model_request(replaying(path), asking("go"))

    assert again.parts == first.parts
    assert again.usage == first.usage
    assert (again.finish_reason, again.model_name, again.provider_name) == (
        "stop",
        "scripted-1",
        "scripted",
    )


@pytest.mark.anyio
async def test_what_is_recorded_is_not_asked_again(path: Path) -> None:
    await model_request(recording(path), asking("go"))
    model = Scripted()
    again = recording(path, model=model)

    assert words(await model_request(again, asking("go"))) == "answer 1"
    assert model.asked == []
    await model_request(again, asking("go on"))
    assert len(model.asked) == 1


@pytest.mark.anyio
async def test_equal_requests_are_answered_in_their_order_and_then_by_the_last(path: Path) -> None:
    model = recording(path)
    for _ in range(3):
        await model_request(model, asking("go"))
    again = replaying(path)

    answers = [words(await model_request(again, asking("go"))) for _ in range(5)]

    assert answers == ["answer 1", "answer 2", "answer 3", "answer 3", "answer 3"]


@pytest.mark.anyio
async def test_a_question_that_failed_is_not_recorded_and_takes_no_turn(path: Path) -> None:
    model = recording(path, said("first"), ModelAPIError("scripted", "down"), said("second"))
    await model_request(model, asking("go"))
    with pytest.raises(ModelAPIError, match="down"):
        await model_request(model, asking("go"))
    await model_request(model, asking("go"))
    again = replaying(path)

    assert [words(await model_request(again, asking("go"))) for _ in range(2)] == [
        "first",
        "second",
    ]


@pytest.mark.anyio
async def test_one_cassette_serves_several_models(path: Path) -> None:
    cassette = tape(path, "record")
    for name in ("one", "two"):
        model = CassetteModel(FunctionModel(Scripted(), model_name=name), cassette)
        await model_request(model, asking(f"go {name}"))

    assert len(tape(path, "replay")) == 2


def told(parts: list[ModelResponsePart]) -> str:
    """An id that is the same at every collection, which the ids of tool calls are not."""
    return repr([part.args if isinstance(part, ToolCallPart) else part for part in parts])


@pytest.mark.anyio
@pytest.mark.parametrize(
    "parts",
    [
        [ToolCallPart("add", '{"a": 1, "b": [1.0, "ä"]}')],
        [ToolCallPart("add", '{"a":1}')],
        [ToolCallPart("add", '{\n  "a": 1\n}')],
        [ToolCallPart("add", {"a": 1})],
        [ToolCallPart("add", '{"a": 1, "a": 2}')],
        [ToolCallPart("add", "no JSON,\nat all")],
        [ToolCallPart("add", "[1, 2]")],
        [ToolCallPart("add", '{"a": NaN, "b": 1e400}')],
        [ToolCallPart("add", '{"a": "\\u00e4"}')],
        [ToolCallPart("add", "")],
        [ToolCallPart("add", None)],
        [TextPart("see:"), ToolCallPart("add", {"a": 1}), ToolCallPart("add", {"a": 2})],
        [TextPart('{"steps": []}')],
        [TextPart("")],
        [],
    ],
    ids=told,
)
async def test_answers_come_back_letter_for_letter(
    path: Path, parts: list[ModelResponsePart]
) -> None:
    await recorded(path, said(*parts), ModelRequestParameters())

    again = await replayed(path, ModelRequestParameters())

    assert [seen(part) for part in again] == [seen(part) for part in parts]


def seen(part: ModelResponsePart) -> object:
    """Return what is heard of a part: the id of a call is random."""
    return (part.tool_name, part.args) if isinstance(part, ToolCallPart) else part


@pytest.mark.anyio
async def test_half_a_surrogate_pair_becomes_a_replacement_character(path: Path) -> None:
    await recorded(path, said("cut \ud83d off"), ModelRequestParameters())

    assert await replayed(path, ModelRequestParameters()) == [TextPart("cut \ufffd off")]


@pytest.mark.anyio
@pytest.mark.parametrize("finish", ["length", "content_filter", "error", None])
async def test_how_an_answer_ended_comes_back(path: Path, finish: FinishReason | None) -> None:
    await model_request(recording(path, said("cut", finish=finish)), asking("go"))

    assert (await model_request(replaying(path), asking("go"))).finish_reason == finish


# --- whoever is asked, whenever
# ---------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_an_answer_given_through_a_tool_is_given_as_text_where_text_is_wanted(
    path: Path,
) -> None:
    await recorded(path, said(ToolCallPart("plan", '{"steps":["a"]}')), as_tool())

    assert await replayed(path, as_format()) == [TextPart('{"steps":["a"]}')]


@pytest.mark.anyio
async def test_an_answer_given_as_text_is_given_through_a_tool_where_one_is_wanted(
    path: Path,
) -> None:
    await recorded(path, said('{\n "steps": ["a"]\n}'), as_format())

    assert [seen(part) for part in await replayed(path, as_tool())] == [
        ("plan", '{\n "steps": ["a"]\n}')
    ]


@pytest.mark.anyio
async def test_words_stay_words_whatever_was_wanted(path: Path) -> None:
    await recorded(path, said("I would rather not."), as_format())

    assert await replayed(path, as_tool()) == [TextPart("I would rather not.")]


@pytest.mark.anyio
async def test_ids_clocks_headers_and_thinking_are_no_part_of_a_question(path: Path) -> None:
    def conversation(call_id: str) -> list[ModelMessage]:
        call = ModelResponse(
            parts=[ToolCallPart("add", {"a": 1}, call_id), ThinkingPart("hm", signature=call_id)]
        )
        return [*asking("go"), call, ModelRequest(parts=[UserPromptPart("and?")], run_id=call_id)]

    settings: ModelSettings = {
        "temperature": 0.0,
        "timeout": 3,
        "extra_headers": {"x": "1"},
        "max_retries": 0,
    }
    await model_request(recording(path), conversation("one"), model_settings=settings)
    other: ModelSettings = {
        "temperature": 0.0,
        "timeout": 9,
        "request_timeout": 2,
        "thinking": "high",
    }

    assert (
        words(await model_request(replaying(path), conversation("two"), model_settings=other))
        == "answer 1"
    )


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("messages", "settings", "parameters"),
    [
        (asking("go!"), {"temperature": 0.5}, as_tool()),
        (asking("go", "Be brief."), {"temperature": 0.5}, as_tool()),
        (asking("go"), {"temperature": 0.7}, as_tool()),
        (asking("go"), {"temperature": 0.5, "max_tokens": 9}, as_tool()),
        (asking("go"), {"temperature": 0.5, "tool_choice": "none"}, as_tool()),
        (asking("go"), {"temperature": 0.5}, as_tool({"type": "object"})),
        (asking("go"), {"temperature": 0.5}, as_tool(name="verdict")),
        (asking("go"), {"temperature": 0.5}, ModelRequestParameters()),
        ([*asking("go"), *asking("on")], {"temperature": 0.5}, as_tool()),
    ],
    ids=[
        "prompt",
        "instructions",
        "temperature",
        "ceiling",
        "choice",
        "schema",
        "name",
        "no form",
        "more",
    ],
)
async def test_whatever_shapes_an_answer_is_part_of_the_question(
    path: Path,
    messages: list[ModelMessage],
    settings: ModelSettings,
    parameters: ModelRequestParameters,
) -> None:
    await model_request(
        recording(path),
        asking("go"),
        model_settings={"temperature": 0.5},
        model_request_parameters=as_tool(),
    )

    with pytest.raises(CassetteMiss):
        await model_request(
            replaying(path), messages, model_settings=settings, model_request_parameters=parameters
        )


# --- an agent's loop
# --------------------------------------------------------------------------------------------


class Sum(BaseModel):
    total: int


def adder(model: CassetteModel, form: object = Sum) -> Agent[None, Sum]:
    agent: Agent[None, Sum] = Agent(model, output_type=form, instructions="Add\nthese.")  # type: ignore[call-overload]

    async def add(first: int, second: int) -> int:
        """Add two numbers."""
        return first + second

    agent.tool_plain(add)
    return agent


LOOP = (
    said(
        ToolCallPart("add", {"first": 1, "second": 2}),
        ToolCallPart("add", '{"first":3,"second":4}'),
    ),
    said(ToolCallPart("add", '{"first": "three", "second": 7}')),
    said(ToolCallPart("final_result", {"total": 10})),
)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "form", [Sum, ToolOutput(Sum), NativeOutput(Sum), PromptedOutput(Sum)], ids=repr
)
async def test_a_loop_with_tools_runs_again_without_a_model(path: Path, form: object) -> None:
    first = await adder(recording(path, *LOOP)).run("1, 2, 3 and 4")
    again = await adder(replaying(path), form).run("1, 2, 3 and 4")

    assert again.output == first.output == Sum(total=10)
    assert again.usage == first.usage
    assert len(again.all_messages()) >= 6


@pytest.mark.anyio
async def test_the_ids_of_replayed_calls_are_the_same_each_time(path: Path) -> None:
    await adder(recording(path, *LOOP)).run("1, 2, 3 and 4")

    first, second = [
        call_ids((await adder(replaying(path)).run("1, 2, 3 and 4")).all_messages()) for _ in "ab"
    ]

    assert first == second
    assert len(set(first)) == len(first) == 4


def call_ids(messages: list[ModelMessage]) -> list[str]:
    return [
        part.tool_call_id
        for message in messages
        for part in message.parts
        if isinstance(part, ToolCallPart)
    ]


# --- streams
# ----------------------------------------------------------------------------------------------------


def streaming(path: Path, *pieces: str) -> CassetteModel:
    async def stream(_messages: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[str]:
        for piece in pieces:
            yield piece

    return CassetteModel(
        FunctionModel(stream_function=stream, model_name="scripted-1"), tape(path, "record")
    )


async def heard(
    model: CassetteModel, parameters: ModelRequestParameters | None = None
) -> tuple[list[str], str]:
    pieces: list[str] = []
    async with model_request_stream(
        model, asking("go"), model_request_parameters=parameters
    ) as stream:
        async for event in stream:
            if event.event_kind == "part_start" and isinstance(event.part, TextPart):
                pieces.append(event.part.content)
            elif event.event_kind == "part_delta" and event.delta.part_delta_kind == "text":
                pieces.append(event.delta.content_delta)
    return pieces, words(stream.get())


@pytest.mark.anyio
async def test_a_stream_comes_back_line_by_line(path: Path) -> None:
    live, whole = await heard(streaming(path, "one\nt", "wo\nth", "ree"))

    assert live == ["one\nt", "wo\nth", "ree"]
    assert await heard(replaying(path)) == (["one\n", "two\n", "three"], whole)


@pytest.mark.anyio
async def test_a_stream_and_a_plain_request_are_the_same_question(path: Path) -> None:
    await heard(streaming(path, "one ", "two"))

    assert words(await model_request(replaying(path), asking("go"))) == "one two"


@pytest.mark.anyio
async def test_a_recorded_call_streams_whole(path: Path) -> None:
    await recorded(path, said(ToolCallPart("plan", '{"steps":[]}')), as_tool())

    async with model_request_stream(
        replaying(path), asking("go"), model_request_parameters=as_tool()
    ) as stream:
        kinds = [event.event_kind async for event in stream]

    assert kinds == ["part_start", "final_result", "part_end"]
    assert [seen(part) for part in stream.get().parts] == [("plan", '{"steps":[]}')]
    assert stream.get().finish_reason == "stop"
    assert stream.usage == RequestUsage(input_tokens=12, output_tokens=3, cache_read_tokens=4)


@pytest.mark.anyio
async def test_a_stream_that_nobody_heard_to_its_end_is_not_recorded(path: Path) -> None:
    model = streaming(path, "one", "two", "three")
    async with model_request_stream(model, asking("go")) as stream:
        async for _ in stream:
            break

    assert content_of(path) is None


async def fail_while_hearing(model: CassetteModel) -> None:
    async with model_request_stream(model, asking("go")) as stream:
        async for _ in stream:
            raise LookupError


@pytest.mark.anyio
async def test_a_listener_that_fails_leaves_nothing_recorded(path: Path) -> None:
    model = streaming(path, "one", "two")
    with pytest.raises(LookupError):
        await fail_while_hearing(model)

    assert content_of(path) is None
    await heard(model)
    assert (await heard(replaying(path)))[1] == "onetwo"


# --- what is missing
# --------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_miss_shows_the_nearest_request_the_difference_and_the_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("tapes/plan.json")
    model = recording(path)
    await model_request(model, asking("Count the\nwords of\nthis text.", "You are a planner."))
    await model_request(model, asking("Judge this.", "You are a reviewer.\nBe strict."))

    with pytest.raises(CassetteMiss) as miss:
        await model_request(
            replaying(path), asking("Count the\nletters of\nthis text.", "You are a planner.")
        )

    assert str(miss.value) == snapshot


@pytest.mark.anyio
async def test_a_difference_far_to_the_right_is_shown(path: Path) -> None:
    await model_request(recording(path), asking("x" * 500 + " apples"))

    with pytest.raises(CassetteMiss, match=r"\+.*pears"):
        await model_request(replaying(path), asking("x" * 500 + " pears"))


@pytest.mark.anyio
async def test_a_miss_is_short_however_long_the_request(path: Path) -> None:
    await model_request(
        recording(path), asking("\n".join(f"line {number}" for number in range(3000)))
    )

    with pytest.raises(CassetteMiss, match="lines more") as miss:
        await model_request(
            replaying(path), asking("\n".join(f"row {number}" for number in range(3000)))
        )

    assert len(str(miss.value).splitlines()) < 60


@pytest.mark.anyio
async def test_a_miss_in_an_empty_cassette_says_so(path: Path) -> None:
    write(path, '{"cassette": 1, "entries": []}')

    with pytest.raises(CassetteMiss, match=r"run\.json has no answer to this request: it is empty"):
        await model_request(replaying(path), asking("go"))


@pytest.mark.anyio
async def test_a_replay_never_asks_a_model_that_is_there(path: Path) -> None:
    await model_request(recording(path), asking("go"))
    model = Scripted()
    again = CassetteModel(FunctionModel(model), tape(path, "replay"))

    await model_request(again, asking("go"))
    with pytest.raises(CassetteMiss):
        await model_request(again, asking("stay"))
    assert model.asked == []


# --- the file
# ---------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_the_file_can_be_read_by_people(path: Path, snapshot: SnapshotAssertion) -> None:
    await adder(recording(path, *LOOP)).run("Add 1, 2,\n3 and 4.")

    assert content_of(path) == snapshot


@pytest.mark.anyio
async def test_no_secret_is_written_wherever_it_stands(path: Path) -> None:
    text = f"the key is {KEY}\nand sk-proj-synthetic0123456789abc"
    tool = ToolDefinition(
        name="fetch", description=text, parameters_json_schema={"description": text}
    )
    answer = said(
        text,
        ThinkingPart(text),
        ToolCallPart("a", {"x": text}),
        ToolCallPart("b", f'{{"y": "{KEY}"}}'),
    )
    model = recording(path, answer)
    await model_request(
        model,
        [*asking(text, text), answer, *asking(text)],
        model_request_parameters=ModelRequestParameters(function_tools=[tool]),
    )

    written = content_of(path) or ""

    assert REDACTED in written
    assert KEY not in written
    assert "sk-proj" not in written


@pytest.mark.anyio
async def test_a_request_with_a_secret_finds_its_answer(path: Path) -> None:
    await model_request(recording(path), asking(f"use {KEY}"))

    assert words(await model_request(replaying(path), asking(f"use {KEY}"))) == "answer 1"


@pytest.mark.anyio
async def test_the_file_does_not_depend_on_the_order_of_recording(tmp_path: Path) -> None:
    prompts = ["b", "a", "d", "c"]
    for name, order in (("one", prompts), ("two", prompts[::-1])):
        model = recording(tmp_path / name, *[said(f"to {prompt}") for prompt in order])
        for prompt in order:
            await model_request(model, asking(prompt))

    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.anyio
async def test_parallel_requests_are_all_recorded(path: Path) -> None:
    model = recording(path)
    async with anyio.create_task_group() as tasks:
        for number in range(40):
            tasks.start_soon(model_request, model, asking(f"prompt {number % 20}"))
    again = replaying(path)

    answers = [
        words(await model_request(again, asking(f"prompt {number % 20}"))) for number in range(40)
    ]

    assert sorted(answers) == sorted(f"answer {number}" for number in range(1, 41))


@pytest.mark.anyio
async def test_what_another_recording_wrote_meanwhile_stays(path: Path) -> None:
    here, there = recording(path), recording(path)
    await model_request(here, asking("of here"))
    await model_request(there, asking("of there"))
    await model_request(here, asking("of here again"))

    assert len(tape(path, "replay")) == 3


@pytest.mark.anyio
async def test_nothing_is_left_beside_the_file(path: Path) -> None:
    await model_request(recording(path), asking("go"))

    assert [found.name for found in path.parent.iterdir()] == ["run.json"]


@pytest.mark.anyio
async def test_a_request_edited_by_hand_is_the_one_that_is_answered(path: Path) -> None:
    await model_request(recording(path), asking("go"))
    write(path, (content_of(path) or "").replace('"go"', '"stay"'))

    assert words(await model_request(replaying(path), asking("stay"))) == "answer 1"


ENTRY: JsonObject = {"request": {"messages": []}, "answers": [{"parts": [{"text": "hello"}]}]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is damaged: Expecting value"),
        ('{"cassette": 1, "entries": [', "is damaged: Expecting value: line 1 column 29"),
        ("[" * 100_000, "is damaged"),
        (b"\xff\xfe", "is damaged"),
        ("[]", "is no cassette"),
        ('{"interactions": [], "version": 1}', "is no cassette"),
        ('{"cassette": 2, "entries": []}', "has version 2, and this program reads 1"),
        ('{"cassette": 1}', "is damaged at entries: Field required"),
        ('{"cassette": 1, "entries": {}}', "is damaged at entries"),
        (
            json.dumps({"cassette": 1, "entries": [ENTRY, {**ENTRY, "answers": []}]}),
            r"at entries\.1\.answers",
        ),
        (
            json.dumps(
                {"cassette": 1, "entries": [{**ENTRY, "answers": [{"parts": [{"text": 3}]}]}]}
            ),
            r"is damaged at entries\.0\.answers\.0\.parts\.0\.text",
        ),
        (
            json.dumps(
                {
                    "cassette": 1,
                    "entries": [{**ENTRY, "answers": [{"parts": [{"text": "a", "call": "b"}]}]}],
                }
            ),
            "a part is one of text, thinking, answer, call and other",
        ),
    ],
)
def test_a_damaged_or_foreign_file_is_refused_with_the_place(
    path: Path, content: str | bytes, message: str
) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())

    with pytest.raises(CassetteError, match=message) as error:
        tape(path, "replay")

    assert str(path) in str(error.value)
    assert "help: " in str(error.value)


def test_a_cassette_that_is_not_there_says_how_to_record_one(path: Path) -> None:
    with pytest.raises(
        CassetteError, match=r"there is no cassette .*run\.json\n  = help: record it"
    ):
        tape(path, "replay")


@pytest.mark.anyio
async def test_a_cassette_that_cannot_be_written_is_an_error_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "run.json").mkdir()
    with pytest.raises(CassetteError, match="cannot be read: Is a directory"):
        tape(tmp_path / "run.json", "record")

    model = recording(tmp_path / "folder" / "run.json")
    (tmp_path / "folder").touch()
    with pytest.raises(CassetteError, match=r"cannot be (read|written)"):
        await model_request(model, asking("go"))
