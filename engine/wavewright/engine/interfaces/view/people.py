"""Who uses a page: a person with a token of their own, one whom a trusted proxy names, or anybody
with the token of the page; and what each of them may do.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import Scope

from wavewright.config import Settings, WavewrightError, exit_codes
from wavewright.config.identities import Identity, Proof
from wavewright.config.sections import PersonSettings, Role, TrustedProxySettings
from wavewright.config.value_types import valid_person_name

TOKEN_VARIABLE: Final = "WAVEWRIGHT_VIEW_TOKEN"  # noqa: S105 - the name of the variable
"""Holds the token of pages that are served."""
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
MIN_TOKEN_LENGTH: Final = 16
"""Characters of a token that somebody has chosen."""
ROLES: Final[Sequence[Role]] = ("look", "decide", "operate")
"""Each may do what those before it may."""
_VIEWER: Final = "wavewright.viewer"


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who sends a request."""

    role: Role
    name: str | None = None
    """None where nothing is proven: the name that is typed with a request is claimed."""
    proof: Proof = "claimed"
    has_session: bool = False
    """Whether it is known by a session, which it may end."""

    def may(self, role: Role) -> bool:
        """Whether it may do what a role may."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def identity(self, typed: str) -> str:
        """Return the text of who does something, given the name that was typed with it."""
        return str(Identity(typed if self.name is None else self.name, self.proof))


_UNKNOWN: Final = Viewer("look")


def viewer_of(request: Request) -> Viewer:
    """Return who sends a request, as the guard has found; without a guard somebody who may look."""
    viewer: Viewer = request.scope.get(_VIEWER, _UNKNOWN)
    return viewer


def set_viewer(request: Request, viewer: Viewer) -> None:
    """Let a request be that of a viewer."""
    request.scope[_VIEWER] = viewer


class TokenTooShort(WavewrightError):
    """A token that somebody has chosen can be guessed."""

    exit_code = exit_codes.MISUSE


@dataclass(frozen=True, slots=True)
class PageAccess:
    """Who may use a page, and where it is served."""

    people: Mapping[str, PersonSettings] = field(default_factory=dict[str, PersonSettings])
    proxy: TrustedProxySettings | None = None
    public_url: str | None = None
    """Its address behind a proxy."""
    sessions: Path | None = None
    """File of the sessions; they end with the process where absent."""

    @classmethod
    def from_settings(cls, settings: Settings, public_url: str | None = None) -> PageAccess:
        """Return the access of a project's pages; an address that is given takes precedence."""
        section = settings.view
        return cls(
            section.people,
            section.proxy,
            public_url or settings.public_url,
            settings.state_dir / SESSIONS_FILE,
        )

    @property
    def names_people(self) -> bool:
        """Whether people are known by themselves, so that no common token is needed."""
        return self.proxy is not None or any(person.token for person in self.people.values())

    @property
    def prefix(self) -> str:
        """The path of the public address, without a slash at its end."""
        return "" if self.public_url is None else urlsplit(self.public_url).path.rstrip("/")

    @property
    def origin(self) -> str | None:
        """Scheme and host of the public address, as browsers write them: in lower case, without the
        port that the scheme has anyway.
        """
        if self.public_url is None:
            return None
        scheme, name, port = _place_of(self.public_url)
        return f"{scheme}://{name}" if port == _PORTS[scheme] else f"{scheme}://{name}:{port}"

    @property
    def public_hosts(self) -> frozenset[str]:
        """Values of the header `Host` that name the public address; proxies often leave out its
        port.
        """
        if self.public_url is None:
            return frozenset()
        _, name, port = _place_of(self.public_url)
        return frozenset({name, f"{name}:{port}"})

    def common_token(self) -> str | None:
        """Return the token that everybody may have: that of the environment, or else a new one;
        None where people have their own and the environment names none.

        Raises:
            TokenTooShort: that of the environment can be guessed.
        """
        chosen = chosen_token(TOKEN_VARIABLE)
        return chosen or (None if self.names_people else new_token())

    def is_proxy(self, address: str) -> bool:
        """Whether requests from an address are those of the trusted proxy."""
        return self.proxy is not None and _is_within(address, tuple(self.proxy.addresses))

    def viewer_named_by_proxy(self, request: Request) -> Viewer | None:
        """Return whom the trusted proxy names; None where a request is not from there, names nobody
        or somebody who may do nothing.
        """
        name = self.name_by_proxy(request)
        if self.proxy is None or name is None:
            return None
        known = self.people.get(name)
        role = self.proxy.role if known is None else known.role
        return None if role is None else Viewer(role, name, "proxy")

    def name_by_proxy(self, request: Request) -> str | None:
        """Return the name that the trusted proxy gives, be it that of somebody who may do nothing."""
        if self.proxy is None or request.client is None or not self.is_proxy(request.client.host):
            return None
        names = request.headers.getlist(self.proxy.header)
        # A header that comes twice was not set by the proxy alone.
        if len(names) != 1:
            return None
        try:
            return valid_person_name(names[0])
        except ValueError:
            return None


def below_prefix(scope: Scope, prefix: str) -> Scope:
    """Return a request as an application below a prefix sees it, whether the proxy has removed the
    prefix or not.
    """
    path: str = scope["path"]
    if path == prefix:
        path = f"{prefix}/"
    elif not path.startswith(f"{prefix}/"):
        path = prefix + path
    return {**scope, "path": path, "root_path": prefix}


SESSIONS_FILE: Final = "view-sessions.sqlite"


def chosen_token(variable: str) -> str | None:
    """Return the token of pages that somebody has put into the environment; None where there is
    none.

    Raises:
        TokenTooShort: it can be guessed.
    """
    token = os.environ.get(variable)
    if token and len(token) < MIN_TOKEN_LENGTH:
        raise TokenTooShort(
            f"{variable} has fewer than {MIN_TOKEN_LENGTH} characters",
            hint="set a longer one, such as that of `openssl rand -hex 32`",
        )
    return token or None


def new_token() -> str:
    """Return a new token."""
    return secrets.token_urlsafe(32)


def token_hash(token: str) -> str:
    """Return what is kept of a token; it is long and random, so no slow hash is needed."""
    return f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The tokens that a page takes, by their hashes."""

    viewers: Mapping[str, Viewer]

    @classmethod
    def of(cls, access: PageAccess, common_token: str | None) -> Credentials:
        """Return the tokens of the people, and the common one."""
        viewers = {
            person.token: Viewer(person.role, name, "token")
            for name, person in access.people.items()
            if person.token is not None
        }
        if common_token is not None:
            viewers[token_hash(common_token)] = Viewer("operate")
        return cls(viewers)

    def find(self, token: str) -> tuple[str, Viewer] | None:
        """Return the hash of a token that is taken, and whose it is."""
        sent = token_hash(token)
        for known, viewer in self.viewers.items():
            if hmac.compare_digest(known, sent):
                return known, viewer
        return None


_PORTS: Final = {"http": 80, "https": 443}


def _place_of(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of a public address."""
    parts = urlsplit(url)
    name = parts.netloc.lower().removesuffix(f":{parts.port}")
    return parts.scheme, name, parts.port or _PORTS[parts.scheme]


def _is_within(address: str, networks: tuple[str, ...]) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return any(found in ipaddress.ip_network(network) for network in networks)
