"""The profile `lore` of compose.yaml, its very commands as processes: broker, store, validator and
researcher.

A service starts once the conditions of its `depends_on` hold: a health check of the file, or of the
image, passes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx2
import pytest
import yaml
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.engine.model_runs.test_lore_with_model import (
    CORIN_MARR,
    EXTRACTORS,
    FEN,
    REVIEW,
    SITE,
    WORLD,
    ZONE,
)
from tests.repository.tree import ROOT
from tests.support.postgres import PostgresServer
from tests.support.prepared_command import PreparedCommand, RunningCommand
from tests.support.rabbitmq import Broker
from tests.support.session_server import free_port, unavailable
from wavewright.engine.rehearsal.fake_model.replies import Reply, calling_tool, structured
from wavewright.engine.rehearsal.fake_model.request import FakeModelRequest
from wavewright.engine.rehearsal.fake_model.server import API_KEY, FakeModelServer, asked_for
from wavewright.planner.types import Json, JsonObject

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

COMPOSE: Final = cast("dict[str, Any]", yaml.safe_load((ROOT / "compose.yaml").read_text()))
IMAGE: Final = (ROOT / "Dockerfile").read_text()
PROFILE: Final = ("definitions", "rabbitmq", "postgres", "lore-store", "lore-validator", "daemon")
VARIABLES: Final = {
    **{
        f"{name}_PASSWORD": f"{name.lower()}-of-a-test"
        for name in ("DAEMON", "UI", "VALIDATOR", "POSTGRES")
    },
    "LORE_RESEARCHER_TOKEN": "researcher-of-a-test",
    "LORE_VALIDATOR_TOKEN": "validator-of-a-test",
    "HMAC_KEY": "ab" * 32,
    "MODEL": "openai-chat:scripted",
    "API_KEY": API_KEY,
    "PROJECT": "./docs/deploy/lore/researcher",
}
"""The file `.env`."""
PATIENCE: Final = 60.0


def image(instruction: str) -> list[str]:
    """Return the command that an instruction of the image holds, the last of its kind."""
    *_, found = re.findall(rf"^{instruction} (\[.*\])$", IMAGE, re.MULTILINE)
    return [str(part) for part in json.loads(found)]


def filled_in(text: str) -> str:
    """Return a text of the file with the values of `.env`."""

    def value(match: re.Match[str]) -> str:
        name, _, default = match[1].partition(":-")
        name, _, message = name.partition(":?")
        assert not message or name in VARIABLES, message
        return VARIABLES.get(name, default)

    return re.sub(r"\$\{([^}]+)\}", value, text)


@dataclass
class Profile:
    """The services of the profile on this machine."""

    folder: Path
    broker: Broker
    database: str
    running: dict[str, RunningCommand] = field(default_factory=dict[str, RunningCommand])
    store: int = field(default_factory=free_port)
    health: dict[str, int] = field(default_factory=dict[str, int])

    def here(self, service: str, text: str) -> str:
        """Return a text of the file with the places of this machine for those of the containers."""
        places = {
            "rabbitmq:5672": f"127.0.0.1:{self.broker.port}",
            "lore-store:8765": f"127.0.0.1:{self.store}",
            "0.0.0.0:9464": f"127.0.0.1:{self.health.setdefault(service, free_port())}",
            "127.0.0.1:9464": f"127.0.0.1:{self.health[service]}",
            "/var/lib/wavewright": str(self.folder / service / "state"),
            "/broker/": f"{self.folder}/",
        }
        for there, place in places.items():
            text = text.replace(there, place)
        return text

    def environment(self, service: str) -> dict[str, str]:
        """Return the environment of a service: that of the image and of the file, and nothing else."""
        of_image = dict(re.findall(r"(WAVEWRIGHT_\w+)=(\S+)", IMAGE.rpartition("\nFROM ")[2]))
        given = of_image | COMPOSE["services"][service].get("environment", {})
        if "WAVEWRIGHT_PG_URL" in given:
            given["WAVEWRIGHT_PG_URL"] = self.database
        filled = {name: self.here(service, filled_in(value)) for name, value in given.items()}
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), **filled}

    def project(self, service: str) -> Path:
        """Return a copy of the project that is mounted into a service."""
        project = self.folder / service / "project"
        if not project.exists():
            [mounted] = [
                one for one in COMPOSE["services"][service]["volumes"] if ":/project" in one
            ]
            shutil.copytree(ROOT / filled_in(mounted).partition(":")[0], project)
            settings = project / "wavewright.yaml"
            settings.write_text(self.here(service, settings.read_text()))
            (self.folder / service / "state").mkdir()
        return project

    def log(self, service: str) -> Path:
        """Return the file with what a service prints."""
        return self.folder / f"{service}.log"

    def start(self, service: str) -> None:
        """Start a service as compose does."""
        if service == "rabbitmq":
            self.broker.start()
        elif service != "postgres":  # which runs already
            declared = COMPOSE["services"][service]
            # Without the init: processes here have one, which takes the place of the container's.
            assert image("ENTRYPOINT") == ["tini", "-s", "--", "wavewright"]
            command = [self.here(service, one) for one in declared.get("command", image("CMD"))]
            self.running[service] = PreparedCommand(
                command, self.project(service), self.environment(service), self.log(service)
            )

    def is_healthy(self, service: str) -> bool:
        """Run the health check of a service."""
        declared = COMPOSE["services"][service].get("healthcheck")
        kind, program, option, *rest = (
            ["CMD", *image(" +CMD")] if declared is None else declared["test"]
        )
        assert kind == "CMD"
        if service == "rabbitmq":
            assert (program, option) == ("rabbitmq-diagnostics", "--quiet")
            self.broker.ctl(option, *rest, name=program)
            return True
        place = urlsplit(self.database)
        where = {"PGHOST": str(place.hostname), "PGPORT": str(place.port)}
        command = [sys.executable if program == "python" else program, option, *rest]
        ran = subprocess.run(
            [self.here(service, one) for one in command],
            env={"PATH": os.environ["PATH"], **where},
            capture_output=True,
            check=False,
        )
        return ran.returncode == 0

    async def wait(self, service: str, condition: str) -> None:
        """Wait until a condition of a service holds."""
        process = self.running.get(service)
        if condition == "service_completed_successfully":
            assert process is not None
            assert await anyio.to_thread.run_sync(process.wait) == 0, self.log(service).read_text()
            return
        assert condition == "service_healthy"
        end = time.monotonic() + PATIENCE
        while not await anyio.to_thread.run_sync(self.is_healthy, service):
            ended = process is not None and process.poll() is not None
            assert not ended, self.log(service).read_text()
            assert time.monotonic() < end, f"{service} does not become healthy"
            await anyio.sleep(1)  # the check of RabbitMQ takes a second of CPU

    async def up(self) -> list[str]:
        """Start every service once those that it depends on are as it asks; return them in that
        order.
        """
        needs: dict[str, dict[str, Any]] = {
            name: COMPOSE["services"][name].get("depends_on", {}) for name in PROFILE
        }
        order = [*TopologicalSorter(needs).static_order()]
        for service in order:
            for other, how in needs[service].items():
                await self.wait(other, how["condition"])
            await anyio.to_thread.run_sync(self.start, service)
        return order

    def submit(self, job: str) -> int:
        """Submit a job of the researcher's project as the user who may, wait for its end, and
        return the exit code.
        """
        user = filled_in("amqp://svc_ui:${UI_PASSWORD}@rabbitmq:5672/")
        environment = self.environment("daemon") | {
            "WAVEWRIGHT_AMQP_URL": self.here("daemon", user)
        }
        command = ["submit", job, "--wait", "--as", "ui_backend"]
        return PreparedCommand(
            command, self.project("daemon"), environment, self.log("submit")
        ).wait()

    def lines(self, service: str) -> list[dict[str, Any]]:
        """Return what a service has logged so far."""
        text = self.log(service).read_text()
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def down(self) -> None:
        """End everything."""
        for process in self.running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.running.values():
            process.wait()
        self.broker.close()


@pytest.fixture
def profile(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer
) -> Iterator[Profile]:
    if shutil.which("pg_isready") is None:
        unavailable("pg_isready is not there")
    folder, url = tmp_path_factory.mktemp("compose"), postgres.database()
    (folder / "rabbitmq").mkdir()
    own = Profile(folder, Broker.create(folder / "rabbitmq"), url)
    # The server imports what the service `definitions` writes, as `load_definitions` of the file
    # has it.
    conf = folder / "rabbitmq" / "rabbitmq.conf"
    conf.write_text(
        re.sub(r"(?<=load_definitions = ).*", str(folder / "definitions.json"), conf.read_text())
    )
    yield own
    own.down()
    postgres.kill_connections(url)


def agreement(asked: FakeModelRequest) -> Reply:
    """Return an agreement with a conflict of a source with itself; without it, once the validator
    has said so.
    """
    wrong: JsonObject = {"data_point": "Corin Marr: role", "source_a": FEN, "source_b": FEN}
    conflicts: list[Json] = (
        [] if was_told(asked) else [{**wrong, "claim_a": "wet", "claim_b": "wet"}]
    )
    confidence: JsonObject = {"zone": 0.9, "npcs": 0.4, "factions": 0.2}
    return structured(
        {"is_consistent": not conflicts, "conflicts": conflicts, "confidence": confidence}
    )


def was_told(asked: FakeModelRequest) -> bool:
    """Whether a prompt holds what the validator has said."""
    return "both sides are the same" in asked.prompt.partition('<data name="feedback">')[2]


def script(server: FakeModelServer) -> None:
    """Script the agents of the ten steps."""
    records: dict[str, list[Json]] = {"zone": [ZONE], "npcs": [CORIN_MARR]}
    server.answer(
        *((calling_tool("crawl_webpage", url=FEN), "The fen's own page carries it.") * 10),
        when="Research one topic",
    )
    for category, beginning in EXTRACTORS.items():
        server.answer(structured({"records": records.get(category, [])}), when=beginning)
    server.answer(agreement, when="Hold the records")
    server.answer(structured({"zones": []}), when="Find the zones")
    server.answer(structured(REVIEW), when=asked_for("review"))


async def test_a_submitted_zone_is_rejected_researched_again_accepted_and_stored_by_the_services_of_the_profile(
    profile: Profile, model_server: FakeModelServer
) -> None:
    script(model_server)
    project = profile.project("daemon")
    search = {"provider": "local", "folder": str(WORLD), "base_url": SITE}
    settings = yaml.safe_load((project / "wavewright.yaml").read_text())
    settings["packs"] = {"lore": {"web": {"search": search}}}
    settings["models"] = {"base_url": model_server.openai_url}
    (project / "wavewright.yaml").write_text(json.dumps(settings))
    job = {"name": "fen", "goal_template": "zone_research", "inputs": {"target": "Harrow Fen"}}
    (project / "fen.job.yaml").write_text(json.dumps(job))
    order = await profile.up()
    for service in ("lore-validator", "daemon"):
        await profile.wait(service, "service_healthy")
    with anyio.fail_after(PATIENCE):
        code = await anyio.to_thread.run_sync(profile.submit, "fen.job.yaml")
    headers = {"Authorization": f"Bearer {VARIABLES['LORE_VALIDATOR_TOKEN']}"}
    url = f"http://127.0.0.1:{profile.store}/mcp"
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False) as http,
        Client(streamable_http_client(url, http_client=http)) as reader,
    ):
        stored = (
            await reader.call_tool("world_lore_zone", {"name": "Harrow Fen"})
        ).structured_content

    assert order.index("lore-store") < order.index("lore-validator")
    submitted = profile.log("submit").read_text()
    assert code == 0, submitted
    assert re.search(r"ZONE_COMPLETED +Harrow Fen$", submitted, re.MULTILINE)
    verdicts = [one for one in profile.lines("daemon") if one["event"] == "validation_received"]
    assert [(one["accepted"], one["iteration"]) for one in verdicts] == [(False, 1), (True, 2)]
    for beginning in ("Hold the records", "Find the zones"):
        asked = [one for one in model_server.requests if f"# Task\n\n{beginning}" in one.prompt]
        assert [*map(was_told, asked)] == [False, True], beginning
    assert stored is not None
    assert stored["zone"]["name"] == "Harrow Fen"
    assert [one["name"] for one in stored["npcs"]] == ["Corin Marr"]
