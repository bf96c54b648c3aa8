"""Values of Python that a program gives a plan become JSON as the results of tools do."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from wavewright.config.errors import WavewrightError
from wavewright.engine import LoadedPlan, Wavewright
from wavewright.planner import Json


class Colour(enum.Enum):
    RED = "red"


class Base(BaseModel):
    a: int = 1


class Derived(Base):
    b: int = 2


@dataclass
class Row:
    day: dt.date


def echo(value: Any) -> Any:
    """Give a value back."""
    return value


VALUES = [
    pytest.param(dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "2024-01-01T00:00:00Z", id="datetime"),
    pytest.param(dt.date(2024, 1, 1), "2024-01-01", id="date"),
    pytest.param(dt.time(1, 2), "01:02:00", id="time"),
    pytest.param(dt.timedelta(hours=1), "PT1H", id="timedelta"),
    pytest.param(Path("a/b"), "a/b", id="path"),
    pytest.param(Colour.RED, "red", id="enum"),
    pytest.param(uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005", id="uuid"),
    pytest.param(decimal.Decimal("0.10"), "0.10", id="decimal"),
    pytest.param(b"hi", "hi", id="bytes"),
    pytest.param({3, 1, 2}, [1, 2, 3], id="set"),
    pytest.param(range(3), [0, 1, 2], id="range"),
    pytest.param(Row(dt.date(2024, 1, 1)), {"day": "2024-01-01"}, id="dataclass"),
    pytest.param([Derived()], [{"a": 1, "b": 2}], id="model-of-a-subclass"),
    pytest.param(2**53 + 1, 2**53 + 1, id="beyond-2^53"),
    pytest.param(2**70, 2**70, id="beyond-64-bits"),
]

Builder = Callable[[Wavewright, object], LoadedPlan]


def by_input(app: Wavewright, value: object) -> LoadedPlan:
    return app.new_plan(inputs={"v": value}).step("z", echo, {"value": "${inputs.v}"})


def by_parameter(app: Wavewright, value: object) -> LoadedPlan:
    return app.new_plan().step("z", echo, {"value": value})


def by_other_input(app: Wavewright, value: object) -> LoadedPlan:
    return by_input(app, 0).with_inputs({"v": value})


BUILDERS = [by_input, by_parameter, by_other_input]


@pytest.fixture
def app(tmp_path: Path) -> Wavewright:
    return Wavewright(journal=tmp_path / "journal.db")


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize(("value", "written"), VALUES)
def test_a_value_reaches_the_tool_as_its_json(
    app: Wavewright, build: Builder, value: object, written: Json
) -> None:
    ended = app.run_sync(build(app, value).returns("${steps.z}"))

    assert ended.result == written


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize(
    "value",
    [{1: "a", "1": "b"}, float("nan"), [float("inf")], b"\xff", object()],
    ids=["two-keys", "nan", "infinity", "no-text", "object"],
)
def test_a_value_that_json_cannot_carry_is_refused_by_its_name(
    app: Wavewright, build: Builder, value: object
) -> None:
    with pytest.raises(WavewrightError, match=r"the (input 'v'|parameter 'value' of step 'z')"):
        build(app, value)


def test_a_value_in_a_plan_that_is_a_dict_is_refused_by_its_step(app: Wavewright) -> None:
    steps = [{"id": "z", "tool": "echo", "params": {"value": object()}}]

    with pytest.raises(WavewrightError, match="the parameter 'value' of step 'z'"):
        app.load({"steps": steps})


def test_items_given_in_python_become_json(app: Wavewright) -> None:
    days = [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]

    plan = app.new_plan().step("z", echo, {"value": "${item}"}, for_each=days)

    assert app.run_sync(plan.returns("${steps.z}")).result == ["2024-01-01", "2024-01-02"]
