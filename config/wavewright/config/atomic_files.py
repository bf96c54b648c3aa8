"""Files written atomically.

A file appears under its name only once all of it is on the disk, and only its owner can read it. An
error names the place and the fix, and leaves no part of the file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError

_HINTS = {
    errno.ENOSPC: "the disk is full: free some space, or give another folder",
    errno.EDQUOT: "the quota is used up: free some space, or give another folder",
    errno.EROFS: "the disk is read-only: give a folder that can be written to",
    errno.EACCES: "it may not be written to: change its permissions, or give another folder",
    errno.EPERM: "it may not be written to: change its permissions, or give another folder",
    errno.EEXIST: "a part of the path is a file: give a folder",
    errno.ENOTDIR: "a part of the path is a file: give a folder",
    errno.EISDIR: "there is a folder of that name: remove it, or give another name",
    errno.ENAMETOOLONG: "the name is too long: give a shorter one",
}


class FileNotWrittenError(WavewrightError):
    """A file that could not be written; the message names the place and the fix."""

    exit_code = exit_codes.ENVIRONMENT

    def __init__(self, path: Path, error: OSError) -> None:
        self.path = path
        fix = _HINTS.get(error.errno or 0, error.strerror or str(error))
        super().__init__(f"cannot write {str(path)!r}: {fix}")


def write_atomically(path: Path, content: bytes) -> Path:
    """Write a file atomically, with its folder where there is none, and return its path.

    Raises:
        FileNotWrittenError: the file is not written.
    """
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            _write_new(temporary, content)
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise FileNotWrittenError(path, error) from error
    return path


def _write_new(path: Path, content: bytes) -> None:
    flags = (
        os.O_WRONLY
        | os.O_CREAT
        | os.O_EXCL
        | getattr(os, "O_NOFOLLOW", 0)
        | getattr(os, "O_CLOEXEC", 0)
    )
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the new name durable; file systems without such a call are ignored."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
