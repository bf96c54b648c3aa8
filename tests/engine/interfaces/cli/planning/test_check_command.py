"""`wavewright check`: exit codes, goals, tools, model answers and formats."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import cast

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.engine.conftest import REPOSITORY, CommandLine
from tests.engine.normalized_output import worded
from tests.support.note_worker import NOTE_WORKER
from wavewright.planner.types import JsonObject
from wavewright.tools import pack_templates

SOUND = '{"steps": [{"id": "a", "tool": "look", "params": {"at": "sky"}}]}'
UNSOUND = '{"steps": [{"id": "a", "tool": "look", "params": {"att": "sky"}}]}'
SIGNATURES = """[{
  "name": "look", "description": "Look at a thing.", "effects": ["read"],
  "input_schema": {"type": "object", "required": ["at"], "properties": {"at": {"type": "string"}},
                   "additionalProperties": false},
  "output_schema": {"type": "string"}
}]"""


class Piped:
    """Standard input with these bytes in it."""

    def __init__(self, content: str) -> None:
        self.buffer = io.BytesIO(content.encode())

    def isatty(self) -> bool:
        return False


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools.json").write_text(SIGNATURES)
    (tmp_path / "sound.json").write_text(SOUND)
    (tmp_path / "unsound.json").write_text(UNSOUND)
    return tmp_path


def as_json(text: str) -> JsonObject:
    return cast("JsonObject", json.loads(text))


def codes(text: str) -> list[str]:
    found = as_json(text)["diagnostics"]
    assert isinstance(found, list)
    return [str(one["code"]) for one in found if isinstance(one, dict)]


def chain(length: int) -> str:
    steps = [
        {
            "id": f"s{number}",
            "tool": "look",
            "params": {"at": f"${{steps.s{number - 1}}}" if number else "sky"},
        }
        for number in range(length)
    ]
    return json.dumps({"steps": steps})


def test_a_sound_plan_is_told_in_a_line_and_exits_0(wavewright: CommandLine, folder: Path) -> None:
    checked = wavewright("check", folder / "sound.json", "--tools", folder / "tools.json")

    assert (checked.code, checked.err) == (0, "")
    assert checked.out == f"{folder / 'sound.json'}: valid: 1 step in 1 wave, max parallelism 1\n"


@pytest.mark.parametrize("output_format", ["text", "json", "sarif"])
def test_faults_are_printed_in_every_format_and_exit_1(
    wavewright: CommandLine, folder: Path, snapshot: SnapshotAssertion, output_format: str
) -> None:
    checked = wavewright(
        "check", "unsound.json", "--tools", "tools.json", "--format", output_format
    )

    assert folder.is_dir()
    assert checked.code == 1
    assert worded(checked, folder) == snapshot


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param(
            "job.yaml",
            "name: j\nfoo: 1\ninputs: {a: .nan, b: [1, .inf]}\noverrides: {limits: {max_steps: -1}}\n"
            "plan:\n  steps: [{id: s, tool: nobody, zap: 1, timeout: .nan}]\n  result: ${steps.z}\n",
            id="yaml",
        ),
        pytest.param(
            "job.json",
            '{"name": "j", "foo": 1, "inputs": {"a": 1e999, "b": [1, -1e999]},\n"overrides":'
            ' {"limits": {"max_steps": -1}},\n"plan": {"steps": [{"id": "s", "tool": "nobody", "zap": 1,'
            ' "timeout": 1e999}], "result": "${steps.z}"}}',
            id="json",
        ),
    ],
)
def test_values_that_are_none_are_told_together_with_all_other_faults(
    wavewright: CommandLine, folder: Path, name: str, content: str
) -> None:
    (folder / name).write_text(content)

    checked = wavewright("check", name)

    assert checked.code == 1
    assert sorted(re.findall(r"error\[(E\d+)\]", checked.out)) == sorted(
        ["E104", "E112", "E112", "E107", "E201", "E104", "E112", "E301"]
    )


def test_a_plan_is_read_from_standard_input(
    wavewright: CommandLine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Piped(UNSOUND))

    checked = wavewright("check", "-", "--tools", folder / "tools.json")

    assert checked.code == 1
    assert "--> <stdin>:1:" in checked.out


@pytest.mark.parametrize(
    "goal", ["word_ranking", "config/goals/word_ranking.yaml", "plans/words.job.yaml"]
)
def test_a_goal_is_a_template_by_name_or_file_or_a_job(
    wavewright: CommandLine, project: Path, goal: str
) -> None:
    plan = project / "plan.yaml"
    plan.write_text(
        "inputs: {folder: notes, top: 2}\nsteps: [{id: a, tool: list_notes, params: {folder: notes}}]\n"
    )

    alone = wavewright("check", plan)
    held = wavewright("check", plan, "--goal", goal, "--format", "json")
    bound = as_json(
        wavewright("check", "plans/words.plan.yaml", "--goal", goal, "--format", "json").out
    )

    assert alone.code == 0
    assert held.code == 0
    assert isinstance(bound["plan"], dict)
    assert [gate["id"] for gate in cast("list[JsonObject]", bound["plan"]["gates"])] == [
        "has_text__notes"
    ]


def test_a_goal_forbids_what_it_does_not_name(wavewright: CommandLine, project: Path) -> None:
    plan = project / "plan.yaml"
    plan.write_text(
        "inputs: {top: 3}\nsteps: [{id: a, tool: equities.search_web, params: {query: words}}]\n"
    )

    alone = wavewright("check", plan)
    held = wavewright("check", plan, "--goal", "word_ranking", "--format", "json")

    assert alone.code == 0
    assert held.code == 1
    assert "E202" in codes(held.out)


def test_a_plan_of_its_own_gives_its_agents_the_tools_that_it_names_for_them(
    wavewright: CommandLine, project: Path
) -> None:
    plan = project / "plan.yaml"
    step = "steps: [{{id: a, tool: agent, params: {{task: Look., tools: [list_notes, {}]}}}}]\n"

    plan.write_text(step.format("read_note"))
    sound = wavewright("check", plan)
    run = wavewright("run", plan)
    plan.write_text(step.format("red_note"))
    misspelt = wavewright("check", plan)

    assert sound.code == 0
    assert "may not call" not in run.out + run.err
    assert "calls 'agent': it needs a model, and none is configured" in run.err
    assert misspelt.code == 1
    assert (
        "argument 'tools[1]' of 'agent' is 'red_note', but must be one of 'list_notes'"
        in misspelt.out
    )


def test_a_shipped_template_is_known_by_its_name(wavewright: CommandLine, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(
        '{"steps": [{"id": "p", "tool": "fetch_stock_data", "params": {"code": "AAPL"}}]}'
    )

    checked = wavewright("check", plan, "--goal", "stock_analysis", "--format", "json")

    assert checked.code == 1
    assert codes(checked.out) == ["E505", "E506"]


def test_inputs_of_the_plan_that_do_not_fit_the_goal_are_faults_of_the_plan(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "inputs: {stocks: AAPL}\nsteps: [{id: p, tool: fetch_stock_data, params: {code: AAPL}}]\n"
    )

    checked = wavewright("check", "plan.yaml", "--goal", "stock_analysis")

    assert checked.code == 1
    assert "--> plan.yaml:1:" in checked.out


def test_a_faulty_goal_is_misuse_and_no_fault_of_the_plan(
    wavewright: CommandLine, project: Path
) -> None:
    (project / "goal.yaml").write_text("version: 1\nname: g\navailable_tools: 3\n")

    checked = wavewright("check", "plans/words.plan.yaml", "--goal", "goal.yaml")

    assert checked.code == 2
    assert checked.out == ""
    assert "--> goal.yaml:3:" in checked.err


@pytest.mark.parametrize(
    "content", ["[{}]", "{", '{"name": "look"}', '[{"name": "look", "input_schema": 3}]']
)
def test_a_faulty_list_of_tools_is_misuse_told_at_its_place(
    wavewright: CommandLine, folder: Path, content: str
) -> None:
    (folder / "tools.json").write_text(content)

    checked = wavewright("check", "sound.json", "--tools", "tools.json")

    assert checked.code == 2
    assert checked.out == ""
    assert "--> tools.json:1:" in checked.err


def test_the_tools_that_the_command_lists_are_what_check_reads(
    wavewright: CommandLine, project: Path
) -> None:
    (project / "tools.json").write_text(wavewright("tools", "--format", "json").out)
    (project / "wavewright.yaml").write_text("tools: []\n")

    without = wavewright("check", "plans/words.plan.yaml")
    given = wavewright("check", "plans/words.plan.yaml", "--tools", "tools.json")

    assert without.code == 1
    assert given.code == 0, given.out


def test_a_models_answer_is_read_through_the_tolerant_reader(
    wavewright: CommandLine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = f"Here is the plan:\n```json\n{SOUND}\n```\n"
    monkeypatch.setattr("sys.stdin", Piped(answer))

    checked = wavewright(
        "check", "-", "--from-model", "--tools", folder / "tools.json", "--format", "json"
    )
    told = as_json(checked.out)

    assert checked.code == 0
    assert set(told) == {"plan", "repairs", "diagnostics"}
    assert isinstance(told["plan"], dict)
    assert told["plan"]["steps"] is not None
    assert told["repairs"]
    assert told["diagnostics"] == []


def test_a_models_answer_without_a_plan_gives_null_and_its_faults(
    wavewright: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Piped("I am sorry, I cannot do that."))

    checked = wavewright("check", "-", "--from-model", "--format", "json")
    told = as_json(checked.out)

    assert checked.code == 1
    assert told["plan"] is None
    assert codes(checked.out) == ["E114"]


@pytest.mark.parametrize(
    ("content", "flags", "code"),
    [
        pytest.param(chain(11), (), "E405", id="waves"),
        pytest.param(chain(51), ("--max-waves", "60"), "E404", id="steps"),
    ],
)
def test_a_model_s_plan_is_held_to_narrower_limits_than_a_person_s(
    wavewright: CommandLine, folder: Path, content: str, flags: tuple[str, ...], code: str
) -> None:
    (folder / "plan.json").write_text(content)
    arguments = ("check", "plan.json", "--tools", "tools.json", "-f", "json", *flags)

    of_person = wavewright(*arguments)
    of_model = wavewright(*arguments, "--from-model")

    assert (of_person.code, of_model.code) == (0, 1)
    assert codes(of_model.out) == [code]


@pytest.mark.parametrize(
    ("content", "flags", "code"),
    [
        pytest.param(chain(4), ("--max-steps", "3"), "E404", id="steps"),
        pytest.param(chain(4), ("--max-waves", "3"), "E405", id="waves"),
        pytest.param(chain(4), ("--max-bytes", "60"), "E108", id="bytes"),
        pytest.param(chain(4), ("--max-depth", "3"), "E109", id="depth"),
    ],
)
@pytest.mark.parametrize("reader", [(), ("--from-model",)])
def test_limits_are_what_the_flags_say(
    wavewright: CommandLine,
    folder: Path,
    content: str,
    flags: tuple[str, ...],
    code: str,
    reader: tuple[str, ...],
) -> None:
    (folder / "plan.json").write_text(content)

    checked = wavewright(
        "check", "plan.json", "--tools", "tools.json", "-f", "json", *reader, *flags
    )

    assert checked.code == 1
    assert code in codes(checked.out)


def test_flags_raise_limits_as_well(wavewright: CommandLine, folder: Path) -> None:
    (folder / "plan.json").write_text(chain(60))

    checked = wavewright(
        "check",
        "plan.json",
        "--tools",
        "tools.json",
        "--from-model",
        "--max-steps",
        "60",
        "--max-waves",
        "60",
    )

    assert checked.code == 0, checked.out


def test_a_models_answer_is_limited_to_256_kib_and_a_persons_plan_is_not(
    wavewright: CommandLine, folder: Path
) -> None:
    (folder / "plan.json").write_text(SOUND + " " * 256 * 1024)

    answer = wavewright("check", "plan.json", "--tools", "tools.json", "--from-model", "-f", "json")
    written = wavewright("check", "plan.json", "--tools", "tools.json")

    assert codes(answer.out) == ["E108"]
    assert written.code == 0


@pytest.mark.parametrize("name", ["stocks", "stocks_stale", "synthetic"])
def test_the_plan_of_every_example_job_is_sound(wavewright: CommandLine, name: str) -> None:
    checked = wavewright("check", REPOSITORY / "plans" / f"{name}.job.yaml")

    assert checked.code == 0, checked.out


def test_faults_of_a_job_are_told_in_the_format_that_was_asked_for(
    wavewright: CommandLine, project: Path
) -> None:
    (project / "job.yaml").write_text("version: 1\nname: words\ngoal_templat: word_ranking\n")

    checked = wavewright("check", "job.yaml", "--format", "json")

    assert checked.code == 1
    assert codes(checked.out) == ["E104"]
    assert checked.err == ""


def test_a_job_without_a_plan_has_that_fault(wavewright: CommandLine, project: Path) -> None:
    (project / "job.yaml").write_text("version: 1\nname: words\ngoal_template: word_ranking\n")

    checked = wavewright("check", "job.yaml", "--format", "json")

    assert checked.code == 1
    assert codes(checked.out) == ["E114"]


def test_a_job_that_a_model_plans_is_no_fault_of_the_project(
    wavewright: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAVEWRIGHT_MODEL", "openai-chat:never-asked")
    (project / "job.yaml").write_text(
        "version: 1\nname: words\ngoal_template: word_ranking\ninputs: {top: 5}\n"
    )

    checked = wavewright("check", "job.yaml")

    assert (checked.code, checked.out) == (0, "job.yaml: valid: a job whose plan a model makes\n")


def test_a_goal_template_is_checked_before_there_is_a_job(
    wavewright: CommandLine, project: Path
) -> None:
    template = project / "config" / "goals" / "word_ranking.yaml"
    sound = wavewright("check", template)
    template.write_text(template.read_text().replace("on_tool: read_note", "on_tool: read_not"))

    faulty = wavewright("check", template)

    assert sound.code == 0, sound.out
    assert "valid: a goal template without a plan" in sound.out
    assert faulty.code == 1
    assert "'read_not'" in faulty.out


def test_a_template_that_names_a_file_for_its_plan_is_told_to_hold_it(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "g.yaml").write_text(
        "version: 1\nname: g\ngoal: Do it.\navailable_tools: []\nplan: plans/absent.plan.yaml\n"
    )

    answer = wavewright("check", "g.yaml")

    assert "error[E106]: 'plan' should be an object" in answer.out
    assert "write what the file holds in place of its name: no file is read here" in answer.out


def test_an_error_of_a_templates_gate_is_told_once_and_at_the_gate(
    wavewright: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAVEWRIGHT_MODEL", "openai-chat:never-asked")
    template = project / "config" / "goals" / "word_ranking.yaml"
    text = template.read_text()
    (project / "job.yaml").write_text("version: 1\nname: words\ngoal_template: word_ranking\n")
    template.write_text(
        text.replace(
            "gates:\n", "gates:\n  - {id: x, on_tool: read_note, check: output.tex == ''}\n"
        )
    )
    line = text.splitlines().index("gates:") + 2

    alone = wavewright("check", template)
    template.write_text(
        f"{template.read_text()}\nplan:\n  steps:\n    - {{id: n, tool: read_note, params: {{path: a}}}}\n"
    )
    with_plan = wavewright("check", template)
    of_job = wavewright("check", "job.yaml")

    for checked in (alone, with_plan):
        assert checked.out.count("'tex'") == 1, checked.out
        assert f"word_ranking.yaml:{line}:" in checked.out
    assert (alone.code, of_job.code) == (1, 1)


def test_the_shipped_template_and_its_own_plan_are_sound(wavewright: CommandLine) -> None:
    shipped = pack_templates()["stock_analysis"]

    checked = wavewright("check", shipped)

    assert checked.code == 0, checked.out
    assert "4 steps in 2 waves" in checked.out


def test_a_fault_of_shape_hides_no_fault_of_the_rest_of_the_plan(
    wavewright: CommandLine, folder: Path
) -> None:
    (folder / "plan.yaml").write_text(
        "steps:\n"
        "  - {id: a, tool: look, params: {at: sky}, colour: red}\n"
        "  - {id: b, tool: lok, params: {at: '${steps.aa}'}}\n"
    )

    checked = wavewright("check", "plan.yaml", "--tools", "tools.json", "--format", "json")

    assert codes(checked.out) == ["E104", "E201", "E301"]


JOB_WITH_FAULTS = (
    "version: 1\ngoal_template: word_ranking\npriority: 3\noverrides: {limits: {max_step: 3}}\n"
    "inputs: {folder: notes, top: 5}\ntools: {equitis: {}}\nplan: plan.yaml\n"
)
PLAN_WITH_FAULTS = (
    "steps:\n"
    "  - {id: files, tool: list_notes, params: {folder: '${inputs.folde}'}, colour: red}\n"
    "  - {id: notes, tool: read_not, params: {path: '${steps.file}'}}\n"
)


@pytest.mark.parametrize("command", ["check", "run", "dry-run"])
def test_the_faults_of_a_job_and_of_its_plan_are_told_at_once(
    wavewright: CommandLine, project: Path, command: str
) -> None:
    (project / "job.yaml").write_text(JOB_WITH_FAULTS)
    (project / "plan.yaml").write_text(PLAN_WITH_FAULTS)

    answer = wavewright(command, "job.yaml")
    told = answer.out + answer.err

    assert answer.code == 1
    for expected in (
        "'priority' is no field of the job\n --> job.yaml:3:1",
        "'max_step' is no field of 'limits'\n --> job.yaml:4:22",
        "there is no pack 'equitis'\n --> job.yaml:6:18",
        "reads the input 'folde', which does not exist\n --> plan.yaml:2:",
        "'colour' is no field of step 'files'\n --> plan.yaml:2:",
        "calls 'read_not', and there is no such tool\n --> plan.yaml:3:",
        "reads 'file', which no step defines\n --> plan.yaml:3:",
    ):
        assert expected in told
    assert told.count("error[") == 7


def test_programs_are_told_which_file_each_fault_is_in(
    wavewright: CommandLine, project: Path
) -> None:
    (project / "job.yaml").write_text(JOB_WITH_FAULTS)
    (project / "plan.yaml").write_text(PLAN_WITH_FAULTS)

    found = cast(
        "list[JsonObject]",
        as_json(wavewright("check", "job.yaml", "-f", "json").out)["diagnostics"],
    )
    sarif = wavewright("check", "job.yaml", "-f", "sarif").out

    assert [one["file"] for one in found] == ["job.yaml"] * 3 + ["plan.yaml"] * 4
    assert sarif.count('"uri": "plan.yaml"') == 4


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(
            "goal_templat: word_ranking\ninputs: {top: 5}\nplan: plans/words.plan.yaml\n",
            id="template",
        ),
        pytest.param(
            "goal_template: word_ranking\ninput: {top: 5}\nplan: plans/words.plan.yaml\n",
            id="inputs",
        ),
        pytest.param(
            "goal_template: word_ranking\ninputs: 5\nplan: plans/words.plan.yaml\n",
            id="inputs_type",
        ),
        pytest.param(
            "goal_template: word_rankin\ninputs: {top: 5}\nplan: plans/words.plan.yaml\n",
            id="no_template",
        ),
        pytest.param(
            "goal_template: word_ranking\ninputs: {top: 5}\nplan: plans/word.plan.yaml\n",
            id="no_plan",
        ),
    ],
)
def test_one_fault_of_a_job_brings_none_that_follow(
    wavewright: CommandLine, project: Path, job: str
) -> None:
    (project / "words.job.yaml").write_text(job)

    answer = wavewright("check", "words.job.yaml")

    assert answer.code != 0
    assert (answer.out + answer.err).count("error[") == 1


def test_a_job_without_a_name_has_that_of_its_file(wavewright: CommandLine, project: Path) -> None:
    (project / "often.job.yaml").write_text(
        "goal_template: word_ranking\ninputs: {folder: notes, top: 5}\nplan: plans/words.plan.yaml\n"
    )

    assert wavewright("check", "often.job.yaml").code == 0
    assert wavewright("dry-run", "often.job.yaml").out.startswith("often")


def test_settings_are_checked_as_settings(wavewright: CommandLine, project: Path) -> None:
    sound = wavewright("check", "wavewright.yaml")
    (project / "wavewright.yaml").write_text("tools: [tools/notes.py]\nconcurency: 3\njournal: 3\n")
    faulty = wavewright("check", "wavewright.yaml")
    for_programs = wavewright("check", "wavewright.yaml", "--format", "json")

    assert (sound.code, sound.out) == (0, "wavewright.yaml: valid: settings\n")
    assert (faulty.code, faulty.err) == (1, "")
    assert "'concurency' is no field of the settings file\n --> wavewright.yaml:2:1" in faulty.out
    assert "wavewright.yaml:3:10" in faulty.out
    assert codes(for_programs.out) == ["E104", "E106"]


def test_tools_of_the_settings_that_cannot_be_had_are_faults_at_their_place(
    wavewright: CommandLine, project: Path
) -> None:
    (project / "wavewright.yaml").write_text(
        "concurrency: 3\ntools: [tools/nots.py]\nladders: {planner: 3}\n"
    )

    faulty = wavewright("check", "wavewright.yaml")

    assert faulty.code == 1
    assert "there is no file or folder 'tools/nots.py'\n --> wavewright.yaml:2:8" in faulty.out
    assert "wavewright.yaml:3:" in faulty.out


def test_a_schedule_that_begins_nothing_is_a_fault_of_the_settings_or_of_its_job(
    wavewright: CommandLine, project: Path
) -> None:
    job = "goal_template: word_ranking\ninputs: {folder: notes, top: 5}\nplan: plans/words.plan.yaml\n"
    (project / "often.job.yaml").write_text(f"{job}schedule: {{every: 1h, inputs: {{tpo: 3}}}}\n")
    (project / "wavewright.yaml").write_text(
        "tools: [tools/notes.py]\nschedules:\n"
        "  gone: {job: nowhere.yaml, every: 1h}\n"
        "  often: {job: often.job.yaml, every: 1h, inputs: {top: 3}}\n"
    )

    of_job = wavewright("check", "often.job.yaml")
    of_settings = wavewright("check", "wavewright.yaml")

    assert "no input is called 'tpo'\n --> often.job.yaml:4:31" in of_job.out
    assert "'gone' begins nothing: there is no file 'nowhere.yaml'" in of_settings.out
    assert (of_settings.code, of_settings.out.count("error[")) == (1, 1)


def test_inputs_of_a_schedule_with_which_its_plan_is_refused_are_a_fault_of_it(
    wavewright: CommandLine, project: Path
) -> None:
    read = "version: 1\nsteps: [{id: say, tool: read_note, params: {path: '${inputs.note}'}}]\n"
    (project / "plans" / "read.plan.yaml").write_text(f"inputs: {{note: notes/tea.txt}}\n{read}")
    job = "name: read\ngoal: Read a note\nplan: plans/read.plan.yaml\n"
    (project / "read.job.yaml").write_text(f"{job}schedule: {{every: 1h, inputs: {{note: [3]}}}}\n")
    (project / "wavewright.yaml").write_text(
        "tools: [tools/notes.py]\nschedules:\n"
        "  listed: {job: plans/read.plan.yaml, every: 1h, inputs: {note: []}}\n"
        "  named: {job: plans/read.plan.yaml, every: 1h, inputs: {note: notes/tea.txt}}\n"
    )

    of_job = wavewright("check", "read.job.yaml")
    of_settings = wavewright("check", "wavewright.yaml")

    refused = "its plan is refused with these inputs: argument 'path' of 'read_note'"
    assert refused in of_job.out
    assert " --> read.job.yaml:4:31" in of_job.out
    assert f"schedule 'listed' begins nothing: {refused}" in of_settings.out
    assert (of_settings.code, of_settings.out.count("error[")) == (1, 1)


def test_a_worker_with_a_misspelt_field_is_still_a_worker(
    wavewright: CommandLine, project: Path
) -> None:
    worker = project / "config" / "workers" / "sort.yaml"
    worker.parent.mkdir(parents=True, exist_ok=True)
    worker.write_text(
        "name: sort\ndescription: Sort words.\npromt: workers/sort\n"
        "input_schema: {type: object}\noutput_schema: {type: object}\n"
    )

    faulty = wavewright("check", "config/workers/sort.yaml")

    assert "sort.yaml:3:1" in faulty.out
    assert "did you mean 'prompt'?" in faulty.out
    assert "goal_template" not in faulty.out


def test_a_worker_is_checked_as_a_worker_with_its_prompt(
    wavewright: CommandLine, project: Path
) -> None:
    worker, prompt = (
        project / "config" / "workers" / "note.yaml",
        project / "prompts" / "workers" / "note.md.j2",
    )
    for file in (worker, prompt):
        file.parent.mkdir(exist_ok=True)
    prompt.write_text("Write about {{ inputs.word }}.\n")
    worker.write_text(NOTE_WORKER)
    sound = wavewright("check", "config/workers/note.yaml")
    prompt.write_text("Write about {{ inputs.wrod }}.\n")
    unrendered = wavewright("check", "config/workers/note.yaml")
    worker.write_text(f"{NOTE_WORKER}colour: red\ntimeout: soon\n")
    faulty = wavewright("check", "config/workers/note.yaml")

    assert (sound.code, sound.out) == (0, "config/workers/note.yaml: valid: a worker\n")
    assert unrendered.code == 1
    assert "error[E207]" in unrendered.out
    assert "config/workers/note.yaml:3:9" in unrendered.out
    assert faulty.code == 1
    assert (
        "'colour' is no field of the worker spec\n --> config/workers/note.yaml:6:1" in faulty.out
    )
    assert "config/workers/note.yaml:7:10" in faulty.out


@pytest.fixture
def plan_that_asks_twice(project: Path) -> Path:
    """A plan whose second step makes the call of the first, of a tool that is deterministic."""
    settings = project / "wavewright.yaml"
    before = "list_notes: {tags: [data],"
    text = settings.read_text()
    assert before in text
    settings.write_text(text.replace(before, "list_notes: {deterministic: true, tags: [data],"))
    path = project / "plans" / "twice.plan.yaml"
    path.write_text("""\
