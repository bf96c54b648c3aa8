"""Plans that the checker accepts fit the schema of their goal, but for the limits that it names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings, strategies as st

from tests.crash.run_size import volume
from tests.planner.planning_case import goal_of
from wavewright.config.settings import load_settings
from wavewright.engine.run.project.tools import tools_of_plan
from wavewright.planner.checks.checker import errors_in
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.planning.goal_schema import goal_plan_schema
from wavewright.planner.planning.prompt import emit_schema
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.uses import holds_expression
from wavewright.planner.reading.reader import read_plan_file
from wavewright.planner.schemas.validation import SchemaViolation, validator_of
from wavewright.planner.types import Json, JsonObject, JsonSchema, as_list, as_object

ROOT: Final = Path(__file__).parents[3]
ENGINE: Final = ROOT / "engine/wavewright/engine/interfaces"
SHIPPED: Final = [
    *(
        file
        for file in sorted((ENGINE / "testing/conformance/project/plans").glob("*.plan.yaml"))
        if file.name != "patch.plan.yaml"  # a job, whose goal is in another file
    ),
    ENGINE / "starter/plans/words.plan.yaml",
    ROOT / "plans/synthetic.plan.yaml",
]
OF_THE_ENGINE: Final = {"version", "goal", "inputs", "caps"}
POLICY: Final = {
    *("retry", "timeout", "max_items", "concurrency"),
    *("min_ok", "budget", "cache_for", "only"),
}


def violations(plan: JsonObject, tools: Mapping[str, ToolSignature]) -> list[SchemaViolation]:
    names = [*tools]
    steps = map(as_object, as_list(plan["steps"]))
    called = [str(step["plan"]) for step in steps if "plan" in step]
    goal = goal_of(
        {"available_tools": [{"name": name} for name in names], "rules": {}, "gates": []}
    )
    schema = goal_plan_schema(emit_schema(names, sub_plans=called), goal, tools, names)
    return validator_of(schema).violations(plan)


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.name)
def test_a_shipped_plan_fits(file: Path) -> None:
    plan = read_plan_file(file).plan
    assert plan is not None
    projects = (folder for folder in file.parents if (folder / "wavewright.yaml").exists())
    tools = tools_of_plan(plan, load_settings(next(projects, ROOT)))
    signatures = {name: tool.signature for name, tool in tools.items()}

    assert violations(as_answered(plan), signatures) == []


def as_answered(plan: Plan) -> JsonObject:
    """Return a plan as a model is to write it: without what the engine sets."""
    value = plan.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    steps: list[Json] = []
    for step in value["steps"]:
        unwritten = POLICY | {"tool"} if "plan" in step else POLICY
        steps.append(
            {"params": {}, **{name: part for name, part in step.items() if name not in unwritten}}
        )
    kept = {name: part for name, part in value.items() if name not in OF_THE_ENGINE}
    return {**kept, "steps": steps}


# --- values of every type


TYPES: Final[JsonObject] = {
    "anything": {},
    "whole": {"type": "integer"},
    "share": {"type": "number", "minimum": 0},
    "flag": {"type": "boolean"},
    "choice": {"enum": ["a", "b"]},
    "typed_choice": {"type": "string", "enum": ["a", "b"]},
    "mixed_choice": {"enum": [{"a": 1}, 3, None]},
    "constant": {"const": "k"},
    "code": {"type": "string", "pattern": "^x"},
    "day": {"type": "string", "format": "date"},
    "whole_or_null": {"type": ["integer", "null"]},
    "whole_or_list": {"oneOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]},
    "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]},
    "list": {"type": "array"},
    "words": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 3},
    "map": {"type": "object", "additionalProperties": {"type": "integer"}},
    "named": {"type": "object", "patternProperties": {"^k": {"type": "integer"}}},
    "parts": {"allOf": [{"type": "object", "properties": {"q": {"type": "integer"}}}, {"required": ["q"]}]},
    "nested": {
        "type": "object",
        "properties": {
            "q": {"type": "integer"},
            "r": {"type": "array", "items": {"$ref": "#/$defs/flagged"}},
        },
        "required": ["q"],
        "additionalProperties": False,
    },
    "deep": {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": {"type": "array"}}}},
    "no_whole": {"not": {"type": "integer"}},
    "filled": {"type": "object", "minProperties": 1},
}  # fmt: skip
INPUT: Final[JsonSchema] = {
    "type": "object",
    "properties": TYPES,
    "additionalProperties": False,
    "$defs": {"flagged": {"type": "object", "properties": {"z": {"type": "boolean"}}}},
}
OUTPUT: Final[JsonSchema] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "s": {"type": "string"},
        "l": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["n", "s", "l"],
}
TOOLS: Final = {
    "take": ToolSignature(name="take", description="Take values.", input_schema=INPUT),
    "give": ToolSignature(
        name="give",
        description="Give values.",
        input_schema={"type": "object", "properties": {}, "additionalProperties": False},
        output_schema=OUTPUT,
    ),
}
GOAL: Final = goal_of(
    {"available_tools": [{"name": name} for name in TOOLS], "rules": {}, "gates": []}
)
TEXTS: Final = ["", "a", "k", "x1", "3", "2024-01-01", "$${x}"]
REFERENCES: Final = ["${steps.s.n}", "${steps.s.s}", "${steps.s.l}", "${steps.s}", "${[1, 2]}"]
TEMPLATES: Final = ["x${steps.s.n}", "${steps.s.s}b", "${steps.s.n} ", "${steps.s.n}, ${steps.s.s}"]


def literals() -> st.SearchStrategy[Json]:
    plain = st.sampled_from([None, True, -1, 0, 3, 2.5, *TEXTS, *REFERENCES, *TEMPLATES])
    return st.recursive(
        plain,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["a", "k1", "q", "r", "z"]), inner, max_size=3)
        ),
        max_leaves=4,
    )


@given(st.sampled_from([*TYPES]), literals(), literals())
@settings(max_examples=volume(150, 3_000), deadline=None)
def test_a_plan_with_any_value_that_the_checker_accepts_fits(
    name: str, value: Json, result: Json
) -> None:
    first: JsonObject = {"id": "s", "tool": "give", "params": {}}
    second: JsonObject = {"id": "t", "tool": "take", "params": {name: value}}
    plan: JsonObject = {"steps": [first, second], "result": result}
    if is_beyond_the_schema(name, value, result):
        return

    read = bind_plan(Plan.model_validate(plan), GOAL)
    is_accepted = not errors_in(read, GOAL, TOOLS)

    assert not is_accepted or violations(plan, TOOLS) == [], json.dumps(plan)


def is_beyond_the_schema(name: str, value: Json, result: Json) -> bool:
    """Tell what the schema says that it leaves out: a choice put together of parts and references,
    and a result that is no text, object or list.
    """
    is_choice = "choice" in name or name == "constant"
    is_put_together = is_choice and holds_expression(value) and value not in REFERENCES
    return is_put_together or not isinstance(result, str | list | dict)
