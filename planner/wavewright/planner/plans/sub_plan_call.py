"""A step together with the sub-plan that it calls, and what keeps it from calling that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from wavewright.config.sources import pointer_keys
from wavewright.planner.cel.embedded import iterate_strings
from wavewright.planner.diagnostics.diagnostic import Diagnostic, list_names, make_diagnostic, suggest_name
from wavewright.planner.language.plan import Step
from wavewright.planner.plans.binding import escape_references
from wavewright.planner.plans.expanded_plan import ExpandedPlace, ExpandedPlan, SubPlan, position_text
from wavewright.planner.plans.sub_plan_expressions import Rewriting
from wavewright.planner.schemas.validation import infer_schema, validator_of
from wavewright.planner.types import Json, JsonObject, JsonSchema


@dataclass(frozen=True)
class SubPlanCall:
    """A step with the sub-plan that it calls."""

    step: Step
    pointer: str
    source: SubPlan
    inner: ExpandedPlan

    @property
    def defaults(self) -> JsonObject:
        """Inputs of the sub-plan that the step need not give."""
        return {name: escape_references(value) for name, value in self.source.plan.inputs.items()}

    def place(self, pointer: str) -> ExpandedPlace:
        """Return the place of a part of the sub-plan."""
        place = self.inner.places.get(pointer, ExpandedPlace(pointer))
        if place.document is None:
            return ExpandedPlace(self.source.pointer + place.pointer, self.source.document, self.pointer)
        return place._replace(step=self.pointer)

    def inner_faults(self) -> Iterator[Diagnostic]:
        """Yield what is wrong with sub-plans of the sub-plan."""
        for found in self.inner.faults:
            where = position_text(self.source.document, self.source.pointer + found.pointer)
            yield replace(
                found, pointer=f"{self.pointer}/plan", message=f"{where}: {found.message}", within=None
            )

    def faults(self) -> Iterator[Diagnostic]:
        """Yield what keeps the step from calling its sub-plan."""
        declared = self.source.inputs
        if declared is None:
            declared = {name: _loose_schema(value) for name, value in self.source.plan.inputs.items()}
        given = [("/params", self.step.params)]
        given += [("/repeat/params", self.step.repeat.params)] if self.step.repeat is not None else []
        for pointer, params in given:
            for name, value in params.items():
                place = f"{self.pointer}{pointer}/{name}"
                if name not in declared:
                    hint = suggest_name(name, declared, what="inputs") or list_names(declared, what="inputs")
                    yield make_diagnostic("E411", place, f"{self.step.plan!r} takes no input {name!r}", hint)
                elif not any("${" in text for _, text in iterate_strings(value)):
                    for misfit in validator_of(declared[name]).violations(value):
                        message = f"the input {name!r} of {self.step.plan!r} {misfit.message}"
                        yield make_diagnostic("E411", place, message)
        if self.step.for_each is None:
            return
        parts = [(f"/steps/{number}", step) for number, step in enumerate(self.inner.plan.steps)]
        wrong = [
            (f"{pointer}/{name}", f"step {step.id!r} has {name!r}")
            for pointer, step in parts
            for name in ("for_each", "when", "optional")
            if getattr(step, name) not in (None, False)
        ]
        wrong += [(f"/caps/{number}", "it has a cap") for number in range(len(self.inner.plan.caps))]
        for pointer, message in wrong:
            written = self.place("".join(f"/{key}" for key in pointer_keys(pointer)[:2]))
            where = position_text(written.document or self.source.document, written.pointer)
            hint = "of a sub-plan that runs for each item, every step runs once an item"
            text = f"{where}: step {self.step.id!r} runs this plan for each item, and {message}"
            yield make_diagnostic("E411", f"{self.pointer}/for_each", text, hint)

    def rewriting_faults(self, rewriting: Rewriting) -> Iterator[Diagnostic]:
        """Yield what the sub-plan reads and is not given."""
        for name in dict.fromkeys(rewriting.missing):
            message = f"step {self.step.id!r} lacks the input {name!r} of {self.step.plan!r}"
            yield make_diagnostic("E411", f"{self.pointer}/params", message, f"add `{name}:` to its params")
        for text in rewriting.captured:
            message = f"in {self.step.plan!r}, a variable of {text!r} has the name of a root"
            hint = "call the variable otherwise than inputs, steps, item and index"
            yield make_diagnostic("E411", f"{self.pointer}/plan", message, hint)


def _loose_schema(value: Json) -> JsonSchema:
    """Return a schema of values of the same type as one that stands for them."""
    kind = infer_schema(value).get("type")
    return {} if kind is None else {"type": "number" if kind == "integer" else kind}
