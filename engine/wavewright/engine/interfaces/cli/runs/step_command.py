"""`wavewright show RUN STEP` and `wavewright logs RUN`: the journal's records of a step's calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import anyio

from wavewright.config import Settings, exit_codes, known_secrets_redactor
from wavewright.engine.interfaces.cli.common.arguments import (
    open_journal,
    project_settings,
    require_journal,
)
from wavewright.engine.interfaces.cli.common.named_runs import find_named_run, load_run
from wavewright.engine.interfaces.cli.common.output import (
    CommandError,
    print_json,
    print_line,
    print_lines,
)
from wavewright.engine.interfaces.cli.common.run_text import use_line
from wavewright.executor import Event, RunState, StepFinished, fold, to_json
from wavewright.executor.events.state import SUCCESSES, step_ids
from wavewright.executor.events.types import AttemptLogged, OutputLogged
from wavewright.executor.run.redacted_events import redacted_events
from wavewright.executor.store import run_queries
from wavewright.planner import Json, JsonObject, RunId, StepId, suggest_name
from wavewright.planner.diagnostics.rendering import cut_middle, printable, printable_json
from wavewright.reviewer.package.call_reports import frame_line
from wavewright.reviewer.package.log_lines import (
    NOTHING_SHOWN,
    LogFilter,
    LogLine,
    log_lines,
)
from wavewright.reviewer.package.step_records import StepAtWork, StepRecord, step_record
from wavewright.reviewer.values import duration_text, iso_of_epoch

_MAX_ITEMS = 20
_MAX_CHARS = 8_000
"""Characters of one value, prompt or answer that are printed as text; `--format json` prints all.
"""
_PAUSE = 0.3
"""Seconds between two looks at the journal of a run that is followed."""
_LOG_STREAMS = {
    "traceback": "traceback",
    "stdout": "standard output",
    "stderr": "standard error",
    "log": "log",
}


def show_step(run: str | None, step: str, *, output_format: str) -> int:
    """Print one step of a run: parameters, output, attempts with what they printed and raised,
    model calls.

    Raises:
        CommandError: the run has no such step, or a step cannot be shown in that format.
    """
    if output_format not in ("text", "json"):
        raise CommandError(
            f"a step cannot be shown as {output_format}", hint="give --format text or json"
        )
    settings = project_settings()
    found, journaled = anyio.run(load_run, settings, run)
    events = redacted_events(journaled)
    state = fold(events)
    view = step_record(step, state, events)
    if view is None:
        raise _no_such_step(step, found, state)
    if output_format == "json":
        body = known_secrets_redactor(settings).redact_json(_step_json(found, view))
        print_json(body)
    else:
        print_lines(_step_lines(view, settings))
    return exit_codes.OK


@dataclass(frozen=True, slots=True)
class LogRequest:
    """Which lines of a run's log are printed, and whether those that come are waited for."""

    lines: LogFilter
    is_followed: bool

    @property
    def is_by_line(self) -> bool:
        """Whether lines are printed, and not whole attempts."""
        return self.is_followed or self.lines != LogFilter(step=self.lines.step)


def show_logs(run: str | None, request: LogRequest, *, output_format: str) -> int:
    """Print what the calls of a run printed, logged and raised: attempt by attempt, or the lines
    that are asked for.

    Raises:
        CommandError: the run has no such step.
    """
    settings = project_settings()
    if request.is_followed:
        return anyio.run(_follow_logs, settings, run, request.lines, output_format)
    found, events = anyio.run(load_run, settings, run)
    shown, step = redacted_events(events), request.lines.step
    state = fold(shown)
    if step and step not in step_ids(state.plan):
        raise _no_such_step(step, found, state)
    if request.is_by_line:
        lines, _ = log_lines(shown)
        _print_lines([line for line in lines if request.lines.matches(line)], output_format)
        return exit_codes.OK
    logged = [event for event in _attempts(shown) if step in {"", event.step}]
    if output_format == "json":
        sys.stdout.write("".join(f"{printable_json(to_json(event))}\n" for event in logged))
    elif logged:
        print_lines(line for event in logged for line in _attempt_lines(event))
    else:
        of = f" of step {step!r}" if step else ""
        sys.stdout.write(f"no call{of} of run {found} printed, logged or raised anything\n")
    return exit_codes.OK


def _attempts(events: Sequence[Event]) -> list[AttemptLogged]:
    """Return what attempts have left behind, and what those at work have printed so far."""
    attempts: dict[tuple[StepId, int | None, int], AttemptLogged] = {}
    for event in events:
        if isinstance(event, AttemptLogged):
            attempts[event.step, event.index, event.attempt] = event
        elif isinstance(event, OutputLogged):
            place = event.step, event.index, event.attempt
            known = attempts.get(place) or AttemptLogged(
                event.at, event.step, event.attempt, event.index
            )
            text = getattr(known, event.stream) + event.text
            attempts[place] = replace(known, **{event.stream: text})
    return [*attempts.values()]


