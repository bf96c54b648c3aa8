"""Model workers: tools whose answer a language model writes, declared as data and run by one implementation."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavewright.tools.workers.agent import agent_tool
    from wavewright.tools.workers.files import load_workers, read_worker_file
    from wavewright.tools.workers.making import make_worker
    from wavewright.tools.workers.services import AGENT, Services, make_services
    from wavewright.tools.workers.specs import AnswerRefused, AnswerToFinish, Worker, WorkerSpec

__all__ = [
    "AGENT",
    "AnswerRefused",
    "AnswerToFinish",
    "Services",
    "Worker",
    "WorkerSpec",
    "agent_tool",
    "load_workers",
    "make_services",
    "make_worker",
    "read_worker_file",
]

_HOMES = {
    "AGENT": "services",
    "AnswerRefused": "specs",
    "Finishing": "specs",
    "Services": "services",
    "Worker": "specs",
    "WorkerSpec": "specs",
    "agent_tool": "agent",
    "load_workers": "files",
    "make_services": "services",
    "make_worker": "making",
    "read_worker_file": "files",
}
"""The module of each public name: nothing heavy is imported before it is asked for."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
