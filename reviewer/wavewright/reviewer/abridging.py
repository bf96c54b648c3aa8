"""JSON made shorter without breaking it.

A value that is too large for where it should stand is *abridged*: whole entries and whole fields are kept as far as
there is room, long texts end at a word, and wherever something is left out it says how much. What comes of it is
JSON again, and nothing in it was written by anybody but its author, the notes on what is left out aside.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from wavewright.planner.types import Json, JsonObject
from wavewright.prompts import prompt_json
from wavewright.reviewer.values import shape

LEFT_OUT: Final = "…left out"
"""Key under which an abridged list or object says what is missing."""

_LEAST = 24
"""Characters below which a value is told by its shape alone."""
_NOTE = 48
"""Characters that a note on what is left out takes at most."""


def abridge(value: Json, room: int, first: Collection[int] = ()) -> Json:
    """Return a value whose JSON takes about `room` characters at most.

    Args:
        value: What is to be shortened.
        room: Characters of JSON, escaped for a prompt, that it may take.
        first: Positions of a list's entries, or of an object's fields, that are kept before all others.
    """
    return _abridged(value, size_of(value), room, first)


def size_of(value: Json) -> int:
    """Return how many characters a value takes in a prompt, as JSON."""
    return len(prompt_json(value))


def share_out(needs: Sequence[int], room: int) -> list[int]:
    """Return how much of the room each gets: what it needs, and where that is too much an equal share of the rest."""
    shares = [0] * len(needs)
    left, waiting = room, sorted(range(len(needs)), key=needs.__getitem__)
    for position, which in enumerate(waiting):
        fair = left // (len(waiting) - position)
        shares[which] = min(needs[which], fair)
        left -= shares[which]
    return shares


def _abridged(value: Json, size: int, room: int, first: Collection[int] = ()) -> Json:
    # Sizes are handed down: each level of a value is measured once, however deep it stands.
    if size <= room:
        return value
    match value:
        case str():
            return _shorter_text(value, room)
        case list():
            return _shorter_list(value, room, first)
        case dict():
            return _shorter_object(value, room, first)
        case _:
            return value


def _shorter_text(text: str, room: int) -> str:
    # An escape takes up to twelve characters: halving finds a length that fits whatever the text is made of.
    kept = min(len(text), max(0, room - _NOTE))
    while kept and size_of(text[:kept]) > room - _NOTE:
        kept = kept * 3 // 4
    if kept < _LEAST:
        return f"…({shape(text)} left out)"
    blank = max(text.rfind(sign, kept * 3 // 4, kept) for sign in " \n\t")
    head = text[: blank if blank > 0 else kept].rstrip()
    return f"{head} …({len(text) - len(head):,} more characters left out)"


def _shorter_list(entries: list[Json], room: int, first: Collection[int]) -> Json:
    sizes = [size_of(entry) for entry in entries]
    kept = _kept([size + 2 for size in sizes], room - _NOTE, first)
    if not kept:
        return {LEFT_OUT: shape(entries)}
    shares = share_out([sizes[at] for at in kept], room - _NOTE - 2 * len(kept))
    shortened: list[Json] = []
    before = -1
    for at, share in zip(kept, shares, strict=True):
        if at > before + 1:
            shortened.append(_gap(at - before - 1))
        shortened.append(_abridged(entries[at], sizes[at], share))
        before = at
    if before < len(entries) - 1:
        shortened.append(_gap(len(entries) - 1 - before))
    return shortened


def _shorter_object(fields: JsonObject, room: int, first: Collection[int]) -> JsonObject:
    names = list(fields)
    costs = [size_of(name) + 4 for name in names]
    sizes = [size_of(fields[name]) for name in names]
    needs = [size + cost for size, cost in zip(sizes, costs, strict=True)]
    kept = _kept(needs, room - _NOTE, first, ends_count=False)
    left = room - _NOTE - sum(costs[at] for at in kept)
    shares = share_out([sizes[at] for at in kept], max(0, left))
    shortened: JsonObject = {
        names[at]: _abridged(fields[names[at]], sizes[at], share)
        for at, share in zip(kept, shares, strict=True)
    }
    if len(kept) < len(names):
        shortened[LEFT_OUT] = f"{len(names) - len(kept):,} of {len(names):,} fields"
    return shortened


def _kept(needs: list[int], room: int, first: Collection[int], *, ends_count: bool = True) -> list[int]:
    """Return the positions that are kept, in their order: those wanted first, then from both ends inwards.

    Each kept entry gets room to say something: its own size, or a few lines where it is larger. Of a series the
    newest entries count as much as the oldest, so both ends of a list are kept; an object's fields come in order.
    """
    order = [at for at in dict.fromkeys(first) if at < len(needs)]
    order += _inwards(len(needs)) if ends_count else range(len(needs))
    enough = max(_LEAST * 3, room // 8)
    kept: set[int] = set()
    gaps = _NOTE // 2 if ends_count else 0
    for at in dict.fromkeys(order):
        cost = min(needs[at], enough) + gaps * (at in first)
        if cost <= room:
            kept.add(at)
            room -= cost
    return sorted(kept)


def _inwards(count: int) -> list[int]:
    """Return positions two from the front, one from the back, until they meet."""
    order: list[int] = []
    front, back = 0, count - 1
    while front <= back:
        order += [front, front + 1] if front < back else [front]
        front += 2
        if front <= back:
            order.append(back)
            back -= 1
    return order


def _gap(count: int) -> JsonObject:
    return {LEFT_OUT: f"{count:,} {'entry' if count == 1 else 'entries'}"}
