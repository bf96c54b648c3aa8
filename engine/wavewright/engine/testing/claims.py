"""Answers that say why: what makes a failing assertion readable.

A *claim* is true or false and shows its reason; an explained text or number is a plain one with the reason for it.
pytest shows the reason only where an assertion fails, and comparisons are those of the plain values.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Self

import pytest

from wavewright.planner.diagnostics.suggestions import suggest_name


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """Something that holds or not, and why; `assert` shows the reason."""

    holds: bool
    why: str

    def __bool__(self) -> bool:
        """Whether it holds."""
        return self.holds

    def __repr__(self) -> str:
        return self.why


class ExplainedText(str):
    """A word with the reason for it."""

    __slots__ = ("why",)

    why: str

    def __new__(cls, word: str, why: str) -> Self:
        """Return the word, with its reason."""
        explained = super().__new__(cls, word)
        explained.why = why
        return explained


class ExplainedNumber(float):
    """A number with the reason for it."""

    why: str

    def __new__(cls, number: float, why: str) -> Self:
        """Return the number, with its reason."""
        explained = super().__new__(cls, number)
        explained.why = why
        return explained


def assertion_failure(message: str) -> BaseException:
    """Return what fails the test with a message alone: what is wrong lies in a plan, not in the lines that led here."""
    return pytest.fail.Exception(message, pytrace=False)


def unknown_name(name: str, known: Collection[str], *, what: str, of: str) -> BaseException:
    """Return what fails the test because it names something that is not there; the traceback shows where it does."""
    hint = suggest_name(name, known, what=f"{what}s") or f"it has no {what}s"
    return pytest.fail.Exception(f"{of} has no {what} {name!r}; {hint}")


def comparison_reasons(*sides: object) -> list[str]:
    """Return the reasons that the sides of a comparison carry."""
    return [side.why for side in sides if isinstance(side, ExplainedText | ExplainedNumber)]
