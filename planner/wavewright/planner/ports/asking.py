"""What every question to a model needs, beside the question itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from wavewright.config.errors import WavewrightError

if TYPE_CHECKING:
    from wavewright.planner.ports.budgets import CallHistory
    from wavewright.planner.ports.fallback_ladder import Ladder, RungRecord
    from wavewright.planner.ports.model_port import ModelClient, OnText, OnUse, Role
    from wavewright.prompts.templates import Prompts


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Who is asked, with which prompts, down which ladder, and who is told about it.

    >>> from wavewright.planner import Asking, shipped_ladders
    >>> from wavewright.prompts import Prompts
    >>> Asking(models=None, prompts=Prompts(), ladder=shipped_ladders()["reviewer"]).models is None
    True
    """

    models: ModelClient | None
    """Who answers; without it only the rungs that need no model are tried."""
    prompts: Prompts
    """The templates of the questions."""
    ladder: Ladder | None = None
    """The rungs; one that is left out is not tried. None where there is one way alone: a judge's."""
    history: CallHistory | None = None
    """How long such questions took before, for the clocks."""
    on_use: OnUse | None = None
    """Receives the cost of every question."""
    on_text: OnText | None = None
    """Receives answers as they arrive, and an empty text where one begins."""
    on_rung: Callable[[RungRecord], None] | None = None
    """Receives every rung that was tried."""
    on_refused: OnRefused | None = None
    """Receives every answer that could not be used."""


@dataclass(frozen=True, slots=True)
class RefusedAnswer:
    """An answer of a model that was read and could not be used."""

    role: Role
    rung: str
    model: str
    text: str
    faults: tuple[str, ...]
    """All that is wrong with it, as the model was told."""


OnRefused: TypeAlias = Callable[[RefusedAnswer], None]

Sequel: TypeAlias = Literal["repair", "next_model", "end"]
"""What follows a refused answer: the model is told what is wrong and asked again; it will not
answer, so that only another model may; or nobody is asked again.
"""


class AnswerRefused(WavewrightError):
    """An answer cannot be used; `faults` are told to the model.

    >>> from wavewright.tools import AnswerRefused
    >>> str(AnswerRefused(["it names no step", "it is too long"]))
    'it names no step; it is too long'
    """

    def __init__(self, faults: Sequence[str], *, then: Sequel = "repair") -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)
        self.then: Sequel = then