async def _follow_logs(
    settings: Settings, prefix: str | None, wanted: LogFilter, output_format: str
) -> int:
    """Print the lines of a run, and those that come until nobody executes it any more; one that has
    not begun is waited for.
    """
    async with open_journal(require_journal(settings)) as journal:
        run = await find_named_run(journal, prefix)
        read, shown = 0, NOTHING_SHOWN
        while True:
            row = await journal.read(partial(run_queries.find_row, run=run))
            events = await journal.read(partial(run_queries.load, run=run, after=read))
            read += len(events)
            lines, shown = log_lines(redacted_events(events), shown)
            _print_lines([line for line in lines if wanted.matches(line)], output_format)
            was_removed = row is None and read > 0
            if was_removed or (row is not None and row[0].status != "running"):
                return exit_codes.OK
            await anyio.sleep(_PAUSE)


def _print_lines(lines: Iterable[LogLine], output_format: str) -> None:
    for line in lines:
        if output_format == "json":
            print_line(printable_json(asdict(line)))
        else:
            at = iso_of_epoch(line.at)[11:19]
            print_line(printable(f"{at} {line.place:<16} {line.level:<7} {line.text}"))


def _no_such_step(step: str, run: RunId, state: RunState) -> CommandError:
    """Return the error of a step that a run's plan does not have, to be raised."""
    hint = suggest_name(step, step_ids(state.plan), what="its steps")
    return CommandError(f"run {run!r} has no step {step!r}", hint=hint)


def _step_json(run: RunId, view: StepRecord) -> JsonObject:
    calls: list[Json] = [
        {"index": index, "params": params, "ending": to_json(ending)}
        for index, params, ending in view.calls
    ]
    asked: list[Json] = [
        {
            "role": question.role,
            "name": question.name,
            "index": question.index,
            "prompt": question.text,
            "answer": answer,
        }
        for question, answer in view.questions
    ]
    return {
        "run": run,
        "step": view.step.id,
        "tool": view.step.tool,
        "ending": to_json(view.ending) if view.ending is not None else None,
        "calls": calls,
        "attempts": [to_json(attempt) for attempt in view.attempts],
        "model_calls": [to_json(use) for use in view.uses],
        "asked": asked,
    }


def _step_lines(view: StepRecord, settings: Settings) -> Iterator[str]:
    ending = view.ending
    redact = known_secrets_redactor(settings).redact_json
    if view.now is not None:
        yield f"step {view.step.id}  tool {view.step.tool}  running"
        yield from _lines_of_work(view.now, redact)
    else:
        yield f"step {view.step.id}  tool {view.step.tool}  {_status(ending)}"
    yield from _lines_of_ending(ending)
    shown = view.of_first(_MAX_ITEMS)
    for index, params, call in shown.calls:
        item = "" if index is None else f" of item {index} ({call.status})"
        yield from ["", f"Parameters{item}"]
        yield from (
            _value_lines(redact(params))
            if params is not None
            else ["  (they can no longer be computed)"]
        )
        if call.status in SUCCESSES:
            yield from ["", f"Output{item}"]
            yield from _value_lines(redact(call.output))
        elif index is not None and call.error is not None:
            yield f"  error ({call.error.kind}): {call.error.message}"
    if left_out := len(view.calls) - len(shown.calls):
        yield f"… and {left_out:,} items more; `--format json` has them"
    for attempt in shown.attempts:
        yield ""
        yield from _attempt_lines(attempt)
    for use in shown.uses:
        yield from ["", use_line(use.use)]
    for question, answer in shown.questions:
        yield from [
            "",
            f"Asked of a model ({question.role} {question.name})",
            *_indented(question.text),
        ]
        yield from ["", "Answer", *_indented(answer)]


def _lines_of_work(now: StepAtWork, redact: Callable[[Json], Json]) -> Iterator[str]:
    yield f"started {iso_of_epoch(now.since)}"
    if now.last_line is not None:
        yield f"attempt {now.last_line.attempt}, last line: {now.last_line.text}"
    if now.params is not None:
        yield from ["", "Parameters", *_value_lines(redact(now.params))]


def _lines_of_ending(ending: StepFinished | None) -> Iterator[str]:
    if ending is None:
        return
    if ending.started is not None:
        yield f"started {iso_of_epoch(ending.started)}, took {duration_text(ending.seconds)}"
    if ending.reason:
        yield f"reason: {ending.reason}"
    if ending.error is not None:
        yield f"error ({ending.error.kind}): {ending.error.message}"
        yield from (f"  at {frame_line(frame)}" for frame in ending.error.frames)
        yield from [f"  = help: {ending.error.hint}"] if ending.error.hint else []


def _status(ending: StepFinished | None) -> str:
    if ending is None:
        return "not run"
    items = f" {ending.items[0]}/{ending.items[1]}" if ending.items else ""
    repeated = ending.attempts > (ending.items[1] if ending.items else 1)
    attempts = f", {ending.attempts} attempts" if repeated else ""
    return f"{ending.status}{items}{attempts}"


def _attempt_lines(event: AttemptLogged) -> Iterator[str]:
    item = "" if event.index is None else f"[{event.index}]"
    yield f"{event.step}{item}, attempt {event.attempt}"
    for name, title in _LOG_STREAMS.items():
        if text := getattr(event, name):
            yield f"  {title}"
            yield from (f"    {line}" for line in text.rstrip("\n").splitlines())


def _value_lines(value: Json) -> Iterator[str]:
    """Yield the lines of a text, or of any other value as JSON."""
    text = value if isinstance(value, str) else printable_json(value, indent=2)
    yield from _indented(text)


def _indented(text: str) -> Iterator[str]:
    yield from (f"  {line}" for line in cut_middle(text, _MAX_CHARS).splitlines() or [""])
