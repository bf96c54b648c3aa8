"""What people are told of: once, by a real web server and a real mail server on this machine."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from functools import partial
from uuid import uuid4

import anyio
import pytest
from aiosmtpd.handlers import Sink
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.engine.service.notices.conftest import Hook, Site
from wavewright.engine.service.job_store.records import (
    JobChange,
    JobId,
    JobRequested,
    MessageId,
    ReceivedMessage,
)
from wavewright.engine.service.notices.notice_store import LEASE_SECONDS, NoticeStore
from wavewright.executor.stores import journal_of

pytestmark = pytest.mark.anyio

RULES = """\
public_url: https://ops.example/ww/
notify:
  oncall: {{on: [run_failed, job_dead], webhook: "{url}"}}
"""


async def fail_job(site: Site, reason: str = "the feed is away") -> str:
    """Have a job fail, and return its run."""
    job = str(uuid4())
    request = JobRequested(JobId(job), {"job": {"name": "digest"}})
    await site.jobs.receive(ReceivedMessage(MessageId(job), "job", "test", site.now, request))
    held = await site.jobs.claim()
    assert held is not None
    await site.jobs.change(JobChange(held.job, "failed", reason=reason))
    return held.run


async def test_a_failed_run_is_told_once_with_a_link_and_a_signature(
    site: Site, hook: Hook
) -> None:
    daemon = site.daemon(RULES.format(url=hook.url))
    await daemon.tick()
    run = await fail_job(site)
    for _ in range(3):
        site.now += 400
        await daemon.tick()

    [(headers, body)] = hook.posted
    [said] = hook.said
    assert said["count"] == 1
    assert f"https://ops.example/ww/runs/{run}" in str(said["text"])
    assert "the feed is away" in str(said["text"])
    expected = hmac.new(b"0123456789abcdef", body, hashlib.sha256).hexdigest()
    assert headers["X-Wavewright-Signature"] == f"sha256={expected}"


async def test_what_happened_before_a_rule_was_there_is_not_told(site: Site, hook: Hook) -> None:
    await fail_job(site)
    site.now += 10
    daemon = site.daemon(RULES.format(url=hook.url))
    for _ in range(3):
        await daemon.tick()
        site.now += 400

    assert hook.posted == []


async def test_many_are_told_in_one_message_in_five_minutes(site: Site, hook: Hook) -> None:
    daemon = site.daemon(RULES.format(url=hook.url))
    await daemon.tick()
    await fail_job(site)
    site.now += 10
    await daemon.tick()
    for _ in range(4):
        await fail_job(site)
        site.now += 10
        await daemon.tick()
    assert [said["count"] for said in hook.said] == [1]

    site.now += 300
    await daemon.tick()
    assert [said["count"] for said in hook.said] == [1, 4]


async def test_what_was_not_taken_is_sent_again_as_the_same_message(site: Site, hook: Hook) -> None:
    daemon = site.daemon(RULES.format(url=hook.url))
    await daemon.tick()
    await fail_job(site)
    hook.status = 503
    site.now += 10
    await daemon.tick()
    await daemon.tick()
    assert len(hook.posted) == 1

    hook.status = 204
    site.now += 11
    await daemon.tick()
    site.now += 400
    await daemon.tick()
    first, second = hook.posted
    assert first[1] == second[1]
    assert first[0]["X-Wavewright-Message"] == second[0]["X-Wavewright-Message"]


async def test_of_two_daemons_one_tells(site: Site, hook: Hook) -> None:
    async with journal_of(site.settings) as other:
        first = site.daemon(RULES.format(url=hook.url))
        second = site.daemon(RULES.format(url=hook.url))
        second.store = NoticeStore(other)
        await first.tick()
        await fail_job(site)
        site.now += 10
        async with anyio.create_task_group() as group:
            group.start_soon(first.tick)
            group.start_soon(second.tick)

    assert len(hook.posted) == 1


async def test_a_batch_that_was_cut_off_is_sent_by_the_next_daemon(site: Site, hook: Hook) -> None:
    daemon = site.daemon(RULES.format(url=hook.url))
    await daemon.tick()
    await fail_job(site)
    site.now += 10
    [(name, rule)] = daemon.settings.notify.items()
    cut_off = await daemon.store.next_batch(name, rule, daemon.settings.budgets, site.now)
    assert cut_off is not None
    await daemon.tick()
    assert hook.posted == []

    site.now += LEASE_SECONDS
    await site.daemon(RULES.format(url=hook.url)).tick()
    assert [said["message"] for said in hook.said] == [cut_off.message]


async def test_a_secret_is_redacted(site: Site, hook: Hook) -> None:
    daemon = site.daemon(RULES.format(url=hook.url))
    await daemon.tick()
    await fail_job(site, "the key 0123456789abcdef was refused")
    site.now += 10
    await daemon.tick()

    assert b"0123456789abcdef" not in hook.posted[0][1]
    assert "[redacted]" in str(hook.said[0]["text"])


async def test_an_address_whose_variable_is_not_set_is_logged_and_tells_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOK_URL", raising=False)
    daemon = site.daemon(RULES.format(url="${env:HOOK_URL}"))
    await daemon.tick()
    await fail_job(site)
    site.now += 10
    await daemon.tick()

    assert "the variable HOOK_URL is not set" in site.output.getvalue()


# Apprise asks the system's module for kinds of pictures, which Python will not have any more.
@pytest.mark.filterwarnings("ignore:'imghdr':DeprecationWarning")
async def test_a_service_of_apprise_is_told(site: Site, hook: Hook) -> None:
    pytest.importorskip("apprise")
    daemon = site.daemon(RULES.format(url=hook.url).replace('webhook: "http:', 'apprise: "json:'))
    await daemon.tick()
    await fail_job(site)
    site.now += 10
    await daemon.tick()

    assert "the feed is away" in str(hook.said[0]["message"])


class Letters(Sink):
    """Keeps the letters that a mail server takes."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[Envelope] = []

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        del server, session
        self.taken.append(envelope)
        return "250 taken"


async def test_a_mail_goes_to_those_who_are_named(site: Site) -> None:
    letters = Letters()
    server = await asyncio.get_running_loop().create_server(partial(SMTP, letters), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    rules = f"""\
notify:
  team:
    on: [run_failed]
    mail: {{server: "smtp://127.0.0.1:{port}", sender: ww@example.org, to: [a@example.org]}}
"""
    try:
        daemon = site.daemon(rules)
        await daemon.tick()
        await fail_job(site)
        site.now += 10
        await daemon.tick()
    finally:
        server.close()

    [letter] = letters.taken
    assert letter.rcpt_tos == ["a@example.org"]
    assert isinstance(letter.content, bytes)
    assert b"the feed is away" in letter.content
