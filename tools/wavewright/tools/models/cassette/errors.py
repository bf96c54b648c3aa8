"""Errors of cassettes; reporting one imports no model's library."""

from __future__ import annotations

from pathlib import Path

from wavewright.config import WavewrightError, exit_codes


class CassetteError(WavewrightError):
    """A cassette cannot be read or written; the message names the file."""

    exit_code = exit_codes.MISUSE
    __str__ = WavewrightError.describe


class CassetteMiss(CassetteError):
    """A cassette has no answer to a request; the message shows the request that is most like it."""


def how_to_record(path: Path) -> str:
    """Return what to do about an answer that a cassette does not have."""
    return (
        f"record it: run once more with WAVEWRIGHT_CASSETTE_MODE=record (WAVEWRIGHT_CASSETTE={path}) and a model that "
        "answers; what is recorded already is not asked again"
    )
