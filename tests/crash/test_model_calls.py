"""A daemon dies between a model's reply and its charge, and at each other point of a question in
turn.

The provider is another process's server, which writes down what it wants to be paid for; its word
is held against the purse, and against the answers that the run kept.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.crash_project import PROVIDER, add_line, job_id
from tests.crash.file_broker import job_in
from tests.crash.forked_daemons import Report, Spec, deaths
from tests.crash.measurements import note
from tests.crash.run_size import IS_WHOLE, volume
from wavewright.engine.rehearsal.fake_model.replies import AnswerLike, ClaimedUsage, with_usage
from wavewright.engine.rehearsal.fake_model.request import FakeModelRequest
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer
from wavewright.planner.types import JsonObject

NAMES = {"before reserve", "before question", "model reply", "before charge", "after charge"}
ANSWER = ClaimedUsage(300, 100)
REVIEW: JsonObject = {
    "goal_achieved": True,
    "confidence": 0.9,
    "summary": "It was kept.",
    "missing_data": [],
    "recovery_actions": [],
}


def answer_and_note(server: FakeModelServer, folder_of: Callable[[str], Path | None]) -> None:
    """Have the server answer notes and reviews, and write down in the folder of each job what it
    was asked.
    """

    def answer(request: FakeModelRequest) -> AnswerLike:
        job = job_in(request.text) or ""
        question = f"{request.schema_name} {hashlib.sha256(request.text.encode()).hexdigest()[:12]}"
        line: JsonObject = {"job": job, "question": question, "tokens": 400, "at": time.time()}
        if (place := folder_of(job)) is not None:
            add_line(place / PROVIDER, line)
        is_note = request.schema_name == "note"
        return with_usage(
            {"line": f"a line about {job}, {question}"} if is_note else REVIEW, ANSWER
        )

    server.answer(answer)


def die_at_each(server: FakeModelServer, folder: Path, calls: int | None = None) -> list[Report]:
    """Let daemons die at every point of a job that asks, under a day's budget where one is given."""

    def folder_of(job: str) -> Path | None:
        places = ((place, int(place.name.rpartition("-")[2])) for place in folder.glob("points-*"))
        return next((place for place, number in places if job_id(number) == job), None)

    answer_and_note(server, folder_of)
    # In the slice those around the first question only.
    numbers = () if IS_WHOLE else (12, 13, 14, 15, 16)
    return list(deaths(Spec(str(folder), numbers=numbers, model=server.openai_url, calls=calls)))


@pytest.mark.timeout(volume(120, 1200))
def test_a_death_around_a_models_reply_repeats_no_answer_that_was_kept_and_hides_no_cost(
    tmp_path: Path, model_server: FakeModelServer
) -> None:
    reports = die_at_each(model_server, tmp_path)

    note(
        "model calls",
        points=len(reports),
        violations=sum(bool(report.violations) for report in reports),
    )
    assert [report for report in reports if report.violations] == []
    assert {report.place for report in reports} >= (
        NAMES if IS_WHOLE else {"model reply", "before charge"}
    )


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_death_around_a_models_reply_lets_no_budget_be_overspent(
    tmp_path: Path, model_server: FakeModelServer
) -> None:
    """The day has enough for the three questions of the job, and for none that is asked again."""
    reports = die_at_each(model_server, tmp_path, calls=3)

    note(
        "tight budget",
        points=len(reports),
        violations=sum(bool(report.violations) for report in reports),
    )
    assert [report for report in reports if report.violations] == []
