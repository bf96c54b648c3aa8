"""The web app of the how-to, whose clients lose their connection."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path
from typing import Self

import anyio
import httpx
import pytest

from tests.docs.blocks import blocks
from tests.repository.tree import ROOT
from tests.support.prepared_command import PreparedCommand, run_python
from tests.support.session_server import free_port
from wavewright.executor import SqliteJournal, fold, to_json
from wavewright.planner.types import Json, RunId

PAGE = ROOT / "docs" / "how-to" / "run-in-a-web-app.md"
NUMBERS = range(30)
SLOW = """
import anyio
import uvicorn

import app


async def double(number: int) -> int:
    await anyio.sleep(SECONDS)
    return 2 * number


app.double = double
uvicorn.run(app.app, port=PORT, log_level="warning")
"""


class App:
    """The app of the page, in a process of its own, with a tool that takes its time."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder = folder
        for block in blocks(PAGE.read_text(encoding="utf-8")):
            if block.title:
                (folder / block.title).write_text(block.text)
        self.port = free_port()
        self.program = SLOW.replace("SECONDS", str(seconds)).replace("PORT", str(self.port))

    def __enter__(self) -> Self:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("WAVEWRIGHT_")
        }
        given, log = ["-c", self.program], self.folder / "log"
        self.running = PreparedCommand(given, self.folder, environment, log, target=run_python)
        return self

    def __exit__(self, *_: object) -> None:
        self.running.send_signal(signal.SIGKILL)
        self.running.wait()

    async def follow(
        self, seen: int, most: float = float("inf")
    ) -> tuple[list[tuple[int, Json]], Json]:
        """Return the next events with their numbers, at most so many, and what is sent at the end."""
        found: list[tuple[int, Json]] = []
        kind, number, data = "", 0, None
        transport = httpx.AsyncHTTPTransport(retries=20)
        async with (
            httpx.AsyncClient(transport=transport, timeout=30) as client,
            client.stream(
                "GET",
                f"http://127.0.0.1:{self.port}/runs/r-1/events",
                params={"numbers": [*NUMBERS]},
                headers={"Last-Event-ID": str(seen)},
            ) as answer,
        ):
            async for line in answer.aiter_lines():
                name, _, value = line.partition(": ")
                match name:
                    case "event":
                        kind = value
                    case "data":
                        data = json.loads(value)
                        if kind == "step":
                            found.append((number, data))
                        if len(found) >= most:
                            return found, None
                    case "id":
                        number = int(value)
                    case _:
                        pass
        return found, data if kind == "end" else None


@pytest.mark.anyio
@pytest.mark.parametrize("seed", range(3))
async def test_a_client_that_is_cut_off_at_random_places_gets_every_event_once(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - decides where a connection is cut
    events: list[tuple[int, Json]] = []
    ended: Json = None

    with App(tmp_path, 0.02) as app, anyio.fail_after(50):
        while ended is None:
            new, ended = await app.follow(len(events), chance.randint(1, 20))
            events += new

    async with SqliteJournal(tmp_path / "runs.db") as journal:
        journaled = await journal.load(RunId("r-1"))
    assert ended == {"status": "achieved", "result": 2 * sum(NUMBERS)}
    assert [number for number, _ in events] == [*range(1, len(journaled) + 1)]
    assert [event for _, event in events] == [to_json(event) for event in journaled]
    assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.mark.anyio
async def test_a_run_whose_client_has_gone_away_is_cancelled_and_can_be_resumed(
    tmp_path: Path,
) -> None:
    with App(tmp_path, 3600) as app, anyio.fail_after(50):
        await app.follow(0, 4)
        async with SqliteJournal(tmp_path / "runs.db") as journal:
            while not fold(await journal.load(RunId("r-1"))).is_interrupted:  # noqa: ASYNC110 - of another process
                await anyio.sleep(0.05)
        assert app.running.poll() is None

    with App(tmp_path, 0.01) as app, anyio.fail_after(50):
        _, ended = await app.follow(0)

    assert ended == {"status": "achieved", "result": 2 * sum(NUMBERS)}
