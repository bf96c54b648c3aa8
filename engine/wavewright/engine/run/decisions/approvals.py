"""Approvals: what they are bound to, when they expire, the calls to approve, and what is asked
about ready steps.

The approval of a step is *bound* to its run, the hash of the whole plan, the step and the hash of
the resolved parameters of its calls; that of a patch to the hash of each step to approve. Both are
bound to a *nonce* of the question. An answer to anything else, a late answer or one that was used
before is ignored, and the run asks again.

A step that is ready is shown with the resolved parameters of each call, as they will be sent, and
all of them: what looks like a secret may be the address of somebody else, and what is cut off may
be the worst of it. Only the project's own keys are redacted. What has changed since the last
question about the step is marked. A patch is shown with parameters as far as they are known: what
depends on a step that has not finished is shown as written, with the step's name.

People are asked to approve the calls of a ready step, or the question of `ask_person`. A run has
one open question at a time: a step that becomes ready while another waits for its answer waits too,
and asks when that is there. A question without an immediate answer is journaled; an answer that
comes while other steps run is taken at once, and the run is interrupted when nothing else is left
to do. An answer is journaled, with what it is bound to,
before the step acts on it, so a run that was killed in between does not ask again.
"""

from __future__ import annotations

import datetime as dt
import json
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal

import anyio

from wavewright.config.identities import Identity
from wavewright.config.redaction import Redactor
from wavewright.engine.run.context import PlannedContext
from wavewright.engine.run.ports import (
    ApprovalRequest,
    Attempt,
    People,
    RequestedCall,
    ask_approver,
    ask_asker,
)
from wavewright.engine.run.recording import record
from wavewright.executor.events.state import RunState
from wavewright.executor.events.types import Noted
from wavewright.executor.run.ports import PersonReply, ReadyCalls
from wavewright.executor.store.errors import JournalError
from wavewright.planner.cel.embedded import reads
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.diagnostics.rendering import printable
from wavewright.planner.language.hashing import content_hash, plan_hash
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.planning.records import UserQuestion
from wavewright.planner.plans.expressions import evaluate, render
from wavewright.planner.types import Json, JsonObject, RunId, StepId, as_object
from wavewright.reviewer.review.results import plan_scope, superseded_steps

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


def approval_question(wanted: Noted) -> tuple[Literal["step", "patch"], str]:
    """Return whether a step or a patch needs approval, and the question."""
    needs = wanted.body.get("needs")
    reasons = "; ".join(map(str, needs)) if isinstance(needs, list) else ""
    subject: Literal["step", "patch"] = "patch" if wanted.body.get("subject") == "patch" else "step"
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


def matches_binding(given: Json, wanted: JsonObject) -> bool:
    """Whether two bindings are equal but for the nonce."""
    return isinstance(given, dict) and without_nonce(given) == without_nonce(wanted)


def step_binding(state: RunState, ready: ReadyCalls) -> JsonObject:
    """Return what a reply about a ready step is bound to."""
    return {
        "run": state.run,
        "plan_hash": state.plan_hash,
        "step": ready.step.id,
        "params": content_hash([*ready.calls]),
    }


def pending_approval(state: RunState) -> Noted | None:
    """Return the run's open question for an approval; None where its answer was used or there is
    none.
    """
    last = next(
        (
            noted
            for noted in reversed(state.notes)
            if noted.topic in {APPROVAL_WANTED, APPROVAL_USED}
        ),
        None,
    )
    return last if last is not None and last.topic == APPROVAL_WANTED else None


def open_question(state: RunState) -> Noted | None:
    """Return the last question or request for an approval, unless the run has used an answer since."""
    topics = {QUESTION, ANSWER, APPROVAL_WANTED, APPROVAL_USED}
    last = next((noted for noted in reversed(state.notes) if noted.topic in topics), None)
    return last if last is not None and last.topic in {QUESTION, APPROVAL_WANTED} else None


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

    def reply(self, ready: ReadyCalls) -> PersonReply:
        """Return it as the reply about a ready step."""
        is_refused = ready.asks == "approval" and self.text != APPROVE
        return PersonReply(self.text, is_refused, self.reason if is_refused else "")


def answer_to_binding(state: RunState, binding: JsonObject) -> GivenAnswer | None:
    """Return the journaled answer that is bound to this; None where there is none."""
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


def has_expired(wanted: Noted, now: float) -> bool:
    """Whether a question for an approval has expired."""
    return now >= wanted.at + APPROVAL_SECONDS


