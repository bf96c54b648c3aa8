"""The reference page of prompts names every template that is shipped, with its variables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from jinja2 import meta

from wavewright.prompts.environments import PromptEnvironment
from wavewright.prompts.templates import SHIPPED
from wavewright.tools import project_prompts

PROMPTS = project_prompts()
PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "prompts.md").read_text(encoding="utf-8")

ENTRIES: list[tuple[str, list[str]]] = [
    (entry, re.findall(r"`([a-z]+/[a-z_]+)`", entry))
    for entry in re.findall(r"^- .*(?:\n  .*)*", PAGE, re.MULTILINE)
]
OF_PACKS = PAGE.partition("Those of the packs read `inputs`, the parameters of the call:")[2]


def variables(name: str) -> set[str]:
    file = PROMPTS.file_of(name)
    assert file is not None
    text = file.read_text(encoding="utf-8")
    return meta.find_undeclared_variables(PromptEnvironment([SHIPPED], {}).parse(text))


def told_of(name: str) -> str:
    """Return what the page says of a prompt: its entry, and for the planner's request the list below
    it.
    """
    if name == "planner/request":
        return PAGE.partition("The variables of `planner/request`:")[2].partition("\n## ")[0]
    entries = [entry for entry, names in ENTRIES if name in names]
    assert len(entries) == 1, f"docs/reference/prompts.md names {name!r} in {len(entries)} places"
    return entries[0] + ("`inputs`" if entries[0] in OF_PACKS else "")


@pytest.mark.parametrize("name", PROMPTS.names())
def test_a_shipped_prompt_is_on_the_page_with_its_variables(name: str) -> None:
    said = told_of(name)

    assert [one for one in sorted(variables(name)) if f"`{one}`" not in said] == []


def test_the_page_names_no_prompt_that_is_not_there() -> None:
    assert sorted(named for _, names in ENTRIES for named in names) == sorted(PROMPTS.names())
