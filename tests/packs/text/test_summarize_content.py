"""Summaries: by a model, in parts where the text is long, and the text itself where no model can."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio

from tests.tools.calling import request
from tests.tools.scripted_models import Script, ScriptedModels, project, serving
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.ports.model_port import ModelError
from wavewright.planner.types import Json
from wavewright.tools import load_pack
from wavewright.tools.functions.injected import TextChunk
from wavewright.tools.functions.tool import Emission
from wavewright.tools.workers import make_services, make_worker


def summarize(
    home: Path, content: str, *script: Script, **more: Json
) -> tuple[Json, ScriptedModels, list[Emission]]:
    services, models = serving(home, *(script or ("never",)))
    if not script:
        services = make_services(project(home, model=None))
    emitted: list[Emission] = []
    worker = next(one for one in load_pack("text").workers if one.spec.name == "summarize_content")
    asked = replace(request({"content": content, **more}), emit=emitted.append)
    return anyio.run(partial(make_worker(worker, services).call, asked)), models, emitted


def test_a_summary_is_the_models_words_and_is_shown_as_they_come(tmp_path: Path) -> None:
    output, _, emitted = summarize(tmp_path, "A long story. " * 50, "A short story.")

    assert output == {"summary": "A short story.", "source_chars": 700, "method": "agent"}
    assert "".join(one.text for one in emitted if isinstance(one, TextChunk)) == "A short story. "


def test_the_text_stays_unchanged_where_the_model_fails_and_says_so(tmp_path: Path) -> None:
    output, _, emitted = summarize(tmp_path, "A story.", ModelError("timeout", "too slow"))

    assert output == {"summary": "A story.", "source_chars": 8, "method": "unchanged"}
    assert [one.rung for one in emitted if isinstance(one, RungRecord)] == ["agent", "generated"]


def test_the_text_stays_unchanged_without_a_model(tmp_path: Path) -> None:
    output, _, _ = summarize(tmp_path, "A story.")

    assert output == {"summary": "A story.", "source_chars": 8, "method": "unchanged"}


def test_300_000_characters_are_one_question_and_more_are_cut_into_parts(tmp_path: Path) -> None:
    _, whole, _ = summarize(tmp_path, "x" * 300_000, "Short.")
    output, parts, emitted = summarize(tmp_path, "word " * 130_000, "Part.")

    assert len(whole.asked) == 1
    assert len(parts.asked) == 3
    assert output == {
        "summary": "Part.\n\nPart.\n\nPart.",
        "source_chars": 650_000,
        "method": "agent",
    }
    assert not any(isinstance(one, TextChunk) for one in emitted)


def test_one_part_that_fails_leaves_the_whole_text_unchanged(tmp_path: Path) -> None:
    text = "word " * 130_000

    output, _, _ = summarize(tmp_path, text, "Part.", "Part.", ModelError("overloaded", "429"))

    assert output == {"summary": text, "source_chars": 650_000, "method": "unchanged"}
