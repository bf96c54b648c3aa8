"""The one client for whatever tools fetch from the web.

Each hop of a redirect is checked: the form of its URL, and the IP addresses that its host resolves
to at that moment. The connection goes to an address that was checked, so a name that changes its
mind in between leads nowhere else. No proxy or certificate setting of the environment is used, and
no connection is kept for another request. A body is read up to a cap, after decompression; all of
it, redirects included, ends at one deadline.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import socket
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, TypeAlias, cast
from urllib.parse import urljoin

import anyio
import httpx

from wavewright.packs.web.addresses import IpAddress, WebAddress, read_address, require_public
from wavewright.planner import JsonObject
from wavewright.tools import ToolError, retry_after_seconds

MAX_REDIRECTS: Final = 10
PAGE_TYPES: Final = frozenset({"text/html", "application/xhtml+xml", "text/plain", "text/markdown"})

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_TRANSIENT_STATUSES: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_GZIP: Final = frozenset({"gzip", "x-gzip"})
_ENCODINGS: Final = _GZIP | {"", "identity"}
_GZIP_WINDOW: Final = 31
"""For `zlib`: a gzip header, and windows of up to 32 KiB."""
_CREDENTIALS: Final = frozenset({"authorization", "cookie", "proxy-authorization"})

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the IP addresses of a host, as text."""


@dataclass(frozen=True, slots=True)
class WebAnswer:
    """What a server has answered, read whole."""

    url: str
    """Of the last hop."""
    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    content: bytes
    fetched_at: dt.datetime

    @property
    def content_type(self) -> str:
        """The media type, without parameters; empty where the server names none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class StatusError(ToolError):
    """A server has answered with a status that is no success."""

    def __init__(
        self, address: WebAddress, shown: str, status: int, reason: str, retry_after: float | None
    ) -> None:
        super().__init__(
            f"{shown} answered {status} {reason}".rstrip(),
            transient=status in _TRANSIENT_STATUSES,
            retry_after=retry_after,
        )
        self.address = address
        self.status = status


async def admit_all(address: WebAddress) -> None:
    """Let each hop be made at once."""


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Return the IP addresses of a host, each once.

    Raises:
        OSError: there is no such host.
    """
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [*dict.fromkeys(str(entry[4][0]) for entry in found)]


def _new_transport() -> httpx.AsyncHTTPTransport:
    return httpx.AsyncHTTPTransport(verify=_ssl_context(), trust_env=False)


