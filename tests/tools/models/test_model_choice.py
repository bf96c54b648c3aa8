from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wavewright.config.sections import ModelsSection
from wavewright.config.settings import Settings
from wavewright.planner.ports.model_port import Role
from wavewright.tools.models import ModelConfigError, check_models, choose_model, model_configured
from wavewright.tools.models.endpoints import shipped_models, split_model, thinking_level

KEYS = {
    "OPENAI_API_KEY": "sk-openai-1",
    "ANTHROPIC_API_KEY": "sk-ant-1",
    "GOOGLE_API_KEY": "goog-1",
}
BASE = Settings(
    root=Path(),
    state_dir=Path(),
    journal=Path(),
    output_dir=Path(),
    model="anthropic:claude-sonnet-5-5",
)


def settings(model: str | None = "anthropic:claude-sonnet-5-5", **models: Any) -> Settings:
    return replace(BASE, model=model, models=ModelsSection.model_validate(models))


def chosen(one: Settings, preference: str = "auto", role: Role = "planner") -> str:
    return choose_model(one, preference, role, KEYS).model


def refused(
    one: Settings, preference: str = "auto", keys: dict[str, str] = KEYS
) -> tuple[str, str | None]:
    with pytest.raises(ModelConfigError) as caught:
        choose_model(one, preference, "planner", keys)
    return str(caught.value), caught.value.hint


def test_auto_is_the_default_model() -> None:
    choice = choose_model(settings(), "auto", "planner", KEYS)

    assert (choice.model, choice.why) == ("anthropic:claude-sonnet-5-5", "it is the default model")


@pytest.mark.parametrize("word", sorted(set(shipped_models().preferences) - {"auto"}))
def test_every_shipped_word_stands_for_a_model_that_can_be_asked(word: str) -> None:
    choice = choose_model(settings("openai:gpt-6-luna"), word, "worker", KEYS)

    assert choice.model == shipped_models().preferences[word]
    assert split_model(choice.model)[0] in {"anthropic", "google"}
    assert choice.why == f"{word!r} stands for it"


def test_a_shipped_word_without_a_key_means_the_default_model_and_says_so() -> None:
    one = settings("openai:gpt-6-luna")

    choice = choose_model(one, "sonnet", "worker", {"OPENAI_API_KEY": "sk-1"})

    assert choice.model == "openai:gpt-6-luna"
    assert "'sonnet' stands for anthropic:claude-sonnet-5-5" in choice.why
    assert "no key" in choice.why


def test_a_word_of_the_project_goes_before_the_shipped_one() -> None:
    one = settings(preferences={"flash": "ollama:small", "house": "default"})

    assert chosen(one, "flash") == "ollama:small"
    assert chosen(one, "house") == "anthropic:claude-sonnet-5-5"


def test_a_whole_name_is_taken_as_it_is() -> None:
    assert chosen(settings(), "google:gemini-3.8-flash") == "google:gemini-3.8-flash"


def test_the_model_of_a_role_goes_before_the_goals_word() -> None:
    one = settings(roles={"judge": "openai:judge", "reviewer": "opus"})

    assert chosen(one, "flash", "judge") == "openai:judge"
    assert chosen(one, "flash", "reviewer") == "anthropic:claude-opus-5-5"
    assert chosen(one, "flash", "planner") == "google:gemini-3.8-flash"


def test_a_model_of_the_environment_is_asked_for_everything_and_alone() -> None:
    one = settings("openai:forced", roles={"judge": "anthropic:judge"}, fallbacks=["google:other"])

    choice = choose_model(replace(one, model_is_forced=True), "opus", "judge", KEYS)

    assert (choice.model, choice.fallbacks) == ("openai:forced", ())
    assert choice.why == "WAVEWRIGHT_MODEL names it"


def test_fallbacks_are_the_others_in_their_order() -> None:
    one = settings(fallbacks=["openai:a", "anthropic:claude-sonnet-5-5", "google:b"])

    assert choose_model(one, "auto", "planner", KEYS).fallbacks == ("openai:a", "google:b")


