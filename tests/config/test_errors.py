"""What every error of the project can say of itself, and names that an author may have meant."""

from __future__ import annotations

import pytest

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError, did_you_mean


class SettingsError(WavewrightError):
    exit_code = exit_codes.MISUSE


def test_an_error_shows_its_place_and_its_hint_on_lines_of_their_own() -> None:
    error = WavewrightError("no such tool", "add it to `tools`", place="wavewright.yaml:3")

    assert str(error) == "no such tool"
    assert error.describe() == "no such tool\n  --> wavewright.yaml:3\n  = help: add it to `tools`"


def test_an_error_without_place_or_hint_is_its_message_alone() -> None:
    assert WavewrightError("no such tool").describe() == "no such tool"


def test_a_hint_given_as_a_function_is_made_when_it_is_asked_for() -> None:
    asked = list[str]()

    def hint() -> str:
        asked.append("hint")
        return "look it up"

    error = WavewrightError("no such tool", hint)

    assert asked == []
    assert error.hint == "look it up"


def test_the_exit_code_is_that_of_the_class_unless_one_is_given() -> None:
    assert SettingsError("wrong").exit_code == exit_codes.MISUSE
    assert (
        SettingsError("disk full", exit_code=exit_codes.ENVIRONMENT).exit_code
        == exit_codes.ENVIRONMENT
    )
    assert WavewrightError("nobody expects this at the edge").exit_code == exit_codes.INTERNAL


@pytest.mark.parametrize(
    ("name", "hint"), [("fetc", "did you mean 'fetch'?"), ("FETCH", "did you mean 'fetch'?")]
)
def test_the_nearest_name_is_suggested_whatever_its_case(name: str, hint: str) -> None:
    assert did_you_mean(name, ["parse", "fetch"]) == hint


def test_several_names_are_suggested_where_several_are_asked_for() -> None:
    assert (
        did_you_mean("fetch", ["fetch_a", "fetch_b", "parse"], 2)
        == "did you mean 'fetch_b' or 'fetch_a'?"
    )


@pytest.mark.parametrize("name", ["fetch", "quite_another", "f" * 1_000])
def test_nothing_is_suggested_for_a_known_name_or_one_that_nothing_is_like(name: str) -> None:
    assert did_you_mean(name, ["fetch", "parse"]) is None
