"""Signatures of messages, where a key is configured.

A *signature* is the HMAC-SHA-256 of body, message id, timestamp and routing key, one behind the other, in hexadecimal
digits. Who has no key can neither make a message nor move one to another queue. Id and timestamp are those of the
envelope, to the letter; as the body holds them too, and ends where its JSON ends, no two messages sign the same bytes.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Final

SIGNATURE_HEADER: Final = "x-wavewright-signature"

_DIGITS: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def sign(key: bytes, *, body: bytes, message_id: str, timestamp: str, routing_key: str) -> str:
    """Return the signature of a message."""
    digest = hmac.new(key, body, hashlib.sha256)
    for part in (message_id, timestamp, routing_key):
        digest.update(part.encode())
    return digest.hexdigest()


def looks_like_signature(value: object) -> bool:
    """Whether a header could be a signature at all."""
    return isinstance(value, str) and _DIGITS.fullmatch(value) is not None


def verify_signature(
    signature: str, key: bytes, *, body: bytes, message_id: str, timestamp: str, routing_key: str
) -> bool:
    """Whether a signature is that of the message, found out in a time that tells nothing of the right one."""
    right = sign(key, body=body, message_id=message_id, timestamp=timestamp, routing_key=routing_key)
    return hmac.compare_digest(signature.encode(), right.encode())