steps:
  - {id: all, tool: list_notes, params: {folder: notes}}
  - {id: again, tool: list_notes, params: {folder: notes}}
result: ["${steps.all}", "${steps.again}"]
""")
    return path


def test_several_files_are_checked_at_once(
    wavewright: CommandLine, plan_that_asks_twice: Path
) -> None:
    files = ("plans/words.job.yaml", str(plan_that_asks_twice), "config/goals/word_ranking.yaml")
    text = wavewright("check", *files)
    told = json.loads(wavewright("check", *files, "--format", "json").out)
    log = json.loads(wavewright("check", *files, "--format", "sarif").out)

    assert text.code == 0
    assert text.out.count("valid: ") == 3
    assert [each["file"] for each in told["files"]] == list(files)
    assert [len(each["diagnostics"]) for each in told["files"]] == [0, 1, 0]
    assert [result["ruleId"] for result in log["runs"][0]["results"]] == ["W802"]


def test_one_faulty_file_of_several_is_a_no(
    wavewright: CommandLine, plan_that_asks_twice: Path
) -> None:
    (plan_that_asks_twice.parent / "bad.plan.yaml").write_text("steps: [{id: a, tool: nothing}]\n")

    answer = wavewright("check", "plans/bad.plan.yaml", plan_that_asks_twice)

    assert answer.code == 1
    assert "E201" in answer.out
    assert f"{plan_that_asks_twice}: valid" in answer.out
