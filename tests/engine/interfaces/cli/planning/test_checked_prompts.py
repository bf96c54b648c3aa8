"""`wavewright check` reads the prompts of a project that a run may render, in all of their branches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.conftest import Answer, CommandLine

TEMPLATE = "version: 1\nname: t\ngoal: Find it\navailable_tools: [{name: ask_model}]\n"
PLAN = "steps: [{id: a, tool: ask_model, params: {of: x, for: {n: integer}}}]\n"


@pytest.fixture
def folder(tmp_path: Path, wavewright: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a goal template and a plan, and a model that is never asked."""
    del wavewright  # it clears the environment first
    monkeypatch.setenv("WAVEWRIGHT_MODEL", "openai-chat:nobody")
    monkeypatch.setenv("WAVEWRIGHT_BASE_URL", "http://127.0.0.1:9/v1")
    (tmp_path / "wavewright.yaml").write_text("tools: []\n")
    (tmp_path / "t.template.yaml").write_text(TEMPLATE)
    (tmp_path / "p.plan.yaml").write_text(PLAN)
    return tmp_path


def write_prompt(folder: Path, name: str, text: str) -> None:
    file = folder / "prompts" / f"{name}.md.j2"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize(
    ("text", "line", "message", "near"),
    [
        ("a\n{% if inputs %}\n{{ outputz }}\n{% endif %}", 3, "'outputz' is undefined", "outputs"),
        ("{% if round > 99 %}{{ goal | jsn }}{% endif %}", 1, "No filter named 'jsn'", "json"),
        ("{% if goal is definde %}x{% endif %}", 1, "No test named 'definde'", "defined"),
        ("{% for step in steps %}\n{{ stpe }}{% endfor %}", 2, "'stpe' is undefined", "step"),
        ("{% for s in steps %}x{% endfor %}{{ step.id }}", 1, "'step' is undefined", "steps"),
        ("{% for x in missing %}y{% else %}{{ mising }}{% endfor %}", 1, "'mising'", "missing"),
        ("{% for o in outputs %}{% if false %}{{ o.nmae }}{% endif %}{% endfor %}", 1, "'nmae'", "name"),
        ("{% if false %}{% include 'reviewer/instrctions.md.j2' %}{% endif %}", 1, "template", "instructions"),
        ("{% macro m(a) %}{{ b }}{% endmacro %}{{ goal }}", 1, "'b' is undefined", "given: formulas, gates"),
        ("{% if false %}{{ gaol }}{% endif %}", 1, "'gaol' is undefined", "goal"),
    ],
)  # fmt: skip
def test_a_name_in_any_branch_of_a_prompt_is_found_at_its_line_with_the_nearest(
    folder: Path, wavewright: CommandLine, text: str, line: int, message: str, near: str
) -> None:
    write_prompt(folder, "reviewer/request", text)

    checked = wavewright("check", "p.plan.yaml")

    assert checked.code == 1
    assert f"reviewer/request.md.j2:{line}:" in checked.out
    assert message in checked.out
    assert near in checked.out


def test_faults_of_templates_that_are_included_extended_and_imported_are_found_where_they_are(
    folder: Path, wavewright: CommandLine
) -> None:
    write_prompt(folder, "house/base", "{% block body %}{% endblock %}\n{{ gaol }}")
    write_prompt(folder, "house/part", "{{ nmae }}")
    write_prompt(folder, "house/words", "{% macro line(x) %}{{ x }}{{ goal }}{% endmacro %}")
    write_prompt(
        folder,
        "reviewer/request",
        "{% extends 'house/base.md.j2' %}{% from 'house/words.md.j2' import lien %}"
        "{% block body %}{% set name = 1 %}{% include 'house/part.md.j2' %}{% endblock %}",
    )

    found = _places(wavewright("check", "p.plan.yaml", "--format", "json"))

    assert ("base.md.j2", "'gaol' is undefined") in found
    assert ("part.md.j2", "'nmae' is undefined") in found
    assert ("request.md.j2", "the template does not export 'lien'") in found
    # A macro is imported without what the prompt is given.
    assert ("words.md.j2", "'goal' is undefined") in found


@pytest.mark.parametrize(
    "text",
    [
        "{% if house is defined %}{{ house }}{% endif %}{{ other | default('x') }}",
        "{% set a = 1 %}{% for s in steps %}{{ loop.index + a }}{{ s.anything.at_all }}{% endfor %}",
        "{% macro m(a, b=1) %}{{ a }}{{ b }}{{ caller() }}{% endmacro %}{% call m(goal) %}x{% endcall %}",
        "{% with x = goal %}{{ x | one_line }}{% endwith %}{% include 'nobody.md.j2' ignore missing %}",
        "{% include 'shipped/reviewer/request.md.j2' %}{{ range(3) | join }}",
        "{% for k, v in inputs.items() %}{{ k }}{{ v.x }}{% endfor %}{{ inputs.any }}{{ targets.variables }}",
        "{% filter upper %}{{ goal }}{% endfilter %}{% raw %}{{ nobody }}{% endraw %}",
    ],
)
def test_what_a_template_is_given_sets_or_asks_for_is_no_fault(
    folder: Path, wavewright: CommandLine, text: str
) -> None:
    write_prompt(folder, "reviewer/request", text)

    checked = wavewright("check", "p.plan.yaml")

    assert checked.code == 0, checked.out


def test_a_plan_needs_no_planner_and_the_settings_answer_for_all_prompts(
    folder: Path, wavewright: CommandLine
) -> None:
    write_prompt(folder, "planner/request", "{{ gaol.name }}")
    write_prompt(folder, "house/unused", "{{ nobody }}")

    assert wavewright("check", "p.plan.yaml").code == 0
    assert "did you mean 'goal'?" in wavewright("check", "t.template.yaml").out
    assert wavewright("check", "wavewright.yaml").code == 1


def test_prompts_of_a_project_without_a_model_are_not_in_the_way(
    folder: Path, wavewright: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WAVEWRIGHT_MODEL")
    (folder / "q.plan.yaml").write_text("inputs: {x: 1}\nsteps: [{id: a, tool: look}]\n")
    write_prompt(folder, "reviewer/request", "{{ gaol }}")

    assert "gaol" not in wavewright("check", "q.plan.yaml").out


def _places(checked: Answer) -> set[tuple[str, str]]:
    found = json.loads(checked.out)["diagnostics"]
    return {
        (Path(each["file"]).name, each["message"].removeprefix("the prompt cannot be rendered: "))
        for each in found
    }
