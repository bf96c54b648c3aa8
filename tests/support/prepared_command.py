"""The command line in a process that was copied from one in which it is imported already, so it
starts at once.

A copy is a process like any other: it has a session, a folder, an environment and an output of its
own, and may be killed. Only imports and what `prepared_project` has made are shared. Where it
matters how a process starts, tests take `new_process`.

`PreparedCommand` writes into a file, `PipedCommand` and `run_prepared` are for `subprocess.Popen`
with pipes and `subprocess.run`; with `run_python` they run a module, as `pytest`, or another
program.
"""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from io import TextIOWrapper
from multiprocessing import get_context
from multiprocessing.reduction import DupFd
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, Self, TypeAlias

from _pytest.assertion.rewrite import AssertionRewritingHook

from tests.repository.tree import ROOT

Spawn: TypeAlias = "Callable[[Sequence[str], Path, Mapping[str, str], Path], RunningCommand]"
"""Starts `wavewright` with arguments, in a folder, with an environment; what it prints is added to
a file.
"""
# What a module of the daemon imports late is named, too: a name that is gone makes the start
# slower, and nothing else.
_COPIES = get_context("forkserver")
_COPIES.set_forkserver_preload(
    [
        "anyio._backends._asyncio",
        "genai_prices.data",
        "networkx",
        "openai.resources.chat.completions.completions",
        "pydantic_ai.providers.ollama",
        "pydantic_ai.providers.openai",
        "pytest",
        "syrupy",
        "uvicorn.protocols.http.h11_impl",
        "uvloop",
        "wavewright.config.readers.yaml_and_toml",
        "wavewright.engine.interfaces.cli.app",
        "wavewright.engine.interfaces.cli.commands.people",
        "wavewright.engine.interfaces.cli.commands.plan",
        "wavewright.engine.interfaces.cli.commands.runs",
        "wavewright.engine.interfaces.cli.commands.serve",
        "wavewright.engine.interfaces.cli.commands.start",
        "wavewright.engine.interfaces.cli.common.live",
        "wavewright.engine.interfaces.cli.lsp.server",
        "wavewright.engine.interfaces.cli.mcp_server.server",
        "wavewright.engine.interfaces.cli.planning.plan_command",
        "wavewright.engine.interfaces.cli.runs.run_command",
        "wavewright.engine.interfaces.cli.service.daemon_command",
        "wavewright.engine.interfaces.cli.service.worker_command",
        "wavewright.engine.service.daemon.daemon",
        "wavewright.engine.main",
        "wavewright.executor.fleet.caller",
        "wavewright.executor.postgres.journal",
        "wavewright.executor.sqlite.journal",
        "wavewright.planner.checks.goal_rules",
        "wavewright.planner.planning.planner",
        "wavewright.planner.reading.repairs",
        "wavewright.prompts.environments",
        "wavewright.reviewer.recovery.replanning",
        "wavewright.reviewer.report.page",
        "wavewright.reviewer.review.by_model",
        "wavewright.packs.equities.tools",
        "wavewright.packs.knowledge.documents",
        "wavewright.packs.knowledge.graph.tools",
        "wavewright.packs.tabletop.settings",
        "wavewright.tools.functions.threads",
        "wavewright.packs.lore.store.server",
        "wavewright.packs.lore.tools",
        "wavewright.tools.mcp.sessions",
        "wavewright.tools.mcp.tools",
        "wavewright.tools.mcp.connection",
        "wavewright.tools.models.agent_loop",
        "wavewright.tools.models.clients",
        "wavewright.tools.models.provider_models",
        "wavewright.packs.text.extract_records",
        "wavewright.packs.web.tools",
        "wavewright.tools.workers.agent_run",
        "wavewright.tools.workers.services",
        "tests.support.prepared_project",
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
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        output: Path | int,
        errors: int | None = None,
        *,
        read: int | None = None,
        closed: Sequence[int] = (),
        target: Callable[[list[str]], None] | None = None,
    ) -> None:
        """Start it; see `Spawn`. `output` may be an open file, a terminal's too, and `errors` and
        what is `read` other ones.

        The standard streams whose numbers are `closed` it finds as after `>&-` in a shell.
        `target` gets the arguments in the place of the command line.
        """
        with ExitStack() as stack:
            if isinstance(output, Path):
                output = stack.enter_context(output.open("ab")).fileno()
            streams = (
                None if read is None else _OpenFile(read),
                _OpenFile(output),
                _OpenFile(output if errors is None else errors),
            )
            given = (
                target or _run_command,
                list(arguments),
                str(folder),
                dict(environment),
                streams,
                tuple(closed),
            )
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
        # The fork server may have reaped it before its end can be read here.
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)


