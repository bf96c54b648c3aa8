"""The receipt of a run: what ran and who agreed, on one page that can be signed.

A receipt names the plans by their hashes, the tools with their versions and code, each approval
with who gave it and for what, and the head of the journal, which stands for every event. It is
made from the journal, and checked without it: the signature is Ed25519 over the receipt's canonical
JSON, so whoever has the public key can check it and nobody else can make one. With the journal at
hand its head is compared as well.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pydantic import JsonValue, ValidationError

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError
from wavewright.config.identities import Identity
from wavewright.config.installation import install_hint, is_installed
from wavewright.engine.run.decisions.approvals import APPROVAL_GIVEN, APPROVAL_USED
from wavewright.executor.events.state import fold
from wavewright.executor.events.types import Event, Noted
from wavewright.executor.store.journal import RunHead
from wavewright.planner.language.hashing import canonical_json
from wavewright.planner.types import JsonObject, as_object
from wavewright.reviewer.cost_records import Record
from wavewright.reviewer.values import iso_of_epoch

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

EXTRA: Final = "receipts"
FORMAT: Final = "wavewright/receipt/1"


class ReceiptTool(Record):
    """A tool that a plan of the run calls."""

    version: str = ""
    """Of an MCP server's tool, the hash of all that the server said of it."""
    code: str = ""
    """The hash of its function's code, of a tool that is a Python function."""


class ReceiptApproval(Record):
    """An answer to a request for approval that the run used."""

    at: str
    subject: Literal["step", "patch"]
    approved: bool
    by: str = ""
    """Who has answered, as the journal has it; empty where that is not known."""
    proof: str = "claimed"
    """How it is known who that is: `claimed`, `token` or `proxy`."""
    needs: tuple[str, ...] = ()
    """Why a person was asked."""
    tool: str = ""
    binding: dict[str, JsonValue] = {}
    """What was approved: the plan's hash, and the step with the hash of its calls' parameters."""


class Signature(Record):
    """A signature over a receipt without its `signature`."""

    algorithm: Literal["ed25519"] = "ed25519"
    key: str
    """The SHA-256 of the public key, to tell keys apart."""
    value: str
    """In Base64."""


class RunReceipt(Record):
    """What ran, and who agreed."""

    format: Literal["wavewright/receipt/1"] = FORMAT
    run: str
    job: str
    status: str
    """How the run has ended; `running` where it has not."""
    plans: tuple[str, ...]
    """The hash of each plan that the run followed, the last one last."""
    tools: dict[str, ReceiptTool]
    """Of all these plans."""
    permits: dict[str, JsonValue] | None = None
    """What the run was permitted to do."""
    approvals: tuple[ReceiptApproval, ...] = ()
    head: RunHead
    """Stands for all events of the run."""
    signature: Signature | None = None

    @property
    def signed_bytes(self) -> bytes:
        """What a signature is made over: the canonical JSON of all but the signature."""
        return canonical_json(self.model_dump(mode="json", exclude={"signature"}))

    @property
    def text(self) -> str:
        """The receipt's file."""
        return canonical_json(self.model_dump(mode="json")).decode() + "\n"


SignatureVerdict: TypeAlias = Literal["valid", "invalid", "other_key", "unsigned"]


class ReceiptError(WavewrightError):
    """A receipt or a key cannot be used; the message names the file and the fix."""

    exit_code = exit_codes.MISUSE


def make_receipt(events: Sequence[Event], head: RunHead) -> RunReceipt:
    """Return the unsigned receipt of a run.

    Args:
        events: Of the run, from its first.
        head: Of its journal after these events.

    Raises:
        ReceiptError: the run has not begun.
    """
    state = fold(events)
    if state.started is None:
        raise ReceiptError("the run has not begun: there is nothing to attest")
    started = state.started
    steps = [step for plan in state.plans for step in _steps_of(plan.plan)]
    names = sorted({str(step["tool"]) for step in steps if "tool" in step})
    tools = {
        name: ReceiptTool(
            version=started.versions.get(f"tool {name}", ""), code=started.tool_code.get(name, "")
        )
        for name in names
    }
    permits = [note.body for note in state.notes if note.topic == "permits"]
    return RunReceipt(
        run=started.run,
        job=started.job,
        status="running" if state.finished is None else state.finished.status,
        plans=tuple(plan.plan_hash for plan in state.plans),
        tools=tools,
        permits=dict(permits[-1]) if permits else None,
        approvals=_approvals(state.notes),
        head=head,
    )


