"""The plan of one tool over a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError
from wavewright.engine.interfaces.api.given_functions import with_function
from wavewright.engine.interfaces.api.loaded_plan import LoadedPlan, named_values
from wavewright.engine.run.project.tools import tools_of_plan
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.types import Json, StepId, as_list, as_object
from wavewright.tools.functions.results import written_as_json
from wavewright.tools.functions.tool import Tool


class ItemsRefused(WavewrightError):
    """A tool cannot be called for each of these items."""

    exit_code = exit_codes.MISUSE
    is_shown_whole = True


STEP: Final = StepId("calls")
"""The step of the plan."""


def plan_over_items(
    new_plan: Callable[[Mapping[str, object]], LoadedPlan],
    tool: str | Callable[..., object] | Tool,
    items: Iterable[object],
    params: Mapping[str, object],
    *,
    min_ok: int | None,
    concurrency: int | None,
) -> LoadedPlan:
    """Return the plan that calls a tool once for each item, whose result is the list of outputs.

    An item is the first parameter that `params` does not name, unless they read it as `${item}`.

    Raises:
        ItemsRefused: the items are no list, or the tool has no parameter for them.
        ToolError: an item or a parameter has no JSON form.
        TypeError: `params` are no dict.
    """
    if isinstance(items, str | bytes | Mapping):
        kind = "text" if isinstance(items, str | bytes) else "a mapping"
        raise ItemsRefused(
            f"the items are {kind}, not a list",
            "give a list, a table or anything else that yields one item after another",
        )
    if not isinstance(items, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - of a caller
        raise ItemsRefused(
            f"the items are {items!r}, not a list", "give one item as a list of one: `[item]`"
        )
    # A table of pandas is a list of rows as it stands; whatever else can be iterated is listed.
    listed = items if hasattr(items, "to_dict") else [*items]
    plan = new_plan({"items": listed})
    assert plan.document is not None
    inputs = as_object(as_object(plan.document.value).get("inputs"))
    count = len(as_list(inputs.get("items")))
    named = named_values(params, "`params`")
    shared = as_object(written_as_json(dict(named), "`params`"))
    if not any("${item" in text for text in _texts(shared)):
        shared = {_item_parameter(plan, tool, params): "${item}", **shared}
    fields: dict[str, object] = {"for_each": "${inputs.items}", "max_items": max(1, count)}
    if min_ok is not None:
        fields["min_ok"] = min(min_ok, count)
    if concurrency is not None:
        fields["concurrency"] = concurrency
    return plan.step(STEP, tool, shared, **fields).returns(f"${{steps.{STEP}}}")


def _texts(value: Json) -> list[str]:
    """Return the texts in a value of JSON."""
    match value:
        case str():
            return [value]
        case list():
            return [text for part in value for text in _texts(part)]
        case dict():
            return [text for part in value.values() for text in _texts(part)]
        case _:
            return []


def _item_parameter(
    plan: LoadedPlan, tool: str | Callable[..., object] | Tool, named: Iterable[str]
) -> str:
    settings, name = plan.settings, tool
    if not isinstance(name, str):
        settings, name = with_function(settings, tool)
    step = Step.model_construct(id=STEP, tool=name, params={})
    known = tools_of_plan(Plan.model_construct(steps=(step,)), settings)
    if name not in known:
        # The plan says so by its own diagnostic, with the nearest name.
        return "item"
    properties = as_object(known[name].signature.input_schema.get("properties"))
    free = [parameter for parameter in properties if parameter not in {*named}]
    if not free:
        raise ItemsRefused(
            f"the tool {name!r} has no parameter for the items",
            "name where an item goes: params={'…': '${item}'}",
        )
    return free[0]
