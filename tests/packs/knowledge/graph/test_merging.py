"""Which names are of one entity: by rules, and by embeddings of a server that answers vectors from
a table.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

from tests.packs.knowledge.graph_records import as_params, chunk, entity, records, tools_of
from tests.tools.calling import call, call_for_document
from wavewright.packs.knowledge.graph.merging import find_merges
from wavewright.packs.knowledge.models import ChunkRecords, GraphEntity, QuotedEvidence
from wavewright.packs.knowledge.settings import EmbeddingSettings, GraphSettings
from wavewright.tools.functions.errors import ToolError


def named(name: str, kind: str = "thing", *aliases: str, document: str = "a.md") -> GraphEntity:
    quote = QuotedEvidence(quote=name, document=document, chunk=document, start=0, end=len(name))
    return GraphEntity(
        id=name.casefold(), name=name, type=kind, aliases=aliases, origin="agent", evidence=(quote,)
    )


@pytest.mark.parametrize(
    ("kept", "dropped"),
    [
        (named("The Iron Keep"), named("iron-keep")),
        (named("Élan Vey"), named("Elan Vey")),
        (named("Mira Fenn", "person", "Red Fenn"), named("Red Fenn")),
        (named("Captain Mira Fenn"), named("Mira Fenn", "person")),
        (named("Captain Mira Fenn"), named("Fenn")),
        (named("Captain Mira Fenn"), named("Captain Fenn")),
        (named("Mira Fenn"), named("M. Fenn")),
        (named("League of Salt Traders", "group"), named("LST")),
        (named("Fen Wardens"), named("Fen Warden")),
    ],
)
def test_names_of_one_entity_are_merged(kept: GraphEntity, dropped: GraphEntity) -> None:
    assert {(one.kept, one.dropped) for one in find_merges([dropped, kept])} == {
        (kept.id, dropped.id)
    }


@pytest.mark.parametrize(
    "entities",
    [
        [named("Mira Fenn"), named("Marek Fenn"), named("M. Fenn")],
        [named("Baron Aldo"), named("Baron Brann"), named("The Baron")],
        [named("Captain Mira Fenn"), named("Captain Marek Fenn"), named("Captain Fenn")],
        [named("Grey Landing"), named("Landing")],
        [named("Baron Aldo", document="a.md"), named("The Baron", document="b.md")],
        [named("Mercury", "planet"), named("mercury ", "metal")],
        [named("Mira Fenn", "person", "Red"), named("Old Tam", "person", "Red"), named("Red")],
        [named("Guide", "document"), named("guide", "document")],
    ],
)
def test_names_that_may_be_of_several_entities_are_left_apart(entities: list[GraphEntity]) -> None:
    assert find_merges(entities) == []


def test_entities_that_were_taken_apart_are_not_merged_by_a_detour() -> None:
    entities = [named("Captain Mira Fenn"), named("Mira Fenn"), named("M. Fenn")]

    apart = find_merges(entities, [("captain mira fenn", "mira fenn")])

    assert [(one.kept, one.dropped) for one in apart] == [("mira fenn", "m. fenn")]


VECTORS = {
    "Lighthouse": [3.0, 0.1, 0.0],
    "Beacon Tower": [2.9, 0.0, 0.1],
    "Harbour": [0.0, 1.0, 0.2],
}


def places() -> ChunkRecords:
    of = chunk("light.md", "The Lighthouse is lit. The Beacon Tower shows the Harbour.")
    return records(of, entities=[entity(name, "place", of.text) for name in VECTORS])


@contextmanager
def serving(status: int = 200) -> Generator[tuple[str, list[tuple[str | None, Any]]]]:
    """Serve `/v1/embeddings`; yield its address, and the keys and bodies of its requests."""
    asked: list[tuple[str | None, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.headers["Authorization"], body))
            assert self.path == "/v1/embeddings"
            # The last first: the index says which name a vector is of.
            data = [
                {"index": place, "embedding": VECTORS[name]}
                for place, name in enumerate(body["input"])
            ]
            answer = json.dumps({"object": "list", "data": data[::-1]}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            """Print nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_names_that_embeddings_find_alike_are_merged_with_their_similarity_and_taken_apart_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMES_KEY", "key-of-names")
    with serving() as (url, asked):
        settings = EmbeddingSettings(url=url, model="names-1", key_env="NAMES_KEY", threshold=0.95)
        tools = tools_of(tmp_path, GraphSettings(embeddings=settings))
        call(tools["write_graph"], {"records": as_params(places())})
        [merge] = cast("Any", call_for_document(tools["merge_entities"])["merges"])
        call(tools["undo_merge"], {"merge": merge["id"]})
        again = call_for_document(tools["merge_entities"])

    assert {merge["kept"], merge["merged"]} == {"Lighthouse", "Beacon Tower"}
    assert merge["reason"] == "the embeddings of the names are alike: similarity 0.999"
    assert again["merges"] == []
    assert tools["merge_entities"].signature.effects == {"write", "egress"}
    [(key, body), _] = asked
    assert key == "Bearer key-of-names"
    assert body["model"] == "names-1"
    assert sorted(body["input"]) == sorted(VECTORS)


def test_nothing_below_the_threshold_is_merged_and_without_a_server_nothing_is_sent(
    tmp_path: Path,
) -> None:
    with serving() as (url, asked):
        settings = EmbeddingSettings(url=url, model="names-1", threshold=0.9999)
        tools = tools_of(tmp_path, GraphSettings(embeddings=settings))
        call(tools["write_graph"], {"records": as_params(places())})
        assert call_for_document(tools["merge_entities"])["merges"] == []
        assert call_for_document(tools_of(tmp_path)["merge_entities"])["merges"] == []

    assert [key for key, _ in asked] == [None]
    assert tools_of(tmp_path)["merge_entities"].signature.effects == {"write"}


def test_a_server_that_fails_is_an_error_that_names_the_setting(tmp_path: Path) -> None:
    with serving(503) as (url, _):
        tools = tools_of(
            tmp_path, GraphSettings(embeddings=EmbeddingSettings(url=url, model="names-1"))
        )
        call(tools["write_graph"], {"records": as_params(places())})
        with pytest.raises(ToolError, match=r"gave no embeddings: .*503") as failed:
            call(tools["merge_entities"])

    assert failed.value.transient
    assert "packs.knowledge.graph.embeddings" in str(failed.value.hint)
