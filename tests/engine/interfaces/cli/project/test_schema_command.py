"""`wavewright schema`: what editors are given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast, get_args

import jsonschema_rs
import pytest
import yaml

from tests.engine.conftest import CommandLine
from wavewright.engine.interfaces.cli.commands.options import SchemaName
from wavewright.planner.types import JsonObject
from wavewright.tools import pack_templates


def schema(wavewright: CommandLine, name: str) -> JsonObject:
    answer = wavewright("schema", name)
    assert (answer.code, answer.err) == (0, "")
    return cast("JsonObject", json.loads(answer.out))


@pytest.mark.parametrize("name", get_args(SchemaName))
def test_every_document_has_a_schema_that_is_one(wavewright: CommandLine, name: str) -> None:
    printed = schema(wavewright, name)

    jsonschema_rs.validator_for(printed)
    assert printed["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert printed["$id"] == f"urn:wavewright:schema:{name}:1"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("plan", "plans/words.plan.yaml"),
        ("job", "plans/words.job.yaml"),
        ("goal", "config/goals/word_ranking.yaml"),
        ("settings", "wavewright.yaml"),
    ],
)
def test_the_documents_of_a_new_project_fit_their_schemas(
    wavewright: CommandLine, project: Path, name: str, path: str
) -> None:
    document = yaml.safe_load((project / path).read_text())

    jsonschema_rs.validator_for(schema(wavewright, name)).validate(document)


def test_a_misspelt_field_does_not_fit(wavewright: CommandLine) -> None:
    validator = jsonschema_rs.validator_for(schema(wavewright, "plan"))

    assert not validator.is_valid({"steps": [{"id": "a", "tol": "look"}]})


def test_the_list_of_tools_fits_its_schema(wavewright: CommandLine, project: Path) -> None:
    assert project.is_dir()
    listed = json.loads(wavewright("tools", "--format", "json").out)

    jsonschema_rs.validator_for(schema(wavewright, "tools")).validate(listed)


def test_the_package_of_a_run_fits_its_schema(wavewright: CommandLine, project: Path) -> None:
    wavewright("run", "plans/words.job.yaml", "--output", project / "output")
    [path] = (project / "output").glob("*/package.json")

    jsonschema_rs.validator_for(schema(wavewright, "package")).validate(
        json.loads(path.read_text())
    )


def test_the_shipped_goal_template_fits_its_schema(wavewright: CommandLine) -> None:
    shipped = pack_templates()["stock_analysis"]

    jsonschema_rs.validator_for(schema(wavewright, "goal")).validate(
        yaml.safe_load(shipped.read_text())
    )


def test_all_that_people_write_goes_into_a_folder(wavewright: CommandLine, tmp_path: Path) -> None:
    answer = wavewright("schema", "--out", "config/schemas")
    written = {path.stem: path.read_text() for path in (tmp_path / "config" / "schemas").iterdir()}

    assert answer.code == 0
    assert answer.out.splitlines()[0] == "wrote config/schemas/plan.json"
    assert set(written) == {"plan", "job", "goal", "settings", "worker", "agent"}
    assert written["plan"] == wavewright("schema", "plan").out


def test_one_schema_goes_into_a_folder(wavewright: CommandLine, tmp_path: Path) -> None:
    assert wavewright("schema", "patch", "--out", "there").code == 0
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["patch.json"]


def test_a_schema_without_a_name_and_a_folder_that_is_a_file_are_told(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    unnamed = wavewright("schema")
    unwritable = wavewright("schema", "--out", "file")

    assert (unnamed.code, "--out DIR for all" in unnamed.err) == (2, True)
    assert (unwritable.code, "cannot be written" in unwritable.err) == (3, True)
