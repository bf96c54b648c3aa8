"""Outputs that the author gives to a simulation."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.engine.normalized_output import worded
from tests.engine.rehearsal.simulation.effects_project import SimulatedProject, entries, scenarios

PLAN = """\
steps:
  - {id: orders, tool: list_orders, params: {shop: north}}
  - {id: verdicts, tool: check_order, for_each: "${steps.orders}", params: {id: "${item}"}}
  - {id: large, tool: note, when: "steps.verdicts.exists(v, v.is_large)", params: {text: large}}
  - {id: last, tool: note, params: {text: "${steps.orders[0]}"}}
gates:
  - {id: counted, on: verdicts, check: output.count > 0}
"""


def give(simulation: SimulatedProject, text: str) -> str:
    (simulation.folder / "fixtures.yaml").write_text(text)
    return "fixtures.yaml"


def test_a_list_is_one_output_of_a_tool_that_returns_lists_and_else_several(
    simulation: SimulatedProject,
) -> None:
    simulation.plan(PLAN)
    given = give(
        simulation,
        "orders: [a, b]\n"
        "check_order:\n"
        "  - {is_large: true, count: 1, note: null}\n"
        "  - {is_large: false, count: 2, note: n}\n",
    )

    report = simulation.simulate("--fixtures", given)

    assert report["fixtures"] == ["orders", "verdicts"]
    assert scenarios(report)["happy path"]["steps"] == {
        "orders": "ok",
        "verdicts": "ok",
        "large": "ok",
        "last": "ok",
    }
    assert entries(report, "failures") == []
    assert report["always_passed"] == ["counted"]


def test_several_outputs_of_a_tool_that_returns_lists_are_tried_each(
    simulation: SimulatedProject,
) -> None:
    simulation.plan(PLAN)

    report = simulation.simulate("--fixtures", give(simulation, "orders: [[a, b], []]\n"))

    [found] = entries(report, "failures")
    assert (found["step"], found["outputs"]) == ("last", {"orders": []})


DISPATCH = """\
steps:
  - id: acts
    dispatch: [{tool: note, params: {text: a}}, {tool: rate, params: {}}, {tool: note, params: {text: b}}]
    tools: [note, rate]
gates: [{id: told, on: acts, check: "output.tool == 'rate' ? output.output == 2.5 : output.output == 'said'"}]
"""


@pytest.mark.parametrize(
    ("fixtures", "told"),
    [
        ("note: said\nrate: 2.5\n", "output.output == 2.5"),
        ("note: said\n", "output.output > -1.0e300"),
        ("acts: {tool: note, output: said}\n", "output.output > -1.0e300"),
    ],
)
def test_a_dispatched_call_gets_an_output_of_the_tool_that_it_chooses(
    fixtures: str, told: str, simulation: SimulatedProject
) -> None:
    simulation.plan(DISPATCH.replace("output.output == 2.5", told))

    report = simulation.simulate("--fixtures", give(simulation, fixtures))

    assert report["fixtures"] == ["acts"]
    assert (report["faults"], report["always_passed"]) == (0, ["told"])


def test_a_steps_own_fixture_goes_before_its_tools(simulation: SimulatedProject) -> None:
    simulation.plan(PLAN)
    given = give(
        simulation,
        "orders: [a]\n"
        "verdicts: {is_large: false, count: 1, note: null}\n"
        "check_order: {is_large: true, count: 1, note: null}\n",
    )

    report = simulation.simulate("--fixtures", given)

    assert scenarios(report)["happy path"]["steps"]["large"] == "skipped"  # type: ignore[index, call-overload]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "verdicts:\n  - {is_large: true, count: 1}\n  - {is_large: yes please, count: 1, note: n}\n"
        ),
        pytest.param("orders: [a, 3]\n", id="an entry of a list"),
        pytest.param("orders: a\n", id="no list"),
        pytest.param("verdict: {is_large: true}\n", id="a misspelt step"),
        pytest.param("verdicts: []\n", id="nothing given"),
        pytest.param("[1, 2]\n", id="no mapping"),
    ],
)
def test_faulty_fixtures_are_refused_at_their_places(
    simulation: SimulatedProject, snapshot: SnapshotAssertion, tmp_path: Path, text: str
) -> None:
    simulation.plan(PLAN)

    answer = simulation.wavewright(
        "dry-run", "plan.yaml", "--simulate", "--fixtures", give(simulation, text)
    )

    assert answer.code == 2
    assert worded(answer, tmp_path) == snapshot


def test_a_fixture_file_that_is_not_there_is_misuse(simulation: SimulatedProject) -> None:
    simulation.plan(PLAN)

    answer = simulation.wavewright("dry-run", "plan.yaml", "--simulate", "--fixtures", "none.yaml")

    assert (answer.code, answer.out) == (2, "")
    assert "none.yaml" in answer.err
