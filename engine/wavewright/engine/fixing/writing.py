"""Put a mended text in the place of a file, whole or not at all.

The new text is written beside the file and moved over it, so that whoever reads the file meanwhile, and whatever ends
the command, finds the one text or the other.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_UTF8_BOM = b"\xef\xbb\xbf"


class FileChanged(Exception):
    """The file is no longer what was read."""


def replace_text(path: Path, *, before: str, after: str) -> None:
    """Write a text in the place of another one.

    A link stays a link; the file keeps its rights and its byte order mark.

    Raises:
        FileChanged: the file does not hold the text that was read from it.
        OSError: the file, or its folder, cannot be written.
    """
    target = path.resolve(strict=True)
    content = target.read_bytes()
    if content.removeprefix(_UTF8_BOM) != before.encode():
        raise FileChanged(str(path))
    mark = _UTF8_BOM if content.startswith(_UTF8_BOM) else b""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(mark + after.encode())
            file.flush()
            os.fsync(file.fileno())
        shutil.copymode(target, beside)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
