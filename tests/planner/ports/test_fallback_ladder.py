"""The ladder: rungs tried from the top, each on record, with clocks that know what came before."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from wavewright.config.settings import load_settings
from wavewright.config.sources import DocumentError
from wavewright.planner.ports.fallback_ladder import (
    RUNGS_BY_LADDER,
    FallbackFailure,
    Ladder,
    Rung,
    RungRecord,
    RungTimeout,
    read_ladders,
    run_ladder,
    rung_timeout,
)
from wavewright.planner.types import Json

LADDER = Ladder(
    name="worker",
    rungs=(
        Rung(name="agent"),
        Rung(name="suggested", ceiling=0.5, because="it was guessed"),
        Rung(name="forced"),
    ),
)


async def falls(rung: Rung) -> str | FallbackFailure:
    return FallbackFailure(f"{rung.name} gave nothing")


async def gives(rung: Rung) -> str | FallbackFailure:
    return rung.name


async def ends(rung: Rung) -> str | FallbackFailure:
    return FallbackFailure("somebody is asked first", ends_ladder=True)


def told(records: tuple[RungRecord, ...]) -> list[tuple[str, str, str]]:
    return [(record.rung, record.outcome, record.reason) for record in records]


@pytest.mark.anyio
async def test_the_first_rung_that_gives_something_ends_the_descent() -> None:
    seen: list[RungRecord] = []

    outcome = await run_ladder(
        LADDER,
        {"agent": falls, "suggested": gives, "forced": gives},
        label="worker x",
        on_rung=seen.append,
    )

    assert (outcome.value, outcome.rung) == ("suggested", "suggested")
    assert told(outcome.records) == [
        ("agent", "fallen", "agent gave nothing"),
        ("suggested", "reached", ""),
    ]
    assert tuple(seen) == outcome.records
    assert {record.ladder for record in seen} == {"worker x"}
    assert (outcome.records[-1].ceiling, outcome.records[-1].because) == (0.5, "it was guessed")


@pytest.mark.anyio
async def test_a_ladder_from_which_everything_fell_says_why_on_every_rung() -> None:
    outcome = await run_ladder(LADDER, {"agent": falls, "suggested": falls, "forced": falls})

    assert (outcome.value, outcome.rung) == (None, None)
    assert [record.reason for record in outcome.records] == [
        f"{rung.name} gave nothing" for rung in LADDER.rungs
    ]


@pytest.mark.anyio
async def test_a_rung_without_a_way_is_passed_over() -> None:
    outcome = await run_ladder(LADDER, {"forced": gives})

    assert told(outcome.records) == [("forced", "reached", "")]


@pytest.mark.anyio
async def test_a_fall_that_ends_the_ladder_leaves_the_rungs_below_untried() -> None:
    outcome = await run_ladder(LADDER, {"agent": ends, "suggested": gives})

    assert told(outcome.records) == [("agent", "fallen", "somebody is asked first")]
    assert (outcome.value, outcome.rung) == (None, None)


CLOCK = RungTimeout(base=10, per_1000_chars=2, of_past=3, least=5, most=100)


@pytest.mark.parametrize(
    ("chars", "past", "seconds"),
    [
        (0, [], 10),
        (5000, [], 20),
        (0, [1.0, 2.0], 10),
        (0, [4.0, 8.0], 24),
        (0, [*[1.0] * 99, 50.0], 10),
        (1_000_000, [], 100),
        (0, [500.0], 100),
    ],
)
def test_a_deadline_grows_with_the_question_and_with_the_past(
    chars: int, past: list[float], seconds: float
) -> None:
    assert rung_timeout(CLOCK, chars, past) == seconds


@pytest.mark.parametrize(
    ("past", "seconds"), [([2.0] * 19, 20), ([2.0] * 20, 6), ([1.0] * 20, 5), ([9.0] * 20, 20)]
)
def test_past_calls_may_cut_a_deadline_once_there_are_enough(
    past: list[float], seconds: float
) -> None:
    clock = CLOCK.model_copy(update={"past": "at_most"})

    assert rung_timeout(clock, 5000, past) == seconds


seconds = st.floats(0.1, 1000)


@given(seconds, st.floats(0, 10), st.integers(0, 10**6), st.lists(seconds, max_size=20), seconds)
def test_more_to_read_or_a_slower_past_never_shortens_a_deadline(
    base: float, rate: float, chars: int, past: list[float], more: float
) -> None:
    clock = RungTimeout(base=base, per_1000_chars=rate, least=5, most=600)
    given_ = rung_timeout(clock, chars, past)

    assert 5 <= given_ <= 600
    assert rung_timeout(clock, chars + 1000, past) >= given_
    assert rung_timeout(clock, chars, [one + more for one in past]) >= given_


def test_the_shipped_ladders_are_those_that_there_is_code_for() -> None:
    ladders = read_ladders({})

    assert {
        name: tuple(rung.name for rung in one.rungs) for name, one in ladders.items()
    } == RUNGS_BY_LADDER
    ceilings = {
        (name, rung.name): rung.ceiling for name, one in ladders.items() for rung in one.rungs
    }
    assert ceilings["planner", "llm"] == 1
    assert ceilings["planner", "repaired"] == 0.95
    assert ceilings["planner", "minimal"] == 0.3
    assert all(rung.because for one in ladders.values() for rung in one.rungs if rung.ceiling < 1)
    repaired = ladders["planner"].rung("repaired")
    assert repaired is not None
    assert repaired.tries == 3


def test_a_projects_ladder_takes_the_place_of_the_shipped_one_whole() -> None:
    mine: Json = [{"name": "llm", "clock": {"base": "2m"}}, {"name": "template", "ceiling": 0.5}]

    ladders = read_ladders({"planner": mine})

    assert [(rung.name, rung.ceiling) for rung in ladders["planner"].rungs] == [
        ("llm", 1.0),
        ("template", 0.5),
    ]
    assert ladders["planner"].rungs[0].clock == RungTimeout(base=120)
    assert ladders["worker"] == read_ladders({})["worker"]


@pytest.mark.parametrize(
    ("ladders", "pointer", "message", "hint"),
    [
        pytest.param(
            {"planer": []},
            "/ladders/planer",
            "there is no ladder 'planer'",
            "did you mean 'planner'?",
            id="name",
        ),
        pytest.param(
            {"planner": [{"name": "lm"}]},
            "/ladders/planner/0/name",
            "ladder 'planner' has no rung 'lm'",
            "did you mean 'llm'?",
            id="rung",
        ),
        pytest.param(
            {"planner": [{"name": "llm"}, {"name": "llm"}]},
            "/ladders/planner/1/name",
            "the rung 'llm' stands twice in ladder 'planner'",
            "write 'tries' to try it more than once",
            id="twice",
        ),
        pytest.param(
            {"planner": [{"name": "llm", "tries": 0}]},
            "/ladders/planner/0/tries",
            "ladder 'planner': 'tries' of rung 'llm' should be at least 1, and is the number 0",
            None,
            id="tries",
        ),
        pytest.param(
            {"planner": [{"name": "llm", "ceilng": 1}]},
            "/ladders/planner/0/ceilng",
            "ladder 'planner': 'ceilng' is no field of rung 'llm'",
            "did you mean 'ceiling'?",
            id="field",
        ),
        pytest.param(
            {"reviewer": []},
            "/ladders/reviewer",
            "ladder 'reviewer' has no rungs",
            "name at least one of model, code",
            id="empty",
        ),
        pytest.param(
            {"planner": "llm"},
            "/ladders/planner",
            "ladder 'planner': 'rungs' should be a list, and is the string 'llm'",
            'write a list: ["llm"]',
            id="no list",
        ),
    ],
)
def test_a_faulty_ladder_is_named_with_its_place_and_a_mend(
    ladders: dict[str, Json], pointer: str, message: str, hint: str | None
) -> None:
    with pytest.raises(DocumentError) as caught:
        read_ladders(ladders)

    (fault,) = caught.value.faults
    assert (caught.value.source.name, fault.pointer) == ("wavewright.yaml", pointer)
    assert (fault.message, fault.hint) == (message, hint)


def test_a_faulty_ladder_of_a_settings_file_is_shown_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "wavewright.yaml").write_text(
        "version: 1\nladders:\n  planner:\n    - name: llm\n    - {name: minimal, ceilng: 1}\n  writer: []\n"
    )
    settings = load_settings(tmp_path, {})

    with pytest.raises(DocumentError) as caught:
        read_ladders(settings.ladders, settings.document)

    source = caught.value.source
    places = [
        source.position(fault.span.start) for fault in caught.value.faults if fault.span is not None
    ]
    assert source.name == str(tmp_path / "wavewright.yaml")
    assert places == [(5, 23), (6, 3)]
