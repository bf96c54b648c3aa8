"""Jobs whose goal is given in words: the tools that they may use, and goal templates for a similar goal."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wavewright.config import exit_codes
from wavewright.config.documents import read_bytes, read_document, read_document_file
from wavewright.config.errors import WavewrightError
from wavewright.config.settings import Settings
from wavewright.config.sources import DocumentError
from wavewright.engine.jobs.inputs import InputOverrides
from wavewright.engine.jobs.resolving import ResolvedJob, resolve_job
from wavewright.engine.project.templates import template_files
from wavewright.engine.project.tool_sources import full_name
from wavewright.engine.project.tools import all_tools
from wavewright.planner.diagnostics.diagnostic import PlanError
from wavewright.planner.diagnostics.suggestions import suggest_name
from wavewright.planner.language.goals import GoalTemplate
from wavewright.planner.language.signatures import AGENT, ASK_PERSON
from wavewright.planner.reading.reader import read_model
from wavewright.planner.types import Json, as_object
from wavewright.tools.packs import pack_names, pack_tool_names

_MAX_TEMPLATES: Final = 3
_WORD: Final = re.compile(r"\w{3,}")


def job_in_words(
    goal: str, settings: Settings, inputs: InputOverrides, tools: Sequence[str] = ()
) -> ResolvedJob:
    """Return a job without a plan: its goal in words, and every tool of the project or those of the names.

    Args:
        goal: The text of the goal.
        settings: The project's.
        inputs: Values that the plan may read.
        tools: Names of tools, and of packs for all of their tools; all of the project's but `agent` and `ask_person`
            where there are none.

    Raises:
        WavewrightError: there is no tool and no pack of a name.
    """
    template: dict[str, Json] = {
        "version": 1,
        "name": "plan",
        "goal": goal,
        "available_tools": [{"name": name} for name in _tool_names(tools, settings)],
    }
    document = read_document(json.dumps(template), "the goal")
    return resolve_job(document, settings.root / "plan", None, settings, inputs=inputs)


def _tool_names(asked: Sequence[str], settings: Settings) -> list[str]:
    known = list(all_tools(settings))
    if not asked:
        return [name for name in known if name not in {AGENT, ASK_PERSON}]
    found = dict[str, None]()
    for name in asked:
        if name in known:
            found[name] = None
        elif name in pack_names():
            brought = sorted(pack_tool_names(name, as_object(settings.packs.get(name)), settings.root))
            found |= dict.fromkeys(tool if tool in known else full_name(name, tool) for tool in brought)
        else:
            hint = suggest_name(name, [*known, *pack_names()], what="tools and packs")
            raise WavewrightError(f"there is no tool and no pack {name!r}", hint, exit_code=exit_codes.MISUSE)
    return [*found]


@dataclass(frozen=True, slots=True)
class FoundTemplate:
    """A goal template for a similar goal."""

    file: Path
    template: GoalTemplate


def find_templates(goal: str, settings: Settings, *, is_kept: bool = False) -> list[FoundTemplate]:
    """Return the goal templates of the project and of packs whose name or goal has words of a goal, best first.

    With `is_kept` only those that were kept from runs are looked at.
    """
    words = {word.casefold() for word in _WORD.findall(goal)}
    templates = list(_templates(settings, is_kept=is_kept))
    if not templates:
        return []
    with closing(sqlite3.connect(":memory:")) as index:
        index.execute("CREATE VIRTUAL TABLE template USING fts5(name, goal, tokenize = 'porter unicode61')")
        index.executemany(
            "INSERT INTO template (rowid, name, goal) VALUES (?, ?, ?)",
            [
                (number, found.template.name.replace("_", " "), found.template.goal)
                for number, found in enumerate(templates)
            ],
        )
        query = " OR ".join(f'"{word}"' for word in sorted(words))
        rows = index.execute(
            "SELECT rowid FROM template WHERE template MATCH ? ORDER BY rank, rowid LIMIT ?",
            (query or '""', _MAX_TEMPLATES),
        ).fetchall()
    return [templates[row[0]] for row in rows]


def _templates(settings: Settings, *, is_kept: bool) -> Iterator[FoundTemplate]:
    """Yield the goal templates that can be read."""
    for file in template_files(settings):
        try:
            # Each run that needs a plan looks for kept ones, and to parse every template takes far longer.
            if is_kept and b"kept" not in read_bytes(file):
                continue
            template = read_model(read_document_file(file), GoalTemplate)
        except (DocumentError, PlanError):
            continue
        if not is_kept or (template.kept is not None and template.plan is not None):
            yield FoundTemplate(file, template)
