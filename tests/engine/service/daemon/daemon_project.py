"""A project with a daemon, a broker's queues of its own, and somebody who sends jobs and reads what
comes out.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from uuid import uuid4

import aio_pika
import anyio
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from tests.support.prepared_command import PreparedCommand, Spawn
from tests.support.rabbitmq import own_topology
from wavewright.config.settings import Settings, load_settings
from wavewright.engine.service.bus.topology import Topology
from wavewright.engine.service.job_store.records import MessageId
from wavewright.engine.service.messages.contract import with_contract_defaults
from wavewright.engine.service.messages.encoding import MessageAddress, encode
from wavewright.planner.types import JsonObject
from wavewright.tools.message_contract import Payload

PATIENCE = 40.0
"""Seconds after which a test has waited in vain."""

TOOLS = '''
import os
import time
from pathlib import Path

_HERE = Path(__file__).parent


def _note(line: str) -> None:
    with (_HERE / "calls.txt").open("a") as calls:
        calls.write(line + "\\n")


def say(text: str) -> str:
    """Say a text."""
    _note(f"say {text}")
    return text


def hold(text: str) -> str:
    """Say a text once a file called `gate` is there."""
    _note(f"hold {text}")
    for _ in range(6_000):
        if (_HERE / "gate").exists():
            break
        time.sleep(0.01)
    _note(f"held {text}")
    return text


async def block(text: str) -> str:
    """Keep everything else from going on."""
    _note(f"block {text}")
    while True:
        time.sleep(0.1)


def die() -> str:
    """End this process, as a lack of memory would."""
    _note("die")
    os._exit(9)
'''


REVIEW: JsonObject = {
    "goal_achieved": True,
    "confidence": 0.9,
    "summary": "It was said.",
    "missing_data": [],
    "recovery_actions": [],
}
"""A model's verdict on a run that has said something."""


def steps(*calls: tuple[str, str] | str) -> JsonObject:
    """Return a plan of calls one after another, by tool and text."""
    made: list[JsonObject] = []
    for number, call in enumerate(calls):
        tool, text = call if isinstance(call, tuple) else (call, None)
        step: JsonObject = {"id": f"s{number}", "tool": tool}
        if text is not None:
            step["params"] = {"text": text}
        if number:
            step["depends_on"] = [f"s{number - 1}"]
        made.append(step)
    return {"steps": [*made], "result": f"${{steps.s{len(calls) - 1}}}"}


def job(*calls: tuple[str, str] | str, name: str = "a job") -> JsonObject:
    """Return a job document with such a plan."""
    return {"name": name, "plan": steps(*calls)}


@dataclass
class DaemonSite:
    """The project's folder and the names at the broker."""

    folder: Path
    url: str
    topology: Topology = field(default_factory=lambda: own_topology(outlets=()))
    environment: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        own = self.topology.intake.partition(".")[0]
        self.packages, self.decisions, self.status = (
            f"{own}.{name}" for name in ("packages", "decisions", "status")
        )
        self.topology = Topology(
            exchange=self.topology.exchange,
            intake=self.topology.intake,
            outlets=(self.packages, self.decisions, self.status),
            dead_exchange=self.topology.dead_exchange,
            dead_queue=self.topology.dead_queue,
        )
        self.environment["WAVEWRIGHT_AMQP_URL"] = self.url
        (self.folder / "yard.py").write_text(TOOLS)
        self.write()

    def write(
        self,
        *,
        daemon: str = "",
        functions: str = "say: {}, hold: {}, block: {}, die: {}",
        more: str = "",
    ) -> None:
        """Write the settings anew."""
        topology = self.topology
        (self.folder / "wavewright.yaml").write_text(
            f"tools: [{{path: yard.py, functions: {{{functions}}}}}]\n"
            f"{more}\n"
            "daemon:\n"
            f"  exchange: {topology.exchange}\n"
            f"  dead_letter_exchange: {topology.dead_exchange}\n"
            f"  queues: {{intake: {topology.intake}, packages: {self.packages}, decisions: {self.decisions},"
            f" status: {self.status}, dead: {topology.dead_queue}}}\n"
            + (f"  {daemon}\n" if daemon else "")
        )

    @property
    def settings(self) -> Settings:
        return with_contract_defaults(load_settings(self.folder, self.environment))

    def whole_environment(self) -> dict[str, str]:
        """Return the environment of a process in this project."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith("WAVEWRIGHT_")
        }
        return kept | self.environment

    def calls(self) -> Counter[str]:
        """Return the calls of tools so far."""
        with suppress(FileNotFoundError):
            return Counter((self.folder / "calls.txt").read_text().splitlines())
        return Counter()

    def open_gate(self) -> None:
        """Let every `hold` go on."""
        (self.folder / "gate").touch()

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for something in this folder to be so."""
        with anyio.fail_after(PATIENCE):
            while not is_so():  # noqa: ASYNC110 - another process makes it so
                await anyio.sleep(0.01)


