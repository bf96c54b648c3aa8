"""Files inside one folder, and nowhere else.

A *folder* is opened once; every path below it is walked component by component from that open
folder, and no component may be a symbolic link. So a path that was checked cannot be swapped for
another before it is opened: there is no second look-up by name. Paths are names that a plan or a
model may have written, so they are refused by their text first, in one message that says why.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NoReturn, Self

from wavewright.config import WavewrightError

MAX_DEPTH = 16
MAX_COMPONENT_BYTES = 255
MAX_PATH_BYTES = 1024

_RESERVED = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$", "clock$"}
    | {f"{port}{number}" for port in ("com", "lpt") for number in "0123456789¹²³"}
)
"""Names that are devices on Windows, with any extension."""

_DOTS = frozenset("\u2024\u2025\u2026\u3002\uff0e\uff61\ufe52\u00b7\u0701\u0702\ua4f8\ufe19")
_SLASHES = frozenset(
    "\u2044\u2215\u2216\u29f5\u29f8\u29f9\uff0f\uff3c\ufe68\u2571\u2572\u2afb\u27cb\u27cd"
)
_HIDDEN = frozenset("\u200b\u200e\u200f\u061c\u2060\ufeff\u00ad\u180e\u2028\u2029") | frozenset(
    chr(point)
    for point in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xE0000, 0xE0080))
)
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
_SHORT_NAME = re.compile(r"[^.]{1,8}~[0-9]")

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = (
    os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
)  # a FIFO must not hold the reader


class PathRefused(WavewrightError):
    """A path that must not or cannot be opened, with the reason."""

    def __init__(self, path: str, reason: str, *, missing: bool = False) -> None:
        self.path = path
        self.reason = reason
        self.missing = missing
        super().__init__(f"the path {_shown(path)} is refused: {reason}")


def path_parts(path: str) -> tuple[str, ...]:
    """Return the components of a relative path; a component `.` stays where it is and is left out.

    Raises:
        PathRefused: the text is not a plain path below a folder, on any system that might read it.
    """
    if not path:
        raise PathRefused(path, "it is empty")
    _check_characters(path)
    if path.startswith("/"):
        raise PathRefused(path, "it is absolute")
    if len(path.encode()) > MAX_PATH_BYTES:
        raise PathRefused(path, f"it is longer than {MAX_PATH_BYTES} bytes")
    parts = tuple(part for part in path.split("/") if part != ".")
    if not parts:
        raise PathRefused(path, "it names the folder itself")
    if len(parts) > MAX_DEPTH:
        raise PathRefused(path, f"it is deeper than {MAX_DEPTH} folders")
    for part in parts:
        _check_component(path, part)
    return parts


def _check_characters(path: str) -> None:
    for character in path:
        category = unicodedata.category(character)
        if category in ("Cc", "Cs"):
            raise PathRefused(path, "it holds a control character or half a character")
        if character in _HIDDEN:
            raise PathRefused(path, "it holds an invisible or text-reversing character")
        if character in "\\:":
            raise PathRefused(path, f"it holds {character!r}, as Windows paths and addresses do")
        if character in _SLASHES:
            raise PathRefused(path, "it holds a character that looks like a slash")
    if "$" in path:
        raise PathRefused(path, "it holds '$', as variables do")
    if _ENCODED.search(path):
        raise PathRefused(path, "it is percent-encoded")


def _check_component(path: str, part: str) -> None:
    if not part:
        raise PathRefused(path, "it has an empty component")
    if part[0] == "~":
        raise PathRefused(path, "it starts at a home folder")
    if part[0] == "." or part[0] in _DOTS:
        reason = "it leads to a parent folder" if part == ".." else "a component starts with a dot"
        raise PathRefused(path, reason)
    folded = unicodedata.normalize("NFKC", part)
    if folded[0] in "./\\" or any(
        mark in folded and mark not in part for mark in ("/", "\\", ":", "..")
    ):
        raise PathRefused(path, "a component reads as another path once it is normalised")
    if part[-1] in ". ":
        raise PathRefused(path, "a component ends with a dot or a space")
    if (
        folded.split(".", 1)[0].strip().casefold() in _RESERVED
        or part.split(".", 1)[0].casefold() in _RESERVED
    ):
        raise PathRefused(path, f"{part!r} is a device on Windows")
    if _SHORT_NAME.match(part):
        raise PathRefused(path, f"{part!r} is a short name on Windows")
    if len(part.encode()) > MAX_COMPONENT_BYTES:
        raise PathRefused(path, f"a component is longer than {MAX_COMPONENT_BYTES} bytes")


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """One name in a folder."""

    name: str
    is_file: bool
    size: int


class Folder:
    """An open folder; a context manager. Symbolic links below it are refused, wherever they lead.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from wavewright.tools import Folder, PathRefused
    >>> with tempfile.TemporaryDirectory() as root, Folder(Path(root)) as folder:
    ...     try:
    ...         folder.open("../secrets")
    ...     except PathRefused:
    ...         print("refused")
    refused
    """

    def __init__(self, root: Path) -> None:
        """Open the folder itself, which the user named and which may be reached through links.

        Raises:
            OSError: it is not there, is no folder, or may not be read.
        """
        self.root = root
        self._fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the folder; closing twice does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def open(self, path: str) -> BinaryIO:
        """Open a regular file for reading.

        Raises:
            PathRefused: the path leaves the folder, meets a link, or is no regular file.
        """
        *folders, name = path_parts(path)
        with self._open_parent(path, folders, create=False) as parent:
            return self._open_at(path, name, parent)

    @staticmethod
    def _open_at(path: str, name: str, parent: int) -> BinaryIO:
        try:
            fd = os.open(name, _OPEN_FILE, dir_fd=parent)
        except OSError as error:
            _raise_refused(path, error)
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            os.close(fd)
            raise PathRefused(
                path, "it is a folder" if stat.S_ISDIR(mode) else "it is no regular file"
            )
        os.set_blocking(fd, True)
        return os.fdopen(fd, "rb")

    def read(self, path: str, *, max_bytes: int) -> bytes:
        """Return what a regular file holds.

        Raises:
            PathRefused: see `open`; or it holds more than `max_bytes`.
        """
        with self.open(path) as file:
            return _all_of(file, path, max_bytes)

    def read_entry(self, entry: FolderEntry, *, max_bytes: int) -> bytes:
        """Return what a file holds that `entries` has listed, whatever its name is elsewhere: on
        Linux `CON.csv` is a file as any other.

        Raises:
            PathRefused: see `read`.
        """
        with self._open_at(entry.name, entry.name, self._fd) as file:
            return _all_of(file, entry.name, max_bytes)

    def write(self, path: str, content: bytes) -> None:
        """Write a file whole, with missing folders: it has the new content or the old, never a
        part.

        Files are made with mode 0600 and folders with 0700.

        Raises:
            PathRefused: the path leaves the folder, meets a link, or there is something else than a
                file.
        """
        *folders, name = path_parts(path)
        with self._open_parent(path, folders, create=True) as parent:
            _require_file_or_nothing(path, name, parent)
            draft = f".{secrets.token_hex(8)}.part"
            try:
                fd = os.open(
                    draft,
                    os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                    0o600,
                    dir_fd=parent,
                )
            except OSError as error:
                _raise_refused(path, error)
            try:
                with os.fdopen(fd, "wb") as file:
                    file.write(content)
                os.rename(draft, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException as error:
                with suppress(FileNotFoundError):  # the folder may have been removed meanwhile
                    os.unlink(draft, dir_fd=parent)
                if isinstance(error, OSError):
                    _raise_refused(path, error)
                raise

    def entries(self) -> tuple[FolderEntry, ...]:
        """Return what stands directly in the folder, by name, without links, dot files and special
        files.
        """
        entries: list[FolderEntry] = []
        with os.scandir(self._fd) as items:
            for item in items:
                status = item.stat(follow_symlinks=False)
                is_file = stat.S_ISREG(status.st_mode)
                if not item.name.startswith(".") and (is_file or stat.S_ISDIR(status.st_mode)):
                    entries.append(FolderEntry(item.name, is_file, status.st_size))
        return tuple(sorted(entries, key=lambda entry: entry.name))

    def files(self, path: str = ".") -> list[str]:
        """Return the regular files below a path by name, without links, dot files and what lies in
        dot folders.

        Raises:
            PathRefused: see `open`; or it is no folder.
        """
        parts = [part for part in path.split("/") if part not in {"", "."}] and path_parts(path)
        files: list[str] = []
        with self._open_parent(path, [*parts], create=False) as parent:
            for below, folders, names, at in os.fwalk(".", dir_fd=parent):
                folders[:] = sorted(name for name in folders if not name.startswith("."))
                where = [*parts, *(part for part in below.split("/") if part != ".")]
                for name in names:
                    is_file = stat.S_ISREG(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)
                    if is_file and not name.startswith("."):
                        files.append("/".join([*where, name]))
        return sorted(files)

    @contextmanager
    def _open_parent(self, path: str, folders: list[str], *, create: bool) -> Generator[int]:
        """Yield the open folder that the components lead to, never through a link."""
        current = os.dup(self._fd)
        try:
            for name in folders:
                try:
                    if create:
                        with suppress(FileExistsError):
                            os.mkdir(name, 0o700, dir_fd=current)
                    following = os.open(name, _OPEN_FOLDER, dir_fd=current)
                except OSError as error:
                    _raise_refused(path, error)
                os.close(current)
                current = following
            yield current
        finally:
            os.close(current)


def _require_file_or_nothing(path: str, name: str, parent: int) -> None:
    try:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISLNK(mode):
        raise PathRefused(path, "it is a symbolic link")
    if not stat.S_ISREG(mode):
        raise PathRefused(path, "there is something else than a regular file")


def _all_of(file: BinaryIO, path: str, max_bytes: int) -> bytes:
    content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise PathRefused(path, f"it is larger than {max_bytes:,} bytes")
    return content


def _raise_refused(path: str, error: OSError) -> NoReturn:
    """Raise what an operating system's refusal means."""
    reasons = {
        errno.ELOOP: "it meets a symbolic link",
        errno.ENOTDIR: "a component is a symbolic link or no folder",
        errno.ENOENT: "there is no such file",
        errno.ENXIO: "it is no regular file",
        errno.EACCES: "it may not be read or written by this user",
        errno.EISDIR: "it is a folder",
        errno.EROFS: "its disk is read-only",
        errno.ENOSPC: "its disk is full",
    }
    reason = reasons.get(error.errno or 0, (error.strerror or "it cannot be opened").lower())
    raise PathRefused(path, reason, missing=error.errno == errno.ENOENT) from error


def _shown(path: str) -> str:
    return ascii(path if len(path) <= 80 else path[:77] + "...")
