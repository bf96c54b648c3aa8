"""A plan, its goal, its tools and its estimate under one checksum, to be run exactly as they were
inspected.

A *saved plan* is a JSON file that `wavewright dry-run --out` writes and `wavewright run` executes.
It is refused if the file was changed, or if a tool that it calls has changed: each such tool is
named with the parts of its signature that differ. Later changes of the job's own files have no
effect on it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from pydantic import ValidationError

from wavewright.config import Document, WavewrightError, exit_codes
from wavewright.planner import (
    Goal,
    Json,
    JsonObject,
    Plan,
    ToolSignature,
    ToolSignatures,
    canonical_json,
    content_hash,
    plan_hash,
)
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.language.json_values import json_changes
from wavewright.planner.plans.binding import bind_plan

FORMAT: Final = "wavewright/saved-plan/1"
_SAVE_AGAIN_HINT: Final = (
    "inspect it again: `wavewright dry-run JOB --out FILE` saves the plan as it is now"
)


class SavedPlanError(WavewrightError):
    """A saved plan cannot be run as it was saved; the message says what differs."""

    exit_code = exit_codes.NEGATIVE

    def __init__(self, message: str, *, place: str, hint: str = _SAVE_AGAIN_HINT) -> None:
        super().__init__(message, hint, place=place)


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """The content of a saved plan's file, with its checksum verified."""

    goal: Goal
    plan: Plan
    """Bound to the goal."""
    plan_hash: str
    rung: str
    """Which rung of the ladder made the plan."""
    tools: ToolSignatures
    """The tools that it calls, as they were."""
    name: str
    """Of the file."""

    def check_tools(self, tools: ToolSignatures) -> None:
        """Compare the saved signatures with those of the tools as they are now.

        Raises:
            SavedPlanError: a tool has changed; every one is named with what differs.
        """
        changed = list[str]()
        for name, saved in self.tools.items():
            change = _change(saved, tools.get(name))
            if change is not None:
                changed.append(f"{name}: {change}")
        if changed:
            count = counted(len(changed), "tool")
            message = "\n  ".join([f"{count} changed since the plan was saved", *changed])
            raise SavedPlanError(message, place=self.name)
        # A newer version may bind other gates or caps to it than those that were inspected.
        if plan_hash(bind_plan(self.plan, self.goal)) != self.plan_hash:
            message = "this version of wavewright binds it to another plan"
            raise SavedPlanError(message, place=self.name)


def save_plan(
    plan: Plan,
    goal: Goal,
    tools: Iterable[ToolSignature],
    *,
    rung: str,
    estimate: JsonObject,
    root: Path,
) -> JsonObject:
    """Return the content of a saved plan's file; paths below the project's root are stored relative
    to it.
    """
    content: JsonObject = {
        "format": FORMAT,
        "goal": {**_plain_object(goal), "packs": _with_moved_paths(goal.packs, root, _relative)},
        "plan": cast("JsonObject", plan.model_dump(mode="json", by_alias=True, exclude_unset=True)),
        "plan_hash": plan_hash(plan),
        "rung": rung,
        "tools": {
            tool.name: {
                "version": tool.version,
                "signature": content_hash(signature_json(tool)),
                "contract": signature_json(tool),
            }
            for tool in sorted(tools, key=lambda tool: tool.name)
        },
        "estimate": estimate,
    }
    return {**content, "checksum": content_hash(content)}


