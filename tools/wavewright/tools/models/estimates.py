"""How many tokens a question has, before anybody counts them.

An *estimate* stands for a count in two places: in a reservation, made before the model is asked, and in a bill,
where a provider sends no count that can be believed. It needs no provider's tokenizer, so it is the same wherever a
run happens, and it never is 0 for a text.
"""

from __future__ import annotations

from collections.abc import Callable
from json import dumps
from typing import TypeAlias

from wavewright.planner.model_port import LoopTool, ModelCall
from wavewright.planner.spending import Spend

CHARS_PER_TOKEN = 4
"""Characters of one token of English text, after OpenAI's rule of thumb:
https://help.openai.com/en/articles/4936856-what-are-tokens-and-how-to-count-them"""

PriceFor: TypeAlias = Callable[[int, int], float | None]
"""US dollars for so many tokens read and written; None where no price is known."""


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text has: a quarter of its characters, rounded up."""
    return _tokens(len(text))


def count_chars(call: ModelCall, tools: tuple[LoopTool, ...] = ()) -> int:
    """Return the characters of all that a call sends: instructions, every turn, the schema and the tools."""
    said = len(call.instructions) + len(call.prompt)
    said += sum(len(turn.answer) + len(turn.reply) for turn in call.turns)
    if call.schema is not None:
        said += len(call.schema_name) + len(dumps(call.schema, ensure_ascii=False))
    for tool in tools:
        said += len(tool.name) + len(tool.description) + len(dumps(tool.input_schema, ensure_ascii=False))
    return said


def estimate_call(call: ModelCall, tools: tuple[LoopTool, ...] = ()) -> int:
    """Return about how many tokens a call sends."""
    return _tokens(count_chars(call, tools))


def estimate_spend(input_tokens: int, max_tokens: int, price: PriceFor, *, calls: int = 1) -> Spend:
    """Return what calls that each read so many tokens may come to at most: every answer as long as it may be.

    Where no price is known the money is 0: whoever has a budget of money asks for the price first.
    """
    usd = price(input_tokens, max_tokens) or 0.0
    return Spend(calls=calls, tokens=calls * (input_tokens + max_tokens), usd=calls * usd)


def _tokens(chars: int) -> int:
    return -(-chars // CHARS_PER_TOKEN)
