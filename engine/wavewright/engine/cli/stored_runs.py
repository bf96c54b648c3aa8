"""Finding the run that a command means: by its id, by a unique prefix of it, or the newest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavewright.engine.cli.project import has_journal, no_journal, open_journal

if TYPE_CHECKING:
    from wavewright.config.settings import Settings
    from wavewright.executor.events import Event
    from wavewright.executor.journal import Journal
    from wavewright.planner.types import RunId


async def find_run(journal: Journal, prefix: str | None) -> RunId:
    """Return the run whose id, or whose tail after the last `-`, starts with `prefix`; the newest run for None.

    Raises:
        RunNotFound: no run starts so, several do (they are named), or there is none at all.
    """
    if prefix is None:
        newest = (await journal.list_runs())[:1]
        return newest[0].run if newest else await journal.find_run("")
    return await journal.find_run(prefix)


async def load_run(settings: Settings, prefix: str | None) -> tuple[RunId, list[Event]]:
    """Return a run of the project's journal, found as by `find_run`, and its events.

    Raises:
        CommandError: nothing has run here yet.
        RunNotFound: there is no such run.
    """
    if not has_journal(settings):
        raise no_journal(settings)
    async with open_journal(settings) as journal:
        run = await find_run(journal, prefix)
        return run, await journal.load(run)
