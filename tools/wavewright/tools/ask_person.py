"""The tool `ask_person`: a step whose output is what a person has answered.

The run asks before the call is made and waits for the answer without holding a slot; see `Tool.asks_person`.
"""

from __future__ import annotations

from typing import Final

from wavewright.planner.language.signatures import ASK_PERSON, ToolSignature
from wavewright.planner.types import Json, JsonObject
from wavewright.tools.functions.tool import Tool, ToolCall, ToolError

_INPUT_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "minLength": 1, "description": "What the person is asked."},
        "options": {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "description": "The answers to choose from; any text where there are none.",
        },
        "default": {
            "type": "string",
            "description": "The answer of an empty line at the terminal, and where nobody may be asked.",
        },
    },
    "required": ["question"],
    "additionalProperties": False,
}


async def _answer(call: ToolCall) -> Json:
    """Return the answer, if it is one of the options."""
    if call.answer is None:
        raise ToolError("nobody can be asked here", hint="call ask_person as a step of a run")
    options = call.params.get("options")
    if isinstance(options, list) and options and call.answer not in options:
        raise ToolError(f"{call.answer!r} is not one of the options", hint=f"answer with one of {options}")
    return call.answer


def ask_person_tool() -> Tool:
    """Return the tool `ask_person`."""
    signature = ToolSignature(
        name=ASK_PERSON,
        description=(
            "Ask a person a question and give the answer as text; the run waits for it. Use it only for what no tool "
            "can find out."
        ),
        input_schema=_INPUT_SCHEMA,
        output_schema={"type": "string"},
    )
    return Tool(signature, _answer, asks_person=True)
