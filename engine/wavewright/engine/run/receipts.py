"""The receipt of a run: what ran and who agreed, on one page that can be signed.

A receipt names the plans by their hashes, the tools with their versions and code, each approval
with who gave it and for what, and the head of the journal, which stands for every event. It is
made from the journal, and checked without it: the signature (`signatures`) is over the receipt's
canonical JSON, so whoever has the public key can check it and nobody else can make one. With the journal at
hand its head is compared as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from pydantic import JsonValue, ValidationError

from wavewright.config import WavewrightError, exit_codes
from wavewright.config.identities import Identity
from wavewright.config.redaction import Redactor
from wavewright.engine.run.decisions.approvals import APPROVAL_GIVEN, APPROVAL_USED
from wavewright.executor import Event, Noted, fold
from wavewright.executor.store.journal import RunHead
from wavewright.planner import JsonObject, as_list, as_object, canonical_json
from wavewright.reviewer.cost_records import Record
from wavewright.reviewer.values import iso_of_epoch

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
    receipt = RunReceipt(
        run=started.run,
        job=started.job,
        status="running" if state.finished is None else state.finished.status,
        plans=tuple(plan.plan_hash for plan in state.plans),
        tools=tools,
        permits=dict(permits[-1]) if permits else None,
        approvals=_approvals(state.notes),
        head=head,
    )
    # Permits hold literals of the plan, and a receipt is handed out. What a setting makes a secret is
    # not asked: a receipt is compared with the journal anywhere.
    return RunReceipt.model_validate(
        Redactor().redact_json(receipt.model_dump(mode="json"), keep_numbers=True)
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
    values, expected_values = receipt.model_dump(), expected.model_dump()
    return tuple(
        name for name in values if name != "signature" and values[name] != expected_values[name]
    )


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


def _steps_of(plan: JsonObject) -> list[JsonObject]:
    return [as_object(step) for step in as_list(plan.get("steps"))]


def _approvals(notes: Sequence[Noted]) -> tuple[ReceiptApproval, ...]:
    """Return the approvals that were used; who gave one may stand in a note before it."""
    given_by = Identity("")
    approvals = list[ReceiptApproval]()
    for note in notes:
        if note.topic == APPROVAL_GIVEN:
            given_by = _answered_by(note)
        if note.topic != APPROVAL_USED:
            continue
        # The answer of a daemon's job stands in the note of its use.
        by = _answered_by(note) if "by" in note.body else given_by
        approvals.append(
            ReceiptApproval(
                at=iso_of_epoch(note.at),
                subject="patch" if note.body.get("subject") == "patch" else "step",
                approved=note.body.get("approved") is True,
                by=by.name,
                proof=by.proof,
                needs=tuple(map(str, as_list(note.body.get("needs")))),
                tool=str(note.body.get("tool", "")),
                binding=dict(as_object(note.body.get("binding"))),
            )
        )
        given_by = Identity("")
    return tuple(approvals)


def _answered_by(note: Noted) -> Identity:
    return Identity.parse(str(note.body.get("by", "")), note.body.get("proof"))
