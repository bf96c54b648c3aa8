"""What recovery may see of a run, and what a model may change of its plan.

The *recovery view* holds ids of steps and gates, statuses, kinds of errors, positions and names of
fields: values that the plan, the goal or this program defines. No field can hold text from a tool,
a document or another model, so none of those can influence a patch.

An *emitted* patch holds only what a model may decide: steps with tool, parameters and order, and
the reason. Policy fields (retries, timeouts, budgets) are refused as unknown, and code fills in the
hash of the plan that the patch is bound to. Unambiguous mistakes of form are corrected while
reading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, JsonValue

from wavewright.config.documents import Document
from wavewright.executor.events.json_values import is_empty
from wavewright.executor.events.state import SUCCESSES, RunState
from wavewright.executor.events.types import ErrorKind, PlanAccepted, StepStatus
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.hashing import plan_hash
from wavewright.planner.language.plan import (
    AddStep,
    DocumentModel,
    Gate,
    PatchOp,
    Plan,
    PlanPatch,
    RemoveStep,
    ReplaceStep,
    RewireStep,
    Step,
)
from wavewright.planner.plans.let_and_stop import in_authors_words
from wavewright.planner.reading.json_extraction import THOUGHT_FIELDS
from wavewright.planner.reading.normalization import ALIASES, NEVER_EMPTY
from wavewright.planner.reading.reader import read_model
from wavewright.planner.reading.step_words import reference_of_bare
from wavewright.planner.types import (
    ID_PATTERN,
    STEP_ID_PATTERN,
    GateId,
    GateKind,
    Json,
    JsonObject,
    StepId,
    as_object,
)
from wavewright.reviewer.records import Action, DemandKind, ReviewResult
from wavewright.reviewer.review.findings import FailedGate, failed_gates
from wavewright.reviewer.review.results import ReviewedRun
from wavewright.reviewer.values import look_up, shorten

_MAX_ITEMS = 50


@dataclass(frozen=True, slots=True)
class StepEndView:
    """How a step ended, without its output."""

    step: StepId
    status: StepStatus | None
    error: ErrorKind | None
    items: tuple[int, int] | None = None
    """Succeeded and total items, for a `for_each` step."""
    failed_items: tuple[FailedItemView, ...] = ()
    """The items whose calls failed, at most 50."""


@dataclass(frozen=True, slots=True)
class FailedItemView:
    """An item of a `for_each` step whose call failed."""

    item: int
    """Its position, from 0."""
    error: ErrorKind | None


@dataclass(frozen=True, slots=True)
class FailedGateView:
    """A failed block gate: which, where and of what kind."""

    gate: GateId
    template_gate: GateId | None
    step: StepId
    kind: GateKind
    items: tuple[int, ...] = ()
    """Positions of the items that it failed on, at most 50; empty where it was evaluated once."""
    missing: tuple[str, ...] = ()
    """Fields that the gate requires and that are missing."""
    condition: str = ""
    """The gate's condition, as the plan or the goal writes it."""


@dataclass(frozen=True, slots=True)
class RequestedActionView:
    """An action that a review requests: from the vocabulary, on a step of the plan, by a tool of
    the goal.
    """

    action: Action
    step: StepId | None
    tool: str | None
    kind: DemandKind | None = None
    """What is wrong with the output of the step."""
    fields: tuple[str, ...] = ()
    """Fields that it is about, as tools and plan name them."""
    gate: GateId | None = None


@dataclass(frozen=True, slots=True)
class EarlierPatchView:
    """An earlier patch of the run: what it changed and how its steps ended."""

    round: int
    steps: tuple[tuple[str, str, str, str], ...]
    """Of each step: its id, its tool, the step that it superseded, and its status."""
    failed_gates: tuple[GateId, ...]
    """Gates that its steps failed."""


