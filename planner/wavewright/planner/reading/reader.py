"""Read plans from text.

The *strict* reader takes JSON or YAML of a person or the project as it is. The *tolerant* reader
takes a model's raw answer: strict JSON first, then a fixed list of repairs, each recorded. Neither
adds anything that the text does not hold: what cannot be read for certain is refused with a
diagnostic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, RootModel

from wavewright.config.documents import Document, read_document, read_document_file, value_at
from wavewright.config.model_validation import read_as_model, sort_by_position
from wavewright.config.sources import (
    DocumentError,
    DocumentFault,
    ReadLimits,
    Source,
)
from wavewright.planner.checks.partial_plans import PartialPlan, read_partial_plan
from wavewright.planner.diagnostics.diagnostic import (
    Diagnostic,
    PlanError,
    diagnostic_from_fault,
    locate_diagnostics,
)
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature, ToolSignatures
from wavewright.planner.types import STEP_ID_PATTERN, Json, as_list, as_object

if TYPE_CHECKING:
    from wavewright.planner.reading.repairs import Repair

M = TypeVar("M", bound=BaseModel)

MODEL_LIMITS = ReadLimits(max_bytes=256 * 2**10, max_depth=32)
"""Default limits of what is read from a model's answer."""

_DEFAULT_LIMITS = ReadLimits()
_STEP_ID = re.compile(r"(?:/steps/\d+|/ops/\d+/step)/id$")
_DEPENDENCY = re.compile(r"(?:/steps/\d+|/ops/\d+/step)/depends_on/\d+$")
_WITH_DOTS = re.compile(STEP_ID_PATTERN)
_ID_HINT = "use _ for what stands between words, as in fetch_prices"
_GATE = re.compile(r"/gates/\d+(?:/id)?$")


@dataclass(frozen=True, slots=True)
class PlanText:
    """The result of reading a plan from a text.

    >>> from wavewright.planner import read_plan
    >>> text = read_plan('{"steps": [{"id": "a"}]}', "plan.json")
    >>> text.plan is None, text.diagnostics[0].pointer
    (True, '/steps/0')
    """

    plan: Plan | None
    """The plan, if the text has its shape; `check` decides whether it is valid, ids included."""
    source: Source
    document: Document | None = None
    """The value and its places, as far as the text could be read."""
    repairs: tuple[Repair, ...] = ()
    """Repairs: what was read otherwise than it is written."""
    diagnostics: tuple[Diagnostic, ...] = ()
    partial: PartialPlan | None = None
    """The valid part of a plan with faults of shape, if it has steps; for `check_partial`."""


def read_plan(content: str | bytes, name: str, *, limits: ReadLimits = _DEFAULT_LIMITS) -> PlanText:
    """Read a plan written in JSON or YAML, strictly.

    >>> from wavewright.planner import read_plan
    >>> read_plan("steps: [{id: a, tool: rank}]", "plan.yaml").plan.steps[0].tool
    'rank'
    """
    try:
        document = read_document(content, name, limits=limits)
    except DocumentError as error:
        return _unreadable_plan(error)
    return read_plan_document(document)


def read_plan_file(path: Path, *, limits: ReadLimits = _DEFAULT_LIMITS) -> PlanText:
    """Read a file of a plan in JSON or YAML, strictly.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from wavewright.planner import read_plan_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "one.plan.yaml"
    ...     _ = file.write_text("steps: [{id: a, tool: rank}]")
    ...     read_plan_file(file).plan.steps[0].id
    'a'
    """
    try:
        document = read_document_file(path, limits=limits)
    except DocumentError as error:
        return _unreadable_plan(error)
    return read_plan_document(document)


def read_model_answer(
    content: str | bytes,
    name: str = "<model>",
    *,
    limits: ReadLimits = MODEL_LIMITS,
) -> PlanText:
    """Read the plan in a language model's raw answer."""
    from wavewright.planner.reading.repairs import repair_answer  # only answers of models need it

    try:
        answer = repair_answer(content, name, limits)
    except DocumentError as error:
        return _unreadable_plan(error)
    faults = (*answer.faults, *_dotted_ids(answer.document))
    return replace(read_plan_document(answer.document, faults), repairs=answer.repairs)


def _dotted_ids(document: Document) -> Iterator[DocumentFault]:
    """Yield the ids with a dot: only the engine writes such, for the steps of a called plan, and an
    expression reads what follows the dot as a field.
    """
    for number, step in enumerate(as_list(as_object(document.value).get("steps"))):
        written = as_object(step).get("id")
        if isinstance(written, str) and "." in written and _WITH_DOTS.fullmatch(written):
            pointer = f"/steps/{number}/id"
            yield DocumentFault(
                "bad_step_id",
                f"{written!r} has a dot, behind which an expression reads a field",
                document.span(pointer),
                pointer,
                f"write {written.replace('.', '_')!r}, there and where the step is read",
            )


