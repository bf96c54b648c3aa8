r"""Patterns of secrets that no setting names.

A *shape* is a pattern of a secret together with the words around it that give it away: a header's
name, an address that holds a password, a key's prefix. Only the secret is replaced, never what
tells the reader where it stood. Every shape either matches or gives up within a bounded distance of
where it began, so that no text makes it slow, and what it puts in place is what it would put there
a second time.

The prefixes of keys are those their issuers publish, as https://github.com/Yelp/detect-secrets
collects them.
"""

from __future__ import annotations

import base64
import json
import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

REDACTED = "[redacted]"
# Not by the module `html`, whose two thousand names take long to load.
NAMED_IN_HTML: Final = {"amp": "&", "apos": "'", "gt": ">", "lt": "<", "quot": '"'}


_REDACTED_PATTERN = r"\[redacted\]"
_KEY_NAME = r"(?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?"
_HAS_DIGIT = r"(?=[A-Za-z._~+/=-]{0,200}[0-9])"
"""Requires a digit, where the rest could be words with hyphens (`sk-learn-compatible`)."""
_HAS_NO_WORDS = r"(?=[A-Za-z._~+/=-]{0,200}(?:[0-9]|[a-z._~+/=-][A-Z]|[A-Z]{2}[a-z._~+/=-]))"
"""As above; letters in both cases count as no word, too."""
_END_OF_TEXT = r"\Z"
_UNQUOTING = r"\\++(?![\"'])"
"""Backslashes that are not of a quote, which ends a secret in JSON that is nested in JSON text."""


@dataclass(frozen=True)
class _SecretPattern:
    clues: tuple[str, ...]
    """One of them is in every text that the pattern matches, with its letters in lower case: a
    search for it costs a hundredth of the pattern's.
    """
    expression: str
    """What its group `kept` matches stays; the rest is the secret. What stands in its place has the
    quotes around it that a group `around` matches.
    """
    accepts: Callable[[str], bool] | None = None
    """Whether a match is a secret, where the pattern alone cannot tell."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The expression, compiled when a text first contains a clue, which in most programs is
        never.
        """
        return re.compile(self.expression)

    def replace(self, text: str) -> str:
        """Return the text with secrets of this shape redacted."""
        return self.pattern.sub(self._mark, text)

    def _mark(self, match: re.Match[str]) -> str:
        kept = match["kept"]
        if self.accepts is not None and not self.accepts(match[0][len(kept) :]):
            return match[0]
        around = match.groupdict().get("around") or ""
        return kept + around + REDACTED + around


def _secret_pattern(
    clues: str, pattern: str, accepts: Callable[[str], bool] | None = None
) -> _SecretPattern:
    return _SecretPattern(tuple(clues.split(" ")), pattern, accepts)


def _is_login(text: str) -> bool:
    """Whether a text is `user:password` in base64, or as random as that would be."""
    try:
        login = base64.b64decode(
            text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), b"-_"
        ).decode()
    except ValueError:
        login = ""
    is_random = len(text) >= _MIN_RANDOM_LENGTH and all(
        re.search(kind, text) for kind in ("[a-z]", "[A-Z]", "[0-9]")
    )
    return text.endswith("=") or is_random or (":" in login and login.isprintable())


_MIN_RANDOM_LENGTH = 20
"""Length from which a word of letters in both cases and digits is not considered a name."""


_QUOTE = r"(?P<quote>\\{0,8}[\"'])"
_CONTENT = (
    rf"(?=(?P<content>(?:[^\\\"'\n]++|(?!(?P=quote))(?:\\++[\"']?|[\"']))+))(?P=content)"
    rf"(?=(?P=quote)|{_END_OF_TEXT})"
)
"""Matches up to the same quotation mark with the same escapes, in JSON that may be nested in JSON
text.
"""

