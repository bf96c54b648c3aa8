"""Opening what makes the calls of runs in the place of their own process: a fleet, or a runtime of
the project's.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError
from wavewright.config.installation import install_hint, is_installed
from wavewright.config.settings import Settings
from wavewright.tools.functions.tool import OpenRuntime, Runtime
from wavewright.tools.functions.user_tools import import_project_module


class RuntimeNotOpened(WavewrightError):
    """The settings name a fleet or a runtime that there cannot be."""

    exit_code = exit_codes.MISUSE


@asynccontextmanager
async def open_runtime(settings: Settings) -> AsyncGenerator[Runtime | None]:
    """Open the fleet or the runtime of the settings; None where there is neither.

    Raises:
        RuntimeNotOpened: there can be no such fleet or runtime.
        ToolDefinitionError: the module of the runtime cannot be imported.
        JournalError: the database of the fleet cannot be used.
    """
    if settings.runtime is not None:
        async with _named_runtime(settings)(settings) as runtime:
            yield runtime
    elif settings.fleet is not None:
        url = fleet_database(settings)
        from wavewright.executor.fleet.caller import open_fleet_caller

        async with open_fleet_caller(url, settings.fleet.tools, settings.fleet.heartbeat) as caller:
            yield caller
    else:
        yield None


def fleet_database(settings: Settings) -> str:
    """Return the database in which calls wait for the fleet's workers.

    Raises:
        RuntimeNotOpened: the journal is no database, or the extra `fleet` is not installed.
    """
    if not is_installed("fleet"):
        raise RuntimeNotOpened("the extra 'fleet' is not installed", install_hint("fleet"))
    if settings.journal_url is None:
        raise RuntimeNotOpened(
            f"a fleet needs a journal in PostgreSQL, and this one is the file {str(settings.journal)!r}",
            "set WAVEWRIGHT_PG_URL or `journal` to postgresql://…, or remove `fleet` from the settings",
        )
    return settings.journal_url


def _named_runtime(settings: Settings) -> OpenRuntime:
    given = settings.runtime
    if settings.fleet is not None:
        raise RuntimeNotOpened("the settings have both 'fleet' and 'runtime'", "remove one of them")
    if not isinstance(given, str):
        return cast("OpenRuntime", given)
    module, _, name = given.partition(":")
    runtime = getattr(import_project_module(module, settings.root), name, None)
    if not callable(runtime):
        raise RuntimeNotOpened(
            f"setting 'runtime': the module {module!r} has no function {name!r}",
            "name one as `module:function`; it is given the settings and opens a runtime",
        )
    return cast("OpenRuntime", runtime)