@dataclass(frozen=True, slots=True)
class FeedbackView:
    """The rejection of a package, without its texts, which only steps read."""

    package: int
    """Number of the package within the job, from 1."""
    remarks: int
    """Number of texts."""
    recipes: tuple[int, ...] = ()
    """Which of the goal's recipes are for some of the texts: their numbers, from 0."""


@dataclass(frozen=True, slots=True)
class RecoveryView:
    """What a recovery planner may see of a run, besides the approved plan and the goal.

    The example goes on from that of `review_by_code`.

    >>> from wavewright.reviewer import view_for_recovery
    >>> view_for_recovery(plan, goal, run.state).failed_gates
    ()
    """

    round: int
    steps: tuple[StepEndView, ...]
    failed_gates: tuple[FailedGateView, ...]
    wanted: tuple[RequestedActionView, ...] = ()
    feedback: FeedbackView | None = None
    """The rejection of a package, if this recovery follows one."""
    missing: int = 0
    """How many things a review finds missing from the result."""
    earlier: tuple[EarlierPatchView, ...] = ()

    @property
    def has_anything_to_recover(self) -> bool:
        """Whether a gate or a step failed, an action is requested, something is missing, or a package
        was rejected.
        """
        failed = any(step.status not in {*SUCCESSES, "skipped"} for step in self.steps)
        asked = bool(self.failed_gates or self.wanted or self.missing)
        return asked or self.feedback is not None or failed


def view_for_recovery(
    plan: Plan, goal: Goal, state: RunState, review: ReviewResult | None = None
) -> RecoveryView:
    """Return the view: step statuses in the plan's order, failed block gates that count, and
    requested actions.

    The example goes on from that of `review_by_code`.

    >>> from wavewright.reviewer import view_for_recovery
    >>> [step.status for step in view_for_recovery(plan, goal, run.state).steps]
    ['ok']
    """
    gates = {gate.id: gate for gate in plan.gates}
    in_words = in_authors_words(plan)
    return RecoveryView(
        state.round,
        tuple(_step_end(step, state) for step in plan.steps),
        tuple(
            _failed_gate(failed, gates[failed.gate], state, in_words)
            for failed in failed_gates(ReviewedRun(plan, goal, state, {}))
            if failed.severity == "block" and failed.gate in gates
        ),
        tuple(_requested_actions(plan, goal, review)),
        missing=0 if review is None else len(review.missing_data),
        earlier=tuple(_earlier_patches(plan, state)),
    )


def _step_end(step: Step, state: RunState) -> StepEndView:
    end = state.steps.get(step.id)
    if end is None:
        return StepEndView(step.id, None, None)
    failed = [
        FailedItemView(item.index, item.error.kind if item.error else None)
        for _, item in sorted(state.items.get(step.id, {}).items())
        if item.status not in SUCCESSES
    ]
    return StepEndView(
        step.id,
        end.status,
        end.error.kind if end.error else None,
        end.items,
        tuple(failed[:_MAX_ITEMS]),
    )


def _failed_gate(
    failed: FailedGate, gate: Gate, state: RunState, in_words: Callable[[str], str]
) -> FailedGateView:
    return FailedGateView(
        failed.gate,
        failed.template_gate,
        failed.step,
        gate.kind,
        _failed_items(state, failed.step, failed.gate),
        tuple(_missing_fields(gate, state, failed.step)),
        in_words(gate.check or ""),
    )


def _earlier_patches(plan: Plan, state: RunState) -> Iterator[EarlierPatchView]:
    """Yield the earlier patches, by what they added: each step is still in the plan."""
    steps = {step.id: step for step in plan.steps}
    for before, after in pairwise(state.plans):
        old_steps = _step_ids(before)
        added = [
            steps[name] for name in _step_ids(after) if name not in old_steps and name in steps
        ]
        step_ends: list[tuple[str, str, str, str]] = []
        gates: list[GateId] = []
        for step in added:
            end = state.steps.get(step.id)
            status = "never ran" if end is None else end.status
            step_ends.append((step.id, step.tool, step.supersedes or "", status))
            if end is not None:
                gates += [record.gate for record in end.gates if record.has_failed]
        yield EarlierPatchView(after.round, tuple(step_ends), tuple(dict.fromkeys(gates)))


