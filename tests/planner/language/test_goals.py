"""Goals as data."""

from __future__ import annotations

from wavewright.planner.language.goals import Rules


def test_equal_rules_are_equal_as_json_in_whatever_order_their_names_were_given() -> None:
    names = [f"tool_{number}" for number in range(200)]
    rules, same = (
        Rules.model_validate({"data_tools": names}),
        Rules.model_validate({"data_tools": names[::-1]}),
    )

    assert rules == same
    assert rules.model_dump_json() == same.model_dump_json()
    assert rules.model_dump(mode="json")["data_tools"] == sorted(names)
