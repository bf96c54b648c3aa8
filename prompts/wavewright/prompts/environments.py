"""Jinja2 environments: for prompts and for HTML pages.

Prompts are plain text without automatic escaping; an undefined or null value is an error, and
templates run in a sandbox. Pages are escaped HTML from shipped templates, whose compiled code is
cached in the user's cache folder (`$XDG_CACHE_HOME/wavewright`, else `~/.cache/wavewright`), since
compiling takes longer than a small run. The folder must belong to the user and be writable by no
other; otherwise templates are compiled each time.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final, cast

from jinja2 import (
    ChoiceLoader,
    Environment,
    FileSystemBytecodeCache,
    FileSystemLoader,
    PackageLoader,
    PrefixLoader,
    StrictUndefined,
)
from jinja2.bccache import Bucket, BytecodeCache
from jinja2.runtime import Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from wavewright.prompts.values import data_block, one_line, prompt_json


class _CompiledPrompts(BytecodeCache):
    """Keeps compiled prompts for as long as the process lives: each run makes an environment of its
    own.
    """

    _SIZE: Final = 500

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take what was kept for this name and file; Jinja2 compiles anew where their source is
        another.
        """
        if (known := self._kept.get(bucket.key)) is not None:
            bucket.bytecode_from_string(known)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep what was compiled."""
        if len(self._kept) >= self._SIZE:
            self._kept.clear()
        self._kept[bucket.key] = bucket.bytecode_to_string()


_COMPILED_PROMPTS: Final = _CompiledPrompts()


class PromptEnvironment(ImmutableSandboxedEnvironment):
    """A sandboxed environment with templates from several folders, of which the first match counts;
    those of packs come last, each below the pack's name.

    Names below `shipped/` are searched in the last folder and in those of packs only, so that a
    template may include the one that it replaces:
    `{% include "shipped/planner/instructions.md.j2" %}`.
    """

    def __init__(self, folders: Sequence[Path], packs: Mapping[str, Path]) -> None:
        own = FileSystemLoader([str(folder) for folder in folders[:-1]], encoding="utf-8")
        of_packs = PrefixLoader(
            {name: FileSystemLoader(str(folder)) for name, folder in packs.items()}
        )
        shipped = ChoiceLoader([FileSystemLoader(str(folders[-1])), of_packs])
        super().__init__(
            loader=ChoiceLoader([own, shipped, PrefixLoader({"shipped": shipped})]),
            undefined=StrictUndefined,
            autoescape=False,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_require_value,
            bytecode_cache=_COMPILED_PROMPTS,
        )
        self.filters["json"] = prompt_json
        self.filters["data"] = data_block
        self.filters["one_line"] = one_line

    def getattr(self, obj: object, attribute: str) -> object:
        """Return a member of a JSON object by its name, even if `dict` has a method of that name."""
        if isinstance(obj, dict) and attribute in obj:
            return cast("dict[str, object]", obj)[attribute]
        value: object | Undefined = super().getattr(obj, attribute)
        return value


def _require_value(value: object) -> object:
    """Refuse null: models would read the text `None` as a word."""
    if value is None:
        msg = "a value is null here"
        raise TypeError(msg)
    return value


_NO_FILTERS: Final[Mapping[str, Callable[..., object]]] = MappingProxyType({})


def page_environment(
    package: str,
    folder: str,
    *,
    trims: bool = False,
    finalize: Callable[..., object] | None = None,
    filters: Mapping[str, Callable[..., object]] = _NO_FILTERS,
) -> Environment:
    """Return the environment of the templates in a folder of a package.

    Args:
        package: Import name of the package.
        folder: Folder in the package.
        trims: Whether lines that hold only a block are removed.
        finalize: Function that is applied to each value before it is written.
        filters: Filters of these templates, beside those of Jinja2.

    >>> from wavewright.prompts import page_environment
    >>> environment = page_environment("wavewright.reviewer", "report")
    >>> environment.from_string("<b>{{ name }}</b>").render(name="a < b")
    '<b>a &lt; b</b>'
    """
    environment = Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finalize,
        auto_reload=False,
        trim_blocks=trims,
        lstrip_blocks=trims,
        bytecode_cache=_bytecode_cache(f"{package} {trims} {finalize is not None}"),
    )
    # jinja2 infers the type of this table from its own filters.
    cast("dict[str, Callable[..., object]]", environment.filters).update(filters)
    return environment


class _CompiledTemplates(FileSystemBytecodeCache):
    """A bytecode cache that ignores write errors."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().dump_bytecode(bucket)


def _bytecode_cache(options: str) -> _CompiledTemplates | None:
    """Return the cache for one set of options, which are part of its files' names."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wavewright"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except (OSError, RuntimeError):  # no home, or a read-only one
        return None
    others_write = stat.S_IWGRP | stat.S_IWOTH
    if (
        not stat.S_ISDIR(status.st_mode)
        or status.st_uid != os.getuid()
        or status.st_mode & others_write
    ):
        return None
    return _CompiledTemplates(
        str(folder), f"page-{hashlib.sha256(options.encode()).hexdigest()[:12]}-%s.cache"
    )
