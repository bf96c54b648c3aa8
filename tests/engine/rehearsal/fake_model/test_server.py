"""The scripted server, as the clients of the real APIs see it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from pydantic_ai import (
    ModelAPIError,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    TextPart,
    ToolCallPart,
    ToolDefinition,
)
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from wavewright.config.sources import DocumentError
from wavewright.engine.rehearsal.fake_model.replies import (
    ClaimedUsage,
    Reply,
    calling_tool,
    cut_at_length,
    cut_stream,
    filtered,
    gzip_bomb,
    no_choices,
    overloaded,
    silence,
    slow_drip,
    with_usage,
)
from wavewright.engine.rehearsal.fake_model.request import Wire
from wavewright.engine.rehearsal.fake_model.server import (
    API_KEY,
    FakeModelServer,
    add_script,
    asked_for,
    offering,
)
from wavewright.planner.types import JsonObject

WIRES: tuple[Wire, ...] = ("chat", "responses", "messages")
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"sum": {"type": "integer"}},
    "required": ["sum"],
    "additionalProperties": False,
}
ADD = ToolDefinition(name="add", description="Add numbers.", parameters_json_schema=SCHEMA)

every_wire = pytest.mark.parametrize("wire", WIRES)
every_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@asynccontextmanager
async def model_over(wire: Wire, server: FakeModelServer) -> AsyncGenerator[Model]:
    """A provider's own client, without retries."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(httpx2.AsyncClient(timeout=5))
        quick = ModelSettings(max_retries=0, max_tokens=1000)
        match wire:
            case "chat" | "responses":
                kind = OpenAIChatModel if wire == "chat" else OpenAIResponsesModel
                provider = OpenAIProvider(
                    base_url=server.openai_url, api_key=API_KEY, http_client=client
                )
                yield kind("scripted", provider=provider, settings=quick)
            case "messages":
                provider_ = AnthropicProvider(
                    base_url=server.url, api_key=API_KEY, http_client=client
                )
                yield AnthropicModel("scripted", provider=provider_, settings=quick)


async def ask(
    wire: Wire,
    server: FakeModelServer,
    *,
    stream: bool = False,
    parameters: ModelRequestParameters | None = None,
    prompt: str = "How much is it?",
) -> ModelResponse:
    """Ask one question over a wire."""
    asked: list[ModelMessage] = [ModelRequest.user_text_prompt(prompt, instructions="Be short.")]
    async with model_over(wire, server) as model:
        if not stream:
            return await model_request(model, asked, model_request_parameters=parameters)
        async with model_request_stream(
            model, asked, model_request_parameters=parameters
        ) as streamed:
            async for _ in streamed:
                pass
            return streamed.get()


def text_of(response: ModelResponse) -> str:
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


def calls_of(response: ModelResponse) -> list[tuple[str, object]]:
    return [
        (part.tool_name, part.args_as_dict())
        for part in response.parts
        if isinstance(part, ToolCallPart)
    ]


@pytest.mark.anyio
@every_way
@every_wire
async def test_a_text_reaches_the_client_with_its_tokens(
    wire: Wire, *, stream: bool, model_server: FakeModelServer
) -> None:
    words = "It is forty-two, give or take a little, and there is more to say about that."
    model_server.answer(words)

    response = await ask(wire, model_server, stream=stream)

    assert text_of(response) == words
    assert response.finish_reason == "stop"
    assert response.usage.output_tokens == len(words) // 4
    [request] = model_server.requests
    assert response.usage.input_tokens == request.character_count // 4
    assert (request.wire, request.is_stream) == (wire, stream)
    assert (request.instructions, request.prompt) == ("Be short.", "How much is it?")


@pytest.mark.anyio
@every_way
@every_wire
async def test_an_object_is_given_by_the_tool_that_is_forced(
    wire: Wire, *, stream: bool, model_server: FakeModelServer
) -> None:
    model_server.answer({"sum": 42}, when=asked_for("add"))
    parameters = ModelRequestParameters(
        output_tools=[ADD], output_mode="tool", allow_text_output=False
    )

    response = await ask(wire, model_server, stream=stream, parameters=parameters)

    assert calls_of(response) == [("add", {"sum": 42})]
    assert model_server.requests[0].schema == SCHEMA


