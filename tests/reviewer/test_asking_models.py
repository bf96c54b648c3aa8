from __future__ import annotations

import pytest

from tests.reviewer.scripted_models import Scripted, ScriptedModels, cut_off
from wavewright.planner.ports.asking import AnswerRefused, Asking
from wavewright.planner.ports.conversation import Conversation, FittingAnswer, NoFittingAnswer
from wavewright.planner.ports.model_port import ModelAnswer, ModelCall, ModelError
from wavewright.prompts import Prompts
from wavewright.reviewer.asking_models import AnswerModel, read_answer, read_whole

pytestmark = pytest.mark.anyio


class Verdict(AnswerModel):
    good: bool
    score: float = 0.0


def read(text: str) -> Verdict:
    return read_answer(text, Verdict, ("good",))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"good": true, "score": 1}', id="bare"),
        pytest.param(
            'Sure!\n```json\n{"good": true, "score": 1}\n```\nHope {this} helps.',
            id="fenced_in_prose",
        ),
        pytest.param('[{"good": true, "score": 1}]', id="in_a_list"),
        pytest.param('{"name": "review", "arguments": {"good": true, "score": 1}}', id="tool_call"),
        pytest.param(
            '{"result": {"good": true, "score": 1,}} ', id="wrapped_with_a_comma_too_many"
        ),
        pytest.param(
            '{"good": true, "score": 1} and again {"score": 1, "good": true}', id="said_twice"
        ),
        pytest.param(
            '<think>{"good": false}</think>{"good": true, "score": 1}', id="after_reasoning"
        ),
        pytest.param('{"good": true, "score": 1, "reasoning": "because"}', id="more_fields"),
    ],
)
def test_an_answer_is_found_in_whatever_stands_around_it(text: str) -> None:
    assert read(text) == Verdict(good=True, score=1.0)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("", "holds no JSON object with 'good'", id="empty"),
        pytest.param("I cannot do that.", "holds no JSON object with 'good'", id="words"),
        pytest.param('{"score": 1}', "holds no JSON object with 'good'", id="another_object"),
        pytest.param('{"good": true} {"good": false}', "they differ", id="two_verdicts"),
        pytest.param('{"good": true, "good": false}', "says one thing twice", id="key_twice"),
        pytest.param('{"good": true, "score": 0.', "no number", id="cut_in_a_number"),
        pytest.param('{"good": true, "score": 1', "the text ends", id="not_closed"),
        pytest.param(
            '{"quoted": {"good": true}, oops', "holds no JSON object", id="part_of_what_is_broken"
        ),
        pytest.param('{"good": "true"}', "'good' should be true or false", id="text_for_a_truth"),
        pytest.param('{"good": 1}', "'good' should be true or false", id="number_for_a_truth"),
        pytest.param(
            '{"good": true, "score": "1"}', "'score' should be a number", id="text_for_a_number"
        ),
        pytest.param('{"good": true, "score": null}', "'score' should be a number", id="null"),
    ],
)
def test_what_is_no_answer_is_told_with_the_reason(text: str, fault: str) -> None:
    with pytest.raises(AnswerRefused) as told:
        read(text)

    assert fault in str(told.value)


CALL = ModelCall("reviewer", "reviewer", "be fair", "is it good?")
GOOD: Scripted = {"good": True}


async def ask(
    *script: Scripted, tries: int = 3
) -> tuple[FittingAnswer[Verdict] | NoFittingAnswer, ScriptedModels]:
    models = ScriptedModels(script)
    conversation = Conversation(
        Asking(models=models, prompts=Prompts()),
        CALL,
        read_whole(read),
        lambda _answer, refused: "mend: " + refused.faults[0],
    )
    return await conversation.ask_all(tries), models


async def test_what_was_wrong_is_told_and_the_next_answer_counts() -> None:
    answer, models = await ask({"good": "yes"}, GOOD)

    assert isinstance(answer, FittingAnswer)
    (turn,) = models.asked[1].turns
    assert turn.answer == '{"good": "yes"}'
    assert turn.reply == "mend: 'good' should be true or false, and is the string 'yes'"
    assert models.asked[1].prompt == CALL.prompt


async def test_the_tries_are_bounded() -> None:
    answer, models = await ask("no", "no", "no", "no", tries=3)

    assert isinstance(answer, NoFittingAnswer)
    assert len(models.asked) == 3


async def test_an_answer_that_was_cut_off_is_not_read_even_where_it_looks_whole() -> None:
    answer, models = await ask(cut_off('{"good": true}'), {"good": False})

    assert isinstance(answer, FittingAnswer)
    assert not answer.value.good
    assert "cut off" in models.asked[1].turns[0].reply


@pytest.mark.parametrize("kind", ["refused", "bad_answer"])
async def test_a_refusal_and_an_unusable_body_are_answers_that_do_not_fit(kind: str) -> None:
    answer, models = await ask(ModelError(kind, "the provider filtered it"), GOOD)  # type: ignore[arg-type]

    assert isinstance(answer, NoFittingAnswer)
    assert "the provider filtered it" in answer.faults[0]
    assert len(models.asked) == 1


async def test_a_model_that_cannot_be_reached_is_the_askers_to_mind() -> None:
    with pytest.raises(ModelError, match="no route"):
        await ask(ModelError("unreachable", "no route"))


async def test_who_gives_up_is_not_asked_again() -> None:
    models = ScriptedModels(["nothing to be done"])

    def give_up(text: str) -> Verdict:
        raise AnswerRefused([f"it says: {text}"], then="end")

    def reply(answer: ModelAnswer, refused: AnswerRefused) -> str:
        del answer, refused
        return ""

    asking = Asking(models=models, prompts=Prompts())
    answer = await Conversation(asking, CALL, read_whole(give_up), reply).ask_all(3)

    assert isinstance(answer, NoFittingAnswer)
    assert answer.faults == ("it says: nothing to be done",)
