"""Feedback on a rejected package, as an input of the run.

*Feedback* is the list of texts with which a validator rejects a package. It becomes an input of the
plan (`feedback_1` for the first package), which steps read like any other value; the texts decide
nothing. A recipe matches a remark by its field and by words in it; what it does is the template's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wavewright.planner import Goal, Json, JsonObject, as_object
from wavewright.planner.language.goals import Recipe
from wavewright.planner.language.signatures import FEEDBACK_PARAM, is_feedback_input

_FEEDBACK_SCHEMA: Final[JsonObject] = {"type": "array", "items": {"type": "string"}}


def feedback_input(package: int) -> str:
    """Return the name of the input that holds the feedback on a package.

    Each package has its own input: what a finished step has read never changes.
    """
    return f"{FEEDBACK_PARAM}_{package}"


def is_feedback(param: str, value: Json) -> bool:
    """Whether a parameter is what `patch_from_feedback` gives a step."""
    if param != FEEDBACK_PARAM or not isinstance(value, str):
        return False
    name = value.removeprefix("${inputs.").removesuffix("}")
    return value == f"${{inputs.{name}}}" and is_feedback_input(name)


def with_feedback_input(goal: Goal, package: int, texts: Sequence[str]) -> Goal:
    """Return the goal of a run whose package was rejected, with the texts as an input.

    Each rejection allows one more patch beside the recovery rounds.
    """
    name = feedback_input(package)
    schema: JsonObject = dict(goal.inputs_schema)
    declared = schema.get("properties")
    if schema:
        schema["properties"] = {**as_object(declared), name: _FEEDBACK_SCHEMA}
    listed: list[Json] = [*texts]
    return goal.model_copy(
        update={
            "inputs": {**goal.inputs, name: listed},
            "inputs_schema": schema,
            "limits": goal.limits.model_copy(update={"rounds": goal.limits.rounds + 1}),
        }
    )


def recipes_for_feedback(goal: Goal, texts: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers of the goal's recipes for some of the texts; field and words match in one
    remark.
    """
    return tuple(
        number
        for number, recipe in enumerate(goal.recipes)
        if recipe.on == "feedback" and any(_is_about(text, recipe) for text in texts)
    )


def _is_about(text: str, recipe: Recipe) -> bool:
    if recipe.says is not None and recipe.says.lower() not in text.lower():
        return False
    if recipe.field is None:
        return True
    # A remark begins with the path of its field: `entries.0.title: too long`.
    names, patterns = text.partition(": ")[0].split("."), recipe.field.split(".")
    return len(names) == len(patterns) and all(
        pattern in ("*", name) for name, pattern in zip(names, patterns, strict=True)
    )
