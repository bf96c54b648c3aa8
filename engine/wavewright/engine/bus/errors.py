"""What can be wrong with the broker, each with the place and the mend.

A *bus error* is shown to people as it stands. No password is in one: the place is an address without it.
"""

from __future__ import annotations


class BusError(Exception):
    """The bus cannot do what was asked."""

    def __init__(self, message: str, *, place: str = "", mend: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        """The broker's address, or the queue or exchange there."""
        self.hint = mend

    def __str__(self) -> str:
        place = f"\n  --> {self.place}" if self.place else ""
        mend = f"\n  = help: {self.hint}" if self.hint else ""
        return f"{self.message}{place}{mend}"


class BusMisconfigured(BusError):
    """It will not work until a person changes the settings or the broker: trying again is no use."""


class RightsMissing(BusMisconfigured):
    """The broker's user may not do what the bus is for."""


class BusDown(BusError):
    """The broker cannot be reached, or went away before it answered; of a message, nobody knows if it arrived."""


class MessageReturned(BusError):
    """The message will never be delivered as it is: no queue wants it, or it is too large for the broker."""


class MessageNacked(BusError):
    """The broker said no to the message, for now: its queue is full."""
