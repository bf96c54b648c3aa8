"""Jinja2 as prompts use it: plain text, strict about what is missing, and closed to what a template may not touch.

Nothing is escaped but by a filter, because a prompt is no HTML. A value that is not given is an error and never an
empty place, and a null is never written as `None`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from jinja2 import ChoiceLoader, FileSystemLoader, PrefixLoader, StrictUndefined
from jinja2.runtime import Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from wavewright.prompts.blocks import data_block, one_line, prompt_json

__all__ = ["PromptEnvironment"]


class PromptEnvironment(ImmutableSandboxedEnvironment):
    """Finds templates in folders, the first that has one wins; below `shipped/` only those of the last folder.

    So a template may build on the one that it replaces: `{% include "shipped/planner/instructions.md.j2" %}`.

    It is sandboxed, so that a template that came with somebody's project does not reach into the program.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        found = FileSystemLoader([str(folder) for folder in folders], encoding="utf-8")
        shipped = FileSystemLoader([str(folder) for folder in folders[-1:]], encoding="utf-8")
        super().__init__(
            loader=ChoiceLoader([found, PrefixLoader({"shipped": shipped})]),
            undefined=StrictUndefined,
            autoescape=False,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_require_value,
        )
        self.filters["json"] = prompt_json
        self.filters["data"] = data_block
        self.filters["one_line"] = one_line

    def getattr(self, obj: object, attribute: str) -> object:
        """Return a member of an object of JSON by its name, also where a dictionary has a method of that name."""
        if isinstance(obj, dict) and attribute in obj:
            return cast("dict[str, object]", obj)[attribute]
        found: object | Undefined = super().getattr(obj, attribute)
        return found


def _require_value(value: object) -> object:
    """Refuse to write a value that is not there: models take the text `None` for a word."""
    if value is None:
        msg = "a value is null here"
        raise TypeError(msg)
    return value
