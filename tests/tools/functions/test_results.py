"""What results of Python become as JSON, the same in every process and nothing of it lost."""

from __future__ import annotations

import datetime as dt
import enum
import re
import subprocess
import sys
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    SecretStr,
    TypeAdapter,
    computed_field,
)

from tests.tools.calling import call
from wavewright.planner import Plan, Step, StepId, check
from wavewright.tools import ToolError, make_tool, schema_of
from wavewright.tools.functions.errors import ResultRefused
from wavewright.tools.functions.results import written_as_json


class Parent(BaseModel):
    x: int = 1


class Child(Parent):
    y: int = 2
    tags: set[str] = Field(default_factory=lambda: {"b", "a"})


class Hidden(BaseModel):
    a: int = 1
    secret: int = Field(default=2, exclude=True)


class Named(BaseModel):
    inner: Parent = Field(default_factory=Child, serialization_alias="inside")


@dataclass
class Row:
    names: set[str] = field(default_factory=lambda: {"c", "b", "a"})


@dataclass
class Longer(Row):
    size: int = 3


class Pair(TypedDict):
    a: int


class Triple(Pair):
    b: int


AROUND_ITSELF: list[object] = []
AROUND_ITSELF.append(AROUND_ITSELF)


class Size(enum.Enum):
    SMALL = "s"


class Tenor(enum.Enum):
    YEAR = "P1Y"
    TWO = dt.timedelta(days=730)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


def some_set() -> set[str]:
    return {"b", "c", "a"}


def one() -> Parent:
    return Child()


def several() -> list[Parent]:
    return [Child(), Parent()]


def by_name() -> dict[str, Parent]:
    return {"k": Child()}


def nested() -> Named:
    return Named()


def hidden() -> Hidden:
    return Hidden()


def row() -> Row:
    return Row()


def longer() -> list[Row]:
    return [Longer()]


def triple() -> Pair:
    triple: Triple = {"a": 1, "b": 2}
    return triple


def untyped() -> Any:
    return {"set": {3, 1, 2}, "frozen": frozenset("ba"), "range": range(3), "pair": (1, "a")}


CHILD = {"x": 1, "y": 2, "tags": ["a", "b"]}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (some_set, ["a", "b", "c"]),
        (one, CHILD),
        (several, [CHILD, {"x": 1}]),
        (by_name, {"k": CHILD}),
        (nested, {"inside": CHILD}),
        (hidden, {"a": 1}),
        (row, {"names": ["a", "b", "c"]}),
        (longer, [{"names": ["a", "b", "c"], "size": 3}]),
        (triple, {"a": 1, "b": 2}),
        (untyped, {"set": [1, 2, 3], "frozen": ["a", "b"], "range": [0, 1, 2], "pair": [1, "a"]}),
    ],
)
def test_a_result_keeps_all_of_it(function: Any, expected: object) -> None:
    assert call(make_tool(function)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(dt.date(2024, 1, 2), "2024-01-02", id="date"),
        pytest.param(dt.timedelta(hours=1), "PT1H", id="timedelta"),
        pytest.param(dt.timedelta(days=400, hours=2), "P400DT2H", id="timedelta of a year"),
        pytest.param({"a": [dt.timedelta(days=-730)]}, {"a": ["-P730D"]}, id="years ago"),
        pytest.param({dt.timedelta(days=400): 1}, {"P400D": 1}, id="years as a key"),
        pytest.param(RootModel(dt.timedelta(days=731)), "P731D", id="years in a model"),
        pytest.param(RootModel({"b", "c", "a"}), ["a", "b", "c"], id="set in a model"),
        pytest.param([Tenor.YEAR, Tenor.TWO], ["P1Y", "P730D"], id="years of an enum"),
        pytest.param([Path("P1Y"), b"P1Y"], ["P1Y", "P1Y"], id="called like years"),
        pytest.param(Path("a") / "b", "a/b", id="path"),
        pytest.param(PurePosixPath("a/b"), "a/b", id="path of another system"),
        pytest.param(Size.SMALL, "s", id="enum"),
        pytest.param(uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001", id="uuid"),
        pytest.param(Decimal("1.10"), "1.10", id="decimal"),
        pytest.param(b"text", "text", id="bytes"),
        pytest.param(2**70, 2**70, id="large integer"),
    ],
)
def test_a_value_of_the_standard_library_has_one_form(value: object, expected: object) -> None:
    def give() -> Any:
        return value

    assert call(make_tool(give)) == expected


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({1: "a", "1": "b"}, id="equal keys"),
        pytest.param({"rows": [{1: "a", "1": "b"}]}, id="equal keys inside"),
        pytest.param(b"\xff", id="bytes that are no text"),
        pytest.param(object(), id="object"),
        pytest.param("report-\udcff.txt", id="half a character"),
        pytest.param({"k\ud800": 1}, id="half a character in a key"),
        pytest.param({"token": SecretStr("abc")}, id="secret"),
        pytest.param(AROUND_ITSELF, id="list that holds itself"),
        pytest.param([Decimal("NaN")], id="decimal that is no number"),
        pytest.param(re.compile("a", re.IGNORECASE), id="pattern with flags"),
        pytest.param([1j], id="complex number"),
        pytest.param({2 + 1j: "a"}, id="complex number as a key"),
    ],
)
def test_what_would_be_changed_or_lost_is_refused(value: object) -> None:
    def give() -> Any:
        return value

    with pytest.raises(ToolError, match=r"give\(\)"):
        call(make_tool(give))


