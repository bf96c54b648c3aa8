"""A goal's schema in the dialects of providers, each held to the provider's published rules."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic_ai.profiles.google import GoogleJsonSchemaTransformer
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer

from tests.planner.planning_case import GOOD, TOOLS, goal_of
from tests.support.served_models import models_over, question, settings_for
from wavewright.config.sections import CassetteMode
from wavewright.engine.rehearsal.fake_model.replies import failing, structured
from wavewright.engine.rehearsal.fake_model.request import WIRES, FakeModelRequest, Wire
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer
from wavewright.executor.budgets.memory import MemoryBudgetStore
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.planning.goal_schema import goal_patch_schema, goal_plan_schema
from wavewright.planner.planning.prompt import emit_schema, patch_schema
from wavewright.planner.ports.model_port import ModelCall, ModelClient
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonSchema, StepId, as_list, as_object
from wavewright.tools.models import open_models
from wavewright.tools.models.cassette.errors import CassetteMiss
from wavewright.tools.models.dialects import (
    Dialect,
    SchemaTooLarge,
    for_anthropic,
    for_gemini,
    for_grammar,
    for_openai,
    own_schema,
)
from wavewright.tools.workers.conversation import usable_value

pytestmark = pytest.mark.anyio

EVERYTHING = ToolSignature(
    name="everything",
    description="Take values of every kind.",
    input_schema={
        "type": "object",
        "properties": {
            "unit": {"type": "string", "enum": ["mm", "in"]},
            "level": {"type": "integer", "enum": [1, 2, 3]},
            "code": {"type": "string", "pattern": "^[A-Z]{3}$", "minLength": 3, "format": "uri"},
            "share": {"type": "number", "minimum": 0, "exclusiveMaximum": 1, "multipleOf": 0.5},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]},
            "grid": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
            "tags": {"type": "object", "additionalProperties": {"type": "boolean"}},
            "open": {"type": "object"},
            "any": {},
            "list": {"type": "array", "uniqueItems": True, "minItems": 2},
            "size": {"type": ["integer", "null"]},
            "mixed": {"enum": [1, "auto", True, None]},
            "shape": {"enum": [{"x": 1}, [2]]},
            "notes": {"type": "array", "items": {"type": "string"}, "maxItems": 5000},
            "never": {"type": "array", "items": {"type": "string"}, "maxItems": 0},
            "one": {
                "oneOf": [
                    {"type": "object", "properties": {"name": {"type": "string"}}},
                    {"type": "object", "properties": {"name": {"type": "integer"}}},
                ]
            },
            "who": {"$ref": "#/$defs/person"},
        },
        "required": ["unit"],
        "$defs": {
            "person": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "friends": {"type": "array", "items": {"$ref": "#/$defs/person"}},
                },
                "required": ["name"],
            }
        },
    },
)
NOTHING = ToolSignature(
    name="nothing",
    description="Take nothing.",
    input_schema={"type": "object", "properties": {}, "additionalProperties": False},
)
ALL = {**TOOLS, "everything": EVERYTHING, "nothing": NOTHING}
PLAN = goal_plan_schema(emit_schema([*ALL], sub_plans=["clean"]), goal_of(), ALL, [*ALL])
PATCH = goal_patch_schema(patch_schema([*ALL], [StepId("a")]), goal_of(), ALL, [*ALL])
ASKED = [pytest.param(PLAN, id="plan"), pytest.param(PATCH, id="patch")]


def written(dialect: Dialect, schema: JsonSchema) -> JsonSchema:
    made = dialect(schema)
    assert not isinstance(made, SchemaTooLarge)
    return made


def parts_of(schema: Json) -> Iterator[JsonSchema]:
    part = as_object(schema)
    yield part
    inner = [*as_object(part.get("properties")).values(), *as_list(part.get("anyOf"))]
    inner += [part[word] for word in ("items", "additionalProperties") if word in part]
    for one in inner:
        if isinstance(one, dict):
            yield from parts_of(one)


def keywords_of(schema: JsonSchema) -> set[str]:
    return {word for part in parts_of(schema) for word in part}


@pytest.mark.parametrize("schema", ASKED)
def test_openai_gets_what_strict_structured_outputs_take(schema: JsonSchema) -> None:
    strict = written(for_openai, schema)

    assert strict["type"] == "object"
    assert not {"oneOf", "allOf", "not", "minLength", "maxLength"} & keywords_of(strict)
    for part in parts_of(strict):
        assert part.keys() & {"type", "anyOf"}, "each value says its type"
        assert all(not isinstance(value, list | dict) for value in as_list(part.get("enum")))
        if part.get("type") == "object":
            assert part["additionalProperties"] is False
            assert part["required"] == [*as_object(part["properties"])]
        if part.get("type") == "array":
            assert part["items"]
        beginnings = [
            next(iter(as_object(branch["properties"]).items()))
            for branch in map(as_object, as_list(part.get("anyOf")))
            if "properties" in branch
        ]
        assert all(one != other for one, other in itertools.pairwise(beginnings))


@pytest.mark.parametrize("schema", ASKED)
def test_the_library_takes_it_for_strict_too(schema: JsonSchema) -> None:
    transformer = OpenAIJsonSchemaTransformer(written(for_openai, schema))
    transformer.walk()

    assert transformer.is_strict_compatible


@pytest.mark.parametrize("schema", ASKED)
def test_anthropic_gets_what_the_input_of_a_tool_takes(schema: JsonSchema) -> None:
    tool = written(for_anthropic, schema)

    assert tool["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf"} & tool.keys()
    unknown = {"minimum", "maximum", "multipleOf", "minLength", "maxLength", "pattern", "$ref"}
    assert not (unknown | {"minItems", "maxItems", "oneOf"}) & keywords_of(tool)


GEMINI = {
    *("$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum"),
    *("items", "prefixItems", "minItems", "minimum", "maximum", "anyOf", "oneOf"),
    *("properties", "additionalProperties", "required", "propertyOrdering"),
}


@pytest.mark.parametrize("schema", ASKED)
def test_gemini_gets_only_keywords_that_it_knows(schema: JsonSchema) -> None:
    known = written(for_gemini, schema)

    assert keywords_of(known) <= GEMINI
    assert known["type"] == "object"
    for part in parts_of(known):
        assert all(isinstance(value, str) for value in as_list(part.get("enum")))
        assert part.get("type") != "object" or part["properties"], "an open one comes back empty"
    assert keywords_of(GoogleJsonSchemaTransformer(known).walk()) <= GEMINI


@pytest.mark.parametrize("schema", ASKED)
def test_a_grammar_is_made_of_what_the_schema_means(schema: JsonSchema) -> None:
    grammar = written(for_grammar, schema)

    for part in parts_of(grammar):
        assert not {"oneOf", "allOf", "not", "$ref", "uniqueItems", "prefixItems"} & part.keys()
        assert not {"anyOf", "properties"} <= part.keys(), "llama.cpp knows one of them at a time"
        if "minimum" in part or "maximum" in part:
            assert part["type"] == "integer"
        assert part.get("maxItems") not in (0, 5000), "llama.cpp makes no grammar of it"
        if "pattern" in part:
            pattern = str(part["pattern"])
            assert re.fullmatch(r"\^.*\$", pattern)
            assert "." not in pattern
            assert "(?" not in pattern
        # xgrammar takes a container that is said more of than its type for an empty one.
        if part.get("type") == "array" and "items" not in part:
            assert part == {"type": "array"}
        if part.get("type") == "object" and not part.get("properties"):
            is_empty = part.get("additionalProperties") is False
            assert is_empty or part.keys() <= {"type", "additionalProperties"}
        assert part.get("additionalProperties") is not True


@pytest.mark.parametrize("dialect", [for_openai, for_anthropic, for_gemini, for_grammar])
def test_a_plan_fits_in_every_dialect(dialect: Dialect) -> None:
    schema = written(dialect, PLAN)
    answer = nulled(GOOD, schema) if dialect is for_openai else GOOD

    assert validator_of(schema).violations(answer) == []


def nulled(value: Any, schema: JsonSchema) -> Any:
    """Return a value whose absent members are null, as a strict provider writes it."""
    if isinstance(value, list):
        items = as_object(schema.get("items"))
        return [nulled(item, items) for item in as_list(cast("Json", value))]
    if not isinstance(value, dict):
        return value
    given = as_object(cast("Json", value))
    branches = [schema, *map(as_object, as_list(schema.get("anyOf")))]
    for branch in map(as_object, branches):
        members = as_object(branch.get("properties"))
        constants = {name: as_object(part).get("const") for name, part in members.items()}
        if given.keys() <= members.keys() and all(
            wanted in (None, given.get(name)) for name, wanted in constants.items()
        ):
            return {
                name: nulled(given.get(name), first_shape(as_object(part)))
                for name, part in members.items()
            }
    return given


def first_shape(schema: JsonSchema) -> JsonSchema:
    shapes = [*map(as_object, as_list(schema.get("anyOf")))]
    lists = [shape for shape in shapes if shape.get("type") == "array"]
    return lists[0] if lists else schema


@pytest.mark.parametrize("dialect", [for_openai, for_anthropic, for_gemini, for_grammar])
def test_a_tool_without_parameters_gets_none(dialect: Dialect) -> None:
    schema = as_object(written(dialect, PLAN))
    root = as_object(as_list(schema["anyOf"])[0]) if "anyOf" in schema else schema
    steps = as_object(as_object(root["properties"])["steps"])
    lists = [steps, *map(as_object, as_list(steps.get("anyOf")))]
    items = next(as_object(part["items"]) for part in lists if "items" in part)
    step = next(
        branch
        for branch in map(as_object, as_list(items["anyOf"]))
        if "nothing" in json.dumps(as_object(branch["properties"]).get("tool"))
    )
    params = as_object(step["properties"]).get("params")

    assert params is None or as_object(params)["additionalProperties"] is False
    assert params is None or as_object(params)["properties"] == {}


@pytest.mark.parametrize("dialect", [for_openai, for_anthropic, for_gemini, for_grammar])
def test_a_goal_that_is_too_large_says_by_how_much(dialect: Dialect) -> None:
    many = {f"tool_{number}": EVERYTHING for number in range(400)}
    schema = goal_plan_schema(emit_schema([*many]), goal_of(), many, [*many])

    refused = dialect(schema)

    assert isinstance(refused, SchemaTooLarge)
    assert refused.size > refused.most
    assert f"{refused.most:,} at most" in str(refused)


# --- what is asked


def asked(**fields: Any) -> ModelCall:
    form = emit_schema([*ALL], sub_plans=["clean"])
    return question(schema=form, goal_schema=PLAN, schema_name="plan", run=None, **fields)


def is_held(server: FakeModelServer, at: int = -1) -> bool:
    """Whether a request asks for the form by the provider's structured output."""
    body = as_object(server.requests[at].body)
    return "response_format" in body or "format" in as_object(body.get("text"))


