"""Finding and rendering of prompts' templates, and escaping of the values in them.

A *template* is a Jinja2 file, `planner/request.md.j2` for the prompt `planner/request`. A pack's
prompts lie in a folder of its own: `research.md.j2` there is `lore/research` for the pack `lore`. A
project's own file of the same name replaces either. Values are never parsed as templates, so text in
a document, an input or an answer cannot run as part of one.

A *data block* is a value as JSON between two marks, so that it cannot be read as instructions. The
value cannot close the block: it never contains the characters that marks are made of, nor invisible
ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError, did_you_mean

if TYPE_CHECKING:
    from jinja2 import TemplateNotFound

    from wavewright.prompts.environments import PromptEnvironment


SUFFIX = ".md.j2"
SHIPPED = Path(__file__).parent
"""Folder of the templates that come with the package."""
SHIPPED_PREFIX = "shipped/"
"""What the name of a template begins with that stands below those of the project."""


class PromptError(WavewrightError):
    """A prompt that cannot be rendered; `place` is the template's file, with its line where one is
    known.
    """

    exit_code = exit_codes.MISUSE

    def __init__(
        self, message: str, *, file: Path | None = None, line: int | None = None, hint: str
    ) -> None:
        place = None if file is None else str(file) if line is None else f"{file}:{line}"
        super().__init__(message, hint, place=place)
        self.file = file
        self.line = line
        """Counted from 1; None if the error concerns the whole file."""

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        return f"{where}{self.message}; {self.hint}"


def _no_packs() -> Mapping[str, Path]:
    return {}


class Prompts:
    """The templates of a project: its own folders first, then what is shipped, then those of packs.

    `packs` returns the folder of each pack's prompts by the pack's name; it is called when a
    template is neither the project's nor shipped, and when all are listed.

    >>> from wavewright.prompts import Prompts
    >>> "planner/instructions" in Prompts().names()
    True
    """

    def __init__(
        self, folders: Sequence[Path] = (), packs: Callable[[], Mapping[str, Path]] = _no_packs
    ) -> None:
        self.folders = (*folders, SHIPPED)
        self._find_packs = packs

    def names(self) -> tuple[str, ...]:
        """Return the names of all prompts."""
        names = {name for folder in self.folders for name in _names_in(folder)}
        for pack, folder in self._packs.items():
            names |= {f"{pack}/{name}" for name in _names_in(folder)}
        return tuple(sorted(names))

    def file_of(self, name: str) -> Path | None:
        """Return the template that a prompt would be rendered from.

        A name below `shipped/` is that of the template which a project's own may replace.
        """
        is_shipped = name.startswith(SHIPPED_PREFIX)
        name = name.removeprefix(SHIPPED_PREFIX)
        for folder in (SHIPPED,) if is_shipped else self.folders:
            if (file := folder / f"{name}{SUFFIX}").is_file():
                return file
        pack, _, prompt = name.partition("/")
        if not prompt or pack not in self._packs:
            return None
        file = self._packs[pack] / f"{prompt}{SUFFIX}"
        return file if file.is_file() else None

    def render(self, name: str, /, **values: object) -> str:
        """Return a rendered prompt.

        Raises:
            PromptError: there is no such template, it is faulty, or it asks for a value that is not
                given.
        """
        from jinja2 import TemplateError, TemplateNotFound

        try:
            return self.environment.get_template(f"{name}{SUFFIX}").render(values).strip("\n")
        except TemplateNotFound as error:
            raise self._not_found(error, name) from error
        except (OSError, RecursionError, UnicodeDecodeError) as error:
            message = f"the prompt {name!r} cannot be read: {error!s}"
            raise PromptError(message, file=self.file_of(name), hint=_UNREADABLE_HINT) from error
        # An expression in a user's template can raise anything; the error names its place.
        except (
            TemplateError,
            ArithmeticError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:
            raise self._explained(error, name, values) from error

    @cached_property
    def _packs(self) -> Mapping[str, Path]:
        return self._find_packs()

    @cached_property
    def environment(self) -> PromptEnvironment:
        """What the templates are parsed and rendered in."""
        from wavewright.prompts.environments import PromptEnvironment

        return PromptEnvironment(self.folders, self._packs)

    def _explained(self, error: Exception, name: str, values: dict[str, object]) -> PromptError:
        from jinja2 import TemplateSyntaxError, UndefinedError

        if isinstance(error, TemplateSyntaxError):
            file = Path(error.filename) if error.filename else self.file_of(name)
            return PromptError(
                error.message or "faulty", file=file, line=error.lineno, hint=_SYNTAX_HINT
            )
        file, line = self._place(error)
        if isinstance(error, UndefinedError):
            message = (error.message or "a value is undefined").rstrip(".")
            undefined = _UNDEFINED.match(message)
            visible = values if undefined else ()
            hint = hint_of_name(undefined[1] if undefined else "", visible, name, values)
            return PromptError(message, file=file, line=line, hint=hint)
        return PromptError(
            str(error) or type(error).__name__, file=file, line=line, hint=_EXPRESSION_HINT
        )

    def _not_found(self, error: TemplateNotFound, name: str) -> PromptError:
        missing = str(error.name or name).removesuffix(SUFFIX)
        folders = ", ".join(str(folder) for folder in self.folders)
        hint = did_you_mean(missing, self.names()) or f"put {missing}{SUFFIX} into one of {folders}"
        file, line = self._place(error)
        if file is None:
            return PromptError(f"there is no prompt {name!r}", hint=hint)
        return PromptError(f"there is no template {missing!r}", file=file, line=line, hint=hint)

    def _place(self, error: BaseException) -> tuple[Path | None, int | None]:
        """Return the innermost position in a template from which an error was raised."""
        place: tuple[Path | None, int | None] = (None, None)
        trace = error.__traceback__
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            if file.endswith(SUFFIX):
                place = (Path(file), trace.tb_lineno)
            trace = trace.tb_next
        return place


def hint_of_name(name: str, visible: Iterable[str], prompt: str, given: Iterable[str]) -> str:
    """Return the hint of a name that a template cannot read: the nearest that it can, and what the
    prompt is given.
    """
    near = did_you_mean(name, visible)
    hint = f"the prompt {prompt!r} is given: {', '.join(sorted(given)) or 'none'}"
    return f"{near} {hint}" if near else hint


def _names_in(folder: Path) -> Iterator[str]:
    for file in folder.rglob(f"*{SUFFIX}"):
        yield file.relative_to(folder).as_posix().removesuffix(SUFFIX)


_UNDEFINED = re.compile(r"'(\w+)' is undefined")
_UNREADABLE_HINT = "fix the template, or remove it so that the shipped one is used"
_SYNTAX_HINT = "fix the template's syntax (Jinja2)"
_EXPRESSION_HINT = "fix the expression, or test the value with {% if … %} first"
