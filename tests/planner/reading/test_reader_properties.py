"""Laws of the tolerant reader, on arbitrary text and on plans with dirt on them.

Dirt that keeps the meaning gives the same plan. Dirt that breaks it gives a refusal or the same
plan: never a third.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import cast

from hypothesis import given, settings, strategies as st

from tests.crash.run_size import volume
from wavewright.planner.language.plan import Plan
from wavewright.planner.reading.reader import read_model_answer, read_plan
from wavewright.planner.types import Json, JsonObject

ids = st.sampled_from(["a", "b", "ab", "sky", "note_1", "steps_2", "id", "toolbox", "zz9"])
texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6
) | st.sampled_from(
    [
        "it's",
        'say "x"',
        "// no",
        "{a: 1}",
        "[1,]",
        "```",
        "<think>",
        "${steps.a}",
        "a\nb",
        "“x”",
        "\\",
        '{"steps": []}',
    ]
)
literals: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ids, inner, max_size=3),
    max_leaves=4,
)


@st.composite
def plans(draw: st.DrawFn) -> JsonObject:
    names = draw(st.lists(ids, min_size=1, max_size=6, unique=True))
    steps: list[Json] = []
    for position, name in enumerate(names):
        step: JsonObject = {
            "id": name,
            "tool": draw(st.sampled_from(["read_sensor", "write_note"])),
        }
        step["params"] = draw(st.dictionaries(ids, literals, max_size=3))
        step["depends_on"] = cast(
            "list[Json]", draw(st.lists(st.sampled_from(names[: position + 1]), unique=True))
        )
        if draw(st.booleans()):
            step["why"] = draw(texts)
        steps.append(step)
    plan: JsonObject = {"steps": steps}
    if draw(st.booleans()):
        plan["goal"] = draw(texts)
    return plan


def written(plan: JsonObject) -> st.SearchStrategy[str]:
    """Return ways to write a plan as strict JSON."""
    indents = st.sampled_from([None, 1, 4])
    return st.one_of(
        indents.map(lambda indent: json.dumps(plan, indent=indent)),
        indents.map(lambda indent: json.dumps(plan, indent=indent, ensure_ascii=False)),
    )


STRING = r'"(?:[^"\\]|\\.)*"'


def outside_strings(text: str, change: Callable[[str], str]) -> str:
    """Change what stands between the strings of a JSON text."""
    parts = re.split(f"({STRING})", text)
    return "".join(part if index % 2 else change(part) for index, part in enumerate(parts))


def keys_without_quotes(text: str) -> str:
    return re.sub(
        rf"{STRING}(\s*:)?", lambda found: _bare(found[0]) if found[1] else found[0], text
    )


def _bare(key: str) -> str:
    bare = re.fullmatch(r'"([A-Za-z_$][A-Za-z0-9_$]*)"(\s*:)', key)
    return bare[1] + bare[2] if bare else key


KEEPS: list[Callable[[str], str]] = [
    lambda text: f"```json\n{text}\n```",
    lambda text: f"Here is what I will do (see [1] and {{x}}):\n{text}",
    lambda text: f"{text}\nThat should do {{}}",
    lambda text: f'<think>or rather {{"steps": [{{}}]}}?</think>{text}',
    lambda text: f'{{"mood": "calm"}}\n{text}',
    lambda text: f"{text}\n{text}",
    lambda text: f"{text}}}]",
    lambda text: outside_strings(text, lambda part: part.replace("}", ",}").replace("{,}", "{}")),
    lambda text: outside_strings(text, lambda part: part.replace("{", "{ /* { */ ")),
    lambda text: outside_strings(text, lambda part: part.replace(",", ", // }\n")),
    lambda text: outside_strings(text, lambda part: part.replace(":", ":\u00a0\u200b")),
    lambda text: outside_strings(text, lambda part: part.replace("true", "True").replace("null", "None")),
    lambda text: outside_strings(text, lambda part: re.sub(r"\}\s*,\s*\{", "}\n{", part)),
    keys_without_quotes,
    lambda text: text.replace('"depends_on":', '"dependsOn":').replace('"params":', '"args":'),
    lambda text: json.dumps({"plan": json.loads(text)}),
    lambda text: json.dumps({"name": "submit", "arguments": text}),
    json.dumps,
]  # fmt: skip
"""Dirt that a reader takes off, as a function of strict JSON."""

BREAKS: list[Callable[[str], str]] = [
    lambda text: text.replace('"steps":', '"steps": [], "steps":', 1),
    lambda text: text.replace('"tool":', '"tool": "other", "tool":', 1),
    lambda text: text + text.replace('"id": "', '"id": "x', 1),
    lambda text: text.replace('"params":', '"args": {}, "params":', 1),
    lambda text: text.replace('"id": "', '"id": "\u0430', 1),
    lambda text: outside_strings(text, lambda part: part.replace("]}", "]}]}")),
    lambda text: outside_strings(text, lambda part: re.sub(r"\}\s*,\s*\{", "}]}, {", part)),
    lambda text: outside_strings(text, lambda part: part.replace("}", "")),
    lambda text: outside_strings(text, lambda part: part.replace("]", "")),
    lambda text: outside_strings(text, lambda part: part.replace("[", "")),
    lambda text: text.replace('"', "", 1),
    lambda text: f'{{"a": {{"b": {text}}}}}',
    lambda text: text.replace('"params": {', '"params": {"n": 1e999, ', 1),
]
"""Dirt that must never make another plan."""


def plan_of(text: str) -> Plan | None:
    return read_model_answer(text).plan


@given(
    st.text() | st.binary() | st.text("{}[]()\"'“”:,/*#\\`<>think stepolid019.-eNaN\n", max_size=60)
)
def test_any_text_is_read_or_refused(answer: str | bytes) -> None:
    text = read_model_answer(answer)

    assert (text.plan is None) == bool(text.diagnostics)


@given(plans().flatmap(lambda plan: st.tuples(st.just(plan), written(plan))))
def test_a_plan_in_strict_json_is_read_as_it_is(given_: tuple[JsonObject, str]) -> None:
    plan, text = given_
    read = read_model_answer(text)

    assert read.repairs == ()
    assert read.plan == Plan.model_validate(plan)
    assert read.plan == read_plan(text, "plan.json").plan


@settings(max_examples=volume(50, 200))
@given(plans().flatmap(written), st.sampled_from(KEEPS))
def test_dirt_that_keeps_the_meaning_gives_the_same_plan(
    text: str, dirt: Callable[[str], str]
) -> None:
    assert plan_of(dirt(text)) == plan_of(text)


@given(plans().flatmap(written), st.sampled_from(KEEPS[:7]), st.sampled_from(KEEPS))
def test_dirt_upon_dirt_gives_the_same_plan_or_none(
    text: str, outer: Callable[[str], str], inner: Callable[[str], str]
) -> None:
    dirty = plan_of(outer(inner(text)))

    assert dirty is None or dirty == plan_of(text)


@settings(max_examples=volume(50, 200))
@given(plans().flatmap(written), st.sampled_from(BREAKS))
def test_dirt_that_breaks_the_meaning_never_makes_another_plan(
    text: str, dirt: Callable[[str], str]
) -> None:
    broken = plan_of(dirt(text))

    assert broken is None or broken == plan_of(text)


@settings(max_examples=volume(50, 200))
@given(plans().flatmap(written), st.floats(0, 1))
def test_a_cut_plan_never_has_other_steps(text: str, share: float) -> None:
    cut, plan = plan_of(text[: int(len(text) * share)]), plan_of(text)

    assert plan is not None
    assert cut is None or cut.steps == plan.steps


@given(plans().flatmap(written), st.floats(0, 1), st.sampled_from(list("{}[]\"',:#/\\ \n1")))
def test_one_more_character_makes_no_other_steps(text: str, share: float, char: str) -> None:
    place = int(len(text) * share)
    changed = plan_of(text[:place] + char + text[place:])
    plan = plan_of(text)

    assert plan is not None
    assert changed is None or len(changed.steps) == len(plan.steps)


@given(plans().flatmap(written), st.sampled_from(KEEPS))
def test_reading_what_was_read_changes_nothing(text: str, dirt: Callable[[str], str]) -> None:
    plan = plan_of(dirt(text))
    assert plan is not None

    again = read_plan(plan.model_dump_json(by_alias=True, exclude_none=True), "again.json").plan

    assert again == plan
