from __future__ import annotations

import subprocess
import sys

import pytest

CHEAP = "import sys; import wavewright.config{more}; print(*sorted({heavy} & sys.modules.keys()))"
HEAVY = {"yaml", "pydantic", "tomllib", "wavewright.config.settings", "difflib", "json"}


def loaded(more: str) -> set[str]:
    """Return which heavy modules a fresh interpreter has loaded after an import."""
    code = CHEAP.format(more=more, heavy=HEAVY)
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(ran.stdout.split())


def test_opening_the_door_loads_nothing_behind_it() -> None:
    assert loaded("") == set()


def test_reading_json_needs_no_yaml_and_no_models() -> None:
    read = "; wavewright.config.read_document('{\"a\": 1}', 'note.json').span('/a')"

    assert loaded(read) == {"json"}


def test_a_name_that_is_not_promised_is_not_there() -> None:
    import wavewright.config

    with pytest.raises(AttributeError, match="has no attribute 'Everything'"):
        _ = wavewright.config.Everything
