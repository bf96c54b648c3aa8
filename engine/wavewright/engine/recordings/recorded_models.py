"""Recorded answers of models, rebuilt from a run's journal for a replay.

The journal keeps no prompts, but the results of answers: an opinion, a patch, a judge's verdict. Equal answers with the
same cost are built from them, so a replay calls no model and needs no cassette. A role is *live* if another model is
to answer it, or if its question may differ from the recorded one; every other role gets its recorded answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast, get_args

from wavewright.engine.recordings.recorded_tools import CallMiss
from wavewright.executor.events.types import (
    Event,
    GateRecord,
    ModelCalled,
    Noted,
    PlanAccepted,
    RungTaken,
    StepFinished,
)
from wavewright.planner.ports.model_port import (
    LoopLimits,
    LoopTool,
    ModelAnswer,
    ModelCall,
    ModelChoice,
    ModelClient,
    ModelError,
    ModelErrorKind,
    ModelUse,
    OnText,
    OnUse,
    Role,
)
from wavewright.planner.types import GateId, Json, JsonObject, StepId
from wavewright.reviewer.records import ReviewResult

LadderRole: TypeAlias = Literal["reviewer", "recovery"]
"""Roles whose ladder asks a model once a round, on its rung `model`."""

_MODEL_RUNG = "model"
_KINDS: frozenset[str] = frozenset(get_args(ModelErrorKind))
_QUOTED = re.compile("“(.*?)”", re.DOTALL)
_NOT_ASKED_PREFIX = "the judge could not be asked: "
_UNUSABLE = "no verdict that counts: the model gave no answer: "
"""Prefix of a gate's record where the judge gave no usable answer."""
_UNFIT = ("no review in the answer of ", "gave no patch that can be applied")


@dataclass(frozen=True, slots=True)
class RecordedModelAnswer:
    """What a model said in the end, or why it said nothing."""

    uses: tuple[ModelUse, ...]
    """What its questions cost, repeated ones included."""
    text: str = ""
    error_kind: ModelErrorKind | None = None
    reason: str = ""


@dataclass(slots=True)
class RecordedAnswers:
    """The answers of a run by who asked, each to be taken once."""

    models: dict[Role, str] = field(default_factory=dict[Role, str])
    """The model that a role asked, as far as it did."""
    _by_role: dict[LadderRole, list[RecordedModelAnswer]] = field(
        default_factory=dict[LadderRole, list[RecordedModelAnswer]]
    )
    _verdicts: dict[tuple[GateId, StepId, int | None], list[RecordedModelAnswer]] = field(
        default_factory=dict[tuple[GateId, StepId, int | None], list[RecordedModelAnswer]]
    )

    @classmethod
    def of(cls, events: Iterable[Event]) -> RecordedAnswers:
        """Return what the models of a run answered."""
        return _AnswerReader().read(events)

    @property
    def has_review(self) -> bool:
        """Whether a model was to review the run."""
        return bool(self._by_role.get("reviewer"))

    def next_of(self, role: LadderRole) -> RecordedModelAnswer | None:
        """Return the next answer of a role; none where it was not asked again."""
        known = self._by_role.get(role)
        return known.pop(0) if known else None

    def next_verdict(self, gate: GateId, step: StepId, index: int | None) -> RecordedModelAnswer | None:
        """Return what a judge said of an output; none where it was not asked."""
        known = self._verdicts.get((gate, step, index))
        return known.pop(0) if known else None

    def add(self, role: LadderRole, answer: RecordedModelAnswer) -> None:
        """Add an answer at the end."""
        self._by_role.setdefault(role, []).append(answer)

    def add_verdict(self, record: GateRecord, uses: tuple[ModelUse, ...]) -> None:
        """Add what a judge said."""
        self._verdicts.setdefault((record.gate, record.step, record.index), []).append(_verdict(record, uses))


