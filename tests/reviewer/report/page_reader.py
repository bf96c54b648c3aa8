"""What a parser finds on a page."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class FoundPage:
    """Elements, attributes, words and links of a page."""

    elements: list[tuple[str, frozenset[str]]] = field(
        default_factory=list[tuple[str, frozenset[str]]]
    )
    words: list[str] = field(default_factory=list[str])
    links: list[str] = field(default_factory=list[str])
    ids: list[str] = field(default_factory=list[str])

    @property
    def kinds(self) -> frozenset[tuple[str, str]]:
        """Every pair of an element and one of its attributes that occurs."""
        return frozenset(
            (name, attribute)
            for name, attributes in self.elements
            for attribute in (*attributes, "")
        )

    @property
    def text(self) -> str:
        """All words."""
        return " ".join(" ".join(self.words).split())


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = FoundPage()
        self._open = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.page.elements.append((tag, frozenset(name for name, _value in attrs)))
        self._open = tag
        for name, value in attrs:
            if name in {"href", "src"}:
                self.page.links.append(value or "")
            if name == "id":
                self.page.ids.append(value or "")

    def handle_data(self, data: str) -> None:
        if self._open != "style":
            self.page.words.append(data)


def read_page(html: str) -> FoundPage:
    """Return what is on a page."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.page
