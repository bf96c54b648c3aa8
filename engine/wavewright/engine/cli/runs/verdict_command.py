"""`wavewright verdict`: the verdict of a person on a package of the daemon."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import anyio

from wavewright.config import exit_codes
from wavewright.engine.cli.common.arguments import has_journal, no_journal, project_settings
from wavewright.engine.cli.common.errors import CommandError
from wavewright.engine.cli.common.terminal import local_user
from wavewright.engine.daemon.reports import Reporter
from wavewright.engine.decisions import verdicts
from wavewright.engine.messages.models import FieldFeedback
from wavewright.executor.stores import open_stores
from wavewright.planner.diagnostics.rendering import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavewright.config.settings import Settings


def give_verdict(wanted: str, *, accept: bool, remarks: Sequence[str]) -> int:
    """Accept or reject a package, and print how its job continues.

    Raises:
        CommandError: it is said neither or both, or there is no journal.
        WavewrightError: there is no such package, or it has its verdict.
    """
    if accept == bool(remarks):
        raise CommandError("say either --accept or --reject", hint="such as --reject total='it is too low'")
    settings = project_settings()
    if not has_journal(settings):
        raise no_journal(settings)
    feedback = None if accept else [_remark(one) for one in remarks]
    package = anyio.run(_give, settings, wanted, feedback)
    said = "accepted" if accept else "rejected"
    sys.stdout.write(
        f"{said} package {package.iteration} about {printable(package.about)}; "
        f"job {package.job} continues as soon as a daemon has a slot for it\n"
    )
    return exit_codes.OK


async def _give(settings: Settings, wanted: str, feedback: Sequence[str] | None) -> verdicts.UnjudgedPackage:
    reporter = Reporter.of(settings)
    async with open_stores(settings) as stores:
        found = await verdicts.list_unjudged(stores.journal, stores.jobs)
        package = verdicts.choose_unjudged(found, wanted)
        await verdicts.give_verdict(
            stores.jobs, package, feedback, by=local_user(), project=reporter.state_reports
        )
    return package


def _remark(text: str) -> str:
    field, separator, reason = text.partition("=")
    return str(FieldFeedback(field=field, reason=reason)) if separator and reason else text
