"""A package as plain text, for a terminal, a pipe or a mail.

The text has no colour and lines of at most 100 characters; characters that could control a terminal
are escaped. A result that is a text, or a document with text, is shown as that text with aligned
tables; any other as JSON. Long results are truncated.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from wavewright.executor.events.state import SUCCESSES
from wavewright.planner import StepId
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.diagnostics.rendering import (
    cut_line,
    display_width,
    wrap_line,
    wrap_paragraph,
)
from wavewright.reviewer.package.call_reports import cost_lines, frame_line
from wavewright.reviewer.records import (
    GOING,
    FieldProvenance,
    Package,
    ReviewResult,
    RoundSummary,
)
from wavewright.reviewer.review.caps import is_written
from wavewright.reviewer.review.rounds import provenance_text
from wavewright.reviewer.values import duration_text, has_value, shorten, visible

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
