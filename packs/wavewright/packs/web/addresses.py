"""Which addresses may be fetched: the form of a URL, and the IP addresses behind its host.

The rules are strict, since two readers of one odd URL may see two hosts: http and https on their
usual ports, no user or password, no host that is a number in disguise. Every address that a name
resolves to must be public; a host and port that the settings allow (`127.0.0.1:8080`) is exempt.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import idna

from wavewright.tools import ToolError

IpAddress: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"

PORTS: Final = frozenset({80, 443, 8080, 8443})
MAX_URL_LENGTH: Final = 4_096

_NOT_PLAIN: Final = re.compile(r"[\s\x00-\x1f\x7f\\<>\"`{}|^]")
_LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER: Final = re.compile(r"\d+|0x[0-9a-f]*")
_ISATAP: Final = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")
_REFUSED_NETWORKS: Final = tuple(
    ipaddress.ip_network(network)
    for network in (
        "168.63.129.16/32",  # Azure's WireServer: public by number, and gives out credentials
        "192.0.0.0/24",  # protocol assignments, Oracle's metadata
        "192.88.99.0/24",  # 6to4 relays
        "2001::/23",  # protocol assignments, Teredo
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
)
_PUBLIC_IPV6: Final = ipaddress.IPv6Network("2000::/3")


class AddressRefused(ToolError):
    """An address that is not fetched; the message says why."""


@dataclass(frozen=True, slots=True)
class WebAddress:
    """A URL whose form was checked."""

    scheme: str
    host: str
    """A lower-case ASCII name without a final dot, or an IP address without brackets."""
    port: int
    target: str
    """Path and query."""
    ip: IpAddress | None
    """The host, where it is an IP address."""

    @property
    def origin(self) -> str:
        """Scheme, host and port, without the scheme's own port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme]
        return f"{self.scheme}://{host}" + ("" if self.port == usual else f":{self.port}")

    @property
    def url(self) -> str:
        """The URL in its normal form: without a fragment, one spelling for each address."""
        return self.origin + self.target

    @property
    def place(self) -> str:
        """Host and port, as settings name them."""
        return f"{self.host}:{self.port}"


def read_address(url: str, allowed: Collection[str] = ()) -> WebAddress:
    """Return a URL whose form is that of a page on the public web.

    Args:
        url: The URL, absolute.
        allowed: Hosts with ports (`127.0.0.1:8080`) that are exempt from the rules of ports.

    Raises:
        AddressRefused: its form is another, or it is longer than 4,096 characters.
    """
    if len(url) > MAX_URL_LENGTH:
        raise _refused(url, f"it is longer than {MAX_URL_LENGTH:,} characters")
    if _NOT_PLAIN.search(url):
        raise _refused(url, "it holds a space, a control character, or another that no URL holds")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _refused(url, str(error)) from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise _refused(url, "it is no address that begins with http:// or https:// and a host")
    if "@" in parts.netloc:
        raise _refused(url, "it holds a user name or password, or an '@' in its host")
    host, ip = _read_host(url, parts.hostname, is_bracketed="[" in parts.netloc)
    port = port if port is not None else {"http": 80, "https": 443}[parts.scheme]
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    address = WebAddress(parts.scheme, host, port, target, ip)
    if port not in PORTS and address.place not in allowed:
        raise _refused(url, f"port {port} is not one of {', '.join(map(str, sorted(PORTS)))}")
    return address


def place_of(url: str) -> str:
    """Return host and port of a URL that an operator wrote, as `allowed` names them.

    Raises:
        AddressRefused: its host is none, or its port is no number.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError as error:
        raise _refused(url, str(error)) from error
    host, _ = _read_host(url, parts.hostname or "", is_bracketed="[" in parts.netloc)
    return f"{host}:{port}"


def read_place(text: str) -> str:
    """Return a host with a port (`[::1]:8080`, `Wiki.Internal:443`) in the form of
    `WebAddress.place`.

    Raises:
        AddressRefused: its host is none, or its port is no number.
    """
    host, _, port = text.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    bare = host[1:-1] if is_bracketed else host
    if not (port.isascii() and port.isdecimal()):
        raise _refused(text, "its port is no number")
    host, _ = _read_host(text, bare.lower(), is_bracketed=is_bracketed or ":" in bare)
    return f"{host}:{int(port)}"


def _read_host(url: str, host: str, *, is_bracketed: bool) -> tuple[str, IpAddress | None]:
    if "%" in host:
        raise _refused(url, "its host holds a '%'")
    if is_bracketed:
        try:
            ip = ipaddress.IPv6Address(host)
        except ValueError as error:
            raise _refused(url, "its host is no IPv6 address") from error
        return ip.compressed, ip
    if not host.isascii():
        try:
            host = idna.encode(host, uts46=True).decode("ascii")
        except idna.IDNAError as error:
            raise _refused(url, "its host is no name") from error
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1] or labels[-2] if len(labels) > 1 else labels[-1]):
        try:
            ipv4 = ipaddress.IPv4Address(host)
        except ValueError as error:
            raise _refused(
                url, "its host is a number, and no IPv4 address in its usual form"
            ) from error
        return host, ipv4
    host = host.removesuffix(".")
    if not all(_LABEL.fullmatch(label) for label in host.split(".")):
        raise _refused(url, "its host is no name")
    return host, None


def require_public(address: WebAddress, ip: IpAddress) -> None:
    """Raise where an address leads to a machine that is not on the public internet.

    Raises:
        AddressRefused: it is one of this machine or a local network, of a cloud's metadata, or of a
            reserved range.
    """
    if not _is_public(ip):
        behind = "" if address.ip is not None else f" leads to {ip}, which"
        raise _refused(address.url, f"{address.host}{behind} is no public address")


def _is_public(ip: IpAddress) -> bool:
    if not ip.is_global or ip.is_multicast or any(ip in network for network in _REFUSED_NETWORKS):
        return False
    if isinstance(ip, ipaddress.IPv4Address):
        return True
    return ip in _PUBLIC_IPV6 and ip.packed[8:12] not in _ISATAP


def _refused(url: str, reason: str) -> AddressRefused:
    shown = ascii(url if len(url) <= 120 else url[:117] + "...")
    return AddressRefused(
        f"the address {shown} is refused: {reason}",
        hint="only pages of the public web are fetched; a local server is allowed by the setting `allow_private`",
    )
