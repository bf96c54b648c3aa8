"""Questions and approvals in the journal of a run: what they are bound to, when they expire, and how
their answers are found.

The approval of a step is *bound* to its run, the hash of the whole plan, the step and the hash of
the resolved parameters of its calls; that of a patch to the hash of each step to approve. Both are
bound to a *nonce* of the question. An answer to anything else, a late answer or one that was used
before is ignored, and the run asks again. See "Asked" in docs/explanation/semantics.md.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal, Self

from wavewright.config.identities import Identity
from wavewright.engine.run.ports import Approval
from wavewright.executor import Noted, RunState
from wavewright.executor.run.ports import PersonReply, ReadyCalls
from wavewright.planner import (
    Goal,
    Json,
    JsonObject,
    Plan,
    RunId,
    StepId,
    as_list,
    content_hash,
    plan_hash,
)

APPROVE: Final = "approve"
REFUSE: Final = "refuse"
APPROVAL_SECONDS: Final = 86_400.0
"""Seconds after which a question for an approval expires and is asked again."""

APPROVAL_WANTED: Final = "approval_wanted"
"""Topic of the note that a run waits for an approval."""
APPROVAL_GIVEN: Final = "approval_given"
"""Topic of the note of a person's answer, for a run without a daemon."""
APPROVAL_USED: Final = "approval"
"""Topic of the note that a run uses the answer."""

QUESTION: Final = "question"
"""Topic of the note that a run waits for the answer to a question."""
ANSWER: Final = "answer"
"""Topic of the note of the answer to a question, which the run uses."""

_NONCE_FIELD: Final = "nonce"


def approval_question(request: Noted) -> tuple[Literal["step", "patch"], str]:
    """Return whether a step or a patch needs approval, and the question."""
    reasons = "; ".join(map(str, as_list(request.body.get("needs"))))
    subject: Literal["step", "patch"] = (
        "patch" if request.body.get("subject") == "patch" else "step"
    )
    return subject, f"May this {subject} go ahead? {reasons}".rstrip()


def approval_binding(run: RunId, plan: Plan, asked: Collection[StepId]) -> JsonObject:
    """Return what an approval of these steps is bound to."""
    steps: JsonObject = {
        step: content_hash(plan.step(step).model_dump(mode="json", by_alias=True)) for step in asked
    }
    return {"run": run, "plan_hash": plan_hash(plan), "steps": steps}


def with_nonce(binding: JsonObject) -> JsonObject:
    """Return a binding with a new nonce."""
    return {**binding, _NONCE_FIELD: secrets.token_hex(16)}


def matches_binding(noted: Json, binding: JsonObject) -> bool:
    """Whether the binding of a note is this one, but for the nonce."""
    return isinstance(noted, dict) and without_nonce(noted) == without_nonce(binding)


def step_binding(state: RunState, ready: ReadyCalls) -> JsonObject:
    """Return what a reply about a ready step is bound to."""
    return {
        "run": state.run,
        "plan_hash": state.plan_hash,
        "step": ready.step.id,
        "params": content_hash([*ready.calls]),
    }


def answers_to_planner(state: RunState) -> list[JsonObject]:
    """Return the answers to the planner's questions, each with its question: those of a step are bound
    to its call, and one about targets names the target that leads to others.
    """
    return [
        noted.body
        for noted in state.notes
        if noted.topic == ANSWER and not {"binding", "target"} & noted.body.keys()
    ]


def goal_with_answers(goal: Goal, state: RunState) -> Goal:
    """Return the goal of a run with what a person answered to its planner."""
    answers = (str(body["answer"]) for body in answers_to_planner(state))
    return goal.model_copy(update={"answers": (*goal.answers, *answers)})


def open_question(state: RunState) -> Noted | None:
    """Return the run's one open question or request for an approval; None where there is none, or
    the run has used its answer.
    """
    for noted in reversed(state.notes):
        # An answer is journaled after its question: where that is the last, nothing is open.
        if noted.topic in {ANSWER, APPROVAL_USED}:
            return None
        if noted.topic in {QUESTION, APPROVAL_WANTED}:
            return noted
    return None


def asked_questions(state: RunState) -> list[Noted]:
    """Return all questions and requests for approval that a run has asked, in order."""
    return [noted for noted in state.notes if noted.topic in {QUESTION, APPROVAL_WANTED}]


