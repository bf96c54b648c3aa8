"""How many tokens a text has, before anybody counts them.

An *estimate* stands for a count in two places: in a reservation, made before the model is asked, and in a bill,
where a provider sends no count that can be believed. It needs no provider's tokenizer, so it is the same wherever a
run happens, and it never is 0 for a text.
"""

from __future__ import annotations

CHARS_PER_TOKEN = 4
"""Characters of one token of English text, after OpenAI's rule of thumb:
https://help.openai.com/en/articles/4936856-what-are-tokens-and-how-to-count-them"""


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text has: a quarter of its characters, rounded up."""
    return -(-len(text) // CHARS_PER_TOKEN)
