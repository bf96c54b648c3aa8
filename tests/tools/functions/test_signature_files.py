"""Signatures from a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wavewright.planner.diagnostics.diagnostic import PlanError
from wavewright.tools import read_tools_file


def test_a_list_of_signatures_is_read_by_name(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    listed = [
        {
            "name": "fetch",
            "description": "Fetch a page.",
            "input_schema": {"type": "object", "properties": {"url": {"type": "string"}}},
            "output_schema": {"type": "string"},
            "effects": ["egress"],
        },
        {"name": "write", "effects": ["write"]},
    ]
    file.write_text(json.dumps(listed))

    tools = read_tools_file(file)

    assert list(tools) == ["fetch", "write"]
    assert tools["fetch"].output_schema == {"type": "string"}
    assert tools["write"].writes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param('{"name": "fetch"}', "list", id="no list"),
        pytest.param('[{"name": "fetch", "efects": []}]', "efects", id="unknown field"),
        pytest.param('[{"name": "fetch", "effects": ["burn"]}]', "burn|effects", id="unknown effect"),
        pytest.param('[{"name": "a"}, {"name": "a"}]', "tool 'a' is listed twice", id="twice"),
    ],
)
def test_a_file_that_lists_no_signatures_is_refused_at_its_place(
    text: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "tools.json"
    file.write_text(text)

    with pytest.raises(PlanError, match=message) as refused:
        read_tools_file(file)

    assert all(diagnostic.span is not None for diagnostic in refused.value.diagnostics)