def recorded_answer(state: RunState, wanted: Noted) -> GivenAnswer | None:
    """Return the answer to a request for an approval from the run's journal; None where there is
    none.
    """
    nonce = nonce_of(wanted)
    for noted in reversed(state.notes):
        if noted.topic == APPROVAL_GIVEN and nonce and noted.body.get(_NONCE_FIELD) == nonce:
            choice = APPROVE if noted.body.get("choice") == APPROVE else REFUSE
            return GivenAnswer(choice, by=str(noted.body.get("by", "")))
    return None


def approval_answer_note(wanted: Noted, choice: str, by: str) -> JsonObject:
    """Return the body of the note of a person's answer."""
    return {_NONCE_FIELD: nonce_of(wanted), "choice": choice, **Identity.parse(by).fields}


def nonce_of(wanted: Noted) -> str:
    """Return the nonce of a question."""
    binding = wanted.body.get("binding")
    nonce = binding.get(_NONCE_FIELD) if isinstance(binding, dict) else None
    return nonce if isinstance(nonce, str) else ""


def without_nonce(binding: JsonObject) -> JsonObject:
    """Return a binding without its nonce."""
    return {name: value for name, value in binding.items() if name != _NONCE_FIELD}


FOLDED_CHARS: Final = 400
"""Characters of a line that a terminal shows before the line is folded."""


def folded_line(line: str) -> str:
    """Return a line as a terminal shows it at first: the middle of a long one with a count in its
    place.
    """
    if len(line) <= FOLDED_CHARS:
        return line
    half = FOLDED_CHARS // 2
    return f"{line[:half]} […{len(line) - FOLDED_CHARS:,} characters more…] {line[-half:]}"


def describe_ready_calls(
    ready: ReadyCalls, redactor: Redactor, earlier: Sequence[JsonObject] | None = None
) -> Iterator[str]:
    """Yield the lines that describe the calls of a ready step with their resolved parameters.

    Args:
        ready: The step and its calls.
        redactor: Knows the project's own keys.
        earlier: The calls that the last question about the step has shown.
    """
    step = ready.step
    times = "with" if step.for_each is None else f"{len(ready.calls):,} times"
    yield f"{step.id} calls {step.tool} {times}{_changed_count(ready, earlier)}"
    for number, params in enumerate(ready.calls, start=1):
        before = None
        if earlier is not None:
            before = earlier[number - 1] if number <= len(earlier) else {}
        if step.for_each is not None:
            yield f"  {number}. with"
        for name, value in params.items():
            mark, was = _difference(name, value, before, redactor)
            yield f"  {mark} {name}: {_shown_value(value, redactor)}{was}"
        for name in before or ():
            if name not in params:
                yield f"  - {name}: no longer given"


def _changed_count(ready: ReadyCalls, earlier: Sequence[JsonObject] | None) -> str:
    if earlier is None or len(earlier) == len(ready.calls):
        return ""
    return f" ({len(earlier):,} when it was asked before)"


def _difference(
    name: str, value: Json, before: JsonObject | None, redactor: Redactor
) -> tuple[str, str]:
    """Return the mark of a parameter that has changed, and what it was before."""
    if before is None or (name in before and before[name] == value):
        return " ", ""
    if name not in before:
        return "+", ""
    return "~", f"  (was {_shown_value(before[name], redactor)})"


def _shown_value(value: Json, redactor: Redactor) -> str:
    return redactor.redact_known(json.dumps(value, ensure_ascii=False))


def calls_shown_before(state: RunState, step: Step) -> tuple[JsonObject, ...] | None:
    """Return the calls that the last question about a step has shown, or about one that it
    supersedes; None where there was none.
    """
    same = {step.id, step.supersedes}
    for noted in reversed(state.notes):
        binding = noted.body.get("binding")
        if noted.topic not in {APPROVAL_WANTED, APPROVAL_USED} or not isinstance(binding, dict):
            continue
        calls = noted.body.get("calls")
        if binding.get("step") in same and isinstance(calls, list):
            return tuple(map(as_object, calls))
    return None


