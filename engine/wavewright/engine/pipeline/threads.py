"""Async work for plain callers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import anyio

T = TypeVar("T")


def run_to_end(work: Callable[[], Coroutine[object, object, T]]) -> T:
    """Run async work to its end, in a thread of its own where this one runs an event loop already."""
    if not _in_event_loop():
        return anyio.run(work)
    with ThreadPoolExecutor(1, thread_name_prefix="run_plan") as alone:
        return alone.submit(anyio.run, work).result()


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        trio = sys.modules.get("trio")
        return trio is not None and bool(trio.lowlevel.in_trio_run())
    return True