@pytest.mark.anyio
@pytest.mark.parametrize("wire", ["chat", "responses"])
async def test_an_object_is_json_where_a_response_format_is_asked_for(
    wire: Wire, model_server: FakeModelServer
) -> None:
    model_server.answer({"sum": 42}, when=asked_for("total"))
    form = OutputObjectDefinition(json_schema=SCHEMA, name="total")
    parameters = ModelRequestParameters(output_mode="native", output_object=form)

    response = await ask(wire, model_server, parameters=parameters)

    assert json.loads(text_of(response)) == {"sum": 42}


@pytest.mark.anyio
@every_way
@every_wire
async def test_a_model_may_call_a_tool_that_it_is_offered(
    wire: Wire, *, stream: bool, model_server: FakeModelServer
) -> None:
    model_server.answer(calling_tool("add", sum=1), when=offering("add"))

    response = await ask(
        wire, model_server, stream=stream, parameters=ModelRequestParameters(function_tools=[ADD])
    )

    assert calls_of(response) == [("add", {"sum": 1})]
    assert model_server.requests[0].tool_names == ("add",)


@pytest.mark.anyio
@every_way
@every_wire
@pytest.mark.parametrize(
    ("fault", "reason"),
    [(cut_at_length("so far"), "length"), (filtered("so far"), "content_filter")],
    ids=["length", "filter"],
)
async def test_a_reply_says_why_it_ends_early(
    wire: Wire, *, stream: bool, fault: Reply, reason: str, model_server: FakeModelServer
) -> None:
    model_server.answer(fault)

    response = await ask(wire, model_server, stream=stream)

    assert response.finish_reason == reason


@pytest.mark.anyio
@every_wire
async def test_a_cut_stream_gives_no_reason_for_its_end(
    wire: Wire, model_server: FakeModelServer
) -> None:
    model_server.answer(cut_stream("so far"))

    try:
        response = await ask(wire, model_server, stream=True)
    except ModelAPIError:
        return  # a client may notice by itself

    # The client's library takes a missing reason for a stop; only what the provider said itself
    # tells them apart.
    assert "finish_reason" not in (response.provider_details or {})


@pytest.mark.anyio
@every_wire
async def test_an_error_has_its_status_and_says_how_long_to_wait(
    wire: Wire, model_server: FakeModelServer
) -> None:
    model_server.answer(overloaded(7))

    with pytest.raises(ModelAPIError) as caught:
        await ask(wire, model_server)

    assert getattr(caught.value, "status_code", None) == 429
    assert getattr(caught.value, "retry_after", None) == 7


@pytest.mark.anyio
async def test_several_answers_are_a_queue_and_the_next_rule_follows(
    model_server: FakeModelServer,
) -> None:
    model_server.answer("one", "two", when="count")
    model_server.answer("many")

    said = [text_of(await ask("chat", model_server, prompt="count")) for _ in range(4)]

    assert said == ["one", "two", "many", "many"]
    assert [exchange.rule for exchange in model_server.ledger] == [
        "rule 1",
        "rule 1",
        "rule 2",
        "rule 2",
    ]


@pytest.mark.anyio
async def test_a_rule_may_answer_a_number_of_times_and_by_what_is_asked(
    model_server: FakeModelServer,
) -> None:
    model_server.answer(lambda request: request.prompt.upper(), times=1)
    model_server.answer("later")

    assert text_of(await ask("chat", model_server, prompt="aloud")) == "ALOUD"
    assert text_of(await ask("chat", model_server)) == "later"


@pytest.mark.anyio
async def test_a_request_that_no_rule_fits_is_told_so(model_server: FakeModelServer) -> None:
    model_server.answer("never", when="another question")

    with pytest.raises(
        ModelAPIError, match=r"no rule of the fake model fits .*'How much is it\?'.*rule 1"
    ):
        await ask("chat", model_server)

    assert [request.prompt for request in model_server.unmatched] == ["How much is it?"]


