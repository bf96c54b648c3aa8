"""By which rules messages are taken in.

An *identity* is what a sender is known by and what it may send. The broker vouches for its user, the signature for
whoever holds the key; the name in the envelope alone vouches for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wavewright.config.daemon_settings import DaemonSection
from wavewright.engine.messages.envelope import RequestType


@dataclass(frozen=True, slots=True)
class SenderIdentity:
    """One sender."""

    user_id: str | None
    """The broker's user that it must be; any where it is none."""
    may_send: frozenset[RequestType]


@dataclass(frozen=True, slots=True)
class AcceptanceRules:
    """What a message must be like to be taken in."""

    agent: str
    """Whom it must be for."""
    max_body: int = 2**20
    """Bytes."""
    max_depth: int = 32
    """How deep lists and objects may be nested."""
    max_age: float = 604_800.0
    """Seconds."""
    skew: float = 300.0
    """Seconds that it may come from the future."""
    identities: Mapping[str, SenderIdentity] = field(default_factory=dict[str, SenderIdentity])
    """Senders by name; where there are none, everybody may send everything."""
    key: bytes | None = field(default=None, repr=False)
    """Of signatures; where there is none, none is asked for."""
    takes_goals: bool = True
    """Whether a job may come as a goal in words, for which the settings name a goal template."""

    def authenticates(self, source: str) -> bool:
        """Return whether a message that was let in is known to be its sender's: by its signature or its user."""
        identity = self.identities.get(source)
        return self.key is not None or (identity is not None and identity.user_id is not None)


def acceptance_rules(section: DaemonSection, hmac_key: str | None) -> AcceptanceRules:
    """Return the rules that the settings make."""
    identities = {
        name: SenderIdentity(settings.user_id, frozenset(settings.may_send))
        for name, settings in section.identities.items()
    }
    return AcceptanceRules(
        agent=section.agent,
        max_body=section.max_body,
        max_depth=section.max_depth,
        max_age=section.max_age,
        skew=section.skew,
        identities=identities,
        key=None if hmac_key is None else hmac_key.encode(),
        takes_goals=section.goal_template is not None,
    )
