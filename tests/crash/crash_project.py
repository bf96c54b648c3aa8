"""A project whose tools write down outside the daemon what they were asked to do, and the jobs that
are sent to it.

A job has twelve steps, a recipe that patches its plan, and a call that a person must approve. The
*ledger* is a file to which every call adds a line when it starts and when it has had its effect, so
it outlives whoever called.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.note_worker import NOTE_WORKER
from wavewright.config.settings import Settings, load_settings
from wavewright.engine.service.job_store.records import JobId, MessageId, OutgoingMessage
from wavewright.engine.service.messages.encoding import MessageAddress, encode
from wavewright.engine.service.messages.models import JobRequest
from wavewright.planner.types import Json, JsonObject

TOOLS = '''
import asyncio
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import TypedDict


class Quote(TypedDict):
    code: str
    as_of: str


def _note(event: str, tool: str, job: str, key: str) -> None:
    line = {"event": event, "tool": tool, "job": job, "key": key, "at": time.time(), "pid": os.getpid()}
    ledger = os.open(Path(__file__).with_name("ledger.jsonl"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(ledger, (json.dumps(line) + "\\n").encode())
    os.close(ledger)
    if (points := sys.modules.get("tests.crash.crash_points")) is not None:
        points.reach(f"tool {event}")


async def _call(tool: str, job: str, key: str, pause: float) -> None:
    _note("start", tool, job, key)
    if pause:
        await asyncio.sleep(pause)
    _note("effect", tool, job, key)


async def gather(job: str, part: str, pause: float = 0.0, *, idempotency_key: str) -> str:
    """Gather a part of the material."""
    await _call("gather", job, idempotency_key, pause)
    return f"{part} gathered"


async def fetch(job: str, code: str, force: bool = False, pause: float = 0.0, *, idempotency_key: str) -> Quote:
    """Fetch a quote: last year's, unless it is forced."""
    await _call("fetch", job, idempotency_key, pause)
    return {"code": code, "as_of": "2010-03-01" if force else "2009-01-01"}


async def keep(job: str, text: str, pause: float = 0.0, *, idempotency_key: str) -> str:
    """Keep a text; the same key keeps it once."""
    await _call("keep", job, idempotency_key, pause)
    return f"kept {text}"


async def post(job: str, text: str, pause: float = 0.0, *, idempotency_key: str) -> str:
    """Post a text; each call posts it once more."""
    await _call("post", job, idempotency_key, pause)
    return f"posted {text}"


async def draft(job: str, text: str, feedback: list[str] = [], *, idempotency_key: str) -> str:
    """Draft a text, heeding what was said of it before."""
    await _call("draft", job, idempotency_key, 0.0)
    return f"{text}, {len(feedback)} times mended"


async def poison(job: str, how: str) -> str:
    """Do what a tool must not do."""
    _note("start", "poison", job, how)
    if how == "kill":
        os.kill(os.getpid(), 9)
    if how == "hang":
        await asyncio.sleep(3600)
    if how == "memory":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (2 * 10**9, 2 * 10**9))
        "x" * 10**10
    if how == "store":
        from wavewright.executor.sqlite.event_store import SqliteEventStore

        write = SqliteEventStore.write

        def fail_once(*arguments: object, **named: object) -> object:
            if threading.current_thread() is threading.main_thread():
                return write(*arguments, **named)
            SqliteEventStore.write = write
            raise MemoryError

        SqliteEventStore.write = fail_once
    raise RuntimeError("poison")
