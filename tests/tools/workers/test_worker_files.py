"""Workers that a project declares in files: what they become, and what is said of faulty ones."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tools.scripted_models import project
from wavewright.engine.run.project.tools import (
    all_tools,
    signatures_to_check,
    tools_of_goal,
    tools_of_plan,
)
from wavewright.planner.language.goals import AvailableTool, Goal
from wavewright.planner.language.plan import Plan
from wavewright.tools import ToolDefinitionError
from wavewright.tools.workers import load_workers, make_services

SORT = """\
version: 1
name: sort_letter
description: Say what a letter is about.
prompt: workers/sort_letter
token_share: 0.1
input_schema:
  type: object
  required: [letter]
  properties:
    letter: {type: string}
output_schema:
  type: object
  required: [topic]
  properties:
    topic: {enum: [bill, complaint]}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write(tmp_path, "sort_letter.yaml", SORT)
    prompt = tmp_path / "prompts" / "workers" / "sort_letter.md.j2"
    prompt.parent.mkdir(parents=True)
    prompt.write_text("Sort this letter.\n{{ inputs.letter }}\n")
    return tmp_path


def write(home: Path, name: str, text: str) -> Path:
    file = home / "config" / "workers" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def goal_with(*names: str) -> Goal:
    return Goal(
        name="letters",
        job="letters",
        text="Sort letters.",
        inputs={},
        tools=tuple(AvailableTool(name=name) for name in names),
    )


def test_a_file_is_a_tool_whose_signature_needs_no_model(home: Path) -> None:
    signature = all_tools(project(home, model=None))["sort_letter"].signature

    assert signature.description == "Say what a letter is about."
    assert signature.effects == {"read", "egress"}
    assert signature.only_reads
    assert not signature.untrusted_output
    assert signature.expected_tokens == 5000
    assert signature.cache_for is None


def test_every_way_to_the_tools_finds_it(home: Path) -> None:
    settings = project(home)
    plan = Plan.model_validate({"steps": [{"id": "sort", "tool": "sort_letter"}]})

    assert "sort_letter" in tools_of_goal(goal_with("sort_letter"), settings)
    assert "sort_letter" in tools_of_goal(
        goal_with("sort_letter"), settings, make_services(settings)
    )
    assert "sort_letter" in tools_of_plan(plan, settings)
    assert "sort_letter" in signatures_to_check(plan, goal_with("agent"), settings)


def test_a_changed_prompt_or_declaration_is_another_version(home: Path) -> None:
    settings = project(home)
    first = all_tools(settings)["sort_letter"].signature.version

    (home / "prompts" / "workers" / "sort_letter.md.j2").write_text(
        "Sort it well.\n{{ inputs.letter }}\n"
    )
    second = all_tools(settings)["sort_letter"].signature.version
    write(home, "sort_letter.yaml", SORT + "thinking_level: high\n")
    third = all_tools(settings)["sort_letter"].signature.version

    assert len({first, second, third}) == 3
    assert all_tools(settings)["sort_letter"].signature.version == third


def test_a_prompt_of_the_projects_own_changes_a_packs_worker(home: Path) -> None:
    settings = project(home)
    before = all_tools(settings)["summarize_content"].signature.version
    own = home / "prompts" / "text" / "summarize_content.md.j2"
    own.parent.mkdir()
    own.write_text("In one word.\n{{ inputs.content }}\n")

    assert all_tools(settings)["summarize_content"].signature.version != before


def test_what_a_prompt_includes_belongs_to_its_version(home: Path) -> None:
    prompts = home / "prompts" / "workers"
    (prompts / "sort_letter.md.j2").write_text(
        "{% include 'workers/house.md.j2' %}\n{{ inputs.letter }}\n"
    )
    (prompts / "house.md.j2").write_text("{% include 'workers/sort_letter.md.j2' %} Be brief.\n")
    before = all_tools(project(home))["sort_letter"].signature.version

    (prompts / "house.md.j2").write_text("Be thorough.\n")

    assert all_tools(project(home))["sort_letter"].signature.version != before


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        pytest.param(SORT.replace("prompt:", "promt:"), 4, "'promt'", id="unknown field"),
        pytest.param(SORT.replace("0.1", "3"), 5, "token_share", id="share"),
        pytest.param(SORT.replace("name: sort_letter", "name: sort letter"), 2, "name", id="name"),
        pytest.param(
            SORT.replace("type: object\n  required: [letter]", "type: strnig"),
            7,
            "JSON Schema",
            id="schema",
        ),
        pytest.param(SORT + "longer_inputs: parts\n", 1, "parts_of", id="parts of what"),
        pytest.param(
            SORT + "text_field: words\n", 1, "no field of 'output_schema'", id="text field"
        ),
        pytest.param(SORT + "forced: {topic: love}\n", 1, "'forced' does not fit", id="forced"),
        pytest.param(
            SORT + "writes: [topik]\n", 1, "'writes' names 'topik'", id="writes what is not"
        ),
        pytest.param(
            SORT.replace(
                "properties:\n    topic", "properties:\n    method: {enum: [model]}\n    topic"
            ),
            1,
            "'method' of 'output_schema' does not allow 'agent'",
            id="word for how it was made",
        ),
        pytest.param(SORT + "name: again\n", 16, "name", id="key twice"),
        pytest.param("{", 1, "", id="no document"),
    ],
)
def test_a_faulty_file_is_told_with_its_line_and_a_mend(
    home: Path, text: str, line: int, message: str
) -> None:
    file = write(home, "faulty.yaml", text)

    with pytest.raises(ToolDefinitionError) as refused:
        all_tools(project(home))

    assert str(refused.value).startswith(f"{file}:{line}: ")
    assert message in str(refused.value)
    assert refused.value.hint


