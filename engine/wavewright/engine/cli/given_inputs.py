"""Inputs that the command line gives: `--set NAME=VALUE` and `--inputs FILE`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wavewright.engine.cli.failures import CommandError
from wavewright.engine.input_changes import InputOverrides


def input_overrides(single: Sequence[str] | None, file: Path | None) -> InputOverrides:
    """Return what `--set` and `--inputs` say; values are typed once the job is read.

    Raises:
        CommandError: the file holds no mapping.
        DocumentError: the file cannot be read.
    """
    if file is None:
        return InputOverrides(assignments=tuple(single or ()))
    from wavewright.engine.jobs import read_file

    given = read_file(file).value
    if not isinstance(given, dict):
        message = "inputs are a mapping of names to values"
        raise CommandError(message, place=str(file), hint="write one 'name: value' a line")
    return InputOverrides(given, tuple(single or ()))