@cache
def _ssl_context() -> ssl.SSLContext:
    """Return what verifies certificates; reading the authorities takes longer than many a request."""
    return httpx.create_ssl_context(trust_env=False)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is sent to each hop of one fetch, and which media types are read."""

    headers: Mapping[str, str]
    accept: Collection[str] | None
    body: JsonObject | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedClient:
    """Fetches pages of the public web."""

    allowed: Collection[str] = ()
    """Hosts with ports (`127.0.0.1:8080`) that are fetched although they are not public."""
    user_agent: str = "wavewright"
    """What servers are told."""
    max_bytes: int = 4 * 2**20
    """Of one body, after decompression."""
    seconds: float = 30.0
    """Of one fetch, its redirects included."""
    max_redirects: int = MAX_REDIRECTS
    """How many redirects are followed."""
    shown: str | None = None
    """What errors name in place of the URL, where that holds a key."""
    resolve: Resolver = resolve_host
    """Gives the addresses of a host."""
    transport: Callable[[], httpx.AsyncBaseTransport] = _new_transport
    """Makes what sends one request."""

    async def get(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        accept: Collection[str] | None = PAGE_TYPES,
        admit: Callable[[WebAddress], Awaitable[None]] = admit_all,
        body: JsonObject | None = None,
    ) -> WebAnswer:
        """Return what a server answers; a status other than 2xx and 304 raises.

        Args:
            url: Absolute.
            headers: Sent beside the client's own; credentials go to the first origin only.
            accept: Media types that are read; any where it is None.
            admit: Awaited before each hop, outside the deadline; it refuses a hop by raising.
            body: Posted as JSON to each hop, in place of a GET.

        Raises:
            AddressRefused: the URL or one that it redirects to is not fetched.
            StatusError: the server answers with another status.
            ToolError: there is no answer in time, or one that is too large, of another type, or a
                failure.
        """
        address = read_address(url, self.allowed)
        asked = _Asked(dict(headers or {}), accept, body)
        seconds_left = self.seconds
        redirects = 0
        while True:
            await admit(address)
            begun = anyio.current_time()
            answer = await self._send_in_time(address, asked, seconds_left)
            seconds_left -= anyio.current_time() - begun
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTS:
                return answer
            if location is None or redirects == self.max_redirects:
                reason = (
                    "without saying where to"
                    if location is None
                    else f"after {redirects} redirects"
                )
                raise StatusError(address, self.shown or address.url, answer.status, reason, None)
            redirects += 1
            try:
                target = urljoin(address.url, location)
            except ValueError as error:
                shown = self.shown or address.url
                raise StatusError(
                    address, shown, answer.status, "and leads to no address", None
                ) from error
            following = read_address(target, self.allowed)
            if following.origin != address.origin:
                public = {
                    name: one
                    for name, one in asked.headers.items()
                    if name.lower() not in _CREDENTIALS
                }
                asked = replace(asked, headers=public)
            address = following

    async def _send_in_time(self, address: WebAddress, asked: _Asked, seconds: float) -> WebAnswer:
        shown = self.shown or address.url
        try:
            with anyio.fail_after(seconds):
                return await self._send(address, asked)
        except TimeoutError as error:
            message = f"{shown} gave no answer within {self.seconds:g} s"
            raise ToolError(message, transient=True) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ToolError(
                f"{shown} cannot be read ({type(error).__name__})",
                transient=isinstance(error, httpx.TransportError),
            ) from error

    async def _send(self, address: WebAddress, asked: _Asked) -> WebAnswer:
        failure: httpx.TransportError | None = None
        ips = await self._checked_ips(address)
        # An address that does not answer leaves time for the others.
        connect_seconds = self.seconds / (len(ips) + 1)
        for ip in ips:
            request = self._request(address, ip, asked)
            request.extensions["timeout"] = {
                "connect": connect_seconds,
                **dict.fromkeys(("read", "write", "pool"), self.seconds),
            }
            async with self.transport() as transport:
                try:
                    response = await transport.handle_async_request(request)
                except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                    failure = error
                    continue
                response.request = request
                try:
                    return await self._read(address, response, asked.accept)
                finally:  # the body need not have been read to its end
                    await response.aclose()
        assert failure is not None
        raise failure

    async def _checked_ips(self, address: WebAddress) -> list[IpAddress]:
        """Return the addresses of a host, all of them checked.

        Raises:
            AddressRefused: one of them is not public, or there is none.
        """
        found: Sequence[str] = [] if address.ip is None else [address.ip.compressed]
        if not found:
            try:
                found = await self.resolve(address.host, address.port)
            except OSError:
                found = []
        if not found:
            raise ToolError(f"there is no host {address.host!r}", transient=True)
        ips = [ipaddress.ip_address(text.partition("%")[0]) for text in found]
        if address.place not in self.allowed:
            for ip in ips:
                require_public(address, ip)
        return ips

    def _request(self, address: WebAddress, ip: IpAddress, asked: _Asked) -> httpx.Request:
        """Return a request to a checked address in the name of its host."""
        place = f"[{ip}]" if ip.version == 6 else str(ip)
        return httpx.Request(
            "GET" if asked.body is None else "POST",
            f"{address.scheme}://{place}:{address.port}{address.target}",
            json=asked.body,
            headers={
                "Accept": "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.5",
                "Accept-Encoding": "gzip",
                "User-Agent": self.user_agent,
                **asked.headers,
                "Host": address.origin.partition("://")[2],
            },
            extensions={"sni_hostname": address.host},
        )

    async def _read(
        self, address: WebAddress, response: httpx.Response, accept: Collection[str] | None
    ) -> WebAnswer:
        shown = self.shown or address.url
        headers = {name.lower(): text for name, text in response.headers.items()}
        empty = WebAnswer(address.url, response.status_code, headers, b"", dt.datetime.now(dt.UTC))
        if response.status_code in _REDIRECTS or response.status_code == 304:
            return empty
        if not response.is_success:
            wait = retry_after_seconds(headers.get("retry-after", ""), time.time())
            raise StatusError(address, shown, response.status_code, response.reason_phrase, wait)
        if accept is not None and empty.content_type not in accept:
            raise ToolError(f"{shown} is {empty.content_type or 'of no type'}, and not a page")
        encoding = headers.get("content-encoding", "").strip().lower()
        if encoding not in _ENCODINGS:
            raise ToolError(f"{shown} has the content encoding {encoding[:40]!r}, and not 'gzip'")
        pieces = aiter(cast("httpx.AsyncByteStream", response.stream))
        content = await _read_body(pieces, self.max_bytes + 1, is_packed=encoding in _GZIP)
        if len(content) > self.max_bytes:
            raise ToolError(f"{shown} is larger than {self.max_bytes:,} bytes")
        return replace(empty, content=content)


async def _read_body(pieces: AsyncIterator[bytes], limit: int, *, is_packed: bool) -> bytes:
    """Return the first `limit` bytes of a body; no more than that is unpacked.

    Raises:
        httpx.DecodingError: it is no gzip, where it is said to be packed.
    """
    content = bytearray()
    unpacker = zlib.decompressobj(_GZIP_WINDOW) if is_packed else None
    async for piece in pieces:
        space = limit - len(content)
        if unpacker is None:
            content += piece[:space]
        else:
            try:
                content += unpacker.decompress(piece, space)
            except zlib.error as error:
                raise httpx.DecodingError(str(error)) from error
        if len(content) == limit or (unpacker is not None and unpacker.eof):
            break
    return bytes(content)
