"""Where secrets and private data of one plan go: from some outputs or inputs through expressions,
items and the outputs of other steps.

A value that can hold no free text (a number, a choice, a short pattern) carries nothing on, nor
does order without data (`depends_on`). Run data is taken to hold free text always.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence, Set as AbstractSet
from typing import Final, NamedTuple

from wavewright.config.sources import pointer_keys
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.plain_paths import Read
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.language.plan import Step
from wavewright.planner.language.signatures import RUN_INPUTS, ToolSignature
from wavewright.planner.plans.uses import ExpressionText, ExpressionUse
from wavewright.planner.schemas.views import (
    SchemaView,
    ScopedSchema,
    allowed_values,
    element_schema,
    field_schema,
    field_schemas,
    scoped_schema,
    subschema,
    view_schema,
)
from wavewright.planner.types import JsonSchema, StepId

TEXTLESS_KINDS: Final = frozenset({"null", "boolean", "integer", "number", "timestamp", "duration"})
MAX_DEPTH: Final = 16
_NARROW_PATTERN: Final = re.compile(
    r"\^(?:(?:[A-Za-z0-9_:/@,#=-]|\\[.\-/+]|\\d|\[(?:[A-Za-z0-9_.:-]|\\[.\-d])+\])(?:\{\d{1,2}(?:,\d{1,2})?\}|\?)?)+\$"
)
"""Patterns of which every part has a bounded length and admits no white space: codes, dates,
versions.
"""
_PLACE_PATTERN: Final = re.compile(
    r"\[[^\]]*[.:]|\[[^\]]*(?<!\\)[A-Za-z].*[.@/]|[.@/].*\[[^\]]*(?<!\\)[A-Za-z]"
)
"""Patterns that a host, a path or an e-mail address of the writer's choice matches."""


def holds_free_text(place: ScopedSchema, depth: int = 0) -> bool:
    """Whether a value of a schema can hold text that is not one of a few, or of a short fixed form."""
    return depth > MAX_DEPTH or _view_holds_text(view_schema(place), depth)


def _view_holds_text(view: SchemaView, depth: int) -> bool:
    if view.kind in TEXTLESS_KINDS or allowed_values(view.schema) is not None:
        return False
    if view.branches:
        return any(_view_holds_text(branch, depth + 1) for branch in view.branches)
    if view.kind == "string":
        pattern = view.schema.get("pattern")
        return not (
            isinstance(pattern, str)
            and _NARROW_PATTERN.fullmatch(pattern)
            and not _PLACE_PATTERN.search(pattern)
        )
    if view.kind in {"array", "object"} and "type" not in view.schema:
        return True  # `items` and `properties` alone let any text pass
    if view.kind == "array":
        elements = element_schema(view)
        return elements is None or holds_free_text(elements, depth + 1)
    if view.kind == "object":
        if (
            view.schema.get("additionalProperties") is not False
            or "patternProperties" in view.schema
        ):
            return True
        fields = field_schemas(view).values()
        return any(holds_free_text(subschema(part, view.root), depth + 1) for part in fields)
    return True


class Arrival(NamedTuple):
    """A place where a step reads what is followed."""

    step: Step
    signature: ToolSignature
    use: ExpressionUse
    origin: str
    """The step whose output it reads, or the input (`inputs.NAME`)."""
    names: Sequence[str]
    """Of a parameter: its name, and the keys that lead to the part which reads it."""
    place: ScopedSchema
    """Of a parameter: the schema of that part."""