_INPUT = (
    r"(?P<around>\\{0,8}['\"])loc(?P=around)\s{0,9}:\s{0,9}[(\[](?:[^)\]]{0,200}+[)\]]){1,4}?,\s{0,99}"
    r"(?P=around)msg(?P=around)\s{0,9}:\s{0,9}(?P<said>\\{0,8}['\"])[^\n]{0,1000}?(?P=said),\s{0,99}"
    r"(?P=around)input(?P=around)\s{0,9}:\s{0,9}"
)
"""The fields of an error of pydantic up to its invalid value."""

_COOKIE_ATTRIBUTES = ("path", "domain", "expires", "max-age", "httponly", "secure", "samesite")

_SECRET_PATTERNS = (
    # Cut off, it goes as far as it is base64, with line ends that may be escaped.
    _secret_pattern(
        "-----begin",
        rf"-----BEGIN {_KEY_NAME}-----"
        rf"(?:[^-]*+(?:-(?!----)[^-]*+)*-----END {_KEY_NAME}-----"
        rf"|(?:[A-Za-z0-9+/=\s]++|{_UNQUOTING}|{_REDACTED_PATTERN})*)(?P<kept>)",
    ),
    # The end of one whose beginning is elsewhere.
    _secret_pattern(
        "-----end",
        rf"(?<![A-Za-z0-9+/=\\\r\n])[A-Za-z0-9+/=\\\r\n]{{4,}}+-----END {_KEY_NAME}-----(?P<kept>)",
    ),
    # How pydantic quotes an invalid value: at most 52 characters, which may be of several lines or
    # hold what follows a value. Escapes take a few more, and others may quote longer ones.
    _secret_pattern(
        "input_value=",
        r"(?P<kept>input_value=)(?!\[redacted\](?:,|\s|\Z))"
        r"(?:[\s\S]{1,70}(?=, input_type=)|[^\n]{1,1000}?(?=, input_type=)|[^\n]+)",
    ),
    # The same in the list of its errors, as Python or JSON: in JSON that stays, it becomes a text.
    _secret_pattern(
        "input' input\" input\\",
        rf"(?P<kept>{_INPUT})(?:{_QUOTE}{_CONTENT}(?:(?P=quote)|{_END_OF_TEXT})"
        r"|[\w.+-]{1,400}(?=\s{0,99}[,}])"
        r"|[\s\S]{1,1000}?(?=\s{0,99},\s{0,99}(?P=around)(?:ctx|url)(?P=around)\s{0,9}:)"
        r"|[\s\S]{1,1000}(?=\})|[^\n]+)",
    ),
    _secret_pattern(
        "cookie",
        r"(?i)(?P<kept>(?<![a-z0-9])(?:set-)?cookie2?(?:\\{0,8}['\"])?\s{0,4}:\s{0,4}b?(?:\\{0,8}['\"])?)"
        r"(?=[\w.-]{1,64}=)"
        rf"(?:[^\n'\"\\]++|{_UNQUOTING})+",
    ),
    _SecretPattern(
        tuple(f";{space}{name}" for name in _COOKIE_ATTRIBUTES for space in ("", " ", "  ")),
        r"(?P<kept>(?<![A-Za-z0-9_])[A-Za-z0-9_.-]{1,64}+=)[^\s;,=\[\]\"']{4,4096}+"
        rf"(?=; {{0,2}}(?i:{'|'.join(_COOKIE_ATTRIBUTES)})\b)",
    ),
    _secret_pattern(
        "session= sessionid= session_id= sid= sessid=",
        r"(?i)(?P<kept>(?<![a-z0-9])(?:j?sessionid|session_id|session|sid|phpsessid)=)[^\s\"'\\,;&<>(){}\[\]]{8,}+",
    ),
    # With one slash, too, as in an address normalised like a path. `USER:PASSWORD@` is a
    # placeholder.
    _secret_pattern(
        ":/",
        r"(?P<kept>:/{1,2}[^\s/@:?#'\"<>\\]{0,200}:)(?!PASSWORD@)[^\s/?#'\"<>\\]{1,400}(?=@)",
    ),
    # A broker or a database is not reached by a path with an `@` in it: the password may hold
    # anything.
    _secret_pattern(
        "://",
        r"(?P<kept>(?<![a-z])(?:amqps?|mongodb(?:\+srv)?|mysql|postgres(?:ql)?|rediss?)(?:\+[a-z]{1,20})?://"
        r"[^\s/@:?#'\"<>\\]{0,200}:)(?!PASSWORD@)[^\s'\"<>\\]{1,400}(?=@)",
    ),
    _secret_pattern(
        "auth=(",
        r"(?P<kept>auth=\(\\{0,8}['\"][^'\"\n]{0,64}['\"], {0,2}\\{0,8}['\"])(?:[^'\"\\\n]|\\(?!\\{0,8}['\"])){1,400}",
    ),
    _secret_pattern(
        "-u --user",
        r"(?P<kept>(?<!\S)(?:-u|--user)[ =]{1,2}(?:\\{0,8}['\"])?[\w.@-]{1,64}:)"
        r"(?![0-9]{1,20}(?:[\s'\"\\]|\Z))"
        r"(?:[^\s'\"\\]|\\(?!\\{0,8}[\"'])){4,400}",
    ),
    _secret_pattern(
        "--",
        r"(?P<kept>(?<!\S)--(?:[a-z]{1,20}-){0,3}(?:api-?key|key|passphrase|password|secret|token)\s{1,2}(?:\\{0,8}['\"])?)"
        rf"{_HAS_NO_WORDS}[A-Za-z0-9._~+/=-]{{8,}}+",
    ),
    _secret_pattern(
        "pass secret token",
        r"(?P<kept>(?<![A-Za-z])(?i:password|passphrase|secret|token) (?:is|was) (?:\\{0,8}['\"])?)"
        r"(?=[0-9]{0,200}[A-Za-z])(?=[A-Za-z]{0,200}[0-9])[A-Za-z0-9._~+/=-]{8,}+",
    ),
    _secret_pattern("pwd=", r"(?i)(?P<kept>;\s{0,2}pwd=)[^;\s\"'\\]++"),
    _secret_pattern("://", rf"(?P<kept>://){_HAS_DIGIT}[A-Za-z0-9_-]{{20,200}}+(?=@)"),
    _secret_pattern(
        "key= code= sig= signature= auth=",
        r"(?P<kept>[?&](?i:key|code|sig|signature|auth|x-amz-signature)=)[^\s\"'&<>\[\]\\]{8,}+",
    ),
    _secret_pattern(
        "sk- sk_", rf"sk[-_](?<![A-Za-z0-9]sk.){_HAS_DIGIT}[A-Za-z0-9_-]{{16,}}+(?P<kept>)"
    ),
    _secret_pattern(
        "pk- pk_ rk- rk_", rf"(?<![A-Za-z0-9])[pr]k[-_]{_HAS_DIGIT}[A-Za-z0-9_-]{{16,}}+(?P<kept>)"
    ),
    _secret_pattern("aiza", r"AIza(?<![A-Za-z0-9]AIza)[A-Za-z0-9_-]{30,}+(?P<kept>)"),
    _secret_pattern(
        "ghp_ gho_ ghu_ ghs_ ghr_", r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{30,}+(?P<kept>)"
    ),
    _secret_pattern("github_pat_", r"(?<![A-Za-z0-9])github_pat_[A-Za-z0-9_]{30,}+(?P<kept>)"),
    _secret_pattern("glpat-", r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{16,}+(?P<kept>)"),
    _secret_pattern("xox", r"xox[abeoprs]-(?<![A-Za-z0-9]xox.-)[A-Za-z0-9-]{12,}+(?P<kept>)"),
    _secret_pattern(
        "gsk_ hf_ r8_ npm_ pplx- xai-",
        rf"(?<![A-Za-z0-9])(?:gsk_|hf_|r8_|npm_|pplx-|xai-){_HAS_DIGIT}[A-Za-z0-9]{{24,}}+(?P<kept>)",
    ),
    _secret_pattern(
        "sg.", r"(?<![A-Za-z0-9])SG\.[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+(?P<kept>)"
    ),
    _secret_pattern(
        "pypi- dop_v1_ doo_v1_ shpat_ shpca_ shpss_ whsec_ sq0atp- sq0csp- atatt age-secret-key-",
        r"(?<![A-Za-z0-9])(?:pypi-|do[op]_v1_|shp(?:at|ca|ss)_|whsec_|sq0(?:atp|csp)-|ATATT|AGE-SECRET-KEY-)"
        rf"{_HAS_DIGIT}[A-Za-z0-9_=-]{{16,}}+(?P<kept>)",
    ),
    # Addresses that messages are posted to: who has one may post.
    _secret_pattern(
        "hooks.slack", r"(?P<kept>(?i:hooks\.slack(?:-gov)?\.com)/[a-z]+/)[A-Za-z0-9/]{16,}+"
    ),
    _secret_pattern(
        "/webhooks/",
        r"(?P<kept>(?i:discord(?:app)?\.com)/api/(?:v[0-9]{1,2}/)?webhooks/[0-9]{15,20}/)[A-Za-z0-9_-]{20,}+",
    ),
    _secret_pattern(
        "office.com/webhook office365.com/webhook",
        r"(?P<kept>(?i:(?:outlook|webhook)\.office(?:365)?\.com)/webhook(?:b2)?/)[A-Za-z0-9@/-]{16,}+",
    ),
    _secret_pattern(":aa", r"(?P<kept>(?<![0-9])[0-9]{8,10}:)AA[A-Za-z0-9_-]{30,}+"),
    _secret_pattern("ya29.", r"(?<![A-Za-z0-9])ya29\.[A-Za-z0-9_-]{20,}+(?P<kept>)"),
    # The id of an access key of AWS, and the secret half where it follows.
    _secret_pattern(
        "akia asia",
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{11,}+"
        r"(?:[\s:,;|'\"/=]{1,8}+[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+]))?(?P<kept>)",
    ),
    _secret_pattern(
        "eyj",
        r"eyJ(?<![A-Za-z0-9_-]eyJ)[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+)?(?P<kept>)",
    ),
    _secret_pattern(
        "bearer",
        rf"(?P<kept>(?<![A-Za-z0-9])(?i:bearer)\s{{1,4}}){_HAS_NO_WORDS}[A-Za-z0-9._~+/=-]{{8,}}+",
    ),
    _secret_pattern(
        "basic", r"(?P<kept>(?<![A-Za-z0-9])(?i:basic)\s{1,4})[A-Za-z0-9+/_-]{8,}+={0,2}", _is_login
    ),
)

_OWNER_WORDS = (
    "access|admin|api|auth|bearer|bot|client|csrf|deploy|gh|github|gitlab|hf|id|jwt|login|oauth|personal|private"
    "|refresh|secret|security|service|session|slack|user|vault|xsrf"
)
SENSITIVE_NAME = re.compile(
    r"(?:(?i:password|passwd|passphrase|secret|credentials?"
    r"|(?:access|account|api|encryption|private|secret|shared|signing|subscription)[_-]?key"
    rf"|(?:{_OWNER_WORDS})[_-]?token|(?<![a-z0-9_-])token|authorization|x-amz-credential)"
    rf"|(?<=_)TOKEN){_END_OF_TEXT}"
)
"""Matches names whose value is a secret, or the ends of such names."""
_MAX_NAME_LENGTH = 20
_NAME_ENDS = (
    *("password", "passwd", "passphrase", "secret", "credential", "credentials"),
    *("key", "token", "authorization"),
)

_SCHEME = r"(?i:bearer|basic|token|digest|negotiate|apikey|aws4-hmac-sha256)"
_NOT_PLACEHOLDER = (
    r"(?!(?i:none|null|nil|true|false|undefined|str|string|required|optional)\b|\$|%s|\*{3})"
)
"""Placeholders of values: `${KEY}`, `***`, a type."""
_BARE_CHARACTER = r"[^\s\"'\\,;&<>(){}\[\]]"
_BARE = rf"(?:{_BARE_CHARACTER}++|{_REDACTED_PATTERN})+"
_BARE_UNIT = rf"(?:{_BARE_CHARACTER}|{_REDACTED_PATTERN})"
_ASSIGNED = r"\\{0,8}[\"']?[ \t]{0,4}(?:=>|[:=])[ \t]{0,4}"
_VALUES = (
    re.compile(rf"(?P<kept>{_ASSIGNED}b?{_QUOTE}){_NOT_PLACEHOLDER}{_CONTENT}"),
    # `name=value` without a space, as in queries, environments and connection strings.
    re.compile(rf"(?P<kept>=(?:{_SCHEME}(?:\s|%20|\+))?){_NOT_PLACEHOLDER}{_BARE}"),
    # `Authorization: Basic value`
    re.compile(rf"(?P<kept>{_ASSIGNED}{_SCHEME}\s{{1,4}})(?={_BARE_UNIT}{{4}}){_BARE}"),
    # `name: value` may be prose: the value needs a digit, or what no word has. After a quoted name
    # it may be a number of JSON.
    re.compile(
        rf"(?P<kept>(?P<around>\\{{0,8}}[\"'])?{_ASSIGNED})(?=[^\s\"',;]{{0,200}}(?:[0-9]|[A-Z]{{2}}[.-][A-Za-z]))"
        rf"{_NOT_PLACEHOLDER}(?={_BARE_UNIT}{{6}}){_BARE}"
    ),
    # `('x-api-key', 'value')`, as headers are often kept.
    re.compile(rf"(?P<kept>(?<=[a-z])['\"],\s{{0,4}}b?{_QUOTE}){_CONTENT}(?=(?P=quote)\))"),
)
"""Patterns of what may follow the name of a secret; the first that matches is used."""


def redact_patterns(text: str) -> str:
    """Return a text with everything that looks like a secret replaced by `[redacted]`."""
    lower = _lower(text)
    for shape in _SECRET_PATTERNS if _has_clue(lower) else ():
        if any(clue in lower for clue in shape.clues):
            replaced = shape.replace(text)
            if replaced != text:
                text, lower = replaced, _lower(replaced)
    return _replace_named(text, lower)


def may_match(text: str) -> bool:
    """Whether a text may hold what looks like a secret: a fast check before `redact_patterns`."""
    lower = _lower(text)
    return _has_clue(lower) or bool(_ends_of_names(lower))


def _has_clue(lower: str) -> bool:
    """Return whether a text may hold a secret of any shape: hardly a text does, and each is asked."""
    for clue in _CLUES:  # noqa: SIM110 - a generator takes four times as long
        if clue in lower:
            return True
    return False


_CLUES = tuple(dict.fromkeys(clue for shape in _SECRET_PATTERNS for clue in shape.clues))


def _lower(text: str) -> str:
    lower = text.lower()
    # A Turkish letter becomes two in lower case; positions in both texts would differ.
    return lower if len(lower) == len(text) else text.replace("\u0130", "i").lower()


def _replace_named(text: str, lower: str) -> str:
    """Replace the values of members, variables and headers whose name says that they are secret."""
    pieces: list[str] = []
    done = 0
    closing_quotes: list[int] | None = None
    for end in _ends_of_names(lower):
        if end < done or not SENSITIVE_NAME.search(text, max(0, end - _MAX_NAME_LENGTH), end):
            continue
        match = _value_after(text, end, len(text))
        if match is not None:
            if closing_quotes is None:
                closing_quotes = _closing_quotes_of_json(text)
            match = _within_string(match, closing_quotes)
        if match is not None:
            around = match.groupdict().get("around") or ""
            pieces += [text[done : match.end("kept")], around + REDACTED + around]
            done = match.end()
    return "".join(pieces) + text[done:] if pieces else text


def _value_after(text: str, end_of_name: int, limit: int) -> re.Match[str] | None:
    """Return a secret before a limit that follows the end of its name."""
    for value in _VALUES:
        if match := value.match(text, end_of_name, limit):
            return match
    return None


def _within_string(match: re.Match[str], closing_quotes: list[int]) -> re.Match[str] | None:
    """Return what a value is within the string of JSON that its name stands in, or within the next one
    where its name is a string itself.

    Read on, the quote behind `"token="` would be the first one of a value.
    """
    place = bisect_right(closing_quotes, match.pos)
    limit = closing_quotes[place] if place < len(closing_quotes) else match.endpos
    return match if match.end() <= limit else _value_after(match.string, match.pos, limit)


def _closing_quotes_of_json(text: str) -> list[int]:
    """Return where the strings of a text that is JSON end; of another text none."""
    if not is_json(text):
        return []
    return [string.end() - 1 for string in _JSON_STRING.finditer(text)]


def is_json(text: str) -> bool:
    """Whether a text is a list, an object or a string of JSON."""
    if not _JSON_BEGINS.match(text):
        return False
    try:
        # As it reads once its escapes are undone, it has line ends in its strings.
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return False
    return True


_JSON_BEGINS = re.compile(r"\s*[\[{\"]")
_JSON_STRING = re.compile(r'"(?:[^"\\]++|\\.)*"', re.DOTALL)


def _ends_of_names(lower: str) -> list[int]:
    ends: set[int] = set()
    for name in _NAME_ENDS:
        end = lower.find(name)
        while end >= 0:
            end += len(name)
            # A space may separate a name from its value; a letter may not.
            if lower[end : end + 1] in _AFTER_NAMES:
                ends.add(end)
            end = lower.find(name, end)
    return sorted(ends)


_AFTER_NAMES = frozenset("\\\"' \t:=")


class PrivateKeyLines:
    """Redacts private keys that span consecutive texts, such as printed lines.

    A text that ends within a key opens it; lines that look like its content are removed until its
    end marker, or until more lines than a key has. A key within one text is left to
    `redact_patterns`.
    """

    MARK: ClassVar = "-----BEGIN"
    """In every text that begins a key."""

    def __init__(self) -> None:
        self._lines_left = 0

    def redact(self, text: str) -> str:
        """Return the next text without the content of a key that an earlier text began."""
        if self._lines_left:
            text = self._without_rest(text)
        if self.MARK in text and _OPEN_KEY.search(text):
            self._lines_left = _MAX_KEY_LINES
        return text

    def _without_rest(self, text: str) -> str:
        end = _KEY_END.search(text)
        if end is None:
            self._lines_left = max(0, self._lines_left - text.count("\n") - 1)
            return _KEY_LINE.sub(REDACTED, text)
        self._lines_left = 0
        return _KEY_LINE.sub(REDACTED, text[: end.start()]) + REDACTED + text[end.end() :]


_MAX_KEY_LINES = 200
_OPEN_KEY = re.compile(
    rf"-----BEGIN {_KEY_NAME}-----[A-Za-z0-9+/=\r\n\\\"',\[\]]*+[ \t]*+{_END_OF_TEXT}"
)
_KEY_END = re.compile(rf"-----END {_KEY_NAME}-----")
_KEY_LINE = re.compile(
    # nothing but base64, in quotes and with escaped line ends as may be
    r"(?m)^[^A-Za-z0-9+/=\n]*+[A-Za-z0-9+/=]++(?:\\[rn]){0,2}[^A-Za-z0-9+/=\n]*+$"
    # or a long word of it behind others
    r"|(?<![A-Za-z0-9+/=])(?=[A-Za-z+/=]*+[0-9]|[A-Za-z]{0,40}?[a-z][A-Z])[A-Za-z0-9+/=]{12,}+"
)
