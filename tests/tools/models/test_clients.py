"""Clients of models: the bound on what they read, and the wire format of Google, which no scripted
server speaks.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
from anyio.abc import SocketAttribute, SocketStream
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelRequest, ModelResponse

from wavewright.planner.types import Json, JsonObject, JsonSchema
from wavewright.tools.models.clients import build_model
from wavewright.tools.models.endpoints import Endpoint
from wavewright.tools.models.guarded_client import (
    ResponseTooLarge,
    UnknownEncoding,
    guarded_client,
)
from wavewright.tools.models.messages import (
    choose_output_mode,
    split_response,
    structured_parameters,
)

pytestmark = pytest.mark.anyio

HERE = Endpoint("google", "gemini-2.5-flash", "http://gemini.test", "goog-1", True)
CLOSED: JsonSchema = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
    "additionalProperties": False,
}
OPEN: JsonSchema = {"type": "object", "properties": {"answer": {}}, "required": ["answer"]}
FOUND: JsonObject = {"answer": 42}


async def asked(schema: JsonSchema, part: JsonObject) -> tuple[ModelResponse, httpx2.Request]:
    """Ask for an object of that schema; return the response and the request."""
    requests: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        content: Json = {"role": "model", "parts": [part]}
        counted: Json = {"promptTokenCount": 30, "candidatesTokenCount": 5, "totalTokenCount": 35}
        return httpx2.Response(
            200,
            json={
                "candidates": [{"content": content, "finishReason": "STOP"}],
                "usageMetadata": counted,
            },
        )

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer), timeout=60) as http:
        model = build_model(HERE, http)
        way = choose_output_mode(HERE, model, schema)
        response = await model_request(
            model,
            [ModelRequest.user_text_prompt("How much is it?")],
            model_request_parameters=structured_parameters(schema, "sum", way),
        )
    [request] = requests
    return response, request


@pytest.mark.parametrize(
    ("schema", "part", "sent"),
    [
        pytest.param(CLOSED, {"text": json.dumps(FOUND)}, "responseJsonSchema", id="native"),
        pytest.param(
            OPEN,
            {"functionCall": {"name": "sum", "args": FOUND}},
            "functionDeclarations",
            id="tool",
        ),
    ],
)
async def test_google_is_asked_at_its_address_with_its_key_for_an_answer_of_the_form(
    schema: JsonSchema, part: JsonObject, sent: str
) -> None:
    response, request = await asked(schema, part)

    text, _ = split_response(response, "sum")
    assert json.loads(text) == FOUND
    assert request.url.host == "gemini.test"
    assert request.url.path.endswith("/models/gemini-2.5-flash:generateContent")
    assert request.headers["x-goog-api-key"] == HERE.key
    assert sent in request.content.decode()
    assert (response.usage.input_tokens, response.usage.output_tokens) == (30, 5)


MOST = 100_000


@asynccontextmanager
async def serving(body: bytes, encoding: str = "", *, chunks: int = 1) -> AsyncGenerator[str]:
    """Answer every request with a body, sent in pieces."""
    head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n"
    head += f"content-encoding: {encoding}\r\n\r\n" if encoding else "\r\n"
    size = max(1, -(-len(body) // chunks))

    async def serve(client: SocketStream) -> None:
        async with client:
            try:
                await client.receive()
                await client.send(head.encode())
                for at in range(0, len(body), size):
                    piece = body[at : at + size]
                    await client.send(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                await client.send(b"0\r\n\r\n")
            except (anyio.BrokenResourceError, anyio.EndOfStream):
                """Who asked has heard enough."""

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as place,
        anyio.create_task_group() as group,
    ):
        group.start_soon(place.serve, serve)
        port = place.extra(SocketAttribute.local_port)  # noqa: S610  it is no query
        yield f"http://127.0.0.1:{port}/"
        group.cancel_scope.cancel()


def packed(body: bytes, encoding: str) -> bytes:
    return (
        gzip.compress(body)
        if encoding == "gzip"
        else zlib.compress(body)
        if encoding == "deflate"
        else body
    )


@pytest.mark.parametrize("encoding", ["", "gzip", "deflate"])
@pytest.mark.parametrize("chunks", [1, 7])
async def test_an_answer_up_to_the_limit_is_read_as_it_was_written(
    encoding: str, chunks: int
) -> None:
    body = (b"0123456789" * MOST)[:MOST]
    async with (
        serving(packed(body, encoding), encoding, chunks=chunks) as url,
        guarded_client(max_bytes=MOST) as http,
    ):
        answer = await http.get(url)

    assert answer.content == body


@pytest.mark.parametrize("encoding", ["", "gzip", "deflate"])
@pytest.mark.parametrize("chunks", [1, 7])
async def test_an_answer_beyond_the_limit_is_not(encoding: str, chunks: int) -> None:
    body = b"a" * (MOST + 1)
    async with (
        serving(packed(body, encoding), encoding, chunks=chunks) as url,
        guarded_client(max_bytes=MOST) as http,
    ):
        with pytest.raises(ResponseTooLarge):
            await http.get(url)


async def test_a_small_body_that_unfolds_for_ever_is_left_at_the_limit() -> None:
    read: list[int] = []

    async def read_all(answer: httpx2.Response) -> None:
        async for piece in answer.aiter_bytes():
            read.append(len(piece))  # noqa: PERF401  what was read before an error counts

    async with (
        serving(gzip.compress(b"\0" * 2**26), "gzip") as url,
        guarded_client(max_bytes=MOST) as http,
        http.stream("GET", url) as answer,
    ):
        with pytest.raises(ResponseTooLarge):
            await read_all(answer)

    assert sum(read) <= MOST


async def test_a_body_that_is_not_packed_as_it_says_is_no_answer() -> None:
    async with serving(b"plain words", "gzip") as url, guarded_client() as http:
        with pytest.raises(httpx2.DecodingError, match="not packed as it says"):
            await http.get(url)


async def test_a_body_that_ends_in_the_middle_is_no_whole_answer() -> None:
    whole = gzip.compress(b'{"answer": "yes"}' * 50)
    async with serving(whole[:-12], "gzip") as url, guarded_client() as http:
        with pytest.raises(httpx2.DecodingError, match="not packed as it says"):
            await http.get(url)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip"])
async def test_a_way_of_packing_that_was_not_asked_for_is_refused(encoding: str) -> None:
    async with serving(b"whatever", encoding) as url, guarded_client() as http:
        with pytest.raises(UnknownEncoding):
            await http.get(url)


@pytest.mark.parametrize("encoding", ["", "gzip"])
async def test_a_body_that_is_left_in_the_middle_is_closed_with_its_response(encoding: str) -> None:
    async with (
        serving(packed(b"0123456789" * MOST, encoding), encoding, chunks=7) as url,
        guarded_client() as http,
    ):
        async with http.stream("GET", url) as answer:
            assert isinstance(answer.stream, httpx2.AsyncByteStream)
            pieces = aiter(answer.stream)
            assert await anext(pieces)

        with pytest.raises(StopAsyncIteration):
            await anext(pieces)
