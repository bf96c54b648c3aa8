"""A plan that a job or another plan names by its path stays in the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file of somebody else's beside the project."""
    file = tmp_path / "elsewhere" / "secret.yaml"
    file.parent.mkdir()
    file.write_text("root: x0x0\n")
    return file


@pytest.mark.parametrize(
    "how", ["symbolic link", "symbolic link of a folder", "path", "whole path"]
)
def test_a_path_out_of_the_project_is_refused_and_nothing_of_the_file_is_quoted(
    wavewright: CommandLine, project: Path, outside: Path, how: str
) -> None:
    (project / "plans" / "link.yaml").symlink_to(outside)
    (project / "plans" / "folder").symlink_to(outside.parent)
    named = {
        "symbolic link": "link.yaml",
        "symbolic link of a folder": "folder/secret.yaml",
        "path": "../../elsewhere/secret.yaml",
        "whole path": str(outside),
    }[how]
    (project / "plans" / "calling.yaml").write_text(
        f"steps: [{{id: inner, plan: {named!r}}}]\nresult: '${{steps.inner}}'\n"
    )

    answer = wavewright("check", "plans/calling.yaml")

    assert answer.code == 1
    assert "leads out of the project" in answer.out
    assert "x0x0" not in answer.out + answer.err


def test_the_path_that_is_refused_is_shown(
    wavewright: CommandLine, project: Path, outside: Path
) -> None:
    outside.rename(outside.parent / "passwd")
    (project / "plans" / "etc").symlink_to(outside.parent)
    (project / "plans" / "calling.yaml").write_text("steps: [{id: inner, plan: etc/passwd}]\n")

    answer = wavewright("check", "plans/calling.yaml")

    assert "cannot call its plan: 'etc/passwd' leads out of the project" in answer.out


@pytest.mark.parametrize(
    "named", ["link.yaml", "folder/secret.yaml", "../../elsewhere/secret.yaml"]
)
def test_the_plan_of_a_job_stays_in_the_project_as_a_sub_plan_does(
    wavewright: CommandLine, project: Path, outside: Path, named: str
) -> None:
    (project / "plans" / "link.yaml").symlink_to(outside)
    (project / "plans" / "folder").symlink_to(outside.parent)
    (project / "plans" / "calling.job.yaml").write_text(f"name: j\nplan: {named}\n")

    answer = wavewright("check", "plans/calling.job.yaml")

    assert "leads out of the project" in answer.out + answer.err
    assert "x0x0" not in answer.out + answer.err


def test_a_link_within_the_project_is_followed(wavewright: CommandLine, project: Path) -> None:
    (project / "inner.yaml").write_text(
        "steps: [{id: n, tool: list_notes, params: {folder: notes}}]\nresult: '${steps.n}'\n"
    )
    (project / "plans" / "link.yaml").symlink_to(project / "inner.yaml")
    (project / "plans" / "calling.yaml").write_text(
        "steps: [{id: inner, plan: link.yaml}]\nresult: '${steps.inner}'\n"
    )

    assert wavewright("check", "plans/calling.yaml").code == 0
