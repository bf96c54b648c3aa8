"""A package as plain text, for a terminal, a pipe or a mail, and a closer look at one step or one
confidence.

The text has no colour and lines of at most 100 characters; characters that could control a terminal
are escaped. A result that is a text, or a document with text, is shown as that text with aligned
tables; any other as JSON. Long results are truncated.

The record of a step has its calls with their resolved parameters, its attempts and its models. The
proof of a confidence has its raw figure, and each cap with the steps by which it reaches the field.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, TypeAlias

from wavewright.executor.events.state import SUCCESSES, RunState
from wavewright.executor.events.types import (
    AnswerKept,
    AttemptLogged,
    Event,
    ItemFinished,
    ModelCalled,
    StepFinished,
)
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.diagnostics.rendering import (
    cut_line,
    display_width,
    wrap_line,
    wrap_paragraph,
)
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.ports.model_port import ModelQuestion, ModelUse
from wavewright.planner.types import JsonObject, StepId
from wavewright.reviewer.package.call_reports import cost_lines, frame_line, params_renderer
from wavewright.reviewer.package.log_lines import LogLine, log_lines
from wavewright.reviewer.records import (
    GOING,
    CapRecord,
    Confidence,
    FieldProvenance,
    Package,
    ReviewResult,
    RoundSummary,
)
from wavewright.reviewer.review.caps import confidence_in, is_cap_on, is_written
from wavewright.reviewer.review.results import run_instant
from wavewright.reviewer.review.rounds import provenance_text
from wavewright.reviewer.values import duration_text, has_value, shorten, visible

_Asker: TypeAlias = tuple[str, StepId | None, int | None]
_MAX_LINES = 30
_MAX_TEXT_LINES = 200
_MAX_TEXT_CHARS = _MAX_TEXT_LINES * 100
"""Characters of a text that are wrapped; a line takes time that grows with the square of its
length.
"""


def result_lines(package: Package, width: int) -> Iterator[str]:
    """Yield the result's lines, at most `width` wide; nothing if there is no result."""
    if package.result is None or (package.status in GOING and not has_value(package.result)):
        return
    text = result_text(package)
    if text is None:
        lines, most = _json_lines(package), _MAX_LINES
    else:
        lines, most = list(_text_lines(text[:_MAX_TEXT_CHARS], width)), _MAX_TEXT_LINES
    size = f"{len(lines)} lines" if len(lines) > most else ""
    if text is not None and len(text) > _MAX_TEXT_CHARS:
        # Of a text that is cut before it is wrapped, not all lines are known.
        size = f"{len(text):,} characters"
    for line in lines[:most]:
        yield cut_line(line, width)
    if size:
        yield "…"
        yield f"({size} in all; the package holds them)"


def result_text(package: Package) -> str | None:
    """Return the result if it is a text, or the text of the document that it is; else None."""
    if package.result is None or isinstance(package.result, str):
        return package.result
    results = [document.markdown for document in package.documents if document.is_result]
    return next((markdown for markdown in results if markdown), None)


def _json_lines(package: Package) -> list[str]:
    return json.dumps(package.result, indent=2, ensure_ascii=False).splitlines()


def _text_lines(markdown: str, width: int) -> Iterator[str]:
    """Yield the lines of a text with wrapped prose, without blank lines at both ends."""
    for is_table, lines in groupby(
        markdown.strip().splitlines(), key=lambda line: line.startswith("|")
    ):
        if is_table:
            yield from _aligned(list(lines), width)
        else:
            for line in lines:
                rest = "  " * line.startswith("- ")
                yield from wrap_line(visible(line), rest=rest, width=width, breaks_words=True)


