"""The plan of one tool over a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from wavewright.config import WavewrightError, exit_codes
from wavewright.engine.interfaces.api.given_functions import with_function
from wavewright.engine.interfaces.api.loaded_plan import LoadedPlan, ToolSource, named_values
from wavewright.engine.run.project.tools import tools_of_plan
from wavewright.planner import ExpressionError, Json, Plan, Step, StepId, as_list, as_object
from wavewright.planner.cel.embedded import iterate_strings, reads
from wavewright.planner.checks.types import incompatibility
from wavewright.planner.language.plan import LIMITS_OF_OWN_PLANS
from wavewright.planner.plans.uses import embedded_uses
from wavewright.tools.functions.results import written_as_json


class ItemsRefused(WavewrightError):
    """A tool cannot be called for each of these items."""

    exit_code = exit_codes.MISUSE
    is_shown_whole = True


STEP: Final = StepId("calls")
"""The step of the plan."""


def plan_over_items(
    new_plan: Callable[[Mapping[str, object]], LoadedPlan],
    tool: ToolSource,
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
    rows = as_list(written_as_json(listed, "`items`"))
    plan = new_plan({"items": rows})
    named = named_values(params, "`params`")
    shared = as_object(written_as_json(dict(named), "`params`"))
    if not any(_may_read_item(text) for _, text in iterate_strings(shared)):
        shared = {_item_parameter(plan, tool, params, rows): "${item}", **shared}
    # Whoever gives the list has chosen its length, and a retry may give a longer one.
    fields: dict[str, object] = {
        "for_each": "${inputs.items}",
        "max_items": LIMITS_OF_OWN_PLANS.max_items,
    }
    if min_ok is not None:
        fields["min_ok"] = min_ok
    if concurrency is not None:
        fields["concurrency"] = concurrency
    return plan.step(STEP, tool, shared, **fields).returns(f"${{steps.{STEP}}}")


def _may_read_item(text: str) -> bool:
    """Whether a text says where an item goes; one that cannot be read may have meant to, and its
    index alone says nothing.
    """
    try:
        return any(
            read.root == "item"
            for use in embedded_uses(text, "", "params")
            for read in reads(use.expression)
        )
    except ExpressionError:
        # The check of the plan names the fault; another parameter is not filled for it.
        return True


def _item_parameter(
    plan: LoadedPlan,
    tool: ToolSource,
    named: Iterable[str],
    items: Sequence[Json],
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
    first = free[0]
    if (
        items
        and all(isinstance(item, dict) for item in items)
        and (misfit := incompatibility({"type": "object"}, as_object(properties[first])))
    ):
        # Which field is which parameter is not guessed: a row may have a name by chance.
        row = as_object(items[0])
        read = {field: f"${{item.{field}}}" for field in free if field in row}
        raise ItemsRefused(
            f"the items are rows, and {first!r} of {name!r} takes none: {misfit}",
            f"say what is read of a row: params={read or {first: '${item.FIELD}'}}",
        )
    return first
