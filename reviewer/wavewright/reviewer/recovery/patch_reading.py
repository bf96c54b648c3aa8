"""A model's patch, read as what it can only mean, and bound to the plan that it is for.

An *emitted* patch holds only what a model may decide: steps with tool, parameters and order, and
the reason. Policy fields (retries, timeouts, budgets) are refused as unknown, and code fills in the
hash of the plan.

First each operation is brought into one form, `{op, step}` or `{op, id, …}`, whatever it was written
in; then its step is read as a step of a plan is. What contradicts itself stays as it is, and is
refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from functools import partial
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, JsonValue

from wavewright.config import Document, DocumentError
from wavewright.config.value_types import NonEmpty
from wavewright.planner import (
    ID_PATTERN,
    DocumentModel,
    Json,
    JsonObject,
    Plan,
    PlanError,
    PlanPatch,
    Step,
    StepId,
    as_list,
    as_object,
    plan_hash,
)
from wavewright.planner.diagnostics.diagnostic import diagnostics_of
from wavewright.planner.language.json_values import map_texts
from wavewright.planner.language.plan import AddStep, PatchOp, RemoveStep, ReplaceStep, RewireStep
from wavewright.planner.reading.json_extraction import THOUGHT_FIELDS
from wavewright.planner.reading.normalization import (
    REFUSAL_FIELDS,
    field_of_step,
    normalize_patch_steps,
)
from wavewright.planner.reading.reader import read_model
from wavewright.planner.types import STEP_ID_PATTERN, GateId
from wavewright.reviewer.asking_models import with_plain_names
from wavewright.reviewer.review.dialogue import plain_step
from wavewright.reviewer.values import shorten

_MAX_REASON = 500
_NO_REASON = "the model gave no reason"
_FORMS: Final = {
    **{name: name for name in ("add", "replace", "remove", "rewire", "supersede")},
    "insert": "add",
    "append": "add",
    "update": "replace",
    "delete": "remove",
}
"""Operations, and other words for them."""
_WITH_STEP: Final = frozenset({"add", "replace", "supersede"})


class PatchedStep(DocumentModel):
    """A step as a model may write it."""

    why: str | None = None
    id: Annotated[StepId, Field(pattern=STEP_ID_PATTERN)]
    tool: NonEmpty
    params: dict[str, JsonValue] = {}
    for_each: NonEmpty | list[JsonValue] | None = None
    when: NonEmpty | None = None
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
    reason: NonEmpty
    ops: Annotated[
        tuple[Annotated[_EmittedOp, Field(discriminator="op")], ...],
        Field(strict=False, min_length=1),
    ]
    expect: Annotated[tuple[GateId, ...], Field(strict=False)] = ()


def patch_in(value: Json) -> Json:
    """Return an answer that is nothing but operations, or one of them, as the patch that it means."""
    listed = [with_plain_names(entry) for entry in as_list(value) if isinstance(entry, dict)]
    if listed and len(listed) == len(as_list(value)) and all(map(_is_op, listed)):
        return {"ops": [*listed]}
    fields = with_plain_names(as_object(value))
    if "ops" in fields:
        return value
    for name in ("operations", "patch"):
        if isinstance(fields.get(name), list):
            return {"ops": fields.pop(name), **fields}
    if not _is_op(fields):
        return value
    beside = {name: fields.pop(name) for name in EmittedPatch.model_fields if name in fields}
    return {**beside, "ops": [fields]}


def bind_patch(
    document: Document, plan: Plan, finished: Collection[StepId] = ()
) -> tuple[PlanPatch, tuple[str, ...]]:
    """Return the patch that an answer holds, bound to the plan, and how it was read where it was
    written in another form.

    A step that replaces another keeps its policy; a new one has its tool's. What would replace a
    `finished` step is a new one that supersedes it.

    Raises:
        PlanError: the answer has another shape; it lists every fault.
    """
    try:
        normalized = _normalized(as_object(document.value), plan, finished)
    except DocumentError as error:
        raise PlanError(diagnostics_of(error), error.source) from error
    emitted = read_model(Document(normalized, document.source, keeps_places=False), EmittedPatch)
    patch = PlanPatch(
        base=plan_hash(plan),
        reason=shorten(emitted.reason.strip(), _MAX_REASON),
        ops=tuple(_patch_op(op, plan) for op in emitted.ops),
        expect=emitted.expect,
    )
    as_written = as_object(document.value).get("ops")
    # A field that is left empty is one that a schema may have asked for.
    if [*map(_without_empty_parts, as_list(as_written))] == normalized["ops"]:
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


def _normalized(answer: JsonObject, plan: Plan, finished: Collection[StepId]) -> JsonObject:
    """Return a patch with each operation in its usual form, without what repeats the plan or says
    nothing.

    Raises:
        DocumentError: a step cannot be read.
    """
    shown: JsonObject = plan.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    ops = [*_ops_in(answer.get("ops"))]
    normalized: JsonObject = {
        name: entry
        for name, entry in _without_thoughts(answer).items()
        if not _is_as_planned(name, entry, shown)
    }
    normalized["ops"] = _with_steps_as_in_plans(ops, plan, finished)
    normalized["expect"] = _listed(answer.get("expect") or [])
    reason = " ".join(map(str, _listed(normalized.get("reason", ""))))
    normalized["reason"] = reason if reason.strip() else _other_reason(answer, ops)
    return normalized


def _is_as_planned(name: str, entry: Json, shown: JsonObject) -> bool:
    """Whether a field of a plan, which a patch has none of, leaves the plan as it is."""
    if name in ("gates", "let") and not entry:
        return True
    return name in ("gates", "let", "stop", "result") and entry == shown.get(name)


def _other_reason(answer: JsonObject, ops: Collection[Json]) -> str:
    """Return why a patch without a `reason` is made: its thoughts, else the reason of one of its
    operations, else what its steps are for.
    """
    listed = [op for op in ops if isinstance(op, dict)]
    steps = [op.get("step", op) for op in listed]
    said = (
        *(entry for name, entry in answer.items() if _is_thought(name, entry)),
        *(op.get("reason") for op in listed),
        *(step.get("why") for step in steps if isinstance(step, dict)),
    )
    texts = [text for text in said if isinstance(text, str) and text.strip()]
    return texts[0] if texts else _NO_REASON


def _without_thoughts(fields: JsonObject) -> JsonObject:
    """Return an object without thoughts beside what it says, and without empty fields."""
    told = _without_empty_fields(fields)
    return {name: entry for name, entry in told.items() if not _is_thought(name, entry)}


def _is_thought(name: str, entry: Json) -> bool:
    """Whether a field says what the model thinks: a text under a name that no plan and no patch has."""
    is_known = name in {*Plan.model_fields, *EmittedPatch.model_fields, *REFUSAL_FIELDS}
    return name.lower() in THOUGHT_FIELDS or (isinstance(entry, str) and not is_known)


# --- operations, one by one, whatever they are written in


def _ops_in(written: Json) -> Iterator[Json]:
    """Yield each operation with its `op`: one that is in no list, each of several steps in one, and
    those under the name of what they do, `{add: {…}, remove: total}`.
    """
    for op in _listed(written):
        if not isinstance(op, dict):
            yield op
            continue
        fields = _with_form(with_plain_names(op))
        if "op" not in fields and "tool" in _canonical_names(fields):
            # A step alone can only be a new one.
            fields = {"op": "add", **fields}
        if not _names_its_form(fields):
            yield from _each_of_several(fields)
            continue
        others = {name: entry for name, entry in fields.items() if _form(name) is None}
        for name, bodies in fields.items():
            form = _form(name)
            if form is not None:
                for body in _listed(bodies):
                    for said in _by_step(form, body):
                        yield from _each_of_several(
                            {"op": form, **_fields_of_body(form, said), **others}
                        )


def _is_op(fields: JsonObject) -> bool:
    return "ops" not in fields and ("op" in _with_form(fields) or _names_its_form(fields))


def _with_form(fields: JsonObject) -> JsonObject:
    """Return an operation with what it does as `op`, in whatever field and case it says so."""
    for name in ("op", "operation", "action", "type"):
        form = _form(fields.get(name))
        if form is not None:
            return {"op": form, **{each: fields[each] for each in fields if each != name}}
    return fields


def _form(name: Json) -> str | None:
    """Return which operation a word names: `ADD`, `add_step`, `delete`."""
    if not isinstance(name, str):
        return None
    return _FORMS.get(re.sub(r"[\W_]*(?:step|op)s?$", "", name.strip().lower()))


def _names_its_form(fields: JsonObject) -> bool:
    """Whether an operation stands under the name of what it does; `supersede` is a step's as well."""
    return "op" not in fields and any(
        _form(name) is not None and (name != "supersede" or "tool" not in fields) for name in fields
    )


