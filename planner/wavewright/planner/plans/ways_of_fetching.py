"""Parameters that say which data is fetched, and those that only say how: `source`, `use_cache`."""

from __future__ import annotations

import re

from wavewright.planner.language.plan import Step
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.uses import reads_root
from wavewright.planner.types import Json, as_object, properties_of


def which_data(step: Step, tool: ToolSignature | None) -> dict[str, Json]:
    """Return the parameters of a fetch, defaults included, without those that only say how.

    What is not known to say how may ask for other data: the next page, a year, a region, a status.
    """
    properties = properties_of(tool.input_schema) if tool is not None else {}
    schemas = {name: as_object(schema) for name, schema in properties.items()}
    defaults = {name: schema["default"] for name, schema in schemas.items() if "default" in schema}
    return {
        name: value
        for name, value in {**defaults, **step.params}.items()
        if not says_how(name) or reads_root(value, "item")
    }


def says_how(parameter: str) -> bool:
    """Whether a parameter, by the words of its name, says how data is fetched: `use_cache`."""
    words = {word.lower() for word in _NAME_WORD.findall(parameter)}
    return bool(words & _WORDS_OF_HOW) and words <= _WORDS_OF_HOW | _WORDS_BESIDE_HOW


_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_WORDS_OF_HOW = frozenset(
    re.findall(
        r"\w+",
        "cache cached caching debug force forced format fresh live mirror proxy quiet raw refetch"
        " refresh reload retries retry source timeout verbose",
    )
)
_WORDS_BESIDE_HOW = frozenset(
    re.findall(
        r"\w+",
        "allow bypass data disable enable from ignore is max ms no of output s seconds skip ttl use"
        " with without",
    )
)
