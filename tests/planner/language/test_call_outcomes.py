"""Which exceptions and answers leave open whether a call took effect, and what `retry.on` may name."""

from __future__ import annotations

import pytest

from wavewright.planner.checks.checker import check
from wavewright.planner.language.call_outcomes import (
    is_unknown_by_class,
    is_unknown_by_status,
)
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import Effect

_BROKEN_OFF = [
    "TimeoutError",
    "httpx.ReadTimeout",
    "subprocess.TimeoutExpired",
    "requests.exceptions.Timeout",
    "ConnectionResetError",
    "http.client.RemoteDisconnected",
    "httpx.ReadError",
    "concurrent.futures.BrokenExecutor",
    "concurrent.futures.process.BrokenProcessPool",
    "EOFError",
    "imaplib.IMAP4.abort",
    "smtplib.SMTPServerDisconnected",
    "pymongo.errors.BulkWriteError",
    "websockets.exceptions.ConnectionClosed",
]
_BEFORE_ANY_EFFECT = ["ConnectionRefusedError", "httpx.ConnectTimeout", "httpx.PoolTimeout"]
_REFUSED = ["redis.exceptions.ResponseError", "pymongo.errors.WriteError", "ftplib.error_perm"]
_EITHER = [
    "ConnectionError",
    "OSError",
    "httpx.HTTPStatusError",
    "urllib3.exceptions.ResponseError",
]


@pytest.mark.parametrize("name", _BROKEN_OFF)
def test_a_timeout_or_a_broken_connection_is_of_a_call_under_way(name: str) -> None:
    assert is_unknown_by_class([name]) is True


@pytest.mark.parametrize("name", _REFUSED)
def test_a_class_is_an_answer_in_its_own_package(name: str) -> None:
    assert is_unknown_by_class([name]) is False
    assert is_unknown_by_class([name.rpartition(".")[2]]) is not False


@pytest.mark.parametrize("name", _EITHER)
def test_a_class_that_may_stand_for_either_says_nothing(name: str) -> None:
    assert is_unknown_by_class([name]) is None


@pytest.mark.parametrize("name", _BEFORE_ANY_EFFECT)
def test_what_was_never_sent_had_no_effect_whatever_else_the_exception_is(name: str) -> None:
    names = [name, "TimeoutException", "TransportError"]

    assert is_unknown_by_class(names) is False


@pytest.mark.parametrize(
    ("status", "has_retry_after", "is_unknown"),
    [
        (409, False, False),
        (429, False, False),
        (500, True, True),
        (503, False, True),
        (503, True, False),
    ],
)
def test_an_answer_by_which_a_server_refuses_to_act_is_known(
    status: int, has_retry_after: object, is_unknown: object
) -> None:
    assert is_unknown_by_status(status, has_retry_after=bool(has_retry_after)) is is_unknown


def codes(kind: str, *, effect: Effect = "write", idempotent: bool = False) -> list[str]:
    """Return the codes of the errors of a plan that tries a call again after an exception."""
    signature = ToolSignature(name="pay", effects=frozenset({effect}), idempotent=idempotent)
    retry = {"attempts": 3, "on": ["transient", kind]}
    plan = Plan.model_validate({"steps": [{"id": "a", "tool": "pay", "retry": retry}]})
    diagnostics = check(plan, None, {"pay": signature})
    return [diagnostic.code for diagnostic in diagnostics if diagnostic.severity == "error"]


@pytest.mark.parametrize("kind", ["timeout", "output", "any", *_BROKEN_OFF])
def test_rules_of_retries_that_can_only_repeat_what_may_have_taken_effect_are_refused(
    kind: str,
) -> None:
    assert codes(kind) == ["E209"]
    assert codes(kind, idempotent=True) == codes(kind, effect="read") == []


@pytest.mark.parametrize("kind", ["transient", *_BEFORE_ANY_EFFECT, *_REFUSED, *_EITHER])
def test_rules_of_retries_that_may_repeat_what_had_no_effect_are_not(kind: str) -> None:
    assert codes(kind) == []