def _aligned(rows: list[str], width: int) -> Iterator[str]:
    """Yield the rows of a Markdown table in columns, aligned to the right as its second row says."""
    bare = (row.strip().removeprefix("|").removesuffix("|") for row in rows)
    cells = [[*map(_cell, _CELL_END.split(row))] for row in bare]
    columns = max(map(len, cells))
    padded = [row + [""] * (columns - len(row)) for row in cells]
    marks = padded[1] if len(padded) > 1 else [""] * columns
    shown = [row for number, row in enumerate(padded) if number != 1]
    widths = [max(display_width(row[column]) for row in shown) for column in range(columns)]
    gap = "  " if sum(widths) + 2 * (columns - 1) <= width else " "
    for row in shown:
        yield gap.join(
            _padded(cell, room, is_right=mark.endswith(":"))
            for cell, room, mark in zip(row, widths, marks, strict=True)
        ).rstrip()


_CELL_END: Final = re.compile(r"(?<!\\)\|")
"""A bar that no backslash makes a character of a cell."""


def _cell(written: str) -> str:
    return written.strip().replace("\\|", "|").replace("\\\\", "\\")


def _padded(cell: str, room: int, *, is_right: bool) -> str:
    space = " " * (room - display_width(cell))
    return space + cell if is_right else cell + space


MAX_WIDTH: Final = 100
_MIN_WIDTH: Final = 40
_MAX_ENTRIES = 12
_MAX_FAILURES = 5
_MIN_TEXT_WIDTH = 8
"""Characters below which a reason is not begun."""
_VERDICTS = {
    "achieved": "GOAL ACHIEVED",
    "not_achieved": "GOAL NOT ACHIEVED",
    "failed": "RUN FAILED",
    "interrupted": "RUN INTERRUPTED",
    "cancelled": "RUN CANCELLED",
    "running": "RUNNING",
    "waiting_for_answer": "WAITING FOR AN ANSWER",
    "waiting_for_approval": "WAITING FOR AN APPROVAL",
}
_SIGNS = {
    "ok": "ok",
    "reused": "reused",
    "empty": "empty",
    "skipped": "skipped",
    "blocked": "BLOCKED",
    "failed": "FAILED",
    "cancelled": "CANCELLED",
    "not_run": "not run",
    "waiting": "waiting",
    "ready": "ready",
    "running": "running",
    "asking": "asking",
}


class _TerminalText(str):
    """A line that may contain control codes of terminals."""

    __slots__ = ()


def render_summary(
    package: Package, result: Sequence[str] | None = None, *, width: int = MAX_WIDTH
) -> str:
    """Return a package as plain text that ends with a line break.

    Args:
        package: The outcome of a run.
        result: The lines of the result, already escaped and rendered for a terminal.
        width: Width in characters of wrapped texts, at most `MAX_WIDTH`; tables may be wider.

    The example goes on from that of `Package`.

    >>> from wavewright.reviewer import render_summary
    >>> render_summary(run.package).splitlines()[0]
    'GOAL ACHIEVED  plan'
    """
    width = max(_MIN_WIDTH, min(width, MAX_WIDTH))
    lines = (
        line if isinstance(line, _TerminalText) else visible(line)
        for line in _lines(package, result, width)
    )
    return "\n".join(lines) + "\n"


def _lines(package: Package, result: Sequence[str] | None, width: int) -> Iterator[str]:
    yield from _head(package, width)
    if result is None:
        yield from _result(package, width)
    else:
        yield from ("", "Result", *map(_TerminalText, result))
    yield ""
    yield from _steps(package, width)
    yield from _failures(package, width)
    if package.review is not None:
        yield from _review(package, package.review, width)
    conflicts = (f"{conflict.subject}: {conflict.message}" for conflict in package.conflicts)
    documents = (_document_line(document.title, document.tags) for document in package.documents)
    sources = (_source_line(source.name, source.as_of) for source in package.sources)
    yield from _section("Conflicts", conflicts, width)
    yield from _section("Warnings", package.warnings, width)
    yield from _section("Documents", documents, width)
    yield from _section("Sources", sources, width)