def test_half_a_character_in_a_key_is_refused_whatever_type_is_declared() -> None:
    def sizes() -> list[dict[str, int]]:
        return [{"k\ud800": 1}]

    with pytest.raises(ToolError, match="half a character"):
        call(make_tool(sizes))


def test_a_complex_number_is_refused_whatever_type_is_declared() -> None:
    def root() -> complex:
        return 1j

    with pytest.raises(ToolError, match="holds 1j, a complex number") as refused:
        call(make_tool(root))

    assert refused.value.hint == "give its parts as two numbers: `[value.real, value.imag]`"


def test_complex_numbers_of_an_array_are_refused() -> None:
    numpy: Any = pytest.importorskip("numpy")

    def roots() -> Any:
        return {"roots": numpy.array([1j, 2.0])}

    with pytest.raises(ToolError, match="complex number"):
        call(make_tool(roots))


@pytest.mark.parametrize("shape", ["number", "array without dimensions", "key"])
def test_a_complex_number_of_numpy_is_refused(shape: str) -> None:
    numpy: Any = pytest.importorskip("numpy")
    number = numpy.complex64(1j)
    value = {
        "number": number,
        "array without dimensions": numpy.array(1j),
        "key": {number: "a"},
    }[shape]

    def root() -> Any:
        return value

    with pytest.raises(ToolError, match="a complex number"):
        call(make_tool(root))


def test_what_is_inside_a_table_or_an_array_is_written_by_the_same_rules() -> None:
    numpy: Any = pytest.importorskip("numpy")
    pandas: Any = pytest.importorskip("pandas")

    def give() -> Any:
        cells = pandas.Series([{"b", "a", "c"}], dtype=object)
        return {
            "frame": pandas.DataFrame({"tags": cells}),
            "nanoseconds": numpy.array(["2024-01-02T03:00"], dtype="datetime64[ns]"),
            "records": numpy.array([(1, 2.5)], dtype=[("n", int), ("price", float)]),
            "queue": deque([{"b", "a", "c"}]),
        }

    assert call(make_tool(give)) == {
        "frame": [{"tags": ["a", "b", "c"]}],
        "nanoseconds": ["2024-01-02T03:00:00"],
        "records": [{"n": 1, "price": 2.5}],
        "queue": [["a", "b", "c"]],
    }


def _columns_of_one_name(pandas: Any) -> Any:
    return pandas.DataFrame([[1, 2]], columns=["a", "a"])


def _columns_of_one_text(pandas: Any) -> Any:
    return pandas.DataFrame([[1, 2]], columns=[1, "1"])


def _labels_of_one_name(pandas: Any) -> Any:
    return pandas.Series([1, 2], index=["a", "a"])


def _no_time(pandas: Any) -> Any:
    return pandas.Series(["NaT"]).to_numpy("datetime64[ns]")


def _nanoseconds(pandas: Any) -> Any:
    return {"at": pandas.Timestamp("2026-01-01T00:00:00.000000001")}


def _nanoseconds_in_a_table(pandas: Any) -> Any:
    return pandas.DataFrame({"for": [pandas.Timedelta(1, "ns")]})


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(_nanoseconds, id="nanoseconds"),
        pytest.param(_nanoseconds_in_a_table, id="nanoseconds in a table"),
        pytest.param(_columns_of_one_name, id="columns"),
        pytest.param(_columns_of_one_text, id="columns as text"),
        pytest.param(_labels_of_one_name, id="labels"),
        pytest.param(_no_time, id="no time"),
    ],
)
def test_a_table_that_would_lose_a_value_is_refused(build: Callable[[Any], object]) -> None:
    pandas: Any = pytest.importorskip("pandas")

    def give() -> Any:
        return build(pandas)

    with pytest.raises(ToolError, match=r"give\(\)"):
        call(make_tool(give))


