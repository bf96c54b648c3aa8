"""Estimate the tokens of a text, and the price of a model call in US dollars.

An *estimate* of tokens stands in for a count in a reservation, and in a bill where a provider sends
no credible count. It needs no tokenizer, is the same on every machine, and is never 0 for a text
that is not empty.

A *price* comes from the settings (`models.prices`), else from the list in the package
`genai-prices`, which is never updated over the network. A model without a known price has none; it
never counts as free.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from wavewright.config.sections import PriceSettings
from wavewright.tools.models.endpoints import find_endpoint

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

    from wavewright.config import Settings


CHARS_PER_TOKEN = 4
"""Characters of one token of English text, after OpenAI's rule of thumb:
https://help.openai.com/en/articles/4936856-what-are-tokens-and-how-to-count-them"""


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text has: a quarter of its characters, rounded up."""
    return -(-len(text) // CHARS_PER_TOKEN)


_PROVIDERS = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "google-cloud": "google",
    "google-gla": "google",
    "google-vertex": "google",
    "grok": "x-ai",
    "xai": "x-ai",
    "bedrock": "aws",
}
"""Providers that have another name in the price list."""
_INPUT_TOKENS_OF_1000: Final = 750
"""Tokens of 1,000 that a worker is taken to read; the others it writes. Written ones cost a few
times as much, and a tool says of itself how many tokens a call takes, not which: workers are mostly
given far more than they answer.
"""
_PROXY_PROVIDERS = frozenset({"litellm"})
"""Providers that forward requests: the name does not say whose price applies."""


def price_of(
    model: str,
    input_tokens: int,
    output_tokens: int,
    cached: int,
    prices: Mapping[str, PriceSettings],
    *,
    base_url: str | None = None,
    when: datetime | None = None,
) -> float | None:
    """Return what a call of `provider:name` costs in US dollars; None where its price is not known.

    `cached` are those of the input tokens that the provider read from its cache. `prices` are the
    settings' `models.prices`, by name without provider or by the whole name. `base_url` is the
    address that is asked where that is not the provider's own: then only the list of that address's
    operator counts, and none where it is unknown. `when` is the time of the call, because lists
    change with time; the present where absent.
    """
    provider, _, name = model.partition(":")
    read, written = max(input_tokens, 0), max(output_tokens, 0)
    own = prices.get(model) or prices.get(name or model)
    if own is not None:
        return (read * own.input + written * own.output) / 1_000_000
    if not name or not provider or provider in _PROXY_PROVIDERS:
        return None
    return _listed_price(provider, name, (read, written, min(max(cached, 0), read)), base_url, when)


def price_per_1000_tokens(
    model: str, settings: Settings, environment: Mapping[str, str]
) -> float | None:
    """Return what 1,000 tokens of a worker or an agent cost in US dollars; None where no price is
    known.

    Raises:
        ModelConfigError: the model cannot be asked.
    """
    endpoint = find_endpoint(model, settings, environment)
    url = endpoint.url if endpoint.is_foreign else None
    return price_of(
        model,
        _INPUT_TOKENS_OF_1000,
        1000 - _INPUT_TOKENS_OF_1000,
        0,
        settings.models.prices,
        base_url=url,
    )


def _listed_price(
    provider: str,
    name: str,
    tokens: tuple[int, int, int],
    base_url: str | None,
    when: datetime | None,
) -> float | None:
    # Imported here: the list of prices takes a while to load, and few budgets are of money.
    from genai_prices import Usage, calc_price

    read, written, cached = tokens
    usage = Usage(input_tokens=read, output_tokens=written, cache_read_tokens=cached)
    try:
        if base_url is None:
            of_provider = _PROVIDERS.get(provider, provider)
            bill = calc_price(usage, name, provider_id=of_provider, genai_request_timestamp=when)
        else:
            bill = calc_price(usage, name, provider_api_url=base_url, genai_request_timestamp=when)
    except LookupError:
        return None
    return float(bill.total_price) if _is_priced(bill) else None


def _is_priced(bill: PriceCalculation) -> bool:
    """Tell whether the list says what text costs: some entries name a model and no price."""
    price = bill.model_price
    return price.input_mtok is not None and price.output_mtok is not None
