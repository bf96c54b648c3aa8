"""Plain paths are read without the grammar, and what is read is what the grammar reads."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from wavewright.planner.cel.embedded import EmbeddedExpression, reads, split_references
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.parser import parse_expression
from wavewright.planner.cel.plain_paths import Read, is_plain_path, plain_read
from wavewright.planner.cel.reads import reads_of_tree
from wavewright.planner.language.plan import Step
from wavewright.planner.plans.uses import step_reads
from wavewright.planner.types import StepId

_WORDS = st.sampled_from(
    ["steps", "inputs", "item", "index", "output", "a", "_b1", "in", "true", "null", "int", "map", "size",
     "math", "as", "inner", "falsehood", "é", "1", ""]
)  # fmt: skip
_JOINTS = st.sampled_from([".", ".", ".", "[0]", "()", " ", " . ", "..", "+", "?", "\n", "//", '"'])


def _joined(first: str, rest: list[tuple[str, str]]) -> str:
    return first + "".join(joint + word for joint, word in rest)


_EXPRESSIONS = st.builds(_joined, _WORDS, st.lists(st.tuples(_JOINTS, _WORDS), max_size=12))
_DOTTED = st.builds(
    _joined,
    st.sampled_from(["steps", "inputs", "item", "output"]),
    st.lists(st.tuples(st.just("."), _WORDS), max_size=12),
)


def _by_the_grammar(expression: str) -> tuple[Read, ...] | tuple[str, str]:
    try:
        return reads_of_tree(expression)
    except ExpressionError as fault:
        return fault.kind, fault.message


@given(_EXPRESSIONS | _DOTTED)
def test_a_plain_path_reads_what_the_grammar_says(expression: str) -> None:
    plain = plain_read(expression)

    assert plain is None or (plain,) == _by_the_grammar(expression + " ")


@given(_DOTTED.filter(is_plain_path))
def test_the_tree_of_a_plain_path_is_that_of_the_grammar(expression: str) -> None:
    # Whoever writes a space behind a path has it read by the grammar.
    assert parse_expression(expression) == parse_expression(expression + " ")


@pytest.mark.parametrize(
    "expression", ["steps.prices", "steps.prices.close.last", "inputs.code", "item.code"]
)
def test_the_usual_paths_are_plain(expression: str) -> None:
    assert plain_read(expression) is not None


@pytest.mark.parametrize("word", ["in", "true", "false", "null"])
def test_words_that_cannot_follow_a_dot_are_refused_as_before(word: str) -> None:
    with pytest.raises(ExpressionError, match="cannot follow a dot"):
        reads(f"steps.{word}")


@given(st.text(st.sampled_from("ab.[]0_$"), max_size=12))
def test_text_that_is_one_reference_splits_as_it_does_among_others(inner: str) -> None:
    alone = split_references(f"${{{inner}}}")
    beside = split_references(f" ${{{inner}}}")

    assert alone == tuple(
        EmbeddedExpression(part.expression, part.start - 1, part.end - 1, part.offset - 1)
        for part in beside
        if isinstance(part, EmbeddedExpression)
    )


@given(_EXPRESSIONS | _DOTTED)
def test_a_step_waits_for_the_same_whether_its_text_is_a_plain_path_or_not(expression: str) -> None:
    alone = Step(id=StepId("x"), tool="t", params={"p": f"${{{expression}}}"})
    spaced = Step(id=StepId("x"), tool="t", params={"p": f"${{{expression} }}"})

    assert step_reads(alone) == step_reads(spaced)
