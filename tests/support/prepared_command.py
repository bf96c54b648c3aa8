"""The command line in a process that was copied from one in which it is imported already, so it starts at once.

A copy is a process like any other: it has a session, a folder, an environment and an output of its own, and may be
killed. Only the imports are shared. Where it matters how a process starts or ends, tests take
`new_process`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Protocol, TypeAlias

from tests.repository.tree import ROOT

Spawn: TypeAlias = "Callable[[Sequence[str], Path, Mapping[str, str], Path], RunningCommand]"
"""Starts `wavewright` with arguments, in a folder, with an environment; what it prints is added to a file."""
# What a module of the daemon imports late is named, too: a name that is gone makes the start slower, and nothing else.
_COPIES = get_context("forkserver")
_COPIES.set_forkserver_preload(
    [
        "anyio._backends._asyncio",
        "openai.resources.chat",
        "wavewright.config.readers.yaml_reader",
        "wavewright.engine.main",
        "wavewright.engine.cli.app",
        "wavewright.engine.cli.service.daemon_command",
        "wavewright.engine.cli.service.worker_command",
        "wavewright.engine.daemon.daemon",
        "wavewright.executor.fleet.caller",
        "wavewright.executor.sqlite.budget_store",
        "wavewright.executor.sqlite.journal",
        "wavewright.planner.planning.conversation",
        "wavewright.planner.plans.digraph",
        "wavewright.prompts.environments",
        "wavewright.reviewer.recovery.replanning",
        "wavewright.reviewer.review.by_model",
        "wavewright.tools.equities.tools",
        "wavewright.tools.lore.tools",
        "wavewright.tools.lore.store.server",
        "wavewright.tools.mcp.sessions",
        "wavewright.tools.mcp.tools",
        "wavewright.tools.mcp.transports",
        "wavewright.tools.models.agent_loop",
        "wavewright.tools.models.clients",
        "wavewright.tools.models.openai_models",
        "wavewright.tools.models.provider_models",
        "wavewright.tools.text.extract_records",
        "wavewright.tools.web.tools",
        "wavewright.tools.workers.agent_run",
        "wavewright.tools.workers.factory",
    ]
)


class RunningCommand(Protocol):
    """What `subprocess.Popen` calls a process."""

    @property
    def pid(self) -> int:
        """The number of the process, which leads its session."""
        ...

    def poll(self) -> int | None:
        """Return how it ended, or minus the number of a signal that ended it; None while it runs."""
        ...

    def wait(self) -> int:
        """Wait for its end and return how it ended."""
        ...

    def send_signal(self, number: int, /) -> None:
        """Send it a signal."""
        ...


def new_process(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    output: Path,
    *,
    module: str = "wavewright.engine.main",
) -> RunningCommand:
    """Start a new interpreter with a module; see `Spawn`."""
    with output.open("ab") as written:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=folder,
            env=environment,
            stdout=written,
            stderr=written,
            start_new_session=True,
        )


class PreparedCommand(RunningCommand):
    """A copy of the prepared process."""

    def __init__(
        self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], output: Path
    ) -> None:
        """Start it; see `Spawn`."""
        given = (list(arguments), str(folder), dict(environment), str(output))
        self._process = _COPIES.Process(target=_run, args=given)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> int:
        self._process.join()
        assert self._process.exitcode is not None
        return self._process.exitcode

    def send_signal(self, number: int, /) -> None:
        os.kill(self.pid, number)


def _run(arguments: list[str], folder: str, environment: dict[str, str], output: str) -> None:
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    named = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [folder, *named, *(path for path in sys.path if path not in {"", str(ROOT)})]
    written = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for stream in (1, 2):
        os.dup2(written, stream)
    sys.argv = ["wavewright", *arguments]
    from wavewright.engine.main import run_process

    run_process()
