"""The loop of those who ask: what is told a model, who is asked after it, and until when."""

from __future__ import annotations

import pytest

from tests.planner.planning_case import Line, ScriptedModels, said
from wavewright.planner.ports.asking import AnswerRefused, Asking, RefusedAnswer
from wavewright.planner.ports.conversation import Conversation, FittingAnswer, NoFittingAnswer
from wavewright.planner.ports.model_port import ModelAnswer, ModelCall, ModelError, NamedCall
from wavewright.prompts.templates import Prompts

pytestmark = pytest.mark.anyio

CALL = ModelCall("reviewer", "reviewer", "be fair", "how many are there?", rung="model")


def read(answer: ModelAnswer, tries_left: int) -> tuple[int, int]:
    if answer.text == "none of it":
        raise AnswerRefused(["it says that there is none"], then="end")
    if answer.text == "I will not":
        raise AnswerRefused(["the model declined"], then="next_model")
    if not answer.text.isdecimal():
        raise AnswerRefused([f"{answer.text!r} is no number"])
    return int(answer.text), tries_left


def smaller() -> ModelCall:
    return ModelCall("reviewer", "reviewer", "be fair", "how many?")


def conversation(
    *lines: Line, fallbacks: tuple[str, ...] = (), call: ModelCall = CALL
) -> tuple[Conversation[tuple[int, int]], ScriptedModels, list[RefusedAnswer]]:
    models, refused = ScriptedModels(lines, fallbacks=fallbacks), list[RefusedAnswer]()
    asking = Asking(models=models, prompts=Prompts(), on_refused=refused.append)
    talk = Conversation(
        asking, call, read, lambda _answer, refusal: f"mend: {refusal}", smaller=smaller
    )
    return talk, models, refused


async def test_the_reader_knows_how_many_tries_are_left() -> None:
    talk, models, refused = conversation("two", "three", "3")

    assert await talk.ask_all(4) == FittingAnswer((3, 1), "scripted:one")
    assert [turn.reply for turn in models.asked[2].turns] == [
        "mend: 'two' is no number",
        "mend: 'three' is no number",
    ]
    assert [(answer.rung, answer.text) for answer in refused] == [
        ("model", "two"),
        ("model", "three"),
    ]


async def test_a_later_question_replies_to_what_was_refused_before() -> None:
    talk, models, _ = conversation("two", "2")

    assert isinstance(await talk.ask(), NoFittingAnswer)
    assert await talk.ask() == FittingAnswer((2, 0), "scripted:one")
    assert [turn.answer for turn in models.asked[1].turns] == ["two"]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(["two", "three", "4"], id="its tries are used up"),
        pytest.param(["I will not", "4"], id="it refuses in words"),
        pytest.param([ModelError("refused", "the provider's filter"), "4"], id="it is refused"),
        pytest.param([ModelError("bad_answer", "no JSON came"), "4"], id="it cannot be read"),
    ],
)
async def test_the_next_model_gets_the_question_as_it_was_first(lines: list[Line]) -> None:
    talk, models, _ = conversation(*lines, fallbacks=("scripted:two",))

    answer = await talk.ask_all(2)

    assert isinstance(answer, FittingAnswer)
    assert answer.value[0] == 4
    assert models.asked[-1].preference == "scripted:two"
    assert models.asked[-1].turns == ()


async def test_where_an_answer_ends_it_nobody_is_asked_again() -> None:
    talk, models, _ = conversation("none of it", "4", fallbacks=("scripted:two",))

    answer = await talk.ask_all(2)

    assert isinstance(answer, NoFittingAnswer)
    assert answer.faults == ("it says that there is none",)
    assert len(models.asked) == 1


async def test_what_the_first_model_said_counts_where_no_other_can_be_asked() -> None:
    talk, _, _ = conversation(
        "two", ModelError("unreachable", "no route"), fallbacks=("scripted:two",)
    )

    answer = await talk.ask_all(1)

    assert isinstance(answer, NoFittingAnswer)
    assert answer.faults == ("'two' is no number",)


async def test_without_time_no_question_is_put() -> None:
    call = ModelCall("worker", "count", "be fair", "how many are there?", timeout=0.0)
    talk, models, _ = conversation("2", fallbacks=("scripted:two",), call=call)

    answer = await talk.ask_all(2)

    assert isinstance(answer, NoFittingAnswer)
    assert answer.faults[-1] == "no time was left to ask again"
    assert models.asked == []


async def test_a_question_that_exceeds_the_context_is_smaller_from_then_on() -> None:
    too_long = ModelError("over_context", "too long")
    talk, models, _ = conversation(too_long, "two", "2")

    assert isinstance(await talk.ask_all(2), FittingAnswer)
    assert [call.prompt for call in models.asked] == [
        "how many are there?",
        "how many?",
        "how many?",
    ]
    assert {call.rung for call in models.asked} == {"model"}


async def test_a_smaller_question_that_exceeds_the_context_too_is_not_made_smaller_again() -> None:
    talk, models, _ = conversation(ModelError("over_context", "too long"))

    with pytest.raises(ModelError, match="too long"):
        await talk.ask_all(3)

    assert len(models.asked) == 2


async def test_a_model_that_calls_tools_or_says_nothing_is_told_what_it_said() -> None:
    calls = [NamedCall("count", '{"of": "sheep"}')]
    talk, models, _ = conversation(said("", calls=calls), said(" "), "2")

    assert isinstance(await talk.ask_all(3), FittingAnswer)
    assert [turn.answer for turn in models.asked[2].turns] == [
        '[{"name": "count", "arguments": "{\\"of\\": \\"sheep\\"}"}]',
        "(the answer was empty)",
    ]
