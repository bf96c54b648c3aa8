"""Why a message off the wire is not taken in.

A message is *refused* where it is wrong in itself: nothing in it is repaired, guessed or read as something else. The
*kind* is a word from a fixed list that programs may count by; the reason is a sentence for people that says where and
what would mend it. Neither repeats a word of the message, so a refusal never carries a secret on.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

RejectionKind: TypeAlias = Literal[
    "bad_content_type",
    "bad_encoding",
    "bad_payload",
    "bad_signature",
    "bad_timestamp",
    "bad_unicode",
    "duplicate_key",
    "missing_field",
    "nonfinite_number",
    "not_json",
    "number_out_of_range",
    "stale",
    "too_deep",
    "too_large",
    "unknown_field",
    "unknown_type",
    "wrong_identity",
    "wrong_target",
    "wrong_type",
]
"""What is wrong with a message; docs/reference/messages.md says what each means."""


class MessageRejected(Exception):
    """A message that is not taken in, whatever the store knows."""

    def __init__(self, kind: RejectionKind, reason: str) -> None:
        self.kind: RejectionKind = kind
        self.reason = reason
        super().__init__(f"{kind}: {reason}")
