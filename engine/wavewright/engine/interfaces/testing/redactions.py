"""What differs from run to run and means nothing: declared rules that take it out of a normal form.

A *redaction* names fields, or a pattern of text, and what stands in their place. A project adds its
own by a fixture `wavewright_redactions`; what no rule names stays, so that no change of meaning is
lost.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavewright.planner import Json

DATA_FIELDS = frozenset({"output", "result", "params", "inputs", "content", "config", "for_each"})
"""Below these stand values of plans and tools, whose field names are not ours."""


@dataclass(frozen=True, slots=True)
class Redaction:
    """One rule."""

    becomes: str | None
    """What stands in the place of the value or of the text that fits; with `{n}`, equal values get
    equal numbers. None takes a field away.
    """
    fields: frozenset[str] = frozenset()
    """Names of fields whose value is replaced."""
    pattern: str | None = None
    """Regular expression of what is replaced within texts, wherever they stand."""
    in_data: bool = False
    """Whether `fields` count also within what tools take and give."""


DEFAULT_REDACTIONS = (
    Redaction(
        "<time>", frozenset({"at", "now", "started", "finished", "accessed", "worked_until"})
    ),
    Redaction("<seconds>", frozenset({"seconds", "step_seconds"})),
    Redaction("<cost>", frozenset({"usd"})),
    Redaction("<run>", frozenset({"run"})),
    Redaction("<key {n}>", frozenset({"key"})),
    Redaction("<plan {n}>", frozenset({"plan_hash", "base"})),
    Redaction(
        None,
        frozenset(
            {
                "versions",
                "tool_code",
                "frames",
                "failed_attempts",
                "timings",
                "format",
                "journal_head",
            }
        ),
    ),
    Redaction("<run>", pattern=r"\b\d{8}-\d{6}-[0-9a-f]{6}\b"),
    Redaction(
        "<time>", pattern=r"\b\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
    ),
)
"""The rules for what a run did: times, durations, costs, ids of runs, and hashes of what is shown
anyway.
"""


def folder_redactions(folders: Iterable[Path]) -> tuple[Redaction, ...]:
    """Return rules that take folders of this machine out of texts; what stands below them stays."""
    known = {str(folder) for folder in folders} - {"/", "."}
    return tuple(
        Redaction("<path>", pattern=re.escape(folder) + r"(?![\w.-])")
        for folder in sorted(known, key=lambda folder: (-len(folder), folder))
    )


def machine_redactions(project: Path) -> tuple[Redaction, ...]:
    """Return rules for the folders of this machine: the project's, the user's and those of
    temporary files.
    """
    # Every part of a temporary path is new each time, so nothing of it stays.
    scratch = Redaction("<path>", pattern=re.escape(tempfile.gettempdir()) + r"(?:/[\w.-]+)+")
    return (*folder_redactions((project, project.resolve(), Path.cwd(), Path.home())), scratch)


@dataclass(slots=True)
class RedactionPass:
    """Applies rules to one normal form; the first rule that fits a field counts."""

    rules: Sequence[Redaction]
    _numbers: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])

    def redact(self, value: Json, *, in_data: bool = False) -> Json:
        """Return a value without what the rules name."""
        match value:
            case str():
                return self._text(value)
            case list():
                return [self.redact(item, in_data=in_data) for item in value]
            case dict():
                found: dict[str, Json] = {}
                for name, part in value.items():
                    rule = self._rule_of(name, in_data=in_data)
                    if rule is None:
                        found[name] = self.redact(part, in_data=in_data or name in DATA_FIELDS)
                    elif rule.becomes is not None:
                        found[name] = (
                            None if part is None else self._numbered(rule.becomes, str(part))
                        )
                return found
            case _:
                return value

    def _rule_of(self, name: str, *, in_data: bool) -> Redaction | None:
        for rule in self.rules:
            if name in rule.fields and (rule.in_data or not in_data):
                return rule
        return None

    def _text(self, text: str) -> str:
        for rule in self.rules:
            if rule.pattern is not None:
                word = rule.becomes or ""
                text = re.sub(rule.pattern, self._replacement(word), text)
        return text

    def _replacement(self, word: str) -> Callable[[re.Match[str]], str]:
        return lambda found: self._numbered(word, found[0])

    def _numbered(self, word: str, value: str) -> str:
        if "{n}" not in word:
            return word
        known = self._numbers.setdefault(word, {})
        return word.replace("{n}", str(known.setdefault(value, len(known) + 1)))
