"""What the models of a run answered, read back from its journal.

The journal keeps no prompts. What came of an answer it does keep: an opinion, a patch, a judge's verdict. From these
an answer is put together that says the same, with what it cost. So a run is replayed without asking anybody, and
without a cassette.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast, get_args

from wavewright.executor.events import (
    Event,
    GateRecord,
    ModelCalled,
    Noted,
    PlanAccepted,
    RungTaken,
    StepFinished,
)
from wavewright.planner.model_port import ModelErrorKind, ModelUse, Role
from wavewright.planner.types import GateId, Json, JsonObject, StepId
from wavewright.reviewer.records import ReviewResult

LadderRole: TypeAlias = Literal["reviewer", "recovery"]
"""Roles whose ladder asks a model once a round, on its rung `model`."""

_MODEL_RUNG = "model"
_KINDS: frozenset[str] = frozenset(get_args(ModelErrorKind))
_QUOTED = re.compile("“(.*?)”", re.DOTALL)
_NOT_ASKED_PREFIX = "the judge could not be asked: "
_UNUSABLE = "no verdict that counts: the model gave no answer: "
"""How a judge that gave nothing to use is told of in a gate's record."""
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
    quotes: list[Json] = [quote.removesuffix("…") for quote in _QUOTED.findall(record.looked_at)]
    answer: JsonObject = {"reason": record.message, "quotes": quotes, "verdict": record.verdict}
    return RecordedModelAnswer(uses, json.dumps(answer))
