"""Servers that users run themselves: slow, at an address of their own, held to a schema."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.support.served_models import question
from wavewright.config.settings import load_settings
from wavewright.engine.rehearsal.fake_model.replies import ApiError, RawBody, Reply
from wavewright.engine.rehearsal.fake_model.request import FakeModelRequest
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer
from wavewright.executor.budgets.memory import MemoryBudgetStore
from wavewright.planner.ports.model_port import ModelAnswer, ModelCall, ModelError
from wavewright.planner.types import JsonObject, JsonSchema
from wavewright.tools.models import open_models
from wavewright.tools.models.endpoints import SELF_HOSTED

pytestmark = pytest.mark.anyio

FORM: JsonSchema = {
    "type": "object",
    "properties": {"word": {"type": "string"}},
    "required": ["word"],
}
every_server = pytest.mark.parametrize("provider", sorted(SELF_HOSTED))


async def asked(
    provider: str, url: str, call: ModelCall, folder: Path, **models: float
) -> ModelAnswer:
    lines = "".join(f"  {name}: {value}\n" for name, value in models.items())
    (folder / "wavewright.yaml").write_text("version: 1\n" + (f"models:\n{lines}" if lines else ""))
    environment = {"WAVEWRIGHT_MODEL": f"{provider}:small", "WAVEWRIGHT_BASE_URL": url}
    settings = load_settings(folder, environment)
    async with (
        MemoryBudgetStore(settings.budgets) as budgets,
        open_models(settings, budgets, environment=environment) as opened,
    ):
        return await opened.ask(call)


@every_server
async def test_it_is_asked_at_the_address_of_the_environment_and_held_to_the_schema(
    provider: str, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(Reply(text='{"word": "yes"}'))
    schema = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}

    answer = await asked(provider, model_server.openai_url, question(schema=schema), tmp_path)

    [request] = model_server.requests
    assert answer.text == '{"word": "yes"}'
    assert request.body is not None
    assert request.body["response_format"]


async def test_an_answer_that_keeps_arriving_is_not_cut_by_a_clock(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    words = "many slow words " * 8
    model_server.answer(Reply(text=words, piece=8, interval=0.1))

    answer = await asked(
        "llamacpp", model_server.openai_url, question(timeout=0.6), tmp_path, request_seconds=0.6
    )

    assert answer.text == words
    assert len(model_server.requests) == 1


async def test_a_server_that_falls_silent_is_given_up(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(Reply(text="late", delay=30))

    with pytest.raises(ModelError, match=r"gave no answer in 0\.5 s"):
        await asked("llamacpp", model_server.openai_url, question(), tmp_path, request_seconds=0.5)

    assert len(model_server.requests) == 1


async def test_a_server_that_is_not_there_is_named_by_its_address_without_the_password(
    tmp_path: Path,
) -> None:
    url = "http://ada:secret-word@127.0.0.1:9/v1"

    with pytest.raises(
        ModelError, match=r"cannot be reached at http://127\.0\.0\.1:9/v1\n"
    ) as raised:
        await asked("vllm", url, question(), tmp_path)

    assert raised.value.hint == (
        "start the server, or set its address in VLLM_BASE_URL or WAVEWRIGHT_BASE_URL"
    )


OVER_CONTEXT = {
    "llama.cpp": (400, "the request exceeds the available context size, try increasing it"),
    "llama.cpp, out of room": (500, "Context size has been exceeded."),
    "LM Studio": (
        400,
        "However, the model is loaded with context length of only 4096 tokens, which is not enough.",
    ),
    "SGLang": (
        400,
        "The input (9000 tokens) is longer than the model's context length (4096 tokens).",
    ),
    "Ollama": (400, "the input length exceeds the context length"),
    "a gateway": (413, "Request too large for model `small` in organization `own`"),
    "a validator": (422, "`inputs` must have less than 4096 tokens. Given: 9000"),
    "DeepInfra": (400, "Requested input length 9000 exceeds maximum input length 4096"),
}


@pytest.mark.parametrize("server", OVER_CONTEXT)
async def test_a_question_that_is_too_long_is_told_as_such_and_sent_once(
    server: str, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(ApiError(*OVER_CONTEXT[server]))
    call = question(schema=FORM)

    with pytest.raises(ModelError) as raised:
        await asked("llamacpp", model_server.openai_url, call, tmp_path, attempts=1)

    assert raised.value.kind == "over_context"
    assert len(model_server.requests) == 1


def _asks_at_most(tokens: int, request: FakeModelRequest) -> bool:
    return request.max_tokens == tokens


async def test_an_answer_whose_length_leaves_a_context_no_room_is_asked_for_shorter(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    said = (
        "'max_tokens' or 'max_completion_tokens' is too large: {}. This model's maximum context"
        " length is 8192 tokens and your request has 3898 input tokens."
    )
    for ceiling in (16_000, 4_000):
        model_server.answer(
            ApiError(400, said.format(ceiling)),
            when=partial(_asks_at_most, ceiling),
        )
    model_server.answer("well")

    answer = await asked("vllm", model_server.openai_url, question(), tmp_path)

    assert answer.text == "well"
    assert [request.max_tokens for request in model_server.requests] == [16_000, 4_000, 1_000]


async def test_a_context_that_holds_no_short_answer_either_ends_the_question(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    said = "You requested 9000 tokens: 8000 from the input messages and 1000 for the completion."
    model_server.answer(ApiError(400, f"Over the maximum context length. {said}"))

    with pytest.raises(ModelError) as raised:
        await asked("vllm", model_server.openai_url, question(), tmp_path)

    assert raised.value.kind == "over_context"
    assert len(model_server.requests) == 3


@pytest.mark.parametrize(
    "said",
    [
        "The model 'small' does not exist",
        "Invalid model name passed in model=small. Call `/v1/models` to view available models.",
        'model "small" not found, try pulling it first',
    ],
)
async def test_a_model_that_a_server_does_not_have_is_asked_for_once(
    said: str, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(ApiError(400, said))

    with pytest.raises(ModelError, match="knows no such model") as raised:
        await asked("vllm", model_server.openai_url, question(schema=FORM), tmp_path)

    assert raised.value.hint
    # A probe, and the question.
    assert len(model_server.requests) <= 2


@pytest.mark.parametrize("said", ["Not Found", "File Not Found", "404 page not found", ""])
async def test_an_address_that_is_not_of_the_api_is_named_and_no_model_is_missing(
    said: str, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(ApiError(404, said))

    with pytest.raises(ModelError, match=f"is not found at {model_server.openai_url}") as raised:
        await asked("openai-chat", model_server.openai_url, question(schema=FORM), tmp_path)

    assert raised.value.hint is not None
    assert "/v1" in raised.value.hint


async def test_an_error_behind_the_beginning_of_an_answer_is_not_one_of_its_form(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    begun: JsonObject = {
        "choices": [{"index": 0, "delta": {"content": "{"}, "finish_reason": None}]
    }
    begun |= {"id": "a", "object": "chat.completion.chunk", "created": 1, "model": "small"}
    error: JsonObject = {"error": {"message": "out of memory", "type": "server_error", "code": 500}}
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in (begun, error)).encode()
    for _ in range(12):
        model_server.answer(RawBody(body, headers=(("content-type", "text/event-stream"),)))

    with pytest.raises(ModelError, match="out of memory"):
        await asked(
            "openai-chat", model_server.openai_url, question(schema=FORM), tmp_path, attempts=2
        )

    assert len(model_server.requests) == 2