def _by_step(form: str, body: Json) -> Iterator[Json]:
    """Yield what stands under the name of an operation; each of several steps by their ids, as in
    `{supersede: {prices: {…}}}`.
    """
    named = body if form in _WITH_STEP and isinstance(body, dict) else {}
    is_by_id = bool(named) and all(
        isinstance(step, dict) and name not in _STEP_OF_OP and field_of_step(name) not in _FIELDS
        for name, step in named.items()
    )
    if not is_by_id:
        yield body
        return
    for name, step in named.items():
        yield {"id": name, "step": step} if form == "supersede" else {"id": name, **as_object(step)}


_FIELDS: Final = frozenset(PatchedStep.model_fields)


def _fields_of_body(form: str, body: Json) -> JsonObject:
    """Return what stands under the name of an operation: its step, its fields, or an id."""
    if not isinstance(body, dict):
        return {"id": body}
    is_step = form in _WITH_STEP and "step" not in body and "steps" not in body
    return {"step": body} if is_step else with_plain_names(body)


def _each_of_several(op: JsonObject) -> Iterator[JsonObject]:
    """Yield an operation for each step that it has, or that it names."""
    named = next((name for name in _STEP_OF_OP if name in op), "step")
    # The path of a JSON Patch only says that it is about steps.
    idle = {named, "path"} if named == "value" else {named}
    rest = {name: entry for name, entry in op.items() if name not in idle}
    for step in _listed(op.get(named)):
        for step_id in _listed(rest.get("id")):
            if isinstance(step, str):
                yield {**rest, "id": step}
            else:
                yield {**rest, "id": step_id, "step": step}