class BrokerClient:
    """Whoever sends jobs and reads what comes out.

    Messages go out at least once, so those with the id of one that was read before are kept apart,
    as `repeats`.
    """

    def __init__(self, site: DaemonSite, channel: AbstractChannel) -> None:
        self._yard = site
        self._channel = channel
        self.seen = list[JsonObject]()
        """Statuses, in the order in which they came."""
        self.status_envelopes = list[JsonObject]()
        """The envelopes of `seen`."""
        self.packages = list[AbstractIncomingMessage]()
        self.questions = list[JsonObject]()
        self.repeats = list[AbstractIncomingMessage]()
        self._bodies = dict[str | None, bytes]()
        """Of the messages that were read, by id."""

    async def send(
        self,
        payload: Payload,
        *,
        message: str | None = None,
        key: bytes | None = None,
        trace: str | None = None,
    ) -> None:
        """Send a request."""
        address = MessageAddress(
            "tester",
            self._yard.settings.daemon.agent,
            self._yard.topology.exchange,
            self._yard.topology.intake,
            key,
            trace=trace,
        )
        made = encode(
            payload,
            address,
            message=MessageId(message or str(uuid4())),
            correlation=str(uuid4()),
            at=time.time(),
        )
        await self.send_raw(made.body, cast("Mapping[str, str]", made.headers))

    async def send_raw(self, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Send a message as it is."""
        exchange = await self._channel.get_exchange(self._yard.topology.exchange)
        made = aio_pika.Message(
            body, headers=dict(headers or {}), content_type="application/json", delivery_mode=2
        )
        await exchange.publish(made, self._yard.topology.intake)

    async def read(self) -> None:
        """Read what lies in the queues; a repeat must hold the same bytes as the first message of
        its id.
        """
        statuses = await self._new(self._yard.status)
        self.status_envelopes += [json.loads(message.body) for message in statuses]
        self.seen += [_payload(message) for message in statuses]
        self.questions += [_payload(one) for one in await self._new(self._yard.decisions)]
        self.packages += await self._new(self._yard.packages)

    async def _new(self, queue: str) -> list[AbstractIncomingMessage]:
        source = await self._channel.get_queue(queue, ensure=False)
        found = list[AbstractIncomingMessage]()
        while (message := await source.get(fail=False, no_ack=True)) is not None:
            is_repeat = message.message_id in self._bodies
            (self.repeats if is_repeat else found).append(message)
            assert self._bodies.setdefault(message.message_id, message.body) == message.body
        return found

    def statuses(self, job: str) -> list[str]:
        """Return the statuses of a job that were read so far."""
        return [str(one["status"]) for one in self.seen if one["job_id"] == job]

    async def until_told(self, job: str, status: str) -> JsonObject:
        """Read until a job is said to have come so far; return that message's payload."""
        with anyio.fail_after(PATIENCE):
            while True:
                await self.read()
                for one in self.seen:
                    if one["job_id"] == job and one["status"] == status:
                        return one
                await anyio.sleep(0.02)

    async def until_asked(self, count: int) -> list[JsonObject]:
        """Read until so many questions were put to people, and return them."""
        with anyio.fail_after(PATIENCE):
            while len(self.questions) < count:
                await self.read()
                await anyio.sleep(0.02)
        return self.questions

    async def dead_letters(self, count: int) -> list[AbstractIncomingMessage]:
        """Return so many dead letters, waiting for them."""
        source = await self._channel.get_queue(self._yard.topology.dead_queue, ensure=False)
        found = list[AbstractIncomingMessage]()
        with anyio.fail_after(PATIENCE):
            while len(found) < count:
                if (message := await source.get(fail=False, no_ack=True)) is not None:
                    found.append(message)
                else:
                    await anyio.sleep(0.02)
        return found


def _payload(message: AbstractIncomingMessage) -> JsonObject:
    envelope = json.loads(message.body)
    payload = envelope["payload"]
    assert isinstance(payload, dict)
    return cast("JsonObject", payload)


class DaemonProcess:
    """The real daemon, as a process."""

    def __init__(
        self, site: DaemonSite, *arguments: str, spawn: Spawn = PreparedCommand, **environment: str
    ) -> None:
        self._log = site.folder / f"log-{uuid4().hex[:6]}.txt"
        self._log.touch()
        self.process = spawn(
            ["daemon", *arguments], site.folder, site.whole_environment() | environment, self._log
        )

    @property
    def text(self) -> str:
        """What it has written so far."""
        return self._log.read_text()

    @property
    def lines(self) -> list[dict[str, object]]:
        """Its log so far."""
        return [json.loads(line) for line in self.text.splitlines() if line.startswith("{")]

    def has_said(self, event: str) -> bool:
        """Whether a line of the log has this event."""
        return any(line["event"] == event for line in self.lines)

    def count(self, event: str) -> int:
        """Return how many lines of the log have this event."""
        return sum(line["event"] == event for line in self.lines)

    async def started(self, event: str = "daemon_started") -> None:
        """Wait until it has said so."""
        with anyio.fail_after(PATIENCE):
            while not self.has_said(event):
                assert self.process.poll() is None, self.text
                await anyio.sleep(0.02)

    async def ended(self) -> int:
        """Wait for its end and return its exit code."""
        with anyio.fail_after(PATIENCE):
            while (code := self.process.poll()) is None:  # noqa: ASYNC110 - it is another process's to say
                await anyio.sleep(0.01)
        return code

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def close(self) -> None:
        """End it with its children, where it has not ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        # One that has just begun leads no group yet, and has no children.
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
