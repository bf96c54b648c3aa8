"""Documents' Markdown as HTML that can do nothing.

HTML in the text stays text, pictures stay text (a page that opens from disk fetches nothing), and a link is one only
where it leads to `http` or `https`. Headings are set two levels lower, below those of the page.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from markupsafe import Markup

from wavewright.reviewer.values import visible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_MAX_CHARACTERS = 400_000

_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u2060\ufeff"))
"""Where a line may break and such: pages are full of them, and a document reads the same without."""


def markdown_to_html(text: str) -> Markup:
    """Return a document's text as safe HTML."""
    cut = text[:_MAX_CHARACTERS]
    if len(text) > _MAX_CHARACTERS:
        cut += f"\n\n(cut here: {len(text) - _MAX_CHARACTERS} more characters are in the package)"
    parser = _parser()
    tokens = parser.parse(visible(cut.translate(_INVISIBLE)))
    for token in tokens:
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
        alignment = token.attrs.pop("style", None)
        if isinstance(alignment, str) and alignment.startswith("text-align:"):
            # The page's policy allows no inline style; its own classes do the same.
            token.attrSet("class", alignment.removeprefix("text-align:"))
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("rel", "noopener noreferrer nofollow")
    # The parser escapes all text, and its HTML rules are off: what it renders is markup of its own making.
    return Markup(parser.renderer.render(tokens, parser.options, {}))  # noqa: S704


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False})
    parser.enable("table").disable(["image", "html_block", "html_inline"])
    setattr(parser, "validateLink", _is_web_link)  # noqa: B010 - the documented way to decide on links
    return parser


def _is_web_link(url: str) -> bool:
    return url.lower().startswith(("https://", "http://"))
