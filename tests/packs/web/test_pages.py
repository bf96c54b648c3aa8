"""Pages as Markdown."""

from __future__ import annotations

import datetime as dt

import anyio
import anyio.to_process
import pytest

from wavewright.packs.web.guarded_client import WebAnswer
from wavewright.packs.web.pages import Page, read_answer, read_page
from wavewright.tools.functions.errors import ToolError

URL = "https://example.org/wiki/a?b#c"
NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


def answer(content: str | bytes, content_type: str = "text/html") -> WebAnswer:
    body = content.encode() if isinstance(content, str) else content
    return WebAnswer(URL, 200, {"content-type": content_type}, body, NOW)


def read(content: str | bytes, content_type: str = "text/html") -> Page:
    return read_page(answer(content, content_type))


def test_the_main_part_is_markdown() -> None:
    page = read(
        "<html><head><title> The\n Gate </title></head><body><nav>Menu</nav>"
        "<main><h1>Gate</h1><p>A <b>gate</b> to <a href='/wiki/x#top'>X</a>.</p>"
        "<ul><li>iron</li></ul><table><tr><th>Size</th></tr><tr><td>4</td></tr></table></main>"
        "<footer>Imprint</footer></body></html>"
    )

    assert page.model_dump() == {
        "url": URL,
        "title": "The Gate",
        "text": "# Gate\n\nA **gate** to [X](https://example.org/wiki/x).\n\n* iron\n\n| Size |\n| --- |\n| 4 |",
        "links": [{"url": "https://example.org/wiki/x", "text": "X"}],
        "fetched_at": NOW,
    }


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>secret</script>",
        "<style>secret</style>",
        "<nav>secret</nav>",
        "<p hidden>secret</p>",
        "<p aria-hidden='true'>secret</p>",
        "<p style='color: red; DISPLAY : none'>secret</p>",
        "<p style='visibility:hidden'>secret</p>",
        "<template>secret</template>",
        "<!-- secret -->",
        "<nav hidden><form hidden style='display: none'><script hidden>secret</script></form></nav>",
    ],
)
def test_what_is_not_shown_is_left_out(hidden: str) -> None:
    assert read(f"<main><p>shown</p>{hidden}</main>").text == "shown"


def test_a_page_that_a_script_would_show_is_read() -> None:
    assert read("<html hidden style='display:none'><body style='visibility:hidden'>x").text == "x"


def test_links_lead_to_pages_and_each_stands_once() -> None:
    page = read(
        "<main><a href='x'>X</a> <a href='./x#part'>again</a> <a href='javascript:alert(1)'>J</a>"
        "<a href='mailto:a@example.org'>M</a> <a href='http://['>B</a> <a href='//b.example/'>Y</a></main>"
    )

    assert [(link.url, link.text) for link in page.links] == [
        ("https://example.org/wiki/x", "X"),
        ("https://b.example/", "Y"),
    ]


def test_of_several_articles_the_longest_is_the_main_part() -> None:
    assert (
        read("<article>short</article><article>the longer one</article>").text == "the longer one"
    )


def test_a_page_without_a_main_element_is_its_text_without_its_menus() -> None:
    sentence = "The gate was built in the year four hundred by the smiths of the northern town. "
    page = read(
        f"<body><div class='menu'><a href='/'>Home</a></div><div><h2>Gate</h2><p>{sentence * 5}</p>"
        f"<p>{sentence * 5}</p></div></body>"
    )

    assert sentence.strip() in page.text
    assert "Home" not in page.text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            "<h1>Crew</h1><table><tr><th>Name</th><th>Role</th></tr><tr><td>Ann</td><td>Cook</td></tr></table>",
            "# Crew\n\n| Name | Role |\n| --- | --- |\n| Ann | Cook |",
        ),
        (
            "<h1>Gull</h1><dl><dt>Built</dt><dd>1904</dd></dl>",
            "# Gull\n\nBuilt\n:   1904",
        ),
    ],
    ids=["a table", "definitions"],
)
def test_a_short_page_without_a_main_element_keeps_its_tables(content: str, text: str) -> None:
    assert read(f"<html><body>{content}</body></html>").text == text


