"""Packs: tools and goal templates that come together under one name.

A *pack* is found by its entry point in the group `wavewright.packs`; the engine knows no pack by
name. A pack is imported only when a job or a plan needs it, or to see whether it brings a tool of
the same name as another; a module that names its tools in `TOOL_NAMES` is not asked for the pack
then. Its goal templates lie in the folder `goals` beside its module, its prompts in the folder
`prompts`.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, TypeVar, cast

from pydantic import ValidationError

from wavewright.config import (
    DocumentError,
    WavewrightError,
    exit_codes,
    is_installed,
    read_document_file,
)
from wavewright.config.installation import EXTRAS
from wavewright.config.model_validation import read_as_model
from wavewright.planner import JsonObject, JsonSchema
from wavewright.tools.functions.tool import Tool
from wavewright.tools.pack_folders import entry_points_of_packs

if TYPE_CHECKING:
    from pydantic import BaseModel
    from starlette.types import ASGIApp

    from wavewright.tools.message_contract import MessageContract
    from wavewright.tools.workers.named_agents import AgentSpec
    from wavewright.tools.workers.specs import Worker

_Model = TypeVar("_Model", bound="BaseModel")


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool of an MCP server: its name, description and schemas are those of the function.

    >>> from pydantic import BaseModel
    >>> from wavewright.tools import ServerTool
    >>> class Zones(BaseModel):
    ...     names: list[str]
    >>> async def list_zones() -> Zones:
    ...     "List the zones."
    ...     return Zones(names=["Harrow Fen"])
    >>> ServerTool(list_zones, only_reads=True).destroys
    False
    """

    function: Callable[..., Awaitable[BaseModel]]
    """What it raises as `WavewrightError` is told to the client."""
    only_reads: bool = False
    destroys: bool = False
    """Whether a call deletes what no other call brings back; any call may be repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackServer:
    """An MCP server that a pack brings: `wavewright mcp NAME` serves it.

    >>> from contextlib import asynccontextmanager
    >>> from wavewright.tools import PackServer
    >>> @asynccontextmanager
    ... async def open_store():
    ...     yield {"reader": ()}
    >>> PackServer(instructions="Zones by name.", roles=("reader",), open=open_store).roles
    ('reader',)
    """

    instructions: str
    """What clients are told about it."""
    roles: tuple[str, ...]
    """Who connects: each role has tools of its own, and over HTTP a token of its own."""
    open: Callable[[], AbstractAsyncContextManager[Mapping[str, Sequence[ServerTool]]]]
    """Open what the tools work on and yield those of each role."""


@dataclass(frozen=True, slots=True)
class PackPage:
    """A page that a pack brings: `wavewright play` serves it.

    >>> from contextlib import asynccontextmanager
    >>> from wavewright.tools import PackPage
    >>> @asynccontextmanager
    ... async def open_page(folder, name):
    ...     async def application(scope, receive, send): ...
    ...     yield application
    >>> PackPage("a map of the zones", open_page).about
    'a map of the zones'
    """

    about: str
    """What it shows, as a noun phrase."""
    open: Callable[[Path, str], AbstractAsyncContextManager[ASGIApp]]
    """Open what the page works on, by the project's folder and a name, and yield its application.

    `/style.css` and `/favicon.svg` are served beside it: the style of all pages.
    """


@dataclass(frozen=True, slots=True)
class Pack:
    """What one pack brings.

    >>> from wavewright.tools import Pack, make_tool
    >>> def double(number: int) -> int:
    ...     "Double a number."
    ...     return 2 * number
    >>> pack = Pack("numbers", tools=(make_tool(double),), description="Arithmetic.")
    >>> [tool.signature.name for tool in pack.tools]
    ['double']
    """

    name: str
    tools: tuple[Tool, ...] = ()
    description: str = ""
    workers: tuple[Worker, ...] = ()
    """Model workers; one that has the name of a tool takes its place where a model is configured.
    """
    agents: tuple[AgentSpec, ...] = ()
    """Named agents; one of the project with the same name takes its place."""
    messages: MessageContract | None = None
    """Messages of a daemon whose setting `daemon.pack` names this pack; the neutral ones where
    absent.
    """
    mcp_servers: Mapping[str, PackServer] = field(default_factory=dict[str, "PackServer"])
    """Its MCP servers by name."""
    page: PackPage | None = None

    @property
    def tool_names(self) -> frozenset[str]:
        """Names of all that plans can call."""
        return frozenset(
            {tool.signature.name for tool in self.tools}
            | {worker.spec.name for worker in self.workers}
        )


PackFunction = Callable[[JsonObject, Path], Pack]
"""`pack(settings, root)`: paths in the settings are relative to `root`, the folder of the file they
stand in.
"""


class PackError(WavewrightError):
    """A pack that cannot be loaded, or whose settings are wrong; `place` is the file that names it."""

    exit_code = exit_codes.MISUSE


def validated_settings(name: str, model: type[_Model], settings: JsonObject) -> _Model:
    """Return the settings of a pack as its model.

    Raises:
        PackError: fields are unknown or have wrong values; it names each.

    >>> from pydantic import BaseModel
    >>> from wavewright.tools import validated_settings
    >>> class Search(BaseModel):
    ...     folder: str = "world"
    >>> validated_settings("lore", Search, {}).folder
    'world'
    """
    try:
        return model.model_validate(settings)
    except ValidationError as error:
        # Loaded where settings are faulty: most are not.
        from wavewright.config.model_faults import model_faults

        faults = model_faults(error, settings, model)
        reasons = "; ".join(fault.message for fault in faults)
        hint = next((fault.hint for fault in faults if fault.hint), None)
        raise PackError(f"settings of the pack {name!r}: {reasons}", hint=hint) from error


def read_pack_file(file: Path, model: type[_Model], setting: str) -> _Model:
    """Return what a file holds that comes with a pack, or that a setting names in place of it.

    Raises:
        PackError: it cannot be read, or holds something else; it names the place.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from pydantic import BaseModel
    >>> from wavewright.tools import read_pack_file
    >>> class Zones(BaseModel):
    ...     names: list[str]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "zones.yaml"
    ...     _ = file.write_text("names: [Harrow Fen]")
    ...     read_pack_file(file, Zones, "lore.zones").names
    ['Harrow Fen']
    """
    try:
        return read_as_model(read_document_file(file), model)
    except DocumentError as error:
        hints = [fault.hint for fault in error.faults if fault.hint][:1]
        fix = f"fix the file that the setting {setting!r} names"
        raise PackError(str(error), hint="; ".join([fix, *hints])) from error


def pack_names() -> tuple[str, ...]:
    """Return the names of the installed packs, without importing one.

    >>> from wavewright.tools import pack_names
    >>> "equities" in pack_names()
    True
    """
    return tuple(sorted(entry_points_of_packs()))


def is_listed(name: str, settings: Mapping[str, object]) -> bool:
    """Return whether a pack's tools are listed: it has settings, or the extras of its entry point
    are installed.
    """
    extras = entry_points_of_packs()[
        name
    ].extras  # those of another distribution are its own business
    return name in settings or all(extra not in EXTRAS or is_installed(extra) for extra in extras)


def load_pack(name: str, settings: JsonObject | None = None, root: Path | None = None) -> Pack:
    """Import one pack and hand it its settings.

    Raises:
        PackError: no such pack, it cannot be imported, it refuses its settings, or its function
            fails or returns no `Pack`.

    >>> from wavewright.tools import load_pack
    >>> load_pack("text").name
    'text'
    """
    function = _import_pack(name)
    with _named_failures(name, "fails"):
        pack = cast("object", function(dict(settings or {}), root or Path.cwd()))
    if not isinstance(pack, Pack):
        what = f"pack {name!r}: its function returns {type(pack).__name__!r} and no `Pack`"
        raise PackError(what, hint="end it with `return Pack(name=…, description=…, tools=…)`")
    return pack


def pack_tool_names(
    name: str, settings: JsonObject | None = None, root: Path | None = None
) -> frozenset[str]:
    """Return the names of a pack's tools: those that its module declares in `TOOL_NAMES`, or else
    of what it brings.

    Raises:
        PackError: as in `load_pack`.
    """
    module = sys.modules[_import_pack(name).__module__]
    declared: frozenset[str] | None = getattr(module, "TOOL_NAMES", None)
    return load_pack(name, settings, root).tool_names if declared is None else declared


@cache
def pack_settings_schema(name: str) -> JsonSchema | None:
    """Return the JSON Schema of a pack's settings, whose model its module names in `SETTINGS` as an
    entry point is named (`zones.settings:ZoneSettings`); None where it names none.

    Raises:
        PackError: no such pack, or it cannot be imported.
    """
    # Imported here: only editors ask for it.
    from wavewright.config.published_schemas import published_schema

    model: str | None = getattr(sys.modules[_import_pack(name).__module__], "SETTINGS", None)
    if model is None:
        return None
    with _named_failures(name, "cannot be imported"):
        return published_schema(resolve_name(model), name, f"Settings of the pack {name}")


def _import_pack(name: str) -> PackFunction:
    entries = entry_points_of_packs()
    if name not in entries:
        known = ", ".join(repr(known) for known in sorted(entries)) or "none"
        raise PackError(f"no pack is called {name!r}", hint=f"installed packs: {known}")
    with _named_failures(name, "cannot be imported"):
        return cast("PackFunction", entries[name].load())


@contextmanager
def _named_failures(name: str, what: str) -> Generator[None]:
    """Raise what goes wrong in a pack's own code as its author's, with the place.

    A library or a function that is not there is one that its package brings.
    """
    try:
        yield
    except WavewrightError:
        raise
    except (Exception, SystemExit) as error:
        raise _failure_of(name, what, error) from error


def _failure_of(name: str, what: str, error: BaseException) -> PackError:
    from wavewright.tools.functions.failed_code import place_of_failure

    place = "" if isinstance(error, ModuleNotFoundError) else place_of_failure(error)
    hint = f"check {place}" if place else "install the package that brings it again"
    return PackError(f"pack {name!r} {what}: {type(error).__name__}: {error}", hint=hint)
