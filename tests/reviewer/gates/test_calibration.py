from __future__ import annotations

from pathlib import Path

import pytest

from wavewright.planner.diagnostics.diagnostic import PlanError
from wavewright.planner.language.plan import Gate
from wavewright.reviewer import read_calibration, rubric_hash

RUBRIC = "Names a reason for every forecast."
GATE = Gate.model_validate({"id": "reasons", "on": "report", "judge": {"rubric": RUBRIC}})

WHOLE = f"""\
version: 1
demands: {{agreement: 0.9, cases: 40}}
gates:
  - gate: reasons
    rubric: |
      Names a reason
      for every forecast.
    model: openai:gpt-5
    agreement: 0.8
    cases: 50
    date: 2026-10-01
  - gate: reasons
    rubric_hash: {rubric_hash(RUBRIC)}
    model: openai:gpt-5
    agreement: 0.93
    cases: 50
    date: 2026-11-02
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "calibration.yaml"
    path.write_text(text)
    return path


def test_of_several_measurements_the_latest_counts(tmp_path: Path) -> None:
    calibration = read_calibration(written(tmp_path, WHOLE))

    assert calibration.may_block(GATE, "openai:gpt-5")
    assert calibration.warning_reason(GATE, "openai:gpt-4") == "the calibration is of openai:gpt-5"


def test_the_files_own_demands_hold(tmp_path: Path) -> None:
    stricter = WHOLE.replace("agreement: 0.9,", "agreement: 0.95,")
    calibration = read_calibration(written(tmp_path, stricter))

    assert (
        calibration.warning_reason(GATE, "openai:gpt-5")
        == "its agreement is 0.93, and 0.95 is asked for"
    )


def test_a_changed_word_in_a_rubric_is_another_rubric_and_a_line_break_is_not() -> None:
    assert rubric_hash("Names a\n  reason") == rubric_hash("Names a reason")
    assert rubric_hash("Names a reason") != rubric_hash("Names one reason")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(
            WHOLE.replace("agreement: 0.8", "agreement: '0.8'"),
            "'agreement' of gates[0] should be a number",
            id="type",
        ),
        pytest.param(
            WHOLE.replace("agreement: 0.8", "agreement: 80"), "should be at most 1", id="percent"
        ),
        pytest.param(
            WHOLE.replace("    cases: 50\n    date: 2026-10-01", "    date: 2026-10-01"),
            "'cases'",
            id="missing",
        ),
        pytest.param(
            WHOLE.replace("rubric_hash: sha256:", "rubric_hash: "), "rubric_hash", id="hash"
        ),
        pytest.param(
            WHOLE.replace(f"rubric_hash: {rubric_hash(RUBRIC)}", "may_block: true"),
            "'may_block'",
            id="unknown",
        ),
    ],
)
def test_a_faulty_file_is_told_with_the_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(PlanError) as error:
        read_calibration(written(tmp_path, text))

    assert any(told in diagnostic.message for diagnostic in error.value.diagnostics)
    assert all(diagnostic.span is not None for diagnostic in error.value.diagnostics)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(PlanError):
        read_calibration(tmp_path / "none.yaml")
