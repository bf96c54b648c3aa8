"""`wavewright tools --untrusted`: what the tools of a project should say of untrusted text.

Every text parameter of a tool that writes or sends is a sink until the tool takes untrusted text
there; a tool that asks outside and says nothing of its output is believed. What is printed is a
list, followed by a patch of `wavewright.yaml`: a proposal, by the names of parameters that mostly
hold content. Nothing else goes by these names.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wavewright.config import Document, Settings, exit_codes
from wavewright.engine.interfaces.cli.common.arguments import project_settings
from wavewright.engine.interfaces.cli.common.output import print_lines
from wavewright.engine.run.project.tools import all_tools
from wavewright.planner import JsonObject, ToolSignature, as_list, as_object
from wavewright.planner.checks.influence import Level, capacity
from wavewright.planner.checks.untrusted_text import is_sink, text_parameters
from wavewright.planner.schemas.views import scoped_schema

_CONTENT: Final = frozenset(
    {"text", "body", "subject", "title", "content", "message", "description", "note", "notes"}
    | {"comment", "summary", "markdown", "html", "caption"}
)
"""Names of parameters that mostly hold what is written, and do not choose where it goes."""


@dataclass(frozen=True, slots=True)
class _Undeclared:
    """A tool of the project that could say more."""

    name: str
    pointer: str
    """Of its options in the settings."""
    sinks: tuple[str, ...]
    """Text parameters that take no untrusted text."""
    is_silent: bool
    """Whether it asks outside and does not say that its output is trusted or not."""
    accepted: tuple[str, ...]
    """Parameters that are declared to take it already."""

    @property
    def content(self) -> list[str]:
        """The sinks that hold content."""
        return [name for name in self.sinks if name in _CONTENT]

    @property
    def proposed(self) -> dict[str, str]:
        """What to declare, as YAML by the name of the option."""
        accepted = ", ".join([*self.accepted, *self.content])
        return {
            **({"accepts_untrusted": f"[{accepted}]"} if self.content else {}),
            **({"untrusted_output": "true"} if self.is_silent else {}),
        }


def list_undeclared() -> int:
    """Print what the project's tools should say of untrusted text, and a patch to apply."""
    settings = project_settings()
    undeclared = list(_undeclared(settings))
    if not undeclared:
        sys.stdout.write("every tool of the project says what it takes and brings\n")
        return exit_codes.OK
    print_lines(line for tool in undeclared for line in _lines(tool))
    sys.stdout.write("".join(_patch(settings, undeclared)))
    return exit_codes.OK


def _lines(tool: _Undeclared) -> Iterator[str]:
    if tool.sinks:
        yield f"{tool.name} refuses untrusted text without an approval in: {', '.join(tool.sinks)}"
    if tool.is_silent:
        yield f"{tool.name} asks outside, and its output is taken to be trusted"


def _undeclared(settings: Settings) -> Iterator[_Undeclared]:
    tools = all_tools(settings)
    for name, pointer, options in _declared_functions(settings):
        signature = tools[name].signature if name in tools else None
        if signature is None:
            continue
        sinks = tuple(_undeclared_sinks(signature))
        asks_outside = "egress" in signature.effects and not signature.writes
        says_nothing = not {"untrusted_output", "untrusted"} & options.keys()
        is_silent = asks_outside and says_nothing and _gives_text(signature)
        if sinks or is_silent:
            accepted = as_list(options.get("accepts_untrusted"))
            yield _Undeclared(name, pointer, sinks, is_silent, tuple(map(str, accepted)))


def _undeclared_sinks(signature: ToolSignature) -> Iterator[str]:
    if signature.needs_approval:
        return
    for name in text_parameters(signature):
        if name not in signature.destination and is_sink(signature, name):
            yield name


def _gives_text(signature: ToolSignature) -> bool:
    return capacity(scoped_schema(signature.output_schema)).level is Level.TEXT


def _declared_functions(settings: Settings) -> Iterator[tuple[str, str, JsonObject]]:
    """Yield the tools that the settings have options of: names, places and options."""
    if settings.document is None:
        return
    entries = as_list(as_object(settings.document.value).get("tools"))
    for number, entry in enumerate(entries):
        for key, given in as_object(as_object(entry).get("functions")).items():
            options = as_object(given)
            name = options.get("name")
            pointer = f"/tools/{number}/functions/{key}"
            yield (name if isinstance(name, str) else key), pointer, options


def _patch(settings: Settings, tools: list[_Undeclared]) -> Iterator[str]:
    """Yield the lines of a patch of the settings; none where nothing is proposed."""
    document = settings.document
    if document is None or settings.file is None:
        return
    old = new = document.source.text
    edits = [edit for tool in tools for edit in _edits(document, tool)]
    # From the end, so that the places before stay.
    for start, end, text in sorted(edits, reverse=True):
        new = new[:start] + text + new[end:]
    name = Path(settings.file).name
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), name, name
    )
    yield from (
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _edits(document: Document, tool: _Undeclared) -> Iterator[tuple[int, int, str]]:
    """Yield what to write in the settings, and from where to where: a list that is there already is
    extended, and an option that is not there follows the others of its tool.
    """
    added, text = list[str](), document.source.text
    for name, value in tool.proposed.items():
        declared = document.span(f"{tool.pointer}/{name}")
        if declared is None:
            added.append(f"{name}: {value}")
        elif text.startswith("-", declared.start):
            # A list with a line for each: the others are before it, so that its comments stay.
            line_break = "\n" + " " * _column(text, declared.start)
            others = "".join(f"- {parameter}{line_break}" for parameter in tool.content)
            yield declared.start, declared.start, others
        else:
            yield declared.start, declared.end, value
    span = document.span(tool.pointer)
    if span is None or not added:
        return
    written = text[span.start : span.end].rstrip()
    end = span.start + len(written)
    if written.endswith("}"):
        begun = written[:-1].rstrip()
        between = "" if begun.endswith("{") else ", "
        yield span.start + len(begun), end, f"{between}{', '.join(added)}}}"
    elif written:
        line_break = "\n" + " " * _column(text, span.start)
        yield end, end, "".join(f"{line_break}{option}" for option in added)


def _column(text: str, place: int) -> int:
    return place - (text.rfind("\n", 0, place) + 1)
