"""The file of a cassette: recorded requests and their answers.

A *cassette* is a JSON file for reading and diffs: one entry for each request, with its answers in
order; the entries are sorted by content. It is replaced atomically, and entries that another
recording wrote meanwhile are kept. For a request that was not recorded, the nearest recorded one is
found and compared.
"""

from __future__ import annotations

import contextlib
import difflib
import fcntl
import json
import os
import sys
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, cast

from pydantic import Field, ValidationError

from wavewright.config.atomic_files import write_atomically
from wavewright.config.redaction import Redactor
from wavewright.config.sections import CassetteMode
from wavewright.planner import JsonObject
from wavewright.tools.models.cassette.answers import CassetteAnswer, StrictModel
from wavewright.tools.models.cassette.errors import CassetteError, CassetteMiss, how_to_record
from wavewright.tools.models.cassette.requests import RenderedRequest, request_hash

_MAX_LINES = 40
_WIDTH = 110


def describe_miss(path: Path, asked: RenderedRequest, recorded: Sequence[RenderedRequest]) -> str:
    """Return why a cassette has no answer: the nearest recorded request, and the difference to it."""
    if not recorded:
        return f"the cassette {path} has no answer to this request: it is empty"
    lines = list(_lines(asked))
    number, likeness, nearest = _nearest_request(lines, recorded)
    percent = min(int(likeness * 100), 99)
    count = f"{len(recorded)} {'request' if len(recorded) == 1 else 'requests'}"
    head = (
        f"the cassette {path} has no answer to this request; of its {count}, number {number} is the nearest "
        f"({percent} % alike):"
    )
    difference = list(
        difflib.unified_diff(
            nearest, lines, f"request {number} of {path.name}", "this request", n=1, lineterm=""
        )
    )
    shown = difference[:_MAX_LINES]
    if len(difference) > len(shown):
        shown.append(f"… and {len(difference) - len(shown)} lines more")
    return "\n".join([head, *shown])


def _nearest_request(
    asked: list[str], recorded: Sequence[RenderedRequest]
) -> tuple[int, float, list[str]]:
    """Return number, likeness and lines of the recorded request that shares most lines."""
    matcher: difflib.SequenceMatcher[str] = difflib.SequenceMatcher(autojunk=False)
    # SequenceMatcher caches its second text, which stays the same here.
    matcher.set_seq2(asked)
    likeness: list[float] = []
    for request in recorded:
        matcher.set_seq1(list(_lines(request)))
        likeness.append(matcher.quick_ratio())
    nearest = max(range(len(recorded)), key=likeness.__getitem__)
    return nearest + 1, likeness[nearest], list(_lines(recorded[nearest]))


def _lines(request: RenderedRequest) -> Iterator[str]:
    """Yield a request's lines, long ones in pieces: a difference far to the right is seen too."""
    for line in json.dumps(request, ensure_ascii=False, indent=1).split("\n"):
        yield from (line[start : start + _WIDTH] for start in range(0, len(line), _WIDTH))


CASSETTE_VERSION = 1


class _CassetteEntry(StrictModel):
    request: JsonObject
    answers: Annotated[tuple[CassetteAnswer, ...], Field(strict=False, min_length=1)]


class _CassetteFile(StrictModel):
    cassette: Literal[1]
    entries: Annotated[tuple[_CassetteEntry, ...], Field(strict=False)]


@dataclass(slots=True)
class _RecordedRequest:
    """One request and its answers, first to last."""

    request: RenderedRequest
    answers: list[CassetteAnswer]
    place: str
    """What the entry is sorted by."""
    text: str = ""
    """The entry as it stands in the file, once it was written."""

    def write(self) -> str:
        if not self.text:
            answers = [
                answer.model_dump(mode="json", exclude_defaults=True) for answer in self.answers
            ]
            entry = json.dumps(
                {"request": self.request, "answers": answers}, ensure_ascii=False, indent=1
            )
            self.text = entry.replace("\n", "\n  ")
        return self.text

    def add_answers(self, first: int, answers: Sequence[CassetteAnswer]) -> None:
        self.answers[first : first + len(answers)] = answers
        self.text = ""


