"""The tools of a run: the project's own functions, and what the packs bring."""

from __future__ import annotations

from pathlib import Path

from wavewright.config.settings import Settings
from wavewright.planner.goals import Goal
from wavewright.planner.models import Plan
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.suggestions import choice
from wavewright.planner.types import Json, JsonObject
from wavewright.tools.calls import Tool
from wavewright.tools.packs import PackError, load_pack, pack_names
from wavewright.tools.registry import Registry
from wavewright.tools.user_tools import load_user_tools


def gather_tools(goal: Goal, settings: Settings) -> Registry:
    """Return the tools that the goal allows; one that nobody brings is left out, and the checker reports it.

    Raises:
        ToolDefinitionError: a function of the project cannot be a tool.
        PackError: a pack cannot be imported or refuses its settings.
    """
    return _named_tools(goal.tool_names, goal.packs, settings)


def signatures_to_check(plan: Plan, goal: Goal, settings: Settings) -> dict[str, ToolSignature]:
    """Return the signatures of the tools that the goal allows, and of those that the plan names beside them.

    A tool that exists and is not allowed is another fault than one that nobody brings.

    Raises:
        ToolDefinitionError, PackError: as in `gather_tools`.
    """
    names = goal.tool_names | {step.tool for step in plan.steps}
    return _named_tools(names, goal.packs, settings).signatures


def tools_of_plan(plan: Plan, settings: Settings) -> Registry:
    """Return the tools that a plan names, as far as the project or a pack brings them."""
    packs: JsonObject = {
        name: {"settings": given, "root": str(settings.root), "file": str(settings.file)}
        for name, given in settings.packs.items()
    }
    return _named_tools(frozenset(step.tool for step in plan.steps), packs, settings)


def all_tools(settings: Settings) -> Registry:
    """Return every tool of the project and of the installed packs.

    Raises:
        ToolDefinitionError, PackError: as in `gather_tools`.
    """
    _refuse_unknown_packs(settings)
    own = load_user_tools(settings.tools, settings.root)
    taken = {tool.signature.name for tool in own}
    brought = [
        tool
        for name in pack_names()
        for tool in _load(name, _object(settings.packs.get(name)), settings.root, str(settings.file))
        if tool.signature.name not in taken
    ]
    return Registry([*own, *brought])


def _named_tools(names: frozenset[str], packs: JsonObject, settings: Settings) -> Registry:
    _refuse_unknown_packs(settings)
    own = {tool.signature.name: tool for tool in load_user_tools(settings.tools, settings.root)}
    found = [own[name] for name in sorted(names & own.keys())]
    missing = set(names - own.keys())
    for pack in (*sorted(packs), *(name for name in pack_names() if name not in packs)):
        if not missing:
            break
        brought = [tool for tool in _pack_tools(pack, packs, settings) if tool.signature.name in missing]
        found += brought
        missing -= {tool.signature.name for tool in brought}
    return Registry(found)


def _pack_tools(name: str, packs: JsonObject, settings: Settings) -> tuple[Tool, ...]:
    entry = _object(packs.get(name))
    root = Path(str(entry["root"])) if "root" in entry else settings.root
    file = str(entry["file"]) if "file" in entry else None
    return _load(name, _object(entry.get("settings")), root, file)


def _load(name: str, given: JsonObject, root: Path, file: str | None) -> tuple[Tool, ...]:
    try:
        return load_pack(name, given, root).tools
    except PackError as error:
        # The pack was handed its settings and knows not where they stand.
        raise PackError(str(error), hint=error.hint, place=file if given else None) from error


def _refuse_unknown_packs(settings: Settings) -> None:
    """Raise an error where the settings name a pack that is not installed."""
    if not settings.packs:
        return
    known = pack_names()
    for name in settings.packs:
        if name not in known:
            message = f"there is no pack {name!r}"
            raise PackError(
                message, hint=choice(name, known, what="installed packs"), place=str(settings.file)
            )


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}