def read_saved_plan(document: Document, root: Path) -> SavedPlan:
    """Return the content of a saved plan's file.

    Raises:
        SavedPlanError: it was changed after it was saved, or is of another format.
    """
    name = document.source.name
    value = document.value
    assert isinstance(value, dict)
    if value.get("format") != FORMAT:
        message = (
            f"it is a saved plan of another version ({value['format']}); this one reads {FORMAT}"
        )
        raise SavedPlanError(message, place=name)
    content = {key: part for key, part in value.items() if key != "checksum"}
    if value.get("checksum") != content_hash(content):
        raise SavedPlanError(
            f"the file was changed after it was saved: {_changed_part(value)}", place=name
        )
    try:
        saved = cast("dict[str, dict[str, JsonObject]]", value["tools"])
        goal = Goal.model_validate(value["goal"])
        return SavedPlan(
            goal=goal.model_copy(update={"packs": _with_moved_paths(goal.packs, root, _absolute)}),
            plan=Plan.model_validate(value["plan"]),
            plan_hash=str(value["plan_hash"]),
            rung=str(value["rung"]),
            tools={
                tool: ToolSignature.model_validate(part["contract"]) for tool, part in saved.items()
            },
            name=name,
        )
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        # The checksum is right: the file was written by hand or by another version.
        raise SavedPlanError("this version cannot read the saved plan", place=name) from error


def signature_json(tool: ToolSignature) -> JsonObject:
    """Return a signature in the form that is hashed: without fields at their default, with sets
    sorted.
    """
    return _plain_object(tool, exclude_defaults=True)


def _changed_part(value: JsonObject) -> str:
    """Return which part of the file was changed, as far as the hashes in it show."""
    plan, tools = value.get("plan"), value.get("tools")
    try:
        if plan_hash(Plan.model_validate(plan)) != value.get("plan_hash"):
            return "the plan"
    except ValidationError:
        return "the plan"
    if isinstance(tools, dict):
        for name, part in tools.items():
            contract = part.get("contract") if isinstance(part, dict) else None
            if not isinstance(part, dict) or part.get("signature") != content_hash(contract):
                return f"tool {name!r}"
    return "a part without a checksum of its own"


def _change(saved: ToolSignature, now: ToolSignature | None) -> str | None:
    """Return the differences between two signatures of a tool as text; None if there are none."""
    if now is None:
        return "no longer exists"
    before, after = _plain_object(saved), _plain_object(now)
    changes = [
        difference
        for field in before
        for difference in _differences(field, before[field], after.get(field))
    ]
    return "; ".join(changes) or None


_MAX_DIFFERENCES = 3


def _differences(field: str, before: Json, after: Json) -> list[str]:
    """Return the first few differences between two values of a field."""
    changes = [change.describe() for change in json_changes(before, after, (field,))]
    shown = changes[:_MAX_DIFFERENCES]
    if len(changes) > _MAX_DIFFERENCES:
        shown.append(f"and {len(changes) - _MAX_DIFFERENCES} more")
    return shown


def _plain_object(model: Goal | ToolSignature, *, exclude_defaults: bool = False) -> JsonObject:
    dumped = model.model_dump(by_alias=True, exclude_defaults=exclude_defaults)
    return {name: _plain(value) for name, value in dumped.items()}


def _plain(value: object) -> Json:
    """Return a value as JSON that is the same in every process: sets are sorted."""
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return {str(name): _plain(member) for name, member in members.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(_plain, cast("frozenset[object]", value)), key=canonical_json)
    if isinstance(value, list | tuple):
        return [_plain(member) for member in cast("tuple[object, ...]", value)]
    return value.isoformat() if isinstance(value, dt.datetime) else cast("Json", value)


def _with_moved_paths(
    packs: JsonObject, root: Path, move: Callable[[Json, Path], Json]
) -> JsonObject:
    """Return the settings of packs with their paths moved, so that they are valid in another
    checkout.
    """
    moved = dict(packs)
    for name, entry in packs.items():
        if isinstance(entry, dict):
            own = dict(entry)
            for key in {"root", "file"} & entry.keys():
                own[key] = move(entry[key], root)
            moved[name] = own
    return moved


def _relative(path: Json, root: Path) -> Json:
    whole, base = Path(str(path)).resolve(), root.resolve()
    return whole.relative_to(base).as_posix() if whole.is_relative_to(base) else str(path)


def _absolute(path: Json, root: Path) -> Json:
    return str(root.resolve() / str(path))
