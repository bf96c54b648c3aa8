"""The graph through its tools, as steps of a plan call them."""

from __future__ import annotations

import datetime as dt
import multiprocessing
import sqlite3
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from tests.packs.knowledge.graph_records import (
    TEXTS,
    as_params,
    chunk,
    entity,
    keep,
    observation,
    port,
    records,
    tools_of,
)
from tests.tools.calling import MARCH_2010, call, call_for_document, request
from wavewright.packs.knowledge.graph.tools import GraphStageWritten
from wavewright.packs.knowledge.models import Chunk
from wavewright.planner.types import Json, JsonObject
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.tool import Tool

CHUNKS = as_params(*map(chunk, TEXTS))
LATER = MARCH_2010 + dt.timedelta(hours=1)

World = dict[str, Tool]


@pytest.fixture
def tools(tmp_path: Path) -> World:
    return tools_of(tmp_path)


def written(tools: World, *given: Json, now: dt.datetime = MARCH_2010) -> JsonObject:
    return call_for_document(tools["write_graph"], {"records": [*given]}, now=now)


def linked(tools: World, *chunks: Chunk, now: dt.datetime = MARCH_2010) -> JsonObject:
    given = as_params(*chunks) if chunks else CHUNKS
    return call_for_document(tools["link_evidence"], {"chunks": given}, now=now)


def names(found: Json, field: str = "name") -> list[str]:
    return [one[field] for one in cast("list[dict[str, Any]]", found)]


def rows(path: Path) -> list[tuple[Any, ...]]:
    """Return all records of a graph's file without their numbers."""
    with sqlite3.connect(path) as database:
        found = [
            *database.execute("SELECT chunk, origin, entity, text FROM observation ORDER BY 1, 4"),
            *database.execute(
                "SELECT chunk, origin, entity, name, aliases FROM mention ORDER BY 1, 4"
            ),
            *database.execute(
                "SELECT chunk, origin, source, relation, target FROM relation ORDER BY 1, 4, 3"
            ),
            *database.execute(
                'SELECT chunk, kind, quote, start, "end" FROM evidence ORDER BY 1, 2, 3'
            ),
        ]
    database.close()
    return found


def test_a_write_goes_by_stages_and_says_what_waits_for_an_entity(tools: World) -> None:
    emitted: list[object] = []
    asked = replace(request({"records": as_params(keep())}), emit=emitted.append)

    output = cast("dict[str, Any]", anyio.run(partial(tools["write_graph"].call, asked)))

    stages = [one for one in emitted if isinstance(one, GraphStageWritten)]
    assert [(one.stage, one.records) for one in stages] == [
        ("observations", 1),
        ("entities", 3),
        ("relations", 3),
    ]
    assert output["counts"] == {"entities": 3, "observations": 1, "relations": 1}
    assert [one["missing"] for one in output["failed"]] == [["tidegate!"], ["Saltmarsh"]]


def test_a_relation_is_retried_when_its_end_is_there_and_what_fails_names_the_missing_end(
    tools: World,
) -> None:
    written(tools, *as_params(keep()))
    written(tools, *as_params(port()))

    retried = call_for_document(tools["retry_relations"])
    again = call_for_document(tools["retry_relations"])

    # By its normal form: the relation says "tidegate!".
    assert (retried["names"], retried["found"]) == (2, 1)
    assert retried["failed"] == again["failed"]
    [failed] = cast("list[dict[str, Any]]", retried["failed"])
    assert failed["record"] == "Fenmoor — trades with — Saltmarsh"
    assert failed["missing"] == ["Saltmarsh"]
    near = call_for_document(tools["neighbours"], {"entity": "the Tidegate"})
    assert [
        (one["relation"], one["direction"], one["name"]) for one in cast("Any", near["neighbours"])
    ] == [("lies north of", "in", "Fenmoor")]


def test_a_quote_that_is_not_in_the_document_is_refused_and_others_get_their_places(
    tools: World,
) -> None:
    of = chunk("keep.md")
    found = records(
        of,
        entities=[
            entity("Fenmoor", "place", "Baron  Aldo rules\nFenmoor."),
            entity("Atlantis", "place", "Atlantis sank."),
        ],
        observations=[observation("Atlantis", "It sank long ago.")],
    )
    written(tools, *as_params(found))

    linked = call_for_document(tools["link_evidence"], {"chunks": CHUNKS})

    assert linked["refused"] == [
        {
            "kind": "observation",
            "record": "It sank long ago.",
            "quote": "It sank long ago.",
            "chunk": of.id,
        },
        {"kind": "entity", "record": "Atlantis", "quote": "Atlantis sank.", "chunk": of.id},
    ]
    assert linked["counts"] == {"entities": 1, "observations": 0, "relations": 0}
    [one] = cast("Any", call_for_document(tools["search_graph"], {"query": "fenmoor"})["entities"])
    assert one["evidence"] == [
        {
            "quote": "Baron Aldo rules Fenmoor.",
            "document": "keep.md",
            "chunk": of.id,
            "start": 0,
            "end": len("Baron Aldo rules Fenmoor."),
        }
    ]