class PipedCommand(PreparedCommand):
    """A prepared command in this environment, or another; what it prints is read from `stdout` and
    `stderr`.
    """

    def __init__(
        self,
        *arguments: str,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        closed: Sequence[int] = (),
        target: Callable[[list[str]], None] | None = None,
    ) -> None:
        (output, written), (errors, told) = os.pipe(), os.pipe()
        self.stdout = os.fdopen(output, encoding="utf-8")
        self.stderr = os.fdopen(errors, encoding="utf-8")
        try:
            where = Path.cwd() if folder is None else folder
            variables = os.environ if environment is None else environment
            super().__init__(
                arguments, where, variables, written, told, closed=closed, target=target
            )
        finally:
            os.close(written)
            os.close(told)

    @property
    def returncode(self) -> int | None:
        """How it ended; None while it runs."""
        return self.poll()

    def communicate(self) -> tuple[str, str]:
        """Wait for its end; return what is left of its output and of what it told, and close both."""
        with self.stdout, self.stderr, ThreadPoolExecutor(2) as pool:
            output, errors = pool.map(TextIOWrapper.read, (self.stdout, self.stderr))
        self.wait()
        return output, errors

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill it, where it has not ended."""
        if self.poll() is None:
            self.send_signal(signal.SIGKILL)
        self.wait()
        self.stdout.close()
        self.stderr.close()


def run_prepared(
    *arguments: str,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    closed: Sequence[int] = (),
    target: Callable[[list[str]], None] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command as a prepared process to its end."""
    running = PipedCommand(
        *arguments, folder=folder, environment=environment, closed=closed, target=target
    )
    output, errors = running.communicate()
    return subprocess.CompletedProcess(arguments, running.wait(), output, errors)


def run_prepared_python(
    *arguments: str, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `python …` as a prepared process to its end; see `run_python`."""
    return run_prepared(*arguments, folder=folder, environment=environment, target=run_python)


def run_new_python(
    *arguments: str, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `python` as a new interpreter to its end."""
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@dataclass(frozen=True)
class _OpenFile:
    """An open file of this process, which its copy gets as one of its own, by number."""

    number: int

    def __reduce__(self) -> tuple[Callable[[Any], int], tuple[Any]]:
        return _number_in_copy, (DupFd(self.number),)


def _number_in_copy(handle: Any) -> int:
    number: int = handle.detach()
    return number


def _run(
    target: Callable[[list[str]], None],
    arguments: list[str],
    folder: str,
    environment: dict[str, str],
    streams: tuple[int | None, int, int],
    closed: tuple[int, ...],
) -> None:
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # another environment may name another folder
    named = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [folder, *named, *(path for path in sys.path if path not in {"", str(ROOT)})]
    read, output, errors = streams
    if read is None:
        read = output if os.isatty(output) else os.open(os.devnull, os.O_RDONLY)
    for number, stream in enumerate((read, output, errors)):
        os.dup2(stream, number)
    for stream in {read, output, errors}:
        os.close(stream)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    for number in closed:
        _close_stream(number)
    target(arguments)


def _close_stream(number: int) -> None:
    """Close a standard stream; Python starts with None in the place of one that is closed."""
    os.close(number)
    name = ("stdin", "stdout", "stderr")[number]
    setattr(sys, name, None)
    setattr(sys, f"__{name}__", None)


def _run_command(arguments: list[str]) -> None:
    sys.argv = ["wavewright", *arguments]
    from wavewright.engine.main import run_process

    run_process()


def run_python(arguments: list[str]) -> None:
    """Run a module after `-m`, a text after `-c`, or a file, as the program of this process."""
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    match arguments:
        case ["-m", module, *_]:
            # pytest warns of plugins that were imported before it could rewrite their assertions.
            AssertionRewritingHook._warn_already_imported = lambda *_: None  # type: ignore[method-assign]
            sys.argv = arguments[1:]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", program, *rest]:
            sys.argv = ["-c", *rest]
            sys.modules["__main__"] = main = ModuleType("__main__")
            exec(compile(program, "<string>", "exec"), vars(main))  # noqa: S102 - a test's own program
        case _:
            sys.argv = arguments
            runpy.run_path(arguments[0], run_name="__main__")
