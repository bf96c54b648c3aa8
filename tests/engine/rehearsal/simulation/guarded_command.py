"""A program: the command line under a guard that notes every socket, every subprocess and every
write.

Writes are allowed in the system's temporary folder alone. What was noted is printed as JSON at the
end; the first argument is the file that it goes to, which the guard itself may write.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import cast

_NOTES = Path(sys.argv[1])
_TEMPORARY = os.path.realpath(tempfile.gettempdir())
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_FORBIDDEN = (
    "socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname",
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pty.spawn",
    "sqlite3.connect", "urllib.Request", "ftplib.connect", "smtplib.connect",
)  # fmt: skip
_CHANGING = (
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.truncate",
    "os.link",
    "os.symlink",
    "os.chmod",
)
noted: list[str] = []
is_watching = True


def _is_outside(path: object, folder: object = -1) -> bool:
    if not isinstance(path, str | bytes | os.PathLike):
        return False
    # A path may be relative to a folder that is open.
    base = (
        Path(f"/proc/self/fd/{folder}").readlink()
        if isinstance(folder, int) and folder >= 0
        else Path()
    )
    where = os.path.realpath(base / os.fsdecode(cast("str", path)))
    return not where.startswith(_TEMPORARY + os.sep) and where != os.devnull


def watch(event: str, arguments: tuple[object, ...]) -> None:
    if not is_watching:
        return
    if event in _FORBIDDEN:
        noted.append(f"{event} {arguments[:2]}")
    elif event == "open" and _is_outside(arguments[0]):
        mode, flags = arguments[1], arguments[2]
        is_writing = isinstance(flags, int) and bool(flags & _WRITING)
        if is_writing or (isinstance(mode, str) and set(mode) & set("wax+")):
            noted.append(f"open {arguments[0]} {mode}")
    elif event in _CHANGING and _is_outside(arguments[0], arguments[-1]):
        noted.append(f"{event} {arguments[0]}")


def main() -> int:
    global is_watching  # noqa: PLW0603 - an audit hook is never taken off
    from wavewright.engine.main import main as run_command_line

    sys.addaudithook(watch)
    code = run_command_line(sys.argv[2:])
    is_watching = False
    _NOTES.write_text(json.dumps(noted))
    return code


if __name__ == "__main__":
    sys.exit(main())
