"""Jinja2 as prompts use it: plain text, strict about what is missing, and closed to what a template may not touch.

Nothing is escaped but by a filter, because a prompt is no HTML. A value that is not given is an error and never an
empty place, and a null is never written as `None`.

Jinja2 as pages use it: HTML, escaped, from templates that are shipped.

Compiling a page's templates takes longer than a small run, so the compiled code is kept as Python keeps that of its
modules: in the user's cache folder (`$XDG_CACHE_HOME/wavewright`, else `~/.cache/wavewright`), which must belong to
the user and be writable by nobody else. Without such a folder templates are compiled each time.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from jinja2 import (
    ChoiceLoader,
    Environment,
    FileSystemBytecodeCache,
    FileSystemLoader,
    PackageLoader,
    PrefixLoader,
    StrictUndefined,
)
from jinja2.bccache import Bucket
from jinja2.runtime import Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from wavewright.prompts.escaping import data_block, one_line, prompt_json

__all__ = ["PromptEnvironment"]


class PromptEnvironment(ImmutableSandboxedEnvironment):
    """Finds templates in folders, the first that has one wins; below `shipped/` only those of the last folder.

    So a template may build on the one that it replaces: `{% include "shipped/planner/instructions.md.j2" %}`.

    It is sandboxed, so that a template that came with somebody's project does not reach into the program.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        found = FileSystemLoader([str(folder) for folder in folders], encoding="utf-8")
        shipped = FileSystemLoader([str(folder) for folder in folders[-1:]], encoding="utf-8")
        super().__init__(
            loader=ChoiceLoader([found, PrefixLoader({"shipped": shipped})]),
            undefined=StrictUndefined,
            autoescape=False,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_require_value,
        )
        self.filters["json"] = prompt_json
        self.filters["data"] = data_block
        self.filters["one_line"] = one_line

    def getattr(self, obj: object, attribute: str) -> object:
        """Return a member of an object of JSON by its name, also where a dictionary has a method of that name."""
        if isinstance(obj, dict) and attribute in obj:
            return cast("dict[str, object]", obj)[attribute]
        found: object | Undefined = super().getattr(obj, attribute)
        return found


def _require_value(value: object) -> object:
    """Refuse to write a value that is not there: models take the text `None` for a word."""
    if value is None:
        msg = "a value is null here"
        raise TypeError(msg)
    return value


__all__ = ["page_environment"]


def page_environment(
    package: str, folder: str, *, trims: bool = False, finalize: Callable[..., object] | None = None
) -> Environment:
    """Return the environment of the templates in a folder of a package.

    Args:
        package: By its import name.
        folder: In that package.
        trims: Whether lines that hold only a block leave nothing behind.
        finalize: What each value passes before it is written.
    """
    return Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finalize,
        auto_reload=False,
        trim_blocks=trims,
        lstrip_blocks=trims,
        bytecode_cache=_bytecode_cache(f"{package} {trims} {finalize is not None}"),
    )


class _CompiledTemplates(FileSystemBytecodeCache):
    """Keeps nothing where the folder cannot be written to, and goes on."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().dump_bytecode(bucket)


def _bytecode_cache(options: str) -> _CompiledTemplates | None:
    """Return the cache for one way to compile, which is part of its files' names."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wavewright"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except (OSError, RuntimeError):  # no home, or a read-only one
        return None
    others_write = stat.S_IWGRP | stat.S_IWOTH
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & others_write:
        return None
    return _CompiledTemplates(
        str(folder), f"page-{hashlib.sha256(options.encode()).hexdigest()[:12]}-%s.cache"
    )
