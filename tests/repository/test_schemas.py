"""The schemas that editors read: those in the repository are today's, and every shipped document
refers to its own.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import jsonschema_rs
import pytest

from tests.repository.tree import ROOT
from wavewright.config.documents import read_document_file
from wavewright.engine.interfaces.cli.project.init_command import AUTHORED_SCHEMAS, schema_text

SCHEMAS = ROOT / "docs" / "schemas"
DOCUMENTS = [
    # Answers are a script for the fake model, which has no schema.
    *sorted(set((ROOT / "plans").glob("*.yaml")) - set((ROOT / "plans").glob("*.answers.yaml"))),
    *sorted((ROOT / "packs").rglob("goals/*.yaml")),
]
_REFERENCE = re.compile(r"\A# yaml-language-server: \$schema=(\S+)\n")


def schema_of(document: Path) -> Path:
    """Return the file that a document's first line refers an editor to."""
    found = _REFERENCE.match(document.read_text(encoding="utf-8"))
    assert found, f"{document.name} refers to no schema in its first line"
    return (document.parent / found[1]).resolve()


def is_kept(document: Path) -> None:
    """Hold a document against the schema that it refers to."""
    schema = json.loads(schema_of(document).read_text(encoding="utf-8"))

    jsonschema_rs.validator_for(schema).validate(read_document_file(document).value)


@pytest.mark.parametrize("name", AUTHORED_SCHEMAS)
def test_a_schema_in_the_repository_is_what_the_command_prints(name: str) -> None:
    """`wavewright schema --out docs/schemas` writes them anew."""
    assert (SCHEMAS / f"{name}.json").read_text(encoding="utf-8") == schema_text(name)


def test_the_folder_of_schemas_holds_nothing_else() -> None:
    assert {path.stem for path in SCHEMAS.iterdir()} == set(AUTHORED_SCHEMAS)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_shipped_document_refers_to_its_schema_and_keeps_it(document: Path) -> None:
    kind = "goal" if document.parent.name == "goals" else document.name.split(".")[-2]

    assert schema_of(document) == SCHEMAS / f"{kind}.json"
    is_kept(document)


def test_every_document_of_a_new_project_refers_to_a_schema_in_it_and_keeps_it(
    starter_project: Path,
) -> None:
    written = starter_project.rglob("*.yaml")
    documents = sorted(file for file in written if not file.name.endswith(".snapshot.yaml"))

    assert len(documents) == 4
    for document in documents:
        assert schema_of(document).is_relative_to(starter_project)
        is_kept(document)


def test_a_misspelt_field_is_refused_by_the_schema_that_a_document_refers_to(
    tmp_path: Path, starter_project: Path
) -> None:
    plan = shutil.copytree(starter_project, tmp_path / "project") / "plans" / "words.plan.yaml"
    plan.write_text(plan.read_text(encoding="utf-8").replace("tool:", "tol:"), encoding="utf-8")

    with pytest.raises(jsonschema_rs.ValidationError):
        is_kept(plan)
