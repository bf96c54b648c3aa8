"""Errors of journals: each names the place and the fix; what was committed before it stays committed
and readable.
"""

from __future__ import annotations

from wavewright.config import WavewrightError, exit_codes


class JournalError(WavewrightError):
    """The journal cannot do what was asked; `place` is the file, and the run and event where there
    is one.
    """

    exit_code = exit_codes.ENVIRONMENT
    __str__ = WavewrightError.describe


class JournalNotOpened(JournalError):
    """The file is not a journal, is of another version, or cannot be opened at all."""


class JournalLocked(JournalNotOpened):
    """Another program keeps the file locked, for now."""


class JournalDamaged(JournalError):
    """The file or one event in it is not what was written."""


class EventDamaged(JournalDamaged):
    """One event of one run is not what was written; all other runs can be read."""


class JournalNotWritten(JournalError):
    """Events could not be committed: the disk is full, the file is read-only or locked, or an event
    is not JSON.
    """


class EventUnwritable(JournalNotWritten):
    """An event cannot be written at all: it is too long, or not JSON."""


class JournalUnreachable(JournalNotWritten):
    """The database does not answer within the time for which it is waited for."""


class JournalStopped(JournalError):
    """The writer thread has ended at an internal error: nothing more can be written from this
    process.
    """


class RunBusy(JournalError):
    """Another process has the run open."""


class RunLost(JournalError):
    """Another owner has the run; nothing more may be written to it from here."""


class RunNotFound(JournalError):
    """No run, or more than one, has that id or prefix."""

    exit_code = exit_codes.MISUSE