def _step_ids(accepted: PlanAccepted) -> list[StepId]:
    return [step.id for step in Plan.model_validate(accepted.plan).steps]


def _failed_items(state: RunState, step: StepId, gate: GateId) -> tuple[int, ...]:
    failed = [record for record in state.steps[step].gates if record.has_failed]
    items = [record.index for record in failed if record.gate == gate and record.index is not None]
    return tuple(items[:_MAX_ITEMS])


def _missing_fields(gate: Gate, state: RunState, step: StepId) -> Iterator[str]:
    """Yield the fields, as the gate names them, that some output of the step lacks."""
    output = state.steps[step].output
    outputs: list[Json] = output if isinstance(output, list) else [output]
    for name in gate.required or ():
        path = name.split(".")
        values = [looked_up for entry in outputs for looked_up in look_up(entry, path)]
        if any(not is_there or is_empty(value) for _place, value, is_there in values):
            yield name


def _requested_actions(
    plan: Plan, goal: Goal, review: ReviewResult | None
) -> Iterator[RequestedActionView]:
    if review is None:
        return
    steps = {step.id for step in plan.steps}
    # A model may repeat in a field's name what it has read; only the plan's own words pass.
    known = {*_NAME.findall(plan.model_dump_json()), *_NAME.findall(str(goal.output_schema))}
    views: list[RequestedActionView] = []
    for action in review.recovery_actions:
        if action.origin != "model":
            continue
        if action.step is not None and action.step not in steps:
            continue
        if action.tool is not None and action.tool not in goal.tool_names:
            continue
        fields = tuple(name for name in action.fields if known.issuperset(_NAME.findall(name)))
        views.append(
            RequestedActionView(
                action.action, action.step, action.tool, action.kind, fields, action.gate
            )
        )
    yield from dict.fromkeys(views)


_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_MAX_REASON = 500
_NO_REASON = "the model gave no reason"
_WITH_STEP = ("add", "replace", "supersede")


class PatchedStep(DocumentModel):
    """A step as a model may write it."""

    why: str | None = None
    id: Annotated[StepId, Field(pattern=STEP_ID_PATTERN)]
    tool: Annotated[str, Field(min_length=1)]
    params: dict[str, JsonValue] = {}
    for_each: Annotated[str, Field(min_length=1)] | list[JsonValue] | None = None
    when: Annotated[str, Field(min_length=1)] | None = None
    depends_on: Annotated[tuple[StepId, ...], Field(strict=False)] = ()
    optional: bool = False
    supersedes: StepId | None = None
    only: Literal["failed"] | None = None
    needs_approval: bool = False


class _NewStep(PatchedStep):
    # An id with a dot is that of a step of a called plan, which only the engine makes.
    id: Annotated[StepId, Field(pattern=ID_PATTERN)]


class _AddOp(DocumentModel):
    op: Literal["add"]
    step: _NewStep


class _ReplaceOp(DocumentModel):
    op: Literal["replace"]
    step: PatchedStep


_EmittedOp: TypeAlias = _AddOp | _ReplaceOp | RemoveStep | RewireStep


class EmittedPatch(DocumentModel):
    """A patch as a model may write it."""

    base: JsonValue = None
    """Not read: code knows which plan the patch is for."""
    reason: Annotated[str, Field(min_length=1)]
    ops: Annotated[
        tuple[Annotated[_EmittedOp, Field(discriminator="op")], ...],
        Field(strict=False, min_length=1),
    ]
    expect: Annotated[tuple[GateId, ...], Field(strict=False)] = ()


