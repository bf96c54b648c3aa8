r"""What secrets look like when nobody has said which they are.

A *shape* is a pattern of a secret together with the words around it that give it away: a header's name, an address
that holds a password, a key's prefix. Only the secret is replaced, never what tells the reader where it stood. Every
shape either matches or gives up within a bounded distance of where it began, so that no text makes it slow, and what
it puts in place is what it would put there a second time.

The prefixes of keys are those their issuers publish, as https://github.com/Yelp/detect-secrets collects them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MARK = "[redacted]"

_MARK = r"\[redacted\]"
_KEY_NAME = r"(?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?"
_HAS_DIGIT = r"(?=[A-Za-z._~+/=-]{0,200}[0-9])"
"""Where the rest could be words with hyphens (`sk-learn-compatible`), a digit is asked for."""
_END_OF_TEXT = r"\Z"


@dataclass(frozen=True, slots=True)
class _Shape:
    clues: tuple[str, ...]
    """One of them is in every text that the pattern matches, with its letters in lower case: a search for it costs
    a hundredth of the pattern's."""
    pattern: re.Pattern[str]
    """What its group `kept` matches stays; the rest is the secret."""


def _shape(clues: str, pattern: str) -> _Shape:
    return _Shape(tuple(clues.split(" ")), re.compile(pattern))


_COOKIE_ATTRIBUTES = ("path", "domain", "expires", "max-age", "httponly", "secure", "samesite")