@dataclass(slots=True)
class CallDescriptions:
    """Describes the calls of a plan's steps with the outputs of a run so far."""

    plan: Plan
    state: RunState
    now: dt.datetime
    redactor: Redactor
    _replaced: Mapping[StepId, StepId] = field(init=False)
    _scope: JsonObject = field(init=False)

    def __post_init__(self) -> None:
        self._replaced = superseded_steps(self.plan)
        self._scope = plan_scope(self.plan, self.state)

    def lines(self, step: Step) -> Iterator[str]:
        """Yield the lines that describe a step's calls and their arguments."""
        if step.for_each is None:
            yield f"{step.id} calls {step.tool} with"
            yield from self._arguments(step, self._scope)
            return
        items, awaited = self._resolved(step.for_each, self._scope)
        if awaited or not isinstance(items, list):
            yield f"{step.id} calls {step.tool} for each of {self._shown(step.for_each, self._scope)} with"
            yield from self._arguments(step, self._scope)
            return
        yield f"{step.id} calls {step.tool} {len(items):,} times"
        for index, item in enumerate(items):
            yield f"  {index + 1}. with"
            yield from self._arguments(step, {**self._scope, "item": item, "index": index})

    def requested(self, step: Step) -> Iterator[RequestedCall]:
        """Yield a step's calls with their arguments, as far as these are known."""
        items: Json = None
        if step.for_each is not None:
            items, awaited = self._resolved(step.for_each, self._scope)
            items = None if awaited else items
        if not isinstance(items, list):
            yield self._requested(step, self._scope)
            return
        for index, item in enumerate(items):
            yield self._requested(step, {**self._scope, "item": item, "index": index})

    def _requested(self, step: Step, scope: JsonObject) -> RequestedCall:
        params, awaited = self._resolved(dict(step.params), scope)
        return RequestedCall(step.id, step.tool, as_object(params), tuple(awaited))

    def _arguments(self, step: Step, scope: JsonObject) -> Iterator[str]:
        for name, value in step.params.items():
            yield f"    {name}: {self._shown(value, scope)}"

    def _shown(self, value: Json, scope: JsonObject) -> str:
        """Return a value with known expressions evaluated, followed by what must happen before the
        rest is known.
        """
        found, awaited = self._resolved(value, scope)
        text = _shown_value(found, self.redactor)
        return f"{text}  (known when {' and '.join(awaited)})" if awaited else text

    def _resolved(self, value: Json, scope: JsonObject) -> tuple[Json, list[str]]:
        """Return a value with known expressions evaluated, and what must happen before the others
        are known.
        """
        awaited: list[str] = []

        def known_or_written(expression: str) -> Json:
            try:
                if not (waits := self._unresolved(expression, scope)):
                    return evaluate(expression, scope, self.now)
            except ExpressionError:
                waits = ["it is called"]
            awaited.extend(waits)
            return f"${{{expression}}}"

        try:
            return render(value, known_or_written), list(dict.fromkeys(awaited))
        except ExpressionError:
            return value, ["it is called"]

    def _unresolved(self, expression: str, scope: JsonObject) -> list[str]:
        """Return what must happen before an expression is known; empty where it is known."""
        awaited: list[str] = []
        for read in reads(expression):
            if read.root in {"item", "index"} and read.root not in scope:
                awaited.append("the items are")
            elif read.root == "steps":
                awaited += self._unfinished(read.name)
        return awaited

    def _unfinished(self, name: str | None) -> Iterator[str]:
        if name is None:
            yield "the steps before it have run"
            return
        step = self._replaced.get(StepId(name), StepId(name))
        if step not in self.state.steps:
            yield f"step {step!r} has run"


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
        given = answer_to_binding(self.state, binding)
        if given is not None:
            return given.reply(ready)
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
        asked = None if self._open is None else self._open.body.get("binding")
        return isinstance(asked, dict) and (
            matches_binding(asked, binding)
            or asked.get("step") != binding["step"]
            or binding["step"] in self.waiting
        )

    async def _look_again(self, ready: ReadyCalls) -> PersonReply | None:
        """Return the answer that has come to the question about a step; where another question was
        open and is not any more, ask this one.
        """
        binding = step_binding(self.state, ready)
        asked = self._open
        if asked is None:
            self.waiting.discard(ready.step.id)
            return await self.ask(ready)
        if not matches_binding(asked.body.get("binding"), binding):
            return None
        assert self.people.find_answer is not None
        assert self.state.run is not None
        try:
            left = await self.people.find_answer(self.state.run, nonce_of(asked))
        except JournalError:
            # It is asked again in a moment; what else runs does not end because of it.
            return None
        if left is None:
            return None
        self._open = None
        self.waiting.discard(ready.step.id)
        answer = GivenAnswer(left.choice, by=left.by)
        body: JsonObject = {**asked.body, "binding": binding}
        return replace(answer.reply(ready), note=_answer_note(self.attempt, body, answer))


