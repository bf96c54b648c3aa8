"""What a run that waits for a person asks, as a decision.

A run is *parked* when it has asked and nobody has answered: it holds no slot and no message, and waits without a time
limit. The decision's id is made of the job and of all that the answer would be for, so the same question is one
decision however often it is asked, and an answer fits no other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wavewright.engine.approvals import APPROVAL_SECONDS, APPROVE, REFUSE, approval_question
from wavewright.engine.messages.ids import decision_id
from wavewright.executor.events import Noted
from wavewright.executor.job_store.records import Decision, DecisionId, JobRow
from wavewright.planner.hashing import content_hash
from wavewright.planner.types import JsonObject

MAX_QUESTION_LENGTH: Final = 4_000


def requested_decision(job: JobRow, asked: Noted, target: str | None = None) -> Decision:
    """Return the decision that a run's note asks for: a planner's question, or an approval.

    `target` is the one whose run asks, where the job has several.
    """
    decision = _question_decision(job, asked) if asked.topic == "question" else _approval_decision(job, asked)
    if target is None:
        return decision
    about = f"about the target {target}"
    return replace(decision, context=f"{about}\n{decision.context}" if decision.context else about)


def answered_decision(wanted: Decision | None, answer: Noted) -> DecisionId | None:
    """Return the decision that a run's note has taken the answer of; none where it was answered otherwise."""
    if wanted is None:
        return None
    is_question = wanted.subject == "question"
    return wanted.id if is_question == (answer.topic == "answer") else None


def _question_decision(job: JobRow, asked: Noted) -> Decision:
    question = str(asked.body["question"])
    options = asked.body.get("options")
    return Decision(
        id=decision_id(job.job, "question", job.run, question, repr(asked.at)),
        job=job.job,
        run=job.run,
        subject="question",
        question=question[:MAX_QUESTION_LENGTH],
        options=tuple(map(str, options)) if isinstance(options, list) else (),
        asked=asked.at,
    )


def _approval_decision(job: JobRow, asked: Noted) -> Decision:
    body = asked.body
    subject, question = approval_question(asked)
    given = body.get("binding")
    binding: JsonObject = given if isinstance(given, dict) else {}
    return Decision(
        id=decision_id(job.job, "approval", content_hash(binding), repr(asked.at)),
        job=job.job,
        run=job.run,
        subject=subject,
        question=question[:MAX_QUESTION_LENGTH],
        options=(APPROVE, REFUSE),
        context=str(body.get("text", "")),
        binding=binding,
        asked=asked.at,
        expires=asked.at + APPROVAL_SECONDS,
    )
