"""Merges by embeddings, with a server that answers vectors from a table."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

from tests.tools.calling import call, call_for_document
from tests.tools.knowledge.graph_records import as_params, chunk, entity, records, tools_of
from wavewright.tools.functions.tool import ToolError
from wavewright.tools.knowledge.models import ChunkRecords
from wavewright.tools.knowledge.settings import EmbeddingSettings, GraphSettings

VECTORS = {"Lighthouse": [3.0, 0.1, 0.0], "Beacon Tower": [2.9, 0.0, 0.1], "Harbour": [0.0, 1.0, 0.2]}


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
            data = [{"index": place, "embedding": VECTORS[name]} for place, name in enumerate(body["input"])]
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


def test_nothing_below_the_threshold_is_merged_and_without_a_server_nothing_is_sent(tmp_path: Path) -> None:
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
        tools = tools_of(tmp_path, GraphSettings(embeddings=EmbeddingSettings(url=url, model="names-1")))
        call(tools["write_graph"], {"records": as_params(places())})
        with pytest.raises(ToolError, match=r"gave no embeddings: .*503") as failed:
            call(tools["merge_entities"])

    assert failed.value.transient
    assert "packs.knowledge.graph.embeddings" in str(failed.value.hint)
