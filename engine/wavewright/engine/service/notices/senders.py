"""The ways in which a notice goes out: a webhook, a mail, or a service that Apprise knows."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import os
import re
import smtplib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

import anyio
import anyio.to_thread
import httpx2

from wavewright.config import WavewrightError, exit_codes
from wavewright.config.notices import MailSettings, NoticeRule
from wavewright.config.redaction import VARIABLE_PATTERN
from wavewright.engine.service.notices.notice_store import NoticeBatch
from wavewright.planner import JsonObject
from wavewright.tools import guarded_client

SEND_SECONDS: Final = 30.0
"""For which a message may take to be taken."""
_MAX_ANSWER_BYTES: Final = 64 * 2**10
_SMTP_PORT: Final = 587
_SMTPS_PORT: Final = 465


class NoticeNotSent(WavewrightError):
    """A message that was not taken; what it says holds no address, which may have a secret in it."""

    exit_code = exit_codes.ENVIRONMENT


class NoticeRefused(NoticeNotSent):
    """A message that would be refused again, however often it is sent."""


@dataclass(frozen=True, slots=True)
class NoticeMessage:
    """A message as it goes out; secrets are redacted."""

    batch: NoticeBatch
    subject: str
    text: str
    content: JsonObject
    """The same as JSON, for a webhook."""


async def send_notice(rule: NoticeRule, message: NoticeMessage, key: str | None) -> str:
    """Send a message by the way of its rule; return which part of it was refused, empty where none
    was: what others have got is not sent again.

    Raises:
        NoticeRefused: it was refused for good.
        NoticeNotSent: it was not taken, or nothing is known of that.
    """
    try:
        with anyio.fail_after(SEND_SECONDS):
            if rule.webhook is not None:
                await _post(with_variables(rule.webhook), message, key)
            elif rule.mail is not None:
                return await anyio.to_thread.run_sync(
                    _mail, rule.mail, message, abandon_on_cancel=True
                )
            elif rule.apprise is not None:
                await _notify(with_variables(rule.apprise), message)
    except TimeoutError as error:
        raise NoticeNotSent(f"nothing was answered within {SEND_SECONDS:g} s") from error
    return ""


def with_variables(text: str) -> str:
    """Return a text with the values of the environment in place of `${env:NAME}`.

    Raises:
        NoticeNotSent: a variable is not set.
    """

    def value_of(found: re.Match[str]) -> str:
        value = os.environ.get(found[1])
        if not value:
            raise NoticeNotSent(f"the variable {found[1]} is not set", "set it for the daemon")
        return value

    return VARIABLE_PATTERN.sub(value_of, text)


async def _post(url: str, message: NoticeMessage, key: str | None) -> None:
    body = json.dumps(message.content, ensure_ascii=False, sort_keys=True).encode()
    headers: Mapping[str, str] = {
        "Content-Type": "application/json",
        "X-Wavewright-Message": message.batch.message,
        **({} if key is None else {"X-Wavewright-Signature": signature_of(body, key)}),
    }
    try:
        async with guarded_client(max_bytes=_MAX_ANSWER_BYTES) as client:
            answer = await client.post(url, content=body, headers=dict(headers))
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        raise NoticeNotSent(f"the webhook was not reached: {type(error).__name__}") from error
    reason = f"the webhook answered {answer.status_code}"
    if answer.is_client_error and answer.status_code not in _MAY_PASS_LATER:
        raise NoticeRefused(reason)
    if not answer.is_success:
        raise NoticeNotSent(reason)


_MAY_PASS_LATER: Final = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
)
"""Of the errors that HTTP lays to whoever asks (4xx), those that say to ask again."""


def signature_of(body: bytes, key: str) -> str:
    """Return the signature of a body, `sha256=` and the HMAC in hexadecimal digits."""
    return "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()


def _mail(mail: MailSettings, message: NoticeMessage) -> str:
    letter = EmailMessage()
    try:
        server = urlsplit(with_variables(mail.server))
        letter["Subject"] = message.subject
        letter["From"] = mail.sender
        letter["To"] = ", ".join(mail.to)
        # That of the latest event, so that a repeat is the same message.
        letter["Date"] = formatdate(message.batch.events[-1].at)
        letter["Message-ID"] = f"<{message.batch.message}@wavewright>"
        letter.set_content(message.text)
        with _mail_server(server) as smtp:
            if server.username:
                smtp.login(unquote(server.username), unquote(server.password or ""))
            refused = smtp.send_message(letter)
    except ssl.SSLCertVerificationError as error:
        raise NoticeNotSent(
            "the certificate of the mail server is not trusted (for an authority of your own set"
            f" SSL_CERT_FILE to its file): {error.verify_message}"
        ) from error
    except smtplib.SMTPResponseException as error:
        raise _not_taken(error, error.smtp_code) from error
    except smtplib.SMTPRecipientsRefused as error:
        # One address that may be taken later keeps the mail.
        raise _not_taken(error, min(code for code, _ in error.recipients.values())) from error
    except (OSError, smtplib.SMTPException) as error:
        raise NoticeNotSent(f"the mail server did not take it: {type(error).__name__}") from error
    except ValueError as error:  # a port or an address that is none
        raise NoticeNotSent("the server, the sender or an address of the mail is none") from error
    if not refused:
        return ""
    return f"the mail server refused {len(refused)} of {len(mail.to)} addresses"


def _not_taken(error: smtplib.SMTPException, code: int) -> NoticeNotSent:
    """Return what a mail server answered, as the error of a mail.

    What it refuses for good (5yz) of a mail is its sender, all of its addresses or its text; an
    answer to the greeting or to the login says nothing of the mail, which waits for it to be mended.
    """
    reason = f"the mail server did not take it: {type(error).__name__} {code}"
    is_of_mail = isinstance(
        error, smtplib.SMTPSenderRefused | smtplib.SMTPRecipientsRefused | smtplib.SMTPDataError
    )
    is_for_good = is_of_mail and code >= _FIRST_PERMANENT_CODE
    return NoticeRefused(reason) if is_for_good else NoticeNotSent(reason)


_FIRST_PERMANENT_CODE: Final = 500
"""Answers of a mail server from here on say not to send the same again; those below, to try later."""


def _mail_server(server: SplitResult) -> smtplib.SMTP:
    """Connect to a mail server; the connection is encrypted as its address says.

    Raises:
        NoticeNotSent: what is sent would not be encrypted, or the address is none.
    """
    host, encryption = server.hostname or "", ssl.create_default_context()
    if server.scheme == "smtps":
        port = server.port or _SMTPS_PORT
        return smtplib.SMTP_SSL(host, port, timeout=SEND_SECONDS, context=encryption)
    if server.scheme not in ("smtp", "starttls"):
        raise NoticeNotSent(
            "the mail server is no address", "write smtps://HOST, starttls://HOST or smtp://HOST"
        )
    smtp = smtplib.SMTP(host, server.port or _SMTP_PORT, timeout=SEND_SECONDS)
    try:
        _encrypt(smtp, server, encryption)
    except BaseException:
        smtp.close()
        raise
    return smtp


def _encrypt(smtp: smtplib.SMTP, server: SplitResult, encryption: ssl.SSLContext) -> None:
    """Encrypt a connection where that is offered; refuse to go on without where it must be."""
    smtp.ehlo()
    if smtp.has_extn("starttls"):
        smtp.starttls(context=encryption)
    elif server.scheme == "starttls" or (
        server.username and not _is_this_machine(server.hostname or "")
    ):
        # Whoever stands between can remove the offer: a password is never sent for want of it.
        raise NoticeNotSent("the mail server does not offer to encrypt")


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _notify(url: str, message: NoticeMessage) -> None:
    try:
        import apprise
    except ImportError as error:
        raise NoticeNotSent(
            "the extra `notify` is not installed", "pip install 'wavewright[notify]'"
        ) from error
    service: Any = apprise.Apprise()
    if not service.add(url):
        raise NoticeNotSent("Apprise does not know the service of the address")
    if not await service.async_notify(body=message.text, title=message.subject):
        raise NoticeNotSent("the service did not take it")