def read_model(document: Document, model: type[M]) -> M:
    """Read a document of any kind: a job, a goal template, a list of tools.

    Raises:
        PlanError: with every fault of the document, in the order of its text.
    """
    try:
        return read_as_model(document, model)
    except DocumentError as error:
        raise PlanError(_diagnostics(error.faults), document.source) from error


def read_model_file(path: Path, model: type[M]) -> M:
    """Read a file of JSON or YAML into a model.

    Raises:
        PlanError: the file cannot be read, or has another shape.
    """
    try:
        document = read_document_file(path)
    except DocumentError as error:
        raise PlanError(_diagnostics(error.faults), error.source) from error
    return read_model(document, model)


def _unreadable_plan(error: DocumentError) -> PlanText:
    return PlanText(None, error.source, diagnostics=_diagnostics(error.faults))


def read_plan_document(document: Document, faults: tuple[DocumentFault, ...] = ()) -> PlanText:
    """Read a plan from a document that was read before; `faults` are those that were found in it
    then.
    """
    refusal = _refusal_fault(document)
    if refusal is not None:
        return _unreadable_plan(DocumentError(document.source, (refusal,)))
    try:
        plan = read_as_model(document, Plan)
    except DocumentError as error:
        faults = (*faults, *error.faults)
    else:
        if not faults:
            return PlanText(plan, document.source, document)
    sorted_faults = sort_by_position(document, faults)
    partial = read_partial_plan(document.value, sorted_faults)
    return PlanText(
        None,
        document.source,
        document,
        diagnostics=_shape_diagnostics(sorted_faults, document),
        partial=partial,
    )


def _refusal_fault(document: Document) -> DocumentFault | None:
    """Return the fault of a stored answer that says why there is no plan; None for any other."""
    value = document.value
    if not isinstance(value, dict) or "steps" in value:
        return None
    key = next((key for key in ("error", "cannot_plan", "ask") if value.get(key)), None)
    if key is None:
        return None
    said = value[key]
    words = f": {said[:200]!r}" if isinstance(said, str) else ""
    hint = "answer its question" if key == "ask" else "change the goal or its tools"
    pointer = f"/{key}"
    span = document.span(pointer, key=True)
    return DocumentFault(
        "planner_error", f"this is no plan: a planner answered {key!r}{words}", span, pointer, hint
    )


def _diagnostics(faults: Iterable[DocumentFault]) -> tuple[Diagnostic, ...]:
    return tuple(diagnostic_from_fault(_with_plan_wording(fault)) for fault in faults)


def _shape_diagnostics(
    faults: Iterable[DocumentFault], document: Document
) -> tuple[Diagnostic, ...]:
    """Return the faults of a plan's shape; ids that are numbers are told the ids to write."""
    return _diagnostics(_with_ids_in_words(fault, document.value) for fault in faults)


def _with_ids_in_words(fault: DocumentFault, value: Json) -> DocumentFault:
    if not (_STEP_ID.search(fault.pointer) or _DEPENDENCY.search(fault.pointer)):
        return fault
    value = value_at(value, fault.pointer)
    if not str(value).isdecimal():
        return fault
    hint = f"an id is a word, because numbers shift when a plan is changed: write s{value}"
    kind = "wrong_type" if isinstance(value, int) else fault.kind
    return replace(fault, kind=kind, hint=f"{hint} for {value}")


def _with_plan_wording(fault: DocumentFault) -> DocumentFault:
    """Return a fault of shape with the code and the hint that the plan language has for it."""
    is_id = _STEP_ID.search(fault.pointer) is not None
    if fault.kind != "bad_value":
        return fault
    if is_id:
        return replace(fault, kind="bad_step_id", hint=fault.hint or _ID_HINT)
    if _GATE.search(fault.pointer):
        return replace(fault, kind="bad_gate")
    return fault


class _ListOfToolSignatures(RootModel[list[ToolSignature]]):
    """A JSON or YAML list of `{name, description, input_schema, output_schema, effects}`."""


def read_tools_file(path: Path) -> ToolSignatures:
    """Return the signatures that a file lists, by name.

    Raises:
        DocumentError: the file is missing or is no document.
        PlanError: it is no list of signatures, or a name stands twice; each fault at its place.
    """
    document = read_document_file(path)
    read = read_model(document, _ListOfToolSignatures)
    tools: dict[str, ToolSignature] = {}
    repeated: list[Diagnostic] = []
    for position, signature in enumerate(read.root):
        if signature.name in tools:
            repeated.append(
                Diagnostic(
                    code="E103",
                    message=f"tool {signature.name!r} is listed twice",
                    pointer=f"/{position}/name",
                    hint="keep one signature for each tool",
                )
            )
        tools[signature.name] = signature
    if repeated:
        raise PlanError(tuple(locate_diagnostics(repeated, document)), document.source)
    return tools