def _head(package: Package, width: int) -> Iterator[str]:
    """Yield the verdict with its reason, which run it is, and what models cost."""
    timings = package.timings
    yield f"{_VERDICTS[package.status]}  {shorten(package.job, 60)}"
    yield from _wrapped(_reason(package), width)
    yield ""
    yield (
        f"run {package.run}   now {package.now}   took {duration_text(timings.seconds)}   "
        f"plan {package.rung}, {counted(timings.waves, 'wave')}, "
        f"{counted(timings.rounds, 'recovery round')}"
    )
    if package.retry_of is not None:
        yield f"retry of run {package.retry_of}"
    yield from _patched_by(package)
    title = "models"
    for line in cost_lines(package.model_uses, package.orchestrator_tokens, package.worker_tokens):
        yield f"{title:<8}{shorten(line, width - 8)}"
        title = ""


def _review(package: Package, review: ReviewResult, width: int) -> Iterator[str]:
    """Yield the confidences with their reasons, and what the review found."""
    yield ""
    yield "Confidence"
    for confidence in review.confidences:
        raw = f"   raw {confidence.raw:.2f}" if confidence.raw > confidence.capped else ""
        yield f"  {shorten(confidence.field, 30):<30} {confidence.capped:.2f}{raw}"
        for why in (*confidence.why, *confidence.lowered_by):
            yield from _wrapped(why, width, "      ")
    if review.data is not None and review.data.capped != review.confidence:
        yield f"  {'of the data alone':<30} {review.data.capped:.2f}"
    written = filter(_is_worth_telling, review.provenance)
    yield from _section("Written, not read", map(provenance_text, written), width)
    yield from _section("Rounds", map(_round_line, package.rounds), width)
    yield from _section("How answers were read", _how_read(package, review), width)
    yield from _section("Missing", review.missing_data, width)
    hints = dict.fromkeys(action.hint for action in review.recovery_actions)
    yield from _section("What would fix it", hints, width)


def _how_read(package: Package, review: ReviewResult) -> Iterator[str]:
    """Yield how the answers of models were read that were not as they should be."""
    if review.opinion is not None:
        yield from (f"the review: {note}" for note in review.opinion.notes)
    for patch in package.patches:
        yield from (f"the patch of round {patch.round}: {note}" for note in patch.notes)


def _is_worth_telling(provenance: FieldProvenance) -> bool:
    """Whether a field of the result is one that the plan's author has written: of a plan that a
    person wrote, where nothing of the field is read; what they write beside data is theirs.
    """
    is_read = bool(provenance.data or provenance.inputs or provenance.models)
    return is_written(provenance) and (provenance.is_by_planner or not is_read)


def _reason(package: Package) -> str:
    """Return what follows the verdict."""
    if package.status in GOING:
        ended = sum(entry.status in SUCCESSES for entry in package.execution_log)
        return f"{ended} of {counted(len(package.execution_log), 'step')} have an output."
    return package.ending or "The run ended before its review."


def _round_line(summary: RoundSummary) -> str:
    passed, mandatory = summary.mandatory_gates
    verdict = "achieved" if summary.goal_achieved else "not achieved"
    gates = f", {passed} of {mandatory} mandatory gates" if mandatory else ""
    chosen = " (this is the result above)" if summary.is_packaged else ""
    return (
        f"round {summary.round}: {verdict}, confidence {summary.confidence:.2f}{gates}, "
        f"coverage {summary.coverage:.2f}, result {summary.result}{chosen}"
    )


def _patched_by(package: Package) -> Iterator[str]:
    """Yield the rungs that made the patches, if they were recorded."""
    rungs = [patch.rung for patch in package.patches if patch.rung is not None]
    if rungs:
        yield f"patched by {', then '.join(rungs)}"


def _result(package: Package, width: int) -> Iterator[str]:
    lines = list(result_lines(package, width - 2))
    if lines:
        yield ""
        yield "Result"
        yield from (f"  {line}".rstrip() for line in lines)


