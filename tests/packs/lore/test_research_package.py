"""A package about a zone as `research_package`."""

from __future__ import annotations

import pytest

from tests.engine.service.messages.sample_messages import JOB
from wavewright.engine.service.job_store.records import JobId
from wavewright.engine.service.messages.encoding import InvalidResult, package_report
from wavewright.engine.service.messages.models import PackageReport, package_id
from wavewright.packs.lore.messages import CONTRACT, ResearchPackage
from wavewright.packs.lore.models import NPCData, ZoneData
from wavewright.planner.types import Json, StepId
from wavewright.reviewer import records
from wavewright.tools.message_contract import PackagePayload

JOB_ID = JobId(JOB)
FOUND: dict[str, Json] = {
    "zone_data": {"name": "Westfall"},
    "npcs": [{"name": "Gryan"}],
    "confidence": {"npcs": 1},
}


def made(
    result: Json, *confidences: records.Confidence, is_achieved: bool = True
) -> records.Package:
    review = records.ReviewResult(
        goal_achieved=is_achieved,
        confidence=0.8,
        summary="No source agrees.",
        confidences=confidences,
    )
    return records.Package(
        run="20260601-120000-3f2a7c",
        job="Westfall",
        goal="Tell its story",
        status="achieved" if is_achieved else "not_achieved",
        review=review,
        result=result,
        warnings=("few sources",),
        plan={},
        plan_hash="0",
        failed_attempts=(
            records.AttemptReport(step=StepId("npcs"), attempt=1, stdout="looking\n"),
        ),
        rung="given",
        now="2026-04-14T09:30:00+00:00",
    )


def report_of(
    iteration: int, package: records.Package, zone: str | None = "Westfall"
) -> PackagePayload:
    report = package_report(JOB_ID, iteration, package, forms=CONTRACT.packages, goal_target=zone)
    assert isinstance(report, PackagePayload)
    return report


def test_what_was_found_about_a_zone_goes_out_field_by_field() -> None:
    report = report_of(2, made(FOUND))

    assert report == ResearchPackage(
        job_id=JOB,
        package_id=package_id(JOB_ID, 2),
        iteration=2,
        zone_name="Westfall",
        zone_data=ZoneData(name="Westfall"),
        npcs=[NPCData(name="Gryan")],
        confidence={"npcs": 1.0},
        quality_warnings=["few sources"],
    )


def test_a_result_has_its_own_word_before_the_runs_but_not_about_whose_it_is() -> None:
    own: dict[str, Json] = {
        "quality_warnings": [],
        "zone_name": "The Westfall",
        "job_id": "another",
        "iteration": 9,
    }

    report = report_of(1, made({**FOUND, **own}))

    assert isinstance(report, ResearchPackage)
    assert (report.quality_warnings, report.zone_name) == ([], "The Westfall")
    assert (report.job_id, report.iteration) == (JOB, 1)


def test_a_package_about_no_zone_goes_out_whole_without_what_tools_printed() -> None:
    package = made(FOUND)

    report = report_of(1, package, None)

    assert isinstance(report, PackageReport)
    assert (report.job_id, report.package_id, report.iteration) == (JOB, package_id(JOB_ID, 1), 1)
    sent = records.Package.model_validate(report.package)
    assert sent == package.model_copy(update={"failed_attempts": ()})
    assert "looking" not in report.model_dump_json()


@pytest.mark.parametrize(
    "result",
    [
        pytest.param("a story", id="text"),
        pytest.param({"npcs": []}, id="nothing of the zone itself"),
    ],
)
def test_what_is_no_research_about_a_zone_is_refused(result: Json) -> None:
    with pytest.raises(InvalidResult, match="no research_package"):
        report_of(1, made(result))


@pytest.mark.parametrize(
    ("more", "field"),
    [
        pytest.param({"weather": "dry"}, "weather", id="a field too many"),
        pytest.param({"npcs": None}, "npcs", id="nothing where a list belongs"),
        pytest.param({"confidence": {"npcs": 2}}, "confidence.npcs", id="too confident"),
        pytest.param({"confidence": "high"}, "confidence", id="no figures"),
    ],
)
def test_what_claims_to_be_of_a_zone_and_does_not_fit_goes_out_as_nothing(
    more: dict[str, Json], field: str
) -> None:
    with pytest.raises(
        InvalidResult, match=f"does not fit the message `research_package`: {field}"
    ):
        report_of(1, made({**FOUND, **more}))


def test_a_field_whose_figure_the_result_leaves_out_has_that_of_the_review() -> None:
    capped = records.Confidence(field="lore", raw=1.0, capped=0.3)
    whole = records.Confidence(field="overall", raw=1.0, capped=0.8)

    report = report_of(1, made(FOUND, whole, capped))

    assert isinstance(report, ResearchPackage)
    assert report.confidence == {"lore": 0.3, "npcs": 1.0}


def test_a_zone_whose_goal_is_not_achieved_says_so_among_its_warnings() -> None:
    report = report_of(1, made(FOUND, is_achieved=False))

    assert isinstance(report, ResearchPackage)
    assert report.quality_warnings == ["No source agrees.", "few sources"]


def test_sources_and_conflicts_that_the_result_leaves_out_are_the_runs() -> None:
    page = records.SourceReference(
        name="Westfall", location="https://lore.test/westfall", tier="primary"
    )
    file = records.SourceReference(name="prices", location="prices.csv")
    told: tuple[Json, ...] = (
        {"value": {"min": 10}, "sources": ["a", "b"]},
        {"value": "20", "sources": ["c"]},
        {"value": "30", "sources": ["d"]},
    )
    conflict = records.Conflict(subject="Westfall: level_range", message="they differ", values=told)
    vague = records.Conflict(subject="Westfall: era", message="unclear")
    found = {"sources": (page, file), "conflicts": (conflict, vague)}

    report = report_of(1, made(FOUND).model_copy(update=found))

    assert isinstance(report, ResearchPackage)
    assert [source.model_dump(mode="json") for source in report.sources] == [
        {
            "url": "https://lore.test/westfall",
            "domain": "lore.test",
            "tier": "primary",
            "accessed_at": "2026-04-14T09:30:00Z",
        }
    ]
    assert [one.model_dump() for one in report.conflicts] == [
        {
            "data_point": "Westfall: level_range",
            "source_a": "a, b",
            "source_b": "c",
            "claim_a": '{"min":10}',
            "claim_b": "20",
        }
    ]
