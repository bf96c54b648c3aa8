"""Which of the installed packs a project uses, for lists that people read.

A pack is used where the settings configure it, or where a document of the project names one of its
tools or goal templates. Any pack may be named all the same, used or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from wavewright.config.settings import Settings
from wavewright.planner.types import as_object
from wavewright.tools.functions.user_tools import load_user_tools
from wavewright.tools.pack_folders import templates_by_pack
from wavewright.tools.packs import PackError, load_pack, pack_names, pack_tool_names

_PLACES: Final = ("*", "plans/**/*", "config/**/*", "jobs/**/*")
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json", ".toml"})
_MAX_FILES: Final = 500
_MAX_BYTES: Final = 200_000
"""Of a document that is looked into."""
_FIELD: Final = re.compile(r"""\b(?:tool|name|goal_template)["']?\s*:\s*["']?([A-Za-z_][\w.]*)""")
_ENTRY: Final = re.compile(r"""[-,\[]\s*["']?([A-Za-z_][\w.]*)""")
"""What a document may name a tool or a template by: the value of a field, or an entry of a list."""


def used_packs(settings: Settings) -> tuple[str, ...]:
    """Return the packs that a project uses, sorted."""
    named = _names_in_documents(settings.root)
    templates = templates_by_pack()
    used: list[str] = []
    for pack in pack_names():
        tools = _tools_of(pack, settings)
        names = {*templates[pack], *tools, *(f"{pack}.{tool}" for tool in tools)}
        if pack in {*settings.packs, settings.daemon.pack} or not named.isdisjoint(names):
            used.append(pack)
    return tuple(used)


def templates_of_unused_packs(settings: Settings) -> frozenset[str]:
    """Return the names of the goal templates that only packs bring which a project does not use."""
    used, templates = used_packs(settings), templates_by_pack()
    own = {path.stem for folder in settings.templates for path in folder.glob("*.yaml")}
    kept = own.union(*(templates[pack] for pack in used))
    return frozenset[str]().union(*templates.values()) - kept


def tools_of_unused_packs(settings: Settings) -> frozenset[str]:
    """Return the short and the full names of the tools that only packs bring which a project does
    not use.

    Raises:
        ToolDefinitionError: the project's own tools are faulty.
    """
    used = used_packs(settings)
    unused = {pack: _tools_of(pack, settings) for pack in pack_names() if pack not in used}
    full = {f"{pack}.{tool}" for pack, tools in unused.items() for tool in tools}
    short = {tool for tools in unused.values() for tool in tools}
    own = {tool.signature.name for tool in load_user_tools(settings.tools, settings.root)}
    kept = own | {tool for pack in used for tool in _tools_of(pack, settings)}
    return frozenset(full | short - kept)


def _tools_of(pack: str, settings: Settings) -> tuple[str, ...]:
    given = as_object(settings.packs.get(pack))
    try:
        workers = load_pack(pack, given, settings.root).workers
    except PackError:
        # What is wrong with it is said where it is used.
        return ()
    names = pack_tool_names(pack, given, settings.root)
    return (*names, *(worker.spec.name for worker in workers))


def _names_in_documents(root: Path) -> frozenset[str]:
    texts = [*_documents(root)]
    patterns = (_FIELD, _ENTRY)
    return frozenset(name for text in texts for found in patterns for name in found.findall(text))


def _documents(root: Path) -> Iterator[str]:
    """Yield the texts of a project's settings, plans, jobs and goal templates."""
    left = _MAX_FILES
    for place in _PLACES:
        for file in sorted(root.glob(place)):
            if file.suffix not in _SUFFIXES or not left:
                continue
            try:
                if file.is_file() and file.stat().st_size <= _MAX_BYTES:
                    left -= 1
                    yield file.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
