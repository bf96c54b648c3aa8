from __future__ import annotations

import subprocess
import sys

CHEAP = "import sys; import wavewright.config{more}; print(*sorted({heavy} & sys.modules.keys()))"
HEAVY = {"yaml", "pydantic", "tomllib", "wavewright.config.settings", "difflib", "json"}


def loaded(more: str) -> set[str]:
    """Return which heavy modules a fresh interpreter has loaded after an import."""
    code = CHEAP.format(more=more, heavy=HEAVY)
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(ran.stdout.split())


def test_importing_the_package_loads_no_module_of_it() -> None:
    assert loaded("") == set()


def test_reading_json_needs_no_yaml_and_no_models() -> None:
    read = "; wavewright.config.read_document('{\"a\": 1}', 'note.json').span('/a')"

    assert loaded(read) == {"json"}
