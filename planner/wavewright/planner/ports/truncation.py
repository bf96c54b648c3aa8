"""Cutting values to the room that a prompt has for them.

A value that is too large for its place is *truncated* to valid JSON: it keeps whole entries and
whole fields as far as there is room, long texts end at a word, and a note says what is left out
wherever something is. Apart from these notes, the result holds only parts of the value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.types import Json, JsonObject
from wavewright.prompts.values import prompt_json

OMITTED_KEY: Final = "…left out"
"""Key of the note in a truncated list or object on what is left out."""

_MIN_CHARS = 24
"""Characters below which a text is replaced by its length."""
_NOTE_CHARS = 48
"""Maximum characters of a note on what is left out."""
_MAX_MISSES = 100
"""Consecutive entries without room after which the others are skipped unmeasured."""


def truncate(
    value: Json, room: int, first: Collection[int] = (), words: Collection[str] = ()
) -> Json:
    """Return a value whose JSON takes `room` characters at most, or as near to that as notes on
    what is left out allow.

    Args:
        value: The value to truncate.
        room: Maximum characters of its JSON, escaped for a prompt.
        first: Positions of a list's entries, or of an object's fields, that are kept before all
            others.
        words: Lower-case words that are looked for: fields of these names come first, and of a long
            text the part that holds most of them is kept beside its head and its tail.
    """
    size, target = prompt_size(value), room
    while True:
        shown = _truncate_value(value, size, target, first, words)
        if target <= _MIN_CHARS or prompt_size(shown) <= room:
            return shown
        # Notes and escapes have taken more than their share: what they mark gets less.
        target = target * 3 // 4


def prompt_size(value: Json) -> int:
    """Return the number of characters of a value as JSON in a prompt."""
    return len(prompt_json(value))


def allot_chars(needs: Sequence[int], room: int) -> list[int]:
    """Return the share of each: what it needs, or an equal part of the remaining room where that is
    less.
    """
    shares = [0] * len(needs)
    left, waiting = room, sorted(range(len(needs)), key=needs.__getitem__)
    for position, which in enumerate(waiting):
        fair = left // (len(waiting) - position)
        shares[which] = min(needs[which], fair)
        left -= shares[which]
    return shares


def _truncate_value(
    value: Json, size: int, room: int, first: Collection[int] = (), words: Collection[str] = ()
) -> Json:
    # Sizes are passed down, so that each level of a value is measured once.
    if size <= room:
        return value
    match value:
        case str():
            return _truncate_around(value, room, words)
        case list():
            return _truncate_list(value, room, [at for at in first if at < len(value)], words)
        case dict():
            named = [at for at, name in enumerate(value) if name.lower() in words]
            places = dict.fromkeys([*(at for at in first if at < len(value)), *named])
            return _truncate_object(value, room, [*places], words)
        case _:
            return value


_PASSAGE_CHARS: Final = 400
"""Characters of a passage that is looked at for words."""
_MAX_SEARCHED_CHARS: Final = 1_000_000


def _truncate_around(text: str, room: int, words: Collection[str]) -> str:
    """Return a text with its head, its tail, and between them the passage that is looked for."""
    plain = _truncate_text(text, room)
    size = min(_PASSAGE_CHARS, room // 4)
    if not words or size < _MIN_CHARS * 4:
        return plain
    lower = text[:_MAX_SEARCHED_CHARS].lower()
    # What is shown of the head already needs no passage.
    starts = range(room // 2, len(lower) - size, size // 2)
    best, most = 0, 0
    for start in starts:
        passage = lower[start : start + size]
        hits = sum(word in passage for word in words)
        if hits > most:
            best, most = start, hits
    if not most:
        return plain
    begin = text.find(" ", best, best + size) + 1 or best
    end = text.rfind(" ", begin, best + size)
    if end < 0:
        end = best + size
    passage = text[begin:end]
    left = room - prompt_size(passage)
    head, tail = (
        _truncate_text(text[:begin].rstrip(), left * 2 // 3),
        _truncate_text(text[end:].lstrip(), left // 3),
    )
    whole = f"{head} {passage} {tail}"
    return whole if prompt_size(whole) <= room else plain


def _truncate_text(text: str, room: int) -> str:
    # An escape takes up to twelve characters, so the length that fits is found by shrinking.
    kept = min(len(text), max(0, room - _NOTE_CHARS))
    while kept and prompt_size(text[:kept]) > room - _NOTE_CHARS:
        kept = kept * 3 // 4
    if kept < _MIN_CHARS:
        return f"…({counted(len(text), 'character')} left out)"
    # What a text comes to often stands at its end.
    tail_start = len(text) - (kept // 4 if kept >= _MIN_CHARS * 4 else 0)
    kept -= len(text) - tail_start
    blank = max(text.rfind(sign, kept * 3 // 4, kept) for sign in " \n\t")
    head = text[: blank if blank > 0 else kept].rstrip()
    after = min(
        (at for at in (text.find(sign, tail_start) for sign in " \n\t") if at >= 0), default=-1
    )
    tail = text[after if 0 <= after < len(text) - 1 else tail_start :].lstrip()
    gone = len(text) - len(head) - len(tail)
    if not tail:
        return f"{head} …({gone:,} more characters left out)"
    return f"{head} …({gone:,} more characters left out)… {tail}"


def _truncate_list(
    entries: list[Json], room: int, first: Collection[int], words: Collection[str]
) -> Json:
    order = _positions_inwards(len(entries))
    sizes = _fitting(
        order, lambda at: prompt_size(entries[at]), room - _NOTE_CHARS, first, gap=_NOTE_CHARS // 2
    )
    if not sizes:
        return _omission_note(len(entries))
    kept = sorted(sizes)
    shares = allot_chars([sizes[at] for at in kept], room - _NOTE_CHARS - 2 * len(kept))
    shortened: list[Json] = []
    before = -1
    for at, share in zip(kept, shares, strict=True):
        if at > before + 1:
            shortened.append(_omission_note(at - before - 1))
        shortened.append(_truncate_value(entries[at], sizes[at], share, (), words))
        before = at
    if before < len(entries) - 1:
        shortened.append(_omission_note(len(entries) - 1 - before))
    return shortened


def _truncate_object(
    fields: JsonObject, room: int, first: Collection[int], words: Collection[str]
) -> JsonObject:
    names = list(fields)

    def size_at(at: int) -> int:
        return prompt_size(names[at]) + 2 + prompt_size(fields[names[at]])

    sizes = _fitting(range(len(names)), size_at, room - _NOTE_CHARS, first)
    kept = sorted(sizes)
    frames = {at: prompt_size(names[at]) + 2 for at in kept}
    left = room - _NOTE_CHARS - sum(frames.values()) - 2 * len(kept)
    inner = [sizes[at] - frames[at] for at in kept]
    shortened: JsonObject = {
        names[at]: _truncate_value(fields[names[at]], size, share, (), words)
        for at, size, share in zip(kept, inner, allot_chars(inner, max(0, left)), strict=True)
    }
    if len(kept) < len(names):
        shortened[OMITTED_KEY] = f"{len(names) - len(kept):,} of {len(names):,} fields"
    return shortened


def _fitting(
    order: Iterable[int],
    size_at: Callable[[int], int],
    room: int,
    first: Collection[int],
    *,
    gap: int = 0,
) -> dict[int, int]:
    """Return the positions to keep with their sizes: those of `first`, then those of `order`.

    Each kept entry is allotted its own size, or a few lines if it is larger. After many consecutive
    entries without room the rest is not measured, so the time depends on what is kept, not on the
    length of the value. `gap` is the size of the note before an entry of `first`.
    """
    enough = max(_MIN_CHARS * 3, room // 8)
    wanted = frozenset(first)
    kept: dict[int, int] = {}
    misses = 0
    for at in chain(first, order):
        if at in kept:
            continue
        size = size_at(at)
        cost = min(size + 2, enough) + gap * (at in wanted)
        if cost <= room:
            kept[at] = size
            room -= cost
            misses = 0
        elif (misses := misses + 1) > _MAX_MISSES:
            break
    return kept


def _positions_inwards(count: int) -> Iterator[int]:
    """Yield positions two from the front, one from the back, until they meet.

    In a time series the newest entries matter as much as the oldest, so both ends of a list are
    kept.
    """
    front, back = 0, count - 1
    while front <= back:
        yield front
        if front < back:
            yield front + 1
        front += 2
        if front <= back:
            yield back
            back -= 1


def _omission_note(count: int) -> JsonObject:
    return {OMITTED_KEY: counted(count, "entry", "entries")}
