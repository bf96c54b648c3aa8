"""Ten small goals with tools that do what they say, on the files of a folder."""

from __future__ import annotations

import csv
import itertools
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from wavewright.planner.types import Json

HERE = Path()
"""Tools take paths that are relative to the folder of the project."""


class Count(TypedDict):
    """How often a word stands in a text."""

    word: str
    times: int


class Price(TypedDict):
    """What something cost on a day."""

    day: str
    close: float


class Mail(TypedDict):
    """A letter."""

    sender: str
    text: str


class Item(TypedDict):
    """Something in a shop."""

    name: str
    price: float


class Meeting(TypedDict):
    """An entry of a calendar."""

    day: str
    title: str


def read_text(file: str) -> str:
    """Read a text file."""
    return (HERE / file).read_text(encoding="utf-8")


def count_words(text: str) -> list[Count]:
    """Count the words of a text, the most frequent first."""
    counted = Counter(text.lower().split()).most_common()
    return [{"word": word, "times": times} for word, times in counted]


def read_prices(file: str) -> list[Price]:
    """Read the prices of a share from a table."""
    with (HERE / file).open(encoding="utf-8") as lines:
        return [{"day": row["day"], "close": float(row["close"])} for row in csv.DictReader(lines)]


def mean_price(prices: list[Price]) -> float:
    """Return the mean of the closing prices."""
    return sum(price["close"] for price in prices) / len(prices)


def names_in(text: str) -> list[str]:
    """Find the capitalised words of a story."""
    return sorted({word.strip(".,") for word in text.split() if word[:1].isupper()})


def link_names(names: list[str]) -> list[str]:
    """Link each name with the next."""
    return [f"{one} - {other}" for one, other in itertools.pairwise(names)]


def shorten(text: str) -> str:
    """Return the first sentence of a text."""
    return text.partition(".")[0] + "."


def read_mail(file: str) -> list[Mail]:
    """Read a mailbox."""
    read: list[Mail] = json.loads(read_text(file))
    return read


def senders(mail: list[Mail]) -> list[str]:
    """Return who wrote."""
    return sorted({letter["sender"] for letter in mail})


def read_calendar(file: str) -> list[Meeting]:
    """Read the meetings of a calendar."""
    read: list[Meeting] = json.loads(read_text(file))
    return read


def busy_days(meetings: list[Meeting]) -> list[str]:
    """Return the days that have meetings."""
    return sorted({meeting["day"] for meeting in meetings})


def list_files(folder: str) -> list[str]:
    """List the files of a folder."""
    return sorted(str(path) for path in (HERE / folder).iterdir() if path.is_file())


def size_of(file: str) -> int:
    """Return how many characters a file has."""
    return len(read_text(file))


def read_shop(file: str) -> list[Item]:
    """Read what a shop sells."""
    read: list[Item] = json.loads(read_text(file))
    return read


def cheapest(items: list[Item]) -> Item:
    """Return the cheapest item."""
    return min(items, key=lambda item: item["price"])


def read_sensor(file: str) -> list[float]:
    """Read what a sensor measured."""
    read: list[float] = json.loads(read_text(file))
    return read


def highest(numbers: list[float]) -> float:
    """Return the highest number."""
    return max(numbers)


@dataclass(frozen=True, slots=True)
class SmallGoal:
    """A goal in words, with its tools."""

    text: str
    inputs: Mapping[str, Json]
    tools: tuple[Callable[..., object], ...]
    right: Callable[[], object]
    """What it should come to, from the files of the folder."""


STORY = "Ada met Bob in Bern. Bob knew Cy. They walked on."
FILES = {
    "notes.txt": "waves and plans and waves",
    "story.txt": STORY,
    "prices.csv": "day,close\n2026-01-05,10.5\n2026-01-06,11.5\n",
    "mail.json": json.dumps([{"sender": "ada", "text": "hello"}, {"sender": "bob", "text": "hi"}]),
    "calendar.json": json.dumps([{"day": "2026-01-05", "title": "tea"}]),
    "shop.json": json.dumps([{"name": "cup", "price": 4.0}, {"name": "pen", "price": 2.0}]),
    "sensor.json": "[3.5, 7.25, 1.0]",
}
GOALS = {
    "words": SmallGoal(
        "Count the words of the file.", {"file": "notes.txt"}, (read_text, count_words),
        lambda: count_words(read_text("notes.txt")),
    ),
    "stocks": SmallGoal(
        "Say the mean price of the share.", {"file": "prices.csv"}, (read_prices, mean_price),
        lambda: mean_price(read_prices("prices.csv")),
    ),
    "lore": SmallGoal(
        "Find the names in the story.", {"file": "story.txt"}, (read_text, names_in),
        lambda: names_in(STORY),
    ),
    "knowledge": SmallGoal(
        "Link the names of the story.", {"file": "story.txt"}, (read_text, names_in, link_names),
        lambda: link_names(names_in(STORY)),
    ),
    "web digest": SmallGoal(
        "Shorten the page.", {"file": "story.txt"}, (read_text, shorten),
        lambda: shorten(STORY),
    ),
    "mail": SmallGoal(
        "Say who wrote.", {"file": "mail.json"}, (read_mail, senders),
        lambda: senders(read_mail("mail.json")),
    ),
    "calendar": SmallGoal(
        "Say which days are busy.", {"file": "calendar.json"}, (read_calendar, busy_days),
        lambda: busy_days(read_calendar("calendar.json")),
    ),
    "files": SmallGoal(
        "Say how long each file is.", {"folder": "."}, (list_files, size_of),
        lambda: [size_of(file) for file in list_files(".")],
    ),
    "shop": SmallGoal(
        "Find the cheapest item.", {"file": "shop.json"}, (read_shop, cheapest),
        lambda: cheapest(read_shop("shop.json")),
    ),
    "sensors": SmallGoal(
        "Say the highest value.", {"file": "sensor.json"}, (read_sensor, highest),
        lambda: highest(read_sensor("sensor.json")),
    ),
}  # fmt: skip