def test_a_short_page_without_a_main_element_is_its_body() -> None:
    assert read("<p>Closed <i>today</i></p>").text == "Closed *today*"


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        pytest.param("<main>Zoë</main>".encode(), "text/html", id="nothing is said"),
        pytest.param(
            "<main>Zoë</main>".encode("latin-1"), "text/html; charset=ISO-8859-1", id="header"
        ),
        pytest.param(
            "<meta charset='windows-1252'><main>Zoë</main>".encode("cp1252"), "text/html", id="meta"
        ),
        pytest.param(
            "<meta http-equiv=content-type content='text/html; charset=iso-8859-15'><main>Zoë</main>".encode(
                "iso8859-15"
            ),
            "text/html",
            id="older meta",
        ),
        pytest.param(
            "\ufeff<main>Zoë</main>".encode("utf-16-le"), "text/html; charset=x", id="mark"
        ),
        pytest.param(
            "<main>Zoë</main>".encode(), "text/html; charset=unicode_escape", id="no encoding"
        ),
        pytest.param("<main>Zoë</main>".encode("cp1252"), "text/html", id="nothing, in Windows"),
    ],
)
def test_the_encoding_is_found(content: bytes, content_type: str) -> None:
    assert read(content, content_type).text == "Zoë"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("<p class=lead>Князь Ярослав, Я</p>", "cp1251"),
        ("<p>Ёлка и Zoë</p>", "utf-8"),
        ("<p>Größe: ÄÖÜ, déjà vu, Æsir, Zoë, señor</p>", "cp1252"),
        ("<p>Ææþðu and Éáóû of Þórðr met Ðûþ</p>", "cp1252"),
        ("<p>Львов, Ёлка, дуб и Rome</p>", "cp1251"),
        ("<p>Привіт, Київ</p>", "cp1251"),
        ("<p>Ґрунт, Львів, Wi-Fi, їжак</p>", "cp1251"),
        ("<p>¿Él? ¡Ñandú! 5 m² à l'été, 3 m³ ªº</p>", "cp1252"),
        ("<p>¿¿¿ Qué pasa ??? ²³¹</p>", "cp1252"),
    ],
)
def test_words_beyond_ascii_tell_cyrillic(text: str, encoding: str) -> None:
    assert read(text.encode(encoding)).text == text.partition(">")[2].removesuffix("</p>")


def test_bytes_that_do_not_fit_are_replaced() -> None:
    assert read(b"<main>a\xffb</main>").text == "a\ufffdb"
    assert read("<main>Zoë a".encode() + b"\xeb b</main>").text == "Zoë a\ufffd b"
    assert read("<main>Zoë</main>".encode("cp1252"), "text/html; charset=utf-8").text == "Zo\ufffd"


@pytest.mark.parametrize(
    "hidden",
    [
        "<p hidden>secret</p>",
        "<p style='display: none'>secret</p>",
        "<p aria-hidden=true>secret</p>",
        "<template><p>secret</p></template>",
    ],
)
def test_hidden_text_is_left_out_of_a_page_without_a_main_part(hidden: str) -> None:
    words = "<p>The gate of the old town was built of oak and iron in the year of the flood.</p>"

    text = read(
        f"<body><div>{words}{hidden.replace('secret', 'secret ' * 30)}{words}</div></body>"
    ).text

    assert "oak and iron" in text
    assert "secret" not in text


def test_a_form_around_the_whole_page_is_kept_without_its_fields() -> None:
    form = "<form>{}<input value=secret><select><option>secret</select><textarea>secret</textarea></form>"

    page = read(f"<body>{form.format('<main><p>Gate to <a href=/x>X</a></p></main>')}</body>")

    assert (page.text, len(page.links)) == ("Gate to [X](https://example.org/x)", 1)
    assert read(f"<body><main>Gate{form.format('secret')}</main></body>").text == "Gate"


@pytest.mark.parametrize(
    ("base", "target"),
    [
        ("https://cdn.example.org/docs/", "https://cdn.example.org/docs/x"),
        ("/docs/", "https://example.org/docs/x"),
        ("//[", "https://example.org/wiki/x"),
    ],
)
def test_links_are_relative_to_the_base_of_the_page(base: str, target: str) -> None:
    page = read(f"<head><base href='{base}'></head><body><main><a href=x>X</a></main></body>")

    assert [link.url for link in page.links] == [target]


def test_a_deeply_nested_page_keeps_its_text() -> None:
    assert read("<main>" + "<div>" * 2000 + "deep" + "</div>" * 2000 + "</main>").text == "deep"


def test_plain_text_is_taken_as_it_is() -> None:
    page = anyio.run(read_answer, answer("# A\n\n<b>", "text/plain; charset=utf-8"))

    assert (page.title, page.text, page.links) == ("", "# A\n\n<b>", [])


def test_waiting_for_a_process_does_not_count_as_parsing() -> None:
    async def read_when_others_have_ended() -> str:
        await read_answer(answer("<main>a</main>"))  # starts a process
        processes = anyio.to_process.current_default_process_limiter()
        others = [object() for _ in range(int(processes.total_tokens))]
        pages: list[Page] = []

        async def read_it() -> None:
            pages.append(await read_answer(answer("<main>b</main>"), seconds=1.0))

        for other in others:
            processes.acquire_on_behalf_of_nowait(other)
        async with anyio.create_task_group() as group:
            group.start_soon(read_it)
            await anyio.sleep(1.1)
            for other in others:
                processes.release_on_behalf_of(other)
        return pages[0].text

    assert anyio.run(read_when_others_have_ended) == "b"


def test_a_page_that_takes_long_to_parse_is_given_up() -> None:
    hostile = "".join(f"<b a={number}><p>" for number in range(20_000))

    async def give_up() -> None:
        assert (await read_answer(answer("<main>a</main>"))).text == "a"
        await read_answer(answer(hostile), seconds=0.2)

    with pytest.raises(ToolError, match=r"cannot be parsed within 0\.2 s"):
        anyio.run(give_up)
