"""The rows of the fault list, by id: which tests play which.

The list itself lies beside the checkout and is not part of it; the names here are the project's
own, so that every fault is played where the list is absent, and a new row is noticed where it is
there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

LIST: Final = Path(__file__).parents[3] / "shared" / "cases" / "llm_faults.jsonl"

ROWS: Final = {
    "ls01": "429 with a time to wait",
    "ls02": "500 for ever",
    "ls03": "no bytes",
    "ls04": "stream cut",
    "ls05": "no choices",
    "ls06": "content filter",
    "ls07": "refusal in words",
    "ls08": "arguments that are no JSON",
    "ls09": "200 calls at once",
    "ls10": "no usage",
    "ls11": "negative usage",
    "ls12": "gzip bomb",
    "ls13": "echo with secrets",
    "ls14": "403",
    "ls15": "confidence of the wrong kind",
    "ls16": "review asks for a foreign tool",
}


def row(name: str) -> pytest.MarkDecorator:
    """Mark a test as the one that plays a row; its id is the row's."""
    assert name in ROWS
    return pytest.mark.parametrize("row_id", [pytest.param(name, id=name)])
