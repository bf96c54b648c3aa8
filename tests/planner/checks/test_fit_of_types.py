"""The relation of types: what it says of two schemas holds of their instances."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from wavewright.planner.checks.checker import check
from wavewright.planner.checks.types import fit_of
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonObject, JsonSchema

SCALARS: list[JsonSchema] = [
    {"type": "integer"},
    {"type": "number"},
    {"type": "string"},
    {"type": "boolean"},
    {"type": "null"},
    {"type": "integer", "minimum": 2},
    {"type": "integer", "maximum": 1},
    {"type": "number", "minimum": 0, "maximum": 3},
    {"type": "number", "exclusiveMaximum": 2},
    {"type": "string", "minLength": 2},
    {"type": "string", "maxLength": 1},
    {"type": "string", "pattern": "^a"},
    {"enum": ["a", "bb"]},
    {"enum": ["a", 1, None]},
    {"const": 2},
    {"const": True},
    {"not": {"type": "string"}},
    {},
]
VALUES: list[Json] = [None, True, False, 0, 1, 2, 3, 1.5, "", "a", "bb", "ab", "c"]


def list_of(items: JsonSchema) -> JsonSchema:
    return {"type": "array", "items": items}


def pair_of(first: JsonSchema, second: JsonSchema) -> JsonSchema:
    return {"type": "array", "prefixItems": [first, second], "minItems": 2, "maxItems": 2}


def short_pair_of(first: JsonSchema, second: JsonSchema, closed: bool) -> JsonSchema:  # noqa: FBT001 - drawn
    schema: JsonSchema = {"type": "array", "prefixItems": [first, second]}
    return {**schema, "items": False} if closed else schema


def long_list_of(items: JsonSchema, least: int, most: int) -> JsonSchema:
    return {**list_of(items), "minItems": least, "maxItems": most}


def values_of(value: JsonSchema) -> JsonSchema:
    return {"type": "object", "additionalProperties": value}


def either_of(one: JsonSchema, other: JsonSchema) -> JsonSchema:
    return {"anyOf": [one, other]}


def both_of(one: JsonSchema, other: JsonSchema) -> JsonSchema:
    return {"allOf": [one, other]}


def one_of(one: JsonSchema, other: JsonSchema) -> JsonSchema:
    return {"oneOf": [one, other]}


def object_of(fields: dict[str, JsonSchema], needed: list[str], closed: bool) -> JsonSchema:  # noqa: FBT001 - drawn
    properties: dict[str, Json] = {**fields}
    required: list[Json] = [name for name in needed if name in fields]
    schema: JsonSchema = {"type": "object", "properties": properties, "required": required}
    return {**schema, "additionalProperties": False} if closed else schema


def _composed(inner: st.SearchStrategy[JsonSchema]) -> st.SearchStrategy[JsonSchema]:
    names = st.sampled_from(["x", "y"])
    fields = st.dictionaries(names, inner, max_size=2)
    needed = st.lists(names, max_size=2, unique=True)
    return st.one_of(
        st.builds(list_of, inner),
        st.builds(pair_of, inner, inner),
        st.builds(short_pair_of, inner, inner, st.booleans()),
        st.builds(both_of, inner, inner),
        st.builds(one_of, inner, inner),
        st.builds(long_list_of, inner, st.integers(0, 1), st.integers(1, 2)),
        st.builds(values_of, inner),
        st.builds(either_of, inner, inner),
        st.builds(object_of, fields, needed, st.booleans()),
    )


SCHEMAS = st.recursive(st.sampled_from(SCALARS), _composed, max_leaves=4)


def instances_of(depth: int) -> list[Json]:
    """Return values of every kind, lists and objects of them included."""
    values = list(VALUES)
    for _ in range(depth - 1):
        inner = values[:16]
        values = [*VALUES, [], {}]
        values += [[value] for value in inner]
        values += [[value, other] for value in inner[:8] for other in inner[:8]]
        values += [{name: value} for name in ("x", "y") for value in inner]
        values += [{"x": value, "y": other} for value in inner for other in inner[:8]]
    return values


INSTANCES = instances_of(3)


@settings(max_examples=400, deadline=None)
@given(SCHEMAS, SCHEMAS)
def test_what_is_said_of_two_types_holds_of_their_instances(
    source: JsonSchema, target: JsonSchema
) -> None:
    found = fit_of(source, target)
    gives, takes = validator_of(source), validator_of(target)
    given_values = [value for value in INSTANCES if gives.accepts(value)]

    if found.level == "always":
        assert all(takes.accepts(value) for value in given_values), found
    if found.level == "never" and "number" not in found.reason:
        # A list of other elements is refused although an empty one would fit, and so is a number
        # where an integer is wanted, although a whole one would.
        assert not [v for v in given_values if takes.accepts(v) and not holds_empty(v)], found


def holds_empty(value: Json) -> bool:
    """Whether a list in a value is empty."""
    if isinstance(value, list):
        return not value or any(map(holds_empty, value))
    return isinstance(value, dict) and any(map(holds_empty, value.values()))


@settings(max_examples=300, deadline=None)
@given(SCHEMAS)
def test_a_type_never_fails_to_fit_itself(schema: JsonSchema) -> None:
    assert fit_of(schema, dict(schema)).level in ("always", "value")


STRING: JsonSchema = {"type": "string"}
NULLABLE: JsonSchema = {"anyOf": [STRING, {"type": "null"}]}
KINDS: dict[str, Json] = {
    kind: {"type": "object", "properties": {"kind": {"const": kind}}, "required": ["kind"]}
    for kind in ("cat", "dog")
}
OWNER: JsonSchema = {"type": "object", "properties": {"name": STRING}, "required": ["name"]}


@pytest.mark.parametrize(
    ("source", "target", "level"),
    [
        (STRING, STRING, "always"),
        ({"type": "integer"}, {"type": "number"}, "always"),
        (STRING, NULLABLE, "always"),
        ({"const": "a"}, {"type": "string", "pattern": "^a"}, "always"),
        ({"type": "integer", "minimum": 3}, {"type": "integer", "minimum": 2}, "always"),
        (NULLABLE, STRING, "member"),
        ({"type": ["string", "integer"]}, STRING, "member"),
        ({"type": "array", "items": NULLABLE}, {"type": "array", "items": STRING}, "member"),
        (
            {"type": "object", "properties": {"x": STRING}},
            {"type": "object", "properties": {"x": STRING}, "required": ["x"]},
            "member",
        ),
        (STRING, {"type": "string", "pattern": "^a"}, "value"),
        (STRING, {"enum": ["a"]}, "value"),
        ({}, STRING, "value"),
        ({"enum": ["b", "c"]}, {"type": "string", "pattern": "^a"}, "never"),
        ({"const": 9}, {"type": "integer", "maximum": 5}, "never"),
        ({"type": "integer", "minimum": 6}, {"type": "integer", "maximum": 5}, "never"),
        ({"const": True}, {"const": 1}, "never"),
        (STRING, {"type": "integer"}, "never"),
        (long_list_of(STRING, 3, 9), long_list_of(STRING, 0, 2), "never"),
        (pair_of(STRING, {"type": "integer"}), list_of(STRING), "never"),
        (list_of(STRING), pair_of(STRING, {"type": "integer"}), "never"),
        (pair_of(STRING, NULLABLE), list_of(STRING), "member"),
        (list_of(STRING), short_pair_of({"type": "integer"}, STRING, closed=False), "value"),
        (short_pair_of(STRING, STRING, closed=True), pair_of(STRING, STRING), "value"),
        (STRING, {"not": {"type": "string"}}, "value"),
        (STRING, {"allOf": [STRING, {"pattern": "^a"}]}, "value"),
        (STRING, {"allOf": [STRING]}, "always"),
        (STRING, {"$ref": "#/$defs/a", "minLength": 2, "$defs": {"a": STRING}}, "value"),
        ({"type": "integer"}, {"oneOf": [{"type": "integer"}, {"type": "number"}]}, "value"),
        (NULLABLE, {"oneOf": [NULLABLE, {"type": ["integer", "null"]}]}, "value"),
        (NULLABLE, {"oneOf": [STRING, {"type": ["integer", "null"]}]}, "always"),
        (KINDS["cat"], {"oneOf": [*KINDS.values()]}, "always"),
        ({"type": "object", "properties": {"x": {}}, "required": ["y"]}, OWNER, "never"),
        ({"type": "object", "properties": {"x": {}}, "required": ["name"]}, OWNER, "value"),
        (values_of(NULLABLE), values_of(STRING), "member"),
        ({"const": 2.0}, {"type": "integer"}, "always"),
        ({"enum": [1.0, 2.5]}, {"type": "integer"}, "value"),
        ({"const": 2.5}, {"type": "integer"}, "never"),
    ],
)
def test_a_type_fits_always_perhaps_or_never(
    source: JsonSchema, target: JsonSchema, level: str
) -> None:
    assert fit_of(source, target).level == level


def call_of(tool: str) -> JsonSchema:
    return {"type": "object", "properties": {"tool": {"const": tool}}, "required": ["tool"]}


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        (
            either_of(call_of("read"), call_of("write")),
            call_of("read"),
            (
                "an object may be given that does not fit: "
                "in the field 'tool', 'write' is given where 'read' is wanted"
            ),
        ),
        (
            either_of({"const": "a"}, {"const": "b"}),
            {"enum": ["a", "c"]},
            "a string may be given that does not fit: 'b' is given where one of 'a', 'c' is wanted",
        ),
        (
            either_of({"type": "integer"}, STRING),
            STRING,
            "an integer may be given where a string is wanted",
        ),
        (
            either_of(list_of(STRING), list_of({"type": "integer"})),
            list_of(STRING),
            "a list of integer may be given where a list of string is wanted",
        ),
    ],
    ids=["a call of another tool", "another choice", "another kind", "another list"],
)
def test_a_member_that_does_not_fit_is_told_by_what_tells_it_apart(
    source: JsonSchema, target: JsonSchema, reason: str
) -> None:
    assert fit_of(source, target).reason == reason


def codes_of(value: str, **fields: Json) -> list[str]:
    """Return what is said of a plan that sends a value where a text is wanted."""
    parameter = "vs" if "filter" in value else "v"
    sending: Json = {"id": "b", "tool": "send", "params": {parameter: value}, **fields}
    return codes_of_plan(steps=[{"id": "a", "tool": "find"}, sending])


def codes_of_plan(**plan: Json) -> list[str]:
    """Return what is said of a plan whose steps may call `find` and `send`."""
    tools = {
        "find": ToolSignature(
            name="find",
            output_schema={
                "type": "object",
                "properties": {
                    "name": NULLABLE,
                    "rows": {"type": "array", "items": NULLABLE},
                    "owner": {"anyOf": [OWNER, {"type": "null"}]},
                    "owners": {"type": "array", "items": {"anyOf": [OWNER, {"type": "null"}]}},
                },
                "required": ["name", "rows", "owner", "owners"],
            },
        ),
        "send": ToolSignature(
            name="send",
            input_schema={
                "type": "object",
                "properties": {"v": STRING, "vs": {"type": "array", "items": STRING}},
            },
        ),
    }
    return [found.code for found in check(Plan.model_validate(plan), None, tools)]


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        ("${steps.a.name}", {}),
        ("${item}", {"for_each": "${steps.a.rows}"}),
        ("${steps.a.name != null ? 'x' : steps.a.name}", {}),
        ("${steps.a.owner.name}", {}),
        ("by ${steps.a.owner.name}", {}),
        ("${item.name}", {"for_each": "${steps.a.owners}"}),
        ("${steps.a.owners[0].name}", {"when": "steps.a.owners.size() > 0"}),
        ("${steps.a.owners.map(o, o.name).join()}", {}),
        ("${string(steps.a.name.size())}", {}),
        ("${'by ' + steps.a.name}", {}),
        ("${steps.a.name < 'm' ? 'first' : 'second'}", {}),
        ("${steps.a.rows.join()}", {}),
        ("by ${steps.a.name}", {}),
        ("${steps.a.owner != null || steps.a.owner.name == 'x' ? 'a' : 'b'}", {}),
    ],
)
def test_a_null_that_may_be_given_is_a_warning(value: str, fields: dict[str, Json]) -> None:
    assert codes_of(value, **fields) == ["W812"]


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        ("${steps.a.name != null ? steps.a.name : 'none'}", {}),
        ("${steps.a.name == null ? 'none' : steps.a.name}", {}),
        ("${steps.a.name}", {"when": "steps.a.name != null"}),
        ("${item}", {"for_each": "${steps.a.rows.filter(r, r != null)}"}),
        ("${steps.a.rows.filter(r, r != null)}", {}),
        ("${steps.a.owner == null || steps.a.owner.name == 'x' ? 'a' : 'b'}", {}),
        ("${!(steps.a.name == null) && steps.a.name.size() > 1 ? 'a' : 'b'}", {}),
        ("${has(steps.a.owner.name) ? steps.a.owner.name : 'none'}", {}),
        ("${steps.a.owners.filter(o, o != null).map(o, o.name)}", {}),
        ("${steps.a.owners.exists(o, o != null && o.name == 'x') ? 'a' : 'b'}", {}),
        ("by ${steps.a.name}", {"when": "steps.a.name != null && steps.a.name.size() > 1"}),
        ("${item.name}", {"for_each": "${steps.a.owners.filter(o, o != null)}"}),
        ("${steps.a.owner != null ? steps.a.owner.name : 'none'}", {}),
        ("${steps.a.owner.name}", {"when": "steps.a.owner != null"}),
        ("${steps.a.owner.name}", {"when": "has(steps.a.owner.name)"}),
    ],
)
def test_a_null_that_is_asked_for_is_no_warning(value: str, fields: dict[str, Json]) -> None:
    assert codes_of(value, **fields) == []


LISTS: JsonSchema = {
    "type": "object",
    "properties": {
        "names": {"type": "array", "items": STRING},
        "rows": {"type": "array", "items": OWNER},
        "pair": {"type": "array", "items": STRING, "minItems": 2},
        "days": {"type": "array", "items": {"type": "integer"}},
        "day": {"type": ["integer", "null"]},
        "name": STRING,
    },
    "required": ["names", "rows", "pair", "days", "day", "name"],
}


def warnings_of(value: str, **plan: Json) -> list[str]:
    """Return what is said of values in a plan that sends what lists hold."""
    tools = {
        "find": ToolSignature(name="find", output_schema=LISTS),
        "send": ToolSignature(
            name="send", input_schema={"type": "object", "properties": {"v": {}}}
        ),
    }
    fields: JsonObject = {
        name: plan.pop(name) for name in ("when", "for_each", "min_ok") if name in plan
    }
    sending: JsonObject = {"id": "b", "tool": "send", "params": {"v": value}, **fields}
    steps: list[Json] = [{"id": "a", "tool": "find"}, sending]
    found = check(
        Plan.model_validate({"result": "${steps.b}", "steps": steps, **plan}), None, tools
    )
    return [warning.message for warning in found if warning.code == "W812"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("${steps.a.names[0]}", "'steps.a.names' may be empty, and its element [0] is read"),
        ("first: ${steps.a.names[0]}", "'steps.a.names' may be empty"),
        ("${steps.a.rows.map(r, r.name)[0]}", "may be empty"),
        ("${steps.a.names.filter(n, n > 'm')[0]}", "may be empty"),
        ("${steps.a.pair[2]}", "may have fewer than 3 elements, and its element [2] is read"),
        ("${steps.a.rows.maxBy(r, r.name)}", "'steps.a.rows' may be empty, and one of its"),
        ("${steps.a.rows.minBy(r, r.name).name}", "'steps.a.rows' may be empty, and one of its"),
        ("${max(steps.a.days)}", "'steps.a.days' may be empty, and max() takes one"),
        ("${steps.a.days.avg()}", "'steps.a.days' may be empty, and avg() takes one"),
        ("${steps.a.names.size() > 0 ? 'x' : steps.a.names[0]}", "may be empty"),
        ("${steps.a.names.size() > 0 ? steps.a.names[1] : ''}", "may have fewer than 2"),
        ("${steps.a.names.size() > 0 || steps.a.names[0] == 'x'}", "may be empty"),
        ("${steps.a.pair.map(steps, steps)[0] + steps.a.names[0]}", "'steps.a.names' may be"),
        ("${'%d days'.format([steps.a.day])}", "'steps.a.day' may be null, and '%d' of format()"),
    ],
)
def test_a_list_that_may_be_too_short_is_a_warning(value: str, said: str) -> None:
    [warning] = warnings_of(value)

    assert said in warning


def test_where_a_stop_holds_decides_what_a_list_has() -> None:
    last = "${steps.a.names[0]}"
    stop: JsonObject = {"when": "steps.a.names.size() == 0", "result": last}

    [warning] = warnings_of("x", result=last, stop=stop)

    assert "'steps.a.names' may be empty" in warning
    assert warnings_of("x", result=last, stop={**stop, "result": ""}) == []
    assert (
        warnings_of("x", result=last, stop={"when": "!(steps.a.names.size() > 0)", "result": 1})
        == []
    )
    assert len(warnings_of("x", result="", stop=stop)) == 1


@pytest.mark.parametrize(
    ("value", "plan"),
    [
        ("${steps.a.names.size() > 0 ? steps.a.names[0] : 'none'}", {}),
        ("${size(steps.a.names) >= 2 ? steps.a.names[1] : 'none'}", {}),
        ("${0 < size(steps.a.names) ? steps.a.names[0] : 'none'}", {}),
        ("${steps.a.names.size() == 0 ? 'none' : steps.a.names[0]}", {}),
        ("${steps.a.names == [] ? 'none' : steps.a.names[0]}", {}),
        ("${!(steps.a.names == []) && steps.a.names[0] == 'x'}", {}),
        ("${steps.a.names.size() == 0 || steps.a.names[0] == 'x'}", {}),
        ("${'x' in steps.a.names ? steps.a.names[0] : ''}", {}),
        ("${steps.a.names.exists(n, n > 'm') ? steps.a.names[0] : ''}", {}),
        ("${steps.a.names.map(n, n + steps.a.names[0])}", {}),
        ("${steps.a.names.size() > 0 ? steps.a.names.sort().reverse()[0] : ''}", {}),
        ("${steps.a.rows.size() > 0 ? steps.a.rows.maxBy(r, r.name).name : ''}", {}),
        ("${steps.a.days.size() > 0 ? max(steps.a.days) : 0}", {}),
        ("${max(steps.a.days.size(), 3)}", {}),
        ("${(['x'] + steps.a.names)[0]}", {}),
        ("${steps.a.pair[1]}", {}),
        ("${steps.a.name.split(' ')[0]}", {}),
        ("${steps.a.names[0]}", {"when": "steps.a.names.size() > 0"}),
        ("${item + steps.a.names[0]}", {"for_each": "${steps.a.names}"}),
        ("${inputs.codes[1]}", {"inputs": {"codes": ["GNP", "SKS"]}}),
        ("${inputs.of.codes[0]}", {"inputs": {"of": {"codes": ["GNP"]}}}),
        ("${steps.a.day != null ? '%d days'.format([steps.a.day]) : ''}", {}),
        ("${steps.a.names[0]}", {"gates": [{"id": "g", "on": "a", "check": "output.names != []"}]}),
        ("${steps.a.names[0]}", {"gates": [{"id": "g", "on": "a", "required": ["names"]}]}),
    ],
)
def test_a_list_that_is_asked_for_its_length_is_no_warning(
    value: str, plan: dict[str, Json]
) -> None:
    assert warnings_of(value, **plan) == []


@pytest.mark.parametrize(
    ("fields", "warnings"),
    [
        ({"for_each": ["x", "y"]}, 0),
        ({"for_each": "${steps.a.pair}"}, 0),
        ({"for_each": "${steps.a.names}"}, 1),
        ({"for_each": ["x", "y"], "when": "item > 'm'"}, 1),
        ({"for_each": ["x", "y"], "min_ok": 1}, 0),
    ],
)
def test_a_step_gives_an_output_for_each_of_its_items(
    fields: dict[str, Json], warnings: int
) -> None:
    assert len(warnings_of("${item}", result="${steps.b[0]}", **fields)) == warnings


def test_a_gate_that_only_warns_guards_nothing() -> None:
    gate: Json = {"id": "g", "on": "a", "check": "output.names != []", "severity": "warn"}

    assert len(warnings_of("${steps.a.names[0]}", gates=[gate])) == 1


ROW: JsonSchema = {
    "type": "object",
    "properties": {"id": STRING, "note": STRING, "owner": OWNER | {"required": []}},
    "required": ["id"],
}


CAT: JsonSchema = {
    "type": "object",
    "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}},
    "required": ["kind", "lives"],
}
PET: JsonSchema = {"anyOf": [CAT, KINDS["dog"]]}


def absences_of(value: str, **fields: Json) -> list[str]:
    """Return the parts that a step is warned of, which reads a row and a list of rows."""
    tools = {
        "row": ToolSignature(name="row", output_schema=ROW),
        "rows": ToolSignature(name="rows", output_schema=list_of(ROW)),
        "pet": ToolSignature(name="pet", output_schema={**PET, "$defs": {}}),
        "send": ToolSignature(name="send", input_schema={"properties": {"v": {}}}),
    }
    sending: JsonObject = {"id": "b", "tool": "send", "params": {"v": value}, **fields}
    reading: list[JsonObject] = [{"id": "a", "tool": "row"}, {"id": "as", "tool": "rows"}]
    steps: list[Json] = [*reading, {"id": "pet", "tool": "pet"}, sending]
    found = check(Plan.model_validate({"steps": steps, "result": "${steps.b}"}), None, tools)
    return [
        warning.message.partition(" may be absent")[0].strip("'\"")
        for warning in found
        if warning.code == "W812"
    ]


@pytest.mark.parametrize(
    ("value", "fields", "part"),
    [
        ("${steps.a.note}", {}, "steps.a.note"),
        ("by ${steps.a.note}", {}, "steps.a.note"),
        ("${steps.a['note']}", {}, "steps.a['note']"),
        ("${steps.a.note == null ? 'x' : steps.a.note}", {}, "steps.a.note"),
        ("${steps.a.owner.name}", {}, "steps.a.owner.name"),
        ("${has(steps.a.owner) ? steps.a.owner.name : ''}", {}, "steps.a.owner.name"),
        ("${has(steps.a.note) ? 'x' : steps.a.note}", {}, "steps.a.note"),
        ("${steps.as.map(r, r.note)}", {}, "r.note"),
        ("${steps.pet.lives}", {}, "steps.pet.lives"),
        ("${[steps.pet].map(p, p.lives)}", {}, "p.lives"),
        ("${item.note}", {"for_each": "${steps.as}"}, "item.note"),
        ("x", {"when": "steps.a.note == 'x'"}, "steps.a.note"),
    ],
)
def test_a_field_that_may_be_absent_is_a_warning(
    value: str, fields: dict[str, Json], part: str
) -> None:
    assert absences_of(value, **fields) == [part]


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        ("${steps.a.id}", {}),
        ("${has(steps.a.note) ? steps.a.note : ''}", {}),
        ("${has(steps.a.note) && steps.a.note != 'x'}", {}),
        ("${!has(steps.a.note) || steps.a['note'] == 'x'}", {}),
        ("${'note' in steps.a ? steps.a.note : ''}", {}),
        ("${has(steps.a.owner.name) ? steps.a.owner.name : ''}", {}),
        ("${steps.as.filter(r, has(r.note)).map(r, r.note)}", {}),
        ("${item.note}", {"for_each": "${steps.as.filter(r, has(r['note']))}"}),
        ("${item.note}", {"for_each": "${steps.as}", "when": "has(item.note)"}),
        ("${steps.a.note}", {"when": "has(steps.a.note)"}),
        ("${steps.pet.kind == 'cat' ? steps.pet.lives : 0}", {}),
        ("${[steps.pet].filter(p, p.kind == 'cat').map(p, p.lives)}", {}),
        ("${has(steps.pet.lives) ? steps.pet.lives : 0}", {}),
    ],
)
def test_a_field_that_is_asked_for_is_no_warning(value: str, fields: dict[str, Json]) -> None:
    assert absences_of(value, **fields) == []


FIND: Json = [{"id": "a", "tool": "find"}]


@pytest.mark.parametrize(
    ("parts", "codes"),
    [
        ({"result": "${steps.a.owner.name}"}, ["W812"]),
        ({"result": {"who": "by ${steps.a.name}"}}, ["W812"]),
        ({"result": "${steps.a.owners.map(o, o.name)}"}, ["W812"]),
        ({"result": "${steps.a.name}"}, []),
        ({"result": "${steps.a.owner == null ? 'none' : steps.a.owner.name}"}, []),
        ({"result": "${steps.a.owners.filter(o, o != null).map(o, o.name)}"}, []),
        ({"gates": [{"id": "g", "on": "a", "check": "output.owner.name == 'x'"}]}, ["W812"]),
        ({"gates": [{"id": "g", "on": "a", "check": "output.name.size() > 1"}]}, ["W812"]),
        ({"gates": [{"id": "g", "on": "a", "check": "output.name != null"}]}, []),
        (
            {"gates": [{"id": "g", "on": "a", "check": "output.name != null && output.name > ''"}]},
            [],
        ),
        ({"stop": {"when": "steps.a.name.size() == 0", "result": "none"}}, ["W812"]),
    ],
)
def test_a_null_fails_in_results_gates_and_stops_as_in_steps(
    parts: dict[str, Json], codes: list[str]
) -> None:
    assert codes_of_plan(**{"steps": FIND, "result": "${steps.a}", **parts}) == codes


@pytest.mark.parametrize(
    ("value", "is_accepted"),
    [
        ("${steps.a}", True),
        ("fast${steps.a}", True),
        ("${steps.a}slow", True),
        ("x${steps.a}", False),
        ("${steps.a} ", False),
        (["${steps.a}"], False),
        ({"speed": "${steps.a}"}, False),
    ],
)
def test_a_choice_is_refused_where_no_reference_can_make_it_one(
    value: Json,
    is_accepted: bool,  # noqa: FBT001
) -> None:
    choice: Json = {"enum": ["faster", "slow"]}
    tools = {
        "a": ToolSignature(name="a", output_schema={"type": "string"}),
        "b": ToolSignature(
            name="b", input_schema={"type": "object", "properties": {"speed": choice}}
        ),
    }
    steps: Json = [{"id": "a", "tool": "a"}, {"id": "b", "tool": "b", "params": {"speed": value}}]

    faults = check(Plan.model_validate({"steps": steps}), None, tools)

    assert ([fault.code for fault in faults if fault.code == "E205"] == []) == is_accepted


PAIR = pair_of({"type": "string"}, {"type": "integer"})


@pytest.mark.parametrize(
    ("value", "target", "said"),
    [
        ("${[steps.a, 1]}", PAIR, []),
        ("${[steps.a, 1][1]}", {"type": "integer"}, []),
        ("${[[steps.a, 1], ['b', 2]].map(pair, pair[1])[0]}", {"type": "integer"}, []),
        ("${zip([steps.a], [1])[0]}", PAIR, []),
        (["${steps.a}", 1], PAIR, []),
        ("${[1, steps.a]}", PAIR, ["E304"]),
        ("${[steps.a, 1]}", list_of({"type": "string"}), ["E304"]),
        ("${[steps.a]}", PAIR, ["E304"]),
        ("${[steps.a, 1] + [2]}", list_of({"type": "string"}), ["W812"]),
    ],
)
def test_a_list_that_is_written_out_has_a_type_for_each_place(
    value: Json, target: JsonSchema, said: list[str]
) -> None:
    tools = {
        "find": ToolSignature(name="find", output_schema={"type": "string"}),
        "send": ToolSignature(
            name="send", input_schema={"type": "object", "properties": {"v": target}}
        ),
    }
    steps = [
        {"id": "a", "tool": "find"},
        {"id": "b", "tool": "send", "params": {"v": value}},
    ]

    found = check(Plan.model_validate({"steps": steps}), None, tools)

    assert [fault.code for fault in found] == said


@pytest.mark.parametrize(
    ("value", "inputs", "for_each", "said"),
    [
        ("${inputs.x}", {"x": [1, 2.5]}, None, []),
        ("${inputs.x[0]}", {"x": [[1, 2.5], [2, 3]]}, None, []),
        ("${item}", {"x": [[1, 2.5], [2, 3]]}, "${inputs.x}", []),
        ("${item.pair}", {"x": [{"pair": [2, 3]}, {"pair": [1, 2.5]}]}, "${inputs.x}", []),
        ("${inputs.x}", {"x": [1.5, 2.5]}, None, ["E304"]),
        ("${item}", {"x": [[1, 2.5], [2.5, 3]]}, "${inputs.x}", ["E304"]),
    ],
)
def test_an_input_of_several_types_is_judged_by_its_value(
    value: str, inputs: JsonObject, for_each: str | None, said: list[str]
) -> None:
    pair = pair_of({"type": "integer"}, {"type": "number"})
    signature = ToolSignature(
        name="send", input_schema={"type": "object", "properties": {"v": pair}}
    )
    step = {"id": "a", "tool": "send", "params": {"v": value}, "for_each": for_each}

    found = check(
        Plan.model_validate({"inputs": inputs, "steps": [step]}), None, {"send": signature}
    )

    assert [fault.code for fault in found] == said


@pytest.mark.parametrize(("value", "said"), [(2.0, []), (2.5, ["E304"])])
def test_a_whole_number_of_an_input_is_an_integer(value: float, said: list[str]) -> None:
    signature = ToolSignature(
        name="send", input_schema={"type": "object", "properties": {"v": {"type": "integer"}}}
    )
    plan = {
        "inputs": {"x": value},
        "steps": [{"id": "a", "tool": "send", "params": {"v": "${inputs.x}"}}],
    }

    found = check(Plan.model_validate(plan), None, {"send": signature})

    assert [fault.code for fault in found] == said
