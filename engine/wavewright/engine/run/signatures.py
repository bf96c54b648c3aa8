"""Signatures of receipts: Ed25519, with keys in PEM.

The library comes with the extra `receipts`.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    load_pem_private_key,
    load_pem_public_key,
)

from wavewright.engine.run.receipts import ReceiptError, RunReceipt, Signature, SignatureVerdict


def sign_receipt(receipt: RunReceipt, private_key: Path) -> RunReceipt:
    """Return the receipt with a signature.

    Args:
        receipt: The receipt.
        private_key: An Ed25519 key in PEM, as `openssl genpkey -algorithm ed25519` makes it.

    Raises:
        ReceiptError: the key cannot be used.
    """
    key = read_private_key(private_key)
    value = base64.b64encode(key.sign(receipt.signed_bytes)).decode()
    signature = Signature(key=_fingerprint(key.public_key()), value=value)
    return receipt.model_copy(update={"signature": signature})


def check_signature(receipt: RunReceipt, key: Path) -> SignatureVerdict:
    """Return whether a receipt is what the holder of a key has signed.

    Args:
        receipt: The receipt.
        key: The public key in PEM; a private one has the public one in it.

    Raises:
        ReceiptError: the key cannot be used.
    """
    signature, public_key = receipt.signature, read_public_key(key)
    if signature is None:
        return "unsigned"
    if signature.key != _fingerprint(public_key):
        return "other_key"
    try:
        public_key.verify(base64.b64decode(signature.value, validate=True), receipt.signed_bytes)
    except (InvalidSignature, ValueError):
        return "invalid"
    return "valid"


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """Return the key that receipts are signed with.

    Raises:
        ReceiptError: the key cannot be used.
    """
    try:
        key = load_pem_private_key(_read_key(path), password=None)
    except (ValueError, TypeError) as error:
        raise _key_error(path, "it is no private key in PEM without a password") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _key_error(path, "it is no Ed25519 key")
    return key


def read_public_key(path: Path) -> Ed25519PublicKey:
    """Return the key that signatures are checked with, which a private one has in it.

    Raises:
        ReceiptError: the key cannot be used.
    """
    content = _read_key(path)
    if b"PRIVATE KEY" in content:
        return read_private_key(path).public_key()
    try:
        key = load_pem_public_key(content)
    except ValueError as error:
        raise _key_error(path, "it is no public key in PEM") from error
    if not isinstance(key, Ed25519PublicKey):
        raise _key_error(path, "it is no Ed25519 key")
    return key


def _read_key(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _key_error(path, str(error.strerror)) from error


def _key_error(path: Path, reason: str) -> ReceiptError:
    return ReceiptError(
        f"the key {path} cannot be used: {reason}",
        "make one with `openssl genpkey -algorithm ed25519 -out KEY`",
    )


def _fingerprint(key: Ed25519PublicKey) -> str:
    return "sha256:" + hashlib.sha256(key.public_bytes_raw()).hexdigest()
