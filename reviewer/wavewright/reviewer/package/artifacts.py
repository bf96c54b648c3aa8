"""Outputs for the package: redacted, and with their documents, sources, charts and conflicts
collected.

The run, its gates and its review use the outputs unchanged. Package, page and summary are made from
a state in which everything that looks like a secret is `[redacted]`, so a package is the same from
the live run and from its journal.

A tool marks artifacts by reserved keys of its output, or of each entry of it: `document` or
`documents`, `source` or `sources`, `chart` or `charts`, `conflict` or `conflicts`, `warnings`. An
output with an id, a title, tags and a content is a document itself. Values of another shape under
these keys are left out with a warning; they never fail a run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from immutables import Map

from wavewright.executor import RunState
from wavewright.executor.run.redacted_events import OutputRedactor
from wavewright.planner import Json, JsonObject, StepId, as_list, as_object
from wavewright.reviewer.records import (
    Chart,
    ChartSeries,
    Conflict,
    OutputDocument,
    ReviewResult,
    SourceReference,
)
from wavewright.reviewer.values import brief, grouped, read_time, shorten


class RedactedRun:
    """A run with its secrets redacted."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._redactor = OutputRedactor()
        for record in state.steps.values():
            self._redactor.learn_secrets(record.output)

    @cached_property
    def state(self) -> RunState:
        """The state without secrets."""
        redact, state = self._redactor.redact_event, self._state
        steps = {name: redact(record) for name, record in state.steps.items()}
        items = {
            name: Map({index: redact(item) for index, item in records.items()})
            for name, records in state.items.items()
        }
        faults = {call: redact(fault) for call, fault in state.faults.items()}
        return replace(state, steps=Map(steps), items=Map(items), faults=Map(faults))

    def value(self, value: Json) -> Json:
        """Return a value that was computed from outputs, without secrets."""
        return self._redactor.redact_output(value)

    def review(self, review: ReviewResult) -> ReviewResult:
        """Return a review without secrets in its texts."""
        return ReviewResult.model_validate(
            self._redactor.redact_texts(review.model_dump(mode="json"))
        )


_SOURCE_FACTS = ("value", "hash", "sha256", "checksum", "location", "tier")
"""Fields on which mentions of one source id must agree; times and titles may differ."""

_EntryT = TypeVar("_EntryT")


