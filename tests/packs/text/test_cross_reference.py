"""Several sources brought together: code merges and counts, a model only says which names mean the
same.
"""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from hypothesis import given, strategies as st

from tests.tools.calling import request
from tests.tools.scripted_models import Script, ScriptedModels, project, serving
from wavewright.packs.text.cross_reference import (
    RecordMention,
    agreement,
    group_mentions,
    merge_mentions,
    normal_name,
)
from wavewright.planner.types import Json, JsonObject
from wavewright.tools import ToolError, load_pack
from wavewright.tools.workers import make_services, make_worker

ANNALS: JsonObject = {
    "source": "annals",
    "records": [{"name": "Arthas", "born": 5, "realm": "Lordaeron"}, {"name": "Jaina", "born": 7}],
}
SONGS: JsonObject = {
    "source": "songs",
    "records": [{"name": "ARTHAS", "born": 6}, {"name": "The Lich King", "realm": "Northrend"}],
}
LETTERS: JsonObject = {"source": "letters", "records": [{"name": "Árthas!", "born": 5}]}


def merge(
    home: Path, sources: list[Json], *script: Script, **more: Json
) -> tuple[JsonObject, ScriptedModels]:
    services, models = serving(home, *(script or ("never",)))
    if not script:
        services = make_services(project(home, model=None))
    worker = next(one for one in load_pack("text").workers if one.spec.name == "cross_reference")
    output = anyio.run(make_worker(worker, services).call, request({"sources": sources, **more}))
    assert isinstance(output, dict)
    return output, models


def entries(output: JsonObject) -> list[JsonObject]:
    listed = output["records"]
    assert isinstance(listed, list)
    return [one for one in listed if isinstance(one, dict)]


def test_names_that_differ_in_spelling_are_one_for_code(tmp_path: Path) -> None:
    output, _ = merge(tmp_path, [ANNALS, SONGS, LETTERS])
    first = entries(output)[0]

    assert output["method"] == "generated"
    assert first["names"] == ["Arthas", "ARTHAS", "Árthas!"]
    assert first["sources"] == ["annals", "songs", "letters"]
    assert first["record"] == {"name": "Árthas!", "born": 5, "realm": "Lordaeron"}


def test_a_value_is_as_sure_as_the_sources_that_agree_on_it_are_many(tmp_path: Path) -> None:
    output, _ = merge(tmp_path, [ANNALS, SONGS, LETTERS])
    fields = entries(output)[0]["fields"]

    assert fields == {
        # Two agree, one contradicts: 2/3 · (1 - 1/4).
        "born": {"confidence": 0.5, "sources": ["annals", "letters"]},
        "realm": {"confidence": 0.5, "sources": ["annals"]},
    }


def test_a_thing_of_which_only_the_name_is_told_is_as_sure_as_its_sources_are_many(
    tmp_path: Path,
) -> None:
    one: JsonObject = {
        "source": "one",
        "records": [{"name": "Elves"}, {"name": "The Elves"}, {"name": "Orcs"}],
    }
    two: JsonObject = {"source": "two", "records": [{"name": "Orcs"}]}

    output, _ = merge(tmp_path, [one, two])

    assert [entry["confidence"] for entry in entries(output)] == [0.5, 0.75]


def test_what_the_sources_disagree_on_is_a_conflict_with_who_says_what(tmp_path: Path) -> None:
    output, _ = merge(tmp_path, [ANNALS, SONGS, LETTERS])

    assert output["conflicts"] == [
        {
            "subject": "Árthas!: born",
            "message": "the sources give 2 different values of 'born' for 'Árthas!'",
            "values": [
                {"value": 5, "sources": ["annals", "letters"]},
                {"value": 6, "sources": ["songs"]},
            ],
        }
    ]


