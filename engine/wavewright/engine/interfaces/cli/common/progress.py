"""The progress of a run: a live table on a terminal, lines in a pipe, JSON for machines.

All three read the run's stream of events. Progress goes to standard error and the outcome to
standard output, so that a pipe gets the outcome alone; with `--json` every event is a line of
standard output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    redirect_stdout,
    suppress,
)
from pathlib import Path
from typing import Protocol, Self, TextIO, cast

from wavewright.engine.interfaces.cli.common.run_text import (
    noteworthy_rungs,
    one_line,
    rung_line,
    summary_text,
    use_line,
)
from wavewright.executor import (
    Event,
    GateRecord,
    ItemFinished,
    Noted,
    PlanAccepted,
    RunStarted,
    StepFinished,
    WaveStarted,
)
from wavewright.executor.events.codec import encode
from wavewright.executor.events.state import SUCCESSES
from wavewright.executor.events.types import ModelCalled, RungTaken
from wavewright.planner import Json, as_list, as_object
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.diagnostics.rendering import printable, printable_json
from wavewright.reviewer import Package
from wavewright.reviewer.package.call_reports import frame_line


class Progress(Protocol):
    """Shows the progress of a run: in lines of text or JSON, or as a live table."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def replay(self, events: Sequence[Event]) -> None:
        """Take the events of earlier attempts at a run that is resumed."""
        ...

    def show(self, event: Event) -> None:
        """Show an event."""
        ...

    def print_line(self, text: str) -> None:
        """Print a line."""
        ...

    def paused(self) -> AbstractContextManager[None]:
        """Return a context in which nothing disturbs a question."""
        ...

    def print_result(self, package: Package, files: Sequence[Path]) -> None:
        """Print the outcome."""
        ...


class PlainProgress:
    """Lines of text on standard error, with the output of tools, so that standard output holds the
    outcome alone.
    """

    def __init__(self) -> None:
        self._out = sys.stdout
        self._redirection = ExitStack()
        self._told_rungs = set[str]()

    def __enter__(self) -> Self:
        self._out = sys.stdout
        self._redirection.enter_context(redirect_stdout(sys.stderr))
        return self

    def __exit__(self, *_: object) -> None:
        self._redirection.close()

    def replay(self, events: Sequence[Event]) -> None:
        """Print how many steps were done before."""
        done = len(
            {
                event.step
                for event in events
                if isinstance(event, StepFinished) and event.status in SUCCESSES
            }
        )
        self.print_line(f"resuming: {counted(done, 'step')} done before")

    def show(self, event: Event) -> None:
        """Print the lines of an event."""
        for line in event_lines(event, self._told_rungs):
            self.print_line(line)

    def print_line(self, text: str) -> None:
        """Print a line."""
        _write(sys.stderr, text)

    @contextmanager
    def paused(self) -> Generator[None]:
        """Return a context that does nothing: lines do not disturb a question."""
        yield

    def print_result(self, package: Package, files: Sequence[Path]) -> None:
        """Print the outcome to standard output."""
        self._redirection.close()
        print_package(package, files)


class QuietProgress(PlainProgress):
    """Only the outcome and notes."""

    def replay(self, events: Sequence[Event]) -> None:
        """Show nothing."""

    def show(self, event: Event) -> None:
        """Show nothing."""


class JsonProgress(PlainProgress):
    """Events as lines of JSON on standard output."""

    def show(self, event: Event) -> None:
        """Print the event."""
        kind, body = encode(event)
        self._print({"kind": kind, **json.loads(body)})

    def print_result(self, package: Package, files: Sequence[Path]) -> None:
        """Print the outcome as the last line."""
        self._print(
            {
                "kind": "outcome",
                "run": package.run,
                "status": package.status,
                "files": [str(path) for path in files],
            }
        )

    def _print(self, body: object) -> None:
        _write(self._out, printable_json(body))


def print_package(package: Package, files: Sequence[Path]) -> None:
    """Print a package's summary and the paths of its files."""
    where = "".join(f"{path.stem:<10}{path}\n" for path in files)
    sys.stdout.write(f"{summary_text(package)}\n{where}")


