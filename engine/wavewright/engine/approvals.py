"""Approvals: what a person's word is for, how long it may be given, and how often it counts.

An approval is *bound*: to its run, the hash of the whole plan, each step that is asked for with the hash of its
parameters, and a *nonce* that was made when it was asked. A word that was given for anything else, that comes too late
or that was taken before is no word, and the run asks again.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from typing import Final, Literal

from wavewright.executor.events import Noted
from wavewright.executor.state import RunState
from wavewright.planner.hashing import content_hash, plan_hash
from wavewright.planner.models import Plan
from wavewright.planner.types import Json, JsonObject, RunId, StepId

APPROVE: Final = "approve"
REFUSE: Final = "refuse"
APPROVAL_SECONDS: Final = 86_400.0
"""How long a question for an approval may be answered; it is asked anew after that."""

APPROVAL_WANTED: Final = "approval_wanted"
"""Topic of the note that a run waits for a person's word."""
APPROVAL_GIVEN: Final = "approval_given"
"""Topic of the note that a person has given it, for a run that no daemon works on."""
APPROVAL_USED: Final = "approval"
"""Topic of the note that a run acts on a word."""

_NONCE_FIELD: Final = "nonce"


def approval_question(wanted: Noted) -> tuple[Literal["plan", "patch"], str]:
    """Return what a person's word is wanted for, and the question that asks for it."""
    needs = wanted.body.get("needs")
    reasons = "; ".join(map(str, needs)) if isinstance(needs, list) else ""
    subject: Literal["plan", "patch"] = "patch" if wanted.body.get("subject") == "patch" else "plan"
    return subject, f"May this {subject} go ahead? {reasons}".rstrip()


def approval_binding(run: RunId, plan: Plan, asked: Collection[StepId]) -> JsonObject:
    """Return what a word would be for."""
    steps: JsonObject = {
        step: content_hash(plan.step(step).model_dump(mode="json", by_alias=True)) for step in asked
    }
    return {"run": run, "plan_hash": plan_hash(plan), "steps": steps}


def with_nonce(binding: JsonObject) -> JsonObject:
    """Return a binding that no other question has."""
    return {**binding, _NONCE_FIELD: secrets.token_hex(16)}


def matches_binding(given: Json, wanted: JsonObject) -> bool:
    """Whether a binding is for the same thing, whenever it was asked."""
    return isinstance(given, dict) and _without_nonce(given) == _without_nonce(wanted)


def pending_approval(state: RunState) -> Noted | None:
    """Return the question for an approval that a run waits with; none where its word was taken."""
    last = next(
        (noted for noted in reversed(state.notes) if noted.topic in {APPROVAL_WANTED, APPROVAL_USED}), None
    )
    return last if last is not None and last.topic == APPROVAL_WANTED else None


def has_expired(wanted: Noted, now: float) -> bool:
    """Whether nobody may answer any more."""
    return now >= wanted.at + APPROVAL_SECONDS


def recorded_answer(state: RunState, wanted: Noted) -> bool | None:
    """Return the word that was given for a question of this run, as its journal has it; none where there is none."""
    nonce = nonce_of(wanted)
    for noted in reversed(state.notes):
        if noted.topic == APPROVAL_GIVEN and nonce and noted.body.get(_NONCE_FIELD) == nonce:
            return noted.body.get("choice") == APPROVE
    return None


def approval_answer_note(wanted: Noted, choice: str, by: str) -> JsonObject:
    """Return what the note of a person's word says."""
    return {_NONCE_FIELD: nonce_of(wanted), "choice": choice, "by": by}


def nonce_of(wanted: Noted) -> str:
    """Return what tells a question from every other."""
    binding = wanted.body.get("binding")
    nonce = binding.get(_NONCE_FIELD) if isinstance(binding, dict) else None
    return nonce if isinstance(nonce, str) else ""


def _without_nonce(binding: JsonObject) -> JsonObject:
    return {name: value for name, value in binding.items() if name != _NONCE_FIELD}
