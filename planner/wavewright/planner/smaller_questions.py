"""Questions that are larger than a model's context, asked once more with less.

A *smaller question* is the same question with less of its data. It is asked once: what is still too large is an error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from wavewright.planner.model_port import ModelCall, ModelError

__all__ = ["ask_with_smaller_prompt"]

T = TypeVar("T")


async def ask_with_smaller_prompt(
    ask: Callable[[ModelCall], Awaitable[T]], call: ModelCall, less: Callable[[], Awaitable[ModelCall]]
) -> T:
    """Return what asking gives; a question that the model's context has no room for is asked once more with less.

    Args:
        ask: Asks a question.
        call: The whole question.
        less: Makes the smaller question.

    Raises:
        ModelError: there is no answer; of kind `over_context` also where less is not smaller.
    """
    try:
        return await ask(call)
    except ModelError as error:
        if error.kind != "over_context":
            raise
        smaller = await less()
        if _prompt_length(smaller) >= _prompt_length(call):
            raise
    return await ask(smaller)


def _prompt_length(call: ModelCall) -> int:
    return len(call.prompt) + sum(len(turn.answer) + len(turn.reply) for turn in call.turns)
