"""One tool over a list, what failed of it, and its table."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import pytest

from tests.engine.conftest import CommandLine
from wavewright.config.errors import WavewrightError
from wavewright.engine import ItemsRefused, NoFrame, NoResult, Wavewright
from wavewright.planner import PlanError

pytestmark = pytest.mark.anyio


def halve(number: int) -> float:
    """Halve an even number."""
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number / 2


def join(left: str, right: str, *, mark: str = "-") -> str:
    """Join two texts."""
    return f"{left}{mark}{right}"


def nothing() -> None:
    """Take nothing."""


@pytest.fixture
def ww(wavewright: CommandLine) -> Wavewright:
    return Wavewright(journal="runs.db")


def _numbers() -> Iterator[int]:
    yield from (2, 4)


class _Bus:
    def halve(self, number: int) -> float:
        return number / 2


@pytest.mark.parametrize(
    ("tool", "items", "params", "result"),
    [
        (halve, range(0, 6, 2), {}, [0, 1, 2]),
        (halve, _numbers(), {}, [1, 2]),
        (halve, {8}, {}, [4]),
        (halve, [], {}, []),
        (_Bus().halve, (2,), {}, [1]),
        (join, ["a", "b"], {"left": "x"}, ["x-a", "x-b"]),
        (join, ["${inputs}"], {"right": "x", "mark": ""}, ["${inputs}x"]),
        (join, [{"l": "a", "r": "b"}], {"left": "${item.l}", "right": "${item.r}"}, ["a-b"]),
        (join, ["a"], {"left": "${string(item)}", "right": "${ item }"}, ["a-a"]),
        (join, ["a", "b"], {"left": "#${index}"}, ["#0-a", "#1-b"]),
        (join, ["a"], {"right": "${index}: ${item}"}, None),
    ],
)
async def test_an_item_is_the_first_parameter_that_is_not_given_unless_it_is_read(
    ww: Wavewright,
    tool: Callable[..., object],
    items: Iterable[object],
    params: Mapping[str, object],
    result: list[object] | None,
) -> None:
    async with ww:
        if result is None:
            with pytest.raises(PlanError, match="left"):
                await ww.map(tool, items, params)
            return
        run = await ww.map(tool, items, params)

    assert run.status == "achieved"
    assert run.result == result


async def test_more_items_are_mapped_than_a_models_plan_may_have(ww: Wavewright) -> None:
    async with ww:
        run = await ww.map(halve, range(0, 4_000, 2))

    assert len(run.result) == 2_000


async def test_a_retry_over_a_longer_list_asks_for_as_many_successes(ww: Wavewright) -> None:
    async with ww:
        run = await ww.map(halve, [2, 4], min_ok=5)
        longer = await ww.retry(run.id, set={"items": [*range(8)]}, tools=[halve])
        enough = await ww.retry(run.id, set={"items": [*range(10)]}, tools=[halve])

    assert (run.status, longer.status, enough.status) == ("achieved", "not_achieved", "achieved")
    assert enough.result == [0, 1, 2, 3, 4]


async def test_calls_that_fail_are_left_out_and_told_with_input_and_traceback(
    ww: Wavewright,
) -> None:
    async with ww:
        run = await ww.map(halve, range(300))
        strict = await ww.map(halve, range(3), min_ok=None)
        none = await ww.map(halve, [1, 3])

    assert run.status == "achieved"
    assert len(run.result) == 150
    assert [failed.index for failed in run.failures] == [*range(1, 300, 2)]
    assert run.failures[-1].params == {"number": 299}
    assert run.failures[0].traceback.endswith("ValueError: 1 is odd")
    assert str(run.failures[0]) == "calls[1]: tool: ValueError: 1 is odd"
    assert (strict.status, none.status) == ("not_achieved", "not_achieved")


async def test_a_table_has_a_row_for_each_call(ww: Wavewright) -> None:
    async with ww:
        plan = ww.new_plan().step("two", halve, {"number": 4})
        plan = plan.step("odd", halve, {"number": "${item}"}, for_each=[1, 2], min_ok=1)
        run = await ww.run(plan)

    frame: Any = run.to_frame()
    assert frame.step.tolist() == ["two", "odd", "odd"]
    assert frame.item.isna().tolist() == [True, False, False]
    assert frame.item.tolist()[1:] == [0, 1]
    assert frame.status.tolist() == ["ok", "failed", "ok"]
    assert frame.output.dropna().tolist() == [2.0, 1.0]
    assert frame.input.tolist() == [{"number": 4}, {"number": 1}, {"number": 2}]
    assert len(run.to_frame("odd")) == 2
    with pytest.raises(NoFrame, match="did you mean 'odd'"):
        run.to_frame("od")


@pytest.mark.parametrize("size", [2**53 + 1, 2**70 + 1])
async def test_integers_in_a_table_stay_exact_beside_calls_that_failed(
    ww: Wavewright, size: int
) -> None:
    def count(number: int) -> int:
        """Count, where there is something."""
        if number == 0:
            raise ValueError("there is nothing")
        return number

    async with ww:
        run = await ww.map(count, [size, 0, 1])

    frame: Any = run.to_frame()
    assert frame.output.isna().tolist() == [False, True, False]
    assert frame.output.dropna().tolist() == [size, 1]


async def test_what_cannot_be_mapped_is_refused_with_a_hint(ww: Wavewright) -> None:
    async with ww:
        with pytest.raises(ItemsRefused, match="give a list"):
            await ww.map(halve, "123")
        with pytest.raises(ItemsRefused, match="the items are 5, not a list"):
            await ww.map(halve, 5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="`params` are a dict of names and values"):
            await ww.map(halve, [1], "number")  # type: ignore[arg-type]
        with pytest.raises(ItemsRefused, match="name where an item goes"):
            await ww.map(nothing, [1])
        with pytest.raises(PlanError, match="is not closed"):
            await ww.map(halve, [1], {"number": "${item"})
        with pytest.raises(PlanError, match="no such tool"):
            await ww.map("halve", [1])
        with pytest.raises(WavewrightError, match="nan"):
            await ww.map(halve, [Decimal("NaN"), float("nan")])


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({}, "params={'left': '${item.left}', 'right': '${item.right}'}"),
        ({"right": "b"}, "params={'left': '${item.left}'}"),
        ({"left": "a", "right": "b"}, "params={'mark': '${item.FIELD}'}"),
    ],
)
async def test_rows_are_refused_with_what_to_say_where_a_parameter_takes_none(
    ww: Wavewright, given: Mapping[str, str], hint: str
) -> None:
    rows = [{"left": "a", "right": "b", "more": 1}]
    async with ww:
        with pytest.raises(ItemsRefused, match="the items are rows, and") as refused:
            await ww.map(join, rows, given)
        assert refused.value.hint == f"say what is read of a row: {hint}"
        read = {"left": "${item.left}", "right": "${item.right}"}
        assert (await ww.map(join, rows, read)).result == ["a-b"]


async def test_a_row_is_given_whole_to_a_parameter_that_takes_one(ww: Wavewright) -> None:
    def count(row: dict[str, int]) -> int:
        return len(row)

    def keep(row: object) -> object:
        return row

    async with ww:
        assert (await ww.map(count, [{"a": 1, "b": 2}])).result == [2]
        assert (await ww.map(keep, [{"a": 1}, {}])).result == [{"a": 1}, {}]
        assert (await ww.map(join, [], {"right": "b"}, min_ok=None)).result == []


def test_a_program_without_async_maps_too(ww: Wavewright) -> None:
    assert ww.map_sync(halve, [2, 4]).result == [1, 2]


async def test_progress_is_told_on_standard_error_also_of_what_ran_before(
    ww: Wavewright, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ww:
        await ww.map(halve, range(6), run="m")
        told = io.StringIO()
        monkeypatch.setattr(sys, "stderr", told)
        await ww.map(halve, range(6), run="m", progress=True)

    assert told.getvalue().startswith("achieved: 1 of 1 step, 6 of 6 items, 3 failed, ")


async def test_a_run_without_a_plan_has_neither_failures_nor_a_table(ww: Wavewright) -> None:
    async with Wavewright(journal="runs.db", ask=lambda _: None) as asking:
        run = await asking.run(asking.new_plan().step("q", "ask_person", {"question": "Which?"}))

    assert run.failures == ()
    assert run.to_frame().empty
    with pytest.raises(NoResult):
        _ = run.result
