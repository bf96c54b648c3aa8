"""Calls of functions in other processes, which a deadline can stop.

A process begins with this module, not with the program that calls: processes of `multiprocessing`
and `anyio.to_process` execute a script once more, unless all that it does stands behind
`if __name__ == "__main__"`, and so would repeat its runs. Processes are kept for later calls, and
end with the program.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, TypeVar, cast

import anyio
import anyio.to_process
import anyio.to_thread

from wavewright.config import WavewrightError

_Source = TypeVar("_Source")
_Result = TypeVar("_Result")

_PROGRAM: Final = (
    "import sys; "
    "from multiprocessing.connection import Connection; "
    "calls = Connection(int(sys.argv[1])); "
    "sys.path[:] = calls.recv(); "
    f"from {__name__} import serve; "
    "calls.send(None); "
    "serve(calls)"
)


_START_SECONDS: Final = 60.0
"""For a process to begin and to import what is called, which is no time of the call."""


class ProcessEndedError(WavewrightError):
    """A process has ended within a call."""


async def call_in_process(
    function: Callable[[_Source], _Result], source: _Source, *, seconds: float
) -> _Result:
    """Return what a function of a module returns for `source`, called in another process.

    Raises:
        TimeoutError: the call takes longer than `seconds`, for which neither waiting for a process
            nor its begin counts; or a process does not begin within a minute.
        ProcessEndedError: the process has ended within the call.
        Exception: what the function raises.
    """
    async with anyio.to_process.current_default_process_limiter():
        process = _idle_process() or _Process()
        try:
            with anyio.fail_after(_START_SECONDS):
                await _in_thread(process.prepare, function)
            with anyio.fail_after(seconds):
                is_returned, value = await _in_thread(process.call, source)
        except BaseException:
            process.stop()
            raise
        _idle.append(process)
    if not is_returned:
        raise cast("Exception", value)
    return cast("_Result", value)


async def _in_thread(wait: Callable[[_Source], _Result], source: _Source) -> _Result:
    """Return what a function returns that waits for a process, unless the caller is cancelled."""
    limiter = anyio.CapacityLimiter(1)
    return await anyio.to_thread.run_sync(wait, source, abandon_on_cancel=True, limiter=limiter)


class _Process:
    """A process that makes one call after the other."""

    def __init__(self) -> None:
        self._calls, theirs = Pipe()
        with theirs:
            # -P: no module of the working directory is imported in the place of one that is meant.
            self._child = subprocess.Popen(  # noqa: S603 - this interpreter, with the program above
                [sys.executable, "-P", "-c", _PROGRAM, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                # The folder that a program works in may go while the process waits for a call.
                cwd=sys.prefix,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._is_new = True

    @property
    def has_ended(self) -> bool:
        return self._child.poll() is not None

    def prepare(self, function: Callable[[_Source], object]) -> None:
        """Let the process import the function that is called next."""
        if self._is_new:
            self._answer_to([str(Path(folder).absolute()) for folder in sys.path])
            self._is_new = False
        self._answer_to(function)

    def call(self, source: object) -> tuple[bool, object]:
        """Return whether the function returned, and what it returned or raised."""
        return cast("tuple[bool, object]", self._answer_to(source))

    def _answer_to(self, sent: object) -> object:
        try:
            self._calls.send(sent)
            return self._calls.recv()
        except (OSError, EOFError) as error:
            raise ProcessEndedError("the process has ended within the call") from error

    def stop(self) -> None:
        """End the process, whatever it does: a call that waits for it raises an error."""
        self._child.kill()
        self._child.wait()


_idle: Final[list[_Process]] = []
# A fork of the program would read the answers to the calls of the program.
os.register_at_fork(after_in_child=_idle.clear)


def _idle_process() -> _Process | None:
    """Take a process that waits for a call, if there is one."""
    while _idle:
        process = _idle.pop()
        if not process.has_ended:
            return process
    return None


@atexit.register
def _stop_idle() -> None:
    while (process := _idle_process()) is not None:
        process.stop()


def serve(calls: Connection) -> None:
    """Make the calls that a program sends, until it ends; this is all that a process does."""
    # Ctrl-C is for the program, which stops its processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            function = cast("Callable[[object], object]", calls.recv())
            calls.send(None)
            source = cast("object", calls.recv())
        except (OSError, EOFError):
            return
        try:
            answer = True, function(source)
        except Exception as error:  # noqa: BLE001 - raised again where the call was made
            answer = False, error
        calls.send(answer)
