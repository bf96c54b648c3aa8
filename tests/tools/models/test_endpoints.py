from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from tests.support.served_models import question
from wavewright.config.sections import ModelsSection
from wavewright.config.settings import Settings
from wavewright.executor.budgets.memory import MemoryBudgetStore
from wavewright.planner.ports.model_port import ModelError
from wavewright.tools.models import ModelConfigError, check_models, open_models
from wavewright.tools.models.endpoints import NO_KEY, find_endpoint

pytestmark = pytest.mark.anyio

OTHERS = {
    "OPENAI_API_KEY": "sk-openai-111111111111",
    "OPENAI_ADMIN_KEY": "sk-admin-222222222222",
    "OPENAI_ORG_ID": "org-3333333333333333",
    "OPENAI_PROJECT_ID": "proj-444444444444444",
    "ANTHROPIC_API_KEY": "sk-ant-555555555555",
    "ANTHROPIC_AUTH_TOKEN": "ant-token-6666666666",
    "GOOGLE_API_KEY": "goog-77777777777777",
    "GEMINI_API_KEY": "gem-88888888888888",
    "OLLAMA_API_KEY": "oll-99999999999999",
    "VLLM_API_KEY": "vll-00000000000000",
}
"""What somebody's environment may hold."""


def settings(
    model: str, *, url: str | None = None, file_url: str | None = None, key: str | None = None
) -> Settings:
    return Settings(
        root=Path(),
        state_dir=Path(),
        journal=Path(),
        output_dir=Path(),
        model=model,
        models=ModelsSection(base_url=file_url, attempts=1),
        base_url=url or file_url,
        api_key=key,
    )


@pytest.mark.parametrize(
    "model", ["openai:m", "openai-chat:m", "anthropic:m", "google:m", "ollama:m", "vllm:m"]
)
def test_an_address_of_the_environment_is_the_default_models(model: str) -> None:
    endpoint = find_endpoint(model, settings(model, url="http://here:1/v1", key="mine"), OTHERS)

    assert endpoint.url == ("http://here:1" if model == "anthropic:m" else "http://here:1/v1")
    assert endpoint.key == "mine"
    assert endpoint.is_foreign


@pytest.mark.parametrize(
    "url",
    [
        "http://here:1/v1/",
        " http://here:1/v1\n",
        "http://here:1/v1/chat/completions",
        "http://here:1/v1/chat/completions/",
    ],
)
def test_an_address_is_read_as_it_is_copied(url: str) -> None:
    endpoint = find_endpoint("vllm:m", settings("vllm:m", url=url), {})

    assert endpoint.url == "http://here:1/v1"


def test_an_address_without_a_key_gets_none_of_the_others() -> None:
    endpoint = find_endpoint(
        "openai-chat:m", settings("openai-chat:m", url="http://here/v1"), OTHERS
    )

    assert endpoint.key == NO_KEY


def test_an_address_of_the_environment_takes_no_other_providers_models_along() -> None:
    one = settings("openai-chat:m", url="http://here/v1", key="mine")

    endpoint = find_endpoint("anthropic:m", one, OTHERS)

    assert (endpoint.url, endpoint.key) == (
        "https://api.anthropic.com",
        OTHERS["ANTHROPIC_API_KEY"],
    )


def test_an_address_of_the_file_is_for_compatible_endpoints_only() -> None:
    one = settings("anthropic:m", file_url="http://here/v1", key="mine")

    default = find_endpoint("anthropic:m", one, OTHERS)
    worker = find_endpoint("openai-chat:w", one, OTHERS)

    assert (default.url, default.key) == ("https://api.anthropic.com", OTHERS["ANTHROPIC_API_KEY"])
    assert (worker.url, worker.key) == ("http://here/v1", "mine")


def test_a_key_without_an_address_is_the_default_models() -> None:
    one = settings("anthropic:m", key="mine")

    assert find_endpoint("anthropic:other", one, OTHERS).key == "mine"
    assert find_endpoint("openai:m", one, OTHERS).key == OTHERS["OPENAI_API_KEY"]


@pytest.mark.parametrize(
    ("model", "variable", "given", "url"),
    [
        ("openai:m", "OPENAI_BASE_URL", "http://proxy/v1/", "http://proxy/v1"),
        ("anthropic:m", "ANTHROPIC_BASE_URL", "http://proxy/v1", "http://proxy"),
        ("ollama:m", "OLLAMA_BASE_URL", "http://big:11434/v1", "http://big:11434/v1"),
        ("ollama:m", "NOTHING", "", "http://localhost:11434/v1"),
        ("vllm:m", "NOTHING", "", "http://localhost:8000/v1"),
    ],
)
def test_a_providers_own_variable_says_where_it_is(
    model: str, variable: str, given: str, url: str
) -> None:
    assert find_endpoint(model, settings(model), {**OTHERS, variable: given}).url == url


def test_an_address_that_is_none_is_refused_and_not_repeated() -> None:
    with pytest.raises(ModelConfigError) as caught:
        check_models(settings("openai-chat:m", url="me:secret-word@here"), {})

    assert "secret-word" not in f"{caught.value} {caught.value.hint}"
    assert "WAVEWRIGHT_BASE_URL" in (caught.value.hint or "")


def test_a_key_is_never_shown() -> None:
    endpoint = find_endpoint("openai:m", settings("openai:m", key="sk-mine-1234567890"), {})

    assert "sk-mine" not in repr(endpoint)


@asynccontextmanager
async def listener(heard: list[bytes]) -> AsyncGenerator[str]:
    """Write down everything that is sent to an address, and deny it."""

    async def serve(client: SocketStream) -> None:
        async with client:
            request = b""
            while b"\r\n\r\n" not in request:
                request += await client.receive()
            heard.append(request)
            await client.send(
                b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"
            )

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as place,
        anyio.create_task_group() as group,
    ):
        group.start_soon(place.serve, serve)
        port = place.extra(SocketAttribute.local_port)  # noqa: S610  it is no query
        yield f"http://127.0.0.1:{port}/v1"
        group.cancel_scope.cancel()


@pytest.mark.parametrize(
    "model", ["openai:m", "openai-chat:m", "anthropic:m", "google:m", "ollama:m", "vllm:m"]
)
async def test_no_address_is_sent_a_key_that_is_not_its_own(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in OTHERS.items():
        monkeypatch.setenv(name, value)
    heard: list[bytes] = []
    async with listener(heard) as url:
        one = settings(model, url=url, key="sk-the-right-one-123")
        async with (
            MemoryBudgetStore(one.budgets) as budget_store,
            open_models(one, budget_store, environment=OTHERS) as models,
        ):
            with pytest.raises(ModelError) as caught:
                await models.ask(question())

    assert caught.value.kind == "denied"
    [request] = heard
    assert b"sk-the-right-one-123" in request
    assert [name for name, value in OTHERS.items() if value.encode() in request] == []


def test_a_model_is_replayed_without_a_key(tmp_path: Path) -> None:
    one = replace(settings("anthropic:m"), cassette=tmp_path / "tape.json")

    check_models(one, {})

    assert find_endpoint("anthropic:m", one, {}).key == NO_KEY
    with pytest.raises(ModelConfigError, match="there is no key"):
        check_models(replace(one, cassette_mode="record"), {})