def test_a_model_says_which_names_mean_the_same_and_code_does_the_rest(tmp_path: Path) -> None:
    output, models = merge(tmp_path, [ANNALS, SONGS], {"same": [[1, 3]]})
    first, second = entries(output)

    assert output["method"] == "agent"
    assert first["names"] == ["Arthas", "ARTHAS", "The Lich King"]
    assert second["names"] == ["Jaina"]
    assert len(models.asked) == 1
    assert "Lordaeron" in models.asked[0].prompt


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(
            {"same": [[1, 9]]}, "there is no name 9; the numbers are 1 to 3", id="unknown number"
        ),
        pytest.param(
            {"same": [[1, 2], [2, 3]]}, "the name 'jaina' stands in two groups", id="twice"
        ),
        pytest.param({"same": [["Arthas", "Jaina"]]}, "/same/0/0", id="names for numbers"),
    ],
)
def test_an_alignment_that_cannot_be_is_sent_back(
    tmp_path: Path, answer: JsonObject, told: str
) -> None:
    output, models = merge(tmp_path, [ANNALS, SONGS], answer, {"same": list[Json]()})

    assert told in models.asked[1].turns[0].reply
    assert len(entries(output)) == 3


def test_a_model_cannot_bring_a_value_or_a_confidence(tmp_path: Path) -> None:
    forged: JsonObject = {"same": list[Json](), "records": [{"name": "Uther"}], "confidence": 1.0}

    output, models = merge(tmp_path, [ANNALS], forged)

    assert output["method"] == "generated"
    assert "Uther" not in str(output)
    assert len(models.asked) == 2


def test_another_field_may_name_the_records(tmp_path: Path) -> None:
    source: JsonObject = {"source": "a", "records": [{"title": "Song of Arthas", "year": 3}]}

    output, _ = merge(tmp_path, [source], key="title")

    assert entries(output)[0]["record"] == {"title": "Song of Arthas", "year": 3}


def test_records_without_a_name_are_counted_and_left_out(tmp_path: Path) -> None:
    source: JsonObject = {
        "source": "a",
        "records": [{"name": "Arthas", "born": 5}, {"born": 7}, {"name": " "}],
    }

    output, _ = merge(tmp_path, [source])

    assert output["unnamed"] == 2
    with pytest.raises(ToolError, match="none of the 2 records has the field 'name'"):
        merge(tmp_path, [{"source": "a", "records": [{"born": 7}, {"born": 8}]}])


def test_sources_without_records_merge_to_nothing(tmp_path: Path) -> None:
    output, _ = merge(tmp_path, [{"source": "a", "records": list[Json]()}])

    assert (output["records"], output["conflicts"], output["confidence"]) == ([], [], 0.0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The Lich  King", "lich king"),
        ("Medivh's tower", "Medivh s Tower"),
        ("ÉLUNE", "Elune"),
        ("A", "a"),
    ],
)
def test_names_are_compared_without_case_accents_and_articles(one: str, other: str) -> None:
    assert normal_name(one) == normal_name(other)


@given(st.integers(1, 20), st.integers(0, 20))
def test_agreement_raises_a_confidence_and_contradiction_lowers_it(
    agreeing: int, contradicting: int
) -> None:
    figure = agreement(agreeing, contradicting)

    assert 0 < figure <= 1
    assert agreement(agreeing + 1, contradicting) >= figure
    assert agreement(agreeing, contradicting + 1) < figure


VALUES = st.none() | st.integers(0, 3) | st.sampled_from(["x", "X", "y"])
MENTIONS = st.lists(
    st.builds(
        RecordMention,
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["Arthas", "arthas", "Jaina"]),
        st.dictionaries(st.sampled_from(["born", "realm"]), VALUES),
    ),
    max_size=12,
)


@given(MENTIONS)
def test_the_order_of_the_sources_decides_no_confidence(mentions: list[RecordMention]) -> None:
    merged, reverse = (
        merge_mentions(group_mentions(order, {}), "name") for order in (mentions, mentions[::-1])
    )

    assert _figures(merged) == _figures(reverse)


def _figures(merged: JsonObject) -> list[str]:
    return sorted(
        f"{sorted(map(str, _list(one['sources'])))} {one['confidence']}" for one in entries(merged)
    )


def _list(value: Json) -> list[Json]:
    assert isinstance(value, list)
    return value


@given(MENTIONS)
def test_a_source_that_repeats_itself_convinces_nobody_more(mentions: list[RecordMention]) -> None:
    once = merge_mentions(group_mentions(mentions, {}), "name")
    twice = merge_mentions(group_mentions([*mentions, *mentions], {}), "name")

    assert once["confidence"] == twice["confidence"]
