"""The orchestrated research of the pack `lore` as a daemon: a rejected zone is researched again
with what was said.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

import pytest

from tests.engine.model_runs.test_lore_with_model import (
    CORIN,
    EXTRACTORS,
    FEN,
    REVIEW,
    SITE,
    TOPICS,
    WORLD,
    ZONE,
    write_forced_extractor,
)
from tests.engine.service.daemon.conftest import StartDaemon
from tests.engine.service.daemon.daemon_project import BrokerClient, DaemonSite
from tests.engine.service.daemon.test_lore_log_events import judge
from tests.engine.service.daemon.test_lore_validator import request, verdicts
from wavewright.engine.rehearsal.fake_model.replies import Reply, calling_tool, structured
from wavewright.engine.rehearsal.fake_model.request import FakeModelRequest
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.planner.types import Json, JsonObject

pytestmark = pytest.mark.anyio

SAID = "npcs: one is missing; ask in the inn"
AGREEMENT: JsonObject = {
    "is_consistent": True,
    "conflicts": [],
    "confidence": dict.fromkeys(TOPICS.values(), 0.9),
}
RUNNERS: JsonObject = {"name": "Fen Runners", "evidence": [{"quote": "Fen Runners", "url": FEN}]}


def next_words(words: Sequence[str | Reply], asked: FakeModelRequest) -> str | Reply:
    """Return what is said after the calls of tools so far; the last words where no tool is offered
    any more.
    """
    made = sum(one.role == "tool" for one in asked.messages) if asked.tool_names else len(words)
    return words[min(made, len(words) - 1)]


def script(server: FakeModelServer) -> None:
    """Script the orchestrator and its agents; the extractor of characters never answers."""
    calls = [
        call
        for topic, category in TOPICS.items()
        for call in (
            calling_tool("research_topic", topic=topic),
            calling_tool("extract_category", category=category),
        )
    ]
    said: Sequence[str | Reply] = (*calls, calling_tool("cross_reference"), "All is done.")
    read = (calling_tool("crawl_webpage", url=FEN), "The fen's own page carries it.")
    looked = (calling_tool("crawl_webpage", url=CORIN), "There are some.")
    # First, because the review shows what the agents were asked.
    server.answer(structured(REVIEW), when=asked_for("review"))
    loops: dict[str, Sequence[str | Reply]] = {
        "Research the zone": said,
        "Research one topic": read,
        EXTRACTORS["npcs"]: looked,
    }
    for beginning, words in loops.items():
        server.answer(partial(next_words, words), when=beginning)
    records: dict[str, list[Json]] = {"zone": [ZONE], "factions": [RUNNERS]}
    for category in EXTRACTORS.keys() - {"npcs"}:
        server.answer(structured({"records": records.get(category, [])}), when=EXTRACTORS[category])
    server.answer(structured(AGREEMENT), when="Hold the records")


def was_told(asked: FakeModelRequest) -> bool:
    """Whether the feedback stands in the prompt as data."""
    _, _, block = asked.prompt.partition('<data name="feedback">')
    return SAID in block


async def test_feedback_on_a_rejected_zone_reaches_the_orchestrator_and_every_agent_below_it(
    site: DaemonSite, client: BrokerClient, start: StartDaemon, model_server: FakeModelServer
) -> None:
    write_forced_extractor(site.folder)
    search = {"provider": "local", "folder": str(WORLD), "base_url": SITE}
    packs = f"packs: {json.dumps({'lore': {'web': {'search': search}}})}"
    site.write(
        functions="say: {}",
        more=f"{packs}\nladders: {{planner: [{{name: template}}]}}",
        daemon="pack: lore\n  goal_template: zone_research_orchestrated\n  validation: {iterations: 3}",
    )
    site.environment |= model_server.environment()
    script(model_server)
    daemon = start()
    await daemon.started()
    wanted = request("Harrow Fen").replace(b'"budget_tokens": 1000', b'"budget_tokens": 5000000')
    await client.send_raw(wanted)
    await judge(client, 1, accepted=False)
    before = len(model_server.requests)
    await judge(client, 2, accepted=False)
    await judge(client, 3, accepted=True)
    await site.until(lambda: len(verdicts(daemon)) == 3)

    assert verdicts(daemon) == [(False, 1), (False, 2), (True, 3)]
    for beginning in (
        "Research the zone",
        "Research one topic",
        *EXTRACTORS.values(),
        "Hold the records",
    ):
        asked = [
            one for one in model_server.requests[before:] if f"# Task\n\n{beginning}" in one.prompt
        ]
        assert asked, beginning
        assert all(map(was_told, asked)), beginning
    assert not any(map(was_told, model_server.requests[:before]))
    # A forced extractor lowers its own category alone, in the packages that are made again, too.
    for message in client.packages:
        figures = json.loads(message.body)["payload"]["confidence"]
        assert (figures["npcs"], figures["zone"], figures["factions"]) == (0.2, 0.9, 0.9)