_STEP_OF_OP: Final = ("step", "steps", "new_step", "value")
"""Names that models give to the step of an operation."""


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]


def _with_steps_as_in_plans(
    ops: Collection[Json], plan: Plan, finished: Collection[StepId]
) -> list[Json]:
    """Return operations whose steps are read as those of a plan."""
    gathered = _with_plain_ids(
        [_done_again(_gathered(op), plan, finished) if isinstance(op, dict) else op for op in ops]
    )
    readable = [op for op in gathered if isinstance(op, dict)]
    said = [_said_by(op) for op in readable]
    steps, _ = normalize_patch_steps(said, plan)
    read = iter(as_list(steps))
    normalized: list[Json] = []
    for op in gathered:
        if not isinstance(op, dict):
            normalized.append(op)
            continue
        step = as_object(next(read))
        normalized.append(
            {**op, "step": step} if isinstance(op.get("step"), dict) else {**op, **step}
        )
    return normalized


def _done_again(op: JsonObject, plan: Plan, finished: Collection[StepId]) -> JsonObject:
    """Return an operation that does a finished step again as the addition of a step that supersedes
    it, with an id of its own and the tool and the items that it does not write again.
    """
    step, form = op.get("step"), op.get("op")
    if not (isinstance(step, dict) and isinstance(form, str) and form in _WITH_STEP):
        return op
    known = {planned.id: planned for planned in plan.steps}
    named, old_id = plain_step(step.get("id")), step.get("supersedes")
    if old_id is None and (form == "supersede" or (form == "replace" and named in finished)):
        old_id = named
    old = known.get(StepId(old_id)) if isinstance(old_id, str) else None
    if old is None or (form == "replace" and step.get("supersedes") is not None):
        return op
    again = {**step, "supersedes": old.id}
    if named in (None, old.id):
        plain = old.id.replace(".", "_")
        number = 2
        while f"{plain}_{number}" in known:
            number += 1
        again["id"] = f"{plain}_{number}"
    if "params" in step:
        again.setdefault("tool", old.tool)
        if old.for_each is not None and "${item" in json.dumps(step["params"]):
            again.setdefault("for_each", old.for_each)
    return {**op, "op": "add", "step": again}


