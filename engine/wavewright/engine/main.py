"""The command's first lines.

`wavewright --version` and `--help` must answer at once, so nothing heavy is imported before it is
known what was asked: no pydantic, networkx, anyio or mcp.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn

from wavewright.engine.process_one import work_below_process_one
from wavewright.engine.run.version import __version__

if TYPE_CHECKING:
    from threading import Thread


GC_THRESHOLD = 200_000
"""So many new objects make Python look for cycles: more than a small run makes. A run of many steps
has few cycles.
"""
SWITCH_SECONDS = 0.0005
"""After so long a thread that runs Python gives way to one that waits. The thread that writes the
journal waits each time when the disk or the database has answered, and steps wait for it.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; see `docs/reference/exit-codes.md`."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--version"], ["-V"]):
        with suppress(OSError):  # a full disk, a closed pipe: told as by every other command
            sys.stdout.write(f"wavewright {__version__}\n")
            sys.stdout.flush()
            return 0
    # A plug-in that another package has for pydantic (logfire's costs 0.4 s) has no business in
    # this command.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

    from wavewright.engine.interfaces.cli.app import run_command_line

    return run_command_line(given)


def run_process() -> NoReturn:
    """Run the command line as a process of its own, and end it."""
    work_below_process_one()
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A file's name, or a sign that the terminal's encoding lacks, is written as well as can
            # be.
            stream.reconfigure(errors="backslashreplace")
    if sys.argv[1:2] == ["daemon"]:
        _end_daemon_by_signals()
    # What is imported stays: looking for garbage among it takes a tenth of the time of a short
    # command.
    gc.set_threshold(GC_THRESHOLD)
    sys.setswitchinterval(SWITCH_SECONDS)
    _disable_pydantic_plugins()
    try:
        code = main()
    except KeyboardInterrupt:
        code = 130
    threading = sys.modules.get("threading")
    if threading is not None and any(_is_stray(thread) for thread in threading.enumerate()):
        # A tool that is a plain function and never returns was given up in its thread; Python would
        # wait for it.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    gc.freeze()  # nor is anything left to be found at the end
    sys.exit(code)


def _open_closed_streams() -> None:
    """Open the null device for each standard stream that the caller has closed (`>&-`): what is
    written there is lost, as wanted, and no file that is opened later gets its descriptor.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        mode = "r" if name == "stdin" else "w"
        null = open(os.devnull, mode, encoding="utf-8")  # noqa: PTH123, SIM115 - as long as the process
        if null.fileno() != descriptor:
            os.dup2(null.fileno(), descriptor)
            null.close()
            null = open(descriptor, mode, encoding="utf-8")  # noqa: PTH123, SIM115
        os.set_inheritable(descriptor, True)
        setattr(sys, name, null)
        setattr(sys, f"__{name}__", null)


def _end_daemon_by_signals() -> None:
    """Let a signal end a daemon that has not begun with success: until then there is nothing to
    write down.
    """
    import signal

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end_now)


def _end_now(_number: int, _frame: object) -> None:
    os._exit(0)


def _disable_pydantic_plugins() -> None:
    """Answer pydantic's one question to its plug-ins, which is whether there are any, before it
    looks for them.

    Even where it is told to load none, it loads importlib.metadata to look, and with it the parser
    of e-mail: a twentieth of a check. Should pydantic rename the module, it looks again, and
    nothing else changes.
    """
    if "PYDANTIC_DISABLE_PLUGINS" not in os.environ:
        loader = ModuleType("pydantic.plugin._loader")
        vars(loader)["get_plugins"] = tuple
        sys.modules[loader.__name__] = loader


def _is_stray(thread: Thread) -> bool:
    return not thread.daemon and thread.name != "MainThread"


if __name__ == "__main__":
    run_process()