_SHAPES = (
    # Cut off, it goes as far as it is base64, with line ends that may be escaped.
    _shape(
        "-----begin",
        rf"-----BEGIN {_KEY_NAME}-----"
        rf"(?:[^-]*+(?:-(?!----)[^-]*+)*-----END {_KEY_NAME}-----"
        rf"|(?:[A-Za-z0-9+/=\s\\]++|{_MARK})*)(?P<kept>)",
    ),
    # The end of one whose beginning is elsewhere.
    _shape(
        "-----end",
        rf"(?<![A-Za-z0-9+/=\\\r\n])[A-Za-z0-9+/=\\\r\n]{{4,}}+-----END {_KEY_NAME}-----(?P<kept>)",
    ),
    # How pydantic quotes the value it refuses: some hundred characters of one line at most.
    _shape("input_value=", r"(?P<kept>input_value=)(?:[^\n]{1,1000}?(?=, input_type=)|[^\n]+)"),
    _shape(
        "cookie",
        r"(?i)(?P<kept>(?<![a-z0-9])(?:set-)?cookie2?['\"]?\s{0,4}:\s{0,4}b?['\"]?)(?=[\w.-]{1,64}=)[^\n'\"]+",
    ),
    _Shape(
        tuple(f";{space}{name}" for name in _COOKIE_ATTRIBUTES for space in ("", " ", "  ")),
        re.compile(
            r"(?P<kept>(?<![A-Za-z0-9_])[A-Za-z0-9_.-]{1,64}+=)[^\s;,=\[\]\"']{4,4096}+"
            rf"(?=; {{0,2}}(?i:{'|'.join(_COOKIE_ATTRIBUTES)})\b)"
        ),
    ),
    _shape(
        "session= sessionid= session_id= sid=",
        r"(?i)(?P<kept>(?<![a-z0-9])(?:sessionid|session_id|session|sid)=)[^\s\"'\\,;&<>(){}\[\]]{8,}+",
    ),
    # With one slash, too: that is left of an address which was taken for a path. `USER:PASSWORD@` is a form to fill in.
    _shape(
        ":/ :\\/",
        r"(?P<kept>:(?:\\?/){1,2}[^\s/@:?#'\"<>\\]{0,200}:)(?!PASSWORD@)[^\s/?#'\"<>\\]{1,400}(?=@)",
    ),
    _shape(":// :\\/\\/", rf"(?P<kept>:(?:\\?/){{2}}){_HAS_DIGIT}[A-Za-z0-9_-]{{20,200}}+(?=@)"),
    _shape(
        "key= code= sig= signature= auth=",
        r"(?P<kept>[?&](?i:key|code|sig|signature|auth|x-amz-signature)=)[^\s\"'&<>\[\]\\]{8,}+",
    ),
    _shape("sk- sk_", rf"sk[-_](?<![A-Za-z0-9]sk.){_HAS_DIGIT}[A-Za-z0-9_-]{{16,}}+(?P<kept>)"),
    _shape("pk- pk_ rk- rk_", rf"(?<![A-Za-z0-9])[pr]k[-_]{_HAS_DIGIT}[A-Za-z0-9_-]{{16,}}+(?P<kept>)"),
    _shape("aiza", r"AIza(?<![A-Za-z0-9]AIza)[A-Za-z0-9_-]{30,}+(?P<kept>)"),
    _shape("ghp_ gho_ ghu_ ghs_ ghr_", r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{30,}+(?P<kept>)"),
    _shape("github_pat_", r"(?<![A-Za-z0-9])github_pat_[A-Za-z0-9_]{30,}+(?P<kept>)"),
    _shape("glpat-", r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{16,}+(?P<kept>)"),
    _shape("xox", r"xox[abeoprs]-(?<![A-Za-z0-9]xox.-)[A-Za-z0-9-]{12,}+(?P<kept>)"),
    _shape(
        "gsk_ hf_ r8_ npm_ pplx- xai-",
        rf"(?<![A-Za-z0-9])(?:gsk_|hf_|r8_|npm_|pplx-|xai-){_HAS_DIGIT}[A-Za-z0-9]{{24,}}+(?P<kept>)",
    ),
    _shape("ya29.", r"(?<![A-Za-z0-9])ya29\.[A-Za-z0-9_-]{20,}+(?P<kept>)"),
    # The id of an access key of AWS, and the secret half where it follows.
    _shape(
        "akia asia",
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{11,}+"
        r"(?:[\s:,;|'\"/=]{1,8}+[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+]))?(?P<kept>)",
    ),
    _shape(
        "eyj",
        r"eyJ(?<![A-Za-z0-9_-]eyJ)[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+)?(?P<kept>)",
    ),
    _shape(
        "bearer",
        rf"(?P<kept>(?<![A-Za-z0-9])(?i:bearer)\s{{1,4}}){_HAS_DIGIT}[A-Za-z0-9._~+/=-]{{8,}}+",
    ),
)

_WHOSE = (
    "access|api|auth|bearer|bot|csrf|gh|github|gitlab|hf|id|oauth|refresh|secret|security|session|slack|xsrf"
)
SENSITIVE_NAME = re.compile(
    r"(?:(?i:password|passwd|passphrase|secret|credentials?"
    r"|(?:access|account|api|encryption|private|secret|signing)[_-]?key"
    rf"|(?:{_WHOSE})[_-]?token|(?<![a-z0-9_-])token|authorization|x-amz-credential)"
    rf"|(?<=_)TOKEN){_END_OF_TEXT}"
)
"""Names whose value is a secret, and ends of such names."""
_LONGEST_NAME = 20
_NAME_ENDS = (
    *("password", "passwd", "passphrase", "secret", "credential", "credentials"),
    *("key", "token", "authorization"),
)

_SCHEME = r"(?i:bearer|basic|token|digest|negotiate|apikey|aws4-hmac-sha256)"
_STAND_IN = r"(?!(?i:none|null|nil|true|false|undefined|str|string|required|optional)\b|\$|%s|\*{3})"
"""What stands for a value, or says that there is none: `${KEY}`, `***`, a type."""
_BARE_CHARACTER = r"[^\s\"'\\,;&<>(){}\[\]]"
_BARE = rf"(?:{_BARE_CHARACTER}++|{_MARK})+"
_BARE_UNIT = rf"(?:{_BARE_CHARACTER}|{_MARK})"
_ASSIGNED = r"\\{0,8}[\"']?[ \t]{0,4}(?:=>|[:=])[ \t]{0,4}"
_QUOTE = r"(?P<quote>\\{0,8}[\"'])"
_CONTENT = (
    rf"(?=(?P<content>(?:[^\\\"'\n]++|(?!(?P=quote))(?:\\++[\"']?|[\"']))+))(?P=content)"
    rf"(?=(?P=quote)|{_END_OF_TEXT})"
)
"""All up to the same quotation mark with the same escapes, in a JSON text that may lie in a JSON text."""

_VALUES = (
    re.compile(rf"(?P<kept>{_ASSIGNED}b?{_QUOTE}){_STAND_IN}{_CONTENT}"),
    # `name=value` without a space, as in queries, environments and connection strings.
    re.compile(rf"(?P<kept>=(?:{_SCHEME}(?:\s|%20|\+))?){_STAND_IN}{_BARE}"),
    # `Authorization: Basic value`
    re.compile(rf"(?P<kept>{_ASSIGNED}{_SCHEME}\s{{1,4}})(?={_BARE_UNIT}{{4}}){_BARE}"),
    # `name: value` may be prose: the value needs a digit. After a quoted name it may be a number of JSON.
    re.compile(
        rf"(?P<kept>(?P<around>\\{{0,8}}[\"'])?{_ASSIGNED})(?=[^\s\"',;]{{0,200}}[0-9]){_STAND_IN}"
        rf"(?={_BARE_UNIT}{{6}}){_BARE}"
    ),
    # `('x-api-key', 'value')`, as headers are often kept.
    re.compile(rf"(?P<kept>(?<=[a-z])['\"],\s{{0,4}}b?{_QUOTE}){_CONTENT}(?=(?P=quote)\))"),
)
"""What may follow the name of a secret, the first that fits."""


def replace_shapes(text: str) -> str:
    """Return a text with `[redacted]` in place of all that looks like a secret."""
    lower = _lower(text)
    for shape in _SHAPES:
        if any(clue in lower for clue in shape.clues):
            replaced = shape.pattern.sub(_mark, text)
            if replaced != text:
                text, lower = replaced, _lower(replaced)
    return _replace_named(text, lower)


def _mark(match: re.Match[str]) -> str:
    return match["kept"] + MARK


def _lower(text: str) -> str:
    lower = text.lower()
    # One letter of Turkish becomes two; then places in both texts would differ.
    return lower if len(lower) == len(text) else text.replace("\u0130", "i").lower()


def _replace_named(text: str, lower: str) -> str:
    """Replace the values of members, variables and headers whose name says that they are secret."""
    pieces: list[str] = []
    done = 0
    for end in _ends_of_names(lower):
        if end < done or not SENSITIVE_NAME.search(text, max(0, end - _LONGEST_NAME), end):
            continue
        match = next((found for value in _VALUES if (found := value.match(text, end))), None)
        if match is not None:
            around = match.groupdict().get("around") or ""
            pieces += [text[done : match.end("kept")], around + MARK + around]
            done = match.end()
    return "".join(pieces) + text[done:] if pieces else text


def _ends_of_names(lower: str) -> list[int]:
    ends: set[int] = set()
    for name in _NAME_ENDS:
        end = lower.find(name)
        while end >= 0:
            end += len(name)
            # A space may stand between a name and what is assigned to it; a letter may not.
            if lower[end : end + 1] in _AFTER_NAMES:
                ends.add(end)
            end = lower.find(name, end)
    return sorted(ends)


_AFTER_NAMES = frozenset("\\\"' \t:=")
