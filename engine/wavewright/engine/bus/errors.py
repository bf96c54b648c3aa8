"""What can be wrong with the broker, each with the place and the mend.

A *bus error* is shown to people as it stands. No password is in one: the place is an address without it.
"""

from __future__ import annotations

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError


class BusError(WavewrightError):
    """The bus cannot do what was asked; `place` is the broker's address, or the queue or exchange there."""

    exit_code = exit_codes.ENVIRONMENT
    __str__ = WavewrightError.describe


class BusMisconfigured(BusError):
    """It will not work until a person changes the settings or the broker: trying again is no use."""

    exit_code = exit_codes.MISUSE


class RightsMissing(BusMisconfigured):
    """The broker's user may not do what the bus is for."""


class BusDown(BusError):
    """The broker cannot be reached, or went away before it answered; of a message, nobody knows if it arrived."""


class MessageReturned(BusError):
    """The message will never be delivered as it is: no queue wants it, or it is too large for the broker."""


class MessageNacked(BusError):
    """The broker said no to the message, for now: its queue is full."""
