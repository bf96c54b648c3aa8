"""The encodings of pages, of the web and of a folder."""

from __future__ import annotations

import codecs
import re
from typing import Final

_META_CHARSET: Final = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w-]{1,40})", re.IGNORECASE
)
_BYTE_ORDER_MARKS: Final = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_PAGE_ENCODINGS: Final = re.compile(
    r"utf-(8|16)(-[bl]e)?|iso8859-\d+|cp\d+|koi8-[ru]|shift_jis|euc_(jp|kr)|iso2022_jp|gb18030|gbk|gb2312|big5|mac-.*"
)
"""By Python's names; it has others (`punycode`, `unicode_escape`) that are no encodings of pages.
"""
_CYRILLIC_LETTERS: Final = rb"\xa1\xa2\xa5\xa8\xaa\xaf\xb2-\xb4\xb8\xba\xbf-\xff"
"""Bytes of letters in Windows-1251; those before 0xC0 are Ёё and the ones of Ukrainian and Belarusian,
where a Western text has signs.
"""
_CYRILLIC_LETTER: Final = re.compile(rb"[%b]" % _CYRILLIC_LETTERS)
_CYRILLIC_WORD: Final = re.compile(
    rb"(?<![A-Za-z%b])(?=[%b]*[\xc0-\xff])[%b]{3,}(?![A-Za-z%b])" % ((_CYRILLIC_LETTERS,) * 4)
)
"""Latin letters with accents stand among others, also in invented names; signs alone, as `¿¿¿`, are
no word.
"""
_CYRILLIC_VOWELS: Final = frozenset("АЕИІЇЄОаеиіїєо".encode("cp1251"))
"""Of the letters of a Cyrillic text a third, and few of those with accents in a Latin one."""
_WEB_MEANING: Final = {"ascii": "cp1252", "iso8859-1": "cp1252"}


def decode_page(content: bytes, charset: str = "") -> str:
    """Return the text of a page, decoded by its byte order mark, by the charset that its server
    names or by its `meta` element, else as `decode_unlabelled` does.
    """
    in_page = _META_CHARSET.search(content[:2048])
    label = charset or ("" if in_page is None else in_page[1].decode("ascii"))
    known = _known_encoding(label)
    if known is None or content.startswith(tuple(_BYTE_ORDER_MARKS)):
        return decode_unlabelled(content)
    return content.decode(known, "replace")


def decode_unlabelled(content: bytes) -> str:
    """Return a text whose encoding nothing but its byte order mark names: else it is UTF-8, or
    Windows-1252 where most of what is beyond ASCII is no UTF-8; Windows-1251 where whole words are.

    A text in UTF-8 that is cut or has a broken byte stays one, and so do bytes of no text.
    """
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if content.startswith(mark):
            return content.decode(encoding, "replace")
    text = content.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    sound = sum(letter > "\x7f" for letter in text) - broken
    letters = b"".join(_CYRILLIC_WORD.findall(content))
    is_most = 2 * len(letters) > len(_CYRILLIC_LETTER.findall(content))
    vowels = sum(letter in _CYRILLIC_VOWELS for letter in letters)
    is_cyrillic = is_most and 10 * vowels >= len(letters)
    # Words of Latin letters have neither of these bytes, pictures and other data have both.
    is_data = b"\x00" in content or (b"\xff" in content and not is_cyrillic)
    if broken <= sound or is_data:
        return text
    return content.decode("cp1251" if is_cyrillic else "cp1252", "replace")


def _known_encoding(label: str) -> str | None:
    try:
        name = codecs.lookup(label).name
    except LookupError:
        return None
    return (
        _WEB_MEANING.get(name, name) if _PAGE_ENCODINGS.fullmatch(name) or name == "ascii" else None
    )
