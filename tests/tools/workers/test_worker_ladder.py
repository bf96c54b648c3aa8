"""The rungs of a worker: a model, its words, code, the least valid result; and what is told of
each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.tools.calling import request
from tests.tools.scripted_models import MODEL, Script, ScriptedModels, answer_of, project, serving
from wavewright.executor.budgets.memory import MemoryBudgetStore
from wavewright.planner.language.plan import Budget
from wavewright.planner.ports.fallback_ladder import (
    FallbackFailure,
    Ladder,
    Rung,
    RungRecord,
    RungTimeout,
)
from wavewright.planner.ports.model_port import ModelError, ModelUse, NamedCall, Role
from wavewright.planner.types import Json, JsonObject
from wavewright.tools import ToolError
from wavewright.tools.functions.injected import TextChunk
from wavewright.tools.functions.tool import Emission
from wavewright.tools.workers import (
    AnswerRefused,
    AnswerToFinish,
    Services,
    Worker,
    WorkerSpec,
    make_services,
    make_worker,
)
from wavewright.tools.workers.ask_model import model_questioner

SPEC = WorkerSpec(
    name="sort_letter",
    description="Say what a letter is about.",
    prompt="workers/sort_letter",
    input_schema={
        "type": "object",
        "required": ["letter"],
        "properties": {"letter": {"type": "string"}},
    },
    output_schema={
        "type": "object",
        "required": ["topic", "urgent", "method"],
        "additionalProperties": False,
        "properties": {
            "topic": {"enum": ["bill", "complaint"]},
            "urgent": {"type": "boolean"},
            "method": {"type": "string"},
        },
    },
)
GOOD: JsonObject = {"topic": "bill", "urgent": False}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    file = tmp_path / "prompts" / "workers" / "sort_letter.md.j2"
    file.parent.mkdir(parents=True)
    file.write_text("Sort this letter:\n{{ inputs.letter }}\n")
    return tmp_path


class WorkerHarness:
    """A worker over a scripted model, and all that it lets be known."""

    def __init__(
        self, home: Path, worker: Worker, *script: Script, without_model: bool = False
    ) -> None:
        self.services, self.models = serving(home, *(script or ("never asked",)))
        if without_model:
            self.services = make_services(project(home, model=None))
        self.worker = worker
        self.emitted: list[Emission] = []

    def call(
        self,
        params: JsonObject | None = None,
        *,
        budget: Budget | None = None,
        job: str | None = None,
        index: int | None = None,
    ) -> Json:
        tool = make_worker(self.worker, self.services)
        given: JsonObject = {"letter": "You owe us 5."} if params is None else params
        asked = replace(
            request(given), emit=self.emitted.append, budget=budget, job=job, index=index
        )
        return anyio.run(partial(tool.call, asked))

    @property
    def rungs(self) -> list[tuple[str, str]]:
        return [(one.rung, one.outcome) for one in self.emitted if isinstance(one, RungRecord)]

    @property
    def reasons(self) -> list[str]:
        return [one.reason for one in self.emitted if isinstance(one, RungRecord)]


def test_a_models_answer_that_fits_is_the_output_and_says_how_it_was_made(home: Path) -> None:
    harness = WorkerHarness(home, Worker(SPEC), GOOD)

    output = harness.call()

    assert output == {**GOOD, "method": "agent"}
    assert harness.rungs == [("agent", "reached")]


def test_the_model_is_asked_for_everything_but_how_the_output_was_made(home: Path) -> None:
    harness = WorkerHarness(home, Worker(SPEC), GOOD)

    harness.call()
    (asked,) = harness.models.asked

    assert asked.schema is not None
    assert asked.schema["properties"] == {
        "topic": {"enum": ["bill", "complaint"]},
        "urgent": {"type": "boolean"},
    }
    assert asked.schema["required"] == ["topic", "urgent"]
    assert (asked.role, asked.name, asked.rung) == ("worker", "sort_letter", "agent")


def test_each_call_and_each_rung_is_let_be_known(home: Path) -> None:
    harness = WorkerHarness(home, Worker(SPEC), "no JSON at all", GOOD)

    harness.call()

    assert [type(one) for one in harness.emitted] == [ModelUse, ModelUse, RungRecord]
    record = harness.emitted[-1]
    assert isinstance(record, RungRecord)
    assert (record.ladder, record.ceiling) == ("worker sort_letter", 1.0)


def test_an_answer_that_does_not_fit_is_sent_back_with_what_is_wrong(home: Path) -> None:
    harness = WorkerHarness(home, Worker(SPEC), {"topic": "weather"}, GOOD)

    output = harness.call()
    (turn,) = harness.models.asked[1].turns

    assert output == {**GOOD, "method": "agent"}
    assert turn.answer == '{"topic": "weather"}'
    assert "/topic" in turn.reply
    assert "lacks 'urgent'" in turn.reply


@pytest.mark.parametrize(
    "said",
    [
        pytest.param('```json\n{"topic": "bill", "urgent": false}\n```', id="code fence"),
        pytest.param(
            '<think>a {bill}?</think>\n{"topic": "bill", "urgent": false}', id="reasoning"
        ),
        pytest.param('{"topic": "bill", "urgent": false,}', id="trailing comma"),
        pytest.param("{'topic': 'bill', 'urgent': False}", id="Python"),
        pytest.param('{"answer": {"topic": "bill", "urgent": false}}', id="a field around it"),
        pytest.param('[{"topic": "bill", "urgent": false}]', id="a list of one"),
        pytest.param(
            r'{"thoughts": "a bill", "data": "{\"topic\": \"bill\", \"urgent\": false}"}',
            id="text beside thoughts",
        ),
        pytest.param(
            '{"Reasoning": "a bill", "topic": "bill", "urgent": false}', id="thoughts beside it"
        ),
    ],
)
def test_slips_of_form_are_read_past(home: Path, said: str) -> None:
    harness = WorkerHarness(home, Worker(SPEC), said)

    assert harness.call() == {**GOOD, "method": "agent"}


@pytest.mark.parametrize(
    ("kind", "wrong", "right"),
    [
        ("date", "2026-02-30", "2026-02-28"),
        ("time?", "24:30", "00:30"),
        ("datetime", "2027-02-29T10:00", "2027-03-01T10:00"),
        ({"list": {"at": "datetime"}}, [{"at": "2026-12-01T10:60"}], [{"at": "2026-12-01T11:00"}]),
        ({"$ref": "#/$defs/day", "$defs": {"day": {"format": "date"}}}, "soon", "2026-12-01"),
    ],
)
def test_a_day_or_a_time_that_there_is_not_is_asked_for_again(
    home: Path, kind: Json, wrong: Json, right: Json
) -> None:
    harness = WorkerHarness(home, model_questioner({}), {"at": wrong}, {"at": right})

    assert harness.call({"of": "a letter", "for": {"at": kind}}) == {"at": right}
    assert len(harness.models.asked) == 2


def test_a_word_that_may_stand_for_a_date_is_an_answer(home: Path) -> None:
    kind: Json = {"anyOf": [{"type": "string", "format": "date"}, {"enum": ["unknown"]}]}
    harness = WorkerHarness(home, model_questioner({}), {"at": "unknown"})

    assert harness.call({"of": "a letter", "for": {"at": kind}}) == {"at": "unknown"}
    assert len(harness.models.asked) == 1


def test_an_answer_among_words_is_taken_on_a_lower_rung_without_asking_again(home: Path) -> None:
    harness = WorkerHarness(
        home, Worker(SPEC), 'Sure! {"topic": "bill", "urgent": false} Anything else?'
    )

    output = harness.call()

    assert output == {**GOOD, "method": "suggested"}
    assert harness.rungs == [("agent", "fallen"), ("suggested", "reached")]
    assert len(harness.models.asked) == 1


def test_of_several_values_the_last_that_fits_counts(home: Path) -> None:
    said = '{"topic": "bill", "urgent": true} or rather {"topic": "bill", "urgent": false}, not {"topic": 1}'
    harness = WorkerHarness(home, Worker(SPEC), said)

    assert harness.call() == {**GOOD, "method": "suggested"}


def test_the_arguments_of_a_tool_that_it_called_instead_may_hold_the_answer(home: Path) -> None:
    calls = (NamedCall("sort", '{"topic": "bill", "urgent": false}'),)
    harness = WorkerHarness(home, Worker(SPEC), answer_of("", calls=calls))

    assert harness.call() == {**GOOD, "method": "suggested"}


def test_what_stands_inside_a_broken_answer_is_never_taken(home: Path) -> None:
    harness = WorkerHarness(
        home, Worker(SPEC), '{"letters": [{"topic": "bill", "urgent": false}, {"topic"'
    )

    with pytest.raises(ToolError, match="has no usable answer"):
        harness.call()


def test_a_cut_answer_is_asked_for_again_and_shorter(home: Path) -> None:
    cut = answer_of('{"topic": "bill", "urgent": false}', is_truncated=True)
    harness = WorkerHarness(home, Worker(SPEC), cut, GOOD)

    assert harness.call() == {**GOOD, "method": "agent"}
    assert "shorter" in harness.models.asked[1].turns[0].reply


def test_the_turns_of_repair_are_bounded(home: Path) -> None:
    once = WorkerHarness(home, Worker(SPEC.model_copy(update={"repairs": 0})), {"topic": 1})
    four = WorkerHarness(home, Worker(SPEC.model_copy(update={"repairs": 3})), {"topic": 1})

    for harness in (once, four):
        with pytest.raises(ToolError):
            harness.call()

    assert (len(once.models.asked), len(four.models.asked)) == (1, 4)


def test_the_ladder_says_how_often_a_worker_without_a_word_of_its_own_is_asked(home: Path) -> None:
    harness = WorkerHarness(home, Worker(SPEC), {"topic": 1})
    ladder = Ladder(name="worker", rungs=(Rung(name="agent", tries=5),))
    harness.services = replace(harness.services, ladder={"worker": ladder}.__getitem__)

    with pytest.raises(ToolError):
        harness.call()

    assert len(harness.models.asked) == 5


def test_a_refusal_in_words_is_not_asked_again(home: Path) -> None:
    harness = WorkerHarness(home, Worker(SPEC), "I'm sorry, but I can't help with that letter.")

    with pytest.raises(ToolError, match="the model declined") as failed:
        harness.call()

    assert failed.value.hint is not None
    assert "ask another model" in failed.value.hint
    assert len(harness.models.asked) == 1


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("I'm sorry, but I can't help with that letter.", id="in words"),
        pytest.param(ModelError("refused", "the provider's filter"), id="by the provider"),
    ],
)
def test_a_model_that_refuses_is_followed_by_the_next_one(
    home: Path, line: str | ModelError
) -> None:
    harness = WorkerHarness(home, Worker(SPEC), line, GOOD)
    harness.models.fallbacks = ("scripted:two",)

    assert harness.call() == {**GOOD, "method": "agent"}
    assert [call.preference for call in harness.models.asked] == ["auto", "scripted:two"]
    assert harness.models.asked[1].turns == ()


def test_where_the_model_fails_code_makes_what_it_can(home: Path) -> None:
    worker = Worker(
        SPEC, generate=lambda params: {"topic": "bill", "urgent": "!" in str(params["letter"])}
    )
    harness = WorkerHarness(home, worker, ModelError("unreachable", "nobody answers"))

    output = harness.call({"letter": "Pay!"})

    assert output == {"topic": "bill", "urgent": True, "method": "generated"}
    assert harness.rungs == [("agent", "fallen"), ("suggested", "fallen"), ("generated", "reached")]
    assert harness.reasons[0] == "nobody answers"


def test_what_code_made_is_held_against_the_schema_too(home: Path) -> None:
    harness = WorkerHarness(
        home, Worker(SPEC, generate=lambda _: {"topic": "love"}), ModelError("timeout", "too slow")
    )

    with pytest.raises(ToolError):
        harness.call()

    assert harness.rungs[-1] == ("generated", "fallen")


def test_the_least_valid_result_is_forced_only_where_it_is_declared(home: Path) -> None:
    spec = SPEC.model_copy(update={"forced": {"topic": "complaint", "urgent": True}})
    worker = Worker(spec, generate=lambda _: FallbackFailure("it is no letter"))
    harness = WorkerHarness(home, worker, ModelError("timeout", "too slow"))

    output = harness.call()

    assert output == {"topic": "complaint", "urgent": True, "method": "forced"}
    assert harness.rungs[-2:] == [("generated", "fallen"), ("forced", "reached")]


def test_a_rung_that_the_ladder_leaves_out_is_not_tried(home: Path) -> None:
    harness = WorkerHarness(
        home, Worker(SPEC, generate=lambda _: GOOD), ModelError("timeout", "too slow")
    )
    ladder = Ladder(name="worker", rungs=(Rung(name="agent"),))
    harness.services = replace(harness.services, ladder={"worker": ladder}.__getitem__)

    with pytest.raises(ToolError, match="too slow"):
        harness.call()


@pytest.mark.parametrize(
    ("error", "transient", "hint"),
    [
        pytest.param(ModelError("overloaded", "429", retry_after=7), True, None, id="overloaded"),
        pytest.param(
            ModelError("unreachable", "no route", hint="look at it"), True, "look at it", id="hint"
        ),
        pytest.param(
            ModelError("over_budget", "of the day"), False, "raise the budget", id="budget"
        ),
        pytest.param(ModelError("denied", "bad key"), False, "key", id="denied"),
        pytest.param(ModelError("refused", "no"), False, "declined", id="refused"),
    ],
)
def test_an_error_of_the_model_stays_what_it_is(
    home: Path, error: ModelError, *, transient: bool, hint: str | None
) -> None:
    harness = WorkerHarness(home, Worker(SPEC), error)

    with pytest.raises(ToolError, match="'sort_letter' has no answer from its model") as failed:
        harness.call()

    assert failed.value.transient is transient
    assert failed.value.retry_after == error.retry_after
    assert (hint or "") in (failed.value.hint or "")


def test_without_a_model_the_mend_is_named_and_no_rung_was_tried(home: Path) -> None:
    harness = WorkerHarness(home, Worker(SPEC), without_model=True)

    with pytest.raises(ToolError, match="'sort_letter' needs a model") as failed:
        harness.call()

    assert "set WAVEWRIGHT_MODEL" in (failed.value.hint or "")
    assert harness.emitted == []


def test_without_a_model_code_does_what_it_can(home: Path) -> None:
    harness = WorkerHarness(home, Worker(SPEC, generate=lambda _: GOOD), without_model=True)

    assert harness.call() == {**GOOD, "method": "generated"}
    assert harness.rungs == [("generated", "reached")]


def test_a_preference_that_names_no_model_is_told_with_those_there_are(home: Path) -> None:
    harness = WorkerHarness(
        home, Worker(SPEC.model_copy(update={"model_preference": "nobody"})), GOOD
    )

    with pytest.raises(ToolError, match="no model is called 'nobody'") as failed:
        harness.call()

    assert failed.value.hint == "preferences: auto, flash, pro"


def test_a_workers_own_preference_goes_before_the_goals(home: Path) -> None:
    own = SPEC.model_copy(update={"model_preference": "pro", "thinking_level": "high"})
    first, second = WorkerHarness(home, Worker(SPEC), GOOD), WorkerHarness(home, Worker(own), GOOD)
    for harness in (first, second):
        harness.services = replace(harness.services, preference="flash", thinking="minimal")
        harness.call()

    assert [
        (a.preference, a.thinking) for a in (first.models.asked[0], second.models.asked[0])
    ] == [
        ("flash", "minimal"),
        ("pro", "high"),
    ]


def test_an_answer_is_held_to_its_share_of_the_tokens_and_to_the_ceiling(home: Path) -> None:
    small, large = (
        WorkerHarness(home, Worker(SPEC.model_copy(update={"token_share": share})), GOOD)
        for share in (0.01, 1.0)
    )
    for harness in (small, large):
        harness.call()

    assert small.models.asked[0].max_tokens == 500
    assert large.models.asked[0].max_tokens == 16_000


def test_what_a_step_may_spend_goes_with_the_question(home: Path) -> None:
    harness = WorkerHarness(home, Worker(SPEC), GOOD)

    harness.call(budget=Budget(tokens=100), job="the job", index=3)
    (asked,) = harness.models.asked

    assert (asked.budget, asked.job, asked.step, asked.index) == (
        Budget(tokens=100),
        "the job",
        "step",
        3,
    )


class Slow(MemoryBudgetStore):
    """A budget store in which calls took long."""

    async def past_seconds(self, model: str, role: Role) -> Sequence[float]:
        assert (model, role) == (MODEL, "worker")
        return [40.0] * 20


def timeout_of(services: Services, models: ScriptedModels, spec: WorkerSpec, letter: str) -> float:
    anyio.run(make_worker(Worker(spec), services).call, request({"letter": letter}))
    timeout = models.asked[-1].timeout
    assert timeout is not None
    return timeout


def test_the_clock_grows_with_the_question_and_with_what_calls_took_before(home: Path) -> None:
    services, models = serving(home, GOOD)
    clock = RungTimeout(base=10, per_1000_chars=1, of_past=3, least=1, most=600)
    services = replace(
        services,
        ladder={
            "worker": Ladder(name="worker", rungs=(Rung(name="agent", clock=clock),))
        }.__getitem__,
    )

    short = timeout_of(services, models, SPEC, "x")
    long = timeout_of(services, models, SPEC, "x" * 50_000)
    slow = timeout_of(replace(services, budget_store=Slow()), models, SPEC, "x")
    bounded = timeout_of(
        replace(services, budget_store=Slow()),
        models,
        SPEC.model_copy(update={"timeout": 50.0}),
        "x",
    )

    assert 9 < short < 11
    assert 59 < long < 62
    assert 119 < slow <= 120
    assert 44 < bounded <= 45  # the rungs below have the rest of the step's time


def test_an_output_is_shown_while_it_is_written_where_that_is_declared(home: Path) -> None:
    shown, silent = (
        WorkerHarness(home, Worker(SPEC.model_copy(update={"stream": stream})), GOOD)
        for stream in (True, False)
    )
    for harness in (shown, silent):
        harness.call()
    pieces = [
        [one.text for one in harness.emitted if isinstance(one, TextChunk)]
        for harness in (shown, silent)
    ]

    assert "".join(pieces[0]).strip() == '{"topic": "bill", "urgent": false}'
    assert pieces[1] == []


def test_an_answer_that_code_refuses_is_sent_back_and_in_the_end_saved_as_far_as_it_goes(
    home: Path,
) -> None:
    seen: list[bool] = []

    def finish(found: AnswerToFinish) -> Json:
        seen.append(found.is_last)
        if not found.is_last:
            raise AnswerRefused(["say it louder"])
        assert isinstance(found.answer, dict)
        return {**found.answer, "urgent": True}

    harness = WorkerHarness(
        home, Worker(SPEC.model_copy(update={"repairs": 1}), finish=finish), GOOD
    )

    assert harness.call() == {"topic": "bill", "urgent": True, "method": "agent"}
    assert seen == [False, True]
    assert "say it louder" in harness.models.asked[1].turns[0].reply


def test_a_prompt_that_asks_for_what_there_is_not_is_told_with_its_place(home: Path) -> None:
    file = home / "prompts" / "workers" / "sort_letter.md.j2"
    file.write_text("Sort this:\n{{ inputs.lettre }}\n")
    harness = WorkerHarness(home, Worker(SPEC), GOOD)

    with pytest.raises(ToolError, match=r"sort_letter\.md\.j2:2: .*lettre"):
        harness.call()

    assert harness.models.asked == []
