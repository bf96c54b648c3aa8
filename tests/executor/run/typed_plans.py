"""Random plans over random tools, most of them sound: what the checker's promise is held against.

A *source* is an expression with the schema of what it gives. Arguments are composed of sources by
rules of their own, so that the checker is not asked about what it was itself asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import Json, JsonObject, JsonSchema

STRING: JsonSchema = {"type": "string"}
INTEGER: JsonSchema = {"type": "integer"}
NUMBER: JsonSchema = {"type": "number"}
BOOLEAN: JsonSchema = {"type": "boolean"}
SCALARS = (STRING, INTEGER, NUMBER, BOOLEAN)
_LEVELS = 2
_COINS = st.booleans()

Source = tuple[str, JsonSchema]

INPUTS: JsonObject = {
    "word": "hey",
    "count": 3,
    "share": 1.5,
    "sure": True,
    "rows": [{"n": 1, "name": "x"}, {"n": 2, "name": "y"}],
    "mixed": [1, 2.5],
}
_ROW: JsonSchema = {
    "type": "object",
    "properties": {"n": INTEGER, "name": STRING},
    "required": ["n", "name"],
}
_GIVEN: tuple[Source, ...] = (
    ("inputs.word", STRING),
    ("inputs.count", INTEGER),
    ("inputs.share", NUMBER),
    ("inputs.sure", BOOLEAN),
    ("inputs.rows", {"type": "array", "items": _ROW}),
    ("inputs.mixed", {"type": "array", "items": NUMBER}),
    ("inputs.rows[0].name", STRING),
)


@dataclass(frozen=True)
class Draft:
    """A plan, not yet checked, with the tools that it calls."""

    plan: Plan
    tools: dict[str, ToolSignature]


def schemas(levels: int = _LEVELS) -> st.SearchStrategy[JsonSchema]:
    """Return what tools take and give: certain types, so that a misfit can always be foreseen."""
    scalars = st.sampled_from(SCALARS)
    if levels == 0:
        return scalars
    inner = schemas(levels - 1)
    return st.one_of(
        scalars,
        inner.map(_list_of),
        st.dictionaries(
            st.sampled_from(["a", "b", "size", "type"]), inner, min_size=1, max_size=3
        ).flatmap(_object),
    )


def _list_of(items: JsonSchema) -> JsonSchema:
    return {"type": "array", "items": items}


def _object(fields: dict[str, JsonSchema]) -> st.SearchStrategy[JsonSchema]:
    names = sorted(fields)
    required = st.lists(st.sampled_from(names), unique=True) if len(names) > 1 else st.just(names)
    return required.map(
        lambda needed: {
            "type": "object",
            "properties": dict(fields),
            "required": list[Json](needed or names),
            "additionalProperties": False,
        }
    )


def values(schema: JsonSchema) -> st.SearchStrategy[Json]:
    """Return values that fit a schema of `schemas`."""
    match schema["type"]:
        case "string":
            return st.sampled_from(["", "x", "2010-03-01", "${inputs.word}", 'it\'s "q"'])
        case "integer":
            return st.sampled_from([0, 1, -3, 2**40])
        case "number":
            return st.sampled_from([0, 1.5, -2.25, 3])
        case "boolean":
            return st.booleans()
        case "array":
            return st.lists(values(_part(schema, "items")), max_size=3).map(list[Json])
        case _:
            fields = {name: values(part) for name, part in _fields(schema)}
            needed = _needed(schema)
            return st.fixed_dictionaries(
                {name: fields[name] for name in needed},
                optional={name: part for name, part in fields.items() if name not in needed},
            ).map(dict[str, Json])


def sources_in(expression: str, schema: JsonSchema) -> Iterator[Source]:
    """Yield an expression and the fields below it that are there for certain."""
    yield expression, schema
    if schema["type"] == "object":
        needed = _needed(schema)
        for name, part in _fields(schema):
            if name in needed:
                yield from sources_in(f"{expression}.{name}", part)


@st.composite
def drafts(
    draw: st.DrawFn,
    names: Sequence[str] = ("alpha", "beta"),
    params: Sequence[str] = ("p", "q", "r"),
) -> Draft:
    """Return plans with literals, references, mixed text, expressions, loops, conditions and
    optional steps.
    """
    tools = {name: _tool(draw, name, params) for name in names}
    steps: list[JsonObject] = []
    sure: list[Source] = list(_GIVEN)
    unsure: dict[str, list[Source]] = {}
    for number in range(draw(st.integers(1, 4))):
        step_id = f"s{number}"
        tool = draw(st.sampled_from(list(tools.values())))
        step = _step(draw, step_id, tool, sure, unsure)
        steps.append(step)
        output: JsonSchema = tool.output_schema
        if "for_each" in step:
            output = {"type": "array", "items": output}
        found = list(sources_in(f"steps.{step_id}", output))
        if "when" in step or "optional" in step:
            unsure[step_id] = found
        else:
            sure += found
    return Draft(Plan.model_validate({"inputs": INPUTS, "steps": steps}), tools)


def _tool(draw: st.DrawFn, name: str, params: Sequence[str]) -> ToolSignature:
    takes = draw(st.dictionaries(st.sampled_from(params), schemas(), min_size=1, max_size=2))
    return ToolSignature(
        name=name,
        input_schema={
            "type": "object",
            "properties": dict(takes),
            "required": list[Json](sorted(takes)[:1]),
            "additionalProperties": False,
        },
        output_schema=draw(schemas()),
    )


def _step(
    draw: st.DrawFn,
    step_id: str,
    tool: ToolSignature,
    sure: list[Source],
    unsure: dict[str, list[Source]],
) -> JsonObject:
    step: JsonObject = {"id": step_id, "tool": tool.name}
    known = list(sure)
    if len(unsure) > 0 and draw(_COINS):
        asked = draw(st.sampled_from(sorted(unsure)))
        step["when"] = f"has(steps.{asked}) && {_composed(draw, BOOLEAN, known, 1)}"
        known += unsure[asked]
    elif draw(st.integers(0, 3)) == 0:
        step["when"] = _composed(draw, BOOLEAN, known, 0)
    if draw(st.integers(0, 3)) == 0:
        step["optional"] = True
    lists = [one for one in known if one[1]["type"] == "array"]
    if draw(_COINS):
        text, schema = draw(st.sampled_from(lists))
        step["for_each"] = f"${{{text}}}"
        known += [*sources_in("item", _part(schema, "items")), ("index", INTEGER)]
    params: JsonObject = {}
    for name, part in _fields(tool.input_schema):
        if name in _needed(tool.input_schema) or draw(_COINS):
            params[name] = _argument(draw, part, known, unsure)
    step["params"] = params
    return step


def _argument(
    draw: st.DrawFn, wanted: JsonSchema, known: list[Source], unsure: dict[str, list[Source]]
) -> Json:
    way = draw(st.integers(0, 5))
    if way == 0:
        return _escaped(draw(values(wanted)))
    if way == 1 and wanted == STRING:
        parts = [_composed(draw, draw(st.sampled_from(SCALARS)), known, 1) for _ in range(2)]
        return f"first ${{{parts[0]}}}, then $${{no}} and ${{{parts[1]}}}"
    if way == 2 and wanted["type"] == "array":
        return [_argument(draw, _part(wanted, "items"), known, unsure)]
    if way == 2 and wanted["type"] == "object":
        return {name: _argument(draw, part, known, unsure) for name, part in _fields(wanted)}
    if way == 3 and unsure:
        asked = draw(st.sampled_from(sorted(unsure)))
        there = _composed(draw, wanted, known + 3 * unsure[asked], 0)
        return f"${{has(steps.{asked}) ? {there} : {_composed(draw, wanted, known, 1)}}}"
    if way == 4:
        # Whatever comes: the checker has to tell.
        return f"${{{draw(st.sampled_from(known))[0]}}}"
    return f"${{{_composed(draw, wanted, known, 0)}}}"


def _composed(draw: st.DrawFn, wanted: JsonSchema, known: list[Source], depth: int) -> str:
    """Return an expression that gives what is wanted."""
    alike = [text for text, schema in known if schema == wanted]
    if len(alike) > 0 and draw(_COINS):
        return alike[draw(st.integers(0, len(alike) - 1))]
    if depth > _LEVELS:
        return _literal(draw(values(wanted)))
    ways = _ways(draw, wanted, known, depth)
    return ways[draw(st.integers(0, len(ways) - 1))]()


def _ways(
    draw: st.DrawFn, wanted: JsonSchema, known: list[Source], depth: int
) -> list[Callable[[], str]]:
    """Return what composes an expression of a type."""

    def some(schema: JsonSchema, *more: Source) -> str:
        return _composed(draw, schema, [*known, *more], depth + 1)

    def same() -> str:
        return some(wanted)

    def over(template: str, schema: JsonSchema) -> str:
        """Return a loop over some list, with a body that gives the schema."""
        lists = [one for one in known if one[1]["type"] == "array"]
        text, given = lists[draw(st.integers(0, len(lists) - 1))]
        return template.format(text, some(schema, *sources_in("e", _part(given, "items"))))

    i, n, t, b = INTEGER, NUMBER, STRING, BOOLEAN
    either: Callable[[], str] = lambda: f"({some(b)} ? {same()} : {same()})"  # noqa: E731
    match wanted["type"]:
        case "string":
            return [
                either,
                lambda: f"string({some(i)})",
                lambda: f"string({some(n)})",
                lambda: f"({same()} + {same()})",
                lambda: f"{same()}.upperAscii()",
                lambda: f"[{same()}, {same()}].join(',')",
            ]
        case "integer":
            return [
                either,
                lambda: f"size({some(t)})",
                lambda: f"({same()} - {same()} * 2)",
                lambda: f"-({same()})",
                lambda: f"[{same()}, {same()}].max()",
            ]
        case "number":
            return [
                either,
                lambda: f"({some(n)} * {some(i)})",
                lambda: f"({some(i)} / 2)",
                lambda: f"double({some(i)})",
                lambda: f"[{some(n)}, {some(i)}].sum()",
            ]
        case "boolean":
            return [
                either,
                lambda: f"{some(n)} < {some(i)}",
                lambda: f"{some(i)} == {some(n)}",
                lambda: f"({same()} && !({same()}))",
                lambda: f"{some(t)}.contains({some(t)})",
                lambda: f"{some(i)} in [{some(i)}, {some(n)}]",
                lambda: over("{}.exists(e, {})", b),
                lambda: over("{}.all(e, {})", b),
            ]
        case "array":
            items = _part(wanted, "items")
            return [
                either,
                lambda: f"({same()} + {same()})",
                lambda: f"{same()}.reverse()",
                lambda: f"{same()}.distinct()",
                lambda: f"{same()}.filter(e, {some(b, *sources_in('e', items))})",
                lambda: over("{}.map(e, {})", items),
            ]
        case _:
            return [
                either,
                lambda: _object_of({name: some(part) for name, part in _fields(wanted)}),
            ]


def _object_of(members: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in members.items()) + "}"


def _literal(value: Json) -> str:
    """Return a value as CEL writes it; its text holds no reference, which would end the expression."""
    return json.dumps(_escaped(value, ""))


def _escaped(value: Json, how: str = "$${") -> Json:
    if isinstance(value, str):
        return value.replace("${", how)
    if isinstance(value, list):
        return [_escaped(item, how) for item in value]
    if isinstance(value, dict):
        return {name: _escaped(item, how) for name, item in value.items()}
    return value


def _part(schema: JsonSchema, name: str) -> JsonSchema:
    part = schema[name]
    assert isinstance(part, dict)
    return part


def _fields(schema: JsonSchema) -> Iterator[tuple[str, JsonSchema]]:
    for name, part in _part(schema, "properties").items():
        assert isinstance(part, dict)
        yield name, part


def _needed(schema: JsonSchema) -> list[str]:
    needed = schema["required"]
    assert isinstance(needed, list)
    return [name for name in needed if isinstance(name, str)]
