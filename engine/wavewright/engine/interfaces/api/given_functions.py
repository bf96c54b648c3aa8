"""Which tool a step calls that is given a function: always that very function."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from types import MethodType
from typing import cast

from wavewright.config import Settings, WavewrightError
from wavewright.planner import as_object
from wavewright.planner.language.signatures import ASK_PERSON
from wavewright.tools import Tool, UserFunction, load_user_tools, make_tool, pack_names
from wavewright.tools.functions.code import code_hash
from wavewright.tools.functions.registry import name_of
from wavewright.tools.packs import is_listed, pack_tool_names


def with_function(settings: Settings, given: object) -> tuple[Settings, str]:
    """Return settings that have a function, or a tool made of one, and the name to call it by.

    What is registered is called by its name. Another function is added, under a name of its own
    where its own is taken: a cell of a notebook that runs again makes a new function.

    Raises:
        WavewrightError: the name is that of a tool with options, which a bare function would lose.
    """
    taken = dict[str, object]()
    for name, known, function in _registered(settings):
        if known is given or _is_same(function, given):
            return settings, name
        taken[name] = known
    # A plan finds a tool by its name alone: what means another thing in it is taken, too.
    taken = {**dict.fromkeys((ASK_PERSON, *_names_of_packs(settings))), **taken}
    name = name_of(given)
    if name not in taken:
        return replace(settings, functions=(*settings.functions, given)), name
    if isinstance(given, Tool):
        raise WavewrightError(
            f"{name!r} is the name of another tool already", "give one of the two another name"
        )
    # A bare function asks nobody and counts as one that only reads: options are not dropped
    # unseen.
    if isinstance(taken[name], Tool):
        raise WavewrightError(
            f"the function given as {name!r} is not the one behind the tool {name!r}",
            f"make the tool anew with `make_tool`, or name it: `.step(…, {name!r})`",
        )
    free = next(free for n in count(2) if (free := f"{name}_{n}") not in taken)
    tool = make_tool(cast("UserFunction", given), name=free)
    return replace(settings, functions=(*settings.functions, tool)), free


def _names_of_packs(settings: Settings) -> Iterator[str]:
    """Yield the names of the tools that packs bring."""
    for pack in pack_names():
        if is_listed(pack, settings.packs):
            yield from pack_tool_names(pack, as_object(settings.packs.get(pack)), settings.root)


def _registered(settings: Settings) -> Iterator[tuple[str, object, object]]:
    """Yield each function of a program and of its project: its name, what was given, the function."""
    for known in settings.functions:
        yield name_of(known), known, known.function if isinstance(known, Tool) else known
    for tool in load_user_tools(settings.tools, settings.root) if settings.tools else ():
        yield tool.signature.name, tool, tool.function


def _is_same(known: object, given: object) -> bool:
    if isinstance(known, MethodType):
        # Each look-up of a method makes a new object.
        return known == given
    if known is given:
        return True
    # A project's file is imported under a name of its own, so a program has its functions twice.
    of_project = str(getattr(known, "__module__", "")).startswith("wavewright_user_tools_")
    return of_project and bool(code := code_hash(known)) and code == code_hash(given)