def _with_plain_ids(ops: list[Json]) -> list[Json]:
    """Return operations in which no id goes on from that of the step that it supersedes with a dot, as
    `items.v2` of `items`: so only the steps of called plans are named.
    """
    steps = [as_object(as_object(op).get("step")) for op in ops if isinstance(op, dict)]
    for step in steps:
        name, old = step.get("id"), step.get("supersedes")
        if isinstance(name, str) and isinstance(old, str) and name.startswith(old) and "." in name:
            ops = as_list(map_texts(ops, partial(_with_plain_id, name=name)))
    return ops


def _with_plain_id(text: str, *, name: str) -> str:
    """Return a text that is an id, or reads the step of that id, without its dots."""
    plain = name.replace(".", "_")
    if text == name:
        return plain
    return re.sub(rf"\bsteps\.{re.escape(name)}\b", f"steps.{plain}", text)


def _said_by(op: JsonObject) -> JsonObject:
    """Return the step of an operation; of one without a step what it says of the plan's."""
    step = op.get("step")
    if isinstance(step, dict):
        return step
    return {name: op[name] for name in ("id", "depends_on") if name in op}


def _gathered(op: JsonObject) -> JsonObject:
    """Return an operation with all that it says of its step in the step, and `supersede` as the `add`
    that it means.
    """
    # The reason is that of the patch, which has one for all of them.
    told = {name: entry for name, entry in op.items() if name.lower() not in THOUGHT_FIELDS}
    kept = {name: entry for name, entry in _without_empty_fields(told).items() if name != "reason"}
    form, step = kept.get("op"), kept.get("step")
    beside = {name: entry for name, entry in kept.items() if name not in ("op", "step")}
    says_call = not {"tool", "params"}.isdisjoint(_canonical_names(beside))
    if step is None and (form == "supersede" or says_call):
        step, beside = beside, {}
    if not isinstance(form, str) or form not in _WITH_STEP or not isinstance(step, dict):
        # Why it is done is the reason of the patch, and what is removed waits for nothing.
        waits = ("depends_on",) if form == "remove" and not kept.get("depends_on") else ()
        named = _canonical_names(kept)
        return {name: entry for name, entry in named.items() if name not in ("why", *waits)}
    beside, step = _said_of_step(beside), _said_of_step(step)
    names_one = beside.get("supersedes", beside.get("id")) == beside.get("id")
    if form == "supersede" and names_one and beside.get("id") != step.get("id"):
        # The `id` beside the new step is that of the old one.
        beside = {"supersedes" if name == "id" else name: entry for name, entry in beside.items()}
    if "why" in step:
        beside.pop("why", None)
    # What contradicts the step stays beside it, and the reader refuses it.
    contradicting = {
        name: entry for name, entry in beside.items() if step.get(name, entry) != entry
    }
    step = {**beside, **step}
    if form == "supersede" and "supersedes" in step:
        form = "add"
    return {"op": form, **contradicting, "step": step}


def _said_of_step(fields: JsonObject) -> JsonObject:
    """Return what an object says of a step, in the fields of a step."""
    said = _canonical_names(_without_empty_fields(with_plain_names(fields)))
    if "reason" in said:
        said = {"why": said.pop("reason"), **said}
    for name in ("old", "old_step", "replaces"):
        if name in said:
            said.setdefault("supersede", said.pop(name))
    superseded = said.pop("supersede", said.get("supersedes"))
    if superseded is None:
        return said
    if isinstance(superseded, dict):
        # `{step: items, only: failed}`
        said = {**said, **_without_empty_fields({"only": superseded.get("only")})}
        superseded = superseded.get("step")
    named = _listed(superseded)
    old = plain_step(named[0] if len(named) == 1 else superseded)
    waits_for = said.get("depends_on")
    if waits_for is not None:
        # It has ended, so nothing waits for it.
        said["depends_on"] = [name for name in _listed(waits_for) if name != old]
    return {**said, "supersedes": old}


def _without_empty_fields(fields: JsonObject) -> JsonObject:
    """Return an object without what is null, false or an empty text: models write so of a field that
    is not used.
    """
    return {
        name: entry
        for name, entry in fields.items()
        if entry is not None and entry is not False and entry != ""
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
    names = {name: field_of_step(name) for name in step}
    if len(set(names.values())) < len(names):
        return step
    return {names[name]: entry for name, entry in step.items()}
