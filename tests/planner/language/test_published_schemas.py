"""The published schemas and the models agree on what a document may hold."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema_rs
import pytest
from hypothesis import given, settings, strategies as st

from tests.crash.run_size import volume
from wavewright.config.documents import read_document
from wavewright.planner.diagnostics.diagnostic import PlanError
from wavewright.planner.language.goals import GoalTemplate, Job
from wavewright.planner.language.plan import DocumentModel, Plan, PlanPatch
from wavewright.planner.language.published_schemas import SCHEMA_NAMES, document_schema
from wavewright.planner.reading.reader import read_model
from wavewright.planner.types import GATE_KINDS, Json, JsonObject

PLAN: JsonObject = {
    "version": 1,
    "goal": "g",
    "reasoning": "r",
    "inputs": {"a": [1]},
    "steps": [
        {
            "why": "w",
            "id": "a",
            "tool": "t",
            "params": {"x": "${inputs.a}", "y": None},
            "for_each": "${inputs.a}",
            "when": "true",
            "depends_on": ["b"],
            "optional": True,
            "supersedes": "c",
            "retry": {
                "attempts": 2,
                "wait_initial": "100ms",
                "wait_jitter": 0.5,
                "on": ["timeout"],
            },
            "timeout": "1h30m",
            "max_items": 5,
            "concurrency": 2,
            "min_ok": 0,
            "budget": {"seconds": 5, "usd": 0.5},
        },
        {"id": "b", "tool": "t", "for_each": [1, "x"]},
    ],
    "gates": [
        {"id": "g1", "on": "a", "check": "true", "severity": "warn", "hint": "h"},
        {"id": "g2", "on": "a", "schema": {"type": "object"}},
        {"id": "g3", "on_tool": "t", "fresh_within": "24h"},
        {"id": "g4", "on": "a", "required": ["x"]},
        {"id": "g5", "on": "a", "judge": {"rubric": "r"}},
    ],
    "caps": [{"field": "f", "when": "true", "max": 0.5, "because": "b"}],
    "result": "${steps.a}",
}
PATCH: JsonObject = {
    "base": "sha256:0",
    "reason": "r",
    "ops": [
        {"op": "add", "step": {"id": "a_2", "tool": "t", "supersedes": "a"}},
        {"op": "replace", "step": {"id": "b", "tool": "t"}},
        {"op": "remove", "id": "c"},
        {"op": "rewire", "id": "d", "depends_on": ["a_2"]},
    ],
    "expect": ["g1"],
}
JOB: JsonObject = {
    "version": 1,
    "name": "n",
    "goal_template": "t",
    "variables": [{"code": "A"}],
    "benchmarks": ["B"],
    "inputs": {},
    "as_of": "2010-03-01",
    "overrides": {"limits": {}},
    "plan": {"steps": [{"id": "a", "tool": "t"}]},
    "tools": {"pack": {"x": 1}},
}
GOAL: JsonObject = {
    "version": 1,
    "name": "n",
    "goal": "g",
    "thinking_level": "high",
    "targets": {"key": "code"},
    "inputs_schema": {"type": "object"},
    "output_tags": ["a"],
    "available_tools": [{"name": "t", "config": {"x": 1}}],
    "output_schema": {},
    "rules": {
        "data_tools": ["t", "t"],
        "tags": {"param": "p", "exclusive": [["a", "b"]], "required": ["a"]},
        "terminal": [{"tool": "t", "params": {}}],
        "primary_params": {"t": "code"},
    },
    "gates": [{"id": "g", "on_tool": "t", "check": "true"}],
    "caps": [{"field": "f", "max": 1, "because": "b"}],
    "recipes": [{"gate": "g", "set_params": {"force": True}, "reason": "r"}],
    "schedule": "dataflow",
    "limits": {"max_steps": 5, "run_timeout": "1h", "tool_concurrency": {"t": 1}},
    "auto_approve": False,
    "recovery": {"allow": "same-effects"},
    "plan": {"steps": [{"id": "a", "tool": "t"}]},
}
SHAPES: dict[str, tuple[type[DocumentModel], JsonObject]] = {
    "plan": (Plan, PLAN),
    "patch": (PlanPatch, PATCH),
    "job": (Job, JOB),
    "goal": (GoalTemplate, GOAL),
}
VALIDATORS = {name: jsonschema_rs.validator_for(document_schema(name)) for name in SHAPES}

NOTHING: list[Json] = []
ITEMS: list[Json] = ["x"]
NUMBERS: list[Json] = [1]
EMPTY: JsonObject = {}
MEMBERS: JsonObject = {"x": 1}
SCALARS: list[Json] = [None, False, "", "x", "a b", "1h", "2010-03-01", -1, 0, 1, 0.5, 2.5]
SPARE: list[Json] = [*SCALARS, NOTHING, ITEMS, NUMBERS, EMPTY, MEMBERS]


def spare(data: st.DataObject) -> Json:
    """Return a value that may not belong where it is put, and that no other place shares."""
    return copy.deepcopy(data.draw(st.sampled_from(SPARE)))


def accepted(model: type[DocumentModel], value: Json) -> bool:
    try:
        read_model(read_document(json.dumps(value), "note.json"), model)
    except PlanError:
        return False
    return True


def places(value: Json) -> list[tuple[Json, str | int]]:
    """Return every container of a value with each of its keys."""
    if isinstance(value, dict):
        return [(value, key) for key in value] + [
            one for inner in value.values() for one in places(inner)
        ]
    if isinstance(value, list):
        return [(value, index) for index in range(len(value))] + [
            one for inner in value for one in places(inner)
        ]
    return []


@pytest.mark.parametrize("name", SHAPES)
def test_a_document_that_uses_every_field_is_accepted_by_both(name: str) -> None:
    model, value = SHAPES[name]

    assert accepted(model, value)
    assert list(VALIDATORS[name].iter_errors(value)) == []


@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=volume(20, 60))
@given(st.data())
def test_schema_and_model_agree_on_changed_documents(name: str, data: st.DataObject) -> None:
    model, whole = SHAPES[name]
    value = copy.deepcopy(whole)
    for _ in range(data.draw(st.integers(1, 2))):
        holder, key = data.draw(st.sampled_from(places(value)))
        change = data.draw(st.sampled_from(["replace", "remove", "add"]))
        if change == "add" and isinstance(holder, dict):
            holder[data.draw(st.sampled_from(["extra", "check", "on", "judge", "id"]))] = spare(
                data
            )
        elif change == "remove" and isinstance(holder, dict):
            holder.pop(str(key), None)
        elif isinstance(holder, dict):
            holder[str(key)] = spare(data)
        elif isinstance(holder, list):
            holder[int(key)] = spare(data)

    assert VALIDATORS[name].is_valid(value) == accepted(model, value)


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_every_schema_is_a_valid_schema_with_a_name(name: str) -> None:
    schema = document_schema(name)

    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:wavewright:schema:{name}:1"
    jsonschema_rs.meta.validate(schema)


def test_an_unknown_schema_is_no_schema() -> None:
    with pytest.raises(KeyError):
        document_schema("everything")


@pytest.mark.parametrize("kinds", [(), ("check", "required"), GATE_KINDS])
def test_a_gate_of_no_kind_or_of_several_is_refused_by_the_schema(kinds: tuple[str, ...]) -> None:
    values: JsonObject = {
        "check": "true",
        "schema": {},
        "fresh_within": 1,
        "required": ["x"],
        "judge": {"rubric": "r"},
    }
    gate: JsonObject = {"id": "g", "on": "a", **{kind: values[kind] for kind in kinds}}
    plan: JsonObject = {"steps": [], "gates": [gate]}

    assert not VALIDATORS["plan"].is_valid(plan)


def test_the_schemas_carry_the_reference() -> None:
    definitions = document_schema("plan")["$defs"]
    assert isinstance(definitions, dict)
    step = definitions["Step"]
    assert isinstance(step, dict)
    properties = step["properties"]
    assert isinstance(properties, dict)
    optional = properties["optional"]
    assert isinstance(optional, dict)

    assert (
        step["description"]
        == "One call of one tool, or one call an item where `for_each` is given."
    )
    assert str(optional["description"]).startswith("Its failure does not fail the run")


def fields_of(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    """Yield every field that a schema describes, with the path to it."""
    if not isinstance(schema, dict):
        return
    properties = schema.get("properties")
    for name, field in properties.items() if isinstance(properties, dict) else ():
        yield f"{path}/{name}", field
    definitions = schema.get("$defs")
    for name, definition in definitions.items() if isinstance(definitions, dict) else ():
        yield from fields_of(definition, f"{path}#{name}")


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_an_editor_can_say_something_of_every_field(name: str) -> None:
    fields = list(fields_of(document_schema(name), ""))

    assert fields
    assert [
        path for path, field in fields if not (isinstance(field, dict) and field.get("description"))
    ] == []


ROOT = Path(__file__).parents[3]
STARTER = ROOT / "engine" / "wavewright" / "engine" / "starter"
SHIPPED = {
    **{
        path: "plan"
        for folder in (ROOT, STARTER)
        for path in sorted(folder.glob("plans/*.plan.yaml"))
    },
    **{
        path: "job"
        for folder in (ROOT, STARTER)
        for path in sorted(folder.glob("plans/*.job.yaml"))
    },
    **{
        path: "goal"
        for folder in (ROOT / "packs", STARTER)
        for path in sorted(folder.rglob("goals/*.yaml"))
    },
}


@pytest.mark.parametrize(
    ("path", "name"), [pytest.param(path, name, id=path.name) for path, name in SHIPPED.items()]
)
def test_what_the_project_ships_fits_the_published_schemas(path: Path, name: str) -> None:
    document = read_document(path.read_bytes(), path.name)

    assert [error.message for error in VALIDATORS[name].iter_errors(document.value)] == []


def test_something_of_each_kind_is_shipped() -> None:
    assert set(SHIPPED.values()) == {"plan", "job", "goal"}