def altered_fields(receipt: RunReceipt, events: Sequence[Event]) -> tuple[str, ...]:
    """Return the fields of a receipt that say something else than the events it stands for.

    Args:
        receipt: The receipt, signed or not.
        events: Of its run, from its first; those that came after the receipt do not count.

    Raises:
        ReceiptError: there is no beginning of the run among the events that it stands for.
    """
    expected = make_receipt(events[: receipt.head.events], receipt.head)
    said, meant = receipt.model_dump(), expected.model_dump()
    return tuple(name for name in said if name != "signature" and said[name] != meant[name])


def read_receipt(content: bytes, place: str) -> RunReceipt:
    """Return the receipt that a file holds.

    Raises:
        ReceiptError: it is none, or one of another version.
    """
    try:
        return RunReceipt.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise ReceiptError(
            f"{place} is no receipt of this version: {where}: {first['msg']}"
        ) from error


def sign_receipt(receipt: RunReceipt, private_key: Path) -> RunReceipt:
    """Return the receipt with a signature.

    Args:
        receipt: The receipt.
        private_key: An Ed25519 key in PEM, as `openssl genpkey -algorithm ed25519` makes it.

    Raises:
        ReceiptError: the key cannot be used.
    """
    key = _read_private_key(private_key)
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
    from cryptography.exceptions import InvalidSignature

    signature, public_key = receipt.signature, _read_public_key(key)
    if signature is None:
        return "unsigned"
    if signature.key != _fingerprint(public_key):
        return "other_key"
    try:
        public_key.verify(base64.b64decode(signature.value, validate=True), receipt.signed_bytes)
    except (InvalidSignature, ValueError):
        return "invalid"
    return "valid"


def _steps_of(plan: JsonObject) -> list[JsonObject]:
    steps = plan.get("steps")
    return [as_object(step) for step in steps] if isinstance(steps, list) else []


def _approvals(notes: Sequence[Noted]) -> tuple[ReceiptApproval, ...]:
    """Return the approvals that were used; who gave one may stand in a note before it."""
    given_by = Identity("")
    approvals = list[ReceiptApproval]()
    for note in notes:
        if note.topic == APPROVAL_GIVEN:
            given_by = _answered_by(note)
        if note.topic != APPROVAL_USED:
            continue
        needs = note.body.get("needs")
        # The answer of a daemon's job stands in the note of its use.
        by = _answered_by(note) if "by" in note.body else given_by
        approvals.append(
            ReceiptApproval(
                at=iso_of_epoch(note.at),
                subject="patch" if note.body.get("subject") == "patch" else "step",
                approved=note.body.get("approved") is True,
                by=by.name,
                proof=by.proof,
                needs=tuple(map(str, needs)) if isinstance(needs, list) else (),
                tool=str(note.body.get("tool", "")),
                binding=dict(as_object(note.body.get("binding"))),
            )
        )
        given_by = Identity("")
    return tuple(approvals)


def _answered_by(note: Noted) -> Identity:
    return Identity.parse(str(note.body.get("by", "")), note.body.get("proof"))


def _read_private_key(path: Path) -> Ed25519PrivateKey:
    _require_extra()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(_read_key(path), password=None)
    except (ValueError, TypeError) as error:
        raise _key_error(path, "it is no private key in PEM without a password") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _key_error(path, "it is no Ed25519 key")
    return key


def _read_public_key(path: Path) -> Ed25519PublicKey:
    _require_extra()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    content = _read_key(path)
    if b"PRIVATE KEY" in content:
        return _read_private_key(path).public_key()
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


def _require_extra() -> None:
    if not is_installed(EXTRA):
        raise ReceiptError(
            "signatures need the extra `receipts`, which is not installed", install_hint(EXTRA)
        )
