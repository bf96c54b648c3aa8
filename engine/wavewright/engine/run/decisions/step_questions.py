"""What a run asks people while it goes on: to approve the calls of a ready step, or the question of
`ask_person`.

A run has one open question at a time: a step that becomes ready while another waits for its answer
waits too, and asks when that is there. A question without an immediate answer is journaled; an
answer that comes while other steps run is taken at once, and the run is interrupted when nothing
else is left to do. An answer is journaled, with what it is bound to, before the step acts on it, so
a run that was killed in between does not ask again. See "Asked" and "Answered meanwhile" in
docs/explanation/semantics.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import anyio

from wavewright.config.redaction import Redactor
from wavewright.engine.run.context import PlannedContext
from wavewright.engine.run.decisions.approvals import (
    ANSWER,
    APPROVAL_USED,
    APPROVAL_WANTED,
    QUESTION,
    GivenAnswer,
    answer_to_binding,
    has_expired,
    matches_binding,
    nonce_of,
    open_question,
    recorded_answer,
    step_binding,
    used_answer,
    with_nonce,
    without_nonce,
)
from wavewright.engine.run.decisions.shown_calls import (
    calls_shown_before,
    describe_ready_calls,
)
from wavewright.engine.run.ports import (
    ApprovalRequest,
    Attempt,
    People,
    RequestedCall,
    ask_approver,
    ask_asker,
)
from wavewright.engine.run.recording import record
from wavewright.executor import JournalError, Noted, RunState
from wavewright.executor.run.ports import PersonReply, ReadyCalls
from wavewright.planner import JsonObject, StepId, UserQuestion, as_list, as_object
from wavewright.planner.diagnostics.rendering import printable
from wavewright.planner.language.json_values import map_texts


@dataclass(slots=True)
class StepQuestions:
    """Asks people about the ready steps of one execution."""

    attempt: Attempt
    people: People
    state: RunState
    """The state of the run before the execution."""
    redactor: Redactor
    waiting: set[StepId] = field(default_factory=set[StepId])
    """Steps that wait for an answer."""
    _open: Noted | None = field(init=False)
    """The question that has no answer yet."""
    _asking: anyio.Lock = field(init=False, default_factory=anyio.Lock)

    def __post_init__(self) -> None:
        self._open = _open_step_question(self.attempt, self.state)

    async def ask(self, ready: ReadyCalls) -> PersonReply:
        """Ask about a step, unless it was answered before, or another question is open."""
        binding = step_binding(self.state, ready)
        # An answer that was journaled before a crash is used, and nobody is asked twice.
        known = answer_to_binding(self.state, binding)
        if known is not None:
            return known.reply(ready)
        async with self._asking:
            look_again: Callable[[], Awaitable[PersonReply | None]] | None = None
            if self.people.find_answer is not None:
                look_again = partial(self._look_again, ready)
            if self._must_wait(binding):
                self.waiting.add(ready.step.id)
                return PersonReply(None, look_again=look_again)
            body: JsonObject = {
                **_question_body(ready, self.redactor, calls_shown_before(self.state, ready.step)),
                "binding": binding,
            }
            answer = await _ask_people(self.people, body)
            if answer is None and not self.people.can_ask and isinstance(body.get("default"), str):
                # Nobody can be asked here: the question says what holds then.
                answer = GivenAnswer(str(body["default"]))
            if answer is not None:
                return replace(answer.reply(ready), note=_answer_note(self.attempt, body, answer))
            topic = QUESTION if ready.asks == "question" else APPROVAL_WANTED
            self.waiting.add(ready.step.id)
            self._open = Noted(self.attempt.now(), topic, {**body, "binding": with_nonce(binding)})
            return PersonReply(None, note=self._open, look_again=look_again)

    def _must_wait(self, binding: JsonObject) -> bool:
        """Whether the open question is this one, that of another step, or that of another item of
        the step.
        """
        waiting = None if self._open is None else self._open.body.get("binding")
        if not isinstance(waiting, dict):
            return False
        if matches_binding(waiting, binding):
            return True
        # The open question is about this step, and about other calls than it makes now: it is asked
        # anew, unless it is another item of the step that waits.
        is_about_step = waiting.get("step") == binding["step"]
        return not is_about_step or binding["step"] in self.waiting

    async def _look_again(self, ready: ReadyCalls) -> PersonReply | None:
        """Return the answer that has come to the question about a step; where another question was
        open and is not any more, ask this one.
        """
        binding = step_binding(self.state, ready)
        question = self._open
        if question is None:
            self.waiting.discard(ready.step.id)
            return await self.ask(ready)
        if not matches_binding(question.body.get("binding"), binding):
            return None
        try:
            answer = await _left_answer(self.people, self.state, question)
        except JournalError:
            # It is asked again in a moment; what else runs does not end because of it.
            return None
        if answer is None:
            return None
        self._open = None
        self.waiting.discard(ready.step.id)
        body: JsonObject = {**question.body, "binding": binding}
        return replace(answer.reply(ready), note=_answer_note(self.attempt, body, answer))


async def take_answer(attempt: Attempt, people: People, context: PlannedContext) -> PlannedContext:
    """Journal the answer to the run's open question about a step, where there is one by now."""
    question = _open_step_question(attempt, context.state)
    if question is None:
        return context
    binding = question.body["binding"]
    assert isinstance(binding, dict)
    body: JsonObject = {**question.body, "binding": without_nonce(binding)}
    answer = recorded_answer(context.state, question)
    # It may also have been left while the run went on, and did not come to take it.
    answer = answer or await _left_answer(people, context.state, question)
    answer = answer or await _ask_people(people, body)
    if answer is None:
        return context
    return await record(attempt, context, _answer_note(attempt, body, answer))


