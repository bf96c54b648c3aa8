"""Types of values in plans, settings and the command line: durations, names of people and addresses
of servers.

A *duration* is written as seconds or as text with units (`90`, `"1h30m"`) and is stored as seconds.
An *address* is a URL; every other location is a file. Messages about a faulty address never repeat
it, since it may hold a password.
"""

from __future__ import annotations

import ipaddress
import os
import re
from typing import Annotated, Final, TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field


class SettingsModel(BaseModel):
    """A part of the settings: strict, and built at its first use, since most runs need few parts."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
DURATION_PATTERN = r"^(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h|d))+$"


def parse_duration(value: object) -> object:
    """Return seconds for duration text such as `"1h30m"`; anything else is returned unchanged.

    Raises:
        ValueError: the text is not a sequence of number and unit (ms, s, m, h, d).
    """
    if isinstance(value, bool):
        msg = f'{"true" if value else "false"} is not a duration: write seconds (90) or units ("1h30m")'
        raise ValueError(msg)  # noqa: TRY004 - pydantic reports a ValueError, not a TypeError
    if not isinstance(value, str):
        return value
    if not re.fullmatch(DURATION_PATTERN, value):
        msg = f'{value!r} is not a duration: write seconds (90) or units ("1h30m", "24h", "7d")'
        raise ValueError(msg)
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _PART.findall(value))


def written_duration(seconds: float) -> str:
    """Return seconds as people write them, such as `1h30m`; `parse_duration` reads it back."""
    left, parts = round(seconds * 1000), list[str]()
    for unit, size in reversed(_UNIT_SECONDS.items()):
        count, left = divmod(left, round(size * 1000))
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


_SecondsInput = Annotated[float, Field(gt=0)] | Annotated[str, Field(pattern=DURATION_PATTERN)]
Seconds = Annotated[
    float,
    BeforeValidator(parse_duration, json_schema_input_type=_SecondsInput),
    Field(gt=0, allow_inf_nan=False, strict=False),
]
"""A duration in seconds, greater than zero; read from a number or from text with units."""


NonEmpty: TypeAlias = Annotated[str, Field(min_length=1)]
AtLeastOne: TypeAlias = Annotated[int, Field(ge=1)]
NonNegative: TypeAlias = Annotated[int, Field(ge=0)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Texts: TypeAlias = Annotated[tuple[str, ...], Field(strict=False)]
"""A list of a document, which is kept as a tuple."""
JsonPath: TypeAlias = tuple[str | int, ...]
"""Where a value stands in another: the fields and places that lead to it."""
Place: TypeAlias = str | os.PathLike[str]
"""A file or a folder, as a program names it."""
ReadPath: TypeAlias = Annotated[str, Field(json_schema_extra={"format": "path"})]
"""A file or a folder that is read."""
MAX_PERSON_NAME_LENGTH: Final = 100
PROVEN_BY: Final = " (proven by "
"""What follows the name of a person who is known, in the text of an identity."""


def valid_person_name(name: str) -> str:
    """Return the name of a person as it is.

    Raises:
        ValueError: it is empty, too long, has characters that do not show, or reads as if it were
            proven.
    """
    if PROVEN_BY in name:
        msg = f"a name does not have {PROVEN_BY.strip()!r} in it, which the journal adds"
        raise ValueError(msg)
    if not (name.isprintable() and 1 <= len(name) <= MAX_PERSON_NAME_LENGTH):
        msg = f"a name has 1 to {MAX_PERSON_NAME_LENGTH} printable characters"
        raise ValueError(msg)
    return name


PersonName = Annotated[
    str, Field(min_length=1, max_length=MAX_PERSON_NAME_LENGTH), AfterValidator(valid_person_name)
]
"""Who decides or changes something; the name is journaled with it."""

_AMQP: Final = frozenset({"amqp", "amqps"})
_POSTGRESQL: Final = frozenset({"postgresql", "postgres"})


def is_url(place: str) -> bool:
    """Whether a location is an address, not a file."""
    return "://" in place


def valid_amqp_url(url: str) -> str:
    """Return the address of a broker as it is.

    Raises:
        ValueError: it is not one, or names the user `guest` of a remote broker, whose password is
            public.
    """
    host, user = _host_and_user(url, _AMQP, "amqps://USER:PASSWORD@HOST/VHOST")
    if user in {"", "guest"} and not is_loopback(host):
        msg = (
            "the user 'guest' is refused on another machine, since its password is public; "
            "make a user for the daemon and write amqps://USER:PASSWORD@HOST/VHOST"
        )
        raise ValueError(msg)
    return url


def valid_pg_url(url: str) -> str:
    """Return the address of a PostgreSQL database as it is.

    Raises:
        ValueError: it is not one.
    """
    # Without a host it is the local socket.
    _host_and_user(url, _POSTGRESQL, "postgresql://USER:PASSWORD@HOST/DATABASE", needs_host=False)
    return url


def is_loopback(host: str) -> bool:
    """Whether a host is a loopback address of this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host_and_user(
    url: str, schemes: frozenset[str], form: str, *, needs_host: bool = True
) -> tuple[str, str]:
    """Return host and user of an address; messages never repeat it, since it may hold a password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    # Of two '@' a broker's client takes the last one, and PostgreSQL's the first.
    is_split = parts.scheme in _POSTGRESQL and parts.netloc.count("@") > 1
    login = url.partition("://")[2].rpartition("@")[0]
    has_brackets = not set(login).isdisjoint("[]")
    if "@" in f"{parts.path}{parts.query}{parts.fragment}" or is_split or has_brackets:
        # An unescaped character ended the host early: the rest of the password would be parsed as a
        # path, or, of two '@', as the host.
        msg = (
            "the user or password has a character that is not escaped: "
            f"in {form} a '/', '?', '#' or '@' of a part is written %2F, %3F, %23 or %40,"
            " and brackets %5B and %5D"
        )
        raise ValueError(msg)
    is_given = is_url(url) and (parts.hostname or not needs_host)
    if parts.scheme not in schemes or not has_valid_ports(parts) or not is_given:
        msg = f"this is no such address; write {form}"
        raise ValueError(msg)
    return parts.hostname or "", unquote(parts.username or "")


def has_valid_ports(parts: SplitResult) -> bool:
    """Whether the server of an address, or each of those of `one:5432,two:5433`, has a valid port
    or none.
    """
    try:
        return all(urlsplit(f"//{server}").port != 0 for server in servers_of(parts).split(","))
    except ValueError:
        return False


def servers_of(parts: SplitResult) -> str:
    """Return the hosts and ports of an address, as they are written."""
    return parts.netloc.rpartition("@")[2]


AmqpUrl: TypeAlias = Annotated[str, AfterValidator(valid_amqp_url)]
PgUrl: TypeAlias = Annotated[str, AfterValidator(valid_pg_url)]


def _valid_journal_location(place: str) -> str:
    return valid_pg_url(place) if is_url(place) else place


JournalLocation: TypeAlias = Annotated[str, AfterValidator(_valid_journal_location)]
"""A SQLite file, or the address of a PostgreSQL database."""


def valid_public_url(url: str) -> str:
    """Return a public address as it is.

    Raises:
        ValueError: it is none.
    """
    parts = urlsplit(url)
    is_place = parts.scheme in {"http", "https"} and parts.hostname and has_valid_ports(parts)
    if not is_place or "@" in parts.netloc or parts.query or parts.fragment:
        msg = "a public address is https://HOST/ or https://HOST/PREFIX/, without a query"
        raise ValueError(msg)
    if not re.fullmatch(r"(/[A-Za-z0-9._~-]+)*/?", parts.path):
        msg = "the path of a public address has letters, digits and any of '.', '_', '~', '-'"
        raise ValueError(msg)
    return url


PublicUrl: TypeAlias = Annotated[str, AfterValidator(valid_public_url)]
"""Where browsers and programs reach what this process serves, through a proxy."""
