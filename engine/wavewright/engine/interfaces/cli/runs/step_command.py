"""`wavewright show RUN STEP` and `wavewright logs RUN`: the journal's records of a step's calls."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import anyio

from wavewright.config import exit_codes
from wavewright.config.redaction import known_secrets_redactor
from wavewright.config.settings import Settings
from wavewright.engine.interfaces.cli.common.arguments import load_run, project_settings
from wavewright.engine.interfaces.cli.common.output import CommandError, print_json
from wavewright.engine.interfaces.cli.common.run_text import use_line
from wavewright.executor.events.codec import to_json
from wavewright.executor.events.state import SUCCESSES, RunState, fold
from wavewright.executor.events.types import AttemptLogged, StepFinished
from wavewright.executor.run.redacted_events import redacted_events
from wavewright.planner.diagnostics.diagnostic import suggest_name
from wavewright.planner.diagnostics.rendering import cut_middle, printable, printable_json
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.types import Json, JsonObject, RunId
from wavewright.reviewer.package.call_reports import frame_line
from wavewright.reviewer.package.summary import StepRecord, step_record
from wavewright.reviewer.values import duration_text, iso_of_epoch

_MAX_ITEMS = 20
_MAX_CHARS = 8_000
"""Characters of one value, prompt or answer that are printed as text; `--format json` prints all.
"""
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
    plan = _plan_of(state)
    view = step_record(plan, _step_of(plan, step, found), state, events)
    if output_format == "json":
        body = known_secrets_redactor(settings).redact_json(_step_json(found, view))
        print_json(body)
    else:
        _write(_step_lines(view, settings))
    return exit_codes.OK


def show_logs(run: str | None, *, step: str | None, output_format: str) -> int:
    """Print what the calls of a run printed, logged and raised, attempt by attempt.

    Raises:
        CommandError: the run has no such step.
    """
    found, events = anyio.run(load_run, project_settings(), run)
    shown = redacted_events(events)
    if step is not None:
        _step_of(_plan_of(fold(shown)), step, found)
    logged = [
        event for event in shown if isinstance(event, AttemptLogged) and step in (None, event.step)
    ]
    if output_format == "json":
        sys.stdout.write("".join(f"{printable_json(to_json(one))}\n" for one in logged))
    elif logged:
        _write(line for event in logged for line in _attempt_lines(event))
    else:
        of = f" of step {step!r}" if step is not None else ""
        sys.stdout.write(f"no call{of} of run {found} printed, logged or raised anything\n")
    return exit_codes.OK


def _plan_of(state: RunState) -> Plan:
    return (
        Plan.model_validate(state.plan)
        if state.plan is not None
        else Plan.model_construct(steps=())
    )


def _step_of(plan: Plan, step: str, run: RunId) -> Step:
    """Return a step of a run's plan.

    Raises:
        CommandError: it has no such step.
    """
    for one in plan.steps:
        if one.id == step:
            return one
    hint = suggest_name(step, [one.id for one in plan.steps], what="its steps")
    raise CommandError(f"run {run!r} has no step {step!r}", hint=hint)


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
    yield f"step {view.step.id}  tool {view.step.tool}  {_status(ending)}"
    if ending is not None and ending.started is not None:
        yield f"started {iso_of_epoch(ending.started)}, took {duration_text(ending.seconds)}"
    if ending is not None and ending.reason:
        yield f"reason: {ending.reason}"
    if ending is not None and ending.error is not None:
        yield f"error ({ending.error.kind}): {ending.error.message}"
        yield from (f"  at {frame_line(frame)}" for frame in ending.error.frames)
        yield from [f"  = help: {ending.error.hint}"] if ending.error.hint else []
    redact = known_secrets_redactor(settings).redact_json
    for index, params, call in view.calls[:_MAX_ITEMS]:
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
    if len(view.calls) > _MAX_ITEMS:
        yield f"… and {len(view.calls) - _MAX_ITEMS} items more; `--format json` has them"
    for attempt in view.attempts:
        yield ""
        yield from _attempt_lines(attempt)
    for use in view.uses:
        yield from ["", use_line(use.use)]
    for question, answer in view.questions:
        yield from [
            "",
            f"Asked of a model ({question.role} {question.name})",
            *_indented(question.text),
        ]
        yield from ["", "Answer", *_indented(answer)]


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


def _write(lines: Iterator[str]) -> None:
    """Print lines; characters that could control a terminal are escaped."""
    sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))
