"""Which plan a job of a goal template follows: the template says whether a planner is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from wavewright.config.settings import Settings, load_settings
from wavewright.engine.run.jobs.resolving import resolve_job_file
from wavewright.engine.run.project.used_packs import project_tools
from wavewright.planner.diagnostics.diagnostic import PlanError
from wavewright.planner.language.plan import Limits

TEMPLATE = """\
name: echoes
goal: Echo it.
available_tools: [{{name: echo}}]
{field}:
  steps: [{{id: a, tool: echo, params: {{text: hi}}}}]
  result: ${{steps.a}}
"""
TOOL = 'def echo(text: str) -> str:\n    """Echo."""\n    return text\n'


def project(folder: Path, field: str, job: str = "") -> Settings:
    """Return the settings of a project with the template and the job `it.job.yaml`."""
    (folder / "echoes.yaml").write_text(TEMPLATE.format(field=field))
    (folder / "it.job.yaml").write_text(f"goal_template: echoes.yaml\n{job}")
    return project_with_tool(folder)


def project_with_tool(folder: Path) -> Settings:
    """Return the settings of a project with the tool `echo`."""
    (folder / "tl.py").write_text(TOOL)
    (folder / "wavewright.yaml").write_text("tools: [{path: tl.py}]\n")
    return replace(load_settings(folder, {}), root=folder)


@pytest.mark.parametrize(
    ("field", "job", "is_final"),
    [
        ("plan", "", True),
        ("fallback_plan", "", False),
        ("plan", "plan: auto\n", False),
        ("fallback_plan", "plan: auto\n", False),
    ],
)
def test_the_template_or_the_job_says_whether_a_planner_may_replace_the_plan(
    tmp_path: Path, field: str, job: str, *, is_final: bool
) -> None:
    settings = project(tmp_path, field, job)

    order = resolve_job_file(tmp_path / "it.job.yaml", None, settings)

    assert order.draft is not None
    assert (order.draft.rung, order.draft.is_saved) == ("template", is_final)


def test_a_fault_of_a_fallback_plan_has_its_place(tmp_path: Path) -> None:
    settings = project(tmp_path, "fallback_plan")
    file = tmp_path / "echoes.yaml"
    file.write_text(file.read_text().replace("id: a,", "id: 1a,"))

    with pytest.raises(PlanError) as raised:
        resolve_job_file(tmp_path / "it.job.yaml", None, settings)

    assert {fault.pointer for fault in raised.value.diagnostics} == {"/fallback_plan/steps/0/id"}


def test_a_template_has_one_of_the_two_plans(tmp_path: Path) -> None:
    settings = project(tmp_path, "plan")
    file = tmp_path / "echoes.yaml"
    file.write_text(file.read_text() + "fallback_plan:\n  steps: []\n")

    with pytest.raises(PlanError, match="'plan', which every job follows, or 'fallback_plan'"):
        resolve_job_file(tmp_path / "it.job.yaml", None, settings)


@pytest.mark.parametrize(
    ("terms", "pointer"),
    [
        ("gates: [{id: said, on_tool: ecco, required: [text]}]", "/gates/0/on_tool"),
        ("rules: {analysis_tools: [ecco]}", "/rules/analysis_tools"),
        ("rules: {required_tools: [ecco]}", "/rules/required_tools"),
    ],
)
def test_a_gate_or_a_rule_of_a_tool_that_the_template_does_not_allow_is_refused(
    tmp_path: Path, terms: str, pointer: str
) -> None:
    settings = project(tmp_path, "plan")
    file = tmp_path / "echoes.yaml"
    file.write_text(f"{file.read_text()}{terms}\n")

    with pytest.raises(PlanError) as raised:
        resolve_job_file(tmp_path / "it.job.yaml", None, settings)

    [fault] = [fault for fault in raised.value.diagnostics if fault.code == "E202"]
    assert (fault.pointer, fault.hint) == (pointer, "did you mean 'echo'?")


@pytest.mark.parametrize(
    ("overrides", "code", "pointer"),
    [
        ("{rules: {required_tools: [ecco]}}", "E202", "/overrides/rules/required_tools"),
        (
            "{available_tools: [{name: echo}, {name: ecco}]}",
            "E201",
            "/overrides/available_tools/1/name",
        ),
    ],
)
def test_a_tool_that_is_not_there_is_refused_in_overrides_too(
    tmp_path: Path, overrides: str, code: str, pointer: str
) -> None:
    settings = project(tmp_path, "plan", f"overrides: {overrides}\n")

    with pytest.raises(PlanError) as raised:
        resolve_job_file(tmp_path / "it.job.yaml", None, settings)

    [fault] = raised.value.diagnostics
    assert (fault.code, fault.pointer) == (code, pointer)
    assert fault.hint == "did you mean 'echo'?"


GOAL = "goal: Echo it twice.\n"


@pytest.mark.parametrize(
    ("name", "job", "tools"),
    [
        ("it.job.yaml", GOAL, ["echo", "ask_model"]),
        ("it.yaml", GOAL, ["echo", "ask_model"]),
        ("jobs/it.yaml", GOAL + "inputs: {text: hi}\n", ["echo", "ask_model"]),
        ("it.yaml", GOAL + "plan: auto\n", ["echo", "ask_model"]),
        ("it.yaml", GOAL + "overrides: {available_tools: [{name: echo}]}\n", ["echo"]),
        (
            "it.yaml",
            GOAL + "tools: {web: {}}\n",
            ["echo", "fetch_page", "web.search_web", "ask_model"],
        ),
    ],
)
def test_a_goal_in_words_is_planned_with_the_tools_that_the_project_uses(
    tmp_path: Path, name: str, job: str, tools: list[str]
) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(job)

    order = resolve_job_file(file, None, project_with_tool(tmp_path))

    assert (order.draft, order.goal.text) == (None, "Echo it twice.")
    assert [tool.name for tool in order.goal.tools] == tools
    assert order.goal.limits == Limits()


def test_where_a_project_has_no_tools_a_goal_is_planned_with_those_of_every_pack(
    tmp_path: Path,
) -> None:
    tools = project_tools(replace(load_settings(tmp_path, {}), root=tmp_path))

    assert {"fetch_page", "fetch_stock_data", "ask_model"} <= set(tools)


@pytest.mark.parametrize("name", ["it.plan.yaml", "plans/it.yaml"])
def test_what_is_called_a_plan_needs_steps(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(GOAL)

    with pytest.raises(PlanError, match="the plan has no 'steps'"):
        resolve_job_file(file, None, load_settings(tmp_path, {}))


def test_a_goal_that_is_the_name_of_a_template_is_not_taken_as_words(tmp_path: Path) -> None:
    settings = replace(project(tmp_path, "plan"), templates=(tmp_path,))
    job = tmp_path / "it.job.yaml"
    plan = "plan: {steps: [{id: a, tool: echo, params: {text: hi}}]}\n"

    for text in ("goal: echoes\n", 'goal: " echoes "\n', f"goal: echoes\n{plan}"):
        job.write_text(text)
        with pytest.raises(PlanError, match="'echoes' is the name of a goal template") as caught:
            resolve_job_file(job, None, settings)
        assert "goal_template: echoes" in str(caught.value)
    for text in (f"goal: echoes\ngoal_template: echoes\n{plan}", f"goal: Echoes of it\n{plan}"):
        job.write_text(text)
        resolve_job_file(job, None, settings)