TWO_FIELDS = SORT.replace("[topic]", "[topic, why]") + "    why: {type: string}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            SORT + "longer_inputs: parts\nparts_of: letter\n",
            "'parts' needs 'text_field'",
            id="parts of JSON",
        ),
        pytest.param(SORT + "writes: [topic]\n", "'writes' needs a draft of code", id="no draft"),
        pytest.param(
            TWO_FIELDS + "text_field: why\n", "requires 'topic' too", id="a field beside the text"
        ),
        pytest.param(SORT.replace("workers/sort", "mine/x"), "there is no prompt", id="prompt"),
        pytest.param(SORT.partition("output_schema")[0], "must say `type: object`", id="output"),
    ],
)
def test_what_could_never_work_is_told_with_its_file_before_anything_is_asked(
    home: Path, text: str, message: str
) -> None:
    file = write(home, "sort_letter.yaml", text)

    with pytest.raises(ToolDefinitionError) as refused:
        all_tools(project(home))

    assert str(refused.value).startswith(f"{file}: worker 'sort_letter': ")
    assert message in str(refused.value).replace("longer_inputs: ", "")
    assert refused.value.hint


def test_a_missing_prompt_is_told_with_where_it_was_looked_for(home: Path) -> None:
    write(
        home,
        "other.yaml",
        SORT.replace("name: sort_letter", "name: other").replace("workers/sort", "mine/x"),
    )

    with pytest.raises(
        ToolDefinitionError, match=r"worker 'other': there is no prompt 'mine/x_letter'"
    ) as refused:
        all_tools(project(home))

    assert "mine/x_letter.md.j2" in (refused.value.hint or "")


def test_a_misspelt_prompt_is_answered_with_the_one_that_was_meant(home: Path) -> None:
    write(home, "sort_letter.yaml", SORT.replace("workers/sort_letter", "workers/sort_leter"))

    with pytest.raises(ToolDefinitionError) as refused:
        all_tools(project(home))

    assert refused.value.hint == "did you mean 'workers/sort_letter'?"


def test_an_output_that_is_no_object_is_refused(home: Path) -> None:
    write(home, "sort_letter.yaml", SORT.partition("output_schema")[0])

    with pytest.raises(ToolDefinitionError, match="'output_schema' must say `type: object`"):
        all_tools(project(home))


def test_a_freshness_field_that_the_output_has_not_is_refused(home: Path) -> None:
    write(home, "sort_letter.yaml", SORT + "freshness_field: as_of\n")

    with pytest.raises(
        ToolDefinitionError, match="freshness_field 'as_of' is no field of its output"
    ):
        all_tools(project(home))


def test_two_of_one_name_are_refused_with_both_files(home: Path) -> None:
    other = write(home, "zzz.yaml", SORT)

    with pytest.raises(
        ToolDefinitionError, match=f"{other}: worker 'sort_letter' is declared twice"
    ) as refused:
        load_workers([home / "config" / "workers"])

    assert str(home / "config" / "workers" / "sort_letter.yaml") in (refused.value.hint or "")


def test_a_function_and_a_worker_of_one_name_are_refused(home: Path) -> None:
    (home / "letters.py").write_text("def sort_letter(letter: str) -> str:\n    return letter\n")
    settings = replace(project(home), tools=("letters.py",))

    with pytest.raises(ToolDefinitionError, match="'sort_letter' is a function and a worker"):
        all_tools(settings)


def test_places_may_be_files_and_a_folder_that_is_not_there_holds_none(home: Path) -> None:
    file = home / "config" / "workers" / "sort_letter.yaml"

    assert [worker.spec.name for worker in load_workers([file, home / "nowhere"])] == [
        "sort_letter"
    ]
    with pytest.raises(ToolDefinitionError, match="there is no file"):
        load_workers([home / "missing.yaml"])


def test_listing_workers_loads_no_library_of_models_and_no_template_engine(home: Path) -> None:
    code = (
        "import sys; from pathlib import Path;"
        "from wavewright.config.settings import load_settings;"
        "from wavewright.engine.run.project.tools import all_tools;"
        f"tools = all_tools(load_settings(Path({str(home)!r}), {{'WAVEWRIGHT_MODEL': 'openai:x'}}));"
        "assert {'sort_letter', 'summarize_content', 'agent'} <= set(tools);"
        "heavy = {'pydantic_ai', 'openai', 'jinja2', 'httpx2', 'stamina', 'genai_prices'} & set(sys.modules);"
        "assert not heavy, heavy"
    )

    subprocess.run([sys.executable, "-c", code], check=True)
