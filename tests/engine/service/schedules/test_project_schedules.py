"""Schedules of a project whose jobs would not begin are told when they are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from wavewright.config.settings import load_settings
from wavewright.engine.service.schedules.project_schedules import (
    ScheduleUnknown,
    named_schedule,
    project_schedules,
)

PLAN = """\
inputs: {top: 1, day: none}
steps:
  - id: say
    tool: summarize_content
    params: {content: "${inputs.top} ${inputs.day}"}
"""
TEMPLATE = """\
name: news
goal: Read the news
inputs_schema:
  type: object
  properties: {top: {type: integer}, year: {type: integer, minimum: 2026}}
available_tools: [{name: summarize_content}]
"""


def faults(project: Path, settings: str = "{}") -> dict[str, str]:
    """Return why schedules of a project begin nothing, by their names."""
    (project / "news.plan.yaml").write_text(PLAN)
    (project / "news.template.yaml").write_text(TEMPLATE)
    (project / "wavewright.yaml").write_text(settings)
    return {found.name: found.fault for found in project_schedules(load_settings(project, {}))}


@pytest.mark.parametrize(
    ("inputs", "fault"),
    [
        ("{tpo: 3}", "no input is called 'tpo'"),
        ("{top: 3, dya: monday}", "no input is called 'dya'"),
        ("{top: '${nowhere}'}", "its inputs cannot be computed: nothing is called 'nowhere' here"),
        ("{top: 3}", ""),
        ("{day: '${now()}'}", ""),
    ],
)
def test_inputs_that_a_plan_does_not_read_are_a_fault_of_a_schedule_of_the_settings(
    inputs: str, fault: str, tmp_path: Path
) -> None:
    schedule = f"schedules: {{morning: {{job: news.plan.yaml, every: 1h, inputs: {inputs}}}}}"

    assert faults(tmp_path, schedule) == {"morning": fault}


@pytest.mark.parametrize(
    ("inputs", "fault"),
    [
        ("{tpo: 3}", "no input is called 'tpo'"),
        ("{top: many}", "the input 'top' is 'many', but must be an integer"),
        ("{year: '${now().getFullYear()}'}", ""),
        ("{top: 3}", ""),
    ],
)
def test_inputs_that_a_goal_template_refuses_are_a_fault_of_the_schedule_of_a_job(
    inputs: str, fault: str, tmp_path: Path
) -> None:
    (tmp_path / "news.job.yaml").write_text(
        "name: news\ngoal_template: news.template.yaml\nplan: news.plan.yaml\n"
        f"inputs: {{top: 2}}\nschedule: {{every: 1h, inputs: {inputs}}}\n"
    )

    assert faults(tmp_path) == {"news.job.yaml": fault}


def test_a_file_that_cannot_be_read_is_a_fault_of_a_schedule_of_the_settings(
    tmp_path: Path,
) -> None:
    (tmp_path / "broken.yaml").write_text("steps: [\n")

    found = faults(tmp_path, "schedules: {morning: {job: broken.yaml, every: 1h}}")

    assert "did not find expected" in found["morning"]


def test_a_schedule_is_placed_where_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "news.job.yaml").write_text(
        "name: news\nplan: news.plan.yaml\nschedule: {every: 1h}\n"
    )
    faults(tmp_path, "schedules: {morning: {job: news.plan.yaml, every: 1h}}")

    found = project_schedules(load_settings(tmp_path, {}))

    assert [schedule.place for schedule in found] == [
        "schedules.morning of the settings",
        "news.job.yaml",
    ]


@pytest.mark.parametrize(
    ("step", "inputs", "fault"),
    [
        ("params: {text: '${inputs.word}'}", "{word: two}", ""),
        ("params: {text: hello}, needs_approval: true", "{}", ""),
        ("params: {txt: hello}", "{}", "its plan is refused: step 'say' lacks the argument 'text'"),
        (
            "params: {text: '${inputs.word}'}",
            "{word: 3}",
            "its plan is refused with these inputs: argument 'text' of 'say': an integer is given",
        ),
    ],
)
def test_a_plan_that_is_refused_is_a_fault_of_its_schedule(
    step: str, inputs: str, fault: str, tmp_path: Path
) -> None:
    (tmp_path / "talk.py").write_text("def say(text: str) -> str:\n    return text\n")
    (tmp_path / "talk.plan.yaml").write_text(
        f"inputs: {{word: one}}\nsteps: [{{id: say, tool: say, {step}}}]\n"
    )
    (tmp_path / "wavewright.yaml").write_text(
        "tools: [talk.py]\n"
        f"schedules: {{talk: {{job: talk.plan.yaml, every: 1h, inputs: {inputs}}}}}\n"
    )
    settings = load_settings(tmp_path, {})

    [schedule] = project_schedules(settings)

    assert schedule.fault[: len(fault) or None] == fault


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("news.json", '{"name": "news", "plan": "news.plan.yaml", "schedule": {"every": "1h"}}'),
        ("news.yaml", "{name: news, plan: news.plan.yaml, schedule: {every: 1h}}"),
        ("news.yaml", "name: news\nplan: news.plan.yaml\n'schedule' : {every: 1h}\n"),
        ("news.yaml", "? schedule\n: {every: 1h}\nname: news\nplan: news.plan.yaml\n"),
        ("news.yaml", "\ufeffschedule: {every: 1h}\nname: news\nplan: news.plan.yaml\n"),
        ("news.toml", "name = 'news'\nplan = 'news.plan.yaml'\n[ schedule ]\nevery = '1h'\n"),
        ("news.toml", "name = 'news'\nplan = 'news.plan.yaml'\nschedule.every = '1h'\n"),
    ],
)
def test_the_schedule_of_a_job_is_found_however_it_is_written(
    name: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")

    assert faults(tmp_path) == {name: ""}


@pytest.mark.parametrize(
    ("name", "text", "is_told"),
    [
        # Files that cannot be read.
        ("news.yaml", "name: news\nschedule: {every: 1h\n", True),
        ("news.toml", "name = 'news'\n[schedule]\nevery = 1h\n", True),
        ("news.json", '{"name": "news", "schedule": {"every": "1h"}', True),
        ("news.job.yaml", "{name: news, schedule: {every: 1h}", True),
        ("cron.yaml", "kind: CronJob\nspec:\n  schedule: '@daily'\n---\nkind: Service\n", False),
        ("cron.yaml", "{{- if .on }}\nspec:\n  schedule: {{ .cron }}\n{{- end }}\n", False),
        # Files with what is no schedule, or no job.
        ("other.yaml", "name: other\nschedule: [daily]\n", False),
        ("other.yaml", "name: other\nschedule: {interval: daily}\n", False),
        ("renovate.json", '{"name": "other", "schedule": ["before 4am"]}', False),
        ("news.yaml", "name: news\nschedule: {every: 1h}\npaln: news.plan.yaml\n", True),
        ("news.yaml", "plan: news.plan.yaml\nschedule: daily\n", True),
        ("news.yaml", "goal: Read the news\nschedule: {each: 1h}\n", True),
        ("news.job.yaml", "schedule: daily\n", True),
        ("jobs/news.yaml", "name: news\nschedule: daily\n", True),
        ("jobs/daily/news.yaml", "name: news\nschedule: daily\n", True),
        ("jobs/news.json", '{"name": "news", "schedule": ["daily"]}', True),
        ("jobs/news.toml", "name = 'news'\nschedule = 'daily'\n", True),
        ("jobs/news.yaml", "name: news\nschedule: {every: 1h}\n", True),
        ("jobs/news.yaml", "name: [news\nschedule: daily\n", True),
        ("jobs/news.yaml", "name: news\nspec: {schedule: daily}\n", False),
        ("other/jobs.yaml", "name: other\nschedule: daily\n", False),
    ],
)
def test_a_faulty_file_is_a_faulty_schedule_where_it_is_meant_as_a_job(
    name: str, text: str, *, is_told: bool, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)

    assert list(faults(tmp_path)) == [name] * is_told


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        (".", "jobs/news.job.yaml"),
        (".", "./jobs/news.job.yaml"),
        ("jobs", "news.job.yaml"),
        ("jobs", "../jobs/news.job.yaml"),
        ("jobs", "jobs/news.job.yaml"),
    ],
)
def test_the_schedule_of_a_job_is_named_as_listed_or_by_a_path_from_here(
    project: Path, monkeypatch: pytest.MonkeyPatch, folder: str, name: str
) -> None:
    (project / "jobs").mkdir()
    (project / "wavewright.yaml").write_text("{}")
    (project / "news.plan.yaml").write_text(PLAN)
    job = "plan: ../news.plan.yaml\ninputs: {top: 3}\nschedule: {every: 1h}\n"
    (project / "jobs" / "news.job.yaml").write_text(job)
    settings = load_settings(project, {})
    monkeypatch.chdir(project / folder)

    assert named_schedule(settings, name).name == "jobs/news.job.yaml"
    assert named_schedule(settings, str(project / "jobs" / "news.job.yaml")).fault == ""
    for unknown in ("", ".", "news", "/news.job.yaml"):
        with pytest.raises(ScheduleUnknown, match=f"there is no schedule {unknown!r}"):
            named_schedule(settings, unknown)
