"""What people are told of: once, by a real web server and a real mail server on this machine."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import shutil
import ssl
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from email import message_from_bytes
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias
from uuid import uuid4

import anyio
import pytest
from aiosmtpd.handlers import Sink
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from tests.engine.service.notices.conftest import Hook, Site
from tests.support.certificates import make_authority, make_certificate
from wavewright.engine.service.job_store.records import (
    JobChange,
    JobId,
    JobRequested,
    MessageId,
    ReceivedMessage,
)
from wavewright.engine.service.notices.notice_store import LEASE_SECONDS, NoticeStore
from wavewright.engine.service.notices.notifier import Notifier
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


@pytest.mark.parametrize("status", [400, 404, 410, 422])
async def test_what_is_refused_for_good_is_recorded_and_lets_the_next_pass(
    site: Site, hook: Hook, status: int
) -> None:
    daemon = site.daemon(RULES.format(url=hook.url))
    await daemon.tick()
    await fail_job(site, "the first")
    hook.status = status
    site.now += 10
    await daemon.tick()
    [refused] = hook.said
    hook.status = 200
    await fail_job(site, "the second")
    site.now += 11
    await daemon.tick()

    [_, passed] = hook.said
    assert passed["message"] != refused["message"]
    assert passed["count"] == 1
    assert "the second" in str(passed["text"])
    assert f"the webhook answered {status}" in site.output.getvalue()
    rows = await site.journal.read(
        lambda transaction: transaction.fetch("SELECT refused FROM notice ORDER BY at")
    )
    assert [refused for (refused,) in rows] == [f"the webhook answered {status}", None]


@pytest.mark.parametrize("status", [408, 425, 429])
async def test_what_may_pass_later_is_sent_again(site: Site, hook: Hook, status: int) -> None:
    daemon = site.daemon(RULES.format(url=hook.url))
    await daemon.tick()
    await fail_job(site)
    hook.status = status
    site.now += 10
    await daemon.tick()
    hook.status = 200
    site.now += 11
    await daemon.tick()

    first, second = hook.said
    assert first == second


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

    await daemon.store.mark_failed(cut_off, site.now)
    site.now += 2 * LEASE_SECONDS + 300
    await daemon.tick()
    assert len(hook.posted) == 1


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
        self.encrypted: list[bool] = []

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        del session
        self.taken.append(envelope)
        transport = server.transport
        self.encrypted.append(
            transport is not None and transport.get_extra_info("ssl_object") is not None
        )
        return "250 taken"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an authority and a certificate for this machine."""
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl to make certificates")
    folder = tmp_path_factory.mktemp("certificates")
    make_authority(folder)
    make_certificate(folder)
    return folder


def take_login(*_: object) -> AuthResult:
    return AuthResult(success=True)


@asynccontextmanager
async def mail_server(
    letters: Letters,
    certificates: Path | None = None,
    *,
    begins_encrypted: bool = False,
    take_login: Callable[..., AuthResult] = take_login,
) -> AsyncGenerator[int]:
    """Run a mail server and yield its port; with certificates it offers to encrypt."""
    encryption = None
    if certificates is not None:
        encryption = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        encryption.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    make = partial(
        SMTP,
        letters,
        tls_context=None if begins_encrypted else encryption,
        authenticator=take_login,
        auth_require_tls=encryption is not None and not begins_encrypted,
    )
    server = await asyncio.get_running_loop().create_server(
        make, "127.0.0.1", 0, ssl=encryption if begins_encrypted else None
    )
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


LOGIN = "ann:${env:MAIL_PASSWORD}@"


@pytest.fixture(autouse=True)
def mail_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", "secret")


async def mail_of_failure(site: Site, address: str, to: str = "a@example.org") -> Notifier:
    """Have a job fail of which a mail is sent by the server of an address, and return who sends."""
    daemon = site.daemon(f"""\
notify:
  team:
    on: [run_failed]
    mail: {{server: "{address}", sender: ww@example.org, to: [{to}]}}
""")
    await daemon.tick()
    await fail_job(site)
    site.now += 10
    await daemon.tick()
    return daemon


