"""The check of a text that is being written, such as one that stands in an editor.

What cannot be read as a whole is checked around the fault: as if there stood what stood there when
the text could last be read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from wavewright.config import Document, DocumentError, Source, WavewrightError
from wavewright.config.documents import read_faulty_document
from wavewright.config.settings import FILE_NAMES, load_valid_settings
from wavewright.engine.interfaces.cli.planning.broken_texts import fixed_texts
from wavewright.engine.interfaces.cli.planning.plan_check import (
    CheckedDocument,
    CheckOptions,
    check_plan,
)
from wavewright.engine.run.jobs.documents import DocumentKind, is_foreign, kind_of
from wavewright.planner import Diagnostic, PlanError, read_plan

if TYPE_CHECKING:
    from wavewright.config import Settings


DiagnosticsOfTexts: TypeAlias = "tuple[tuple[Source, tuple[Diagnostic, ...]], ...]"


@dataclass(frozen=True, slots=True)
class WrittenText:
    """A text as it is being written, with the project that it belongs to."""

    text: str
    file: Path
    settings: Settings
    """Where they are faulty, their valid part."""
    fault: WavewrightError | None = None
    """Why the project cannot be asked."""


@dataclass(frozen=True, slots=True)
class GoodText:
    """A text that could be read, and what was found in it."""

    text: str
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """What a check of a text has found."""

    found: DiagnosticsOfTexts
    """The diagnostics of each text; those of a text that cannot be read come first."""
    fault: WavewrightError | None = None
    """Why the project could not be asked."""
    checked: CheckedDocument | None = field(default=None, repr=False)

    @property
    def document(self) -> Document | None:
        """What the check has read; None of a text that cannot be read, or is no document to check."""
        return None if self.checked is None else self.checked.text.document

    def of_file(self, file: Path) -> tuple[Diagnostic, ...]:
        """Return the diagnostics of a file."""
        return next((own for source, own in self.found if source.name == str(file)), ())


def check_text(written: WrittenText, good: GoodText | None = None) -> CheckOutcome:
    """Return what `wavewright check` finds in a text as it is being written.

    Where its project cannot be asked, only its shape is checked.

    Args:
        written: The text.
        good: What it was when it could last be read.
    """
    if is_foreign(written.text, str(written.file)):
        return CheckOutcome(())
    if written.file.name in FILE_NAMES:
        # Its valid part, as if the text stood in the file.
        settings, _ = load_valid_settings(written.file.parent, text=written.text)
        written = replace(written, settings=settings, fault=None)
    outcome = _check(written)
    if good is None or outcome.fault is not None or outcome.document is not None:
        return outcome
    if _kind(written) is not None:
        return outcome  # it can be read, such as what a planner answered in place of a plan
    # A text that cannot be read has its faults alone.
    (source, own), *others = outcome.found
    around = _found_around(own, written, good)
    return replace(outcome, found=((source, (*own, *around)), *others))


def _check(written: WrittenText) -> CheckOutcome:
    if written.fault is not None:
        return CheckOutcome(_faults_of_shape(written), written.fault)
    content = written.text.encode(errors="replace")
    try:
        checked = check_plan(CheckOptions(written.file, content, settings=written.settings))
    except PlanError as error:
        return CheckOutcome(_by_source([(error.source, error.diagnostics)]))
    except WavewrightError as error:
        return CheckOutcome(_faults_of_shape(written), error)
    diagnostics = _by_source((part.text.source, part.diagnostics) for part in checked.documents)
    return CheckOutcome(diagnostics, checked=checked)


def _kind(written: WrittenText) -> DocumentKind | None:
    """Return what a text is meant as; None where it cannot be read."""
    try:
        return kind_of(read_faulty_document(written.text, str(written.file)))
    except DocumentError:
        return None


def _faults_of_shape(written: WrittenText) -> DiagnosticsOfTexts:
    if _kind(written) not in (None, "plan"):
        return ()
    text = read_plan(written.text, str(written.file))
    return ((text.source, text.diagnostics),)


def _by_source(found: Iterable[tuple[Source, tuple[Diagnostic, ...]]]) -> DiagnosticsOfTexts:
    joined: dict[str, tuple[Source, tuple[Diagnostic, ...]]] = {}
    for source, diagnostics in found:
        known = joined.get(source.name, (source, ()))[1]
        joined[source.name] = (source, (*known, *diagnostics))
    return tuple(joined.values())


def _found_around(
    faults: tuple[Diagnostic, ...], written: WrittenText, good: GoodText
) -> list[Diagnostic]:
    """Return the diagnostics of what can be read of a text that cannot be read as a whole."""
    place = min((fault.span.start for fault in faults if fault.span is not None), default=0)
    for fixed in fixed_texts(good.text, written.text, place):
        if fixed.text == good.text:
            return fixed.placed(good.diagnostics)
        outcome = _check(replace(written, text=fixed.text))
        if outcome.document is not None:
            return fixed.placed(outcome.of_file(written.file))
    return []