class _AnswerReader:
    """Follows the events of a run: what an answer came to stands after what it cost."""

    def __init__(self) -> None:
        self._found = RecordedAnswers()
        self._uses: dict[LadderRole, list[ModelUse]] = {"reviewer": [], "recovery": []}
        self._judged = dict[tuple[str, StepId | None, int | None], list[ModelUse]]()
        self._waiting = dict[LadderRole, tuple[ModelUse, ...]]()
        """Answers that were taken, until the event that says what they were."""

    def read(self, events: Iterable[Event]) -> RecordedAnswers:
        known = list(events)
        for event in known:
            if isinstance(event, ModelCalled):
                self._count(event.use)
        for event in known:
            self._take(event)
        return self._found

    def _count(self, use: ModelUse) -> None:
        self._found.models.setdefault(use.role, use.model)
        if use.role == "judge":
            # A judge's costs may come after the ending that holds its verdict.
            self._judged.setdefault((use.name, use.step, use.index), []).append(use)

    def _take(self, event: Event) -> None:
        match event:
            case ModelCalled(use=use) if use.role in ("reviewer", "recovery"):
                self._uses[use.role].append(use)
            case RungTaken(rung=rung, step=None) if rung.rung == _MODEL_RUNG and rung.ladder in self._uses:
                self._finish_question(rung.ladder, is_reached=rung.outcome == "reached", reason=rung.reason)
            case Noted(topic="review"):
                self._waiting.pop("recovery", None)
                self._answered("reviewer", _review_text(ReviewResult.model_validate(event.body)))
            case PlanAccepted() if event.patch is not None:
                self._answered("recovery", json.dumps(event.patch))
            case StepFinished():
                for record in event.gates:
                    if record.kind == "judge":
                        uses = self._judged.pop((record.gate, record.step, record.index), [])
                        self._found.add_verdict(record, tuple(uses))
            case _:
                pass

    def _finish_question(self, role: LadderRole, *, is_reached: bool, reason: str) -> None:
        uses = tuple(self._uses[role])
        self._uses[role].clear()
        if is_reached:
            self._waiting[role] = uses
        else:
            self._found.add(role, _unanswered(uses, reason))

    def _answered(self, role: LadderRole, text: str | None) -> None:
        uses = self._waiting.pop(role, None)
        if uses is not None and text is not None:
            self._found.add(role, RecordedModelAnswer(uses, text))


def _unanswered(uses: tuple[ModelUse, ...], reason: str) -> RecordedModelAnswer:
    kind, _, said = reason.partition(": ")
    if any(words in reason for words in _UNFIT):
        return RecordedModelAnswer(uses, error_kind="bad_answer", reason=reason)
    if kind in _KINDS:
        return RecordedModelAnswer(uses, error_kind=cast("ModelErrorKind", kind), reason=said)
    return RecordedModelAnswer(
        uses, error_kind="timeout" if "time limit" in reason else "unreachable", reason=reason
    )


def _review_text(review: ReviewResult) -> str | None:
    """Return a model's review as it would say it again; none where no model gave one."""
    opinion = review.opinion
    if opinion is None:
        return None
    taken = [action for action in review.recovery_actions if action.origin == "model"]
    actions: list[Json] = [_action_json(one.action, one.step, one.tool, one.hint) for one in taken]
    actions += [_action_json(one.action, one.step, one.tool) for one in review.refused_actions]
    answer: JsonObject = {
        "summary": opinion.summary,
        "goal_achieved": opinion.goal_achieved,
        "confidence": opinion.confidence,
        "missing_data": [*opinion.missing_data],
        "recovery_actions": actions,
    }
    return json.dumps(answer)


def _action_json(action: str, step: str | None, tool: str | None, hint: str = "") -> JsonObject:
    return {"action": action, "step": step, "tool": tool, "hint": hint}


def _verdict(record: GateRecord, uses: tuple[ModelUse, ...]) -> RecordedModelAnswer:
    if record.verdict == "error":
        is_unasked = record.message.startswith(_NOT_ASKED_PREFIX)
        reason = record.message.removeprefix(_NOT_ASKED_PREFIX).removeprefix(_UNUSABLE)
        return RecordedModelAnswer(
            uses, error_kind="unreachable" if is_unasked else "bad_answer", reason=reason
        )
    # A quote that was shortened for the record still begins literally.
    quotes: list[Json] = [quote.removesuffix("…") for quote in _QUOTED.findall(record.inspected)]
    answer: JsonObject = {"reason": record.message, "quotes": quotes, "verdict": record.verdict}
    return RecordedModelAnswer(uses, json.dumps(answer))


