"""What is secret leaves a daemon by no door: twelve canaries, thirty failures, every byte looked
at.

A *canary* is a secret that would be noticed. After the run everything that was written and sent is
searched for each, as text, in JSON's escapes and in base64.
"""

from __future__ import annotations

import base64
import signal
from collections.abc import Iterator
from uuid import uuid4

import aio_pika
import anyio
import httpx
import pytest

from tests.engine.service.daemon.conftest import StartDaemon
from tests.engine.service.daemon.daemon_project import (
    PATIENCE,
    BrokerClient,
    DaemonProcess,
    DaemonSite,
    job,
    steps,
)
from wavewright.engine.rehearsal.fake_model.replies import failing, no_json
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer
from wavewright.engine.service.messages.models import JobRequest, ValidationResult
from wavewright.planner.types import JsonObject

pytestmark = pytest.mark.anyio

KNOWN = {
    "WAVEWRIGHT_API_KEY": "canary-01-of-the-model-0a1b2c",
    "WAVEWRIGHT_HMAC_KEY": "canary-02-of-signatures-3d4e5f6a",
    "OPENAI_API_KEY": "canary-03-openai-7b8c9d",
    "HF_TOKEN": "canary-04-of-a-provider-0e1f2a",
    "STORE_PASSWORD": 'canary-05 "quoted" pässword',
    "SERVICE_SECRET": "canary-06-in-an-output-3b4c5d",
}
"""Variable → a secret that the daemon is configured with, or that a provider's library would read.
"""
MODEL_PASSWORD = "canary-07-of-the-models-address"  # noqa: S105 - a canary
SHAPED = {
    "in an exception": "canary08inanexception6e7f8a9b0c",
    "in a header": "canary09inaheader1d2e3f4a5b6c",
    "in a log line": "canary10inalogline7d8e9f0a1b2c",
    "in a refused body": "canary11inarefusedbody3c4d5e6f",
    "in a document's fault": "canary12inadocument7a8b9c0d1e",
}
"""Secrets that nobody has told the daemon of, in the shapes that tools and libraries print them in.
"""

TOOLS = '''
import logging
import os



def echo(name: str) -> str:
    """Return a variable: a tool that does what it should not."""
    return "it is " + os.environ[name]


def fail(name: str) -> str:
    """Fail with a variable in the message."""
    raise RuntimeError("refused: " + os.environ[name])


def fail_to_connect() -> str:
    """Fail as a database's library does."""
    raise OSError("cannot connect to postgresql://svc:IN_AN_EXCEPTION@db.internal:5432/lore")


def fail_with_headers() -> str:
    """Fail as a library of HTTP does."""
    raise ValueError("401 for headers {'Authorization': 'Bearer IN_A_HEADER', 'x-api-key': 'IN_A_HEADER'}")


def log() -> str:
    """Log what is secret, with an exception that holds it."""
    logging.getLogger("library").warning("password=%s", "IN_A_LOG_LINE")
    try:
        raise RuntimeError("token=IN_A_LOG_LINE")
    except RuntimeError:
        logging.getLogger("library").exception("it failed with %s", os.environ["SERVICE_SECRET"])
    return "logged"
'''


def canaries() -> Iterator[tuple[str, str]]:
    yield from KNOWN.items()
    yield "the model's address", MODEL_PASSWORD
    yield from SHAPED.items()


def is_in(secret: str, found: bytes) -> bool:
    raw = secret.encode()
    core = base64.b64encode(raw).rstrip(b"=")[:-1]
    escaped = secret.replace('"', '\\"')
    forms = {
        raw,
        core,
        escaped.encode(),
        escaped.encode("ascii", "backslashreplace"),
        secret[:9].encode(),
    }
    return any(form in found for form in forms)


def refused_bodies() -> Iterator[bytes]:
    """Yield bodies that are no message, each with a secret where its fault is."""
    secret = SHAPED["in a refused body"]
    yield f'{{"api_key": "{secret}"'.encode()
    yield f'"password={secret}"'.encode()
    yield f'{{"message_id": "password={secret}"}}'.encode()
    yield f'{{"api_key": "{secret}", "api_key": "{secret}"}}'.encode()
    yield f"api_key={secret}".encode() + b"\xff"
    yield b"[" * 100 + f'"token={secret}"'.encode() + b"]" * 100


def failing_jobs() -> Iterator[JsonObject]:
    """Yield jobs that fail, each with a secret where its fault is."""
    for name in KNOWN:
        yield {"name": "fails", "plan": _plan("fail", name=name)}
        yield {"name": "echoes", "plan": _plan("echo", name=name)}
    for tool in ("fail_to_connect", "fail_with_headers", "log"):
        yield {"name": tool, "plan": _plan(tool)}
    secret = SHAPED["in a document's fault"]
    yield {"name": "faulty", "plann": f"password={secret}"}
    yield {"name": "faulty", "goal_template": f"https://user:{secret}@host/x"}
    yield {"name": "faulty", "plan": f"../api_key={secret}"}
    yield {"name": "faulty", "plan": {"steps": [{"id": "s", "tool": f"token={secret}"}]}}
    yield {"name": "faulty", "plan": steps(("say", "${steps.password=" + secret + "}"))}


