"""JSON Pointers (RFC 6901) into a plan, and the order in which its nodes stand.

Diagnostics name places by *pointer*; file order is the order of the plan's fields, and of keys and items as the
author wrote them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from wavewright.planner.models import DocumentModel


def child_pointer(pointer: str, key: str | int) -> str:
    """Return the pointer of a member or an item."""
    return (
        f"{pointer}/{key}"
        if isinstance(key, int)
        else f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
    )


def pointer_tokens(pointer: str) -> list[str]:
    """Return the keys that a pointer consists of."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def document_position(model: DocumentModel, pointer: str) -> tuple[int, ...]:
    """Return where a pointer's node stands in a model, as something to sort by.

    A node that is not there (a missing argument, a gate that was never written) stands at the end of its parent.
    """
    place: list[int] = []
    node: object = model
    for token in pointer_tokens(pointer):
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
        return (list(members).index(token), members[token]) if token in members else (len(members), None)
    if isinstance(node, list | tuple) and token.isdecimal():
        items = cast("Sequence[object]", node)
        number = int(token)
        return number, items[number] if number < len(items) else None
    return 0, None
