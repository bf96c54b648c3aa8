"""Google's wire format, which the scripted server does not speak: what is sent, with which key, and what is read."""

from __future__ import annotations

import json

import httpx2
import pytest
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelRequest, ModelResponse

from wavewright.planner.types import Json, JsonObject, JsonSchema
from wavewright.tools.models.clients import build_model
from wavewright.tools.models.endpoints import Endpoint
from wavewright.tools.models.responses import choose_output_mode, split_response, structured_parameters

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
            json={"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": counted},
        )

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer), timeout=60) as http:
        model = build_model(HERE, http)
        way = choose_output_mode("google", model, schema, is_foreign=True)
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
            OPEN, {"functionCall": {"name": "sum", "args": FOUND}}, "functionDeclarations", id="tool"
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
