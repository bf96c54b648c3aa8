"""Servers that users run themselves: slow, at an address of their own, held to a schema."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.served_models import question
from wavewright.config.settings import load_settings
from wavewright.engine.rehearsal.fake_model.replies import Reply
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer
from wavewright.executor.budgets.memory import MemoryBudgetStore
from wavewright.planner.ports.model_port import ModelAnswer, ModelCall, ModelError
from wavewright.tools.models import open_models
from wavewright.tools.models.endpoints import SELF_HOSTED

pytestmark = pytest.mark.anyio

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
