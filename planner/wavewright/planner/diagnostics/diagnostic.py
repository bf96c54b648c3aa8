"""Diagnostics: the faults of a document, each with its place and a hint.

A *diagnostic* has a stable code, a severity, the JSON Pointer (RFC 6901) of its node, a span where
there is source text, a message with the author's own names, and a hint that names the fix. Planners
receive the same text as users when they repair a plan. Diagnostics are sorted by the order of
fields, keys and items in the file.

A *code* is stable and is what people and tools refer to; a *kind* is the same in a word, for
programs that match on it. All of them stand in `catalogue.toml`, with what each means and how to
fix it; no other code is reported, and each has a page in `docs/reference/diagnostics/`.

A hint may be a *suggestion*, the nearest name or what there is. It is shown and never applied: no
name is corrected on the author's behalf.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias, cast

from wavewright.config import exit_codes
from wavewright.config.documents import Document
from wavewright.config.errors import NameHint, WavewrightError, did_you_mean
from wavewright.config.sources import DocumentError, DocumentFault, Source, Span, pointer_keys
from wavewright.planner.language.plan import DocumentModel
from wavewright.planner.types import Json, JsonSchema, Severity

Family: TypeAlias = Literal[
    "document", "tools", "references", "graph", "goal rules", "safety", "budget", "lint"
]

FAMILIES: dict[str, Family] = {
    "E1": "document",
    "E2": "tools",
    "E3": "references",
    "E4": "graph",
    "E5": "goal rules",
    "E6": "safety",
    "E7": "budget",
    "W8": "lint",
}
"""Families by the first two characters of a code."""


class DiagnosticEntry(NamedTuple):
    """One code."""

    code: str
    kind: str
    title: str
    meaning: str
    """What is wrong, and why it matters."""
    fix: str
    """What the author can do."""

    @property
    def family(self) -> Family:
        """The family, by the code's first two characters."""
        return FAMILIES[self.code[:2]]

    @property
    def severity(self) -> Severity:
        """Whether it only warns, or keeps the plan from running."""
        return severity_of(self.code)


@cache
def catalogue() -> Mapping[str, DiagnosticEntry]:
    """Return every diagnostic by its code, in order; the file is read at the first call.

    >>> from wavewright.planner import catalogue
    >>> catalogue()["E201"].severity
    'error'
    """
    # Imported here: a sound document needs no entry of the catalogue.
    import tomllib

    text = Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8")
    return {code: DiagnosticEntry(code, **fields) for code, fields in tomllib.loads(text).items()}


@cache
def codes_by_kind() -> Mapping[str, str]:
    """Return the code of each kind."""
    return {entry.kind: code for code, entry in catalogue().items()}


def severity_of(code: str) -> Severity:
    """Return `warning` for `W…`; any other code is an error, which keeps the plan from running."""
    return "warning" if code.startswith("W") else "error"


_CODES_ABOUT_KEYS = frozenset({"E103", "E104", "E203", "E206"})
"""Codes that speak of a key, not of what stands behind it."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """A mend: a text in place of what the diagnostic underlines."""

    text: str


@dataclass(frozen=True, slots=True)
class Addition:
    """A mend: one more member of the step that the diagnostic is in, or of an object of the step."""

    key: str
    value: Json
    inside: tuple[str, ...] = ()
    """Keys that lead from the step to the object."""


Mend: TypeAlias = Replacement | Addition


class RelatedPlace(NamedTuple):
    """Another place of the document that a diagnostic speaks of."""

    pointer: str
    message: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fault or warning.

    >>> from wavewright.planner import Diagnostic
    >>> fault = Diagnostic("E201", "there is no tool 'rank'", "/steps/0/tool")
    >>> fault.severity, fault.pointer
    ('error', '/steps/0/tool')
    """

    code: str
    """Stable, such as `E203`; `docs/reference/diagnostics/` has a page for each."""
    message: str
    pointer: str = ""
    """RFC 6901 pointer into the document; empty for the whole."""
    hint: str | None = None
    span: Span | None = None
    """Where in the source; found from the pointer when the diagnostic is placed."""
    severity: Severity = "error"
    within: Span | None = None
    """The stretch of the node's own text that is meant, where the node is a string: part of an
    expression.
    """
    given_mend: Mend | None = None
    """The one change that the hint speaks of, where that is no name."""
    related: tuple[RelatedPlace, ...] = ()
    """Other places that have to do with it, such as the other definition."""
    hint_for_model: str | None = None
    """What a model can do that wrote the plan, where it cannot do what `hint` tells a person."""

    @property
    def mend(self) -> Mend | None:
        """The one change that the hint speaks of, as data; None where there are several, or none."""
        if self.given_mend is None and isinstance(self.hint, NameHint):
            return Replacement(self.hint.name)
        return self.given_mend

    @property
    def kind(self) -> str:
        """The code in a word, such as `unknown_tool`."""
        return catalogue()[self.code].kind


