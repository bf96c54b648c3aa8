"""What goes wrong between us and a model, as a run sees it: it ends as it must, says why, and
counts the cost.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.model_runs.model_run_project import (
    ITS_PLAN,
    PLAN,
    TEMPLATE,
    ModelRunProject,
    review,
)
from tests.engine.stale_quotes_project import take_calls
from tests.support.provider_fault_cases import row
from tests.support.served_models import models_over, question
from wavewright.engine.rehearsal.fake_model.replies import (
    calling_tool,
    echo,
    failing,
    filtered,
    many_calls,
    no_choices,
    refusing,
)
from wavewright.engine.rehearsal.fake_model.request import FakeModelRequest
from wavewright.engine.rehearsal.fake_model.server import (
    API_KEY,
    FakeModelServer,
    asked_for,
    offering,
)
from wavewright.planner.types import Json, JsonObject


@pytest.fixture
def model_project(
    tmp_path: Path,
    wavewright: CommandLine,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> ModelRunProject:
    """The project, with the server as its model."""
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    made = ModelRunProject(tmp_path, wavewright)
    made.write()
    return made


def asked(server: FakeModelServer, schema: str) -> list[FakeModelRequest]:
    return [request for request in server.requests if request.schema_name == schema]


@row("ls05")
def test_a_planner_that_is_given_nothing_asks_again_counts_it_and_leaves_the_templates_plan(
    row_id: str, model_project: ModelRunProject, model_server: FakeModelServer
) -> None:
    model_project.write(
        template=f"{TEMPLATE}fallback_{ITS_PLAN}", settings="models: {attempts: 2}\n"
    )
    model_server.answer(no_choices(), when=asked_for("plan"))
    model_server.answer(review(), when=asked_for("review"))

    ran, package = model_project.run()

    assert ran.code == 0, ran.err
    assert package is not None
    assert package.rung == "template"
    planner = next(one.cost for one in package.model_uses.roles if one.name == "planner")
    assert planner.calls == planner.unanswered
    assert planner.attempts == len(asked(model_server, "plan"))
    assert planner.attempts >= 2
    assert planner.input_tokens > 0


@row("ls06")
def test_a_filtered_plan_is_on_record_as_refused_and_not_asked_for_again(
    row_id: str, model_project: ModelRunProject, model_server: FakeModelServer
) -> None:
    model_project.write(template=f"{TEMPLATE}fallback_{ITS_PLAN}")
    model_server.answer(filtered(), when=asked_for("plan"))
    model_server.answer(review(), when=asked_for("review"))

    ran, package = model_project.run()

    assert ran.code == 0, ran.err
    assert package is not None
    assert package.rung == "template"
    assert len(asked(model_server, "plan")) == 1
    [use] = [
        event["use"] for event in model_project.events("model_called") if _role(event) == "planner"
    ]
    assert isinstance(use, dict)
    assert use["outcome"] == "refused"


@row("ls07")
def test_a_refusal_in_words_ends_the_job_cleanly_after_few_questions(
    row_id: str, model_project: ModelRunProject, model_server: FakeModelServer
) -> None:
    model_server.answer(refusing(), when=asked_for("plan"))

    ran, package = model_project.run()

    assert ran.code == 1
    assert package is None
    assert 1 <= len(asked(model_server, "plan")) <= 2
    assert "refus" in ran.err
    assert "Traceback" not in ran.err
    assert take_calls(model_project.folder) == {}


@row("ls02")
def test_a_planner_whose_server_always_fails_leaves_the_templates_plan(
    row_id: str, model_project: ModelRunProject, model_server: FakeModelServer
) -> None:
    model_project.write(
        template=f"{TEMPLATE}fallback_{ITS_PLAN}", settings="models: {attempts: 2}\n"
    )
    model_server.answer(failing(503))

    ran, package = model_project.run()

    assert ran.code == 0, ran.err
    assert package is not None
    assert package.rung == "template"
    assert package.review is not None
    assert package.review.reviewer == "code"
    assert package.review.confidence <= 0.8


AGENT_TEMPLATE = TEMPLATE.replace("available_tools: [", "available_tools: [{name: agent}, ")
AGENT_PLAN: JsonObject = {
    "steps": [
        {
            "why": "an open question",
            "id": "found",
            "tool": "agent",
            "params": {"task": "Find the newest quote.", "tools": ["fetch"]},
        }
    ],
    "result": "${steps.found}",
}


@row("ls09")
def test_an_agent_step_calls_no_more_than_it_may_and_nothing_that_writes(
    row_id: str, model_project: ModelRunProject, model_server: FakeModelServer
) -> None:
    model_project.write(template=AGENT_TEMPLATE)
    model_server.answer(AGENT_PLAN, when=asked_for("plan"))
    model_server.answer(review(), when=asked_for("review"))
    model_server.answer(
        calling_tool("write_down", quotes=[], rate=1.0),
        many_calls("fetch", 200, lambda number: {"code": f"C{number}"}),
        when=offering("fetch"),
    )
    model_server.answer("Nothing new.")

    model_project.run()
    made = take_calls(model_project.folder)

    assert "write_down" not in made
    assert sum(made.values()) <= 30
    assert any("fetch" in request.tool_names for request in model_server.requests)
    assert all("write_down" not in request.tool_names for request in model_server.requests)


KNOWN_SHAPE = "ghp_" + "0123456789abcdefABCDEF0123456789abcd"


@row("ls13")
@pytest.mark.anyio
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_an_echo_has_no_secret_and_an_end(
    row_id: str, *, stream: bool, model_server: FakeModelServer, tmp_path: Path
) -> None:
    pieces: list[str] = []
    model_server.answer(echo)
    prompt = f"The key is {API_KEY}, the token {KNOWN_SHAPE}.\n" + "and so on\n" * 4_000
    async with models_over(model_server, tmp_path, max_output_tokens=1_000) as asking:
        answer = await asking.models.ask(
            question(prompt), on_use=asking.uses.append, on_text=pieces.append if stream else None
        )

    for said in (answer.text, "".join(pieces), repr(asking.uses)):
        assert API_KEY not in said
        assert KNOWN_SHAPE not in said
    assert "The key is" in answer.text
    assert len(answer.text) < len(prompt) / 2


@row("ls13")
def test_an_echoed_secret_is_in_nothing_that_planning_leaves(
    row_id: str, model_project: ModelRunProject, model_server: FakeModelServer
) -> None:
    (model_project.folder / "prompts" / "planner").mkdir(parents=True)
    (model_project.folder / "prompts" / "planner" / "instructions.md.j2").write_text(
        f"Plan. {API_KEY} {KNOWN_SHAPE}"
    )
    model_server.answer(echo)

    planned = model_project.wavewright("plan", "quotes.job.yaml", "--format", "json")
    ran, _ = model_project.run()
    kept = [
        file
        for file in model_project.folder.rglob("*")
        if file.is_file() and "prompts" not in file.parts
    ]

    assert len(model_server.requests) >= 2
    for secret in (API_KEY, KNOWN_SHAPE):
        assert all(secret not in told for told in (planned.out, planned.err, ran.out, ran.err))
        assert [file.name for file in kept if secret.encode() in file.read_bytes()] == []


@row("ls15")
@pytest.mark.parametrize("confidence", ["high", 1.7, -0.1, None, True], ids=str)
def test_a_review_whose_confidence_is_no_figure_is_asked_for_again_and_then_fails_safe(
    row_id: str, confidence: Json, model_project: ModelRunProject, model_server: FakeModelServer
) -> None:
    model_project.write(template=TEMPLATE + "limits: {rounds: 0}\n")
    model_server.answer(PLAN, when=asked_for("plan"))
    model_server.answer(review(confidence=confidence), when=asked_for("review"))

    ran, package = model_project.run()

    assert ran.code == 1
    assert package is not None
    assert package.status == "not_achieved"
    assert package.review is not None
    assert not package.review.goal_achieved
    assert package.review.unread_because
    assert 2 <= len(asked(model_server, "review")) <= 4
    assert "confidence" in asked(model_server, "review")[1].last


def test_a_review_that_is_right_at_its_second_try_counts(
    model_project: ModelRunProject, model_server: FakeModelServer
) -> None:
    model_server.answer(PLAN, when=asked_for("plan"))
    model_server.answer(review(confidence="high"), review(), when=asked_for("review"))

    ran, package = model_project.run()

    assert ran.code == 0, ran.err
    assert package is not None
    assert package.review is not None
    assert (package.review.reviewer, package.review.goal_achieved) == ("model", True)


@row("ls16")
@pytest.mark.parametrize("tool", ["run_shell", "erase_everything"])
def test_a_tool_that_the_goal_does_not_have_is_refused_to_a_reviewer_and_logged(
    row_id: str, tool: str, model_project: ModelRunProject, model_server: FakeModelServer
) -> None:
    request: JsonObject = {
        "action": "add_step",
        "step": "quotes",
        "tool": tool,
        "hint": "it knows more",
    }
    model_server.answer(PLAN, when=asked_for("plan"))
    model_server.answer(
        review(goal_achieved=False, confidence=0.1, recovery_actions=[request]),
        when=asked_for("review"),
    )
    model_server.answer({"cannot_plan": "there is no other tool"}, when=asked_for("patch"))

    ran, package = model_project.run()

    assert ran.code == 1
    assert package is not None
    assert package.review is not None
    assert [refused.tool for refused in package.review.refused_actions] == [tool]
    assert all(action.tool != tool for action in package.review.recovery_actions)
    assert all(tool not in request.text for request in asked(model_server, "patch"))
    notes = [event["body"] for event in model_project.events("noted") if event["topic"] == "review"]
    assert tool in json.dumps(notes)


def _role(event: JsonObject) -> Json:
    use = event["use"]
    assert isinstance(use, dict)
    return use["role"]
