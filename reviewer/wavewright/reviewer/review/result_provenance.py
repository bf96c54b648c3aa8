"""Where each field of a result comes from, as the plan says and as the run shows.

The plan says which data, inputs, answers and literals a field is made of. Only the run shows that a
figure or a text of it came back from a step that a model gave it to, which no checker can see.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from wavewright.planner import Json
from wavewright.planner.plans.let_and_stop import in_authors_words
from wavewright.planner.plans.origins import Origins
from wavewright.planner.plans.provenance import PlanProvenance, field_name, is_allowed_field
from wavewright.reviewer.records import FieldProvenance
from wavewright.reviewer.review.caps import steps_of_models
from wavewright.reviewer.review.results import ReviewedRun, RunResult
from wavewright.reviewer.review.written_figures import WrittenParts
from wavewright.reviewer.values import listing

_MAX_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class ResultProvenance:
    """Where the fields of a result come from."""

    fields: tuple[FieldProvenance, ...]
    faults: tuple[str, ...]
    """What the planner wrote in place of data and the goal does not let it."""


def result_provenance(run: ReviewedRun, result: RunResult) -> ResultProvenance:
    """Return where each field of the result of a run comes from."""
    reader = _FieldReader(run)
    allowed = run.goal.allow_literals
    fields: list[FieldProvenance] = []
    faults: list[str] = []
    of_plan = reader.provenance.of_result(has_stopped=run.has_stopped)
    for field, origins in of_plan.items():
        part = _field_value(result.value, field)
        # What the planner may write is shown and caps the field all the same; it is no fault.
        writable: dict[str, list[Json]] = {}
        rest = part
        is_allowed = is_allowed_field(field, allowed)
        if allowed and not is_allowed:
            path = "" if field == "result" else field_name(field)
            rest = _without_writable(part, path, allowed, writable)
        echoed = reader.written.figures(rest)
        if echoed and not is_allowed:
            what = listing(sorted(echoed), _MAX_SHOWN)
            faults.append(f"{field}: {what} stands in no data; the planner wrote it into a step")
        fields.append(reader.field(field, origins, part, echoed))
        fields.extend(_written_parts(writable, reader.written))
    is_empty = not any(
        field.data or field.inputs or field.models or field.literals for field in fields
    )
    if reader.authored and run.plan.result is not None and is_empty and not run.has_stopped:
        faults.append("result: the planner wrote null, and nothing is read")
    return ResultProvenance(tuple(fields), tuple(faults))


class _FieldReader:
    """What the plan says of a field, joined with what the run shows of it."""

    def __init__(self, run: ReviewedRun) -> None:
        # What people write is theirs: only what a model wrote lowers a field or fails the goal.
        self.authored = steps_of_models(run)
        self.provenance = PlanProvenance(run.plan, run.tools, run.goal)
        self.written = WrittenParts(run, self.provenance, self.authored)
        self._is_planned_by_model = run.is_planned_by_model
        self._in_words = in_authors_words(run.plan, with_names=False)

    def field(
        self, name: str, origins: Origins, part: Json, echoed: frozenset[str]
    ) -> FieldProvenance:
        """Return where a field comes from: its part of the result, with what of it the planner wrote
        into a step.
        """
        literals = origins.literals | echoed
        # An answer that its question names may be there by chance, so it is a factor and no literal.
        dictated = self.written.told_answers(part) or self.written.told_steps(origins.models)
        factors = origins.factors | dictated
        choices = origins.choices | self.provenance.words(origins) | self.written.option_words(part)
        shaped = factors | choices
        computed = origins.computed - literals - shaped
        # A patch of a person's plan may bring literals in; what shapes the result is then in the plan
        # that the person wrote.
        is_shaped_by_model = self._is_planned_by_model and bool(shaped)
        return FieldProvenance(
            field=name,
            data=tuple(sorted(origins.data)),
            inputs=tuple(sorted(origins.inputs)),
            models=tuple(sorted(origins.models)),
            literals=tuple(sorted(literals)),
            factors=tuple(sorted(factors)),
            choices=tuple(sorted(choices)),
            computed=tuple(sorted(set(map(self._in_words, computed)))),
            is_by_planner=bool(self.authored) and bool(literals or dictated or is_shaped_by_model),
        )


def _without_writable(
    value: Json, path: str, allowed: Collection[str], writable: dict[str, list[Json]]
) -> Json:
    """Return the part of a result at a path without what the goal lets the planner write in it, which
    is put into `writable` by its name.
    """
    if is_allowed_field(path, allowed):
        writable.setdefault(path, []).append(value)
        return None
    if isinstance(value, list):
        return [_without_writable(entry, path, allowed, writable) for entry in value]
    if isinstance(value, dict):
        return {
            name: _without_writable(entry, f"{path}.{name}" if path else name, allowed, writable)
            for name, entry in value.items()
        }
    return value


def _written_parts(
    writable: Mapping[str, Sequence[Json]], written: WrittenParts
) -> Iterator[FieldProvenance]:
    """Yield what the planner may write in a field and has written, by way of a step whose whole output
    the field is.
    """
    for name, parts in writable.items():
        echoed = frozenset[str]().union(*map(written.figures, parts))
        if echoed:
            yield FieldProvenance(field=name, literals=tuple(sorted(echoed)), is_by_planner=True)


def _field_value(value: Json, field: str) -> Json:
    """Return the part of a result at the path of a field; all of it where there is no such part."""
    part = value
    for name in field.replace("[", ".").replace("]", "").split("."):
        if isinstance(part, dict) and name in part:
            part = part[name]
        elif isinstance(part, list) and name.isdigit() and int(name) < len(part):
            part = part[int(name)]
        else:
            return value
    return part
