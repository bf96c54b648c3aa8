"""What people are asked about ready steps: to approve their calls, or to answer the question of `ask_person`.

A run has one open question at a time: a step that becomes ready while another waits for its answer waits too, and asks
when the run continues. A question without an immediate answer is journaled, and the run is interrupted when nothing
else is left to do. An answer is journaled, with what it is bound to, before the step acts on it, so a run that was
killed in between does not ask again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio

from wavewright.config.redaction import Redactor
from wavewright.engine.decisions.approvals import (
    ANSWER,
    APPROVAL_USED,
    APPROVAL_WANTED,
    APPROVE,
    QUESTION,
    REFUSE,
    answer_to_binding,
    describe_ready_calls,
    has_expired,
    matches_binding,
    open_question,
    recorded_answer,
    step_binding,
    with_nonce,
    without_nonce,
)
from wavewright.engine.pipeline.context import ApprovalRequest, PlannedContext, Ports
from wavewright.engine.pipeline.services import record
from wavewright.executor.events.state import RunState
from wavewright.executor.events.types import Noted
from wavewright.executor.run.ports import PersonReply, ReadyCalls
from wavewright.planner.diagnostics.rendering import printable
from wavewright.planner.planning.outcome import UserQuestion
from wavewright.planner.types import Json, JsonObject, StepId, as_object


@dataclass(slots=True)
class StepQuestions:
    """Asks people about the ready steps of one execution."""

    ports: Ports
    state: RunState
    """The state of the run before the execution."""
    redactor: Redactor
    waiting: set[StepId] = field(default_factory=set[StepId])
    """Steps that wait for an answer."""
    _open: Noted | None = field(init=False)
    """The question that has no answer yet."""
    _asking: anyio.Lock = field(init=False, default_factory=anyio.Lock)

    def __post_init__(self) -> None:
        self._open = _open_step_question(self.ports, self.state)

    async def ask(self, ready: ReadyCalls) -> PersonReply:
        """Ask about a step, unless it was answered before, or another question is open."""
        binding = step_binding(self.state, ready)
        if (given := answer_to_binding(self.state, binding)) is not None:
            return PersonReply(given, is_refused=ready.asks == "approval" and given != APPROVE)
        async with self._asking:
            if self._must_wait(binding):
                self.waiting.add(ready.step.id)
                return PersonReply(None)
            body: JsonObject = {**_question_body(ready, self.redactor), "binding": binding}
            answer = await _ask_people(self.ports, body)
            if answer is None and not self.ports.can_ask and isinstance(body.get("default"), str):
                answer = str(body["default"])
            if answer is not None:
                is_refused = ready.asks == "approval" and answer != APPROVE
                return PersonReply(answer, is_refused, _answer_note(self.ports, body, answer))
            topic = QUESTION if ready.asks == "question" else APPROVAL_WANTED
            self.waiting.add(ready.step.id)
            self._open = Noted(_now(self.ports), topic, {**body, "binding": with_nonce(binding)})
            return PersonReply(None, note=self._open)

    def _must_wait(self, binding: JsonObject) -> bool:
        """Whether the open question is this one, that of another step, or that of another item of the step."""
        asked = None if self._open is None else self._open.body.get("binding")
        return isinstance(asked, dict) and (
            matches_binding(asked, binding)
            or asked.get("step") != binding["step"]
            or binding["step"] in self.waiting
        )


async def take_answer(ports: Ports, context: PlannedContext) -> PlannedContext:
    """Journal the answer to the run's open question about a step, where there is one by now."""
    asked = _open_step_question(ports, context.state)
    if asked is None:
        return context
    binding = asked.body["binding"]
    assert isinstance(binding, dict)
    body: JsonObject = {**asked.body, "binding": without_nonce(binding)}
    answer = recorded_answer(context.state, asked) or await _ask_people(ports, body)
    return context if answer is None else await record(ports, context, _answer_note(ports, body, answer))


def _open_step_question(ports: Ports, state: RunState) -> Noted | None:
    """Return the open question about a step of the current plan; None where it has expired."""
    asked = open_question(state)
    binding = None if asked is None else asked.body.get("binding")
    if asked is None or not isinstance(binding, dict) or "step" not in binding:
        return None
    if (binding.get("run"), binding.get("plan_hash")) != (state.run, state.plan_hash):
        return None
    return None if asked.topic == APPROVAL_WANTED and has_expired(asked, _now(ports)) else asked


def _question_body(ready: ReadyCalls, redactor: Redactor) -> JsonObject:
    if ready.asks == "approval":
        need = f"step {ready.step.id!r} calls {ready.step.tool!r}, which needs approval"
        text = "\n".join(map(printable, describe_ready_calls(ready, redactor)))
        return {"subject": "step", "needs": [need], "text": text}
    [params] = ready.calls
    question, options = redactor.redact(str(params.get("question"))), params.get("options") or []
    return {"question": question, "options": options, "default": params.get("default"), "step": ready.step.id}


async def _ask_people(ports: Ports, body: JsonObject) -> str | None:
    """Return a person's answer, `APPROVE` or `REFUSE` for an approval; None where there is no answer."""
    if "question" in body:
        default, step = body.get("default"), str(body.get("step"))
        question = UserQuestion(
            str(body["question"]),
            tuple(_texts(body.get("options"))),
            default=default if isinstance(default, str) else None,
            asked_by=f"step {step!r}",
        )
        return None if ports.asker is None else await ports.asker.ask(question)
    request = ApprovalRequest(
        "step",
        str(body.get("text", "")),
        tuple(_texts(body.get("needs"))),
        as_object(body.get("binding")),
    )
    approved = await ports.approver.approve(request)
    return None if approved is None else APPROVE if approved else REFUSE


def _answer_note(ports: Ports, body: JsonObject, answer: str) -> Noted:
    if "question" in body:
        kept = {name: body[name] for name in ("question", "options", "binding")}
        return Noted(_now(ports), ANSWER, {**kept, "answer": answer})
    kept = {name: body[name] for name in ("subject", "needs", "binding")}
    return Noted(_now(ports), APPROVAL_USED, {**kept, "approved": answer == APPROVE})


def _texts(value: Json) -> list[str]:
    return [str(part) for part in value] if isinstance(value, list) else []


def _now(ports: Ports) -> float:
    return ports.clock().timestamp()