async def _left_answer(people: People, state: RunState, question: Noted) -> GivenAnswer | None:
    """Return the answer that somebody has left from elsewhere while the run goes on.

    Raises:
        JournalError: the journal cannot be read.
    """
    if people.find_answer is None:
        return None
    assert state.run is not None
    left = await people.find_answer(state.run, nonce_of(question))
    return None if left is None else GivenAnswer(left.choice, by=left.by)


def _open_step_question(attempt: Attempt, state: RunState) -> Noted | None:
    """Return the open question about a step of the current plan; None where it has expired."""
    question = open_question(state)
    if question is None:
        return None
    binding = question.body.get("binding")
    # The planner's question is about no step, nor is that about a patch.
    if not isinstance(binding, dict) or "step" not in binding:
        return None
    # A patch has come since: the step may be another one now.
    if (binding.get("run"), binding.get("plan_hash")) != (state.run, state.plan_hash):
        return None
    if question.topic == APPROVAL_WANTED and has_expired(question, attempt.now()):
        return None
    return question


def _question_body(
    ready: ReadyCalls, redactor: Redactor, earlier: Sequence[JsonObject] | None
) -> JsonObject:
    if ready.asks == "approval":
        need = f"step {ready.step.id!r} calls {ready.step.tool!r}, which needs approval"
        text = "\n".join(map(printable, describe_ready_calls(ready, redactor, earlier)))
        redact = redactor.redact_known
        shown = [map_texts(dict(params), redact, redact) for params in ready.calls]
        return {
            "subject": "step",
            "needs": [need],
            "text": text,
            "tool": ready.step.tool,
            "calls": shown,
        }
    [params] = ready.calls
    return {
        # Unlike a parameter it is sent nowhere: what looks like a secret is taken out.
        "question": redactor.redact(str(params.get("question"))),
        "options": params.get("options") or [],
        "default": params.get("default"),
        "step": ready.step.id,
    }


async def _ask_people(people: People, body: JsonObject) -> GivenAnswer | None:
    """Return a person's answer; None where there is none.

    Raises:
        AnswerUnusable: a function has answered with what is no text.
    """
    if "question" in body:
        answer = await ask_asker(people.asker, _user_question(body))
        return None if answer is None else GivenAnswer(answer)
    approval = await ask_approver(people.approver, _approval_request(body))
    return None if approval is None else GivenAnswer.of_approval(approval)


def _user_question(body: JsonObject) -> UserQuestion:
    default, step = body.get("default"), str(body.get("step"))
    return UserQuestion(
        str(body["question"]),
        tuple(map(str, as_list(body.get("options")))),
        default=default if isinstance(default, str) else None,
        asked_by=f"step {step!r}",
        step=step,
    )


def _approval_request(body: JsonObject) -> ApprovalRequest:
    binding = as_object(body.get("binding"))
    step, tool = StepId(str(binding.get("step"))), str(body.get("tool", ""))
    calls = [RequestedCall(step, tool, as_object(params)) for params in as_list(body.get("calls"))]
    needs = tuple(map(str, as_list(body.get("needs"))))
    return ApprovalRequest("step", str(body.get("text", "")), needs, binding, tuple(calls))


def _answer_note(attempt: Attempt, body: JsonObject, answer: GivenAnswer) -> Noted:
    if "question" in body:
        kept = {name: body[name] for name in ("question", "options", "binding")}
        return Noted(attempt.now(), ANSWER, {**kept, "answer": answer.text})
    kept = {
        name: body[name]
        for name in ("subject", "needs", "binding", "tool", "calls")
        if name in body
    }
    return Noted(attempt.now(), APPROVAL_USED, used_answer(kept, answer))