def _steps(package: Package, width: int) -> Iterator[str]:
    log, failed = package.execution_log, failed_items(package)
    yield "Steps"
    id_width = min(32, max((len(entry.id) for entry in log), default=2))
    tool_width = min(28, max((len(entry.tool) for entry in log), default=4))
    for entry in log:
        items = f"{entry.items[0]}/{entry.items[1]}" if entry.items else ""
        took = duration_text(entry.seconds) if entry.seconds else ""
        error = entry.error.message if entry.error else None
        reason = error or entry.reason or entry.output or ""
        if entry.status == "running" and entry.id in failed:
            reason = f"{failed[entry.id]:,} failed"
        step, tool = shorten(entry.id, id_width), shorten(entry.tool, tool_width)
        line = (
            f"  {entry.wave:>3}  {step:<{id_width}}  {tool:<{tool_width}}"
            f"  {_SIGNS[entry.status]:<9} {items:>7}  {took:>8}"
        )
        room = width - len(line) - 2
        if room >= _MIN_TEXT_WIDTH:
            line = f"{line}  {shorten(reason, room)}"
        yield line.rstrip()


def failed_items(package: Package) -> dict[StepId, int]:
    """Return how many items of each step have failed, of those with a failed one."""
    failed = Counter(
        call.step for call in package.calls if call.index is not None and call.status == "failed"
    )
    ended = {entry.id: entry for entry in package.execution_log if entry.items is not None}
    # The calls of a package are the first ones: of a step that has ended, all are known.
    for step, entry in ended.items():
        if entry.status in {*SUCCESSES, "failed"} and entry.items is not None:
            failed[step] = entry.items[1] - entry.items[0]
    return {step: count for step, count in failed.items() if count}


def _failures(package: Package, width: int) -> Iterator[str]:
    """Yield where in the user's own code steps failed."""
    failed = [
        entry for entry in package.execution_log if entry.error is not None and entry.error.frames
    ]
    if not failed:
        return
    yield ""
    yield "Failed"
    for entry in failed[:_MAX_FAILURES]:
        assert entry.error is not None
        yield f"  {entry.id}: {shorten(entry.error.message, max(_MIN_TEXT_WIDTH, width - len(entry.id) - 4))}"
        yield from (f"    {shorten(frame_line(frame), width - 4)}" for frame in entry.error.frames)
    if len(failed) > _MAX_FAILURES:
        yield f"  and {len(failed) - _MAX_FAILURES} more"
    yield f"  more on a step: wavewright show {package.run} {failed[0].id}"


def _section(title: str, lines: Iterable[str], width: int) -> Iterator[str]:
    listed = list(lines)
    if not listed:
        return
    yield ""
    yield title
    for line in listed[:_MAX_ENTRIES]:
        yield from _wrapped(line, width, "  - ", "    ")
    if len(listed) > _MAX_ENTRIES:
        yield f"  and {len(listed) - _MAX_ENTRIES} more"


def _document_line(title: str, tags: tuple[str, ...]) -> str:
    return f"{title} ({', '.join(tags)})" if tags else title


def _source_line(name: str, as_of: str | None) -> str:
    return f"{name} (as of {as_of})" if as_of else name