def event_lines(event: Event, told_rungs: set[str]) -> Iterator[str]:
    """Yield the lines for an event in a log for people.

    A rung that many calls take is told once: its line is added to `told_rungs`.
    """
    match event:
        case RunStarted():
            yield f"run {event.run}  job {event.job!r}"
        case PlanAccepted():
            steps = event.plan.get("steps")
            count = len(steps) if isinstance(steps, list) else 0
            origin = f"patch, round {event.round}" if event.patch is not None else event.rung
            yield f"plan valid ({origin}): {counted(count, 'step')}, {event.plan_hash[:19]}"
        case WaveStarted():
            yield f"wave {event.wave + 1}: {', '.join(event.steps)}"
        case StepFinished():
            yield step_line(event)
            yield from frame_lines(event)
            yield from (f"    {line}" for line in gate_lines(event.gates))
        case Noted(topic="review", body=body) if not body.get("goal_achieved"):
            yield f"review: the goal is not achieved, confidence {review_words(body)}"
        case Noted(topic="recovery"):
            # A model may have written it.
            yield f"recovery: {printable(str(event.body.get('reason', '')))}"
        case Noted(topic="patch_refused"):
            yield from (f"patch refused: {printable(fault)}" for fault in _faults(event.body))
        case Noted(topic="warning"):
            yield f"warning: {printable(str(event.body.get('message', '')))}"
        case ModelCalled(use=use) if use.index is None or use.outcome != "answered":
            yield f"  {use_line(use)}"
        case RungTaken(rung=rung):
            for line in {
                f"  {rung_line(record)}" for record in noteworthy_rungs([rung])
            } - told_rungs:
                told_rungs.add(line)
                yield line
        case ItemFinished() | _:
            return


_MAX_FAULTS = 5


def _faults(body: Mapping[str, object]) -> Iterator[str]:
    """Yield what is wrong with a plan or a patch that a note is about, one line each."""
    found = [as_object(fault) for fault in as_list(cast("Json", body.get("diagnostics")))]
    for fault in found[:_MAX_FAULTS]:
        yield one_line(f"{fault.get('code')}: {fault.get('message')}")
    if len(found) > _MAX_FAULTS:
        yield f"{len(found) - _MAX_FAULTS} more"


def review_words(body: Mapping[str, object]) -> str:
    """Return the confidence and the first sentence of a review; a model may have written it."""
    confidence = body.get("confidence")
    shown = f"{confidence:.2f}" if isinstance(confidence, int | float) else "unknown"
    return f"{shown}: {one_line(str(body.get('summary', '')))}"


def step_line(event: StepFinished) -> str:
    """Return one line on how a step ended."""
    items = f" {event.items[0]}/{event.items[1]}" if event.items else ""
    attempts = (
        f", {event.attempts} attempts"
        if event.attempts > 1 + (event.items[1] if event.items else 0)
        else ""
    )
    # A tool's error message may hold anything, such as control codes of terminals.
    why = printable(event.error.message if event.error else (event.reason or ""))
    return f"  {event.step:<23} {event.status}{items}  {event.seconds:.2f} s{attempts}{'  ' + why if why else ''}"


def frame_lines(event: StepFinished) -> Iterator[str]:
    """Yield the frames of the user's own code in which a step failed, the innermost last."""
    for frame in event.error.frames if event.error is not None else ():
        yield f"    at {printable(frame_line(frame))}"


def gate_lines(records: Sequence[GateRecord]) -> list[str]:
    """Return a line for each gate that failed, with the number of items, and one with its hint."""
    failed: dict[str, list[GateRecord]] = {}
    for record in records:
        if record.has_failed:
            failed.setdefault(record.gate, []).append(record)
    lines: list[str] = []
    for gate, stopped in failed.items():
        first = stopped[0]
        items = f" ({len(stopped)} items)" if len(stopped) > 1 else ""
        lines.append(f"gate {gate} {first.severity}s{items}: {first.message or first.inspected}")
        lines += [f"  = help: {first.hint}"] if first.hint else []
    return [printable(line) for line in lines]


def _write(stream: TextIO, line: str) -> None:
    """Write a line; a closed pipe is ignored, so that the run goes on."""
    with suppress(BrokenPipeError):
        stream.write(line + "\n")
        stream.flush()
