"""Tools of the conformance suite; what they do outside their process goes into the folder `marks`
beside this file.
"""

import asyncio
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import anyio

from wavewright.tools import Emit, LogEvent, RunData

MARKS = Path(__file__).parent / "marks"
# A process without any handler prints warnings on its standard error.
logging.getLogger("sums").addHandler(logging.NullHandler())


@dataclass(frozen=True)
class NumberSeen(LogEvent):
    """A log event."""

    number: int


class Quote(TypedDict):
    """A price and its day."""

    price: float
    as_of: str


def mark(name: str) -> None:
    """Note that something has happened, and in which process."""
    (MARKS / name).write_text(str(os.getpid()))


async def double(number: int) -> int:
    """Return twice a number."""
    return 2 * number


def add(numbers: list[int]) -> int:
    """Return the sum, from a thread; print and log something."""
    print("adding", len(numbers))  # noqa: T201
    logging.getLogger("sums").warning("so many: %d", len(numbers))
    return sum(numbers)


def fail(number: int) -> int:
    """Fail."""
    raise KeyError(f"no number {number}")


def odd_only(number: int) -> int:
    """Return an odd number; an even one is an error."""
    if number % 2 == 0:
        raise ValueError(f"{number} is even")
    return number


def leave() -> int:
    """Ask the process to end."""
    raise SystemExit(3)


def flaky() -> str:
    """Fail the first time, wherever that is."""
    has_failed = (MARKS / "flaky").exists()
    mark("flaky")
    if not has_failed:
        raise TimeoutError("not yet")
    return "at last"


def no_words() -> str:
    """Return nothing."""
    return ""


def no_number() -> float:
    """Return what JSON has not."""
    return float("nan")


def long_text(chars: int) -> str:
    """Return a long text, with a character of two halves at its end."""
    return "ü" * chars + "\U0001f600"


def tell(number: int, *, emit: Emit) -> int:
    """Emit a log event."""
    emit(NumberSeen(number))
    return number


def keep(number: int, *, data: RunData) -> int:
    """Keep a number in the run data."""
    data.write("numbers", str(number), number)
    return number


def kept(*, data: RunData) -> int:
    """Return the sum of the numbers in the run data."""
    return sum(int(str(number)) for number in data.read("numbers").values())


async def slow() -> str:
    """Wait for longer than anybody does."""
    mark("slow began")
    try:
        await anyio.sleep(60)
    finally:
        mark("slow ended")
    return "at last"


async def held() -> str:
    """Wait until there is a mark `go`."""
    mark("held began")
    try:
        while not (MARKS / "go").exists():  # noqa: ASYNC110 - another process makes it
            await anyio.sleep(0.02)
    except asyncio.CancelledError:
        mark("held cancelled")
        raise
    return "held"


def write(text: str) -> str:
    """Write a text."""
    (MARKS / "written").write_text(text, encoding="utf-8")
    return text


def quote(force: bool = False) -> Quote:  # noqa: FBT001, FBT002 - a parameter of a plan
    """Return a price of yesterday, unless one of today is forced."""
    return {"price": 1.25, "as_of": "2010-03-01" if force else "2009-01-01"}


def cached(number: int) -> int:
    """Return a number that other runs may reuse."""
    return number