@pytest.mark.parametrize(
    ("model", "message", "hint"),
    [
        ("gpt-6-luna", "the provider is missing", "did you mean openai:gpt-6-luna?"),
        ("claude-opus-5-5", "the provider is missing", "did you mean anthropic:claude-opus-5-5?"),
        ("something", "the provider is missing", "write PROVIDER:something, with one of openai,"),
        ("google-gla:gemini", "unknown provider, 'google-gla'", "did you mean google:gemini?"),
        ("groq:llama", "unknown provider, 'groq'", "openai-chat:llama and set WAVEWRIGHT_BASE_URL"),
        ("openai:", "names no model of openai", "write openai:NAME"),
        (":x", "unknown provider, ''", "known providers are openai, openai-chat, anthropic"),
    ],
)
def test_a_wrong_name_is_refused_with_the_right_one(model: str, message: str, hint: str) -> None:
    with pytest.raises(ModelConfigError) as caught:
        check_models(settings(model), KEYS)

    assert message in str(caught.value)
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        ("openai:gpt-6-luna", "set OPENAI_API_KEY, or WAVEWRIGHT_API_KEY"),
        ("anthropic:claude", "set ANTHROPIC_API_KEY, or WAVEWRIGHT_API_KEY"),
        ("google:gemini", "set GOOGLE_API_KEY or GEMINI_API_KEY, or WAVEWRIGHT_API_KEY"),
        (
            "openai-chat:qwen",
            (
                "set OPENAI_API_KEY, or WAVEWRIGHT_BASE_URL to an OpenAI-compatible endpoint "
                "(and WAVEWRIGHT_API_KEY if it wants a key)"
            ),
        ),
    ],
)
def test_a_missing_key_is_named_before_anything_is_asked(model: str, hint: str) -> None:
    with pytest.raises(ModelConfigError) as caught:
        check_models(settings(model), {})

    assert (str(caught.value), caught.value.hint) == (f"there is no key for {model}", hint)


@pytest.mark.parametrize("model", ["ollama:small", "vllm:small"])
def test_a_model_on_ones_own_machine_needs_no_key(model: str) -> None:
    check_models(settings(model), {})

    assert choose_model(settings(model), "auto", "planner", {}).model == model


@pytest.mark.parametrize(
    ("models", "place"),
    [
        ({"preferences": {"flash": "gemini"}}, "models.preferences.flash"),
        ({"roles": {"judge": "nobody"}}, "models.roles.judge"),
        ({"fallbacks": ["openai:a", "groq:b"]}, "models.fallbacks[1]"),
    ],
)
def test_a_wrong_name_in_the_settings_is_found_at_its_place(
    models: dict[str, Any], place: str
) -> None:
    with pytest.raises(ModelConfigError, match=place.replace("[", r"\[").replace(".", r"\.")):
        check_models(settings(**models), KEYS)


def test_a_model_that_only_stands_in_needs_its_key_too() -> None:
    with pytest.raises(ModelConfigError, match="there is no key for openai:a"):
        check_models(settings(fallbacks=["openai:a"]), {"ANTHROPIC_API_KEY": "k"})


def test_an_unknown_word_is_refused_with_those_there_are() -> None:
    message, hint = refused(settings(preferences={"house": "openai:x"}), "flashy")

    assert message == "'flashy' is no model preference"
    assert hint is not None
    assert "flash, gemini-flash" in hint
    assert "house" in hint


def test_without_a_model_there_is_none_to_choose() -> None:
    assert not model_configured(settings(None))
    assert model_configured(settings())
    assert refused(settings(None)) == (
        "no model is configured",
        "set WAVEWRIGHT_MODEL to PROVIDER:NAME",
    )


def test_thinking_levels_are_shipped_and_may_be_replaced() -> None:
    one = settings(thinking={"high": "max", "minimal": "off"})

    assert [thinking_level(one, level) for level in ("minimal", "low", "medium", "high")] == [
        "off",
        "low",
        "medium",
        "max",
    ]


def test_an_unknown_thinking_level_is_found_before_anything_is_asked() -> None:
    with pytest.raises(ModelConfigError, match=r"models\.thinking\.low is 'deep'") as caught:
        check_models(settings(thinking={"low": "deep"}), KEYS)

    assert caught.value.hint == "it should be one of minimal, low, medium, high, xhigh, max, off"


def test_choosing_imports_no_providers_library() -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from wavewright.config.settings import load_settings\n"
        "from wavewright.tools.models import check_models, choose_model, model_configured\n"
        "one = load_settings(Path('/'), {'WAVEWRIGHT_MODEL': 'openai:x'})\n"
        "keys = {'OPENAI_API_KEY': 'k'}\n"
        "check_models(one, keys), choose_model(one, 'flash', 'planner', keys), model_configured(one)\n"
        "heavy = 'pydantic_ai openai anthropic google.genai httpx2 stamina genai_prices jinja2 anyio'\n"
        "print([name for name in heavy.split() if name in sys.modules])\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    assert shown.stdout == "[]\n"
