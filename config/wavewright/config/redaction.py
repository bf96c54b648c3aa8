"""Redaction of secrets from text before it is written, shown or sent.

A *secret* is a value that only its owner may see: a key, a password, a cookie. Known values (the
configured key, passwords in addresses) are replaced first, whatever their shape and however they
are escaped, then texts that look like secrets, each by `[redacted]`. Redaction is idempotent and
takes time linear in the length of the text; prose, ids and hashes are kept.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from wavewright.config.secret_patterns import (
    NAMED_IN_HTML,
    REDACTED,
    SENSITIVE_NAME,
    PrivateKeyLines,
    may_match,
    redact_patterns,
)

if TYPE_CHECKING:
    from wavewright.config.escapes import TextAsRead

_Json: TypeAlias = "bool | int | float | str | list[_Json] | dict[str, _Json] | None"

MIN_SUBSTRING_LENGTH = 8
"""A shorter known value is replaced only as a whole word: inside words it would be a coincidence.
"""
MIN_SECRET_LENGTH = 4
"""A shorter known value is not redacted: that would make text unreadable."""

_MIN_DIGITS = 6
"""A shorter number is not redacted, whatever its name: it is a count or a level."""

_MAX_CACHED_LENGTH = 200
"""Maximum characters of a text whose redaction is cached; of longer ones the last is."""
_CACHE_SIZE = 512

PLACEHOLDERS = frozenset(
    {
        "changeme",
        "dummy",
        "empty",
        "fake",
        "guest",
        "local",
        "no-key",
        "none",
        "not-needed",
        "null",
        "ollama",
    }
    | {"placeholder", "secret", "test", "token", "unused", "vllm"}
)
"""Placeholder keys for servers that need none (`ollama`, vLLM's `EMPTY`), which occur in any text.
"""


_KEY_BEGINS: Final = "-----BEGIN "
_KEY_ENDS: Final = "-----END "


class Redactor:
    """Redacts known secrets, and text that looks like a secret."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._values = sorted(
            {value.strip() for value in known}, key=lambda value: (-len(value), value)
        )
        self._forms = tuple(
            form for value in self._values if _is_secret(value) for form in _secret_forms(value)
        )
        # Statuses, log lines and outputs repeat the same names.
        self._redact_short = lru_cache(_CACHE_SIZE)(self._redact)
        # Whether an output has a secret is asked of it, of its fields, and before it is redacted.
        self._redact_long = lru_cache(1)(self._redact)
        self._is_suspect_short = lru_cache(_CACHE_SIZE)(self._is_suspect)

    def with_secrets(self, more: Iterable[str]) -> Redactor:
        """Return a redactor that also knows these values; this one if there are none."""
        values = set(more)
        return Redactor({*self._values, *values}) if values else self

    def redact(self, text: str) -> str:
        """Return a text with secrets redacted."""
        is_short = len(text) <= _MAX_CACHED_LENGTH
        return self._redact_short(text) if is_short else self._redact_long(text)

    def _redact(self, text: str) -> str:
        return _redact_unescaped(lambda written: redact_patterns(self._redact_known(written)), text)

    def redactable(self, text: str) -> int:
        """Return how many characters of a text, whose rest is to come, can be redacted by
        themselves: what follows may be the beginning of a secret of several lines.
        """
        end = len(text)
        begun = text.rfind(_KEY_BEGINS)
        if begun >= 0 and _KEY_ENDS not in text[begun:]:
            end = begun
        for value in self._values:
            first = value.partition("\n")[0].strip()
            if first and first != value and (begun := text.rfind(first)) >= 0:
                # Also where the whole of it is there, it is taken as one piece or not at all.
                is_whole = len(text) - begun >= 2 * len(value)
                end = end if is_whole else min(end, begun)
        return end

    def may_contain_secret(self, text: str) -> bool:
        """Whether a text may hold a known secret, however escaped: a fast check before the exact
        one.
        """
        if not self._forms:
            return False
        read = _as_read(text).text if _has_escape(text) else text
        return any(form.clue in text or form.clue in read for form in self._forms)

    def redact_known(self, text: str) -> str:
        """Return a text with known secrets redacted; text that only looks like one is kept."""
        return _redact_unescaped(self._redact_known, text) if self._forms else text

    def _redact_known(self, text: str) -> str:
        for form in self._forms:
            if form.clue in text:
                # Earlier replacements separate the pieces: no secret spans them.
                text = REDACTED.join(
                    form.pattern.sub(REDACTED, piece) for piece in text.split(REDACTED)
                )
        return text

    def redact_json(self, value: _Json, *, keep_numbers: bool = False) -> _Json:
        """Return a JSON value with secrets redacted: in texts, in names, and values with a secret's
        name.

        The lines of a private key may also be entries of a list. With `keep_numbers` every number
        is kept, so that a record keeps its types. A value, or a part of one, that has no secret is
        returned itself and not copied.
        """
        return value if self.is_plain(value) else self._json(value, None, keep_numbers=keep_numbers)

    def is_plain(self, value: _Json) -> bool:
        """Whether a JSON value surely has no secret, alone or as a part of another value; each text
        is read once.
        """
        # Not `set[str]()`, which takes ten times as long: every output comes here.
        names: set[str] = set()
        texts: set[str] = set()
        left = [value]
        while left:
            part = left.pop()
            if isinstance(part, str):
                texts.add(part)
            elif isinstance(part, list):
                left.extend(part)
            elif isinstance(part, dict):
                names.update(part)
                left.extend(part.values())
        if any(map(_is_sensitive_name, names)):
            return False
        texts |= names
        # One look at all of them spares the many that hold nothing.
        joined = "\n".join(texts)
        is_suspect = (
            self._is_suspect_short if len(joined) <= _MAX_CACHED_LENGTH else self._is_suspect
        )
        return not is_suspect(joined) or not any(
            PrivateKeyLines.MARK in text or self.redact(text) != text for text in texts
        )

    def _is_suspect(self, text: str) -> bool:
        return _has_escape(text) or self.may_contain_secret(text) or may_match(text)

    def _json(self, value: _Json, lines: PrivateKeyLines | None, *, keep_numbers: bool) -> _Json:
        if isinstance(value, str):
            text = self.redact(value if lines is None else lines.redact(value))
            return value if text == value else text
        if isinstance(value, list):
            lines = lines or PrivateKeyLines()
            items = [self._json(item, lines, keep_numbers=keep_numbers) for item in value]
            # Parts without a secret are the same objects, which are equal without being compared.
            return value if items == value else items
        if isinstance(value, dict):
            members = {
                self.redact(name): REDACTED
                if _is_sensitive_name(name)
                and _may_be_secret(name, item, keep_numbers=keep_numbers)
                else self._json(item, lines, keep_numbers=keep_numbers)
                for name, item in value.items()
            }
            return value if members == value else members
        return value


