"""The extension of Visual Studio Code in the documentation can be packaged as it stands."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import jsonschema_rs
import pytest

from tests.repository.tree import ROOT

EXTENSION = ROOT / "docs" / "editors" / "vscode"
MANIFEST = {
    "type": "object",
    "required": ["name", "version", "publisher", "engines", "main", "activationEvents"],
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]*$"},
        "version": {"type": "string", "pattern": r"^\d+\.\d+\.\d+$"},
        "publisher": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9-]*$"},
        "engines": {
            "type": "object",
            "required": ["vscode"],
            "properties": {"vscode": {"type": "string", "pattern": r"^\^\d+\.\d+\.\d+$"}},
        },
        "main": {"type": "string"},
        "activationEvents": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "string", "pattern": "^(workspaceContains|onLanguage):"},
        },
        "contributes": {
            "type": "object",
            "properties": {
                "configuration": {
                    "type": "object",
                    "required": ["title", "properties"],
                    "properties": {
                        "properties": {
                            "type": "object",
                            "propertyNames": {"pattern": r"^wavewright\."},
                            "additionalProperties": {
                                "type": "object",
                                "required": ["type", "default", "description"],
                            },
                        }
                    },
                }
            },
        },
        "dependencies": {
            "type": "object",
            "required": ["vscode-languageclient"],
            "additionalProperties": {"type": "string", "pattern": r"^\^\d"},
        },
    },
}
"""What an extension's manifest has to say, as the reference of Visual Studio Code has it."""


def test_the_manifest_says_what_an_extension_has_to_say() -> None:
    manifest = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))

    assert list(jsonschema_rs.validator_for(MANIFEST).iter_errors(manifest)) == []
    assert (EXTENSION / manifest["main"]).is_file()
    assert manifest["contributes"]["configuration"]["properties"]["wavewright.command"][
        "default"
    ] == ["wavewright", "lsp"]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_program_of_the_extension_is_one() -> None:
    checked = subprocess.run(
        ["node", "--check", str(EXTENSION / "extension.js")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.stderr == ""


@pytest.mark.skipif(shutil.which("vsce") is None, reason="vsce is not installed")
def test_the_extension_can_be_packaged(tmp_path: Path) -> None:
    folder = shutil.copytree(EXTENSION, tmp_path / "extension")
    options = ["--no-dependencies", "--skip-license", "--allow-missing-repository"]
    packaged = subprocess.run(
        ["vsce", "package", *options], cwd=folder, capture_output=True, text=True, check=False
    )

    assert packaged.returncode == 0, packaged.stderr
    assert [file.suffix for file in folder.glob("*.vsix")] == [".vsix"]
