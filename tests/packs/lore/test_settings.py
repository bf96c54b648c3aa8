"""Environment variables of a daemon that researches zones in cycles."""

from __future__ import annotations

from pathlib import Path

import pytest

from wavewright.config import load_settings
from wavewright.engine.service.messages.contract import with_contract_defaults
from wavewright.packs.lore.messages import CONTRACT
from wavewright.packs.lore.settings import read_settings, with_environment
from wavewright.tools.packs import PackError

ALL = {
    "STARTING_ZONE": "Westfall",
    "RESEARCH_CYCLE_DELAY_MINUTES": "1.5",
    "PER_CYCLE_TOKEN_BUDGET": "50000",
    "DAILY_TOKEN_BUDGET": "400000",
    "MAX_RESEARCH_VALIDATE_ITERATIONS": "4",
}


def test_each_variable_is_a_default_of_the_daemons_settings() -> None:
    contract = with_environment(CONTRACT, ALL)

    assert contract.daemon["standing"] == {
        "start": "Westfall",
        "pause": 90.0,
        "tokens_per_cycle": 50_000,
    }
    assert contract.daemon["validation"] == {
        "target_agent": "world_lore_validator",
        "iterations": 4,
    }
    assert contract.budgets == {"day": {"tokens": 400_000}}
    assert contract.daemon["queues"] == CONTRACT.daemon["queues"]


def test_without_a_first_zone_there_is_no_standing_job() -> None:
    contract = with_environment(
        CONTRACT, {"PER_CYCLE_TOKEN_BUDGET": "50000", "DAILY_TOKEN_BUDGET": ""}
    )

    assert (contract.daemon, contract.budgets) == (CONTRACT.daemon, {})


def test_what_is_no_number_is_refused_with_the_variables_name() -> None:
    with pytest.raises(PackError, match="PER_CYCLE_TOKEN_BUDGET is no number"):
        with_environment(CONTRACT, {**ALL, "PER_CYCLE_TOKEN_BUDGET": "many"})


def test_variables_of_the_pack_count_where_its_settings_say_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CRAWL_CONTENT_TRUNCATE_CHARS", "500")
    monkeypatch.setenv("RATE_LIMIT_REQUESTS_PER_MINUTE", "7")

    by_variable = read_settings({})
    by_settings = read_settings(
        {"crawl_content_truncate_chars": 900, "web": {"requests_per_minute": 9}}
    )

    assert (by_variable.crawl_content_truncate_chars, by_variable.web.requests_per_minute) == (
        500,
        7,
    )
    assert (by_settings.crawl_content_truncate_chars, by_settings.web.requests_per_minute) == (
        900,
        9,
    )


@pytest.mark.parametrize("name", ["CRAWL_CONTENT_TRUNCATE_CHARS", "RATE_LIMIT_REQUESTS_PER_MINUTE"])
def test_a_variable_of_the_pack_that_is_no_number_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "4k")

    with pytest.raises(PackError, match=f"{name} is no number"):
        read_settings({})


def test_other_names_of_the_variables_are_read() -> None:
    contract = with_environment(
        CONTRACT,
        {
            "STARTING_ZONE": "Westfall",
            "PER_ZONE_TOKEN_BUDGET": "9000",
            "GAME_NAME": "Lanternmere",
            "RABBITMQ_URL": "amqp://keeper:pw@broker/",
            "AGENT_ID": "keeper",
            "LLM_MODEL": "openai-chat:small",
        },
    )

    assert contract.daemon["standing"] == {
        "start": "Westfall",
        "tokens_per_cycle": 9000,
        "inputs": {"game": "Lanternmere"},
    }
    daemons = [contract, *contract.roles.values()]
    assert {str(one.daemon["agent"]) for one in daemons} == {"keeper"}
    assert {one.model for one in daemons} == {"openai-chat:small"}
    assert {str(one.daemon["amqp_url"]) for one in daemons} == {"amqp://keeper:pw@broker/"}


def test_the_file_of_topics_may_be_named_by_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPICS_CONFIG", "mine.yml")

    assert read_settings({}).topics == "mine.yml"
    assert read_settings({"topics": "own.yml"}).topics == "own.yml"


@pytest.mark.parametrize(
    ("stated", "model"), [("", "openai-chat:small"), ("model: test:own\n", "test:own")]
)
def test_a_daemon_asks_the_model_of_the_variable_where_the_settings_name_none(
    stated: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_MODEL", "openai-chat:small")
    (tmp_path / "wavewright.yaml").write_text(f"version: 1\n{stated}daemon: {{pack: lore}}\n")

    assert with_contract_defaults(load_settings(tmp_path, {})).model == model
