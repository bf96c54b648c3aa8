"""Which of the installed packs a project uses, for lists that people read.

A pack is used where the settings configure it, or where a document of the project names one of its
tools or goal templates. Any pack may be named all the same, used or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from wavewright.config import Settings
from wavewright.engine.run.project.tools import all_tools
from wavewright.planner import as_object
from wavewright.planner.language.plan import ASK_MODEL
from wavewright.planner.language.signatures import AGENT, ASK_PERSON
from wavewright.tools import PackError, load_user_tools, pack_names
from wavewright.tools.pack_folders import templates_by_pack
from wavewright.tools.packs import pack_tool_names

_PLACES: Final = ("*", "plans/**/*", "config/**/*", "jobs/**/*")
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json", ".toml"})
_MAX_FILES: Final = 500
_MAX_BYTES: Final = 200_000
"""Of a document that is looked into."""
_FIELD: Final = re.compile(r"""\b(?:tool|name|goal_template)["']?\s*:\s*["']?([A-Za-z_][\w.]*)""")
_ENTRY: Final = re.compile(r"""[-,\[]\s*["']?([A-Za-z_][\w.]*)""")
"""What a document may name a tool or a template by: the value of a field, or an entry of a list."""


@dataclass(frozen=True, slots=True)
class PackUse:
    """Which of the installed packs a project uses, and what each of them brings."""

    settings: Settings
    """Those of the project."""
    used: tuple[str, ...]
    """Their names, sorted."""
    unused: tuple[str, ...]
    tools: Mapping[str, frozenset[str]]
    """Of each pack the short names of its tools and workers."""
    templates: Mapping[str, frozenset[str]]
    """Of each pack the names of its goal templates."""

    def tools_of_unused(self) -> frozenset[str]:
        """Return the short and the full names of the tools that only unused packs bring.

        Raises:
            ToolDefinitionError: the project's own tools are faulty.
        """
        full = {f"{pack}.{tool}" for pack in self.unused for tool in self.tools[pack]}
        short = {tool for pack in self.unused for tool in self.tools[pack]}
        own = {
            tool.signature.name for tool in load_user_tools(self.settings.tools, self.settings.root)
        }
        kept = own.union(*(self.tools[pack] for pack in self.used))
        return frozenset(full | short - kept)

    def templates_of_unused(self) -> frozenset[str]:
        """Return the names of the goal templates that only unused packs bring."""
        own = {path.stem for folder in self.settings.templates for path in folder.glob("*.yaml")}
        kept = own.union(*(self.templates[pack] for pack in self.used))
        return frozenset[str]().union(*self.templates.values()) - kept


def project_tools(settings: Settings, packs: Iterable[str] = ()) -> list[str]:
    """Return the names of the tools that a goal in words is planned with: the project's own, its
    servers', and those of the packs that it uses or that are named here; those of all packs where
    there are no others.

    A question to a model may stand in each such plan, an agent or a question to a person is asked
    for by name.

    Raises:
        ToolDefinitionError, PackError: as in `all_tools`.
    """
    configured = {**{pack: {} for pack in packs}, **settings.packs}
    unused = pack_use(replace(settings, packs=configured)).unused
    tools = all_tools(settings, without=unused)
    if not tools.keys() - {ASK_MODEL, AGENT, ASK_PERSON}:
        tools = all_tools(settings)
    return [name for name in tools if name not in {AGENT, ASK_PERSON}]


def pack_use(settings: Settings) -> PackUse:
    """Import every installed pack and look into the documents of a project for what it brings."""
    named = _names_in_documents(settings.root)
    templates = {pack: frozenset(names) for pack, names in templates_by_pack().items()}
    tools = {pack: _tools_of(pack, settings) for pack in pack_names()}

    def is_used(pack: str) -> bool:
        # A pack that is configured is meant, named in a document or not.
        if pack in settings.packs or pack == settings.daemon.pack:
            return True
        full = {f"{pack}.{tool}" for tool in tools[pack]}
        return not named.isdisjoint(templates[pack] | tools[pack] | full)

    used = tuple(pack for pack in pack_names() if is_used(pack))
    unused = tuple(pack for pack in pack_names() if pack not in used)
    return PackUse(settings, used, unused, tools, templates)


def _tools_of(pack: str, settings: Settings) -> frozenset[str]:
    try:
        return pack_tool_names(pack, as_object(settings.packs.get(pack)), settings.root)
    except PackError:
        # What is wrong with it is said where it is used.
        return frozenset()


def _names_in_documents(root: Path) -> frozenset[str]:
    names = set[str]()
    for text in _documents(root):
        names.update(_FIELD.findall(text), _ENTRY.findall(text))
    return frozenset(names)


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
