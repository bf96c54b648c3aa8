from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st

from tests.reviewer.scripted_models import Scripted, ScriptedModels, cut_off
from wavewright.planner.ports.asking import AnswerRefused, Asking
from wavewright.planner.ports.conversation import Conversation, FittingAnswer, NoFittingAnswer
from wavewright.planner.ports.model_port import ModelAnswer, ModelCall, ModelError
from wavewright.planner.types import Json, JsonObject, as_object
from wavewright.prompts import Prompts, prompt_json
from wavewright.reviewer import asking_models as abridging
from wavewright.reviewer.asking_models import (
    OMITTED_KEY,
    AnswerModel,
    allot_chars,
    prompt_size,
    read_answer,
    read_whole,
    truncate,
)

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


JSON: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=12), inner, max_size=8)
    ),
    max_leaves=60,
)


def leaves(value: Json) -> Iterator[Json]:
    if isinstance(value, dict):
        for entry in value.values():
            yield from leaves(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from leaves(entry)
    else:
        yield value


@given(JSON, st.integers(40, 2000))
def test_what_is_abridged_is_json_of_about_the_size_that_there_is_room_for(
    value: Json, room: int
) -> None:
    shown = truncate(value, room)

    assert json.loads(prompt_json(shown)) == shown
    assert prompt_size(shown) <= max(room * 1.6, room + 120)


@given(JSON, st.integers(40, 2000))
def test_nothing_is_made_up_but_the_notes_on_what_is_left_out(value: Json, room: int) -> None:
    known = [leaf for leaf in leaves(value) if not isinstance(leaf, str)]
    texts = [leaf for leaf in leaves(value) if isinstance(leaf, str)]

    for leaf in leaves(truncate(value, room)):
        if isinstance(leaf, str):
            is_note = "left out" in leaf or any(
                word in leaf for word in ("entr", "fields", "{", "character")
            )
            assert leaf in texts or is_note
        else:
            assert leaf in known


def test_a_small_value_is_left_as_it_is() -> None:
    value: Json = {"a": [1, 2, {"b": "c"}]}

    assert truncate(value, 100) is value


def test_of_a_series_both_ends_are_kept_and_the_gap_is_counted() -> None:
    series: list[Json] = [{"day": day, "close": day * 1.5} for day in range(400)]
    shown = truncate(series, 600)

    assert isinstance(shown, list)
    assert shown[0] == series[0]
    assert shown[-1] == series[-1]
    gaps = [
        entry[OMITTED_KEY] for entry in shown if isinstance(entry, dict) and OMITTED_KEY in entry
    ]
    kept = len(shown) - len(gaps)
    assert gaps == [f"{400 - kept} entries"]


def test_the_entries_that_are_wanted_first_are_kept() -> None:
    series: list[Json] = [{"day": day} for day in range(400)]
    shown = truncate(series, 300, first=[250])

    assert isinstance(shown, list)
    assert {"day": 250} in shown


def test_of_a_very_long_list_only_what_may_be_kept_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured: list[Json] = []

    def counted(value: object) -> str:
        measured.append(value)  # type: ignore[arg-type]
        return prompt_json(value)

    monkeypatch.setattr(abridging, "prompt_json", counted)
    shown = truncate([{"n": number} for number in range(100_000)], 1000)

    assert isinstance(shown, list)
    assert shown[-1] == {"n": 99_999}
    assert len(measured) < 500


def test_positions_that_there_are_not_are_not_wanted() -> None:
    assert truncate([*range(400)], 200, first=[7, 4000]) == truncate([*range(400)], 200, first=[7])


def test_a_long_text_keeps_both_ends_at_words_and_says_how_much_is_missing() -> None:
    text = "lorem ipsum dolor " * 200
    shown = truncate(text, 300)

    assert isinstance(shown, str)
    head, _, rest = shown.partition(" …(")
    note, _, tail = rest.partition("… ")
    assert text.startswith(head + " ")
    assert text.endswith(" " + tail)
    assert note == f"{len(text) - len(head) - len(tail):,} more characters left out)"


@given(st.lists(st.integers(0, 500), max_size=12), st.integers(0, 3000))
def test_room_is_shared_out_to_whoever_needs_it(needs: list[int], room: int) -> None:
    shares = allot_chars(needs, room)

    assert sum(shares) <= room
    assert all(share <= need for share, need in zip(shares, needs, strict=True))
    assert sum(needs) > room or shares == needs


def test_of_a_long_text_the_passage_that_is_looked_for_is_kept_beside_head_and_tail() -> None:
    words = " ".join(f"word{number}" for number in range(900))
    long = f"HEAD {words} the revenue was 42 million and the price rose {words} TAIL"

    shown = truncate({"text": long}, 1500, words={"revenue", "price"})

    text = as_object(shown)["text"]
    assert isinstance(text, str)
    assert text.startswith("HEAD ")
    assert text.endswith(" TAIL")
    assert "the revenue was 42 million and the price rose" in text
    assert prompt_size(shown) <= 1500
    assert "revenue" not in str(truncate({"text": long}, 1500))


def test_fields_that_are_looked_for_are_kept_before_others() -> None:
    others: JsonObject = {f"other{number}": "x" * 80 for number in range(20)}
    fields: JsonObject = {**others, "price": "z" * 80}

    assert "price" in as_object(truncate(fields, 400, words={"price"}))
    assert "price" not in as_object(truncate(fields, 400))
