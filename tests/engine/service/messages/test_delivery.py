"""From the settings to the rules by which messages are taken in."""

from __future__ import annotations

import pytest

from wavewright.config.sections import DaemonSection, IdentitySettings
from wavewright.engine.service.messages.delivery import (
    AcceptanceRules,
    SenderIdentity,
    acceptance_rules,
)
from wavewright.tools.message_contract import MessageContract

ALL: frozenset[str] = frozenset({"job_request", "user_decision_response"})


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
    rules = acceptance_rules(section, "0123456789abcdef", MessageContract())

    assert (rules.agent, rules.max_body, rules.max_depth, rules.max_age, rules.skew) == (
        "librarian",
        2_048,
        8,
        60.0,
        5.0,
    )
    assert rules.identities == {"ui": SenderIdentity("svc_ui", frozenset({"job_request"}))}
    assert rules.key == b"0123456789abcdef"
    assert rules.takes_goals


def test_without_settings_everybody_is_believed_and_only_job_documents_are_taken() -> None:
    rules = acceptance_rules(DaemonSection(), None, MessageContract())

    assert (dict(rules.identities), rules.key, rules.takes_goals) == ({}, None, False)
    assert (rules.max_body, rules.max_depth, rules.max_age, rules.skew) == (
        1_048_576,
        32,
        604_800,
        300,
    )


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(AcceptanceRules("us", key=b"a key"), id="a signature"),
        pytest.param(
            AcceptanceRules("us", identities={"ui": SenderIdentity("svc_ui", ALL)}), id="its user"
        ),
    ],
)
def test_a_sender_is_vouched_for_by_its_signature_or_its_user(rules: AcceptanceRules) -> None:
    assert rules.authenticates("ui")


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(AcceptanceRules("us"), id="nothing"),
        pytest.param(
            AcceptanceRules("us", identities={"ui": SenderIdentity(None, ALL)}), id="any user"
        ),
        pytest.param(
            AcceptanceRules("us", identities={"other": SenderIdentity("svc_ui", ALL)}),
            id="another's user",
        ),
    ],
)
def test_a_name_alone_vouches_for_nobody(rules: AcceptanceRules) -> None:
    assert not rules.authenticates("ui")
