"""`wavewright replay`: a recorded run under another planner, other prompts or another reviewer."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from wavewright.engine.cli import exit_codes
from wavewright.engine.cli.failures import CommandError
from wavewright.engine.cli.project import from_root, project_settings
from wavewright.engine.cli.stored_runs import load_run
from wavewright.planner.rendering import printable_json

if TYPE_CHECKING:
    from wavewright.config.settings import Settings
    from wavewright.engine.recordings.counterfactual import ReplayResult
    from wavewright.engine.recordings.replay_settings import ReplayOptions
    from wavewright.planner.model_port import ModelUse


def replay(run: str | None, wish: ReplayOptions, *, output_format: str) -> int:
    """Replay a run, print what is different, and return the exit code.

    Raises:
        CommandError: the run cannot be replayed as wished.
        JournalError: there is no such run, or it cannot be read.
    """
    from wavewright.engine.recordings.comparison import compare
    from wavewright.engine.recordings.comparison_text import replay_json, replay_text
    from wavewright.engine.recordings.replay_settings import ReplayRejected

    settings = project_settings()
    try:
        wish = replace(wish, prompt_dir=from_root(wish.prompt_dir, settings))
        with contextlib.chdir(settings.root):  # where tools run
            replayed = anyio.run(_replay, run, settings, wish)
    except ReplayRejected as refused:
        raise CommandError(str(refused), hint=refused.hint) from refused
    found = compare(replayed)
    if output_format == "json":
        sys.stdout.write(printable_json(replay_json(replayed, found), indent=2) + "\n")
    else:
        sys.stdout.write(replay_text(replayed, found))
    if any(use.outcome != "over_budget" for use in replayed.silent_models):
        return exit_codes.ENVIRONMENT
    is_yes = replayed.is_same_verdict and replayed.is_whole and not replayed.silent_models
    return exit_codes.OK if is_yes else exit_codes.NEGATIVE


async def _replay(run: str | None, settings: Settings, wish: ReplayOptions) -> ReplayResult:
    from wavewright.engine.recordings.counterfactual import replay_run

    name, events = await load_run(settings, run)
    return await replay_run(name, events, settings, wish, on_use=_print_model_use)


def _print_model_use(use: ModelUse) -> None:
    """Tell of a question that a model was asked, as soon as it has answered."""
    from wavewright.engine.cli.model_lines import use_line

    sys.stderr.write(f"{use_line(use)}\n")
    sys.stderr.flush()
