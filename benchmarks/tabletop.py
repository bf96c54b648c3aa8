"""Turns a second and memory of many games that are played at once in one journal, without a model."""

from __future__ import annotations

import asyncio
import resource
import tempfile
import time
from pathlib import Path
from typing import Final

import anyio

from benchmarks.measure import show_table
from wavewright.executor import Journal, MemoryJournal, SqliteJournal
from wavewright.packs.tabletop.session import Game

GAMES: Final = 200
MESSAGES: Final = (
    "@Mira hello",
    "go to inn",
    "hire Sela",
    "go to square",
    "go to gate",
    "go to entrance",
    *["attack Goblin", "attack Wolf"] * 7,
)


def measure_tabletop() -> None:
    """Print turns a second of one game and of many, in memory and in a file, and what a game takes
    of memory.
    """
    asyncio.run(_play(1, MemoryJournal()))  # warms up
    rows: list[list[object]] = []
    for games in (1, GAMES):
        before = _peak_kilobytes()
        seconds = asyncio.run(_play(games, MemoryJournal()))
        taken = (_peak_kilobytes() - before) / games
        with tempfile.TemporaryDirectory() as folder:
            journaled = asyncio.run(_play_in_file(games, Path(folder) / "games.sqlite"))
        turns = games * len(MESSAGES)
        rows.append([games, turns, round(turns / seconds), round(turns / journaled), round(taken)])
    columns = ["games", "turns", "turns/s in memory", "turns/s in a file", "KB a game in memory"]
    show_table("Games at once", columns, rows)


async def _play_in_file(games: int, file: Path) -> float:
    async with SqliteJournal(file) as journal:
        return await _play(games, journal)


async def _play(games: int, journal: Journal) -> float:
    """Return the seconds for all games to play all their turns at once."""
    started = time.perf_counter()
    async with anyio.create_task_group() as group:
        for number in range(games):
            group.start_soon(_play_one, journal, f"game-{number}")
    return time.perf_counter() - started


async def _play_one(journal: Journal, name: str) -> None:
    async with Game.open(journal, name, seed=name) as game:
        for message in MESSAGES:
            async for _ in game.turn(message):
                pass


def _peak_kilobytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
