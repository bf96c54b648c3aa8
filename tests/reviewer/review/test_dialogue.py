from __future__ import annotations

from tests.reviewer.scripted_runs import ScriptedRun, goal_for, plan_of, run_plan
from wavewright.planner.ports.truncation import OMITTED_KEY, prompt_size
from wavewright.planner.types import Json, JsonObject
from wavewright.reviewer.review.dialogue import Digest, digest_run
from wavewright.reviewer.review.results import ReviewedRun, read_result


def digest(run: ScriptedRun, tokens: int) -> Digest:
    reviewed = ReviewedRun(run.plan, run.goal, run.state, run.tools)
    return digest_run(reviewed, read_result(reviewed), tokens=tokens)


def long_rows(name: str) -> list[Json]:
    return [{"name": name, "n": n, "text": "word " * 10} for n in range(200)]


def wide_run() -> ScriptedRun:
    plan = plan_of(
        {"id": "early"},
        {"id": "judged", "depends_on": ["early"]},
        {"id": "red", "depends_on": ["early"]},
        {"id": "last", "depends_on": ["judged", "red"]},
        gates=[
            {"id": "warned", "on": "red", "check": "false", "severity": "warn"},
            {"id": "style", "on": "judged", "judge": {"rubric": "Is it clear?"}},
        ],
    )
    return run_plan(plan, {name: long_rows(name) for name in ("early", "judged", "red", "last")})


def test_outputs_with_open_gates_come_first_then_the_result_then_the_rest() -> None:
    assert [output.name for output in digest(wide_run(), 30_000).outputs] == [
        "judged",
        "red",
        "last",
        "early",
    ]


def test_what_is_shown_keeps_to_the_tokens_and_every_part_says_whether_it_is_whole() -> None:
    for tokens in (500, 2_000, 8_000, 200_000):
        found = digest(wide_run(), tokens)

        assert sum(prompt_size(output.value) for output in found.outputs) <= tokens * 4
        assert all(
            output.is_whole == (OMITTED_KEY not in str(output.value)) for output in found.outputs
        )
    assert all(output.is_whole for output in digest(wide_run(), 200_000).outputs)


def test_outputs_without_room_are_named_with_their_shape() -> None:
    found = digest(wide_run(), 150)

    assert [output.name for output in found.outputs] == ["judged"]
    assert found.left_out == (
        ("red", "200 entries"),
        ("last", "200 entries"),
        ("early", "200 entries"),
    )


def test_items_that_a_gate_is_red_on_are_kept_before_the_others() -> None:
    stocks: list[Json] = [{"code": f"S{n}"} for n in range(100)]
    plan = plan_of(
        {"id": "prices", "for_each": "${inputs.stocks}"},
        gates=[{"id": "g", "on": "prices", "check": "output.n != 57"}],
    )
    goal = goal_for(plan, inputs={"stocks": stocks}, targets={"key": "code"})
    run = run_plan(
        plan, {"prices": [{"n": n, "text": "word " * 30} for n in range(100)]}, goal=goal
    )
    (output,) = digest(run, 600).outputs

    assert isinstance(output.value, dict)
    assert "57 S57" in output.value
    assert str(output.value[OMITTED_KEY]).endswith("of 100 fields")
    (gate,) = digest(run, 600).gates
    assert gate["found"] == [{"message": "output.n != 57 is false (output.n = 57)", "item": "S57"}]


def test_a_result_that_is_a_steps_output_is_told_once() -> None:
    b: JsonObject = {"id": "b", "depends_on": ["a"]}
    plan = plan_of({"id": "a"}, b, result="${steps.b}")
    named: JsonObject = {"a": {"x": 1}, "b": {"y": 2}}

    assert [output.name for output in digest(run_plan(plan, named), 1000).outputs] == ["b", "a"]
    both = plan_of({"id": "a"}, b, result={"x": "${steps.a.x}", "y": "${steps.b.y}"})
    assert [output.name for output in digest(run_plan(both, named), 1000).outputs] == [
        "result",
        "b",
        "a",
    ]


def test_every_step_is_told_with_its_reason_and_its_end() -> None:
    plan = plan_of(
        {"id": "a", "why": "it is needed", "optional": True}, {"id": "b", "when": "false"}
    )

    assert digest(run_plan(plan, {"a": 1}), 1000).steps == (
        {"id": "a", "tool": "look", "status": "ok", "why": "it is needed", "optional": True},
        {"id": "b", "tool": "look", "status": "skipped", "reason": "its condition is false"},
    )
