"""A request to a model server, in one form for OpenAI's two APIs and Anthropic's.

Rules are written against this form. Fields that a provider's form lacks are empty; of a key only
its presence and length are kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from wavewright.planner import Json, JsonObject, as_list, as_object

Wire: TypeAlias = Literal["chat", "responses", "messages"]
"""OpenAI Chat Completions, OpenAI Responses, Anthropic Messages."""
WIRES: tuple[Wire, ...] = ("chat", "responses", "messages")

KEY_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key"})


@dataclass(frozen=True, slots=True)
class FakeToolCall:
    """A tool that a model calls; `arguments` is what it takes for JSON."""

    name: str
    arguments: str = "{}"


@dataclass(frozen=True, slots=True)
class ConversationMessage:
    """One turn of the conversation."""

    role: Literal["user", "assistant", "tool"]
    text: str
    calls: tuple[FakeToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that the model may call."""

    name: str
    description: str
    schema: JsonObject


@dataclass(frozen=True, slots=True)
class FakeModelRequest:
    """One question to the model, provider-neutral."""

    wire: Wire
    model: str
    instructions: str
    messages: tuple[ConversationMessage, ...]
    tools: tuple[OfferedTool, ...] = ()
    output_tool: str | None = None
    """The tool that must be called: by its name, or as the last one where only some tool must."""
    schema_name: str = ""
    """Name of the structured answer asked for: of the response format, or of the output tool."""
    schema: JsonObject | None = None
    is_stream: bool = False
    max_tokens: int | None = None
    body: JsonObject | None = None
    """The request as it came."""
    headers: tuple[tuple[str, str], ...] = ()
    """With every key masked."""
    had_key: bool = False
    key_was: int = 0
    """Length of the key, to tell one key from another."""

    @property
    def prompt(self) -> str:
        """The first thing that the user says."""
        return next((message.text for message in self.messages if message.role == "user"), "")

    @property
    def last(self) -> str:
        """What was said last: the prompt, a reply to an earlier answer, or what a tool gave."""
        return self.messages[-1].text if self.messages else ""

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Names of the tools offered."""
        return tuple(tool.name for tool in self.tools)

    @property
    def text(self) -> str:
        """Everything that the request says to the model, tools left out."""
        return "\n".join([self.instructions, *(message.text for message in self.messages)])

    @property
    def character_count(self) -> int:
        """Size of everything that is sent, tools and schema included."""
        tools = sum(len(tool.description) + len(json.dumps(tool.schema)) for tool in self.tools)
        calls = sum(len(call.arguments) for message in self.messages for call in message.calls)
        # The schema of an output tool is among the tools already.
        native = len(json.dumps(self.schema)) if self.schema and not self.output_tool else 0
        return len(self.text) + tools + calls + native


def read_request(wire: Wire, body: JsonObject, headers: Mapping[str, str]) -> FakeModelRequest:
    """Return a provider's request in the common form."""
    keys = [value for name, value in headers.items() if name.lower() in KEY_HEADERS]
    masked = tuple(
        (name.lower(), "***" if name.lower() in KEY_HEADERS else value)
        for name, value in headers.items()
    )
    reader = {"chat": _chat, "responses": _responses, "messages": _messages}[wire]
    instructions, messages, tools, choice, schema_name, schema = reader(body)
    output_tool = _output_tool(choice, tools)
    if output_tool and not schema_name:
        schema_name = output_tool
        schema = next((tool.schema for tool in tools if tool.name == output_tool), None)
    limits = (
        body.get(name) for name in ("max_completion_tokens", "max_output_tokens", "max_tokens")
    )
    return FakeModelRequest(
        wire=wire,
        model=_str(body.get("model")),
        instructions=instructions,
        messages=tuple(messages),
        tools=tools,
        output_tool=output_tool,
        schema_name=schema_name,
        schema=schema,
        is_stream=body.get("stream") is True,
        max_tokens=next((limit for limit in limits if isinstance(limit, int)), None),
        body=body,
        headers=masked,
        had_key=any(key.removeprefix("Bearer").strip() for key in keys),
        key_was=max((len(key.removeprefix("Bearer").strip()) for key in keys), default=0),
    )


_Read: TypeAlias = tuple[
    str, list[ConversationMessage], tuple[OfferedTool, ...], str | None, str, JsonObject | None
]
"""Instructions, messages, tools, the tool that must be called (`*`: any), name and schema of the
answer.
"""


