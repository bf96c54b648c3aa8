"""Steps whose tools data chooses: each call checked, approved, made once and reported as any other."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any, cast

import pytest

from wavewright.engine import Wavewright
from wavewright.engine.rehearsal.recordings.recorded_tools import RecordedTools
from wavewright.engine.run.permit_checks import CallAllowance
from wavewright.planner.checks.permits import Permits, ToolPermit
from wavewright.planner.diagnostics.diagnostic import PlanError
from wavewright.planner.language.goals import Goal
from wavewright.planner.types import RunId, StepId, StepKey
from wavewright.tools import ToolError
from wavewright.tools.functions.dispatch import dispatch_tools
from wavewright.tools.functions.registry import make_tool
from wavewright.tools.functions.tool import Tool, ToolCall

PAY = {"tool": "pay", "params": {"to": "Ann", "amount": 5}}
MOVE = {"tool": "move", "params": {"room": "b"}}


class Bank:
    """What was done, in its order."""

    def __init__(self, calls: list[Any]) -> None:
        self.calls = calls
        self.done: list[str] = []
        self.keys: list[str] = []
        self.broken = False

    def asked_for(self) -> list[dict[str, Any]]:
        return self.calls

    def pay(self, to: str, amount: int, *, idempotency_key: str) -> int:
        if self.broken:
            raise ToolError("the bank is closed")
        self.keys.append(idempotency_key)
        self.done.append(f"paid {to} {amount}")
        return amount

    def move(self, room: str) -> str:
        self.done.append(f"moved to {room}")
        return room

    def tools(self) -> list[Tool]:
        return [
            make_tool(self.asked_for, untrusted_output=True),
            make_tool(self.pay, effects=("read", "write")),
            make_tool(self.move, effects=("write",)),
        ]


def plan_file(tmp_path: Path, **fields: Any) -> Path:
    act = {"id": "act", "dispatch": "${steps.calls}", "tools": ["pay", "move"], **fields}
    steps = [{"id": "calls", "tool": "asked_for"}, act]
    file = tmp_path / "act.plan.json"
    file.write_text(json.dumps({"version": 1, "steps": steps, "result": "${steps.act}"}))
    return file


def always(_request: object) -> bool:
    return True


def engine(bank: Bank, tmp_path: Path, **settings: Any) -> Wavewright:
    return Wavewright(tools=bank.tools(), journal=tmp_path / "runs.db", **settings)


def test_each_call_is_made_by_the_tool_that_it_names_in_the_order_of_the_list(
    tmp_path: Path,
) -> None:
    bank = Bank([PAY, MOVE, PAY | {"params": {"to": "Bo", "amount": 1}}])
    ended = engine(bank, tmp_path, approve=always).run_sync(
        plan_file(tmp_path, needs_approval=True)
    )

    assert bank.done == ["paid Ann 5", "moved to b", "paid Bo 1"]
    assert ended.result == [
        {"tool": "pay", "output": 5},
        {"tool": "move", "output": "b"},
        {"tool": "pay", "output": 1},
    ]


def test_calls_are_approved_as_one_list_with_all_values(tmp_path: Path) -> None:
    bank, asked = Bank([PAY, MOVE]), list[str]()

    def refuse(request: Any) -> bool:
        asked.append(request.text)
        return False

    engine(bank, tmp_path, approve=refuse).run_sync(plan_file(tmp_path, needs_approval=True))

    (text,) = asked
    assert bank.done == []
    assert all(word in text for word in ("pay", "Ann", "5", "move", '"b"'))


def test_calls_out_of_untrusted_text_need_an_approval(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as refused:
        engine(Bank([]), tmp_path).run_sync(plan_file(tmp_path))

    assert [fault.code for fault in refused.value.diagnostics] == ["E601"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"tool": "drop", "params": {}}, "drop"),
        ({"tool": "pay", "params": {"to": "Ann", "amount": "much"}}, "amount"),
        ({"tool": "pay", "params": {"to": "Ann"}}, "amount"),
        ({"tool": "move", "params": {"room": "b", "all": True}}, "all"),
        ({"tool": "pay"}, "params"),
    ],
)
def test_a_call_that_fits_no_tool_of_the_list_is_never_made(
    tmp_path: Path, call: Any, message: str
) -> None:
    bank, asked = Bank([call, MOVE]), list[str]()

    def agree(request: Any) -> bool:
        asked.append(request.text)
        return True

    ended = engine(bank, tmp_path, approve=agree).run_sync(plan_file(tmp_path, needs_approval=True))

    step = ended.steps["act"]
    assert bank.done == ["moved to b"]
    assert step.status == "failed"
    assert message in str(step.error)


@pytest.mark.anyio
async def test_calls_that_were_made_are_not_made_again_by_a_retry(tmp_path: Path) -> None:
    bank = Bank([MOVE, PAY])
    bank.broken = True
    wavewright = engine(bank, tmp_path, approve=always)
    async with wavewright:
        first = await wavewright.run(plan_file(tmp_path, needs_approval=True))
        bank.broken = False
        second = await wavewright.retry(first.id)

    assert second.result == [{"tool": "move", "output": "b"}, {"tool": "pay", "output": 5}]
    assert bank.done == ["moved to b", "paid Ann 5"]


def test_a_replayed_call_needs_the_permit_of_the_tool_that_was_chosen() -> None:
    tools = {tool.signature.name: tool for tool in Bank([]).tools()}
    (union,) = dispatch_tools({"dispatch.move.pay"}, tools).values()
    replayed = RecordedTools(()).routed(union, cast("Goal", None))
    allowance = CallAllowance(Permits(tools={"move": ToolPermit()}, calls=5), 0)

    allowance.take(replayed, call_of(MOVE))
    with pytest.raises(ToolError, match="'pay' is not among the permits"):
        allowance.take(replayed, call_of(PAY))


def call_of(chosen: Any) -> ToolCall:
    return ToolCall(
        run=RunId("r"),
        step=StepId("act"),
        tool="dispatch.move.pay",
        params={"call": chosen},
        key=StepKey("k"),
        now=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    )


@pytest.mark.parametrize("tools", [["pay", "moev"], ["pay", "ask_person"]])
def test_only_tools_that_a_plan_may_call_can_be_chosen(tmp_path: Path, tools: list[str]) -> None:
    with pytest.raises(PlanError) as refused:
        engine(Bank([]), tmp_path).run_sync(plan_file(tmp_path, tools=tools))

    assert {fault.code for fault in refused.value.diagnostics} <= {"E201", "E202"}
