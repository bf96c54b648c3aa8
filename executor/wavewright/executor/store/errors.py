"""What can be wrong with a journal, each with the place and the fix.

A *journal error* is shown to people as it stands: what happened, where, and what would mend it. Whatever was
committed before it stays committed and readable.
"""

from __future__ import annotations

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError


class JournalError(WavewrightError):
    """The journal cannot do what was asked; `place` is the file, and the run and event where there is one."""

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
    """Events could not be committed: the disk is full, the file is read-only or locked, or an event is not JSON."""


class EventUnwritable(JournalNotWritten):
    """An event cannot be written as it is, whenever that is tried: it is too long, or not JSON."""


class JournalUnreachable(JournalNotWritten):
    """The database does not answer, and was waited for: nobody else need wait for it now."""


class JournalStopped(JournalError):
    """What writes it has ended at a fault of its own: nothing can be written from this process any more."""


class RunBusy(JournalError):
    """Another process has the run open."""


class RunLost(JournalError):
    """Another process has taken the run over; nothing more may be written here."""


class RunNotFound(JournalError):
    """No run, or more than one, has that id or prefix."""

    exit_code = exit_codes.MISUSE
