"""Announcements from files: where date and company are read from, what is left out, what text
remains.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from tests.packs.equities.market import equities
from tests.tools.calling import call_for_document
from wavewright.planner.types import Json, JsonObject
from wavewright.tools import ToolError

PAGE = """<!doctype html><html><head><title>Results &amp; outlook</title>
<meta name="date" content="2010-02-01"><meta name="code" content="aapl"><meta name="keywords" content="results, q1">
<style>p {color: red}</style><script>steal("cookies")</script></head>
<body><h1>Results</h1><p>Sales rose <b>11&nbsp;%</b>.</p><noscript>on no account</noscript>
<script>document.write("never")</script><template><p>hidden</p></template>
<iframe src="x">frame</iframe><p onclick="go()">Margin &lt; 30 %.</p></body></html>"""


def fetch(root: Path, **params: Json) -> JsonObject:
    tools = equities(root, announcements="news")
    return call_for_document(tools["fetch_announcements"], {"code": "AAPL", **params})


def items(document: JsonObject) -> list[JsonObject]:
    return cast("list[JsonObject]", document["items"])


@pytest.fixture
def news(tmp_path: Path) -> Path:
    folder = tmp_path / "news"
    folder.mkdir()
    return folder


def test_name_front_matter_and_page_all_say_date_and_company(news: Path) -> None:
    (news / "2010-01-05_AAPL_new-store.md").write_text("Opened in Paris.\n")
    (news / "second.md").write_text(
        "---\ndate: 2010-01-20\ncode: aapl\ntitle: 'Tablet'\ntags: [product, launch]\n---\n# Heading\nA tablet.\n"
    )
    (news / "third.html").write_text(PAGE)
    (news / "fourth.htm").write_text(
        '<h1>Dividend</h1><time datetime="2010-02-10T09:00:00Z">Wednesday</time><meta name="symbol" content="AAPL">'
    )

    document = fetch(news.parent)

    assert [(item["date"], item["title"]) for item in items(document)] == [
        ("2010-02-10", "Dividend"),
        ("2010-02-01", "Results & outlook"),
        ("2010-01-20", "Tablet"),
        ("2010-01-05", "new store"),
    ]
    assert [item["tags"] for item in items(document)] == [
        [],
        ["results", "q1"],
        ["product", "launch"],
        [],
    ]
    assert items(document)[2]["text"] == "# Heading\nA tablet."
    assert items(document)[3]["source"] == "news/2010-01-05_AAPL_new-store.md"
    assert document["id"] == "local:AAPL:announcements"
    assert document["tags"] == ["announcements", "aapl"]
    assert document["as_of"] == "2010-02-10"
    assert document["warnings"] == []


@pytest.mark.parametrize(
    ("name", "text", "code", "title"),
    [
        ("2010-02-01.md", "---\ncode: AAPL\ntitle: Results\n---\nx", "AAPL", "Results"),
        ("2010-02-01_A&B.md", "---\ncode: AB\n---\nx", "AB", "A&B"),
        ("2010-02-01_AAPL.md", "---\n# Results\nDate: of the meeting", "AAPL", "Results"),
    ],
)
def test_a_name_tells_what_the_text_leaves_open(
    name: str, text: str, code: str, title: str, news: Path
) -> None:
    (news / name).write_text(text, encoding="utf-8")

    (item,) = items(fetch(news.parent, code=code))

    assert (item["date"], item["title"]) == ("2010-02-01", title)


def test_only_the_words_of_a_page_remain(news: Path) -> None:
    (news / "page.html").write_text(PAGE)

    (item,) = items(fetch(news.parent))

    assert item["text"] == "Results\nSales rose 11 %.\nMargin < 30 %."


@pytest.mark.parametrize(
    "page",
    [
        "<script>unclosed",
        "<script>a</scr</script>b",
        "<!-- <p>x",
        "<p " * 50_000,
        "</" * 50_000,
        '<p a="' * 50_001,
        "<p a='>" * 50_001,
        "<!--" * 50_000,
        "<script>" * 50_000,
        "&#x110000;" * 50_000,
        "<template>" * 50_000,
        "<title>" * 50_000,
    ],
)
def test_broken_pages_are_read(page: str, news: Path) -> None:
    (news / "2010-02-01_AAPL_page.html").write_text(page)

    (item,) = items(fetch(news.parent))

    assert "unclosed" not in str(item["text"])


def test_an_announcement_dated_after_now_is_never_returned(news: Path) -> None:
    (news / "2010-03-01_AAPL_today.md").write_text("today")
    (news / "2010-03-02_AAPL_tomorrow.md").write_text("tomorrow")

    document = fetch(news.parent)

    assert [item["title"] for item in items(document)] == ["today"]
    assert "tomorrow" not in str(document)


def test_days_and_limit_bound_what_is_returned(news: Path) -> None:
    for day in (1, 2, 3):
        (news / f"2010-02-0{day}_AAPL_number-{day}.md").write_text("x")
    (news / "2008-02-01_AAPL_old.md").write_text("x")

    document = fetch(news.parent, limit=2)

    assert [item["title"] for item in items(document)] == ["number 3", "number 2"]
    assert document["warnings"] == ["AAPL: 1 older announcement left out by the limit of 2"]
    assert len(items(fetch(news.parent, days=36500))) == 4


def test_other_companies_are_not_mixed_in(news: Path) -> None:
    (news / "2010-02-01_IBM_x.md").write_text("x")
    (news / "2010-02-01_AAPL2_x.md").write_text("x")

    document = fetch(news.parent)

    assert items(document) == []
    assert document["as_of"] is None
    assert document["content"] == "# AAPL\n\nNo announcements.\n"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        pytest.param("undated.md", b"x", "it has no date", id="no date"),
        pytest.param(
            "x.md", b"---\ndate: 2010-02-01\n---\nx", "it names no company", id="no company"
        ),
        pytest.param(
            "x.md",
            b"---\ndate: soon\ncode: AAPL\n---\n",
            "its date 'soon' cannot be read",
            id="bad date",
        ),
        pytest.param("2010-02-01_ÅÄÖ.md", b"x", "it names no company", id="no code in its name"),
        pytest.param(
            "2010-02-01_AAPL.md",
            b"---\ndate: 2010-02-02\n\nx",
            "its front matter is not closed (end it with a line '---')",
            id="open front matter",
        ),
        pytest.param(
            "2010-02-01_AAPL.md", b"caf\xe9", "byte 0xe9 at 3 is not UTF-8", id="encoding"
        ),
        pytest.param("2010-02-01_AAPL.md", b"x" * (2 * 2**20 + 1), "larger than", id="size"),
    ],
)
def test_a_file_that_cannot_be_used_is_left_out_and_named(
    name: str, content: bytes, reason: str, news: Path
) -> None:
    (news / name).write_bytes(content)
    (news / "2010-01-01_AAPL_good.md").write_text("good")

    document = fetch(news.parent)

    assert [item["title"] for item in items(document)] == ["good"]
    (warning,) = cast("list[str]", document["warnings"])
    assert warning.startswith(f"news/{name}: ")
    assert reason in warning


def test_links_out_of_the_folder_are_not_followed(news: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("outside")
    (news / "2010-02-01_AAPL_link.md").symlink_to(outside)

    assert items(fetch(news.parent)) == []


def test_text_is_cut_at_its_limit(news: Path) -> None:
    (news / "2010-02-01_AAPL_long.md").write_text("word " * 10_000)

    (item,) = items(fetch(news.parent))

    assert len(str(item["text"])) == 20_000 + len("\n[cut]")


def test_nothing_configured_and_nothing_there_are_failures_with_a_mend(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no announcements are configured") as unset:
        call_for_document(equities(tmp_path)["fetch_announcements"], code="AAPL")
    with pytest.raises(
        ToolError, match="news: the folder of announcements cannot be opened"
    ) as missing:
        fetch(tmp_path)

    assert "set 'announcements'" in (unset.value.hint or "")
    assert "create the folder" in (missing.value.hint or "")


def test_its_output_is_marked_as_somebody_elses_words(tmp_path: Path) -> None:
    assert equities(tmp_path)["fetch_announcements"].signature.untrusted_output
