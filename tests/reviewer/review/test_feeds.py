"""Which fields a forced step lowers: those that its output feeds, along the plan's graph."""

from __future__ import annotations

from dataclasses import replace

from tests.reviewer.scripted_runs import ScriptedRun, plan_of, run_plan, signature
from wavewright.executor.events.types import RungTaken, StepFinished
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.types import Json, JsonObject, StepId
from wavewright.reviewer.package.builder import build_package
from wavewright.reviewer.records import ReviewResult
from wavewright.reviewer.review.by_code import review_by_code
from wavewright.reviewer.review.findings import field_feeders, way_of

FORCED = RungRecord("worker", "forced", "reached", ceiling=0.2, because="nothing better came")
STEPS: list[JsonObject] = [
    {"id": "people_pages"},
    {"id": "people", "params": {"pages": "${steps.people_pages}"}},
    {"id": "places"},
    {"id": "check", "params": {"all": ["${steps.people}", "${steps.places}"]}},
]
ANSWERS: dict[str, object] = {
    "people_pages": "text",
    "people": [{"name": "Ada", "confidence": 0.9}],
    "places": [{"name": "Mill", "confidence": 0.9}],
    "check": {"people": 0.9, "places": 0.9},
}
RESULT: JsonObject = {
    "people": "${steps.people}",
    "places": "${steps.places}",
    "confidence": {"people": "${steps.check.people}", "places": "${steps.check.places}"},
}


def run_with(
    forced: str, *, result: Json = RESULT, answers: dict[str, object] | None = None
) -> ScriptedRun:
    """Return a run in which the output of one step came from the last rung."""
    run = run_plan(plan_of(*STEPS, result=result), ANSWERS | (answers or {}))
    return replace(run, events=(*run.events, RungTaken(1.0, FORCED, StepId(forced))))


def figures(run: ScriptedRun) -> dict[str, float]:
    return {found.field: found.capped for found in reviewed(run).confidences}


def reviewed(run: ScriptedRun) -> ReviewResult:
    return review_by_code(run.plan, run.goal, run.state, run.tools)


def test_a_forced_step_lowers_only_what_it_feeds_and_the_whole() -> None:
    assert figures(run_with("people_pages")) == {"overall": 0.2, "people": 0.2, "places": 0.8}
    assert figures(run_with("places")) == {"overall": 0.2, "people": 0.8, "places": 0.2}


def test_a_forced_step_that_only_states_the_figures_lowers_all_of_them() -> None:
    assert figures(run_with("check")) == {"overall": 0.2, "people": 0.2, "places": 0.2}


def test_the_reason_names_the_way_from_the_step_to_the_field() -> None:
    review = reviewed(run_with("people_pages"))

    people = next(found for found in review.confidences if found.field == "people")
    assert people.lowered_by[-1] == (
        "at most 0.2: step 'people_pages': nothing better came, by way of people_pages → people"
    )
    cap = next(cap for cap in review.caps if cap.max == 0.2)
    assert (cap.field, cap.ways, cap.spares) == (
        "*",
        {"people": ("people_pages", "people")},
        ("places",),
    )


def test_a_figure_within_a_field_is_under_the_caps_of_that_field() -> None:
    run = run_with("people_pages")

    package = build_package(run.plan, run.goal, run.state, reviewed(run), run.tools)

    assert package.result == {
        "people": [{"name": "Ada", "confidence": 0.2}],
        "places": [{"name": "Mill", "confidence": 0.8}],
        "confidence": {"people": 0.2, "places": 0.8},
    }


def test_a_path_that_a_cap_names_is_lowered_as_the_field_that_holds_it() -> None:
    caps: list[Json] = [
        {"field": field, "max": 0.7, "because": "few"} for field in ("places[*].name", "places")
    ]
    run = run_plan(plan_of(*STEPS, result=RESULT, caps=caps), ANSWERS)
    run = replace(run, events=(*run.events, RungTaken(1.0, FORCED, StepId("people_pages"))))

    found = figures(run)

    assert (found["places"], found["places[*].name"], found["people"]) == (0.7, 0.7, 0.2)


def test_a_result_that_is_one_output_is_fed_by_all_that_it_was_made_of() -> None:
    whole = run_with(
        "people_pages", result="${steps.check}", answers={"check": {"confidence": {"people": 0.9}}}
    )

    assert figures(whole)["people"] == 0.2