@pytest.mark.parametrize(
    ("wire", "dialect"),
    [("chat", for_grammar), ("responses", for_openai), ("messages", for_anthropic)],
)
async def test_a_provider_is_asked_in_its_dialect(
    wire: Wire,
    dialect: Dialect,
    model_server: FakeModelServer,
    tmp_path: Path,
) -> None:
    model_server.answer(structured({"cannot_plan": "no tool for it"}))
    async with models_over(model_server, tmp_path, wire) as asking:
        await asking.models.ask(asked())

    request = model_server.requests[-1]
    assert request.schema is not None
    assert bare(request.schema) == bare(written(dialect, PLAN))
    assert is_held(model_server) == (wire != "messages")


OF_A_WORKER: JsonSchema = {
    "type": "object",
    "properties": {
        "code": {"type": "string", "pattern": "^a"},
        "level": {"oneOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
        "owner": {"$ref": "#/$defs/person"},
        "size": {"type": ["number", "null"]},
    },
    "required": ["code", "owner"],
    "$defs": {"person": {"type": "object", "properties": {"name": {"type": "string"}}}},
}


async def test_a_worker_s_schema_is_asked_for_in_the_words_that_grammars_are_made_of(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(structured({"code": "ab", "owner": {}}))
    async with models_over(model_server, tmp_path) as asking:
        await asking.models.ask(question(schema=OF_A_WORKER, schema_name="sorted"))

    sent = bare(model_server.requests[-1].schema)
    assert sent == {
        "type": "object",
        "properties": {
            "code": {"type": "string"},
            "level": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
            "owner": {
                "type": "object",
                "properties": {"name": {"type": "string"}},
                "required": [],
                "additionalProperties": False,
            },
            "size": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        },
        "required": ["code", "owner"],
        "additionalProperties": False,
    }


OPTIONAL: JsonSchema = {
    "type": "object",
    "properties": {
        "note": {"type": "string", "maxLength": 20, "description": "What is wrong."},
        "owner": {"$ref": "#/$defs/person"},
        "sizes": {"type": "array", "items": {"type": "number"}, "uniqueItems": True},
    },
    "required": ["note"],
    "additionalProperties": False,
    "$defs": {"person": {"type": "object", "properties": {"name": {"type": "string"}}}},
}


@pytest.mark.parametrize("dialect", [for_openai, for_anthropic, for_gemini, for_grammar])
def test_a_worker_s_schema_keeps_its_meaning_in_every_dialect(dialect: Dialect) -> None:
    sent = own_schema(OPTIONAL, dialect) or OPTIONAL
    assert not isinstance(sent, SchemaTooLarge)
    absent = {"owner": None, "sizes": None} if dialect is for_openai else {}

    accepts = validator_of(sent).accepts
    assert accepts({"note": "loud", **absent})
    assert accepts({"note": "loud", **absent, "owner": {"name": "Ada"}})
    assert not accepts({"note": 3, **absent})
    assert not accepts({"note": "loud", **absent, "sizes": ["wide"]})
    assert not accepts({"note": "loud", **absent, "other": 1})


@pytest.mark.parametrize(
    "part",
    [
        {"type": "string", "maxLength": 5000},
        {"type": "string", "pattern": "^[a-z]{1,3000}$"},
        {"type": "string", "pattern": "^[a-z]{3000,}$"},
        {"type": "array", "items": {"type": "string"}, "minItems": 2000},
    ],
)
def test_what_is_longer_than_a_grammar_can_count_is_left_to_the_reader(part: JsonSchema) -> None:
    sent = own_schema({"type": "object", "properties": {"text": part}}, for_grammar)

    assert isinstance(sent, dict)
    assert not {"maxLength", "pattern", "minItems"} & keywords_of(sent)


@pytest.mark.parametrize("dialect", [for_openai, for_gemini])
@pytest.mark.parametrize("open_part", [{}, {"type": "object"}, {"type": "array"}])
def test_a_worker_s_schema_with_an_open_part_is_sent_as_it_is(
    dialect: Dialect, open_part: JsonSchema
) -> None:
    schema: JsonSchema = {"type": "object", "properties": {"rows": open_part}}

    assert own_schema(schema, dialect) is None


async def test_openai_holds_a_worker_to_a_schema_with_optional_members(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(structured({"note": "loud", "owner": None, "sizes": None}))
    async with models_over(model_server, tmp_path, "responses") as asking:
        answer = await asking.models.ask(question(schema=OPTIONAL, schema_name="sorted"))

    form = as_object(as_object(as_object(model_server.requests[-1].body)["text"])["format"])
    assert form["strict"] is True
    note = as_object(as_object(as_object(form["schema"])["properties"])["note"])
    assert note["description"] == "What is wrong."
    assert usable_value(answer, OPTIONAL) == {"note": "loud"}


def bare(schema: Json) -> Json:
    """Return a schema without what the library adds to it."""
    if isinstance(schema, list):
        return [bare(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {word: bare(value) for word, value in schema.items()}
    if kept.get("type") == "object" and not kept.get("properties"):
        return {"type": "object"}
    return kept


@pytest.mark.parametrize("wire", ["chat", "responses", "messages"])
async def test_a_provider_that_refuses_its_dialect_is_asked_with_the_form_itself(
    wire: Wire, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(failing(400), times=1)
    model_server.answer(structured({"cannot_plan": "no tool for it"}))
    async with models_over(model_server, tmp_path, wire) as asking:
        await asking.models.ask(asked())

    first, second = (request.schema for request in model_server.requests[-2:])
    assert bare(first) != bare(second)
    assert bare(second) == bare(emit_schema([*ALL], sub_plans=["clean"]))


def with_members(count: int) -> JsonSchema:
    """Return a form of which one member is required, and in a strict dialect every one."""
    return {
        "type": "object",
        "properties": {f"member_{number}": {"type": "string"} for number in range(count)},
        "required": ["member_0"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("counts", "refused", "expected"),
    [
        pytest.param([3, 3], {3}, "no, not sent", id="the same form"),
        pytest.param([3, 4, 5], {3, 4, 5}, "no, no, not sent", id="one form after another"),
        pytest.param([2, 3, 4, 5, 3], {3, 4}, "yes, no, no, yes, not sent", id="some forms"),
    ],
)
async def test_a_form_that_is_refused_is_not_sent_again(
    counts: list[int],
    refused: set[int],
    expected: str,
    model_server: FakeModelServer,
    tmp_path: Path,
) -> None:
    def members_in_dialect(request: FakeModelRequest) -> int:
        required = as_list((request.schema or {}).get("required"))
        return len(required) if len(required) > 1 else 0

    model_server.answer(
        failing(400), when=lambda request: members_in_dialect(request) in refused, times=99
    )
    model_server.answer(structured({"member_0": "a"}))
    outcomes: list[str] = []
    async with models_over(model_server, tmp_path, "responses") as asking:
        for count in counts:
            before = len(model_server.requests)
            form = with_members(count)
            await asking.models.ask(question(f"{before}", schema=form, schema_name="form"))
            sent = members_in_dialect(model_server.requests[before])
            outcomes.append("not sent" if not sent else "no" if sent in refused else "yes")

    assert ", ".join(outcomes) == expected


@asynccontextmanager
async def taped(
    server: FakeModelServer, tape: Path, wire: Wire, mode: CassetteMode
) -> AsyncGenerator[ModelClient]:
    """Open the models of a server with a cassette."""
    settings = settings_for(server, tape.parent, wire)
    settings = replace(settings, cassette=tape, cassette_mode=mode)
    async with (
        MemoryBudgetStore(settings.budgets) as budgets,
        open_models(settings, budgets, environment=server.environment(wire)) as models,
    ):
        yield models


@pytest.mark.parametrize("recorded", WIRES)
@pytest.mark.parametrize("replayed", WIRES)
async def test_what_one_provider_was_asked_is_replayed_for_every_other(
    recorded: Wire, replayed: Wire, model_server: FakeModelServer, tmp_path: Path
) -> None:
    tape = tmp_path / "tape.json"
    model_server.answer(structured({"cannot_plan": "no tool for it"}))
    async with taped(model_server, tape, recorded, "record") as models:
        first = await models.ask(asked())
    async with taped(model_server, tape, replayed, "replay") as models:
        second = await models.ask(asked())

    assert json.loads(second.text) == json.loads(first.text)


async def test_what_is_recorded_of_a_question_without_a_dialect_is_found_with_one(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    tape = tmp_path / "tape.json"
    model_server.answer(structured({"cannot_plan": "no tool for it"}))
    async with taped(model_server, tape, "chat", "record") as models:
        await models.ask(replace(asked(), goal_schema=None))
    count = len(model_server.requests)
    async with taped(model_server, tape, "chat", "record") as models:
        await models.ask(asked())

    assert len(model_server.requests) == count


async def test_a_miss_shows_what_differs_of_the_question_and_nothing_of_a_dialect(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    tape = tmp_path / "tape.json"
    model_server.answer(structured({"cannot_plan": "no tool for it"}))
    async with taped(model_server, tape, "chat", "record") as models:
        await models.ask(asked(prompt="Plan for Zurich."))
    async with taped(model_server, tape, "responses", "replay") as models:
        with pytest.raises(CassetteMiss) as missed:
            await models.ask(asked(prompt="Plan for Bern."))

    lines = str(missed.value).splitlines()
    changed = [line[1:].strip() for line in lines if re.match(r"[-+](?![-+])", line)]
    assert changed == ['"user": "Plan for Zurich."', '"user": "Plan for Bern."']


async def test_a_goal_that_is_too_large_is_asked_with_the_form_itself_and_the_log_says_so(
    model_server: FakeModelServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    many = {f"tool_{number}": EVERYTHING for number in range(400)}
    form = emit_schema([*many])
    large = goal_plan_schema(form, goal_of(), many, [*many])
    model_server.answer(structured({"cannot_plan": "no tool for it"}))
    with caplog.at_level("INFO", "wavewright.tools.models.forms"):
        async with models_over(model_server, tmp_path) as asking:
            await asking.models.ask(replace(asked(), schema=form, goal_schema=large))

    assert bare(model_server.requests[-1].schema) == bare(form)
    assert "is asked without the goal's types: " in caplog.text
