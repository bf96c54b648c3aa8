"""What the public API of the planner loads."""

from __future__ import annotations

import subprocess
import sys


def loaded_after(program: str) -> set[str]:
    shown = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nprint(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(shown.stdout.split())


def test_reading_a_plan_does_not_load_networkx() -> None:
    program = (
        "from wavewright.planner import read_plan\n"
        'assert read_plan(\'{"steps": [{"id": "a", "tool": "x"}]}\', \'plan.json\').plan is not None'
    )

    assert "networkx" not in loaded_after(program)


def test_a_check_loads_neither_an_event_loop_nor_a_client() -> None:
    loaded = loaded_after(
        "from wavewright.planner import Plan, Step, check\n"
        "plan = Plan(steps=(Step(id='a', tool='x', depends_on=('b',)), Step(id='b', tool='x', depends_on=('a',))))\n"
        "assert {d.code for d in check(plan, None, {})} == {'E201', 'E401'}"
    )

    assert "anyio" not in loaded
    assert "httpx" not in loaded