@pytest.mark.parametrize("column", [["a", float("nan")], [1.0, None]])
def test_a_table_with_gaps_is_refused_with_what_fills_them(column: list[object]) -> None:
    pandas: Any = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"gap": column})

    with pytest.raises(ToolError, match="it holds nan") as refused:
        written_as_json({"rows": frame}, "it")

    assert "where(frame.notna(), None)" in (refused.value.hint or "")
    filled = frame.astype(object).where(frame.notna(), None)
    assert written_as_json(filled, "it") == [{"gap": column[0]}, {"gap": None}]


def test_records_of_numpy_keep_their_names_at_any_depth() -> None:
    numpy: Any = pytest.importorskip("numpy")
    point = [("at", [("x", int), ("y", int)]), ("n", int)]

    def grid() -> Any:
        return numpy.array([[((1, 2), 3)], [((4, 5), 6)]], dtype=point)

    assert call(make_tool(grid)) == [
        [{"at": {"x": 1, "y": 2}, "n": 3}],
        [{"at": {"x": 4, "y": 5}, "n": 6}],
    ]


def _masked(numpy: Any) -> Any:
    return numpy.ma.array([1, 2], mask=[True, False])


def _digits(numpy: Any) -> Any:
    return numpy.array([numpy.longdouble("0.1")])


def _nanoseconds_of_a_record(numpy: Any) -> Any:
    return numpy.array([("2026-01-01T00:00:00.000000001",)], dtype=[("t", "M8[ns]")])


@pytest.mark.parametrize("build", [_masked, _digits, _nanoseconds_of_a_record])
def test_an_array_that_would_lose_a_value_is_refused(build: Callable[[Any], object]) -> None:
    numpy: Any = pytest.importorskip("numpy")

    with pytest.raises(ToolError, match="it cannot be written as JSON"):
        written_as_json(build(numpy), "it")


def test_a_set_has_one_order_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from tests.tools.calling import call\n"
        "from wavewright.tools import make_tool\n"
        "def tags() -> set[str]:\n    return {'alpha', 'beta', 'gamma', 'delta'}\n"
        "print(call(make_tool(tags)))\n"
    )
    root = Path(__file__).parents[3]
    orders = {
        subprocess.run(
            [sys.executable, tmp_path / "mine.py"],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert orders == {"['alpha', 'beta', 'delta', 'gamma']\n"}


def test_keys_that_are_integers_of_an_enumeration_are_texts_in_json() -> None:
    def flipped(names: dict[Level, str]) -> dict[Level, str]:
        return {level: names[level][::-1] for level in names}

    tool = make_tool(flipped)

    assert call(tool, names={"2": "ab"}) == {"2": "ba"}
    assert tool.signature.output_schema["propertyNames"] == {"enum": ["1", "2"]}


def test_labels_of_a_tables_rows_are_kept_and_numbers_that_count_them_are_not() -> None:
    pandas: Any = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"price": [1.5, 2.5, 3.5]})

    def give() -> Any:
        return {
            "counted": frame[frame.price > 2],
            "labelled": frame.set_axis(["a", "b", "c"]).price,
            "named": frame.set_index("price").assign(n=1),
        }

    assert call(make_tool(give)) == {
        "counted": [{"price": 2.5}, {"price": 3.5}],
        "labelled": {"a": 1.5, "b": 2.5, "c": 3.5},
        "named": [{"price": 1.5, "n": 1}, {"price": 2.5, "n": 1}, {"price": 3.5, "n": 1}],
    }


def test_a_missing_value_of_a_table_is_refused_with_what_to_do() -> None:
    pandas: Any = pytest.importorskip("pandas")

    def give() -> Any:
        return [pandas.DataFrame({"at": [pandas.NaT]})]

    with pytest.raises(ResultRefused, match="missing value") as refused:
        call(make_tool(give))

    assert "give None" in str(refused.value.hint)


def test_arrays_and_tables_of_libraries_become_lists() -> None:
    numpy: Any = pytest.importorskip("numpy")
    pandas: Any = pytest.importorskip("pandas")

    def give() -> Any:
        return {"array": numpy.array([1, 2]), "frame": pandas.DataFrame({"a": [1]})}

    assert call(make_tool(give)) == {"array": [1, 2], "frame": [{"a": 1}]}


@pytest.mark.parametrize("written", ["1h30m", "5400s", "PT1H30M", 5400])
def test_a_duration_is_read_as_plans_and_as_tools_write_it(written: Any) -> None:
    def wait(
        pause: Annotated[dt.timedelta | None, Field(description="before")],
        others: list[dt.timedelta],
    ) -> float:
        assert pause is not None
        return pause.total_seconds() + sum(other.total_seconds() for other in others)

    assert call(make_tool(wait), pause=written, others=[written]) == 10800


