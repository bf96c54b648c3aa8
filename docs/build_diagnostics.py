"""Write a page for each diagnostic, from the catalogue and the broken plans that give them.

Run as `python docs/build_diagnostics.py`; the pages are committed, and a test says when they are out of date.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from wavewright.planner.diagnostics.diagnostic import FAMILIES, DiagnosticEntry, catalogue

ROOT = Path(__file__).parent.parent
BROKEN = ROOT / "tests" / "planner" / "broken"
PAGES = ROOT / "docs" / "reference" / "diagnostics"

_FAMILY_TEXTS = {
    "safety": "What a plan's data could do; see [what data can do](../../explanation/trust.md).",
    "budget": "What the plan is expected to take of models, against what is left; see [budgets](../budgets.md).",
    "lint": "Warnings: what is allowed and probably not meant. Asked only of a plan without errors.",
}
_CIRCUMSTANCES = {
    "max_bytes": "The reader's limit in bytes is lowered here to",
    "max_depth": "The reader's limit of nesting is lowered here to",
    "finished": "These steps have finished:",
    "left": "So much is left of the budgets:",
}
"""What a reader needs to know of a case beside its files; the rest is how the tests ask for it."""
_USUAL_FIELDS = re.compile(r"^(?:version|name|goal|targets): .*\n", re.MULTILINE)
_SHOWN_WIDTH = 110


def page(entry: DiagnosticEntry, folder: Path) -> str:
    """Return the page of one diagnostic."""
    return "\n".join(_lines(entry, folder)) + "\n"


def index() -> str:
    """Return the page that lists every diagnostic."""
    return "\n".join(_index_lines()) + "\n"


def pages() -> dict[Path, str]:
    """Return every page by its path."""
    folders = {
        folder.name.partition("_")[0]: folder
        for folder in sorted(BROKEN.iterdir())
        if folder.is_dir()
    }
    found = {
        PAGES / f"{code}.md": page(entry, folders[code]) for code, entry in catalogue().items()
    }
    found[PAGES / "index.md"] = index()
    return found


def _lines(entry: DiagnosticEntry, folder: Path) -> Iterator[str]:
    yield f"# {entry.code}: {entry.title}"
    yield ""
    yield f"`{entry.kind}`, {entry.severity}."
    yield ""
    yield from _sentences(entry.meaning)
    yield ""
    first, *others = _sentences(entry.fix)
    yield f"**Fix:** {first}"
    yield from others
    for file in sorted(
        folder.iterdir(),
        key=lambda file: (file.suffix == ".json" and file.stem == "case", file.name),
    ):
        if file.name in ("expected.txt", "case.json"):
            continue
        yield ""
        text = file.read_text(encoding="utf-8", errors="replace")
        shown = _without_usual_fields(text) if file.name == "goal.yaml" else text
        yield from _fenced(shown, title=file.name)
    yield from _circumstances(folder)
    yield ""
    yield from _fenced(_messages((folder / "expected.txt").read_text(encoding="utf-8")))


def _without_usual_fields(goal: str) -> str:
    """Return a goal template without the lines that each has and no diagnostic here is about."""
    return _USUAL_FIELDS.sub("", goal)


def _messages(text: str) -> str:
    """Return what is wrong and where: the line itself and the fix stand on the page already."""
    lines = text.splitlines()
    return "\n".join(line for line in lines if re.match(r"(error|warning)\[| *--> ", line))


def _circumstances(folder: Path) -> Iterator[str]:
    """Say what is not in the files: limits that are lower than usual, and what has happened before."""
    file = folder / "case.json"
    case = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for name, value in case.items():
        if name not in _CIRCUMSTANCES:
            continue
        shown = ", ".join(f"`{one}`" for one in _values(value))
        yield ""
        yield f"{_CIRCUMSTANCES[name]} {shown}."


def _values(value: object) -> list[object]:
    if isinstance(value, dict):
        return [
            f"{name}: {json.dumps(part, ensure_ascii=False)}"
            for name, part in cast("dict[str, object]", value).items()
        ]
    return (
        cast("list[object]", value)
        if isinstance(value, list)
        else [str(value).lower() if isinstance(value, bool) else value]
    )


def _index_lines() -> Iterator[str]:
    yield "# Diagnostics"
    yield ""
    yield "Everything that `wavewright check` and the reader can say of a document."
    yield "Codes and kinds are stable; an error keeps a plan from running, a warning does not."
    yield "All faults are reported at once, in the order of the text, and each only once."
    for prefix, family in FAMILIES.items():
        yield ""
        yield f"## {prefix}: {family}"
        yield ""
        if family in _FAMILY_TEXTS:
            yield from _sentences(_FAMILY_TEXTS[family])
            yield ""
        for entry in catalogue().values():
            if entry.family == family:
                yield f"- [{entry.code}]({entry.code}.md): {entry.title}"


def _fenced(text: str, title: str = "") -> Iterator[str]:
    yield f'```text title="{title}"' if title else "```text"
    for line in text.splitlines():
        yield line if len(line) <= _SHOWN_WIDTH + 20 else line[:_SHOWN_WIDTH] + "…"
    yield "```"


def _sentences(text: str) -> list[str]:
    """Return one sentence a line."""
    return text.replace(". ", ".\n").split("\n")


def main() -> None:
    """Write the pages, and remove those of diagnostics that are no more."""
    PAGES.mkdir(parents=True, exist_ok=True)
    written = pages()
    for path in PAGES.glob("*.md"):
        if path not in written:
            path.unlink()
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
