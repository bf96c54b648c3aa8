from __future__ import annotations

import gc
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.served_models import question, settings_for
from wavewright.config.settings import load_settings
from wavewright.engine.rehearsal.fake_model.replies import structured
from wavewright.engine.rehearsal.fake_model.request import WIRES, Wire
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer
from wavewright.executor.budgets.memory import MemoryBudgetStore
from wavewright.planner.ports.model_port import ModelAnswer, ModelCall, ModelError
from wavewright.planner.types import JsonSchema
from wavewright.tools.models import ModelConfigError, open_models

pytestmark = pytest.mark.anyio

FORM: JsonSchema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


async def asked(environment: dict[str, str], folder: Path, *calls: ModelCall) -> list[ModelAnswer]:
    settings = load_settings(folder, environment)
    async with (
        MemoryBudgetStore(settings.budgets) as budget_store,
        open_models(settings, budget_store, environment=environment) as models,
    ):
        return [await models.ask(call) for call in calls]


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "no model is configured"),
        ({"WAVEWRIGHT_MODEL": "gpt-6"}, "'gpt-6' is no model name: the provider is missing"),
        ({"WAVEWRIGHT_MODEL": "anthropic:claude"}, "there is no key for anthropic:claude"),
        (
            {"WAVEWRIGHT_MODEL": "anthropic:claude", "WAVEWRIGHT_CASSETTE": "none.json"},
            "there is no cassette",
        ),
    ],
)
async def test_what_is_wrong_is_found_before_anything_is_asked(
    environment: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelConfigError) as caught:
        await asked(environment, tmp_path)

    assert message in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("wire", WIRES)
async def test_what_was_recorded_is_answered_again_without_a_key_or_a_server(
    wire: Wire, model_server: FakeModelServer, tmp_path: Path
) -> None:
    calls = (question("one"), question("two", schema=FORM, schema_name="form"))
    model_server.answer(structured({"a": 1}), when="two")
    model_server.answer("the first")
    environment = {**model_server.environment(wire), "WAVEWRIGHT_CASSETTE": "tape.json"}

    recorded = await asked({**environment, "WAVEWRIGHT_CASSETTE_MODE": "record"}, tmp_path, *calls)
    was_asked = len(model_server.requests)
    model = environment["WAVEWRIGHT_MODEL"]
    replayed = await asked(
        {"WAVEWRIGHT_MODEL": model, "WAVEWRIGHT_CASSETTE": "tape.json"}, tmp_path, *calls
    )

    assert [one.text for one in replayed] == [one.text for one in recorded]
    assert [one.use.tokens for one in replayed] == [one.use.tokens for one in recorded]
    assert len(model_server.requests) == was_asked == 2


@pytest.mark.parametrize(
    "model", ["openai:m", "openai-chat:m", "anthropic:m", "google:m", "ollama:m", "vllm:m"]
)
async def test_whatever_is_opened_is_closed(model: str, tmp_path: Path) -> None:
    settings = replace(
        load_settings(tmp_path, {"WAVEWRIGHT_MODEL": model, "WAVEWRIGHT_API_KEY": "k"}),
        base_url="http://127.0.0.1:9/v1",
    )
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        async with (
            MemoryBudgetStore(settings.budgets) as budget_store,
            open_models(settings, budget_store, environment={}) as models,
        ):
            with pytest.raises(ModelError) as caught:
                await models.ask(question(timeout=0.3))
        gc.collect()

    assert caught.value.kind in {"unreachable", "timeout"}
    assert [one for one in told if issubclass(one.category, ResourceWarning)] == []


async def test_models_that_stay_open_can_be_asked_in_turn(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(lambda request: request.prompt)
    settings = settings_for(model_server, tmp_path)
    async with MemoryBudgetStore(settings.budgets) as budget_store:
        async with open_models(settings, budget_store, environment={}) as models:
            first = await models.ask(question("a"))
        async with open_models(settings, budget_store, environment={}) as models:
            second = await models.ask(question("b"))

    assert (first.text, second.text) == ("a", "b")