def asking_step(asked: Noted) -> str:
    """Return the step that asks; else `patch`, `planner` or `job`."""
    binding = asked.body.get("binding")
    if isinstance(binding, dict) and isinstance(binding.get("step"), str):
        return str(binding["step"])
    if asked.topic == APPROVAL_WANTED:
        return "patch"
    return "job" if "target" in asked.body else "planner"


def question_id(state: RunState, asked: Noted) -> str:
    """Return the id of one asking: of the run, the step, which of its questions this is, and the
    hash of all that is asked.

    An answer names it, so that what a person has read is what is answered: a run goes on from one
    question to the next under one id of its own.
    """
    number = asked_questions(state).index(asked) + 1
    digest = content_hash(asked.body)[-_HASH_CHARACTERS:]
    return f"{state.run}:{asking_step(asked)}:{number}:{digest}"


_HASH_CHARACTERS: Final = 8


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """What a person, or whoever answers in their place, has answered."""

    text: str
    """`APPROVE` or `REFUSE` for an approval."""
    reason: str = ""
    """Why it is refused, where that is not a person's word."""
    by: str = ""
    """Who has answered, where that is known."""

    @classmethod
    def of_approval(cls, approval: Approval) -> Self:
        """Return it as an approver gives it."""
        return cls(APPROVE if approval.approved else REFUSE, approval.reason, approval.by)

    @property
    def is_approval(self) -> bool:
        """Whether it approves what was asked; whatever is not plainly a yes is a no."""
        return self.text == APPROVE

    def reply(self, ready: ReadyCalls) -> PersonReply:
        """Return it as the reply about a ready step."""
        is_refused = ready.asks == "approval" and not self.is_approval
        return PersonReply(self.text, is_refused, self.reason if is_refused else "")


def answer_to_binding(state: RunState, binding: JsonObject) -> GivenAnswer | None:
    """Return the journaled answer that is bound to this; None where there is none."""
    # What a person has said to the same calls of the same plan stands: nobody is asked twice.
    for noted in reversed(state.notes):
        if noted.topic not in {ANSWER, APPROVAL_USED}:
            continue
        if not matches_binding(noted.body.get("binding"), binding):
            continue
        if noted.topic == ANSWER:
            return GivenAnswer(str(noted.body["answer"]))
        if noted.body.get("approved") is True:
            return GivenAnswer(APPROVE)
        return GivenAnswer(REFUSE, str(noted.body.get("reason", "")))
    return None


def used_answer(asked: JsonObject, answer: GivenAnswer) -> JsonObject:
    """Return the body of the note that a run uses the answer to a request for an approval."""
    body: JsonObject = {**asked, "approved": answer.is_approval}
    if answer.reason:
        body["reason"] = answer.reason
    if answer.by:
        body["by"] = answer.by
    return body


def has_expired(request: Noted, now: float) -> bool:
    """Whether a question for an approval has expired."""
    return now >= request.at + APPROVAL_SECONDS


def recorded_answer(state: RunState, request: Noted) -> GivenAnswer | None:
    """Return the answer to a request for an approval from the run's journal; None where there is
    none.
    """
    nonce = nonce_of(request)
    if not nonce:
        return None
    for noted in reversed(state.notes):
        # Another asking of the same question has another nonce: its answer is not this one's.
        if noted.topic != APPROVAL_GIVEN or noted.body.get(_NONCE_FIELD) != nonce:
            continue
        # Whatever is not plainly a yes is a no.
        choice = APPROVE if noted.body.get("choice") == APPROVE else REFUSE
        return GivenAnswer(choice, by=str(noted.body.get("by", "")))
    return None


def approval_answer_note(request: Noted, choice: str, by: str) -> JsonObject:
    """Return the body of the note of a person's answer."""
    return {_NONCE_FIELD: nonce_of(request), "choice": choice, **Identity.parse(by).fields}


def nonce_of(request: Noted) -> str:
    """Return the nonce of a question."""
    binding = request.body.get("binding")
    nonce = binding.get(_NONCE_FIELD) if isinstance(binding, dict) else None
    return nonce if isinstance(nonce, str) else ""


def without_nonce(binding: JsonObject) -> JsonObject:
    """Return a binding without its nonce."""
    return {name: value for name, value in binding.items() if name != _NONCE_FIELD}
