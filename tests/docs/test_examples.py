"""Every example of the documentation does what the page says.

`console` blocks are typed in a folder of their own, page by page, and what they print is compared
with what is shown; `python` blocks are run; a block with a title is saved under it; every other
YAML or JSON block must be readable, and a plan must be one. With UPDATE_DOCS=1 the shown outputs
are written anew instead of compared.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.docs.blocks import Block, blocks, commands, page_name, pages, project_of
from tests.docs.reader import Reader, brought_up_to_date
from tests.repository.tree import ROOT
from tests.support.postgres import PostgresServer
from tests.support.rabbitmq import Broker, RunningBroker
from wavewright.planner.reading.reader import read_plan

NAMES_BROKER = "$ export WAVEWRIGHT_AMQP_URL="
NAMES_DATABASE = "$ export WAVEWRIGHT_PG_URL="
UPDATE = os.environ.get("UPDATE_DOCS") == "1"

pytestmark = pytest.mark.timeout(180)


def rewrite(page: Path, before: str, after: str) -> None:
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace(f"$ {before}", f"$ {after}", 1), encoding="utf-8")


def follow_console(block: Block, reader: Reader, page: Path) -> list[str]:
    wrong: list[str] = []
    typed = commands(block)
    for command, following in zip(typed, [*typed[1:], None], strict=True):
        is_code_shown = following is not None and following.text == "echo $?"
        printed, fault = reader.follow(command, is_code_shown=is_code_shown)
        if fault and UPDATE and command.shown.strip() and (is_code_shown or reader.code == 0):
            current = brought_up_to_date(command.shown, printed)
            rewrite(page, f"{command.text}\n{command.shown}", f"{command.text}\n{current}")
        elif fault:
            wrong.append(fault)
    return wrong


def follow_block(block: Block, reader: Reader, page: Path) -> list[str]:
    if block.title:
        reader.save(block.title, block.text)
        return []
    match block.language:
        case "console":
            return follow_console(block, reader, page)
        case "python":
            printed = reader.run_python(block.text)
            return [f"line {block.line}: the program failed:\n{printed}"] if reader.code else []
        case "json":
            json.loads(block.text)
            return []
        case "yaml" if "\nsteps:" in block.text and "version: 1" in block.text:
            found = read_plan(block.text, f"line {block.line}").diagnostics
            return [f"line {block.line}: {fault.code}: {fault.message}" for fault in found]
        case _:
            return []


@pytest.mark.parametrize("page", pages(), ids=page_name)
def test_a_reader_who_types_what_a_page_says_gets_what_it_shows(
    page: Path, tmp_path: Path, starter_project: Path, request: pytest.FixtureRequest
) -> None:
    text = page.read_text(encoding="utf-8")
    reader = Reader.in_folder(tmp_path)
    match project_of(text):
        case "plans":
            shutil.copytree(ROOT / "plans", tmp_path / "plans")
        case "starter":
            reader.folder = shutil.copytree(starter_project, tmp_path / "project")
        case "empty":
            pass
    if NAMES_DATABASE in text:
        server: PostgresServer = request.getfixturevalue("postgres")
        reader.database = server.database()
    if NAMES_BROKER in text:
        broker: Broker | RunningBroker = request.getfixturevalue("broker")
        # A virtual host of its own: pages use the names that everybody has who changes none.
        reader.broker = broker.vhost() if isinstance(broker, Broker) else broker.url

    try:
        wrong = [fault for block in blocks(text) for fault in follow_block(block, reader, page)]
    finally:
        reader.leave()

    assert not wrong, "\n".join(wrong)
