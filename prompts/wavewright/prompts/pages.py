"""Jinja2 as pages use it: HTML, escaped, from templates that are shipped.

Compiling a page's templates takes longer than a small run, so the compiled code is kept as Python keeps that of its
modules: in the user's cache folder (`$XDG_CACHE_HOME/wavewright`, else `~/.cache/wavewright`), which must belong to
the user and be writable by nobody else. Without such a folder templates are compiled each time.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from jinja2 import Environment, FileSystemBytecodeCache, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket

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