def test_without_a_declared_result_a_field_is_fed_by_the_outputs_that_state_it() -> None:
    steps: list[JsonObject] = [{"id": "one"}, {"id": "two"}]
    answers: dict[str, object] = {
        "one": {"confidence": {"trend": 0.9}},
        "two": {"confidence": {"news": 0.9}},
    }
    run = run_plan(plan_of(*steps), answers)
    run = replace(run, events=(*run.events, RungTaken(1.0, FORCED, StepId("one"))))

    assert figures(run) == {"overall": 0.2, "trend": 0.2, "news": 0.8}


def test_a_field_of_an_output_that_is_made_of_run_data_is_fed_by_those_that_have_written_it() -> (
    None
):
    steps: list[JsonObject] = [
        {"id": "pages"},
        {"id": "people", "depends_on": ["pages"]},
        {"id": "places"},
        {"id": "figures", "depends_on": ["people", "places"]},
        {"id": "whole", "tool": "assemble", "depends_on": ["figures"]},
    ]
    made_of = {
        "people": ["records.people"],
        "places": ["records.places"],
        "confidence": ["figures"],
    }
    assemble = signature("assemble", output_data=made_of)
    stated: JsonObject = {"confidence": {"people": 0.9, "people.Ada": 0.9, "places": 0.9}}
    written = {"people": "records.people", "places": "records.places", "figures": "figures"}

    def capped(forced: str, result: Json) -> dict[str, float]:
        answers: dict[str, object] = {**dict.fromkeys(("pages", *written), "x"), "whole": stated}
        run = run_plan(plan_of(*steps, result=result), answers, assemble)
        events = [
            replace(event, data={written[event.step]: {"key": "value"}})
            if isinstance(event, StepFinished) and event.step in written
            else event
            for event in run.events
        ]
        found = figures(replace(run, events=(*events, RungTaken(1.0, FORCED, StepId(forced)))))
        return {field: figure for field, figure in found.items() if field != "overall"}

    whole = "${steps.whole}"
    assert capped("pages", whole) == {"people": 0.2, "people.Ada": 0.2, "places": 0.8}
    assert capped("places", whole) == {"people": 0.8, "people.Ada": 0.8, "places": 0.2}
    assert set(capped("figures", whole).values()) == {0.2}
    assert set(capped("whole", whole).values()) == {0.2}
    # What an expression makes of the output may hold anything under a name.
    assert set(capped("places", "${[steps.whole][0]}").values()) == {0.2}


def test_a_step_that_supersedes_another_feeds_what_that_one_fed() -> None:
    plan = plan_of(*STEPS, {"id": "people_pages_2", "supersedes": "people_pages"}, result=RESULT)

    people = field_feeders(plan, {})["people"]

    assert way_of(people, StepId("people_pages_2")) == ("people_pages_2", "people")
    assert "places" not in people


def test_a_field_that_nothing_speaks_of_is_under_every_cap() -> None:
    assert field_feeders(plan_of(*STEPS, result=RESULT), {"mood": ()}).keys() == {
        "people",
        "places",
    }


def test_the_confidence_of_a_step_is_the_least_of_its_own_and_of_what_it_is_made_of() -> None:
    review = reviewed(run_with("people_pages"))

    assert {each.step: (each.confidence, each.way) for each in review.steps} == {
        "people_pages": (0.2, ("people_pages",)),
        "people": (0.2, ("people_pages", "people")),
        "check": (0.2, ("people_pages", "people", "check")),
    }


def test_a_tool_with_a_confidence_of_its_own_hands_no_lower_one_on() -> None:
    steps = [{**step, "tool": "verify"} if step["id"] == "people" else step for step in STEPS]
    run = run_plan(plan_of(*steps, result=RESULT), ANSWERS, signature("verify", confidence="own"))
    run = replace(run, events=(*run.events, RungTaken(1.0, FORCED, StepId("people_pages"))))

    assert figures(run) == {"overall": 0.2, "people": 0.8, "places": 0.8}
    assert [each.step for each in reviewed(run).steps] == ["people_pages"]


def test_a_gate_that_warns_lowers_the_fields_that_its_step_feeds() -> None:
    gate: JsonObject = {
        "id": "two",
        "on": "places",
        "check": "output.size() > 1",
        "severity": "warn",
    }
    run = run_plan(plan_of(*STEPS, result=RESULT, gates=[gate]), ANSWERS)
    review = reviewed(run)

    [cap] = [cap for cap in review.caps if "warning" in cap.because]
    assert (cap.max, cap.ways, cap.spares) == (0.8, {"places": ("places",)}, ("people",))
    assert {each.step: each.confidence for each in review.steps} == {"places": 0.8, "check": 0.8}
