"""What keeps a prompt template from being rendered: its syntax, or a value that its prompt is not given.

Templates are tried with typical values; a value of the wrong kind is no fault, for it may be the typical one that is
wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wavewright.prompts import PromptError, Prompts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavewright.tools.workers.specs import Worker


class PromptDefect(NamedTuple):
    """What is wrong with a template."""

    place: str
    """Its file, with the line where that is known."""
    message: str
    hint: str


def find_prompt_defect(name: str, prompts: Prompts, workers: Sequence[Worker]) -> PromptDefect | None:
    """Return what keeps a prompt from being rendered; `workers` are those that may use it."""
    return _syntax_defect(prompts.file_of(name)) or _rendering_defect(name, prompts, workers)


def _syntax_defect(file: Path | None) -> PromptDefect | None:
    from jinja2 import Environment, TemplateSyntaxError

    assert file is not None
    try:
        Environment(autoescape=False).parse(file.read_text(encoding="utf-8"))  # noqa: S701 - only read, never rendered
    except TemplateSyntaxError as error:
        return PromptDefect(
            f"{file}:{error.lineno}", str(error.message), "mend the template's syntax (Jinja2)"
        )
    except (OSError, UnicodeDecodeError) as error:
        return PromptDefect(str(file), str(error), "write the template as UTF-8 text")
    return None


def _rendering_defect(name: str, prompts: Prompts, workers: Sequence[Worker]) -> PromptDefect | None:
    """Return what keeps a template from being rendered, whatever its prompt is given."""
    from jinja2 import TemplateError

    from wavewright.engine.prompt_contexts import sample_contexts

    for context in sample_contexts(name, workers):
        try:
            prompts.render(name, **context)
        except PromptError as error:
            if not isinstance(error.__cause__, TemplateError):
                continue
            file = error.file or prompts.file_of(name)
            place = f"{file}:{error.line}" if error.line is not None else f"{file}"
            return PromptDefect(place, error.message, error.hint)
    return None
