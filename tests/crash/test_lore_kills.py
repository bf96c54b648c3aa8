"""The researcher of zones is killed right after each of its steps; the next daemon goes on at the
next step.

Searches, fetches of pages and questions to models are counted where they arrive: at the servers of
the world and of the model. No page may be kept by a cache, so that a page that is read again is
fetched again.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus
from uuid import uuid4

import aio_pika
import anyio
import pytest

from tests.crash.run_size import IS_WHOLE, volume
from tests.engine.service.daemon.daemon_project import (
    PATIENCE,
    BrokerClient,
    DaemonProcess,
    DaemonSite,
)
from tests.packs.equities.price_service import Answer, Service, serving
from tests.repository.tree import ROOT
from tests.support.postgres import PostgresServer
from tests.support.prepared_command import new_process
from tests.support.rabbitmq import Broker, RunningBroker, clear
from wavewright.engine.rehearsal.fake_model.replies import AnswerMaker, calling_tool, structured
from wavewright.engine.rehearsal.fake_model.request import FakeModelRequest
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.engine.service.bus.bus import BusSettings, open_bus
from wavewright.planner.types import JsonObject

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(volume(120, 900))]

WORLD: Final = ROOT / "plans" / "lore" / "world"
FEN: Final = "places/harrow-fen.html"
STEPS: Final = (
    "overview",
    "zone",
    "characters",
    "factions",
    "lore",
    "items",
    "npcs",
    "agreement",
    "package",
    "document",
)
"""In the order in which they run where one runs at a time, without `connected`, which the last wave
skips.
"""


@dataclass(frozen=True)
class Research:
    """What the model does about one category."""

    asked: str
    """Beginning of what the research agent is told."""
    page: str
    """Page that it opens."""
    extraction: str
    """Beginning of the extractor's task."""
    record: str
    """Name of the record that the extractor finds there."""
    name_field: str = "name"


TOPICS: Final = (
    Research("Find what the zone", FEN, "Extract the record of the zone", "Harrow Fen"),
    Research("Find the notable", "people/corin-marr.html", "Extract every character", "Corin Marr"),
    Research(
        "Find the factions", "factions/fen-runners.html", "Extract every faction", "Fen Runners"
    ),
    Research(
        "Find the history",
        "lore/the-fen-war.html",
        "Extract what the texts",
        "The Fen War",
        "title",
    ),
    Research(
        "Find the legendary", "items/marrs-ledger.html", "Extract every item", "Marr's Ledger"
    ),
)
BESIDE: Final = dict(zip(("characters", "factions", "lore"), TOPICS[2:], strict=True))
"""Step → what may be asked at once beside it: a step that needs nothing of it begins while its end
is committed.
"""
REVIEW: Final[JsonObject] = {
    "goal_achieved": True,
    "confidence": 0.9,
    "summary": "It was found.",
    "missing_data": [],
    "recovery_actions": [],
}


@contextmanager
def served_world() -> Generator[Service]:
    """Serve the small world, with a search that always finds the page of the fen."""
    found = Answer({"results": []})
    paths = {"/robots.txt": Answer("", 404)}
    with serving(found, paths=paths) as service:
        found.body["results"].append(
            {"title": "Harrow Fen", "url": f"{service.url}/{FEN}", "content": ""}
        )
        for file in WORLD.rglob("*.html"):
            kept = {"Content-Type": "text/html", "Cache-Control": "no-store"}
            paths[f"/{file.relative_to(WORLD)}"] = Answer(file.read_text(), headers=kept)
        yield service


def research_answers(topic: Research, url: str) -> AnswerMaker:
    """Return what the research agent says: it searches, opens a page and ends."""
    said = (
        calling_tool("search", query=topic.record),
        calling_tool("crawl_webpage", url=f"{url}/{topic.page}"),
        "That page carries it.",
    )
    return lambda request: said[sum(message.role == "tool" for message in request.messages)]


def script(model: FakeModelServer, url: str) -> None:
    """Script every agent of the research."""
    for topic in TOPICS:
        model.answer(research_answers(topic, url), when=topic.asked)
        record: JsonObject = {
            topic.name_field: topic.record,
            "evidence": [{"quote": topic.record, "url": f"{url}/{topic.page}"}],
        }
        model.answer(structured({"records": [record]}), when=topic.extraction)
    agreement: JsonObject = {"is_consistent": True, "conflicts": [], "confidence": {"zone": 0.9}}
    model.answer(structured(agreement), when="Hold the records")
    zones: JsonObject = {"zones": [{"name": "Lanternmere", "evidence": []}]}
    model.answer(structured(zones), when="Find the zones")
    model.answer(structured(REVIEW), when=asked_for("review"))


@pytest.fixture
def world(model_server: FakeModelServer) -> Iterator[Service]:
    """The servers of the world and of the model."""
    with served_world() as service:
        script(model_server, service.url)
        yield service


