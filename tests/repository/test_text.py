"""What may not stand in any file of the project: traces of the machine it was written on, and loose
ends.
"""

from __future__ import annotations

import re

import pytest

from tests.repository.tree import ROOT, project_files

# Written in pieces, so that this file does not hold what it looks for.
UNWANTED = {
    "a note that work is left over": r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX)\b",
    "a folder of one machine": r"(?<![\w.])/(?:work|root|home|Users)/" + r"\w+",
    "a temporary folder of one machine": r"(?<![\w.])/tmp/" + r"(?:team|bash_jobs|repo)\b",
    "the host of a package registry": r"(?:pypi|pythonhosted|npm" + r"js)\.(?:org|com)\b",
    "a merge that was not finished": r"^(?:<{7} |>{7} )",
}


def text_of_files() -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for path in project_files():
        try:
            found.append((str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            # Pictures, and inputs that are broken on purpose.
            continue
    return found


@pytest.mark.parametrize("what", UNWANTED)
def test_no_file_holds(what: str) -> None:
    pattern = re.compile(UNWANTED[what], re.MULTILINE)
    hits = [
        f"{name}:{text.count(chr(10), 0, hit.start()) + 1}: {hit.group()}"
        for name, text in text_of_files()
        for hit in pattern.finditer(text)
    ]

    assert hits == []