@lru_cache(_CACHE_SIZE)
def _is_sensitive_name(name: str) -> bool:
    return SENSITIVE_NAME.search(name) is not None


def _may_be_secret(name: str, value: _Json, *, keep_numbers: bool) -> bool:
    """Whether a value under a secret's name may be the secret."""
    match value:
        case str():
            # A token may be a natural-language word.
            is_word = name.lower() == "token" and len(value) < (24 if value.isalpha() else 8)
            return value != "" and not is_word
        case bool():
            return False
        case int() | float() if not keep_numbers:
            return len(str(value)) >= _MIN_DIGITS
        case _:
            return False


def named_secrets(value: _Json) -> Iterator[str]:
    """Yield the texts in a JSON value whose name says that they are secret, without references such
    as `${KEY}`.
    """
    match value:
        case dict():
            for name, item in value.items():
                if isinstance(item, str) and SENSITIVE_NAME.search(name):
                    if "${" not in item:
                        yield item
                else:
                    yield from named_secrets(item)
        case list():
            for item in value:
                yield from named_secrets(item)
        case _:
            return


class _HasSecrets(Protocol):
    @property
    def keys(self) -> tuple[str, ...]: ...

    @property
    def addresses(self) -> tuple[str, ...]: ...

    @property
    def secret_variables(self) -> frozenset[str]: ...


_SECRET_VARIABLE = re.compile(
    r"(?:^|_)(?:API_KEY|HMAC_KEY|SECRET_KEY|ACCESS_KEY|TOKEN|PASSWORD|SECRET)$"
)
"""Ends of the names by which providers' libraries read their keys: `OPENAI_API_KEY`, `HF_TOKEN` and
so on.
"""
_OTHER_VARIABLES = frozenset({"AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID"})
_HEADERS_VARIABLE = re.compile(r"^OTEL_EXPORTER_OTLP_(?:[A-Z]+_)?HEADERS$")
_ADDRESS_VARIABLE = re.compile(r"^WAVEWRIGHT_(?:.*_)?URL$")


