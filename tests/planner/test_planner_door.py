"""The door of the planner: what it promises is there, and it opens without loading what it does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

import wavewright.planner as door


@pytest.mark.parametrize("name", door.__all__)
def test_every_promised_name_leads_to_something(name: str) -> None:
    assert getattr(door, name) is not None


def test_the_door_promises_exactly_what_it_leads_to() -> None:
    assert set(door.__all__) == set(dir(door))
    assert len(door.__all__) == len(set(door.__all__))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'wavewright\.planner' has no attribute 'chekc'"):
        _ = door.chekc


def loaded_after(program: str) -> set[str]:
    shown = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nprint(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(shown.stdout.split())


def test_opening_the_door_loads_nothing_of_the_room() -> None:
    loaded = loaded_after("import wavewright.planner")

    assert not {name for name in loaded if name.startswith("wavewright.planner.")}


def test_a_check_does_not_load_networkx() -> None:
    loaded = loaded_after(
        "from wavewright.planner import Plan, Step, check\n"
        "plan = Plan(steps=(Step(id='a', tool='x', depends_on=('b',)), Step(id='b', tool='x', depends_on=('a',))))\n"
        "assert {d.code for d in check(plan, None, {})} == {'E201', 'E401'}"
    )

    assert "networkx" not in loaded
    assert "anyio" not in loaded
    assert "httpx" not in loaded
