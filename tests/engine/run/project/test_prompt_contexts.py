"""The typical values of prompts are those that prompts are given."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.unplanned_project import PLAN, REVIEW, misspelt, write_job
from tests.prompts.test_prompts_reference import told_of, variables
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.engine.run.project.prompt_checks import UnknownValue, sample_contexts
from wavewright.planner.types import JsonObject
from wavewright.prompts import Prompts
from wavewright.tools.pack_folders import project_prompts
from wavewright.tools.packs import load_pack, pack_names
from wavewright.tools.workers.specs import Worker

NAMES = project_prompts().names()
PATCH: JsonObject = {"reason": "again", "ops": [{"op": "remove", "id": "nobody"}]}


@cache
def workers() -> list[Worker]:
    return [worker for name in pack_names() for worker in load_pack(name, {}, Path()).workers]


@cache
def agent_prompts() -> set[str]:
    """Return the prompts of the agents of packs and of the game, with those that some of them end
    with.
    """
    packs = [load_pack(name, {}, Path()) for name in pack_names()]
    of_game = {name for name in NAMES if name.startswith("tabletop/")}
    return {"lore/evidence", *of_game, *(spec.prompt for pack in packs for spec in pack.agents)}


def contexts_of(name: str) -> tuple[Mapping[str, object], ...]:
    agents = ({"inputs": UnknownValue()},) if name in agent_prompts() else ()
    return sample_contexts(name, workers()) or agents


@pytest.mark.parametrize("name", NAMES)
def test_every_shipped_prompt_is_rendered_with_each_of_its_contexts(name: str) -> None:
    contexts = contexts_of(name)

    assert contexts
    assert all(project_prompts().render(name, **context) for context in contexts)


@pytest.mark.parametrize("name", NAMES)
def test_a_context_has_every_variable_of_the_shipped_prompt_and_none_that_the_page_does_not_name(
    name: str,
) -> None:
    for context in contexts_of(name):
        assert variables(name) <= context.keys()
        assert [given for given in context if f"`{given}`" not in told_of(name)] in ([], ["draft"])


def test_what_prompts_are_given_in_a_run_is_in_their_contexts(
    wavewright: CommandLine,
    project: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: dict[str, set[str]] = {}
    render = Prompts.render

    def listening(self: Prompts, name: str, /, **values: object) -> str:
        given[name] = set(values)
        return render(self, name, **values)

    monkeypatch.setattr(Prompts, "render", listening)
    for variable, value in model_server.environment().items():
        monkeypatch.setenv(variable, value)
    (project / "notes" / "empty.md").write_text("")
    template = project / "config" / "goals" / "word_ranking.yaml"
    template.write_text(
        template.read_text().replace(
            "gates:\n",
            "gates:\n  - {id: fair, on_tool: list_notes, judge: {rubric: It is fair.}}\n",
        )
    )
    model_server.answer(misspelt(), when=asked_for("plan"), times=1)
    model_server.answer(PLAN, when=asked_for("plan"))
    model_server.answer(PATCH, when=asked_for("patch"))
    model_server.answer({"goal_achieved": "perhaps"}, when=asked_for("review"), times=1)
    model_server.answer({**REVIEW, "goal_achieved": False}, when=asked_for("review"))
    model_server.answer({"verdict": "perhaps"}, when=asked_for("verdict"))

    wavewright("run", write_job(project))

    assert {name.partition("/")[0] for name in given} == {
        "planner",
        "judge",
        "reviewer",
        "recovery",
    }
    assert {name.partition("/")[2] for name in given} == {"instructions", "request", "repair"}
    for name, names in given.items():
        assert [set(context) for context in sample_contexts(name, ())] == [names] * len(
            sample_contexts(name, ())
        )