def _wrapped(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
    rest = first if rest is None else rest
    return wrap_paragraph(visible(text), indent=first, rest=rest, width=width, breaks_words=True)


@dataclass(frozen=True, slots=True)
class StepAtWork:
    """What is known of a step that runs."""

    since: float
    """Seconds since the epoch."""
    params: JsonObject | None
    """What it was handed; None of a `for_each` step."""
    last_line: LogLine | None
    """The last that it has printed or logged."""


@dataclass(slots=True)
class StepRecord:
    """The journal's records of one step."""

    step: Step
    ending: StepFinished | None
    calls: list[tuple[int | None, JsonObject | None, StepFinished | ItemFinished]]
    """Each call: its item, its resolved parameters, its end."""
    attempts: list[AttemptLogged] = field(default_factory=list[AttemptLogged])
    uses: list[ModelCalled] = field(default_factory=list[ModelCalled])
    questions: list[tuple[ModelQuestion, str]] = field(
        default_factory=list[tuple[ModelQuestion, str]]
    )
    """To models, with their answers."""
    now: StepAtWork | None = None
    """None unless it runs."""


def step_record(plan: Plan, step: Step, state: RunState, events: Sequence[Event]) -> StepRecord:
    """Return what the events of a run tell of a step of its plan."""
    end, items = state.steps.get(step.id), state.items.get(step.id)
    calls: list[StepFinished | ItemFinished] = []
    if items:
        calls += [items[index] for index in sorted(items)]
    elif end is not None:
        calls.append(end)
    began = state.under_way.get(step.id)
    record = StepRecord(step, end, [])
    is_called = bool(calls) or began is not None
    renderer = params_renderer(plan, state, step, run_instant(state)) if is_called else None
    for call in calls:
        index = call.index if isinstance(call, ItemFinished) else None
        params = None if renderer is None else renderer.params_of(index)
        record.calls.append((index, params, call))
    if began is not None:
        is_one_call = renderer is not None and step.for_each is None
        lines = [line for line in log_lines(events)[0] if line.step == step.id]
        record.now = StepAtWork(
            since=began.at,
            params=renderer.params_of(None) if renderer is not None and is_one_call else None,
            last_line=lines[-1] if lines else None,
        )
    for event in events:
        match event:
            case AttemptLogged() if event.step == step.id:
                record.attempts.append(event)
            case ModelCalled() if event.use.step == step.id:
                record.uses.append(event)
            case _:
                pass
    record.questions += [
        (asked, answer) for asked, answer in model_messages(events) if asked.step == step.id
    ]
    return record


def model_messages(events: Iterable[Event]) -> list[tuple[ModelQuestion, str]]:
    """Return what models were asked in a run, in order, each with its answer: a text, or parts and
    calls as JSON.
    """
    return [
        (event.question, _answer_text(event.answer))
        for event in events
        if isinstance(event, AnswerKept) and event.question is not None
    ]


@dataclass(frozen=True, slots=True)
class ModelMessage:
    """A question to a model with its answer."""

    at: float
    """When it was answered, in seconds since the epoch."""
    question: ModelQuestion
    answer: str
    use: ModelUse | None
    """The call of the model; None where the answer was kept from an earlier one."""


def timed_messages(events: Iterable[Event]) -> list[ModelMessage]:
    """Return what models were asked in a run, in order, each with its answer, time and call."""
    uses: dict[_Asker, list[ModelUse]] = {}
    answered: list[AnswerKept] = []
    for event in events:
        if isinstance(event, ModelCalled) and event.use.outcome == "answered":
            use = event.use
            uses.setdefault((use.role, use.step, use.index), []).append(use)
        elif isinstance(event, AnswerKept) and event.question is not None:
            answered.append(event)
    messages: list[ModelMessage] = []
    for event in answered:
        assert event.question is not None
        timed = uses.get((event.question.role, event.question.step, event.question.index))
        first = timed.pop(0) if timed else None
        messages.append(ModelMessage(event.at, event.question, _answer_text(event.answer), first))
    return messages


def _answer_text(answer: JsonObject) -> str:
    text = answer.get("text")
    if isinstance(text, str) and text:
        return text
    content = answer.get("parts") or answer.get("calls") or answer
    return json.dumps(content, indent=2, ensure_ascii=False)


def reviewed_fields(package: Package, review: ReviewResult) -> list[str]:
    """Return the fields of a result that have a confidence, `overall` first."""
    result = package.plan.get("result")
    if not isinstance(result, dict):
        # The whole result is one value, such as the output of a step: its fields are the result's.
        result = package.result
    members = [name for name in result if name != "confidence"] if isinstance(result, dict) else []
    computed = [confidence.field for confidence in review.confidences]
    reached = [name for cap in review.caps for name in (*cap.ways, *cap.spares)]
    return [*dict.fromkeys((*computed, *members, *reached))]


@dataclass(frozen=True, slots=True)
class ConfidenceProof:
    """Why a confidence is what it is."""

    package: Package
    review: ReviewResult
    found: Confidence

    @property
    def caps(self) -> list[CapRecord]:
        """The caps that hold on the field, the highest first; of equal ones, those that are about a
        step last.
        """
        field = self.found.field
        holding = [cap for cap in self.review.applied_caps if is_cap_on(cap, field)]
        return sorted(holding, key=lambda cap: (-cap.max, bool(cap.ways)))

    def lines(self) -> Iterator[str]:
        """Yield the proof: the raw figure, the caps that hold, the caps that do not, the
        conclusion.
        """
        confidence = self.found
        yield f"{confidence.field} {confidence.capped:.2f}"
        yield from (f"  from {provenance_text(origin)}" for origin in self._origins())
        yield f"  raw {confidence.raw:.2f}: {confidence.why[0]}"
        yield from (f"    {line}" for line in confidence.why[1:])
        for cap in self.caps:
            yield f"  at most {cap.max:.2f}: {cap.because}"
            yield from (f"    {line}" for line in self._way_lines(cap))
            if cap.fault:
                yield f"    its condition could not be evaluated, so it holds: {cap.fault}"
        for cap in self.review.caps:
            is_about_field = cap.field == confidence.field or confidence.field in cap.spares
            if cap in self.caps or not is_about_field:
                continue
            why = f"its condition is false: {cap.when}"
            if cap.applied:
                why = "nothing of it leads here"
            yield f"  not at most {cap.max:.2f}: {cap.because} ({why})"
        lowest = self.caps[-1] if self.caps else None
        is_lowered = lowest is not None and lowest.max < confidence.raw
        why = (
            f": {lowest.because}" if lowest is not None and is_lowered else ", as no cap lowers it"
        )
        yield f"so {confidence.field} is {confidence.capped:.2f}{why}"

    def _origins(self) -> Iterator[FieldProvenance]:
        """Yield where the field comes from, and what holds it or is inside it."""
        for origin in self.review.provenance:
            names = {origin.field, origin.field.partition(".")[0].partition("[")[0]}
            if self.found.field in names or origin.field == "result":
                yield origin

    def _way_lines(self, cap: CapRecord) -> Iterator[str]:
        """Yield a line for each step from the one that a cap is about to the one that the field
        reads.
        """
        log = {entry.id: entry for entry in self.package.execution_log}
        below = {entry.step: entry for entry in self.review.steps}
        for name in cap.ways.get(self.found.field, ()):
            figure = below[name].confidence if name in below else 1.0
            tool = log[name].tool if name in log else "?"
            records = [record for record in self.package.gates if record.step == name]
            verdicts = dict.fromkeys(f"{record.gate} {record.verdict}" for record in records)
            gates = f"  gates: {', '.join(verdicts)}" if verdicts else ""
            yield f"{name} ({tool}) {figure:.2f}{gates}"

    def as_json(self) -> JsonObject:
        """Return the proof for programs."""
        return {
            "run": self.package.run,
            "field": self.found.field,
            "raw": self.found.raw,
            "confidence": self.found.capped,
            "why": [*self.found.why, *self.found.lowered_by],
            "provenance": [origin.model_dump(mode="json") for origin in self._origins()],
            "caps": [
                {
                    **cap.model_dump(mode="json", include={"max", "because", "origin"}),
                    "way": [*cap.ways.get(self.found.field, ())],
                }
                for cap in self.caps
            ],
            "steps": [entry.model_dump(mode="json") for entry in self.review.steps],
        }


def proof_of(package: Package, review: ReviewResult, field: str) -> ConfidenceProof:
    """Return why the confidence in a field is what it is."""
    return ConfidenceProof(package, review, confidence_in(field, review))
