"""The child processes of a process, as Linux lists them."""

from contextlib import suppress
from pathlib import Path


def child_processes(process: int | str, command: str) -> list[int]:
    """Return the children of a process (its id or `self`) whose command line holds `command`.

    Threads and children that end while the list is read are left out.
    """
    found: list[int] = []
    for thread in Path(f"/proc/{process}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            found.extend(int(child) for child in (thread / "children").read_text().split())
    return [child for child in found if command in command_line(child)]


def command_line(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""