def known_secrets(settings: _HasSecrets | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets that the settings and the environment hold, in a stable order.

    Those are the configured keys, the keys in the variables of providers (`OPENAI_API_KEY`,
    `HF_TOKEN`, …), the variables that MCP servers are given, the passwords in the addresses of
    models, broker and journal and in every `WAVEWRIGHT_…_URL`, and what is sent to the collector of
    traces as headers.
    """
    secrets: list[str] = []
    if settings is not None:
        secrets += settings.keys
        secrets += (environment.get(name, "") for name in settings.secret_variables)
        for address in settings.addresses:
            secrets += _passwords(address)
    for name in environment:
        if (secrets_of := _reader_of(name)) is not None:
            secrets += secrets_of(environment[name])
    return tuple(sorted({value.strip() for value in secrets if value.strip()}))


def known_secrets_redactor(settings: _HasSecrets | None) -> Redactor:
    """Return a redactor of the secrets that the settings and this process's environment hold.

    >>> from wavewright.config import known_secrets_redactor
    >>> known_secrets_redactor(None).redact("Authorization: Bearer 0123456789abcdef0123")
    'Authorization: Bearer [redacted]'
    """
    return redactor_of(known_secrets(settings, os.environ))


@lru_cache(maxsize=1024)
def _reader_of(variable: str) -> Callable[[str], Iterable[str]] | None:
    """Return what reads the secrets in the value of a variable; none where it holds none."""
    if _SECRET_VARIABLE.search(variable) or variable in _OTHER_VARIABLES:
        return lambda value: (value,)
    if _HEADERS_VARIABLE.search(variable):
        return _header_values
    if _ADDRESS_VARIABLE.search(variable) or variable == "WAVEWRIGHT_JOURNAL":
        return _passwords
    return None


@lru_cache(maxsize=4)
def redactor_of(known: tuple[str, ...]) -> Redactor:
    """Return a redactor of these secrets, the same one each time."""
    return Redactor(known)


def _header_values(headers: str) -> Iterator[str]:
    """Yield the values of `name=value,name=value`, as written and as sent, and logins without their
    scheme, too.
    """
    for header in headers.split(","):
        value = header.partition("=")[2].strip()
        for written in (value, unquote(value)):
            yield written
            yield written.replace("%20", " ").rpartition(" ")[2]


def _passwords(address: str) -> Iterator[str]:
    try:
        password = urlsplit(address).password
    except ValueError:  # no address: opening it raises the error
        return
    if password:
        yield unquote(password)


def _is_secret(value: str) -> bool:
    return (
        len(value) >= MIN_SECRET_LENGTH
        and value.lower() not in PLACEHOLDERS
        and value not in REDACTED
    )


@dataclass(frozen=True, slots=True)
class _SecretForm:
    """One way in which a known value may be written."""

    clue: str
    """What every text that holds it contains: looking for that first spares the pattern on nearly
    all texts.
    """
    pattern: re.Pattern[str]


def _secret_forms(value: str) -> Iterator[_SecretForm]:
    if len(value) < MIN_SUBSTRING_LENGTH:
        before = r"(?<![A-Za-z0-9])" if _is_plain(value[0]) else ""
        after = r"(?![A-Za-z0-9])" if _is_plain(value[-1]) else ""
        yield _SecretForm(_clue(value), re.compile(before + _spellings(value) + after))
        return
    for form in (value, *_in_base64(value)):
        yield _SecretForm(_clue(form), re.compile(_spellings(form)))


def _clue(value: str) -> str:
    # Letters and digits are written as themselves everywhere.
    return max(re.split(r"[^A-Za-z0-9]+", value), key=len)


def _spellings(value: str) -> str:
    """Return a pattern of a value as text, in JSON (also within JSON), in an address and in HTML,
    mixed as may be.
    """
    return "".join(_spellings_of(character) for character in value)


def _is_plain(character: str) -> bool:
    """Tell whether a character is written as itself everywhere."""
    return character.isascii() and character.isalnum()


def _spellings_of(character: str) -> str:
    if _is_plain(character):
        return character
    code = ord(character)
    units = (
        [code]
        if code < 0x10000
        else [0xD800 + (code - 0x10000 >> 10), 0xDC00 + (code - 0x10000 & 0x3FF)]
    )
    spellings = [
        # However often it was escaped: three levels are seven backslashes.
        r"\\{0,7}" + re.escape(character),
        "".join(rf"\\{{1,7}}u(?i:{unit:04x})" for unit in units),
        f"(?i:{re.escape(quote(character, safe='', errors='surrogatepass'))})",
        rf"&\#(?i:0*{code}|x0*{code:x});",
    ]
    if character in _CONTROLS:
        spellings.append(rf"\\{{1,7}}{_CONTROLS[character]}")
    if character in " +":
        # A form writes the one as the other, so what is one may be read as the other.
        spellings.append("[ +]")
    spellings += (f"&{name};" for name, named in NAMED_IN_HTML.items() if named == character)
    # As Python shows it.
    spellings.append(rf"\\{{1,7}}x{code:02x}" if code < 0x100 else rf"\\{{1,7}}U{code:08x}")
    return f"(?:{'|'.join(spellings)})"


def _redact_unescaped(redact: Callable[[str], str], text: str) -> str:
    """Redact a text as it reads once its escapes are undone, and as it is written: an escape can stand
    within a secret, and can be what a secret ends with.

    All that is kept stays as it was written.
    """
    if not _has_escape(text):
        return redact(text)
    for _ in range(_MOST_ROUNDS):
        before, text = text, redact(_redact_as_read(redact, text))
        if text == before:
            break
    return text


def _redact_as_read(redact: Callable[[str], str], text: str) -> str:
    """Redact what a text reads as, and return it with all that is kept as it was written."""
    read = _as_read(text)
    redacted = _redact_reading(redact, text, read)
    if redacted == text and read.apart is not None:
        return _redact_reading(redact, text, read.apart)
    return redacted


def _redact_reading(redact: Callable[[str], str], text: str, read: TextAsRead) -> str:
    redacted = read.text if read.text == text else redact(read.text)
    if redacted == read.text:
        return text
    written: list[str] = []
    end = 0
    for piece in redacted.split(REDACTED):
        for kept, before, after in _without_added_quotes(piece):
            begin = read.text.find(kept, end, end + len(kept) + _MAX_REDACTED)
            if begin >= 0:
                end = begin + len(kept)
                written.append(before + text[read.place(begin) : read.place(end)] + after)
                break
        else:
            written.append(piece)
        if read.text.startswith(REDACTED, end):
            end += len(REDACTED)
    return REDACTED.join(written)


def _without_added_quotes(piece: str) -> Iterator[tuple[str, str, str]]:
    """Yield a piece between two redactions, and what it is without the quotes that a redacted number
    before it or after it has been put into, each with those quotes.
    """
    first, last = _QUOTE_AT_START.search(piece), _QUOTE_AT_END.search(piece)
    begin = first.end() if first else 0
    end = last.start() if last else len(piece)
    for start, stop in ((0, len(piece)), (0, end), (begin, len(piece)), (begin, max(begin, end))):
        yield piece[start:stop], piece[:start], piece[stop:]


def _as_read(text: str) -> TextAsRead:
    # Imported here: few texts have escapes, and many runs redact none of them.
    from wavewright.config.escapes import unescaped

    return unescaped(text)


def _has_escape(text: str) -> bool:
    return "\\" in text or "%" in text or "&" in text


_QUOTE_AT_START = re.compile(r"\A\\{0,8}[\"']")
_QUOTE_AT_END = re.compile(r"\\{0,8}[\"']\Z")
_MOST_ROUNDS = 4
"""Times that a text is redacted, where what was redacted has brought more of it to light."""
_MAX_REDACTED = 20_000
"""Characters of what is redacted in one place, beyond which escapes that follow it are undone."""


_CONTROLS = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}


def _in_base64(value: str) -> Iterator[str]:
    """Yield what a value leaves in base64, wherever in the encoded text it begins.

    Base64 writes three bytes as four characters, so there are three ways to lie in it; the
    characters that are shared with a neighbour are left out.
    """
    raw = value.encode("utf-8", "surrogatepass")
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + raw).decode("ascii")
        first = (before * 8 + 5) // 6
        last = (before + len(raw)) * 8 // 6
        core = encoded[first:last]
        yield core
        if "+" in core or "/" in core:
            yield core.replace("+", "-").replace("/", "_")


VARIABLE_PATTERN: Final = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
"""A reference to a variable of the environment, in place of a secret."""


def is_literal_secret(name: str, value: str) -> bool:
    """Whether a value of this name is a secret itself, and no reference to a variable."""
    rest = VARIABLE_PATTERN.sub("", value)
    is_reference = rest != value
    named = not is_reference and any(named_secrets({name.lstrip("-"): rest}))
    return named or Redactor().redact(rest) != rest