@dataclass(slots=True)
class Cassette:
    """Answers of a file, given again in their order, and added to where it is recorded.

    One object serves all models of a run, also in parallel: its methods do not wait for anything.
    """

    path: Path
    mode: CassetteMode
    redactor: Redactor
    _entries: dict[str, _RecordedRequest] = field(default_factory=dict[str, _RecordedRequest])
    _request_counts: dict[str, int] = field(default_factory=dict[str, int])
    _file_stamp: tuple[int, int, int] | None = None
    """The state of the file that the entries are of."""

    @classmethod
    def open(cls, path: Path, mode: CassetteMode, redactor: Redactor) -> Cassette:
        """Read a cassette; where it is recorded, it need not exist yet.

        Raises:
            CassetteError: it is absent, cannot be read, or is no cassette.
        """
        cassette = cls(path, mode, redactor)
        cassette._reload()
        if mode == "replay" and cassette._file_stamp is None:
            raise CassetteError(f"there is no cassette {path}", how_to_record(path))
        return cassette

    def __len__(self) -> int:
        return len(self._entries)

    def next_answer(self, request: RenderedRequest) -> CassetteAnswer | None:
        """Return the next answer to a request; none where it has to be recorded.

        Equal requests get the recorded answers in their order, and in a replay the last one from
        then on.

        Raises:
            CassetteMiss: there is none, and none can be recorded.
        """
        key = request_hash(request)
        turn = self._request_counts[key] = self._request_counts.get(key, 0) + 1
        is_replayed = self.mode == "replay"
        known = self._entries.get(key)
        if known is not None and (turn <= len(known.answers) or is_replayed):
            return known.answers[min(turn, len(known.answers)) - 1]
        if is_replayed:
            others = [entry.request for entry in self._sorted()]
            raise CassetteMiss(describe_miss(self.path, request, others), how_to_record(self.path))
        return None

    def forget_request(self, request: RenderedRequest) -> None:
        """Take back a request that was not answered."""
        self._request_counts[request_hash(request)] -= 1

    def add(self, request: RenderedRequest, answer: CassetteAnswer) -> None:
        """Write an answer into the file.

        Raises:
            CassetteError, FileNotWrittenError: it cannot be read, or not be written.
        """
        try:
            with _locked(self.path.parent):
                self._reload()
                entry = self._entry(request)
                entry.add_answers(len(entry.answers), [answer])
                write_atomically(self.path, self._text())
                self._file_stamp = _read_file_stamp(self.path)
        except OSError as error:
            raise _file_error(self.path, "written", error) from error

    def _reload(self) -> None:
        state = _read_file_stamp(self.path)
        if state == self._file_stamp:
            return
        for entry in _read_entries(self.path) if state is not None else ():
            # What stands in the file comes first; what only this recording has, follows.
            self._entry(entry.request).add_answers(0, entry.answers)
        self._file_stamp = state

    def _entry(self, request: RenderedRequest) -> _RecordedRequest:
        key = request_hash(request)
        if key not in self._entries:
            self._entries[key] = _RecordedRequest(request, [], json.dumps(request))
        return self._entries[key]

    def _sorted(self) -> list[_RecordedRequest]:
        return sorted(self._entries.values(), key=lambda entry: entry.place)

    def _text(self) -> bytes:
        entries = ",\n  ".join(entry.write() for entry in self._sorted())
        return (
            f'{{\n "cassette": {CASSETTE_VERSION},\n "entries": [\n  {entries}\n ]\n}}\n'.encode()
        )


def _read_entries(path: Path) -> tuple[_CassetteEntry, ...]:
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise _file_error(path, "read", error) from error
    except (ValueError, RecursionError) as error:
        raise CassetteError(f"the cassette {path} is damaged: {error}", _RESTORE_HINT) from error
    version = cast("JsonObject", content).get("cassette") if isinstance(content, dict) else None
    if version is None:
        raise CassetteError(f"{path} is no cassette of model answers", "name another file")
    if version != CASSETTE_VERSION:
        raise CassetteError(
            f"the cassette {path} has version {version!r}, and this program reads {CASSETTE_VERSION}",
            "delete the file and record it anew, or take the program that wrote it",
        )
    try:
        return _CassetteFile.model_validate(content).entries
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        raise CassetteError(
            f"the cassette {path} is damaged at {place}: {first['msg']}", _RESTORE_HINT
        ) from error


def _file_error(path: Path, done: Literal["read", "written"], error: OSError) -> CassetteError:
    reason = error.strerror or str(error)
    return CassetteError(
        f"the cassette {path} cannot be {done}: {reason}", f"name a file that can be {done}"
    )


_RESTORE_HINT = "take an earlier version of the file, or delete it and record it anew"


def _read_file_stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _file_error(path, "read", error) from error
    return found.st_ino, found.st_mtime_ns, found.st_size


@contextlib.contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Keep other recordings from writing into a folder.

    The folder itself is locked, so that no file is left beside the cassette. Windows has no such
    lock: there, two programs should not record into one cassette at once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