def ignore_model_use(_use: ModelUse) -> None:
    """Do nothing with it."""


@dataclass(slots=True)
class ReplayedModels:
    """Answers of the record, and of real models for the roles that are live."""

    answers: RecordedAnswers
    real: ModelClient | None = None
    live_roles: frozenset[Role] = frozenset()
    on_use: OnUse = ignore_model_use
    """Called with each use of a model in the replay."""
    live_uses: list[ModelUse] = field(default_factory=list[ModelUse])
    """What was asked now, and what that cost."""
    misses: Sequence[CallMiss] = ()
    """Calls of the replay that were never recorded, as they come to light."""
    unanswered: list[str] = field(default_factory=list[str])
    """Questions that nobody was asked when the run was recorded, and that nobody could be asked now."""

    async def ask(
        self, call: ModelCall, *, on_use: OnUse | None = None, on_text: OnText | None = None
    ) -> ModelAnswer:
        """Return the recorded answer, or a real model's where the role is live.

        Raises:
            ModelError: there is none.
        """
        if call.role == "recovery" and self.misses:
            # Not paid for: what a patch could bring would be another miss.
            raise ModelError("unreachable", "calls were never recorded, and no patch fixes that")
        recorded = None if call.role in self.live_roles else self._recorded(call)
        if recorded is not None:
            return _replay_answer(recorded, call, on_use)
        if self.real is None:
            raise self._unasked(call)
        return await self.real.ask(call, on_use=self._counted(on_use), on_text=on_text)

    async def work(
        self,
        call: ModelCall,
        tools: Sequence[LoopTool],
        limits: LoopLimits,
        *,
        on_use: OnUse | None = None,
    ) -> ModelAnswer:
        """Let a real model work: what an agent did before is its tool's recorded answer, not a model's.

        Raises:
            ModelError: there is no model.
        """
        if self.real is None:
            raise self._unasked(call)
        return await self.real.work(call, tools, limits, on_use=self._counted(on_use))

    def choose(self, preference: str, role: Role) -> ModelChoice:
        """Return the model that was asked, or that would be asked now."""
        before = self.answers.models.get(role)
        if self.real is not None and (role in self.live_roles or before is None):
            return self.real.choose(preference, role)
        return ModelChoice(before or "recorded", "the recorded run asked it")

    def _recorded(self, call: ModelCall) -> RecordedModelAnswer | None:
        match call.role:
            case "reviewer" | "recovery":
                return self.answers.next_of(call.role)
            case "judge" if call.step is not None:
                return self.answers.next_verdict(GateId(call.name), call.step, call.index)
            case _:
                return None

    def _counted(self, on_use: OnUse | None) -> OnUse:
        def count(use: ModelUse) -> None:
            self.live_uses.append(use)
            self.on_use(use)
            if on_use is not None:
                on_use(use)

        return count

    def _unasked(self, call: ModelCall) -> ModelError:
        what = call.name if call.name == call.role else f"{call.role} {call.name!r}"
        message = f"the recorded run never asked a model this ({what}), and no model is asked now"
        if message not in self.unanswered:
            self.unanswered.append(message)
        return ModelError("unreachable", message, hint="name a model, with --planner or --reviewer")


def _replay_answer(recorded: RecordedModelAnswer, call: ModelCall, on_use: OnUse | None) -> ModelAnswer:
    for use in recorded.uses:
        if on_use is not None:
            on_use(use)
    if recorded.error_kind is not None:
        raise ModelError(recorded.error_kind, recorded.reason)
    use = recorded.uses[-1] if recorded.uses else ModelUse(call.role, call.name, "recorded", "answered")
    return ModelAnswer(recorded.text, use)
