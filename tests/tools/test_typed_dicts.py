"""Schemas of standard types: the same on every Python, and what a TypedDict of the standard library
becomes.
"""

from __future__ import annotations

import datetime as dt
import enum
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Literal, NotRequired, Required, TypedDict, TypeVar

import pytest
from pydantic import BaseModel, ConfigDict, Field, with_config
from syrupy.assertion import SnapshotAssertion

from tests.tools.calling import call
from wavewright.tools import ToolDefinitionError, ToolError, make_tool

ItemT = TypeVar("ItemT")


class Row(TypedDict):
    """One row.

    Its lines:
        - an indented one
    and the last.
    """

    name: str
    count: NotRequired[Annotated[int, Field(ge=0, description="How often.")]]


class Undescribed(TypedDict):
    row: Row


class Part(Row, total=False):
    """A part of a row."""

    of: Required[Row]
    size: Literal["small", "large"]


class Folder(TypedDict):
    """A folder of folders."""

    name: str
    folders: list[Folder]


class Page(TypedDict, Generic[ItemT]):
    """A page of items."""

    items: list[ItemT]


@with_config(ConfigDict(extra="allow", use_attribute_docstrings=True))
class Open(TypedDict):
    number: int
    """Any number.

      Also a negative one.
    """


class Color(enum.Enum):
    """A color.

    What a
      thing has.
    """

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Point:
    x: float
    y: float = 0.5


@dataclass
class Shape:
    """A shape.

    Points
        in order.
    """

    points: list[Point]
    color: Color = Color.RED
    meta: dict[str, str] = field(default_factory=dict[str, str])


class Drawing(BaseModel):
    """A drawing.

        Shapes,
    one above the other.
    """

    shapes: list[Shape]
    made: dt.datetime
    kind: Literal["plan", "view"] = "plan"
    parts: list[Drawing] = []


def of_typed_dicts(
    row: Annotated[Row, Field(description="The row.")], part: Part | None = None
) -> dict[str, Undescribed]:
    """Take TypedDicts.

    Args:
        row: What is
            taken.
        part: A part
                of it.
    """
    raise NotImplementedError(row, part)


def of_itself(folder: Folder, folders: tuple[Folder, ...] = ()) -> Folder:
    raise NotImplementedError(folder, folders)


def of_generics(rows: Page[Row]) -> Page[int]:
    raise NotImplementedError(rows)


def of_configured(given: Open) -> list[Open]:
    raise NotImplementedError(given)


def of_enums(color: Color, level: Level = Level.LOW) -> Color | None:
    raise NotImplementedError(color, level)


def of_dataclasses(shape: Shape, point: Point | None = None) -> list[Shape]:
    raise NotImplementedError(shape, point)


def of_models(drawing: Drawing) -> Drawing:
    raise NotImplementedError(drawing)


@pytest.mark.parametrize(
    "function",
    [of_typed_dicts, of_itself, of_generics, of_configured, of_enums, of_dataclasses, of_models],
)
def test_a_function_has_the_same_version_and_schemas_on_every_python(
    function: Callable[..., Any], snapshot: SnapshotAssertion
) -> None:
    signature = make_tool(function).signature

    schemas = {"input": signature.input_schema, "output": signature.output_schema}
    assert f"{signature.version}\n{json.dumps(schemas, indent=1, sort_keys=True)}" == snapshot


class Line(TypedDict):
    name: str


class Address(TypedDict, total=False):
    street: Required[str]
    lines: list[Line]
    notes: Annotated[str, Field(max_length=3)]


def test_typed_dicts_of_the_standard_library_are_schemas_with_their_required_fields() -> None:
    def send(to: Address | None = None) -> dict[str, list[Address]]:
        return {"sent": [] if to is None else [to]}

    tool = make_tool(send)

    properties = tool.signature.input_schema["properties"]
    assert properties == {
        "to": {
            "anyOf": [
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["street"],
                    "properties": {
                        "street": {"type": "string"},
                        "lines": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "additionalProperties": False,
                                "required": ["name"],
                                "properties": {"name": {"type": "string"}},
                            },
                        },
                        "notes": {"type": "string", "maxLength": 3},
                    },
                },
                {"type": "null"},
            ],
            "default": None,
        }
    }
    assert call(tool, to={"street": "Main"}) == {"sent": [{"street": "Main"}]}
    with pytest.raises(ToolError, match=r"to\.lines\.0\.name: field required"):
        call(tool, to={"street": "Main", "lines": [{}]})


def test_a_typed_dict_that_contains_itself_is_checked_at_every_depth() -> None:
    def count(folder: Folder) -> int:
        return len(folder["folders"])

    tool = make_tool(count)

    assert call(tool, folder={"name": "a", "folders": [{"name": "b", "folders": []}]}) == 1
    with pytest.raises(ToolError, match=r"folder\.folders\.0\.folders\.0\.name: field required"):
        call(tool, folder={"name": "a", "folders": [{"name": "b", "folders": [{"folders": []}]}]})


def test_a_generic_typed_dict_checks_its_items() -> None:
    def count(rows: Page[Row]) -> int:
        return len(rows["items"])

    tool = make_tool(count)

    assert call(tool, rows={"items": [{"name": "a"}]}) == 1
    with pytest.raises(ToolError, match=r"rows\.items\.0\.name: field required"):
        call(tool, rows={"items": [{}]})


@dataclass
class Table:
    rows: list[Row]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic takes any TypedDict there")
def test_a_typed_dict_inside_a_dataclass_is_refused_with_the_import_that_works() -> None:
    def count(table: Table) -> int:
        return len(table.rows)

    with pytest.raises(
        ToolDefinitionError, match=r"parameter 'table' of .* has the type 'Table'"
    ) as refused:
        make_tool(count)

    assert "typing_extensions" in str(refused.value.hint)
