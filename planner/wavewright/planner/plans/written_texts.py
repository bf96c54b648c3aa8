"""Where expressions stand in the document of a plan, as its author wrote it.

`plan_texts` of `uses` has those of what the document is read as: there the names of `let` stand for
their values, and `ask` and `dispatch` are calls of tools.
"""

from __future__ import annotations

from collections.abc import Iterator

from wavewright.config.sources import pointer_keys
from wavewright.planner.cel.embedded import iterate_strings
from wavewright.planner.plans.uses import ExpressionRole, ExpressionText
from wavewright.planner.types import Json


def written_texts(plan: Json) -> Iterator[ExpressionText]:
    """Yield every text of a plan's document that may hold an expression, with its place there."""
    for pointer, text in iterate_strings(plan):
        role = role_of_place(pointer)
        if role is not None:
            yield ExpressionText(pointer, text, role)


def role_of_place(pointer: str) -> ExpressionRole | None:
    """Return what an expression is for that stands at a place of a plan's document; None where a
    text holds none.
    """
    match pointer_keys(pointer):
        case ["steps", _, "when"]:
            return "when"
        case ["steps", _, "params" | "ask", *_] | ["steps", _, "repeat", "params", *_]:
            return "params"
        case ["steps", _, "for_each" | "dispatch", *_]:
            return "for_each"
        case ["gates", _, "check"]:
            return "gate"
        # `until` is asked of a whole run of a sub-plan, so there is no item, as in a cap.
        case ["steps", _, "repeat", "until"] | ["caps", _, "when"] | ["stop", "when"]:
            return "cap"
        case ["let" | "result", *_] | ["stop", "result", *_]:
            return "result"
        case _:
            return None
