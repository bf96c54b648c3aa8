"""Servers of OpenAI's chat API that are not OpenAI's: how they are asked is found out once."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from pydantic_ai.models import Model

from tests.support.served_models import models_over, question
from wavewright.engine.rehearsal.fake_model.replies import (
    Answer,
    ApiError,
    Reply,
    failing,
    silence,
    structured,
)
from wavewright.engine.rehearsal.fake_model.request import FakeModelRequest
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, HoldsBy
from wavewright.planner.ports.model_port import ModelError
from wavewright.planner.types import JsonSchema
from wavewright.tools.models.endpoints import Endpoint
from wavewright.tools.models.known_servers import (
    KEPT_AFTER_FAULT_SECONDS,
    KEPT_SECONDS,
    KnownServer,
    ProbedMode,
    probe,
)

pytestmark = pytest.mark.anyio

FORM: JsonSchema = {
    "type": "object",
    "properties": {"word": {"type": "string"}},
    "required": ["word"],
    "additionalProperties": False,
}


async def request_of(server: FakeModelServer, folder: Path) -> FakeModelRequest:
    """Return what a question for a form comes as."""
    server.answer(structured({"word": "yes"}))
    async with models_over(server, folder) as asking:
        answer = await asking.models.ask(question(schema=FORM, schema_name="verdict"))
    assert json.loads(answer.text) == {"word": "yes"}
    return server.requests[-1]


@pytest.mark.parametrize("holds_by", ["native", "tool", "nothing"])
async def test_a_server_is_asked_for_a_form_by_the_best_way_that_it_has(
    holds_by: HoldsBy, tmp_path: Path
) -> None:
    with FakeModelServer(holds_by=holds_by) as server:
        request = await request_of(server, tmp_path)

    assert request.body is not None
    form = request.body.get("response_format")
    asked_by = {
        "native": isinstance(form, dict) and form["type"] == "json_schema",
        "tool": request.output_tool == "verdict",
        "nothing": '"word"' in request.instructions and request.tools == (),
    }
    assert [way for way, is_asked in asked_by.items() if is_asked] == [holds_by]


async def test_what_was_found_is_kept_in_the_cache_folder(
    model_server: FakeModelServer, tmp_path: Path, cache_home: Path
) -> None:
    await request_of(model_server, tmp_path)

    [(server, kept)] = json.loads(
        (cache_home / "wavewright" / "model-servers.json").read_text()
    ).items()
    assert server == f"{model_server.openai_url} scripted"
    assert kept["mode"] == "native"


async def test_where_nothing_can_be_kept_no_part_of_the_file_is_left(
    model_server: FakeModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    in_its_place = tmp_path / "cache" / "wavewright" / "model-servers.json"
    in_its_place.mkdir(parents=True)

    await request_of(model_server, tmp_path)

    assert [*in_its_place.parent.iterdir()] == [in_its_place]


async def test_a_server_is_probed_once(
    model_server: FakeModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes: list[str] = []

    async def counting(endpoint: Endpoint, model: Model) -> ProbedMode | None:
        probes.append(endpoint.name)
        return await probe(endpoint, model)

    monkeypatch.setattr("wavewright.tools.models.known_servers.probe", counting)

    await request_of(model_server, tmp_path)
    await request_of(model_server, tmp_path)

    assert probes == ["scripted"]


async def test_a_form_that_a_server_refuses_is_asked_for_in_the_next_way(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(failing(400), when=lambda request: not request.tools)

    request = await request_of(model_server, tmp_path)

    assert request.output_tool == "verdict"


async def test_a_server_that_refuses_every_form_is_asked_in_words_alone(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(failing(400), when=has_form)

    request = await request_of(model_server, tmp_path)

    assert not has_form(request)


async def test_a_server_that_fails_over_a_form_is_asked_in_the_next_way(
    tmp_path: Path, cache_home: Path
) -> None:
    with FakeModelServer(holds_by="tool", over_forms=failing(500)) as server:
        request = await request_of(server, tmp_path)

    assert request.output_tool == "verdict"
    [kept] = json.loads((cache_home / "wavewright" / "model-servers.json").read_text()).values()
    assert kept["mode"] == "tool"
    assert kept["has_failed"]


@pytest.mark.parametrize(
    ("has_failed", "lasts"), [(False, KEPT_SECONDS), (True, KEPT_AFTER_FAULT_SECONDS)]
)
def test_a_way_in_place_of_one_over_which_a_server_failed_holds_for_less(
    *, has_failed: bool, lasts: float
) -> None:
    known = KnownServer(mode="tool", has_failed=has_failed, at=1_000.0)

    assert known.knows_mode(1_000.0 + lasts - 1)
    assert not known.knows_mode(1_000.0 + lasts)


async def test_a_server_that_fails_over_every_form_is_asked_in_words(tmp_path: Path) -> None:
    with FakeModelServer(holds_by="nothing", over_forms=failing(500)) as server:
        request = await request_of(server, tmp_path)

    assert not has_form(request)


@pytest.mark.parametrize(
    "refusal",
    [
        failing(500),
        ApiError(404, "No endpoints found that support the parameter response_format"),
    ],
    ids=["failing", "found nowhere"],
)
async def test_a_form_over_which_a_server_fails_is_asked_for_in_the_next_way(
    refusal: Answer, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(refusal, when=lambda request: not request.tools)

    assert (await request_of(model_server, tmp_path)).output_tool == "verdict"


async def test_a_server_that_cannot_stream_is_asked_for_whole_answers_from_then_on(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(
        ApiError(400, "stream: true is not supported"),
        when=lambda request: bool((request.body or {}).get("stream")),
    )

    request = await request_of(model_server, tmp_path)

    assert "response_format" in (request.body or {})
    streamed = [asked for asked in model_server.requests if (asked.body or {}).get("stream")]
    assert len(streamed) == 1


def has_form(request: FakeModelRequest) -> bool:
    return bool(request.tools) or "response_format" in (request.body or {})


async def test_a_server_that_wants_the_newer_name_of_the_ceiling_gets_it_from_then_on(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(
        ApiError(400, "max_tokens is not known: use max_completion_tokens"),
        when=lambda request: "max_tokens" in (request.body or {}),
    )

    request = await request_of(model_server, tmp_path)

    assert request.body is not None
    assert "max_completion_tokens" in request.body
    assert sum("max_tokens" in (asked.body or {}) for asked in model_server.requests) == 1


async def test_questions_that_are_asked_at_once_all_get_the_newer_name_of_the_ceiling(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(
        ApiError(400, "max_tokens is not known: use max_completion_tokens"),
        when=lambda request: "max_tokens" in (request.body or {}),
    )
    model_server.answer(*(Reply(text="yes") for _ in range(4)))
    answers = list[str]()

    async with models_over(model_server, tmp_path) as asking:

        async def ask() -> None:
            answers.append((await asking.models.ask(question())).text)

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(ask)

    assert answers == ["yes"] * 4


async def test_a_server_that_only_streams_is_probed_as_it_is_asked(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(failing(400), when=lambda request: not (request.body or {}).get("stream"))

    request = await request_of(model_server, tmp_path)

    assert "response_format" in (request.body or {})


async def test_a_call_that_is_cut_off_is_charged_by_what_arrived(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(Reply(text="one two three four", piece=4, interval=30))
    async with models_over(model_server, tmp_path, request_seconds=0.5) as asking:
        with pytest.raises(ModelError, match="gave no answer"):
            await asking.models.ask(question(max_tokens=9_000))
        spent = await asking.spent()

    assert 0 < spent.tokens < 60


async def test_a_call_that_never_began_is_charged_by_its_question(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(silence())
    async with models_over(model_server, tmp_path, request_seconds=0.3) as asking:
        with pytest.raises(ModelError):
            await asking.models.ask(question(max_tokens=9_000))
        spent = await asking.spent()

    assert 0 < spent.tokens < 50


async def test_a_server_on_this_machine_is_waited_for_beyond_the_ladders_clock(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(Reply(text="late, but here", delay=0.6))
    async with models_over(model_server, tmp_path) as asking:
        with anyio.fail_after(20):
            answer = await asking.models.ask(question(timeout=0.2))

    assert (answer.text, len(model_server.requests)) == ("late, but here", 1)


def test_the_clock_of_a_server_follows_its_pace() -> None:
    slow = KnownServer(read_per_second=20, written_per_second=5)

    assert slow.silent_seconds(2_000) == pytest.approx(5 * (100 + 0.2))
    assert KnownServer().silent_seconds(2_000) is None