async def test_a_mail_goes_to_those_who_are_named(site: Site) -> None:
    letters = Letters()
    async with mail_server(letters) as port:
        await mail_of_failure(site, f"smtp://127.0.0.1:{port}")

    [letter] = letters.taken
    assert letter.rcpt_tos == ["a@example.org"]
    assert isinstance(letter.content, bytes)
    assert b"the feed is away" in letter.content
    dated = parsedate_to_datetime(message_from_bytes(letter.content)["Date"])
    assert abs(dated.timestamp() - site.now) < 60


@pytest.mark.parametrize(
    ("scheme", "login"),
    [("smtps", LOGIN), ("starttls", LOGIN), ("smtp", LOGIN), ("smtp", "")],
)
async def test_a_mail_is_encrypted_for_a_server_that_is_trusted(
    site: Site,
    certificates: Path,
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
    login: str,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates / "ca.pem"))
    letters = Letters()
    async with mail_server(letters, certificates, begins_encrypted=scheme == "smtps") as port:
        await mail_of_failure(site, f"{scheme}://{login}localhost:{port}")

    assert letters.encrypted == [True], site.output.getvalue()


@pytest.mark.parametrize("scheme", ["smtps", "starttls", "smtp"])
async def test_no_mail_goes_to_a_server_whose_certificate_is_not_trusted(
    site: Site, certificates: Path, scheme: str
) -> None:
    letters = Letters()
    async with mail_server(letters, certificates, begins_encrypted=scheme == "smtps") as port:
        await mail_of_failure(site, f"{scheme}://{LOGIN}localhost:{port}")

    assert letters.taken == []
    assert "the certificate of the mail server is not trusted" in site.output.getvalue()
    assert "SSL_CERT_FILE" in site.output.getvalue()


async def test_no_mail_goes_unencrypted_where_that_is_wanted(site: Site) -> None:
    letters = Letters()
    async with mail_server(letters) as port:
        await mail_of_failure(site, f"starttls://localhost:{port}")

    assert letters.taken == []
    assert "the mail server does not offer to encrypt" in site.output.getvalue()