async def take_answer(attempt: Attempt, people: People, context: PlannedContext) -> PlannedContext:
    """Journal the answer to the run's open question about a step, where there is one by now."""
    asked = _open_step_question(attempt, context.state)
    if asked is None:
        return context
    binding = asked.body["binding"]
    assert isinstance(binding, dict)
    body: JsonObject = {**asked.body, "binding": without_nonce(binding)}
    answer = recorded_answer(context.state, asked) or await _left_answer(people, context, asked)
    answer = answer or await _ask_people(people, body)
    if answer is None:
        return context
    return await record(attempt, context, _answer_note(attempt, body, answer))


async def _left_answer(people: People, context: PlannedContext, asked: Noted) -> GivenAnswer | None:
    """Return the answer that was left while the run went on, and that it did not come to take."""
    if people.find_answer is None:
        return None
    left = await people.find_answer(context.run, nonce_of(asked))
    return None if left is None else GivenAnswer(left.choice, by=left.by)


def _open_step_question(attempt: Attempt, state: RunState) -> Noted | None:
    """Return the open question about a step of the current plan; None where it has expired."""
    asked = open_question(state)
    binding = None if asked is None else asked.body.get("binding")
    if asked is None or not isinstance(binding, dict) or "step" not in binding:
        return None
    if (binding.get("run"), binding.get("plan_hash")) != (state.run, state.plan_hash):
        return None
    return None if asked.topic == APPROVAL_WANTED and has_expired(asked, attempt.now()) else asked


def _question_body(
    ready: ReadyCalls, redactor: Redactor, earlier: Sequence[JsonObject] | None
) -> JsonObject:
    if ready.asks == "approval":
        need = f"step {ready.step.id!r} calls {ready.step.tool!r}, which needs approval"
        text = "\n".join(map(printable, describe_ready_calls(ready, redactor, earlier)))
        shown = [_without_keys(dict(params), redactor) for params in ready.calls]
        return {
            "subject": "step",
            "needs": [need],
            "text": text,
            "tool": ready.step.tool,
            "calls": shown,
        }
    [params] = ready.calls
    question, options = redactor.redact(str(params.get("question"))), params.get("options") or []
    return {
        "question": question,
        "options": options,
        "default": params.get("default"),
        "step": ready.step.id,
    }


def _without_keys(value: Json, redactor: Redactor) -> Json:
    """Return a value without the project's own keys."""
    match value:
        case str():
            return redactor.redact_known(value)
        case list():
            return [_without_keys(part, redactor) for part in value]
        case dict():
            return {
                redactor.redact_known(name): _without_keys(part, redactor)
                for name, part in value.items()
            }
        case _:
            return value


async def _ask_people(people: People, body: JsonObject) -> GivenAnswer | None:
    """Return a person's answer; None where there is none.

    Raises:
        AnswerUnusable: a function has answered with what is no text.
    """
    if "question" in body:
        default, step = body.get("default"), str(body.get("step"))
        question = UserQuestion(
            str(body["question"]),
            tuple(_texts(body.get("options"))),
            default=default if isinstance(default, str) else None,
            asked_by=f"step {step!r}",
            step=step,
        )
        answer = await ask_asker(people.asker, question)
        return None if answer is None else GivenAnswer(answer)
    binding, calls = as_object(body.get("binding")), body.get("calls")
    step, tool = StepId(str(binding.get("step"))), str(body.get("tool", ""))
    request = ApprovalRequest(
        "step",
        str(body.get("text", "")),
        tuple(_texts(body.get("needs"))),
        binding,
        tuple(
            RequestedCall(step, tool, as_object(params))
            for params in (calls if isinstance(calls, list) else ())
        ),
    )
    approval = await ask_approver(people.approver, request)
    if approval is None:
        return None
    return GivenAnswer(APPROVE if approval.approved else REFUSE, approval.reason, approval.by)


def _answer_note(attempt: Attempt, body: JsonObject, answer: GivenAnswer) -> Noted:
    if "question" in body:
        kept = {name: body[name] for name in ("question", "options", "binding")}
        return Noted(attempt.now(), ANSWER, {**kept, "answer": answer.text})
    kept = {
        name: body[name]
        for name in ("subject", "needs", "binding", "tool", "calls")
        if name in body
    }
    kept["approved"] = answer.text == APPROVE
    if answer.reason:
        kept["reason"] = answer.reason
    if answer.by:
        kept["by"] = answer.by
    return Noted(attempt.now(), APPROVAL_USED, kept)


def _texts(value: Json) -> list[str]:
    return [str(part) for part in value] if isinstance(value, list) else []
