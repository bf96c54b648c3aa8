"""A phase that runs a plan, also after its process was killed in the middle of it."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.support.prepared_command import run_prepared_python
from wavewright.engine import Pipeline, PlanRun, RunPlan, Wavewright
from wavewright.planner import PlanError
from wavewright.planner.types import Json
from wavewright.tools import make_tool

pytestmark = pytest.mark.anyio

PROGRAM = '''
import asyncio, os, signal
from dataclasses import dataclass, replace
from pathlib import Path
from wavewright.engine import Pipeline, RunPlan, Wavewright

@dataclass(frozen=True)
class Turn:
    game_id: str
    attack: int
    damage: int = 0

def roll(sides: int) -> int:
    """Roll a die."""
    with Path("rolls").open("a") as rolls:
        rolls.write("rolled\\n")
    return sides - 1

def strike(attack: int, die: int) -> int:
    """Strike, and die on the first attempt."""
    if not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return attack + die

async def main():
    async with Wavewright(tools=[roll, strike], journal="runs.db") as ww:
        plan = (
            ww.new_plan(inputs={"attack": 0})
            .step("die", roll, {"sides": 20})
            .step("blow", strike, {"attack": "${inputs.attack}", "die": "${steps.die}"})
            .returns("${steps.blow}")
        )
        fight = RunPlan(
            "fight", ww, plan, lambda turn: {"attack": turn.attack},
            lambda turn, run: replace(turn, damage=run.result), lambda turn: f"{turn.game_id}-turn-1",
        )
        done = await Pipeline.builder("turn").phase(fight).build().run(Turn("g1", 5))
        print(done.context.damage)

asyncio.run(main())
'''


@dataclass(frozen=True)
class Wallet:
    coins: int
    doubled: Json = None
    status: str = ""


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def inputs_of(wallet: Wallet) -> dict[str, Json]:
    return {"coins": wallet.coins}


def with_doubled(wallet: Wallet, run: PlanRun[Json]) -> Wallet:
    return replace(wallet, doubled=run.package.result, status=run.status)


async def test_a_phase_runs_a_plan_with_inputs_of_its_context(wavewright: CommandLine) -> None:
    async with Wavewright(tools=[double], journal="runs.db") as ww:
        plan = ww.new_plan(inputs={"coins": 0}).step("d", double, {"number": "${inputs.coins}"})
        phase = RunPlan("count", ww, plan.returns("${steps.d}"), inputs_of, with_doubled)
        run = await Pipeline.builder().phase(phase).build().run(Wallet(21))
        faulty = replace(phase, plan=ww.new_plan().step("d", "halve"))
        with pytest.raises(PlanError, match="E201"):
            await faulty.run(Wallet(1))

    assert run.context == Wallet(21, 42, "achieved")


async def test_a_run_that_waits_for_a_person_halts_the_pipeline(wavewright: CommandLine) -> None:
    tools = [make_tool(double, needs_approval=True)]
    async with Wavewright(tools=tools, journal="runs.db", approve=lambda _: None) as ww:
        plan = ww.new_plan(inputs={"coins": 0}).step("d", "double", {"number": "${inputs.coins}"})
        phase = RunPlan("count", ww, plan, inputs_of, with_doubled)
        run = await Pipeline.builder().phase(phase).build().run(Wallet(21))

    assert (run.halted, run.context.doubled) == ("RUN_INTERRUPTED", None)


def test_a_plan_whose_process_was_killed_continues_and_calls_nothing_again(tmp_path: Path) -> None:
    killed, resumed, repeated = (
        run_prepared_python("-c", PROGRAM, folder=tmp_path) for _ in range(3)
    )

    assert killed.returncode == -signal.SIGKILL
    assert (resumed.stdout, repeated.stdout) == ("24\n", "24\n"), resumed.stderr
    assert (tmp_path / "rolls").read_text() == "rolled\n"
