"""Tools of this project: typed functions, known to plans by their names.

The signature and the docstring are the contract. Nothing of wavewright is imported.
"""

import re
from collections import Counter
from pathlib import Path
from typing import TypedDict


class Note(TypedDict):
    """One note: its file name and its text."""

    name: str
    text: str


class WordCount(TypedDict):
    """How often a word occurs."""

    word: str
    count: int


class Ranking(TypedDict):
    """The words that occur most, over all notes."""

    notes: int
    words: list[WordCount]


def list_notes(folder: str) -> list[str]:
    """List the notes of a folder.

    Args:
        folder: Folder of Markdown files, relative to the project's root.
    """
    return sorted(str(path) for path in Path(folder).glob("*.md"))


def read_note(path: str) -> Note:
    """Read one note.

    Args:
        path: The note's file.
    """
    return {"name": Path(path).name, "text": Path(path).read_text(encoding="utf-8")}


def rank_words(notes: list[Note], top: int = 5) -> Ranking:
    """Count the words of all notes and return the most frequent ones.

    Args:
        notes: The notes to count in.
        top: How many words to return.
    """
    counts = Counter(
        word for note in notes for word in re.findall(r"[a-z]{4,}", note["text"].lower())
    )
    words: list[WordCount] = [
        {"word": word, "count": count} for word, count in counts.most_common(top)
    ]
    return {"notes": len(notes), "words": words}
