from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from tests.reviewer.scripted_models import MODEL, Scripted, ScriptedModels
from wavewright.planner.diagnostics.diagnostic import PlanError
from wavewright.planner.language.plan import Gate
from wavewright.planner.ports.model_port import ModelAnswer, ModelCall, ModelUse
from wavewright.prompts import Prompts
from wavewright.reviewer import Calibration, JudgeCase, JudgeMeasurement, measure_judge, read_cases
from wavewright.reviewer.gates.judge import Measurement
from wavewright.reviewer.gates.judge_agreement import SeveralModelsAnswered

pytestmark = pytest.mark.anyio

GATE = Gate.model_validate(
    {"id": "reasons", "on": "report", "judge": {"rubric": "Names a reason."}}
)
CASES = (
    JudgeCase(passes=True, output={"text": "up, because of orders"}),
    JudgeCase(passes=False, output={"text": "it feels right"}),
    JudgeCase(passes=True, output={"text": "down, since costs rose"}),
    JudgeCase(passes=False, output={"text": "nobody can tell why"}),
)


def by_the_word(call: ModelCall) -> Scripted:
    """Pass what holds the word `because`, and quote something that is not there for what holds
    `nobody`.
    """
    if "nobody" in call.prompt:
        return {"reason": "no", "quotes": ["somebody can tell why"], "verdict": "fail"}
    if "because" in call.prompt:
        return {"reason": "yes", "quotes": ["because of orders"], "verdict": "pass"}
    return {"reason": "no", "quotes": [], "verdict": "fail"}


async def measure(models: ScriptedModels) -> JudgeMeasurement:
    return await measure_judge(
        GATE, CASES, models, Prompts(), model=MODEL, date=dt.date(2026, 11, 1)
    )


async def test_agreement_is_the_share_of_cases_with_the_persons_verdict() -> None:
    models = ScriptedModels(by_the_word)
    measured = await measure(models)

    assert (measured.measurement.agreement, measured.measurement.cases) == (0.5, 4)
    assert [(each.case, each.passes, each.record.verdict) for each in measured.differences] == [
        (3, True, "fail"),
        (4, False, "error"),
    ]
    assert {call.preference for call in models.asked} == {MODEL}


async def test_what_is_measured_can_stand_in_a_calibration_as_it_is() -> None:
    measured = await measure(ScriptedModels(by_the_word))
    calibration = Calibration.model_validate({"gates": [measured.as_json()]})

    assert calibration.gates == (measured.measurement,)
    assert calibration.warning_reason(GATE, MODEL) == "its agreement is 0.5, and 0.9 is asked for"
    assert isinstance(calibration.measured(GATE), Measurement)


async def test_a_measurement_in_which_a_fallback_took_part_is_none() -> None:
    def now_one_now_the_other(call: ModelCall) -> Scripted:
        model = MODEL if "because" in call.prompt else "scripted:fallback"
        use = ModelUse(call.role, call.name, model, "answered")
        return ModelAnswer('{"reason": "no", "quotes": [], "verdict": "fail"}', use)

    with pytest.raises(SeveralModelsAnswered, match="scripted:fallback, scripted:one judged"):
        await measure(ScriptedModels(now_one_now_the_other))


def test_cases_are_read_from_a_file_with_the_place_of_what_is_wrong(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("cases:\n  - passes: true\n    output: {text: fine}\n")
    bad.write_text("cases:\n  - passes: yes it does\n    output: 1\n")

    assert read_cases(good) == (JudgeCase(passes=True, output={"text": "fine"}),)
    with pytest.raises(PlanError, match="should be true or false"):
        read_cases(bad)