class Due(BaseModel):
    """A field of each of its names, which words of schemas are, has the others for what they are."""

    type: dt.date | dt.datetime
    default: dt.datetime | dt.date | None = None
    parts: list[Due] = []
    pause: dt.timedelta = dt.timedelta()


@dataclass
class Bill:
    due: Due
    total: float | Decimal


@dataclass
class Counted:
    names: list[str]
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = len(self.names)


class Area(BaseModel):
    model_config = ConfigDict(extra="forbid")

    width: int
    height: int

    @computed_field
    def size(self) -> int:
        return self.width * self.height


class Fields(BaseModel):
    areas: list[Area]
    counted: Counted | None = None


class Place(enum.Enum):
    CORNER = (0, 0)
    EDGE = (0, 1)


class Right(enum.IntFlag):
    READ = 4
    WRITE = 2
    ALL = 6


class Mark(enum.Flag):
    SEEN = 1
    DONE = 2


DAY, INSTANT = dt.date(2026, 1, 2), dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (list[dt.datetime | dt.date], [DAY, INSTANT]),
        (Annotated[list[dt.date | dt.datetime], Field(min_length=2)], [INSTANT, DAY]),
        (Due, Due(type=INSTANT, default=DAY, parts=[Due(type=DAY, default=INSTANT)])),
        (Bill, Bill(Due(type=INSTANT, pause=dt.timedelta(hours=1)), Decimal("0.10"))),
        (dict[str, Bill | None], {"a": Bill(Due(type=INSTANT), 0.5), "b": None}),
        (dt.timedelta | dt.time, dt.time(3, 4)),
        (dt.date | Decimal, Decimal(0)),
        (dt.timedelta | int, dt.timedelta(hours=1)),
        (int | Decimal, Decimal("1.0")),
        (Annotated[dt.date, AfterValidator(str)] | dt.datetime, INSTANT),
        (dt.timedelta | str, "90s"),
        (dt.timedelta | str, "P1D"),
        (dt.date | str | None, "2026-01-02"),
        (dt.timedelta | Annotated[str, Field(pattern="^x")], dt.timedelta(seconds=90)),
        (Counted, Counted(["a", "b"])),
        (Fields, Fields(areas=[Area(width=2, height=3)], counted=Counted([]))),
        (Place | int, Place.CORNER),
        (Literal[Place.EDGE, "none"], Place.EDGE),
        (Literal[b"x", 1], b"x"),
        (Right, Right.READ | Right.WRITE),
        (dict[str, Mark], {"a": Mark(0), "b": Mark.DONE | Mark.SEEN}),
    ],
)
def test_a_value_of_several_types_is_what_it_is_written_as(kind: Any, value: object) -> None:
    def take(value: Any) -> str:
        return repr(value)

    take.__annotations__["value"] = kind
    written = written_as_json(value, "the value", TypeAdapter(kind))

    assert call(make_tool(take), value=written) == repr(value).replace(
        "datetime.timezone.utc", "TzInfo(0)"
    )


def test_flags_are_described_by_their_bits() -> None:
    assert schema_of(TypeAdapter(Right), mode="validation") == {
        "type": "integer",
        "minimum": 0,
        "maximum": 6,
    }


def test_a_field_that_a_class_makes_itself_goes_from_one_tool_to_another() -> None:
    def measure(width: int) -> Area:
        return Area(width=width, height=3)

    def grow(area: Area) -> int:
        return int(area.model_dump()["size"]) + 1

    plan = Plan(
        steps=(
            Step(id=StepId("measured"), tool="measure", params={"width": 2}),
            Step(id=StepId("grown"), tool="grow", params={"area": "${steps.measured}"}),
        ),
        result="${steps.grown}",
    )
    tools = [make_tool(measure), make_tool(grow)]

    assert check(plan, None, {tool.signature.name: tool.signature for tool in tools}) == []
    assert call(tools[1], area=call(tools[0], width=2)) == 7


def test_what_fits_none_of_several_types_is_told_by_their_kinds() -> None:
    def take(at: dt.date | dt.datetime, amount: int | Decimal) -> str:
        return repr((at, amount))

    with pytest.raises(ToolError) as refused:
        call(make_tool(take), at="soon", amount=1)

    assert re.findall(r"(\S+): input", str(refused.value)) == ["at.date", "at.datetime"]


def test_one_is_no_truth_value_for_a_literal() -> None:
    def take(number: Literal["a", 1, True]) -> str:
        return repr(number)

    assert call(make_tool(take), number=1.0) == "1"