def _chat(body: JsonObject) -> _Read:
    spoken = [as_object(item) for item in as_list(body.get("messages"))]
    instructions = [_content(item.get("content")) for item in spoken if item.get("role") in _SYSTEM]
    messages: list[ConversationMessage] = []
    for item in spoken:
        if item.get("role") in _SYSTEM:
            continue
        functions = [
            as_object(as_object(call).get("function")) for call in as_list(item.get("tool_calls"))
        ]
        calls = tuple(
            FakeToolCall(_str(function.get("name")), _str(function.get("arguments")))
            for function in functions
        )
        messages.append(
            ConversationMessage(_role(item.get("role")), _content(item.get("content")), calls)
        )
    tools = tuple(
        _tool(as_object(as_object(tool).get("function")), "parameters")
        for tool in as_list(body.get("tools"))
    )
    form = as_object(as_object(body.get("response_format")).get("json_schema"))
    choice = body.get("tool_choice")
    named = _str(as_object(as_object(choice).get("function")).get("name")) or None
    return (
        "\n".join(instructions),
        messages,
        tools,
        named or ("*" if choice == "required" else None),
        _str(form.get("name")),
        as_object(form.get("schema")) or None,
    )


def _responses(body: JsonObject) -> _Read:
    asked = body.get("input")
    spoken: list[Json] = (
        [{"role": "user", "content": asked}] if isinstance(asked, str) else as_list(asked)
    )
    instructions = [_str(body.get("instructions"))]
    messages: list[ConversationMessage] = []
    for item in map(as_object, spoken):
        match item.get("type", "message"):
            case "function_call":
                call = FakeToolCall(_str(item.get("name")), _str(item.get("arguments")))
                messages.append(ConversationMessage("assistant", "", (call,)))
            case "function_call_output":
                messages.append(ConversationMessage("tool", _content(item.get("output"))))
            case _ if item.get("role") in _SYSTEM:
                instructions.append(_content(item.get("content")))
            case "message":
                messages.append(
                    ConversationMessage(_role(item.get("role")), _content(item.get("content")))
                )
            case _:
                pass  # reasoning and the like: nothing that a rule looks at
    form = as_object(as_object(body.get("text")).get("format"))
    choice = body.get("tool_choice")
    named = _str(as_object(choice).get("name")) or None
    must_call = choice == "required" or as_object(choice).get("mode") == "required"
    return (
        "\n".join(part for part in instructions if part),
        messages,
        tuple(_tool(as_object(tool), "parameters") for tool in as_list(body.get("tools"))),
        named or ("*" if must_call else None),
        _str(form.get("name")),
        as_object(form.get("schema")) or None,
    )


def _messages(body: JsonObject) -> _Read:
    messages: list[ConversationMessage] = []
    for item in map(as_object, as_list(body.get("messages"))):
        content = item.get("content")
        blocks = [as_object(block) for block in as_list(content)]
        results = [block for block in blocks if block.get("type") == "tool_result"]
        messages.extend(
            ConversationMessage("tool", _content(block.get("content"))) for block in results
        )
        calls = tuple(
            FakeToolCall(_str(block.get("name")), json.dumps(block.get("input")))
            for block in blocks
            if block.get("type") == "tool_use"
        )
        text = _content(content)
        if text or calls or not results:
            messages.append(ConversationMessage(_role(item.get("role")), text, calls))
    form = as_object(as_object(body.get("output_config")).get("format")) or as_object(
        body.get("output_format")
    )
    choice = as_object(body.get("tool_choice"))
    named = _str(choice.get("name")) or None
    return (
        _content(body.get("system")),
        messages,
        tuple(_tool(as_object(tool), "input_schema") for tool in as_list(body.get("tools"))),
        named or ("*" if choice.get("type") == "any" else None),
        "answer" if form else "",
        as_object(form.get("schema")) or None,
    )


_SYSTEM = ("system", "developer")


def _output_tool(choice: str | None, tools: Sequence[OfferedTool]) -> str | None:
    if choice != "*":
        return choice
    return tools[-1].name if tools else None


def _tool(body: JsonObject, schema: str) -> OfferedTool:
    return OfferedTool(
        _str(body.get("name")), _str(body.get("description")), as_object(body.get(schema))
    )


def _role(value: Json) -> Literal["user", "assistant", "tool"]:
    return "assistant" if value == "assistant" else "tool" if value == "tool" else "user"


def _content(value: Json) -> str:
    """Return the words of a content, which is a text or a list of blocks."""
    if isinstance(value, str):
        return value
    blocks = [as_object(block) for block in as_list(value)]
    return "\n".join(_str(block.get("text")) for block in blocks if block.get("text"))


def _str(value: Json) -> str:
    return value if isinstance(value, str) else ""