@pytest.fixture
async def site(
    tmp_path: Path, broker: Broker | RunningBroker, world: Service, model_server: FakeModelServer
) -> AsyncIterator[DaemonSite]:
    """The researcher's project; one step runs at a time, so that a kill cuts off one other call at
    most.
    """
    own = DaemonSite(tmp_path, broker.url)
    place = world.url.removeprefix("http://")
    web = {
        "search": {"provider": "searxng", "base_url": world.url},
        "allow_private": [place],
        "requests_per_minute": 10_000,
        "requests_per_host_per_minute": 10_000,
    }
    own.write(
        functions="say: {}",
        more="ladders: {planner: [{name: template}]}\nconcurrency: 1\n"
        f"packs: {json.dumps({'lore': {'web': web}})}",
        daemon="pack: lore",
    )
    own.environment |= model_server.environment()
    own.environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    )
    async with open_bus(BusSettings(own.url, own.topology)):
        pass
    yield own
    await clear(own.url, own.topology)


def request() -> bytes:
    """Return the message that asks for the research of the fen."""
    envelope: JsonObject = {
        "message_id": str(uuid4()),
        "source_agent": "guest",
        "target_agent": "world_lore_researcher",
        "message_type": "job_request",
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "correlation_id": str(uuid4()),
        "payload": {
            "job_id": str(uuid4()),
            "goal": "Research a zone",
            "zone_name": "Harrow Fen",
            "depth": 0,
            "budget_tokens": 1_000_000,
        },
    }
    return json.dumps(envelope).encode()


def question_of(request: FakeModelRequest) -> str:
    """Return all that a request says."""
    return f"{request.schema_name}\n{request.text}"


def is_beside(call: str, killed_after: Sequence[str]) -> bool:
    """Return whether a call is one that was in flight when the daemon died."""
    besides = [BESIDE[step] for step in killed_after if step in BESIDE]
    return any(
        topic.asked in call or topic.page in call or quote_plus(topic.record) in call
        for topic in besides
    )


def steps_begun(daemon: DaemonProcess) -> list[str]:
    """Return the steps that a daemon has begun, by its log."""
    begun = [
        str(line["step_name"]) for line in daemon.lines if line["event"] == "pipeline_step_started"
    ]
    return [step for step in begun if step in STEPS]


async def research_with_kills(site: DaemonSite, killed_after: Sequence[str]) -> Any:
    """Research the fen with a daemon that dies after each of these steps; return the payload of the
    package.
    """
    connection = await aio_pika.connect(site.url)
    async with connection, connection.channel() as channel:
        client = BrokerClient(site, channel)
        await client.send_raw(request())
        done = 0
        for step in killed_after:
            daemon = DaemonProcess(
                site, step, spawn=partial(new_process, module="tests.crash.dying_daemon")
            )
            assert await daemon.ended() == -signal.SIGKILL, daemon.text
            daemon.close()
            begun = steps_begun(daemon)
            assert [*begun] == [*STEPS[done : done + len(begun)]]
            done = STEPS.index(step) + 1
        last = DaemonProcess(site)
        try:
            with anyio.fail_after(PATIENCE):
                while not {"JOB_COMPLETED", "JOB_PARTIALLY_COMPLETED"} & {
                    str(one["status"]) for one in client.seen
                }:
                    await client.read()
                    await anyio.sleep(0.02)
            await client.read()
        finally:
            last.close()
        assert steps_begun(last) == [*STEPS[done:]]
        [package] = client.packages
        return json.loads(package.body)["payload"]


KILLS: Final = [(step,) for step in STEPS] + [STEPS] if IS_WHOLE else [("npcs",)]


@pytest.mark.parametrize(
    "killed_after", KILLS, ids=lambda steps: "-".join(steps) if len(steps) < len(STEPS) else "each"
)
@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
async def test_the_next_daemon_goes_on_at_the_next_step_and_makes_no_call_again(
    site: DaemonSite,
    world: Service,
    model_server: FakeModelServer,
    store: str,
    killed_after: Sequence[str],
    request: pytest.FixtureRequest,
) -> None:
    if store == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        site.environment["WAVEWRIGHT_PG_URL"] = server.database()

    package = await research_with_kills(site, killed_after)

    pages = {path for path in world.asked if path.endswith(".html")}
    searches = {path for path in world.asked if path.startswith("/search")}
    questions = {question_of(one) for one in model_server.requests}
    assert pages == {f"/{topic.page}" for topic in TOPICS}
    assert len(searches) == len(TOPICS)
    # Three questions of each research agent, one of each extractor, cross-reference, review; depth
    # 0 discovers nothing.
    assert len(questions) == 4 * len(TOPICS) + 2
    calls = Counter([*world.asked, *map(question_of, model_server.requests)])
    again = {call for call in pages | searches | questions if calls[call] > 1}
    assert {call for call in again if not is_beside(call, killed_after)} == set()
    assert len(again) <= len(BESIDE.keys() & {*killed_after})
    assert package["zone_name"] == "Harrow Fen"
    assert [one["name"] for one in package["npcs"]] == ["Corin Marr"]
    assert [one["name"] for one in package["narrative_items"]] == ["Marr's Ledger"]
    assert {one["url"] for one in package["sources"]} == {
        f"{world.url}/{topic.page}" for topic in TOPICS
    }