@pytest.mark.anyio
@every_wire
async def test_the_ledger_knows_that_there_was_a_key_and_not_which(
    wire: Wire, model_server: FakeModelServer
) -> None:
    model_server.answer("yes")

    await ask(wire, model_server)

    [request] = model_server.requests
    assert (request.had_key, request.key_was) == (True, len(API_KEY))
    assert API_KEY not in repr(model_server.ledger)


@pytest.mark.anyio
async def test_a_silent_answer_ends_with_its_client_or_with_the_test(
    model_server: FakeModelServer,
) -> None:
    model_server.answer(silence())

    with anyio.move_on_after(0.05) as scope:
        await ask("chat", model_server)

    assert scope.cancelled_caught
    await anyio.to_thread.run_sync(model_server.wait_until_idle)


@pytest.mark.anyio
async def test_a_drip_never_lets_a_read_time_out(model_server: FakeModelServer) -> None:
    model_server.answer(slow_drip("x" * 10_000, interval=0.01))

    with anyio.move_on_after(0.2) as scope:
        await ask("chat", model_server)

    assert scope.cancelled_caught


@pytest.mark.anyio
async def test_a_bomb_is_small_on_the_wire_and_large_behind_it(
    model_server: FakeModelServer,
) -> None:
    model_server.answer(gzip_bomb(megabytes=100))
    packed = unpacked = 0

    async with httpx2.AsyncClient() as client:
        asked = client.stream(
            "POST", f"{model_server.openai_url}/chat/completions", json={"messages": []}
        )
        async with asked as response:
            async for piece in response.aiter_bytes():
                unpacked += len(piece)
            packed = response.num_bytes_downloaded

    assert unpacked > 100 * 2**20
    assert packed < unpacked / 500


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("fault", "field", "expected"),
    [
        (no_choices(), "choices", []),
        (with_usage("yes", "missing"), "usage", None),
        (
            with_usage("yes", ClaimedUsage(3, 2, total=-5)),
            "usage",
            {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": -5},
        ),
    ],
    ids=["empty", "no-usage", "lying-usage"],
)
async def test_a_fault_of_the_body_is_there_as_it_is_named(
    fault: Reply, field: str, expected: object, model_server: FakeModelServer
) -> None:
    model_server.answer(fault)

    async with httpx2.AsyncClient() as client:
        answer = await client.post(
            f"{model_server.openai_url}/chat/completions", json={"messages": []}
        )

    assert answer.json().get(field) == expected


@pytest.mark.anyio
async def test_the_server_counts_who_is_served_at_once(model_server: FakeModelServer) -> None:
    model_server.answer(Reply("slow", delay=0.1))

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(ask, "chat", model_server)

    assert 1 < model_server.max_in_flight <= 5


SCRIPT = """
answers:
  - when: {schema: add}
    json: {sum: 3}
  - fault: {name: overloaded, retry_after: 5}
    times: 1
  - when: {contains: much, wire: chat}
    text: Quite a lot.
"""


@pytest.mark.anyio
async def test_a_script_is_rules_in_yaml(model_server: FakeModelServer, tmp_path: Path) -> None:
    file = tmp_path / "answers.yaml"
    file.write_text(SCRIPT)
    add_script(model_server, file)

    forced = ModelRequestParameters(output_tools=[ADD], output_mode="tool", allow_text_output=False)
    assert calls_of(await ask("chat", model_server, parameters=forced)) == [("add", {"sum": 3})]
    with pytest.raises(ModelAPIError):
        await ask("chat", model_server)
    assert text_of(await ask("chat", model_server)) == "Quite a lot."


def test_a_script_with_two_answers_in_a_rule_is_refused(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    file = tmp_path / "answers.yaml"
    file.write_text("answers:\n  - text: one\n    json: {two: 2}\n")

    with pytest.raises(DocumentError) as caught:
        add_script(model_server, file)

    assert "exactly one of text, json, calls and fault" in str(caught.value)