class PlanError(WavewrightError):
    """A document that cannot be used; `diagnostics` says why, `source` is the text they speak of."""

    exit_code = exit_codes.NEGATIVE

    def __init__(
        self, diagnostics: Sequence[Diagnostic], source: Source, others: tuple[PlanError, ...] = ()
    ) -> None:
        self.diagnostics = tuple(diagnostics)
        self.source = source
        self.others = others
        """What is wrong with other documents that were read with this one."""
        texts = [
            f"{source.name}: {d.code}: {d.message}" + (f" ({d.hint})" if d.hint else "")
            for d in self.diagnostics
        ]
        super().__init__("; ".join([*texts, *map(str, others)]))


def diagnostics_of(error: DocumentError) -> tuple[Diagnostic, ...]:
    """Return the faults of a document as diagnostics."""
    return tuple(map(diagnostic_from_fault, error.faults))


def diagnostic_from_fault(fault: DocumentFault) -> Diagnostic:
    """Return a reader's fault as a diagnostic."""
    return Diagnostic(
        codes_by_kind()[fault.kind], fault.message, fault.pointer, fault.hint, fault.span
    )


def error_diagnostics(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return the diagnostics that keep a plan from running."""
    return [diagnostic for diagnostic in found if diagnostic.severity == "error"]


def for_model(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return diagnostics with the hints that a model can follow: it writes plans, and no tools."""
    return [
        replace(diagnostic, hint=diagnostic.hint_for_model or diagnostic.hint)
        for diagnostic in diagnostics
    ]


def locate_diagnostics(diagnostics: Iterable[Diagnostic], document: Document) -> list[Diagnostic]:
    """Return the diagnostics with their spans, in the order of the text.

    A node that the text does not have, such as a missing field, is shown where the nearest node
    around it stands.
    """
    placed = [_locate(diagnostic, document) for diagnostic in diagnostics]
    return sorted(placed, key=lambda one: one.span.start if one.span is not None else -1)


def _locate(diagnostic: Diagnostic, document: Document) -> Diagnostic:
    if diagnostic.span is not None:
        return diagnostic
    pointer = _written_pointer(diagnostic.pointer, document)
    span = document.nearest_span(pointer, key=diagnostic.code in _CODES_ABOUT_KEYS)
    if span is not None and diagnostic.within is not None:
        span = _narrow_span(span, diagnostic.within, document)
    return replace(diagnostic, span=span)


_STEP_FIELD: Final = re.compile(r"(.*/steps/[0-9]+)/(params|for_each|tool)(/.*)?")


def _written_pointer(pointer: str, document: Document) -> str:
    """Return where a field of a step stands as it is written: `ask` is the params of a question,
    `dispatch` the list of a step that calls what data chooses.
    """
    place = _STEP_FIELD.fullmatch(pointer)
    if place is None or document.span(f"{place[1]}/{place[2]}") is not None:
        return pointer
    if document.span(f"{place[1]}/ask") is not None:
        return f"{place[1]}/ask{place[3] or ''}"
    name = "tools" if place[2] == "tool" else "dispatch"
    written = f"{place[1]}/{name}"
    if document.span(written) is None:
        return pointer
    return f"{written}{place[3] or ''}" if place[2] == "for_each" else written


def _narrow_span(span: Span, within: Span, document: Document) -> Span:
    """Return the part of a string's span, if the string stands in the source as it is, without
    escapes.
    """
    text = document.source.text[span.start : span.end]
    body = text[1:-1] if text[:1] in {'"', "'"} else text
    if "\\" in body or "\n" in body or "''" in body or within.end > len(body):
        return span
    start = span.start + (1 if body is not text else 0)
    return Span(start + within.start, start + max(within.end, within.start + 1))


def make_diagnostic(
    code: str,
    pointer: str,
    message: str,
    hint: str | None = None,
    *,
    within: Span | None = None,
    mend: Mend | None = None,
    related: tuple[RelatedPlace, ...] = (),
    hint_for_model: str | None = None,
) -> Diagnostic:
    """Return a diagnostic as grave as the catalogue says; `within` is the part of the node's text
    that is meant, `mend` the one change that the hint speaks of.
    """
    return Diagnostic(
        code,
        message,
        pointer,
        hint,
        severity=severity_of(code),
        within=within,
        given_mend=mend,
        related=related,
        hint_for_model=hint_for_model,
    )


def document_position(model: DocumentModel, pointer: str) -> tuple[int, ...]:
    """Return where a pointer's node stands in a model, as something to sort by.

    A node that is not there (a missing argument, a gate that was never written) stands at the end
    of its parent.
    """
    place: list[int] = []
    node: object = model
    for token in pointer_keys(pointer):
        number, node = _step_into(node, token)
        place.append(number)
    return tuple(place)


def _step_into(node: object, token: str) -> tuple[int, object]:
    if isinstance(node, DocumentModel):
        fields = type(node).model_fields
        for number, (name, field) in enumerate(fields.items()):
            if token in (name, field.alias):
                return number, getattr(node, name)
        return len(fields), None
    if isinstance(node, dict):
        members = cast("dict[str, object]", node)
        if token in members:
            return (list(members).index(token), members[token])
        return (len(members), None)
    if isinstance(node, list | tuple) and token.isdecimal():
        items = cast("Sequence[object]", node)
        number = int(token)
        return number, items[number] if number < len(items) else None
    return 0, None


_MAX_SHOWN = 8


def suggest_name(name: str, known: Collection[str], *, what: str) -> str | None:
    """Return the nearest name, or else the list of what there is.

    >>> from wavewright.planner import suggest_name
    >>> suggest_name("rnak", ["rank", "fetch"], what="tools")
    "did you mean 'rank'?"
    """
    return did_you_mean(name, known) or list_names(known, what=what)


def list_names(names: Iterable[str], *, what: str) -> str | None:
    """Return `what: a, b, c`, cut where it is long."""
    shown = sorted(names)
    if not shown:
        return None
    more = len(shown) - _MAX_SHOWN
    return f"{what}: " + ", ".join(shown[:_MAX_SHOWN]) + (f" and {more} more" if more > 0 else "")


def list_fields(schema: JsonSchema, *, what: str) -> str | None:
    """Return the properties of an object schema with their types, in the schema's order."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        return None
    shown = [f"{name}: {type_name(part)}" for name, part in properties.items()]
    more = len(shown) - 2 * _MAX_SHOWN
    return (
        f"{what}: " + ", ".join(shown[: 2 * _MAX_SHOWN]) + (f" and {more} more" if more > 0 else "")
    )


def type_name(schema: Json) -> str:
    """Return a schema's type in a word or two."""
    if not isinstance(schema, Mapping):
        return "any"
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(type_name({**schema, "type": name}) for name in kind)
    if kind == "array":
        items = schema.get("items")
        return f"list of {type_name(items)}" if isinstance(items, Mapping) and items else "list"
    if isinstance(kind, str):
        return kind
    for branches in (schema.get("anyOf"), schema.get("oneOf")):
        if isinstance(branches, list):
            return " or ".join(dict.fromkeys(map(type_name, branches)))
    options = schema.get("enum")
    if isinstance(options, list):
        return "one of " + ", ".join(map(value_text, options[:_MAX_SHOWN]))
    return "any"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def with_article(name: str) -> str:
    """Return a type's name with its article: `a string`, `an integer`, `null`."""
    if name in ("any", "null") or name.startswith("one of"):
        return name
    word = {"array": "list"}.get(name, name)
    return ("an " if word[0] in "aeio" else "a ") + word


def describe_parameter(name: str, schema: JsonSchema) -> str:
    """Return what a parameter takes, within which bounds, and what its tool says of it."""
    said = schema.get("description")
    explained = f" ({said})" if isinstance(said, str) and said else ""
    return f"{name!r} takes {with_article(type_name(schema))}{_bounds(schema)}{explained}"


def _bounds(schema: JsonSchema) -> str:
    for least, most, noun in (
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", "character"),
        ("minItems", "maxItems", "item"),
    ):
        low, high = schema.get(least), schema.get(most)
        if low is None and high is None:
            continue
        if high is None:
            return f" of at least {_bound(low, noun)}"
        if low is None:
            return f" of at most {_bound(high, noun)}"
        if not noun:
            return f" from {low} to {high}"
        return f" of {_bound(high, noun)}" if low == high else f" of {low} to {_bound(high, noun)}"
    return ""


def _bound(limit: Json, noun: str) -> str:
    return counted(limit, noun) if noun and isinstance(limit, int) else str(limit)


def value_text(value: Json) -> str:
    """Return a value as an author writes it, short enough for one line of a message."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return repr(value) if len(value) <= 60 else f"{value[:57]!r}… ({len(value)} characters)"
        case int() | float():
            return str(value) if len(str(value)) <= 30 else str(value)[:27] + "…"
        case list():
            return f"a list of {len(value)}" if value else "an empty list"
        case dict():
            return "an object" if value else "an empty object"
