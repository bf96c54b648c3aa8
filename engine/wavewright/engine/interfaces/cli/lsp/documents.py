"""The documents that an editor has open, as they stand there, saved or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.config import Document, DocumentError
from wavewright.config.documents import read_faulty_document
from wavewright.engine.run.jobs.documents import is_foreign
from wavewright.engine.run.jobs.read_texts import ReadText

if TYPE_CHECKING:
    from wavewright.config import Settings
    from wavewright.engine.interfaces.cli.lsp.positions import TextPositions
    from wavewright.engine.interfaces.cli.lsp.projects import OpenProject
    from wavewright.engine.interfaces.cli.planning.plan_check import CheckedDocument
    from wavewright.engine.interfaces.cli.planning.text_check import CheckOutcome, GoodText
    from wavewright.planner import Goal, Json, ToolSignatures
    from wavewright.planner.checks.context import CheckContext


@dataclass(frozen=True)
class Surroundings:
    """What a document may name, and what is known of it."""

    project: OpenProject
    outcome: CheckOutcome | None
    """Of the last check of the document."""
    good: GoodCheck | None
    """The last version of the document that could be read."""
    open_texts: Mapping[Path, str]
    """The texts that stand in the editor, by their files."""

    @property
    def settings(self) -> Settings:
        """The settings of the document's project."""
        return self.project.settings

    @property
    def tools(self) -> ToolSignatures:
        """Every tool of the project."""
        return self.project.tools().signatures

    @property
    def checked(self) -> CheckedDocument | None:
        """What the last check has found the document to be."""
        return None if self.outcome is None else self.outcome.checked

    def subject(self, read: ReadText) -> CheckContext | None:
        """Return the plan of a document with what it may use; None where there is none to be read."""
        if read.plan is None:
            return None  # and no tools are imported for it
        return read.subject(self.settings, self.tools, self.goal)

    @property
    def goal(self) -> Goal | None:
        """What the plan of a job is for, as the last check had it."""
        basis = None if self.checked is None else self.checked.basis
        return None if basis is None else basis.goal

    @property
    def inputs(self) -> Mapping[str, Json]:
        """The inputs of the plan that a job names, as the last check had it."""
        plan = None if self.checked is None else self.checked.plan
        return {} if plan is None else plan.inputs


@dataclass(frozen=True)
class OpenDocument:
    """One version of a document."""

    uri: str
    path: Path
    version: int | None
    places: TextPositions

    @property
    def text(self) -> str:
        """The whole text."""
        return self.places.text

    @cached_property
    def is_foreign(self) -> bool:
        """Whether it is no document of wavewright's."""
        return is_foreign(self.text, str(self.path))

    def take(self, document: Document) -> None:
        """Take what a check has read, so that the text is read once."""
        if document.source.text == self.text:
            self.__dict__.setdefault("read", ReadText(document))

    @cached_property
    def read(self) -> ReadText | None:
        """What it says; None where it cannot be read, or is foreign."""
        if self.is_foreign:
            return None
        try:
            return ReadText(read_faulty_document(self.text, str(self.path)))
        except DocumentError:
            return None


@dataclass(frozen=True, slots=True)
class GoodCheck:
    """The last version of a document that could be read, and what was found in it."""

    document: OpenDocument
    text: GoodText