def bind_patch(document: Document, plan: Plan) -> tuple[PlanPatch, tuple[str, ...]]:
    """Return the patch that an answer holds, bound to the plan, and how it was read where it was
    written in another form.

    A step that replaces another keeps its policy; a new one has its tool's.

    Raises:
        PlanError: the answer has another shape; it lists every fault.
    """
    normalized = _normalized(document.value, plan)
    emitted = read_model(Document(normalized, document.source, keeps_places=False), EmittedPatch)
    patch = PlanPatch(
        base=plan_hash(plan),
        reason=shorten(emitted.reason.strip(), _MAX_REASON),
        ops=tuple(_patch_op(op, plan) for op in emitted.ops),
        expect=emitted.expect,
    )
    as_written, as_read = as_object(document.value).get("ops"), as_object(normalized).get("ops")
    # A field that is left empty is one that a schema may have asked for.
    if isinstance(as_written, list) and [*map(_without_empty_parts, as_written)] == as_read:
        return patch, ()
    return patch, ("its operations were written in another form",)


def _patch_op(op: _EmittedOp, plan: Plan) -> PatchOp:
    if isinstance(op, _AddOp):
        return AddStep(step=_added_step(op.step, plan))
    if isinstance(op, _ReplaceOp):
        return ReplaceStep(step=_replacement_step(op.step, plan))
    return op


def _added_step(step: PatchedStep, plan: Plan) -> Step:
    """Return a step that needs approval also where the one that it supersedes does."""
    old = next((known for known in plan.steps if known.id == step.supersedes), None)
    fields = step.model_dump()
    if old is not None:
        fields["needs_approval"] = step.needs_approval or old.needs_approval
        if step.only is not None and step.for_each is None:
            fields["for_each"] = old.for_each
    return Step(**fields)


def _replacement_step(step: PatchedStep, plan: Plan) -> Step:
    """Return a step with the policy of the one that it replaces; a model can only ask for more
    approvals.
    """
    new = Step(**step.model_dump())
    old = next((known for known in plan.steps if known.id == step.id), None)
    if old is None:
        return new
    policy = {name: getattr(old, name) for name in _POLICY}
    return new.model_copy(
        update={**policy, "needs_approval": new.needs_approval or old.needs_approval}
    )


_POLICY = ("retry", "timeout", "max_items", "concurrency", "min_ok", "budget")
"""Fields of a step that a model may not write: how often and how long it runs."""


def _normalized(value: Json, plan: Plan) -> Json:
    """Return the patch with mistakes of form corrected: one operation that is not in a list, a step
    beside its `op`, aliases of fields, empty fields, and what repeats the plan or says nothing.
    """
    if not isinstance(value, dict):
        return value
    shown: JsonObject = plan.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    normalized: JsonObject = {
        name: entry
        for name, entry in _without_thoughts(value).items()
        if not _is_as_planned(name, entry, shown)
    }
    ops = value.get("ops")
    if isinstance(ops, dict):
        ops = [ops]
    if isinstance(ops, list):
        normalized["ops"] = [_normalized_op(op) for op in ops]
    reason = normalized.get("reason", "")
    if isinstance(reason, str) and not reason.strip():
        normalized["reason"] = _other_reason(value)
    return normalized


def _is_as_planned(name: str, entry: Json, shown: JsonObject) -> bool:
    """Whether a field of a plan, which a patch has none of, leaves the plan as it is."""
    if name in ("gates", "let") and not entry:
        return True
    return name in ("gates", "let", "stop", "result") and entry == shown.get(name)


def _other_reason(patch: JsonObject) -> str:
    """Return why a patch without a `reason` is made: its thoughts, else the reason of one of its
    operations, else what its steps are for.
    """
    thoughts = [entry for name, entry in patch.items() if name.lower() in THOUGHT_FIELDS]
    ops = patch.get("ops")
    listed = [op for op in (ops if isinstance(ops, list) else [ops]) if isinstance(op, dict)]
    reasons = [op.get("reason") for op in listed]
    steps = [op.get("step", op) for op in listed]
    purposes = [step.get("why") for step in steps if isinstance(step, dict)]
    said = (*thoughts, *reasons, *purposes)
    texts = [text for text in said if isinstance(text, str) and text.strip()]
    return texts[0] if texts else _NO_REASON


