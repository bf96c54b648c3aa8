"""Secrets leave every text, whoever wrote it down and however; whatever else is in it stays."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given, strategies as st
from pydantic import AfterValidator, BaseModel, JsonValue, ValidationError

from wavewright.config import redaction
from wavewright.config.redaction import PLACEHOLDERS, Redactor, known_secrets, named_secrets
from wavewright.config.secret_patterns import REDACTED, PrivateKeyLines
from wavewright.config.settings import load_settings
from wavewright.planner.types import JsonObject

SHARED_CASES = Path(__file__).parents[3] / "shared" / "cases" / "secret_cases.jsonl"

CONFIGURED = 'corr"ect/horse+battery staple=ä\\7'

WAYS_TO_WRITE: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in JSON": lambda value: json.dumps(value, ensure_ascii=False),
    "in JSON of ASCII only": json.dumps,
    "in JSON in JSON": lambda value: json.dumps(json.dumps({"said": value})),
    "in JSON with escaped slashes": lambda value: json.dumps(value).replace("/", "\\/"),
    "in an address": lambda value: quote(value, safe=""),
    "in an address, slashes kept": quote,
    "in an address, lower case": lambda value: re.sub(
        "%..", lambda code: code[0].lower(), quote(value, safe="")
    ),
    "in an address, signs kept and a letter not": lambda value: quote(value, safe="/+").replace(
        "o", "%6F"
    ),
    "in a form": quote_plus,
    "in a page": html.escape,
    "as Python shows it": repr,
    "in base64": lambda value: base64.b64encode(value.encode()).decode(),
    "in base64 for addresses": lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
    "in base64 after a name": lambda value: base64.b64encode(f"user:{value}".encode()).decode(),
    "in base64 after a longer name": lambda value: base64.b64encode(
        f"user1:{value}|".encode()
    ).decode(),
}


@pytest.mark.parametrize("way", WAYS_TO_WRITE)
def test_a_known_secret_goes_however_it_is_written(way: str) -> None:
    text = f"before {WAYS_TO_WRITE[way](CONFIGURED)} after"

    redacted = Redactor([CONFIGURED]).redact(text)

    assert redacted.startswith("before ")
    assert redacted.endswith(" after")
    assert REDACTED in redacted
    assert "horse" not in redacted
    # At most a character at each end is shared with what stood beside it in base64.
    assert len(redacted) < len(f"before {REDACTED} after") + 20


@given(
    st.text(st.characters(codec="utf-8"), min_size=8, max_size=40).filter(
        lambda value: value == value.strip()
    ),
    st.sampled_from(sorted(WAYS_TO_WRITE)),
)
@example("a" * 8, "in base64 after a name")
@example("{}[]\\\"'\\\\", "in JSON in JSON")
def test_no_way_of_writing_a_known_secret_gives_it_back(value: str, way: str) -> None:
    written = WAYS_TO_WRITE[way](value)
    redacted = Redactor([value]).redact(f"<{written}>")

    assert value in REDACTED or value.lower() in PLACEHOLDERS or written not in redacted


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("call failed: sk-proj-Synthetic0123456789abcdef", "Synthetic0123456789"),
        ("key rk_live_synthetic0123456789", "synthetic0123"),
        ("AIzaSySynthetic0123456789012345678901234", "SySynthetic"),
        ("remote: ghp_0123456789abcdefghij0123456789abcdef", "0123456789abcdefghij"),
        ("token xoxb-1234567890-abcdefghij", "1234567890-abc"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl", "eyJzdWIi"),
        ("AKIAIOSFODNN7EXAMPLE wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalr"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "wJalr"),
        ("{'authorization': 'Bearer synthetic.value.1'}", "synthetic.value"),
        ("Authorization: Basic c3ludGhldGlj", "c3ludGhldGlj"),
        ("sent Bearer synthetic-value-1 to it", "synthetic-value"),
        ("sent Bearer SYNTHETIC.token.value to it", "token.value"),
        ("answered 401 to Basic dXNlcjpzeW50aGV0aWM= of it", "dXNlcjpz"),
        ("answered 401 to Basic dXNlcjpzeW50aGV0aWM of it", "dXNlcjpz"),
        ("answered 401 to Basic%20dXNlcjpzeW50aGV0aWM of it", "dXNlcjpz"),
        ("PRIVATE-TOKEN: synthetic-1", "synthetic"),
        ("x-api-key: SYNTHETIC-value", "SYNTHETIC"),
        ("SG.synthetic0123456789.synthetic0123456789", "synthetic"),
        ("dop_v1_synthetic0123456789", "synthetic"),
        ("https://hooks.slack.com/services/T0/B0/synthetic0123456789", "synthetic"),
        ("https://hooks.slack.com/workflows/T0/A0/1/synthetic0123456789", "synthetic"),
        ("POST HTTPS://Hooks.Slack-Gov.COM/services/T0/B0/synthetic0123456789", "synthetic"),
        (r"https:\/\/hooks.slack.com\/services\/T0\/B0\/synthetic0123456789", "synthetic"),
        (r"{\"to\": \"hooks.slack.com\\\/services\\\/T0\\\/B0\\\/synthetic0123456789", "synthetic"),
        (
            "https%253A%252F%252Fhooks.slack.com%252Fservices%252FT0%252Fsynthetic012345",
            "synthetic",
        ),
        (r"discord.com\/api\/webhooks\/123456789012345678\/synthetic_synthetic-1234", "synthetic"),
        ("a.webhook.office.com%252Fwebhookb2%252F8b799edf-6f98%25402862fb4e", "8b799edf"),
        (
            "https://discord.com/api/webhooks/123456789012345678/synthetic_synthetic-1234",
            "synthetic",
        ),
        (
            "https://discord.com/api/v10/webhooks/123456789012345678/synthetic_synthetic-1234",
            "synthetic",
        ),
        (
            "https://outlook.office365.com/webhook/8b799edf-6f98@2862fb4e/IncomingWebhook/cd0123/e9",
            "8b799edf",
        ),
        (
            "https://outlook.office.com/webhook/8b799edf-6f98@2862fb4e/IncomingWebhook/cd0123/e9",
            "8b799edf",
        ),
        (
            "https://a.webhook.office.com/webhookb2/8b799edf-6f98@2862fb4e/IncomingWebhook/cd0123/e9",
            "8b799edf",
        ),
        (
            "https://api.telegram.org/bot123456789:AAsyntheticsyntheticsynthetic-12345/getMe",
            "synthetic",
        ),
        ("JSESSIONID=synthetic-1", "synthetic"),
        ("amqp://svc:syn/the@tic@rabbit:5672/", "the@tic"),
        ("Server=x;Uid=u;Pwd=synthetic;", "synthetic"),
        ("requests.get(url, auth=('me', 'synthetic'))", "synthetic"),
        ("curl -u me:synthetic https://example.com", "synthetic"),
        ("tool --api-key synthetic-1", "synthetic"),
        ("the password is synthetic1.", "synthetic1"),
        (
            "{'loc': ('key',), 'msg': 'Input should be a text', 'input': {'k': 'synthetic'}}",
            "synthetic",
        ),
        ('{"p\\u0061ssword": "synthetic"}', "synthetic"),
        ("back=https%3A%2F%2Fhere%2F%3Faccess_token%3Dsynthetic", "synthetic"),
        ("AKIAIOSFODNN7EXAMPLE%20wJalrXUtnFEMI%2FK7MDENG%2FbPxRfiCYEXAMPLEKEY", "bPxR"),
        ("AKIAIOSFODNN7EXAMPLE+wJalrXUtnFEMI%2FK7MDENG%2FbPxRfiCYEXAMPLEKEY", "bPxR"),
        (r"AKIAIOSFODNN7EXAMPLE\nwJalrXUtnFEMI\/K7MDENG\\u002fbPxRfiCYEXAMPLEKEY", "bPxR"),
        (r"key of it:\nghp_0123456789abcdefghij0123456789abcdef", "0123456789abcdefghij"),
        ("%22of%20it%3A%5Cnghp_0123456789abcdefghij0123456789abcdef%22", "0123456789abcdefghij"),
        ("&amp;#65;ghp%5F0123456789abcdefghij0123456789abcdef", "0123456789abcdefghij"),
        ("&amp;#65;&#103;hp_0123456789abcdefghij0123456789abcdef", "0123456789abcdefghij"),
        ("%26%2365%3Bghp\\u005f0123456789abcdefghij0123456789abcdef", "0123456789abcdefghij"),
        ("%7B%22password%22%3A%20%22synthetic%22%7D", "synthetic"),
        ("Bearer%20abcdefgh0123+ijklmnop4567/of-it", "ijklmnop"),
        ("%7B%22password%22%3A+%22synthetic+words%22%7D", "words"),
        ("{&quot;password&quot;: &quot;synthetic&quot;}", "synthetic"),
        ("GET /v1?page=2&amp;key=synthetic-key", "synthetic"),
        ("sk-proj-Synthetic0123456789%5Ftail%2Dof-it", "tail"),
        ("GET /v1?password=one%20synthetic", "synthetic"),
        ("https://me:pass%40%2Fsynthetic@host/", "synthetic"),
        ("MIIsyn\nMIIsynthetic\n-----END RSA PRIVATE KEY-----", "MIIsyn"),
        ("[(b'x-api-key', b'synthetic')]", "synthetic"),
        ("curl -H 'X-Api-Key: synthetic-1'", "synthetic-1"),
        ("postgresql://app:synth@pw@db:5432/jobs", "synth"),
        ("redis://:synthetic@cache", "synthetic"),
        (r"{\"dsn\": \"amqp:\/\/svc:synthetic@rabbit\"}", "synthetic"),
        ("https://synthetic0123456789token@example.com", "synthetic0123"),
        ("Driver=x;Password=synthetic;Server=y", "synthetic"),
        ("GET /v1?api_key=synthetic&page=2", "synthetic"),
        ("GET /v1?key=synthetic-key&page=2", "synthetic"),
        ("OPENAI_API_KEY=synthetic", "synthetic"),
        ("HF_TOKEN=synthetic", "synthetic"),
        ('{"password": "syn\\"the\'tic"}', "tic"),
        (r'"{\"password\": \"syn\\\"thetic\"}"', "thetic"),
        ("'client_secret': 'synthetic", "synthetic"),
        ("password: synthetic1", "synthetic1"),
        ('{"access_token": 123456789}', "123456789"),
        ("Cookie: theme=dark; sid=synthetic", "synthetic"),
        ("Set-Cookie: anything=synthetic; Path=/", "synthetic"),
        ("anything=synthetic; Path=/; Secure", "synthetic"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIsynthetic\n-----END RSA PRIVATE KEY-----",
            "MIIsynthetic",
        ),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIsynthetic\nMIIcut", "MIIcut"),
        (
            r'{"pem": "-----BEGIN PRIVATE KEY-----\nMIIsynthetic\n-----END PRIVATE KEY-----\n"}',
            "MIIsynthetic",
        ),
        ("[type=string_type, input_value={'k': 'synthetic'}, input_type=dict]", "synthetic"),
        *(
            (f"{letter}{key}", key)
            for letter in ("&#65;", "%41", "%2541", "\\u0041", "&amp;#65;&amp;#66;")
            for key in ("sk-synthetic1234567890", "AKIASYNTHETIC123", "ghp_synthetic1" + "a" * 30)
        ),
    ],
)
def test_what_looks_like_a_secret_goes_unasked(text: str, secret: str) -> None:
    redacted = Redactor().redact(text)

    assert secret not in redacted
    assert REDACTED in redacted


@pytest.mark.parametrize(
    "text",
    [
        "commit 3a464f9bdeadbeef3a464f9bdeadbeef3a464f9b",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "run 01JD8Z3N5W8Q7M4T6R2K9V0XYB, step fetch[3], 1b4e28ba-2fa1-11d2-883f-0016d3cca427",
        "tokens_used=48210 max_tokens=4096 token budget: 250000, tokens: 123456",
        "the secret of the key is patience; a password should be long",
        "Password: required. Token: optional. secret: never",
        "login(user: str, password: str, token: str | None = None) -> {token: str}",
        '{"required": ["password", "token"], "properties": {"password": {"type": "string"}}}',
        '{"api_key": null, "password": "", "secret": "${SECRET}", "token": true}',
        "scikit: sk-learn-compatible-estimators, risk-adjusted-returns-for-2024",
        "see https://example.com:8080/a@b and mail me@example.com, or ssh://git@example.com/x.git",
        "a cookie is a small text; session=3",
        "the bearer of bad news: bearer misunderstandings",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "PWD=/srv/files key=value monkey=banana",
        "1 validation error: Input should be a valid string",
        "SecretStr('**********')",
        "Basic authentication, basic TypeScript5Skills and a Basic English2French course",
        "BEARER AUTHENTICATION REQUIRED; docker run -u 1000:1000 --token TOKEN --key FILE",
        "{'msg': 'hello', 'input': 3}; the password is wrong, the token was refused",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
        "see https://example.com/a%20b?q=%41bc and C:\\\\x41, \\u0063 or &#99;",
        "see /a?q=one+two%26three&amp;page=2, C:\\\\new\\\\tokens and 100%25 &lt;b&gt;",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert Redactor(["an-unrelated-secret"]).redact(text) == text


def shared_rows() -> list[dict[str, str | None]]:
    if not SHARED_CASES.exists():
        return []
    return [json.loads(line) for line in SHARED_CASES.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("row", shared_rows(), ids=lambda row: row["id"])
def test_the_shared_cases_end_as_they_say(row: dict[str, str | None]) -> None:
    text, secret = row["text"] or "", row["secret"]
    known = [secret] if secret is not None and row["family"] == "known_value" else []

    redacted = Redactor(known).redact(text)

    if row["must"] == "keep":
        assert redacted == text
    else:
        assert secret is not None
        assert secret not in redacted


def test_a_private_key_goes_that_comes_line_by_line() -> None:
    lines = PrivateKeyLines()
    redactor = Redactor()
    printed = [
        "connecting",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "b3BlbnNzaC1rZXktc3ludGhldGlj",
        "a step of another thread ended well",
        "INFO c3ludGhldGljMTIzNDU2Nzg5",
        "'c3ludGg=\\n'",
        "-----END OPENSSH PRIVATE KEY----- sent",
        "c3ludGhldGlj",
    ]

    assert [redactor.redact(lines.redact(line)) for line in printed] == [
        "connecting",
        REDACTED,
        REDACTED,
        "a step of another thread ended well",
        f"INFO {REDACTED}",
        REDACTED,
        f"{REDACTED} sent",
        "c3ludGhldGlj",
    ]


def test_a_private_key_that_never_ends_takes_no_more_lines_than_a_key_has() -> None:
    lines = PrivateKeyLines()
    lines.redact("-----BEGIN PRIVATE KEY-----")

    redacted = [lines.redact("word") for _ in range(1000)]

    assert redacted[0] == REDACTED
    assert redacted[-1] == "word"


def test_what_is_said_of_a_key_is_not_its_beginning() -> None:
    lines = PrivateKeyLines()
    lines.redact("a file that begins with -----BEGIN PRIVATE KEY----- holds one")

    assert lines.redact("word") == "word"


def test_a_private_key_goes_that_stands_line_by_line_in_a_list() -> None:
    value: JsonValue = {
        "lines": [
            "-----BEGIN PRIVATE KEY-----",
            "MIIsynthetic",
            {"text": "c3lu="},
            "-----END PRIVATE KEY-----",
        ],
        "word": ["word"],
    }

    assert Redactor().redact_json(value) == {
        "lines": [REDACTED, REDACTED, {"text": REDACTED}, REDACTED],
        "word": ["word"],
    }


@pytest.mark.parametrize(
    "escape", ["\\u{:04x}", "\\\\u{:04X}", "\\x{:02x}", "%{:02x}", "&#{};", "&#x{:x};"]
)
@pytest.mark.parametrize("escaped", [slice(0, 1), slice(3, 9), slice(0, None)])
def test_a_known_secret_goes_whose_letters_and_digits_are_escaped(
    escape: str, escaped: slice
) -> None:
    known = "configured1"
    part = "".join(escape.format(ord(character)) for character in known[escaped])
    written = (
        known[: escaped.start] + part + ("" if escaped.stop is None else known[escaped.stop :])
    )
    redactor = Redactor([known])

    assert redactor.may_contain_secret(written)
    assert redactor.redact_known(f'{{"a": "{written}"}}') == f'{{"a": "{REDACTED}"}}'


def test_escapes_stay_where_they_hide_nothing() -> None:
    text = "https://me:synthetic@host/a%20%62 and \\u0063"

    assert (
        Redactor(["configured1"]).redact(text) == f"https://me:{REDACTED}@host/a%20%62 and \\u0063"
    )


def test_a_known_secret_goes_even_where_only_its_middle_looks_like_one() -> None:
    redacted = Redactor(["zzz-not-of-any-shape-zzz"]).redact("echo zzz-not-of-any-shape-zzz.")

    assert redacted == f"echo {REDACTED}."


def test_a_short_known_secret_goes_only_where_it_stands_alone() -> None:
    redactor = Redactor(["hunt3r"])

    assert (
        redactor.redact("pass hunt3r, please: 'hunt3r'") == f"pass {REDACTED}, please: '{REDACTED}'"
    )
    assert redactor.redact("hunt3rs, xhunt3r") == "hunt3rs, xhunt3r"


@pytest.mark.parametrize("placeholder", ["EMPTY", "ollama", "none", "key", ""])
def test_what_is_written_where_no_key_is_needed_is_no_secret(placeholder: str) -> None:
    text = "ollama:llama3 has an EMPTY key, and none is needed"

    assert Redactor([placeholder]).redact(text) == text


def test_the_longer_of_two_secrets_goes_first() -> None:
    redactor = Redactor(["first-half", "first-half-and-second"])

    assert redactor.redact("first-half-and-second first-half") == f"{REDACTED} {REDACTED}"


FRAGMENTS = st.sampled_from(
    [
        *(
            "password",
            "token",
            "api_key",
            "Authorization",
            "Bearer ",
            "Basic ",
            "dXNlcjpw",
            "%41",
            "\\u0061",
            "amqp",
            "cookie: a=",
            "; Path=/",
            "?key=",
            "://",
        ),
        *(
            "input_value=",
            ", input_type=",
            "sk-",
            "eyJ",
            "AKIA",
            "-----",
            "none",
            "${",
            "redacted",
            REDACTED,
            "x" * 40,
        ),
        *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "abcdefgh", "12345678"),
        *(
            "=",
            ":",
            ": ",
            " ",
            '"',
            "'",
            "\\",
            "\\\\",
            "\n",
            ",",
            ";",
            "&",
            "@",
            ".",
            "{",
            "}",
            "(",
            ")",
            "[",
            "]",
        ),
        *("hunt3r", "a-known-secret", "a-known"),
    ]
)
TEXTS = st.lists(st.one_of(FRAGMENTS, st.text(max_size=5)), max_size=25).map("".join)
KNOWN = st.lists(
    st.one_of(st.sampled_from(["a-known-secret", "hunt3r"]), st.text(max_size=12)), max_size=3
)


@given(TEXTS, KNOWN)
@example("sk-sk-12345678abcdefgh12345678hunt3r", ["hunt3r"])
@example("password='a-known-secret' token=[redacted]abc1234", ["a-known-secret"])
@example("[redacted]-known-secret", ["]-known-secret"])
@example("000:000:", ["000:"])
@example("000¹000¹", ["000¹"])
def test_redacting_twice_changes_nothing_more(text: str, known: list[str]) -> None:
    redactor = Redactor(known)
    once = redactor.redact(text)

    assert redactor.redact(once) == once


@given(TEXTS, KNOWN)
def test_what_holds_a_known_secret_is_not_passed_over_at_the_quick_look(
    text: str, known: list[str]
) -> None:
    redactor = Redactor(known)

    is_changed = redactor.redact_known(text) != text

    assert redactor.may_contain_secret(json.dumps({"read": [text]})) or not is_changed


@given(TEXTS)
def test_a_text_without_any_clue_of_a_secret_stays(text: str) -> None:
    # Without these no shape can begin.
    plain = re.sub(
        r"[:=?&\-'\"/;]|(?i:key|token|secret|pass|bearer|cookie|eyj|cred|auth)", "", text
    )
    plain = re.sub(r"AKIA|x{30,}|ghp|hf_|sk_", "", plain)

    assert Redactor().redact(plain) == plain


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "password",
            "password=",
            "'password': '",
            'token=\\"',
            "api_key: ",
            "?key=",
            "://a:",
            "a=",
            "sk-",
            "eyJ",
        ),
        *(
            "-----BEGIN PRIVATE KEY-----",
            "-----",
            "input_value=",
            "cookie: a",
            "bearer ",
            "AKIA",
            "a_",
            "x",
            "=:",
        ),
        *("\\", "@"),
        *(
            "'loc': ('a',), 'msg': '",
            "'msg': 'a', 'input': ",
            "basic ",
            "Basic a",
            "%41",
            "%%34%31",
            "\\u0041",
        ),
        *(
            "-----END PRIVATE KEY-----",
            "A\n-----END ",
            "auth=('",
            "-u a:",
            "amqp://a:",
            "SG.a",
            "--token ",
        ),
        *("token is a", "a-----BEGIN PRIVATE KEY-----a-", "&#65;"),
    ],
)
def test_no_text_makes_it_slow(piece: str) -> None:
    # A pattern that goes back over what it has read would need hours for a text of this size, not a
    # moment.
    text = piece * (300_000 // len(piece))

    assert len(Redactor(["a-known-secret"]).redact(text)) > 0


def test_escapes_within_escapes_are_read_once() -> None:
    # Read again at each level, or from each backslash, these texts would need an hour.
    depth = 300_000
    nested = "%" * depth + "3" * (depth - 1) + "41"
    redactor = Redactor(["A-known-secret"])

    assert redactor.redact_known(f"{nested}-known-secret") == REDACTED
    assert redactor.redact_known("\\" * 10 * depth + "x41-known-secret") == REDACTED
    assert redactor.redact("\\" * 10 * depth) == "\\" * 10 * depth


def test_a_long_text_of_an_output_is_redacted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    redactor, log = Redactor(), "a line\n" * 100 + "password=synthetic"
    clean = redactor.redact_json({"log": log})
    monkeypatch.setattr(redaction, "redact_patterns", None)

    assert not redactor.is_plain({"log": log})
    assert redactor.redact_json({"log": log}) == clean


def test_json_loses_secrets_in_texts_in_names_and_by_name() -> None:
    value: JsonValue = {
        "note": "use a-known-secret",
        "a-known-secret": [
            1,
            {"password": "short", "token": 12345678, "max_tokens": 4096, "secret": 3},
        ],
        "api_key": {"type": "string"},
        "token": None,
        "access_token": True,
    }

    assert Redactor(["a-known-secret"]).redact_json(value) == {
        "note": f"use {REDACTED}",
        REDACTED: [1, {"password": REDACTED, "token": REDACTED, "max_tokens": 4096, "secret": 3}],
        "api_key": {"type": "string"},
        "token": None,
        "access_token": True,
    }


@given(
    st.recursive(
        TEXTS | st.integers() | st.none(), lambda inner: st.dictionaries(TEXTS, inner, max_size=3)
    )
)
def test_json_written_as_text_stays_json(value: JsonValue) -> None:
    redactor = Redactor(["a-known-secret"])
    once = redactor.redact_json(value)

    assert redactor.redact_json(once) == once
    assert json.loads(json.dumps(once)) == once


@pytest.mark.parametrize("number", [1, 123456, 1234567890123])
def test_a_number_that_goes_from_a_json_text_leaves_json(number: int) -> None:
    text = json.dumps({"said": "one\n", "token": number, "then": "two\n", "next": [number]})

    assert json.loads(Redactor().redact(text))["next"] == [number]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("api_key=", "api_key="),
        ("token: \t", "token: \t"),
        ("password=\\", "password=\\"),
        ("api_key='", "api_key='"),
        ('api_key="', 'api_key="'),
        ('api_key="synthetic', f'api_key="{REDACTED}'),
        ("password=synthetic\\", f"password={REDACTED}\\"),
        ('{"cookie": "a=synthetic"}', f'{{"cookie": "{REDACTED}"}}'),
        ('curl -u "me:synthetic"', f'curl -u "me:{REDACTED}"'),
        ("post(auth=('me', 'synthetic'))", f"post(auth=('me', '{REDACTED}'))"),
        ('post(auth=("me", "synthetic"))', f'post(auth=("me", "{REDACTED}"))'),
        ('run --token "syn-1234567"', f'run --token "{REDACTED}"'),
        ('its token is "syn1234567"', f'its token is "{REDACTED}"'),
        ('echo "-----BEGIN PRIVATE KEY-----\nMIIsyn"', f'echo "{REDACTED}"'),
    ],
)
def test_a_secret_in_a_string_of_a_json_text_ends_with_the_string(said: str, shown: str) -> None:
    text = json.dumps({"said": said, "password": "synthetic\\", "nested": json.dumps([said])})

    redacted = json.loads(Redactor().redact(text))

    assert (redacted["said"], redacted["password"]) == (shown, REDACTED)


@pytest.mark.parametrize("quote", ["&quot;", "%22", "&#34;", "%5C", "&#92;", "%2522"])
def test_an_escape_in_a_json_text_ends_no_string_of_it(quote: str) -> None:
    text = json.dumps([f"{quote}token: ", {"a": f"{quote}api_key: "}, "kept 1234567"])

    assert json.loads(Redactor().redact(text)) == json.loads(text)


class _SeveralLines:
    def __repr__(self) -> str:
        return "first\n  synthetic-9\n"

    __str__ = __repr__


class _Asked(BaseModel):
    first: int
    second: Annotated[int, AfterValidator(abs)] | bool


@pytest.mark.parametrize(
    "value",
    [
        "synthetic-9",
        "a, input_type=str] synthetic-9",
        'it\'s\n"synthetic-9"',
        {"k": {"a": 1}, "t": "synthetic-9"},
        ['"', "synthetic-9"],
        b"synthetic-9",
        "a" * 80 + "synthetic-9",
        _SeveralLines(),
    ],
)
def test_no_invalid_value_that_pydantic_quotes_stays(value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        _Asked.model_validate({"first": value, "second": value})
    error = caught.value
    as_json = [
        error.json(indent=indent, include_url=has_url)
        for indent in (None, 2)
        for has_url in (True, False)
    ]
    as_json += map(json.dumps, as_json[:])
    as_json += map(json.dumps, as_json[-4:])
    texts = [str(error), repr(str(error)), " ".join(str(error).split()), repr(error.errors())]

    for text in [*texts, *as_json, json.dumps({"said": str(error)})]:
        redacted = Redactor().redact(text)

        assert "synthetic-9" not in redacted
        assert Redactor().redact(redacted) == redacted
        if text in as_json:
            assert json.loads(redacted)


def test_known_secrets_are_keys_of_providers_and_passwords_in_our_addresses(tmp_path: Path) -> None:
    environment = {
        "WAVEWRIGHT_API_KEY": "own-key-of-the-user",
        "WAVEWRIGHT_BASE_URL": "https://me:pass%2Fword@gateway.example/v1",
        "WAVEWRIGHT_QUEUE_URL": "amqp://svc:rabbit-pw@queue/",
        "OPENAI_API_KEY": " key-of-openai ",
        "HF_TOKEN": "key-of-hf",
        "AWS_SECRET_ACCESS_KEY": "key-of-aws",
        "DATABASE_PASSWORD": "key-of-db",
        "HOME": "/srv/files",
        "EMPTY_API_KEY": "",
        "WAVEWRIGHT_MODEL": "openai:gpt",
        "WAVEWRIGHT_BROKEN_URL": "http://[",
    }
    settings = load_settings(tmp_path, environment)

    assert known_secrets(settings, environment) == (
        "key-of-aws",
        "key-of-db",
        "key-of-hf",
        "key-of-openai",
        "own-key-of-the-user",
        "pass/word",
        "rabbit-pw",
    )


def test_what_a_document_holds_under_a_secrets_name_is_found_wherever_it_stands() -> None:
    document: JsonObject = {
        "steps": [
            {"params": {"api_key": "key-of-the-job", "text": "plain", "token": "${inputs.token}"}}
        ],
        "variables": {"db": {"password": "pw-of-the-job"}},
        "max_tokens": 4096,
    }

    assert [*named_secrets(document)] == ["key-of-the-job", "pw-of-the-job"]
    assert Redactor(["other-one"]).with_secrets(named_secrets(document)).redact(
        "key-of-the-job, other-one"
    ) == (f"{REDACTED}, {REDACTED}")


def test_what_is_sent_to_the_collector_of_traces_is_secret() -> None:
    headers = {
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20of-the-collector,x-key=another-one",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "x-tenant=a%2Cb-of-traces",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
    }
    redactor = Redactor(known_secrets(None, headers))

    for text in (
        headers["OTEL_EXPORTER_OTLP_HEADERS"],
        "sent: Bearer of-the-collector",
        "a,b-of-traces",
        "another-one",
    ):
        left = redactor.redact_known(text)
        assert not any(word in left for word in ("of-the-collector", "another-one", "b-of-traces"))
    assert redactor.redact_known(headers["OTEL_EXPORTER_OTLP_ENDPOINT"]) == "http://collector:4318"


def test_known_secrets_of_the_settings_alone_are_the_key_and_the_password(tmp_path: Path) -> None:
    given_before = {
        "WAVEWRIGHT_API_KEY": "own-key",
        "WAVEWRIGHT_BASE_URL": "http://me:pw-of-me@host/v1",
    }

    assert known_secrets(load_settings(tmp_path, given_before), {}) == ("own-key", "pw-of-me")


def test_known_secrets_are_the_daemons_too_wherever_they_were_given(tmp_path: Path) -> None:
    (tmp_path / "wavewright.yaml").write_text(
        "journal: postgresql://me:pw-of-journal@db/w\ndaemon: {amqp_url: 'amqp://me:pw-of-broker@queue/'}\n"
    )
    environment = {"WAVEWRIGHT_HMAC_KEY": "0123456789abcdef"}

    settings = load_settings(tmp_path, environment)

    assert known_secrets(settings, {}) == ("0123456789abcdef", "pw-of-broker", "pw-of-journal")
    assert known_secrets(
        None, {**environment, "WAVEWRIGHT_JOURNAL": "postgresql://me:pw-too@db/w"}
    ) == (
        "0123456789abcdef",
        "pw-too",
    )


def test_nothing_is_known_where_nothing_is_set() -> None:
    assert known_secrets(None, {}) == ()


def test_an_address_that_was_taken_for_a_path_still_holds_a_password() -> None:
    assert (
        Redactor().redact("no file /srv/https:/user:Pa55word@host/x")
        == f"no file /srv/https:/user:{REDACTED}@host/x"
    )


def test_a_form_to_fill_in_is_no_secret() -> None:
    hint = "set WAVEWRIGHT_AMQP_URL=amqps://USER:PASSWORD@HOST/VHOST"

    assert Redactor().redact(hint) == hint