@pytest.mark.parametrize(
    "mail",
    [
        '{server: "smtp://127.0.0.1:none", sender: ww@example.org, to: [a@example.org]}',
        '{server: "smtp://127.0.0.1:1", sender: "ww@example.org\\nBcc: b@c.d", to: [a@example.org]}',
        '{server: "${env:MAIL_SERVER}", sender: ww@example.org, to: [a@example.org]}',
        '{server: "smtp://[::1", sender: ww@example.org, to: [a@example.org]}',
    ],
)
async def test_a_mail_that_cannot_go_out_stops_no_other_rule(
    site: Site, hook: Hook, mail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIL_SERVER", "http://127.0.0.1:1")
    daemon = site.daemon(
        f"notify:\n  first: {{on: [run_failed], mail: {mail}}}\n"
        f'  second: {{on: [run_failed], webhook: "{hook.url}"}}\n'
    )
    await daemon.tick()
    await fail_job(site)
    site.now += 10
    await daemon.tick()

    assert [said["rule"] for said in hook.said] == ["second"]
    assert '"rule":"first"' in site.output.getvalue().replace(": ", ":")


RefusingPart: TypeAlias = Literal["MAIL", "RCPT", "DATA"]


class Refusing(Letters):
    """Refuses the first mail where it is told to, and takes those after it."""

    def __init__(self, where: RefusingPart, answers: Sequence[str]) -> None:
        super().__init__()
        self.where = where
        self.answers = [*answers]

    async def handle_MAIL(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        del server, session, options
        if self.where == "MAIL" and self.answers:
            return self.answers.pop(0)
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        del server, session, options
        if self.where == "RCPT" and self.answers:
            return self.answers.pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.where == "DATA" and self.answers:
            return self.answers.pop(0)
        return await super().handle_DATA(server, session, envelope)


TWO_ADDRESSES = "a@example.org, b@example.org"


@pytest.mark.parametrize(
    ("where", "answers", "told"),
    [
        ("MAIL", ["451 busy"], "SMTPSenderRefused 451"),
        ("RCPT", ["450 greylisted", "550 nobody here"], "SMTPRecipientsRefused 450"),
        ("DATA", ["421 not now"], "SMTPDataError 421"),
    ],
)
async def test_a_mail_that_may_be_taken_later_is_logged_with_its_code_and_sent_again(
    site: Site, where: RefusingPart, answers: list[str], told: str
) -> None:
    letters = Refusing(where, answers)
    async with mail_server(letters) as port:
        daemon = await mail_of_failure(site, f"smtp://127.0.0.1:{port}", to=TWO_ADDRESSES)
        assert letters.taken == []
        assert told in site.output.getvalue()
        site.now += 11
        await daemon.tick()

    assert len(letters.taken) == 1


@pytest.mark.parametrize(
    ("where", "answers", "told"),
    [
        ("MAIL", ["550 not your address"], "SMTPSenderRefused 550"),
        ("RCPT", ["550 nobody here", "553 no name"], "SMTPRecipientsRefused 550"),
        ("DATA", ["554 looks like spam"], "SMTPDataError 554"),
    ],
)
async def test_a_mail_that_is_refused_for_good_is_recorded_and_lets_the_next_pass(
    site: Site, where: RefusingPart, answers: list[str], told: str
) -> None:
    letters = Refusing(where, answers)
    async with mail_server(letters) as port:
        daemon = await mail_of_failure(site, f"smtp://127.0.0.1:{port}", to=TWO_ADDRESSES)
        await fail_job(site, "the second")
        site.now += 11
        await daemon.tick()

    [passed] = letters.taken
    assert "the second" in str(passed.content)
    assert "notice_refused" in site.output.getvalue()
    rows = await site.journal.read(
        lambda transaction: transaction.fetch("SELECT refused FROM notice ORDER BY at")
    )
    assert [refused for (refused,) in rows] == [f"the mail server did not take it: {told}", None]


async def test_a_mail_waits_for_a_login_that_is_refused(site: Site) -> None:
    letters, is_changed = Letters(), list[bool]()

    def take_new_login(*_: object) -> AuthResult:
        return AuthResult(success=bool(is_changed), handled=False)

    async with mail_server(letters, take_login=take_new_login) as port:
        daemon = await mail_of_failure(site, f"smtp://{LOGIN}127.0.0.1:{port}")
        assert "SMTPAuthenticationError 535" in site.output.getvalue()
        is_changed.append(True)
        site.now += 11
        await daemon.tick()

    assert len(letters.taken) == 1


async def test_an_address_that_is_refused_is_logged_and_the_others_get_the_mail_once(
    site: Site,
) -> None:
    class Choosing(Letters):
        async def handle_RCPT(  # noqa: N802
            self,
            server: SMTP,
            session: Session,
            envelope: Envelope,
            address: str,
            options: list[str],
        ) -> str:
            del server, session, options
            if address.startswith("b@"):
                return "550 nobody here"
            envelope.rcpt_tos.append(address)
            return "250 OK"

    letters = Choosing()
    async with mail_server(letters) as port:
        daemon = await mail_of_failure(
            site, f"smtp://127.0.0.1:{port}", to="a@example.org, b@example.org"
        )
        site.now += 1_000
        await daemon.tick()

    assert [letter.rcpt_tos for letter in letters.taken] == [["a@example.org"]]
    assert "the mail server refused 1 of 2 addresses" in site.output.getvalue()


async def test_an_instant_that_was_missed_long_ago_is_told_once_it_is_known(
    site: Site, hook: Hook
) -> None:
    daemon = site.daemon(f'notify:\n  team: {{on: [schedule_missed], webhook: "{hook.url}"}}\n')
    await daemon.tick()
    daemon.note_missed("morning", site.now - 10 * 3600)
    for _ in range(3):
        site.now += 400
        await daemon.tick()

    [said] = hook.said
    assert (said["count"], said["rule"]) == (1, "team")
    assert "schedule morning was missed" in str(said["text"])


async def test_messages_that_were_dead_lettered_are_told_by_the_rules_that_name_them(
    site: Site, hook: Hook
) -> None:
    rules = """
notify:
  letters: {{on: [message_dead], webhook: "{url}"}}
  others: {{on: [job_dead], webhook: "{url}"}}
"""
    daemon = site.daemon(rules.format(url=hook.url))
    await daemon.tick()
    daemon.note_dead_letter("bad_json", "line 1: no value")
    daemon.note_dead_letter("bad_json", "line 1: no value")
    for _ in range(2):
        site.now += 400
        await daemon.tick()

    [said] = hook.said
    assert (said["rule"], said["count"]) == ("letters", 2)
    assert "a message was dead-lettered (bad_json): line 1: no value" in str(said["text"])
