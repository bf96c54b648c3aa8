"""Three small sites of our own, each in the form of another kind of site.

A site is kept as plain text: `@ Title : categories or trail`, `| label = value` for its info box,
`== heading`, `* item`, `; term : definition`, `!! header || header` and `|| cell || cell` for
tables, `> speaker: words`, and `[[Title]]` for links. What surrounds the text on every page, and
how an info box is written, is the site's form.
"""

from __future__ import annotations

import json
import re
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Final

from wavewright.packs.extraction.structure import SourcePage
from wavewright.packs.lore.models import slug

FOLDER: Final = Path(__file__).parent / "sites"
GOLD: Final[dict[str, Any]] = json.loads((FOLDER / "gold.json").read_text())
SITES: Final = tuple(GOLD)


@cache
def pages(site: str) -> tuple[SourcePage, ...]:
    """Return the pages of a site."""
    texts = re.split(r"^@ ", (FOLDER / f"{site}.txt").read_text(), flags=re.MULTILINE)[1:]
    heads = [text.partition("\n")[0].split(" : ") for text in texts]
    titles = [head[0].strip() for head in heads]
    return tuple(
        SourcePage(
            url=_address(site, title),
            html=_FORMS[site](title, head[-1] if len(head) > 1 else "", _body(site, text), titles),
        )
        for title, head, text in zip(titles, heads, texts, strict=True)
    )


def _address(site: str, title: str) -> str:
    path = title.replace(" ", "_") if site == "wiki" else slug(title).replace("_", "-")
    return {"wiki": f"http://w.test/wiki/{path}", "plain": f"http://p.test/{path}.html"}.get(
        site, f"http://d.test/handbook/{path}/"
    )


def _inline(site: str, text: str) -> str:
    return re.sub(
        r"\[\[(.+?)\]\]", lambda match: _link(site, match[1]), escape(text.strip(), quote=False)
    )


def _link(site: str, title: str) -> str:
    return f'<a href="{_address(site, title)}">{title}</a>'


def _list(site: str, titles: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{_link(site, title)}</li>" for title in titles) + "</ul>"


def _body(site: str, text: str) -> str:
    """Return the HTML of a page's text; lines of one kind that follow each other are one block."""
    rows: list[tuple[str, str]] = []
    blocks: list[tuple[str, list[str]]] = []
    for line in text.splitlines()[1:]:
        mark, _, rest = line.partition(" ")
        mark = mark if mark in {"|", "==", "*", ";", "!!", "||", ">"} else ""
        if mark == "|":
            label, _, value = rest.partition(" = ")
            rows.append((label, _inline(site, value)))
            continue
        mark = "||" if mark == "!!" else mark
        if not blocks or blocks[-1][0] != mark or mark in {"", "=="}:
            blocks.append((mark, []))
        blocks[-1][1].append(line if not mark else line if line.startswith("!!") else rest)
    return (_info_box(site, rows) if rows else "") + "".join(
        _block(site, *block) for block in blocks
    )


def _info_box(site: str, rows: list[tuple[str, str]]) -> str:
    if site == "wiki":
        data = "".join(
            f'<div class="pi-item pi-data" data-source="{label.lower()}"><h3 class="pi-data-label">{label}</h3>'
            f'<div class="pi-data-value">{value}</div></div>'
            for label, value in rows
        )
        return (
            '<aside class="portable-infobox pi-theme-wiki"><figure class="pi-item pi-image"><figcaption>In the rain'
            f'</figcaption></figure><section class="pi-item pi-group"><h2 class="pi-header">Data</h2>{data}</section>'
            "</aside>"
        )
    return "<p>" + "<br>\n".join(f"<b>{label}:</b> {value}" for label, value in rows) + "</p>"


def _block(site: str, mark: str, lines: list[str]) -> str:
    if mark == "==":
        return f"<h2>{lines[0]}</h2>"
    if mark == "*":
        return "<ul>" + "".join(f"<li>{_inline(site, line)}</li>" for line in lines) + "</ul>"
    if mark == ";":
        pairs = [line.partition(" : ") for line in lines]
        return (
            "<dl>"
            + "".join(f"<dt>{term}<dd>{_inline(site, text)}" for term, _, text in pairs)
            + "</dl>"
        )
    if mark == ">":
        speaker, _, words = lines[0].partition(": ")
        return f"<blockquote><b>{speaker}:</b> {words}</blockquote>"
    if mark == "||":
        head = "".join(
            f"<th>{cell.strip()}</th>" for cell in lines[0].removeprefix("!!").split("||")
        )
        rows = [
            "<tr>"
            + "".join(f"<td>{_inline(site, cell)}</td>" for cell in line.split("||"))
            + "</tr>"
            for line in lines[1:]
        ]
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f"<p>{_inline(site, lines[0])}</p>"


def _wiki(title: str, told: str, body: str, titles: list[str]) -> str:
    categories = "".join(
        f'<li class="category"><a href="/wiki/Category:{name.replace(" ", "_")}">{name}</a></li>'
        for name in filter(None, told.split(", "))
    )
    # As MediaWiki shows them.
    body = body.replace("<p>Redirect to:</p>", '<div class="redirectMsg"><p>Redirect to:</p>') + (
        "</div>" if "Redirect to:" in body else ""
    )
    everything = _list("wiki", [one for one in titles if ":" not in one])
    return (
        f"<html><head><title>{title} | Emberwake Wiki | Fandom</title></head><body><nav>{everything}</nav>"
        f'<main class="page__main"><h1 class="page-header__title">{title}</h1><div id="mw-content-text">'
        f'<div class="mw-parser-output">{body}<table class="navbox"><tr><th>Emberwake</th></tr><tr><th>Places</th>'
        f"<td>{everything}</td></tr></table></div></div>"
        '<div class="page-footer"><div class="page-footer__categories"><ul>'
        f"{categories}</ul></div></div></main>"
        f'<aside class="page__right-rail"><h2>Popular pages</h2>{everything}</aside>'
        "<div class='mixed-content-footer'><h2>Explore properties</h2><ul><li>Iron Choir Online</li></ul></div>"
        "</body></html>"
    )


def _plain(title: str, told: str, body: str, titles: list[str]) -> str:
    del told, titles
    return (
        f"<html><head><title>{title}</title></head><body bgcolor=white><h1>{title}</h1>{body}<hr>"
        '<p><a href="pell-harbour.html">Home</a> | <a href="people.html">The People</a> | '
        '<a href="curious-things.html">Curious Things</a> | <a href="tales.html">Tales</a></p></body></html>'
    )


def _docs(title: str, told: str, body: str, titles: list[str]) -> str:
    trail = "".join(
        f'<li class="breadcrumb-item"><a href="#">{name}</a></li>' for name in told.split(" / ")
    )
    place = titles.index(title)
    around = [titles[place - 1], titles[(place + 1) % len(titles)]]
    return (
        f"<html><head><title>{title} - Karst Station Handbook</title></head><body>"
        f'<div class="sidebar"><h3>Contents</h3>'
        f'{_list("docs", titles)}</div><div class="content"><ol class="breadcrumb">{trail}</ol><h1>{title}</h1>{body}'
        f'<div class="pagination"><span>Previous: {_link("docs", around[0])}</span> <span>Next: '
        f'{_link("docs", around[1])}</span></div></div><div class="site-footer">Built with pages.</div></body></html>'
    )


_FORMS: Final = {"wiki": _wiki, "plain": _plain, "docs": _docs}