def test_merges_are_listed_with_their_reasons_and_one_that_is_undone_stays_undone(
    tools: World,
) -> None:
    written(tools, *as_params(keep(), port()))

    merged = call_for_document(tools["merge_entities"])

    assert {
        (one["merged"], one["kept"]): one["reason"] for one in cast("Any", merged["merges"])
    } == {
        ("Aldo", "Baron Aldo"): "'Baron Aldo' is 'Aldo' with a title",
        ("The Baron", "Baron Aldo"): "the only one of this title in keep.md",
        ("Warden", "Wardens"): "singular and plural of one name",
    }
    [aldo] = cast("Any", call_for_document(tools["search_graph"], {"query": "aldo"})["entities"])
    assert aldo["aliases"] == ["The Baron", "Aldo"]
    # Both say when he was born, and neither is lost.
    [conflict] = cast("Any", merged["conflicts"])
    assert conflict["subject"] == "Baron Aldo"
    assert [(one["value"], one["sources"]) for one in conflict["values"]] == [
        ("The Baron was born in 1201.", ["keep.md"]),
        ("Aldo was born in 1207.", ["port.md"]),
    ]
    assert all(one["evidence"] for one in conflict["values"])

    [title] = [one["id"] for one in cast("Any", merged["merges"]) if one["merged"] == "Aldo"]
    undone = call_for_document(tools["undo_merge"], {"merge": title})
    after = call_for_document(tools["merge_entities"])

    assert (undone["kept"], undone["merged"]) == ("Baron Aldo", "Aldo")
    assert names(after["merges"], "merged") == ["The Baron", "Warden"]
    assert after["conflicts"] == []
    with pytest.raises(ToolError, match="no merge"):
        call(tools["undo_merge"], {"merge": title})


def test_the_same_relation_of_two_names_of_one_entity_is_one_relation(tools: World) -> None:
    output = written(tools, *as_params(port()))
    merged = call_for_document(tools["merge_entities"])

    assert cast("Any", output["counts"])["relations"] == 2
    assert cast("Any", merged["counts"])["relations"] == 1


def test_writing_again_changes_nothing_and_better_records_are_kept(
    tools: World, tmp_path: Path
) -> None:
    path = tmp_path / ".wavewright" / "knowledge.db"
    written(tools, *as_params(keep("forced"), port()))
    before = rows(path)

    written(tools, *as_params(keep("forced"), port()), now=LATER)
    again = linked(tools, now=LATER)["difference"]

    assert rows(path) == before
    assert again == {
        "added": [],
        "removed": [],
        "changed": [],
        "added_count": 0,
        "removed_count": 0,
        "changed_count": 0,
        "unchanged_count": 14,
    }

    written(tools, *as_params(keep("agent")), now=LATER)
    worse = written(tools, *as_params(keep("generated")), now=LATER)
    better = cast("Any", linked(tools, now=LATER)["difference"])

    assert {"fact": "Fenmoor (place)", "before": "forced", "after": "agent"} in better["changed"]
    assert better["added_count"] == 0
    assert (worse["chunks"], worse["kept"]) == (0, ["keep.md-1"])


def test_what_a_run_changed_has_the_records_that_left(tools: World) -> None:
    written(tools, *as_params(keep(), port()))
    call(tools["merge_entities"])
    rewritten = chunk("keep.md", "Nothing is left of the keep.").model_copy(
        update={"id": "keep.md-2"}
    )

    written(tools, *as_params(port()), now=LATER)
    linked(tools, rewritten, chunk("port.md"), now=LATER)
    changed = cast("Any", call_for_document(tools["merge_entities"], now=LATER)["difference"])

    assert sorted(changed["removed"]) == [
        "Baron Aldo (person)",
        "Baron Aldo — rules — Fenmoor",
        "Baron Aldo: Aldo was born in 1207.",
        "Baron Aldo: The Baron was born in 1201.",
        "Fenmoor (place)",
    ]
    assert changed["added"] == ["Aldo (person)", "Aldo: Aldo was born in 1207."]


def test_minimal_chunks_are_listed_until_they_are_won_in_a_better_way(tools: World) -> None:
    written(tools, *as_params(keep("forced"), port("agent")))

    minimal = call_for_document(tools["list_minimal_chunks"], {"chunks": CHUNKS})
    written(tools, *as_params(keep("agent")))
    after = call_for_document(tools["list_minimal_chunks"], {"chunks": CHUNKS})

    assert names(minimal["chunks"], "id") == ["keep.md-1"]
    assert names(minimal["chunks"], "again") == ["2010-03-01T00:00:00+00:00"]
    assert minimal["origins"] == {"keep.md-1": "forced"}
    assert after["chunks"] == []


def test_records_of_a_chunk_that_its_document_no_longer_has_are_deleted(tools: World) -> None:
    written(tools, *as_params(keep(), port()))
    rewritten = chunk("keep.md", "Nothing is left of the keep.").model_copy(
        update={"id": "keep.md-2"}
    )

    linked = call_for_document(tools["link_evidence"], {"chunks": as_params(rewritten)})

    assert linked["deleted_chunks"] == 1
    assert call_for_document(tools["search_graph"], {"query": "Fenmoor"})["entities"] == []
    with pytest.raises(ToolError, match="no entity 'Fenmoor'"):
        call(tools["neighbours"], {"entity": "Fenmoor"})


def _write(root: Path, number: int) -> None:
    name = f"Keeper {number}"
    text = f"{name} keeps the light."
    of = chunk(f"{number}.md", text)
    given = records(
        of, entities=[entity(name, "person", text)], observations=[observation(name, text)]
    )
    for _ in range(3):
        written(tools_of(root), *as_params(given))


def test_writers_in_several_processes_wait_for_each_other(tmp_path: Path, tools: World) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(tmp_path, number)) for number in range(4)]
    for one in writers:
        one.start()
    for one in writers:
        one.join()

    found = call_for_document(tools["search_graph"], {"query": "keeper", "limit": 100})

    assert [one.exitcode for one in writers] == [0, 0, 0, 0]
    assert sorted(names(found["entities"])) == [f"Keeper {number}" for number in range(4)]
