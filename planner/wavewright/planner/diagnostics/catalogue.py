"""Every diagnostic: code, kind, family, what it means and how to fix it.

A *code* is stable and is what people and tools refer to; a *kind* is the same in a word, for programs that match
on it. All of them stand in `catalogue.toml`; no other code is reported, and each has a page in
`docs/reference/diagnostics/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from wavewright.planner.types import Severity

Family: TypeAlias = Literal[
    "document", "tools", "references", "graph", "goal rules", "safety", "budget", "lint"
]

FAMILIES: dict[str, Family] = {
    "E1": "document",
    "E2": "tools",
    "E3": "references",
    "E4": "graph",
    "E5": "goal rules",
    "E6": "safety",
    "E7": "budget",
    "W8": "lint",
}
"""Families by the first two characters of a code."""


class DiagnosticEntry(NamedTuple):
    """One code."""

    code: str
    kind: str
    title: str
    meaning: str
    """What is wrong, and why it matters."""
    fix: str
    """What the author can do."""

    @property
    def family(self) -> Family:
        """The family, by the code's first two characters."""
        return FAMILIES[self.code[:2]]

    @property
    def severity(self) -> Severity:
        """Whether it only warns, or keeps the plan from running."""
        return severity_of(self.code)


@cache
def catalogue() -> Mapping[str, DiagnosticEntry]:
    """Return every diagnostic by its code, in order; the file is read at the first call."""
    import tomllib

    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return {code: DiagnosticEntry(code, **fields) for code, fields in tomllib.loads(text).items()}


@cache
def codes_by_kind() -> Mapping[str, str]:
    """Return the code of each kind."""
    return {entry.kind: code for code, entry in catalogue().items()}


def severity_of(code: str) -> Severity:
    """Return `warning` for `W…`; any other code is an error, which keeps the plan from running."""
    return "warning" if code.startswith("W") else "error"
