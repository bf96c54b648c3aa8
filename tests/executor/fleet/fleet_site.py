"""A project whose calls a fleet makes, its workers as processes, and a project that makes the same
calls by itself.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

from tests.support.postgres import PostgresServer
from tests.support.prepared_command import PreparedCommand, RunningCommand
from wavewright.planner.types import Json, JsonObject

TOOLS = '''\
"""Tools of the tests; what they do outside their process goes into the folder of the variable MARKS."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from wavewright.tools import LogEvent

MARKS = Path(os.environ["MARKS"])


@dataclass(frozen=True)
class NumberSeen(LogEvent):
    number: int


def mark(name: str) -> None:
    """Write down that something happened, and by which process."""
    with (MARKS / name).open("a") as file:
        file.write(f"{os.getpid()}\\n")


async def double(number: int) -> int:
    """Return twice a number."""
    return 2 * number


def fail(number: int) -> int:
    """Fail."""
    raise KeyError(f"no number {number}")


def flaky(name: str) -> str:
    """Fail the first time, wherever that is."""
    seen = (MARKS / f"flaky {name}").exists()
    mark(f"flaky {name}")
    if not seen:
        raise TimeoutError("not yet")
    return name


async def slow(name: str, seconds: float = 30.0) -> str:
    """Wait, and write down when it begins, ends and is cancelled."""
    mark(f"{name} began")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        mark(f"{name} cancelled")
        raise
    mark(f"{name} ended")
    return name


async def held(name: str) -> str:
    """Wait until the file NAME.go is there."""
    mark(f"{name} began")
    while not (MARKS / f"{name}.go").exists():
        await asyncio.sleep(0.02)
    mark(f"{name} ended")
    return name


async def telling(name: str, *, emit) -> str:
    """Do as `held`, with a log event before and one after, and a line that is printed before."""
    emit(NumberSeen(1))
    print(f"{name} is told")
    await held(name)
    emit(NumberSeen(2))
    return name


async def write(name: str) -> str:
    """Do as `held`; the settings say that this one writes."""
    return await held(name)


def needing(number: int = 0) -> int:
    """Return the process that made the call."""
    return os.getpid()
'''


FUNCTIONS: Mapping[str, JsonObject] = {
    **{name: {} for name in ("double", "fail", "flaky", "slow", "held", "telling")},
    "write": {"effects": ["write"]},
    "needing": {"needs": ["gpu"]},
}


@dataclass(slots=True)
class FleetSite:
    """A project folder with its database and its workers."""

    folder: Path
    url: str
    _workers: list[RunningCommand] = field(default_factory=list[RunningCommand])
    _commands: list[RunningCommand] = field(default_factory=list[RunningCommand])

    @property
    def marks(self) -> Path:
        """Where its tools write down what they did."""
        return self.folder / "marks"

    @property
    def environment(self) -> dict[str, str]:
        """The variables of its processes."""
        return {**os.environ, "WAVEWRIGHT_PG_URL": self.url, "MARKS": str(self.marks)}

    def start(
        self, *arguments: str, folder: Path | None = None, **variables: str
    ) -> RunningCommand:
        """Start a worker."""
        number = len(self._workers)
        worker = PreparedCommand(
            ["worker", "--slots", "10", *arguments],
            folder or self.folder,
            {**self.environment, **variables},
            self.folder / f"worker-{number}.log",
        )
        self._workers.append(worker)
        return worker

    def log(self, number: int = 0) -> list[dict[str, Json]]:
        """Return the lines that a worker has logged."""
        file = self.folder / f"worker-{number}.log"
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def wait_for_start(self) -> None:
        """Wait until the first worker takes calls."""
        self.wait_until(
            lambda: any(line["event"] == "worker_started" for line in self.log()), "the start"
        )

    def run(self, *arguments: str) -> RunningCommand:
        """Start a command of the project."""
        command = PreparedCommand(
            arguments, self.folder, self.environment, self.folder / "command.log"
        )
        self._commands.append(command)
        return command

    def printed(self) -> str:
        """Return what its commands have printed."""
        file = self.folder / "command.log"
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def wait_for_mark(self, name: str, *, times: int = 1) -> list[str]:
        """Wait until something has happened so often; return the processes that did it."""
        self.wait_until(lambda: len(self.processes(name)) >= times, f"{name} {times} times")
        return self.processes(name)

    def processes(self, name: str) -> list[str]:
        """Return the processes that have written down something."""
        file = self.marks / name
        return file.read_text().split() if file.exists() else []

    def go(self, name: str) -> None:
        """Let a held call end."""
        (self.marks / f"{name}.go").touch()

    @staticmethod
    def wait_until(is_so: object, what: str, seconds: float = 40.0) -> None:
        """Wait for a condition."""
        assert callable(is_so)
        deadline = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
            time.sleep(0.02)  # noqa: TID251 - another process is waited for

    def end(self) -> None:
        """Kill what still runs."""
        for process in (*self._workers, *self._commands):
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGKILL)
                process.wait()


@contextmanager
def fleet_site(
    folder: Path, postgres: PostgresServer, *, heartbeat: float = 1.0
) -> Generator[FleetSite]:
    """Make a project whose calls go to the fleet, and end its workers."""
    write_project(folder, {"tools": ["*"], "heartbeat": heartbeat})
    site = FleetSite(folder, postgres.database())
    site.marks.mkdir()
    try:
        yield site
    finally:
        site.end()


def write_project(folder: Path, fleet: Mapping[str, Json] | None, tools: str = TOOLS) -> None:
    """Write the files of a project."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tools.py").write_text(tools, encoding="utf-8")
    settings: JsonObject = {
        "tools": [{"path": "tools.py", "functions": dict(FUNCTIONS)}],
        "concurrency": 50,
    }
    if fleet is not None:
        settings["fleet"] = dict(fleet)
    (folder / "wavewright.yaml").write_text(json.dumps(settings), encoding="utf-8")


def step(
    id_: str, tool: str, params: Mapping[str, Json] | None = None, **fields: Json
) -> JsonObject:
    """Return a step of a plan."""
    return {"id": id_, "tool": tool, "params": dict(params or {}), **fields}


def write_plan(
    folder: Path, *steps: Mapping[str, Json], result: Json = None, **fields: Json
) -> Path:
    """Write a plan."""
    plan = {"version": 1, "goal": "Test", "steps": [*steps], "result": result, **fields}
    file = folder / "test.plan.yaml"
    file.write_text(json.dumps(plan), encoding="utf-8")
    return file


def read_url(address: str) -> str:
    """Return what an address answers."""
    with urlopen(address, timeout=10) as answer:  # noqa: S310 - of a worker on this machine
        return str(answer.read(), "utf-8")