@dataclass(frozen=True, slots=True)
class Artifacts:
    """Artifacts found in the outputs, in the plan's order."""

    documents: tuple[OutputDocument, ...] = ()
    sources: tuple[SourceReference, ...] = ()
    charts: tuple[Chart, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    warnings: tuple[str, ...] = ()


def collect_artifacts(
    outputs: Iterable[tuple[StepId, Json]], terminal: Collection[StepId] = ()
) -> Artifacts:
    """Return the artifacts of outputs; equal documents, sources and charts count once.

    Args:
        outputs: Steps with their outputs.
        terminal: Steps whose documents are the run's results; they come first.
    """
    collected = _ArtifactCollector(frozenset(terminal))
    for step, output in outputs:
        entries = output if isinstance(output, list) else [output]
        for entry in entries:
            if isinstance(entry, dict):
                collected.add(step, entry)
    conflicts = [
        *collected.conflicts,
        *_disagreeing_sources(collected.mentions),
        *_disagreeing_documents(collected.documents),
    ]
    tool_warnings = [
        f"{', '.join(steps)}: {warning}" for warning, steps in collected.tool_warnings.items()
    ]
    results_first = sorted(collected.documents, key=lambda document: not document.is_result)
    return Artifacts(
        documents=_unique(
            results_first, lambda document: document.model_dump_json(exclude={"step", "is_result"})
        ),
        sources=_unique(collected.sources, lambda source: source.model_dump_json(exclude={"step"})),
        charts=_unique(collected.charts, lambda chart: chart.model_dump_json(exclude={"step"})),
        conflicts=_unique(conflicts, lambda conflict: conflict.model_dump_json()),
        warnings=tuple(dict.fromkeys((*tool_warnings, *collected.warnings))),
    )


@dataclass(frozen=True, slots=True)
class _SourceMention:
    step: StepId
    source: JsonObject


@dataclass(slots=True)
class _ArtifactCollector:
    terminal: frozenset[StepId]
    documents: list[OutputDocument] = field(default_factory=list[OutputDocument])
    sources: list[SourceReference] = field(default_factory=list[SourceReference])
    charts: list[Chart] = field(default_factory=list[Chart])
    conflicts: list[Conflict] = field(default_factory=list[Conflict])
    warnings: list[str] = field(default_factory=list[str])
    tool_warnings: dict[str, dict[StepId, None]] = field(
        default_factory=dict[str, dict[StepId, None]]
    )
    """Warnings in outputs, with their steps."""
    mentions: dict[str, list[_SourceMention]] = field(
        default_factory=dict[str, list[_SourceMention]]
    )

    def add(self, step: StepId, carrier: JsonObject) -> None:
        if _is_document(carrier):
            self._add_document(step, carrier)
        for entry in _entries_under(carrier, "document"):
            # A name alone refers to a document in another output.
            if isinstance(entry, dict):
                self._add_document(step, entry)
                for source in _entries_under(entry, "source"):
                    self._add_source(step, source, entry)
        for entry in _entries_under(carrier, "source"):
            self._add_source(step, entry, carrier)
        for entry in _entries_under(carrier, "chart"):
            self._add_chart(step, entry)
        for entry in _entries_under(carrier, "conflict"):
            self._add_conflict(step, entry)
        for warning in as_list(carrier.get("warnings")):
            if isinstance(warning, str) and warning:
                self.tool_warnings.setdefault(warning, {})[step] = None

    def _add_document(self, step: StepId, entry: JsonObject) -> None:
        markdown, content = entry.get("markdown"), entry.get("content")
        if markdown is None and isinstance(content, str):
            markdown, content = content, None
        if not isinstance(markdown, str):
            markdown = None
        if not markdown and content is None:
            self.warnings.append(
                f"step {step!r} brought a document without content: {brief(entry)}"
            )
            return
        number = 1 + sum(1 for document in self.documents if document.step == step)
        name = _first_text(entry, "id") or f"{step}_{number}"
        tags = as_list(entry.get("tags"))
        self.documents.append(
            OutputDocument(
                id=name,
                step=step,
                title=_first_text(entry, "title") or name,
                tags=tuple(tag for tag in tags if isinstance(tag, str)),
                markdown=markdown,
                content=content,
                is_result=step in self.terminal,
            )
        )

    def _add_source(self, step: StepId, entry: Json, carrier: JsonObject) -> None:
        """Add a source; a nameless object in the field `source` means something else, such as an
        origin.
        """
        if isinstance(entry, str) and entry:
            self.sources.append(SourceReference(name=shorten(entry, 500), step=step))
            return
        name = _first_text(as_object(entry), "name", "title", "id", "location", "url", "path")
        if not isinstance(entry, dict) or name is None:
            has_other_meaning = isinstance(entry, dict) and entry is carrier.get("source")
            if not has_other_meaning:
                self.warnings.append(f"step {step!r} named a source without a name: {brief(entry)}")
            return
        self.sources.append(
            SourceReference(
                name=name,
                location=_first_text(entry, "location", "url", "path"),
                step=step,
                as_of=_first_text(entry, "as_of", "date", "published"),
                accessed=_first_text(entry, "accessed", "accessed_at", "retrieved_at"),
                tier=_first_text(entry, "tier"),
            )
        )
        source_id = _first_text(entry, "id")
        if source_id is not None:
            self.mentions.setdefault(source_id, []).append(_SourceMention(step, entry))

    def _add_chart(self, step: StepId, written: Json) -> None:
        series = as_object(written).get("series")
        if not isinstance(written, dict) or not isinstance(series, list):
            self.warnings.append(f"step {step!r} brought a chart without series: {brief(written)}")
            return
        drawn = [_chart_series(entry) for entry in series if isinstance(entry, dict)]
        lines = [line for line in drawn if line is not None]
        if len(lines) < len(series):
            left_out = len(series) - len(lines)
            self.warnings.append(
                f"step {step!r} brought a chart of which {left_out} series hold no dated figures"
            )
        if lines:
            self.charts.append(
                Chart(
                    step=step,
                    title=_first_text(written, "title") or step,
                    series=tuple(lines),
                    normalise=written.get("normalise") is True,
                )
            )

    def _add_conflict(self, step: StepId, entry: Json) -> None:
        if isinstance(entry, str) and entry:
            self.conflicts.append(Conflict(subject=step, message=entry, steps=(step,)))
            return
        fields = as_object(entry)
        message = _first_text(fields, "message", "description", "note")
        subject = _first_text(fields, "subject", "data_point", "field", "name", "id")
        if message is None and subject is None:
            self.warnings.append(
                f"step {step!r} reported a conflict that says nothing: {brief(entry)}"
            )
            return
        values = fields.get("values")
        self.conflicts.append(
            Conflict(
                subject=subject or step,
                message=message or f"there are different values of {subject}",
                values=tuple(values if isinstance(values, list) else _two_claims(fields)),
                steps=(step,),
            )
        )


def _two_claims(conflict: JsonObject) -> Iterator[Json]:
    """Yield the values of a conflict that names them as `claim_a`, `source_a`, `claim_b` and
    `source_b`.
    """
    for side in ("a", "b"):
        claim, source = conflict.get(f"claim_{side}"), conflict.get(f"source_{side}")
        if claim is not None:
            yield {"value": claim, "sources": [source]}


def _is_document(carrier: JsonObject) -> bool:
    """Whether an output is a document itself."""
    text = carrier.get("markdown") or carrier.get("content")
    names = isinstance(carrier.get("id"), str) and isinstance(carrier.get("title"), str)
    return names and isinstance(carrier.get("tags"), list) and isinstance(text, str)


def _entries_under(carrier: JsonObject, key: str) -> Iterator[Json]:
    """Yield the values under a reserved key, in the singular or in the plural."""
    for name in (key, f"{key}s"):
        value = carrier.get(name)
        if isinstance(value, list):
            yield from value
        elif value is not None and value != "":
            yield value


def _first_text(carrier: JsonObject, *names: str) -> str | None:
    """Return the first of the fields that holds a text or a number, as a text."""
    for name in names:
        value = carrier.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return str(value)
    return None


def _chart_series(entry: JsonObject) -> ChartSeries | None:
    """Return a series with its dated figures, in the order of time; None where it has none."""
    points = [_chart_point(written) for written in as_list(entry.get("points"))]
    dated = sorted(point for point in points if point is not None)
    if not dated:
        return None
    return ChartSeries(name=_first_text(entry, "name") or "series", points=tuple(dated))


def _chart_point(entry: Json) -> tuple[str, float] | None:
    match entry:
        case [str(date), int() | float() as figure] if not isinstance(figure, bool):
            return (date, float(figure)) if read_time(date) and math.isfinite(figure) else None
        case _:
            return None


def _disagreeing_sources(mentions: dict[str, list[_SourceMention]]) -> Iterator[Conflict]:
    for source_id, carriers in mentions.items():
        for fact in _SOURCE_FACTS:
            stating = [mention for mention in carriers if fact in mention.source]
            values = _distinct([mention.source[fact] for mention in stating])
            if len(values) > 1:
                yield Conflict(
                    subject=source_id,
                    message=f"outputs give {len(values)} different values of {fact!r} for source {source_id!r}",
                    values=tuple(values),
                    steps=tuple(dict.fromkeys(mention.step for mention in stating)),
                    origin="code",
                )


def _disagreeing_documents(documents: list[OutputDocument]) -> Iterator[Conflict]:
    for document_id, same_id in grouped(documents, lambda document: document.id).items():
        contents = _distinct([[document.content, document.markdown] for document in same_id])
        if len(contents) > 1:
            yield Conflict(
                subject=document_id,
                message=f"{len(contents)} documents of different content share the id {document_id!r}",
                steps=tuple(dict.fromkeys(document.step for document in same_id)),
                origin="code",
            )


def _distinct(values: list[Json]) -> list[Json]:
    distinct: list[Json] = []
    for value in values:
        if value not in distinct:
            distinct.append(value)
    return distinct


def _unique(
    entries: Iterable[_EntryT], identity: Callable[[_EntryT], Hashable]
) -> tuple[_EntryT, ...]:
    seen: dict[Hashable, _EntryT] = {}
    for entry in entries:
        seen.setdefault(identity(entry), entry)
    return tuple(seen.values())