def _plan(tool: str, **params: str) -> JsonObject:
    step: JsonObject = {"id": "s", "tool": tool, "params": {**params}}
    return {"steps": [step], "result": "${steps.s}"}


async def everything(
    client: BrokerClient, site: DaemonSite, daemon: DaemonProcess
) -> dict[str, bytes]:
    """Return all that was written and sent, by where it is."""
    await client.read()
    found = {"log": daemon.text.encode()}
    for path in (site.folder / ".wavewright").rglob("*"):
        if path.is_file():
            found[f"file {path.name}"] = path.read_bytes()
    found["statuses"] = repr(client.seen).encode()
    found["questions"] = repr(client.questions).encode()
    found["packages"] = b"\n".join(one.body + repr(one.headers).encode() for one in client.packages)
    return found


async def dead_letters(site: DaemonSite) -> tuple[bytes, bytes]:
    """Return the headers and the bodies of all dead letters."""
    connection = await aio_pika.connect(site.url)
    headers, bodies = b"", b""
    async with connection, connection.channel() as channel:
        queue = await channel.get_queue(site.topology.dead_queue, ensure=False)
        while (letter := await queue.get(fail=False, no_ack=True)) is not None:
            headers += repr(letter.headers).encode()
            bodies += letter.body
    return headers, bodies


@pytest.mark.timeout(120)
async def test_no_canary_leaves_a_daemon_whatever_fails(
    site: DaemonSite, client: BrokerClient, start: StartDaemon, model_server: FakeModelServer
) -> None:
    # Jobs wait for a model that fails; one that answers nonsense is done without.
    model_server.answer(failing(503), times=3)
    model_server.answer(no_json())
    source = TOOLS
    for name, secret in SHAPED.items():
        source = source.replace(name.upper().replace(" ", "_"), secret)
    (site.folder / "leaky.py").write_text(source)
    site.write(daemon="health: 127.0.0.1:0, log_level: debug".replace(", ", "\n  "))
    address = model_server.openai_url.replace("://", f"://svc:{MODEL_PASSWORD}@")
    settings = site.folder / "wavewright.yaml"
    settings.write_text(
        settings.read_text().replace("tools: [", "tools: [{path: leaky.py}, ")
        + f"models:\n  base_url: {address}\n  attempts: 1\nmodel: openai-chat:gpt-5-mini\n"
    )
    key = KNOWN["WAVEWRIGHT_HMAC_KEY"].encode()
    daemon = start(**KNOWN)
    await daemon.started()
    [served] = [line for line in daemon.lines if line["event"] == "health_served"]

    wanted = list[str]()
    for body in refused_bodies():
        await client.send_raw(body)
    for document in failing_jobs():
        wanted.append(str(uuid4()))
        await client.send(JobRequest(job_id=wanted[-1], job=document), key=key)
    await client.send(JobRequest(job_id=str(uuid4()), job=job(("say", "unsigned"))))
    await client.send(
        JobRequest(job_id=str(uuid4()), job=job(("say", "forged"))), key=b"another key of 16"
    )
    unknown = ValidationResult(
        job_id=str(uuid4()), package_id="p", accepted=False, iteration=1, feedback=["no such job"]
    )
    await client.send(unknown, key=key)
    with anyio.fail_after(PATIENCE * 2):
        while True:
            await client.read()
            ended = {
                str(one["job_id"])
                for one in client.seen
                if str(one["status"]) in {"JOB_FAILED", "JOB_COMPLETED", "JOB_PARTIALLY_COMPLETED"}
            }
            if ended >= set(wanted):
                break
            await anyio.sleep(0.1)
    async with httpx.AsyncClient() as http:
        health = f"http://{served['place']}"
        told = [
            (await http.get(f"{health}{path}")).content for path in ("/metrics", "/ready", "/live")
        ]
    daemon.signal(signal.SIGTERM)
    assert await daemon.ended() == 0

    found = await everything(client, site, daemon)
    found["http"] = b"\n".join(told)
    found["headers of dead letters"], bodies = await dead_letters(site)
    hits = {
        (name, place)
        for name, secret in canaries()
        for place, content in found.items()
        if is_in(secret, content)
    }
    # What its sender has put into a request is the job's own, and so is a dead letter's body:
    # nowhere else.
    of_the_sender = {
        ("in a document's fault", "file journal.sqlite"),
        ("in a document's fault", "file journal.sqlite-wal"),
    }
    assert hits - of_the_sender == set()
    assert not any(is_in(secret, bodies) for secret in (*KNOWN.values(), MODEL_PASSWORD))
    assert is_in(SHAPED["in a refused body"], bodies), "the search finds what is there"