def _normalized_op(op: Json) -> Json:
    """Return an operation with all that it says of its step in the step, and `supersede` as the `add`
    that it means.
    """
    if not isinstance(op, dict):
        return op
    # The reason is that of the patch, which has one for all of them.
    kept = {name: entry for name, entry in _without_thoughts(op).items() if name != "reason"}
    kind, step = kept.get("op"), kept.get("step")
    beside = {name: entry for name, entry in kept.items() if name not in ("op", "step")}
    if step is None and "tool" in beside:
        step, beside = beside, {}
    if kind not in _WITH_STEP or not isinstance(step, dict):
        return kept
    beside, step = _said_of_step(beside), _said_of_step(step)
    names_one = beside.get("supersedes", beside.get("id")) == beside.get("id")
    if kind == "supersede" and names_one and beside.get("id") != step.get("id"):
        # The `id` beside the new step is that of the old one.
        beside = {"supersedes" if name == "id" else name: entry for name, entry in beside.items()}
    if "why" in step:
        beside.pop("why", None)
    # What contradicts the step stays beside it, and the reader refuses it.
    contradicting = {
        name: entry for name, entry in beside.items() if step.get(name, entry) != entry
    }
    step = {**beside, **step}
    if kind == "supersede" and "supersedes" in step:
        kind = "add"
    return {"op": kind, **contradicting, "step": step}


def _said_of_step(fields: JsonObject) -> JsonObject:
    """Return what an object says of a step, in the fields of a step."""
    said = _without_empty_fields(fields)
    reason = said.pop("reason", None)
    named = _canonical_names(_with_plain_supersedes(said))
    items = named.get("for_each")
    reference = reference_of_bare(items) if isinstance(items, str) else None
    if reference is not None:
        named["for_each"] = reference
    return named if reason is None else {"why": reason, **named}


def _with_plain_supersedes(step: JsonObject) -> JsonObject:
    """Return a step with `supersede: {step: items, only: failed}` as the two fields that it means."""
    named = step.get("supersede", step.get("supersedes"))
    if "supersede" not in step and not isinstance(named, dict):
        return step
    plain = {name: entry for name, entry in step.items() if name not in ("supersede", "supersedes")}
    if isinstance(named, dict):
        return {**plain, "supersedes": named.get("step"), "only": named.get("only")}
    return {**plain, "supersedes": named}


def _without_thoughts(fields: JsonObject) -> JsonObject:
    """Return an object without thoughts beside what it says, and without empty fields."""
    told = _without_empty_fields(fields)
    return {name: entry for name, entry in told.items() if name.lower() not in THOUGHT_FIELDS}


def _without_empty_fields(fields: JsonObject) -> JsonObject:
    """Return an object without what is null, false or a text that says nothing: models write so of a
    field that is not used.
    """
    return {
        name: entry
        for name, entry in fields.items()
        if entry is not None and entry is not False and not (entry == "" and name in NEVER_EMPTY)
    }


def _without_empty_parts(op: Json) -> Json:
    """Return an operation without the fields that it or its step leaves empty."""
    if not isinstance(op, dict):
        return op
    filled = _without_empty_fields(op)
    step = filled.get("step")
    return {**filled, "step": _without_empty_fields(step)} if isinstance(step, dict) else filled


def _canonical_names(step: JsonObject) -> JsonObject:
    """Return what is said of a step with aliases of fields replaced; if two name one field,
    unchanged, and the reader refuses it.
    """
    names = {name: ALIASES.get(name, name) for name in step}
    if len(set(names.values())) < len(names):
        return step
    return {names[name]: entry for name, entry in step.items()}
