"""Name types as authors do.

A *description* is short enough for a list of fields (`number`, `list of string`, `string or null`) and never the
schema itself.
"""

from __future__ import annotations

from wavewright.planner.cel_schemas import SchemaView, element_schema, view_schema

_MAX_LIST_DEPTH = 3


def describe_kind(what: SchemaView, depth: int = 0) -> str:
    """Return a kind as a field list shows it: `number`, `list of string`, `string or null`."""
    text = _described(what, depth)
    return f"{text} or null" if what.nullable and what.kind not in ("open", "null") else text


def _described(what: SchemaView, depth: int) -> str:
    match what.kind:
        case "open":
            return "any"
        case "array":
            inner = element_schema(what) if depth < _MAX_LIST_DEPTH else None
            of = describe_kind(view_schema(inner), depth + 1) if inner is not None else "any"
            return "list" if of == "any" else f"list of {of}"
        case "union":
            return " or ".join(dict.fromkeys(_described(branch, depth) for branch in what.branches))
        case _:
            return what.kind


def kind_with_article(what: SchemaView) -> str:
    """Return a kind as a sentence names it: `a number`, `an object`."""
    text = describe_kind(what)
    if text == "any":
        return "any value"
    if text == "null":
        return text
    return f"{'an' if text[0] in 'aeiou' and text != 'uint' else 'a'} {text}"
