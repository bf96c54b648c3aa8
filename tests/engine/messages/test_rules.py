"""From the settings to the rules by which messages are taken in."""

from __future__ import annotations

import pytest

from wavewright.config.daemon_settings import DaemonSection, IdentitySettings
from wavewright.engine.messages.envelope import RequestType
from wavewright.engine.messages.rules import Identity, WireRules, rules_of

ALL: frozenset[RequestType] = frozenset({"job_request", "user_decision_response"})


def test_the_settings_say_what_a_message_must_be_like() -> None:
    section = DaemonSection(
        agent="librarian",
        max_body=2_048,
        max_depth=8,
        max_age=60.0,
        skew=5.0,
        goal_template="lore",
        identities={"ui": IdentitySettings(user_id="svc_ui", may_send=["job_request"])},
    )
    rules = rules_of(section, "0123456789abcdef")

    assert (rules.agent, rules.max_body, rules.max_depth, rules.max_age, rules.skew) == (
        "librarian",
        2_048,
        8,
        60.0,
        5.0,
    )
    assert rules.identities == {"ui": Identity("svc_ui", frozenset({"job_request"}))}
    assert rules.key == b"0123456789abcdef"
    assert rules.takes_goals


def test_without_settings_everybody_is_believed_and_only_job_documents_are_taken() -> None:
    rules = rules_of(DaemonSection(), None)

    assert (dict(rules.identities), rules.key, rules.takes_goals) == ({}, None, False)
    assert (rules.max_body, rules.max_depth, rules.max_age, rules.skew) == (1_048_576, 32, 604_800, 300)


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(WireRules("us", key=b"a key"), id="a signature"),
        pytest.param(WireRules("us", identities={"ui": Identity("svc_ui", ALL)}), id="its user"),
    ],
)
def test_a_sender_is_vouched_for_by_its_signature_or_its_user(rules: WireRules) -> None:
    assert rules.vouch_for("ui")


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(WireRules("us"), id="nothing"),
        pytest.param(WireRules("us", identities={"ui": Identity(None, ALL)}), id="any user"),
        pytest.param(WireRules("us", identities={"other": Identity("svc_ui", ALL)}), id="another's user"),
    ],
)
def test_a_name_alone_vouches_for_nobody(rules: WireRules) -> None:
    assert not rules.vouch_for("ui")
