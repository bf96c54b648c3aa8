"""A project's own functions as tools.

The settings name modules, by path or by dotted name; their public functions become tools. The
project's folder is searched last, and only while its modules are imported, so a user's file called
`json.py` or `tools.py` hides no other module.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, cast

from pydantic import BeforeValidator, ValidationError

from wavewright.config import did_you_mean
from wavewright.planner import DocumentModel, Json
from wavewright.tools.functions.contracts import UserFunction
from wavewright.tools.functions.errors import ToolDefinitionError
from wavewright.tools.functions.options import ToolOptions
from wavewright.tools.functions.registry import make_tool
from wavewright.tools.functions.tool import Tool

_ENTRY_HINT = "write a path, a dotted name, or {path: tools/mine.py, functions: [fetch_invoice]}"


def _as_mapping(value: object) -> object:
    """Return a list of names as a mapping of names to no options."""
    if isinstance(value, list):
        return {name: ToolOptions() for name in cast("list[str]", value)}
    return value


class UserModule(DocumentModel):
    """One entry of the settings: a module, and which of its functions are tools."""

    path: str | None = None
    """A Python file, or a folder of such; relative to the project."""
    module: str | None = None
    """A dotted name."""
    functions: Annotated[dict[str, ToolOptions], BeforeValidator(_as_mapping)] | None = None
    """Names, or names with options; every public function of the module where it is absent."""


def load_user_tools(entries: Sequence[Json], root: Path, *, first: int = 0) -> tuple[Tool, ...]:
    r"""Return the tools of a project: `entries` are mappings (`path` or `module`, `functions`), or
    the bare text of one.

    `first` is where the first of them stands in the list that the settings have.

    A file is imported again when it has changed; else one program imports it once, like any other
    module.

    Raises:
        ToolDefinitionError: an entry is wrong, a module cannot be imported, or a function cannot be
            a tool.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from wavewright.tools import load_user_tools
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source = "def double(number: int) -> int:\n    'Double it.'\n    return 2 * number\n"
    ...     _ = (Path(folder) / "numbers.py").write_text(source)
    ...     [tool] = load_user_tools([{"path": "numbers.py"}], Path(folder))
    >>> tool.signature.name
    'double'
    """
    tools: list[Tool] = []
    for position, entry in enumerate(entries, first):
        where = f"tools[{position}]"
        user_module = _read_entry(entry, where)
        if user_module.module is not None:
            tools += _tools_of(import_project_module(user_module.module, root), user_module)
            continue
        for file in _module_files(user_module, root, where):
            tools += _tools_in(file, user_module)
    return tuple(tools)


@dataclass(frozen=True, slots=True)
class _ImportedFile:
    """What a file brought when it was imported."""

    entry: UserModule
    state: tuple[int, int, int]
    """Inode, time of the last change and size of the file then."""
    module: ModuleType
    tools: tuple[Tool, ...]


_IMPORTED_FILES: dict[Path, _ImportedFile] = {}


def _tools_in(file: Path, entry: UserModule) -> tuple[Tool, ...]:
    stat = file.stat()
    state = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
    known = _IMPORTED_FILES.get(file)
    if known is not None and (known.state, known.entry) == (state, entry):
        return known.tools
    module = known.module if known is not None and known.state == state else _import_file(file)
    tools = tuple(_tools_of(module, entry))
    _IMPORTED_FILES[file] = _ImportedFile(entry, state, module, tools)
    return tools


def _read_entry(entry: Json, where: str) -> UserModule:
    if isinstance(entry, str):
        entry = {"path": entry} if "/" in entry or entry.endswith(".py") else {"module": entry}
    try:
        read = UserModule.model_validate(entry)
    except ValidationError as error:
        # Loaded where an entry is faulty: most are not.
        from wavewright.config.model_faults import model_faults

        fault = model_faults(error, entry, UserModule)[0]
        place = where + fault.pointer.replace("/", ".")
        # The shape of an entry mends only an entry that is wrong as a whole.
        is_whole_entry = fault.pointer == ""
        hint = fault.hint or (_ENTRY_HINT if is_whole_entry else None)
        raise ToolDefinitionError(f"setting {place!r}: {fault.message}", hint=hint) from error
    if (read.path is None) == (read.module is None):
        raise ToolDefinitionError(
            f"setting {where!r} has {'neither' if read.path is None else 'both'} 'path' and 'module'",
            hint="give exactly one: path: tools/mine.py, or module: my_package.tools",
        )
    return read


def _module_files(entry: UserModule, root: Path, where: str) -> list[Path]:
    path = (root / str(entry.path)).resolve()
    if path.is_dir():
        return sorted(file for file in path.glob("*.py") if not file.name.startswith("_"))
    if path.is_file():
        return [path]
    raise ToolDefinitionError(
        f"setting {where!r}: there is no file or folder {entry.path!r}",
        hint=f"it was looked for at {path}",
    )


def import_project_module(name: str, root: Path) -> ModuleType:
    """Return a module that is installed, or lies in a project's folder.

    Raises:
        ToolDefinitionError: it cannot be imported.
    """
    importlib.invalidate_caches()
    try:
        with _appended_to_path(root):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise _import_error(name, error) from error
        raise ToolDefinitionError(
            f"there is no module {error.name!r}", hint=f"install it, or put it under {root}"
        ) from error
    except (Exception, SystemExit) as error:
        raise _import_error(name, error) from error


def _import_file(file: Path) -> ModuleType:
    """Import a file under a name of its own, which no other module can have."""
    name = f"wavewright_user_tools_{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ToolDefinitionError(
            f"{file} is no Python file", hint="tools stand in files that end with .py"
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = (
        module  # dataclasses and pydantic look their module up while it is being run
    )
    try:
        with _appended_to_path(file.parent):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _import_error(str(file), error) from error
    return module


@contextmanager
def _appended_to_path(folder: Path) -> Generator[None]:
    """Let modules beside the user's be found, after everything that is installed."""
    entry = str(folder)
    sys.path.append(entry)
    try:
        yield
    finally:
        if entry in sys.path:
            # The last one is ours; an equal entry before it is not.
            del sys.path[len(sys.path) - 1 - sys.path[::-1].index(entry)]


def _import_error(name: str, error: BaseException) -> ToolDefinitionError:
    """Return what went wrong in the user's own module, with the place where it did."""
    from wavewright.tools.functions.failed_code import place_of_failure

    what = f"the module {name} cannot be imported: {type(error).__name__}: {error}"
    return ToolDefinitionError(what, hint=f"check {place_of_failure(error) or name}")


def _tools_of(module: ModuleType, entry: UserModule) -> list[Tool]:
    public = _public_functions(module)
    if entry.functions is None:
        return [make_tool(function) for function in public.values()]
    tools: list[Tool] = []
    for name, options in entry.functions.items():
        function = public.get(name, getattr(module, name, None))
        if function is None or not callable(function):
            raise ToolDefinitionError(
                f"{module.__file__} has no function {name!r}",
                hint=did_you_mean(name, public) or f"it has {', '.join(public) or 'none'}",
            )
        named: ToolOptions = {"name": name, **options}
        tools.append(make_tool(function, **named))
    return tools


def _public_functions(module: ModuleType) -> dict[str, UserFunction]:
    """Return the functions that a module offers: `__all__` where it has one, else its own without
    underscore.
    """
    offered = getattr(module, "__all__", None)
    return {
        name: member
        for name, member in vars(module).items()
        if inspect.isroutine(member)
        and (
            name in offered
            if offered is not None
            else not name.startswith("_") and getattr(member, "__module__", None) == module.__name__
        )
    }