'''

LEDGER = "ledger.jsonl"
"""The tools' file there."""
PROVIDER = "provider.jsonl"
"""What the provider of a model wrote down of itself."""
JOURNAL = "journal.sqlite"
"""The store's file in the project's folder."""

SETTINGS = f"""\
journal: {JOURNAL}
tools:
  - path: bench.py
    functions:
      gather: {{}}
      fetch: {{freshness_field: as_of}}
      keep: {{effects: [write], idempotent: true}}
      post: {{effects: [write], idempotent: false, needs_approval: true}}
      draft: {{}}
      poison: {{}}
"""

TEMPLATE = """\
name: work
goal: Gather fresh material, keep it and post it
available_tools:
  [{name: gather}, {name: fetch}, {name: keep}, {name: post}, {name: draft}, {name: poison}, {name: note}]
inputs_schema:
  type: object
  properties:
    job: {type: string}
    codes: {type: array, items: {type: string}}
    pause: {type: number}
gates:
  - {id: fresh, on_tool: fetch, fresh_within: 24h}
recipes:
  - {gate: fresh, set_params: {force: true}, reason: the quotes are stale}
"""

ASKER = "ui_backend"
AGENT = "wavewright"
VALIDATOR = "validator"
EXCHANGE = "wavewright.topic"
INTAKE = "wavewright.jobs"
KEY = "the key of messages in these tests"
"""An approval is believed only from somebody who has it."""
MODEL_KEY = "sk-of-the-crash-programme"
SENT_AT = 1_780_000_000.0
"""When requests say that they were sent; the same in each run, so that a repeat is the same
message.
"""


@dataclass(frozen=True)
class Called:
    """One line of the ledger."""

    event: str
    tool: str
    job: str
    key: str
    at: float
    process: int = 0
    """Which has written the line."""


def write_workplace(folder: Path, daemon: JsonObject | None = None, **settings: Json) -> None:
    """Write the project into a folder, with a section `daemon` of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bench.py").write_text(TOOLS)
    (folder / "work.template.yaml").write_text(TEMPLATE)
    (folder / "config" / "workers").mkdir(parents=True, exist_ok=True)
    (folder / "config" / "workers" / "note.yaml").write_text(NOTE_WORKER)
    (folder / "prompts" / "workers").mkdir(parents=True, exist_ok=True)
    (folder / "prompts" / "workers" / "note.md.j2").write_text("Write a line.\n{{ inputs.word }}\n")
    section: JsonObject = {"max_age": 3.0e7, "skew": 3.0e7, **(daemon or {})}
    more = "".join(
        f"{name}: {json.dumps(value)}\n" for name, value in (settings | {"daemon": section}).items()
    )
    (folder / "wavewright.yaml").write_text(SETTINGS + more)


def settings_of(folder: Path) -> Settings:
    """Return the project's settings, whatever the environment says."""
    return load_settings(folder, {"WAVEWRIGHT_HMAC_KEY": KEY, "WAVEWRIGHT_API_KEY": MODEL_KEY})


def job_id(number: int) -> JobId:
    """Return the id of a job."""
    return JobId(str(uuid.uuid5(uuid.NAMESPACE_URL, f"job {number}")))


def whole_job(job: JobId, *, pause: float = 0.0, posts: bool = True) -> JsonObject:
    """Return a job of twelve steps, one of which needs a person's word unless nothing is posted."""

    def step(id_: str, tool: str, **params: Json) -> JsonObject:
        if pause:
            params["pause"] = pause
        return {"id": id_, "tool": tool, "params": {"job": "${inputs.job}", **params}}

    quotes = step("quotes", "fetch", code="${item}") | {"for_each": "${inputs.codes}"}
    steps = [
        *(step(part, "gather", part=part) for part in "abcd"),
        quotes,
        step("e", "gather", part="${steps.a}"),
        step("f", "gather", part="${steps.b}"),
        step("first", "keep", text="${steps.e}"),
        step("g", "gather", part="${steps.f}"),
        step("second", "keep", text="${steps.g}"),
        step("post", "post" if posts else "keep", text="${steps.second}"),
        step("last", "gather", part="${steps.post}"),
    ]
    return _job(job, list[Json](steps), "${steps.last}")


def small_job(job: JobId, *, steps: int = 2, pause: float = 0.0) -> JsonObject:
    """Return a job of a few steps in a row, of which each keeps something."""
    rows: list[Json] = []
    for number in range(steps):
        text = "begun" if not number else f"${{steps.s{number - 1}}}"
        params: JsonObject = {"job": "${inputs.job}", "text": text}
        if pause:
            params["pause"] = pause
        rows.append({"id": f"s{number}", "tool": "keep", "params": params})
    return _job(job, rows, f"${{steps.s{steps - 1}}}")


def judged_job(job: JobId) -> JsonObject:
    """Return a job that posts something, if a person agrees, and drafts what a validator may send
    back.
    """
    steps: list[Json] = [
        {"id": "post", "tool": "post", "params": {"job": "${inputs.job}", "text": "news"}},
        {
            "id": "draft",
            "tool": "draft",
            "params": {"job": "${inputs.job}", "text": "${steps.post}"},
        },
        {
            "id": "last",
            "tool": "gather",
            "params": {"job": "${inputs.job}", "part": "${steps.draft}"},
        },
    ]
    return _job(job, steps, "${steps.last}")


def asking_job(job: JobId) -> JsonObject:
    """Return a job in which a model is asked twice, one after the other, before something is kept."""
    steps: list[Json] = [
        {"id": "first", "tool": "note", "params": {"word": "${inputs.job}"}},
        {"id": "second", "tool": "note", "params": {"word": "${steps.first.line}"}},
        {
            "id": "last",
            "tool": "keep",
            "params": {"job": "${inputs.job}", "text": "${steps.second.line}"},
        },
    ]
    return _job(job, steps, "${steps.last}")


def poison_job(job: JobId, how: str) -> JsonObject:
    """Return a job that does harm: `raise`, `hang`, `memory`, `store` or `kill`."""
    step: Json = {
        "id": "harm",
        "tool": "poison",
        "params": {"job": "${inputs.job}", "how": how},
        "timeout": 5,
    }
    return _job(job, [step], "${steps.harm}")


def _job(job: JobId, steps: list[Json], result: str) -> JsonObject:
    return {
        "name": f"work {job[:8]}",
        "goal_template": "work.template.yaml",
        "as_of": "2010-03-01",
        "inputs": {"job": job, "codes": ["GNP", "SKS"], "pause": 0},
        "plan": {
            "goal": "Gather fresh material, keep it and post it",
            "steps": steps,
            "result": result,
        },
    }


def request_of(
    job: JobId, document: JsonObject, *, message: str = "request", at: float = SENT_AT, **names: str
) -> OutgoingMessage:
    """Return the message that asks for a job; the same message for the same words."""
    address = MessageAddress(
        ASKER, AGENT, names.get("exchange", EXCHANGE), names.get("intake", INTAKE), KEY.encode()
    )
    return encode(
        JobRequest(job_id=job, job=document),
        address,
        message=MessageId(str(uuid.uuid5(uuid.UUID(job), message))),
        correlation=job,
        at=at,
        job=job,
    )


@dataclass(frozen=True)
class Asked:
    """One line of what the model's provider was asked, as it wrote it down."""

    job: str
    question: str
    tokens: int
    at: float


def read_asked(folder: Path) -> list[Asked]:
    """Return what a provider was asked; nothing where there is none."""
    return [
        Asked(line["job"], line["question"], line["tokens"], line["at"])
        for line in read_lines(folder / PROVIDER)
    ]


def read_ledger(folder: Path) -> list[Called]:
    """Return what the tools wrote down."""
    return [
        Called(
            line["event"], line["tool"], line["job"], line["key"], line["at"], line.get("pid", 0)
        )
        for line in read_lines(folder / LEDGER)
    ]


def read_lines(path: Path) -> Iterable[dict[str, Any]]:
    """Return the lines of a file of JSON lines; none where there is no file."""
    if not path.exists():
        return []
    # A line that somebody died in the middle of has no end.
    return [
        json.loads(line)
        for line in path.read_text().splitlines(keepends=True)
        if line.endswith("\n")
    ]


class Tail:
    """A file of JSON lines that grows."""

    def __init__(self, path: Path) -> None:
        """Begin at the start of the file, which need not be there yet."""
        self._path = path
        self._read = 0

    def news(self) -> list[dict[str, Any]]:
        """Return the lines that are there since the last look."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        return [json.loads(line) for line in whole.splitlines()]


def add_line(path: Path, line: JsonObject) -> None:
    """Add a line to a file in one write, so that it is there whole or not at all."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, (json.dumps(line) + "\n").encode())
    finally:
        os.close(file)
