"""Signals that arrive while the event loop waits.

Python calls a signal's handler in the main thread, the next time that thread executes Python code. A signal that the
system delivers to another thread, or just before the loop begins to wait for I/O, does not end that wait: without a
wakeup descriptor the handler would be called only after some other event.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def signals_wake_loop() -> Generator[None]:
    """Open a context in which each signal that Python handles wakes the running event loop.

    It is entered on the event loop of the main thread. Handlers stay as they are.
    """
    loop = asyncio.get_running_loop()
    reader, writer = socket.socketpair()
    with reader, writer:
        writer.setblocking(False)
        loop.add_reader(reader, reader.recv, 4096)
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(reader)
