"""Inputs from the command line: `--set NAME=VALUE` and `--inputs FILE`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from wavewright.config.sources import DocumentError
from wavewright.engine.run.jobs.inputs import InputOverrides, known_inputs
from wavewright.planner.language.plan import Plan
from wavewright.planner.types import JsonObject

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "top": {"type": "integer"},
        "code": {"type": "string"},
        "rate": {"type": "number"},
        "maybe": {"type": ["integer", "null"]},
        "sales": {
            "type": "object",
            "properties": {"year": {"type": "integer"}, "name": {"type": "string"}},
        },
        "codes": {"type": "array", "items": {"type": "string"}},
    },
}


@pytest.mark.parametrize(
    ("text", "inputs", "expected"),
    [
        ("top=5", {}, {"top": 5}),
        ("code=007", {}, {"code": "007"}),
        ("code=a=b", {}, {"code": "a=b"}),
        ("rate=1e3", {}, {"rate": 1000.0}),
        ("maybe=null", {"maybe": 3}, {"maybe": None}),
        ("sales.year=2026", {"sales": {"name": "x"}}, {"sales": {"name": "x", "year": 2026}}),
        ("sales.name=12", {}, {"sales": {"name": "12"}}),
        ("codes.1=2", {"codes": ["a", "b"]}, {"codes": ["a", "2"]}),
        ('codes=["x"]', {"codes": []}, {"codes": ["x"]}),
        ("free=7", {}, {"free": 7}),
        ("free=seven", {}, {"free": "seven"}),
        ("free=7", {"free": "text"}, {"free": "7"}),
        ("tops=7", {"tops": 1}, {"tops": 7}),
        ("free.deep.down=true", {}, {"free": {"deep": {"down": True}}}),
    ],
)
def test_a_value_is_typed_by_the_schema_or_the_value_in_its_place(
    text: str, inputs: JsonObject, expected: JsonObject
) -> None:
    before = json.dumps(inputs)

    assert InputOverrides(assignments=(text,)).applied(inputs, SCHEMA) == expected
    assert json.dumps(inputs) == before


@pytest.mark.parametrize(
    ("text", "inputs", "expected"),
    [
        ("day=2021", {}, {"day": "2021"}),
        ("day=2021", {"day": 7}, {"day": 2021}),
        ("window.from=7", {}, {"window": {"from": "7", "to": "b"}}),
        ("window.from=7", {"window": {"from": 1}}, {"window": {"from": 7}}),
        ("days.1=7", {"top": 1}, {"top": 1, "days": ["a", "7"]}),
        ("top=3", {"day": "x"}, {"top": 3, "day": "x"}),
    ],
)
def test_an_input_of_the_plan_is_typed_by_its_value_and_reached_into(
    text: str, inputs: JsonObject, expected: JsonObject
) -> None:
    of_plan: JsonObject = {"day": "2020", "window": {"from": "a", "to": "b"}, "days": ["a", "b"]}
    before = json.dumps(of_plan)

    found = InputOverrides(assignments=(text,)).applied(inputs, SCHEMA, of_plan=of_plan)

    assert found == expected
    assert json.dumps(of_plan) == before


@pytest.mark.parametrize(
    ("text", "inputs", "message"),
    [
        ("top=many", {}, "the input 'top': 'many' is not of type integer"),
        ("top=1.5", {}, "the input 'top': '1.5' is not of type integer"),
        ("free=many", {"free": 3}, "the input 'free': 'many' is not of type number"),
        ("flag=1", {"flag": True}, "the input 'flag': '1' is not of type boolean"),
        ("top", {}, "'top' sets no input"),
        ("=3", {}, "'=3' sets no input"),
        ("a..b=3", {}, "'a..b=3' sets no input"),
        ("code.x=3", {"code": "y"}, "'x' lies in \"y\", which is no object"),
        ("topp=3", {}, "no input is called 'topp'"),
        ("fre.deep=3", {"free": {"deep": 1}}, "no input is called 'fre'"),
        ("codes.2=z", {"codes": ["a", "b"]}, "there is no item '2' in a list of 2"),
    ],
)
def test_a_value_that_has_no_place_or_another_type_is_refused(
    text: str, inputs: JsonObject, message: str
) -> None:
    with pytest.raises(DocumentError) as caught:
        InputOverrides(assignments=(text,)).applied(inputs, SCHEMA)

    [fault] = caught.value.faults
    assert fault.message == message
    assert caught.value.source.name == "--set"


def test_a_value_is_typed_before_the_schema_was_checked_and_with_bytes_that_are_no_text() -> None:
    odd: JsonObject = {
        "properties": {"top": {"type": ["integer", "integer"]}, "rate": {"type": "number"}}
    }

    assert InputOverrides(assignments=("top=3",)).applied({}, odd) == {"top": 3}
    with pytest.raises(DocumentError, match="is not of type number"):
        InputOverrides(assignments=("rate=\udcff",)).applied({}, odd)


def test_single_values_go_before_those_of_the_file_and_these_before_the_job(
    wavewright: CommandLine, project: Path
) -> None:
    (project / "in.yaml").write_text("top: 2\nfolder: nowhere\n")

    ran = wavewright(
        "run",
        "plans/words.job.yaml",
        "--inputs",
        "in.yaml",
        "--set",
        "folder=notes",
        "--output",
        "out",
    )

    assert ran.code == 0, ran.err
    [package] = (project / "out").glob("*/package.json")
    assert len(json.loads(package.read_text())["result"]["words"]) == 2


@pytest.mark.parametrize(
    "command",
    [("run",), ("plan",), ("check",), ("dry-run",), ("dry-run", "--simulate")],
    ids=" ".join,
)
@pytest.mark.parametrize("file", ["plans/words.job.yaml", "plans/words.plan.yaml"])
def test_every_command_that_reads_inputs_takes_them(
    wavewright: CommandLine, project: Path, command: tuple[str, ...], file: str
) -> None:
    assert project.is_dir()

    right = wavewright(*command, file, "--set", "top=4")
    wrong = wavewright(*command, file, "--set", "top=many")

    assert right.code == 0, right.err
    assert wrong.code == 2
    assert "'many' is not of type number" in wrong.err
    assert "--set:1:5" in wrong.err


def test_a_slip_in_a_name_is_told_with_the_input_that_was_meant(
    wavewright: CommandLine, project: Path
) -> None:
    (project / "in.yaml").write_text("topp: 2\n")

    slipped = wavewright("run", "plans/words.job.yaml", "--set", "topp=3")
    new = wavewright("check", "plans/words.job.yaml", "--inputs", "in.yaml", "--set", "topp=3")

    assert slipped.code == 2
    assert "= help: did you mean 'top'? --inputs FILE adds new ones\n" in slipped.err
    assert new.code == 0, new.err


@pytest.mark.parametrize(
    "command",
    [("run",), ("plan",), ("check",), ("dry-run",), ("dry-run", "--simulate")],
    ids=" ".join,
)
@pytest.mark.parametrize("file", ["plans/words.job.yaml", "plans/words.plan.yaml"])
def test_a_name_that_nothing_reads_is_refused_where_none_is_alike(
    wavewright: CommandLine, project: Path, command: tuple[str, ...], file: str
) -> None:
    assert project.is_dir()

    answer = wavewright(*command, file, "--set", "wholly_unknown.deep=3")

    assert answer.code == 2
    assert "no input is called 'wholly_unknown'" in answer.err
    assert "its inputs: folder, top; --inputs FILE adds new ones" in answer.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1e400", "the number '1e400' is too large"),
        ("[-1e999]", "is too large"),
        ('{"a": 1, "a": 2}', "a key stands twice in one object"),
        (r'["\ud800"]', "half a character"),
        (r'{"\udc00": 1}', "half a character"),
    ],
)
def test_a_value_of_which_a_part_would_be_lost_is_refused(text: str, said: str) -> None:
    with pytest.raises(DocumentError, match=said):
        InputOverrides(assignments=(f"v={text}",)).applied({}, {})


@pytest.mark.parametrize("text", ["NaN", "-Infinity"])
def test_what_json_has_no_number_for_is_a_text(text: str) -> None:
    overrides = InputOverrides(assignments=(f"v={text}",))

    assert overrides.applied({}, {}) == {"v": text}
    with pytest.raises(DocumentError, match="is not of type number"):
        overrides.applied({"v": 1}, {})


@pytest.mark.parametrize(
    ("reader", "known"),
    [
        ({"params": {"x": "all of the inputs: ${inputs.far}"}}, frozenset({"near", "far"})),
        (
            {"when": "inputs['far'] > 1", "params": {"x": "${steps.inputs}"}},
            frozenset({"near", "far"}),
        ),
        ({"params": {"x": "inputs.far"}}, frozenset({"near"})),
        ({"params": {"x": "${inputs}"}}, None),
        ({"when": "'far' in inputs"}, None),
    ],
)
def test_an_input_is_known_where_an_expression_reads_it(
    reader: JsonObject, known: frozenset[str] | None
) -> None:
    plan = Plan.model_validate(
        {"inputs": {"near": 1}, "steps": [{"id": "a", "tool": "t", **reader}]}, strict=False
    )

    assert known_inputs(plan.inputs, {}, plan) == known


def test_a_schema_that_is_open_lets_any_input_be_set() -> None:
    plan = Plan.model_validate({"inputs": {"near": 1}, "steps": []}, strict=False)

    assert known_inputs({}, {"additionalProperties": {"type": "string"}}, plan) is None
    assert known_inputs({}, {"patternProperties": {"^x": {}}}, plan) is None
    assert known_inputs({}, {"additionalProperties": False}, plan) == frozenset({"near"})


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ("target: people", ()),
        ("round: 3", ()),
        ("", ("--set", "target=people")),
        ("", ("--set", "target.name=people")),
        ("", ("--inputs", "more.yaml")),
    ],
)
def test_an_input_that_the_run_of_each_target_has_of_its_own_is_refused(
    wavewright: CommandLine, project: Path, given: str, arguments: tuple[str, ...]
) -> None:
    (project / "read.goal.yaml").write_text(
        "name: read\ngoal: Read\ninputs_schema: {type: object}\ntargets: {wave: round}\n"
        "available_tools: [{name: count_words}]\n"
    )
    (project / "more.yaml").write_text("target: people\n")
    job = "name: notes\ngoal_template: read.goal.yaml\n"
    (project / "notes.job.yaml").write_text(
        f"{job}targets: {{first: [start]}}\ninputs: {{{given}}}\n"
    )

    answer = wavewright("dry-run", "notes.job.yaml", *arguments)

    name = "round" if "round" in given else "target"
    assert answer.code == 1
    assert f"the input {name!r} is given, and the run of each target has its own" in answer.err
    # The same input is given to a job without targets.
    (project / "notes.job.yaml").write_text(f"{job}inputs: {{{given}}}\n")
    assert "has its own" not in wavewright("dry-run", "notes.job.yaml", *arguments).err


def test_an_input_that_the_plan_alone_names_can_be_set(
    wavewright: CommandLine, project: Path
) -> None:
    job = project / "plans" / "words.job.yaml"
    text = job.read_text().replace(
        "{folder: notes, top: 5}", "{folder: notes, top: 5, folders: none}"
    )
    job.write_text(text.replace("folder: notes, ", ""))

    assert wavewright("check", "plans/words.job.yaml", "--set", "folder=notes").code == 0


def test_a_saved_plan_keeps_its_inputs(wavewright: CommandLine, project: Path) -> None:
    assert wavewright("dry-run", "plans/words.job.yaml", "--out", "saved.json").code == 0

    answer = wavewright("run", "saved.json", "--set", "top=1")

    assert answer.code == 1
    assert "a saved plan runs as it is; its inputs cannot be set" in answer.err
    assert (project / "saved.json").exists()


def test_a_file_of_inputs_that_is_no_mapping_is_named(
    wavewright: CommandLine, project: Path
) -> None:
    (project / "in.yaml").write_text("- 1\n")

    answer = wavewright("run", "plans/words.job.yaml", "--inputs", "in.yaml")

    assert answer.code == 2
    assert answer.err.startswith("error: inputs are a mapping of names to values\n  --> in.yaml\n")