class DataFlow:
    """Where what comes in with some outputs or inputs goes in one plan."""

    def __init__(
        self,
        subject: CheckContext,
        *,
        sources: Collection[StepId] = (),
        inputs: Collection[str] = (),
        order: Sequence[StepId] | None = None,
        is_secret: bool = False,
    ) -> None:
        """Follow outputs of `sources` and values of `inputs` through the steps of `order`, all
        where it is absent.
        """
        self._subject = subject
        self._is_secret = is_secret
        self._before: dict[str, str | None] = dict.fromkeys(
            [*sources, *(f"inputs.{name}" for name in inputs)]
        )
        """Steps and inputs that hold it, each with what it was read from; nothing for a source."""
        self._items: dict[StepId, str] = {}
        """Steps whose `item` holds it, with what it was read from."""
        self._order = subject.graph.order() if order is None else order
        self._data_writers: dict[str, list[StepId]] = {}
        """Steps that write it under a name of run data."""

    def arrivals(self) -> Iterator[Arrival]:
        """Yield each condition and parameter that reads it, in the order of the graph."""
        for step_id in self._order:
            step = self._subject.steps[step_id]
            signature = self._subject.signature(step)
            if signature is None:
                continue
            if (writer := self._data_origin(step_id, signature)) is not None:
                self._before.setdefault(step_id, writer)
            for use, origin in self._reading_uses(step):
                if use.role == "for_each":
                    self._items.setdefault(step_id, origin)
                    continue
                names = pointer_keys(use.pointer)[3:]
                place = _parameter_schema(signature.input_schema, names)
                if use.role == "params":
                    if not self._carries(place):
                        continue
                    self._before.setdefault(step_id, origin)
                yield Arrival(step, signature, use, origin, names, place)
            if step_id in self._before:
                for name in signature.writes_data:
                    self._data_writers.setdefault(name, []).append(step_id)

    def _data_origin(self, step_id: StepId, signature: ToolSignature) -> str | None:
        """Return an input, or a step before this one, that holds it as run data which this one
        reads.
        """
        if RUN_INPUTS in signature.reads_data and (found := self._input_origin(None)) is not None:
            return found
        writers = [
            step for name in signature.reads_data for step in self._data_writers.get(name, ())
        ]
        seen = self._subject.graph.ancestors(step_id) if writers else ()
        return next((step for step in sorted(writers) if step in seen), None)

    @property
    def holders(self) -> AbstractSet[str]:
        """Steps and inputs that hold it, once all arrivals were asked for."""
        return self._before.keys()

    def way(self, origin: str) -> list[str]:
        """Return the steps from the source to what holds it."""
        way = [origin]
        while (before := self._before[way[0]]) is not None:
            way.insert(0, before)
        return way

    def _reading_uses(self, step: Step) -> Iterator[tuple[ExpressionUse, str]]:
        """Yield where a step reads it; the list of a `for_each` comes first, for its items hold
        what that reads.
        """
        texts = self._subject.texts[self._subject.numbers[step.id]]
        for text in sorted(texts, key=lambda text: text.role != "for_each"):
            yield from self._uses_in(text, step)

    def _uses_in(self, text: ExpressionText, step: Step) -> Iterator[tuple[ExpressionUse, str]]:
        for use, found in text.reads.items():
            if isinstance(found, ExpressionError):
                continue
            origin = next((one for read in found if (one := self._origin(step, read))), None)
            if origin is not None and self._gives_text(use, step):
                yield use, origin

    def _input_origin(self, name: str | None) -> str | None:
        """Return the input, or without a name any input, if it holds it."""
        held = (one for one in self._before if one.startswith("inputs."))
        return next((one for one in held if name is None or one == f"inputs.{name}"), None)

    def _origin(self, step: Step, read: Read) -> str | None:
        if read.root == "item":
            return self._items.get(step.id)
        if read.root == "inputs":
            return self._input_origin(read.name)
        if read.name is None:
            return None
        held = (read.name, self._subject.superseded_by.get(StepId(read.name)))
        return next((one for one in held if read.root == "steps" and one in self._before), None)

    def _gives_text(self, use: ExpressionUse, step: Step) -> bool:
        """Whether what an expression gives can hold free text; a condition always gives true or
        false.
        """
        if use.role == "when":
            return True
        given = self._subject.types.result(use, step)
        return given is not None and self._carries(scoped_schema(given))

    def _carries(self, place: ScopedSchema) -> bool:
        """Whether a value can hold what is followed; a secret fits a short form, too."""
        if self._is_secret:
            return view_schema(place).kind not in TEXTLESS_KINDS
        return holds_free_text(place)


def _parameter_schema(schema: JsonSchema, names: Sequence[str]) -> ScopedSchema:
    """Return the schema of a part of the parameters; an open one where nothing is said of it."""
    place = scoped_schema(schema)
    for name in names:
        view = view_schema(place)
        is_item = name.isdecimal() and view.kind == "array"
        found = element_schema(view, int(name)) if is_item else field_schema(view, name)
        place = found or scoped_schema({})
    return place
