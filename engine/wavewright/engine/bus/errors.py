"""Errors of the bus, each with its place and, where there is one, the fix; none holds a password."""

from __future__ import annotations

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError


class BusError(WavewrightError):
    """An operation of the bus failed; `place` is the broker's address, or a queue or an exchange there."""

    exit_code = exit_codes.ENVIRONMENT
    __str__ = WavewrightError.describe


class BusMisconfigured(BusError):
    """Settings or broker must be changed first; trying again is no use."""

    exit_code = exit_codes.MISUSE


class RightsMissing(BusMisconfigured):
    """The broker's user lacks a right."""


class BusDown(BusError):
    """The broker cannot be reached, or the connection was lost before it answered; a message may have arrived."""


class MessageReturned(BusError):
    """The message cannot be delivered: no queue is bound, or it is too large for the broker."""


class MessageNacked(BusError):
    """The broker refused the message because its queue is full."""
