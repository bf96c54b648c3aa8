r"""Half characters, which JSON can hold and no wire can.

A *lone surrogate* is what a tool or a model writes as `\ud83d` without its other half. What is sent to a model has a
question mark in its place, so that nobody's slip keeps a question from being asked.
"""

from __future__ import annotations

from wavewright.planner.types import Json


def encodable_text(text: str) -> str:
    """Return a text that can be sent."""
    return text.encode("utf-8", "replace").decode("utf-8")


def encodable_json(value: Json) -> Json:
    """Return a value whose texts can be sent."""
    match value:
        case str():
            return encodable_text(value)
        case list():
            return [encodable_json(one) for one in value]
        case dict():
            return {encodable_text(key): encodable_json(one) for key, one in value.items()}
        case _:
            return value
