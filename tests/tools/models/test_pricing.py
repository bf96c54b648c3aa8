"""What a call costs is known, or it is not; it never costs nothing by mistake. An estimate errs on
the safe side.
"""

from __future__ import annotations

import datetime as dt
import socket
from collections.abc import Sequence

import pytest
from genai_prices import Usage, calc_price
from hypothesis import given, strategies as st

from wavewright.config.sections import PriceSettings
from wavewright.tools.models.pricing import estimate_tokens, price_of

OWN = {"my-model": PriceSettings(input=2.0, output=10.0)}
WHEN = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)


def listed(name: str, provider: str, tokens: Sequence[int]) -> float:
    read, written, cached = tokens
    usage = Usage(input_tokens=read, output_tokens=written, cache_read_tokens=cached)
    return float(
        calc_price(usage, name, provider_id=provider, genai_request_timestamp=WHEN).total_price
    )


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("openai:gpt-4o", "openai"),
        ("openai-chat:gpt-4o", "openai"),
        ("openai-responses:gpt-4o", "openai"),
        ("anthropic:claude-sonnet-4-5", "anthropic"),
        ("google:gemini-2.5-flash", "google"),
        ("google-cloud:gemini-2.5-flash", "google"),
        ("xai:grok-4", "x-ai"),
        ("mistral:mistral-large-latest", "mistral"),
    ],
)
def test_a_listed_model_costs_what_its_providers_list_says(model: str, provider: str) -> None:
    name = model.partition(":")[2]
    cost = price_of(model, 1_000_000, 1000, 200_000, {}, when=WHEN)

    assert cost is not None
    assert cost == listed(name, provider, (1_000_000, 1000, 200_000))
    assert cost > 0


@pytest.mark.parametrize(
    "model",
    [
        "openai:no-such-model",
        "nobody:gpt-4o",
        "ollama:llama3:8b",
        "vllm:qwen3",
        "litellm:gpt-4o",
        "gpt-4o",
        "openai:",
        ":gpt-4o",
        "",
        "openai:whisper-1",
    ],
)
def test_a_model_that_no_list_prices_has_no_price(model: str) -> None:
    assert price_of(model, 1000, 1000, 0, {}) is None


def test_the_settings_go_before_the_list() -> None:
    prices = {"gpt-4o": PriceSettings(input=1.0, output=3.0)}

    assert price_of("openai:gpt-4o", 1_000_000, 2_000_000, 500_000, prices) == pytest.approx(7.0)


@pytest.mark.parametrize("model", ["openai-chat:my-model", "ollama:my-model", "my-model"])
def test_the_settings_price_a_model_by_its_name_whoever_serves_it(model: str) -> None:
    assert price_of(model, 1000, 100, 0, OWN) == pytest.approx((1000 * 2 + 100 * 10) / 1e6)


def test_the_settings_price_a_name_with_a_colon_in_it() -> None:
    prices = {"llama3:8b": PriceSettings(input=0.0, output=0.0)}

    assert price_of("ollama:llama3:8b", 1000, 100, 0, prices) == 0.0


def test_the_settings_price_one_provider_where_they_name_it() -> None:
    prices = {"openai:my-model": PriceSettings(input=1.0, output=1.0), **OWN}

    assert price_of("openai:my-model", 1_000_000, 0, 0, prices) == pytest.approx(1.0)
    assert price_of("vllm:my-model", 1_000_000, 0, 0, prices) == pytest.approx(2.0)


def test_no_list_counts_at_an_address_that_nobody_knows() -> None:
    assert (
        price_of("openai-chat:gpt-4o", 1000, 100, 0, {}, base_url="http://127.0.0.1:8000/v1")
        is None
    )


def test_at_a_known_address_the_list_of_whoever_runs_it_counts() -> None:
    at_openai = price_of(
        "openai-chat:gpt-4o", 1000, 100, 0, {}, base_url="https://api.openai.com/v1", when=WHEN
    )

    assert at_openai == listed("gpt-4o", "openai", (1000, 100, 0))


def test_the_settings_count_at_every_address() -> None:
    assert (
        price_of("openai-chat:my-model", 1_000_000, 0, 0, OWN, base_url="http://127.0.0.1/v1")
        == 2.0
    )


@given(st.integers(-10, 10**7), st.integers(-10, 10**7), st.integers(-10, 10**8))
def test_a_price_is_never_negative_whatever_a_provider_counts(
    read: int, written: int, cached: int
) -> None:
    by_list = price_of("openai:gpt-4o", read, written, cached, {}, when=WHEN)
    by_settings = price_of("openai:my-model", read, written, cached, OWN)

    assert by_list is not None
    assert by_settings is not None
    assert min(by_list, by_settings) >= 0


def test_looking_up_a_price_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*arguments: object) -> None:
        raise AssertionError("a price was looked up over the network")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    monkeypatch.setattr(socket, "getaddrinfo", no_network)

    assert price_of("anthropic:claude-sonnet-4-5", 1000, 100, 0, {}) is not None


@pytest.mark.parametrize(
    ("chars", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2), (4000, 1000), (4001, 1001)]
)
def test_a_text_has_a_quarter_of_its_characters_as_tokens_rounded_up(
    chars: int, tokens: int
) -> None:
    assert estimate_tokens("x" * chars) == tokens


@given(st.text(), st.text())
def test_two_texts_together_have_no_more_tokens_than_apart(first: str, second: str) -> None:
    together = estimate_tokens(first + second)

    assert together <= estimate_tokens(first) + estimate_tokens(second)
    assert together >= max(estimate_tokens(first), estimate_tokens(second))
