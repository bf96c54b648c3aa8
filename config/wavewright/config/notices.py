"""Settings of notices: what people are told of while nobody watches, and where.

A secret, be it an address that holds one, is written `${env:NAME}` and is read from the environment
when a notice is sent; an address that holds one itself is refused.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from wavewright.config.redaction import VARIABLE_PATTERN, is_literal_secret
from wavewright.config.value_types import SettingsModel

NoticeKind: TypeAlias = Literal[
    "decision_waits",
    "run_failed",
    "run_not_achieved",
    "budget_reached",
    "schedule_missed",
    "job_dead",
    "message_dead",
]
"""A person must answer, a run has ended without its goal, in or before its review, a budget has
reached 80 %, an instant of a schedule was missed, a job was given up, a message was dead-lettered
as it came in.
"""
NoticeRuleName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,62}$")]


_ID_OF_SERVICE: Final = re.compile(r"(?i:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
_LETTERS_AND_DIGITS: Final = re.compile(r"(?<![A-Za-z0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{15,}")
_WORD_OR_NUMBER: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_MEAN_LENGTH_IN_KEYS: Final = 3.5
_MEAN_LENGTH_IN_KEYS_OF_BOTH_CASES: Final = 4.5
_MEAN_LENGTH_IN_KEYS_OF_LETTERS: Final = 3.0
"""Without a digit it may be words that begin with capitals (`TheNewsOfTheDay`)."""


# The address is not quoted, since it holds a secret.
_MUST_BE_A_VARIABLE: Final = (
    "a secret stands in this address: set it as a variable and write ${env:NAME} instead"
)


def _without_secret(address: str) -> str:
    """Refuse an address that holds a secret itself."""
    if is_literal_secret("", address):
        raise ValueError(_MUST_BE_A_VARIABLE)
    return address


def _without_key(address: str) -> str:
    """Refuse an address of a service that holds a key or another secret itself."""
    written = VARIABLE_PATTERN.sub("", address)
    if _ID_OF_SERVICE.search(written) or any(map(_is_key, _LETTERS_AND_DIGITS.findall(written))):
        raise ValueError(_MUST_BE_A_VARIABLE)
    return _without_secret(address)


def _is_key(text: str) -> bool:
    """Whether letters and digits are a key and no name, such as that of the host `mailserver01`.

    The keys of services stand anywhere in their addresses (`slack://A/B/C`), without the words and
    prefixes that tell other secrets. A name is made of words and numbers; letters and digits at
    random go from one to the other every few characters, and where they have both cases, from one
    case to the other.
    """
    if text.isalpha():
        longest = _MEAN_LENGTH_IN_KEYS_OF_LETTERS
    elif text.islower() or text.isupper():
        longest = _MEAN_LENGTH_IN_KEYS
    else:
        longest = _MEAN_LENGTH_IN_KEYS_OF_BOTH_CASES
    return len(text) < longest * len(_WORD_OR_NUMBER.findall(text))


def _begins_with(*schemes: str) -> AfterValidator:
    """Refuse an address to which no message can go, or that holds a secret itself; what a variable
    holds is seen when it is sent.
    """

    def check(address: str) -> str:
        if not address.lower().startswith(("${env:", *schemes)):
            # The address is not quoted: it may hold a secret.
            ways = " or ".join(f"{scheme}HOST" for scheme in schemes)
            msg = f"nothing can be sent to this address: write {ways}"
            raise ValueError(msg)
        return _without_secret(address)

    return AfterValidator(check)


class MailSettings(SettingsModel):
    """Where the mails of a rule go."""

    server: Annotated[str, Field(min_length=1), _begins_with("smtps://", "starttls://", "smtp://")]
    """The server, `smtps://USER:PASSWORD@HOST` (TLS, port 465), `starttls://…` (STARTTLS, port 587) or
    `smtp://…` (STARTTLS where it is offered); with a password it is written `${env:NAME}`.
    """
    sender: Annotated[str, Field(min_length=3)]
    """Address of the sender."""
    to: Annotated[list[Annotated[str, Field(min_length=3)]], Field(min_length=1)]
    """Addresses of those who are told."""


class NoticeRule(SettingsModel):
    """One of `notify` in `wavewright.yaml`."""

    on: Annotated[list[NoticeKind], Field(min_length=1)]
    """What is told: `decision_waits`, `run_failed` (each run that ended without its goal),
    `run_not_achieved` (of them those that were reviewed), `budget_reached` (80 %), `schedule_missed`,
    `job_dead` and `message_dead`.
    """
    webhook: Annotated[str, Field(min_length=1), _begins_with("https://", "http://")] | None = None
    """Address that a JSON object is posted to, signed with `WAVEWRIGHT_HMAC_KEY` where that is set."""
    mail: MailSettings | None = None
    """Mails that are sent, see below."""
    apprise: Annotated[str, Field(min_length=1), AfterValidator(_without_key)] | None = None
    """Address of a service that Apprise knows, such as Slack or Teams, with its keys as `${env:NAME}`;
    needs the extra `notify`.
    """

    @model_validator(mode="after")
    def _has_one_way(self) -> Self:
        ways = [self.webhook, self.mail, self.apprise]
        if sum(way is not None for way in ways) != 1:
            msg = "a rule has one of 'webhook', 'mail' and 'apprise'"
            raise ValueError(msg)
        return self
