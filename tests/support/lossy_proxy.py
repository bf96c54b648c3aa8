"""A way to a server on which requests and answers can be lost at a moment that the test chooses.

What is *held* is kept back on the connections that there are; later ones are free. It may be let
through when the client has given its connection up long ago, as on a network that was slow and not
gone.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Literal, Self, TypeAlias
from urllib.parse import urlsplit, urlunsplit

Direction: TypeAlias = Literal["requests", "answers"]


class _Link:
    """One connection through the line."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.ends: dict[Direction, tuple[socket.socket, socket.socket]] = {
            "requests": (client, server),
            "answers": (server, client),
        }
        self.is_free: dict[Direction, threading.Event] = {
            "requests": threading.Event(),
            "answers": threading.Event(),
        }
        self.pieces_left: dict[Direction, int] = {"requests": 0, "answers": 0}
        """Those that pass although they are held."""
        self.let_through()

    def let_through(self) -> None:
        for gate in self.is_free.values():
            gate.set()


class LossyLine:
    """Forwards connections on a port of its own to a server."""

    def __init__(self, url: str) -> None:
        """Stand before the server of this address; `url` is then the address through the line."""
        parts = urlsplit(url)
        self._server = (parts.hostname or "127.0.0.1", parts.port or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}"))
        self._links = list[_Link]()
        self.kept_back = threading.Event()
        """Whether anything was kept back since the last `hold`."""
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.let_through()
        for link in self._links:
            for ends in link.ends.values():
                _shut(ends[0])

    def hold(self, direction: Direction, *, after: int = 0) -> None:
        """Keep back what is sent in that direction over the connections that there are, after so
        many pieces.
        """
        self.kept_back.clear()
        for link in self._links:
            link.pieces_left[direction] = after
            link.is_free[direction].clear()

    def pieces_left(self, direction: Direction) -> int:
        """Return how many pieces may pass yet over the latest connection."""
        return self._links[-1].pieces_left[direction]

    def let_through(self) -> None:
        """Send on what was kept back, and everything after it."""
        for link in self._links:
            link.let_through()

    def cut_clients(self) -> None:
        """Break all connections on the clients' side; servers learn of it once nothing is held."""
        for link in self._links:
            _shut(link.client)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                link = _Link(client, socket.create_connection(self._server))
                self._links.append(link)
                for direction in link.ends:
                    threading.Thread(
                        target=self._forward, args=(link, direction), daemon=True
                    ).start()

    def _forward(self, link: _Link, direction: Direction) -> None:
        source, target = link.ends[direction]
        with suppress(OSError):
            while block := source.recv(65536):
                if not link.is_free[direction].is_set():
                    if link.pieces_left[direction] <= 0:
                        self.kept_back.set()
                        link.is_free[direction].wait()
                    link.pieces_left[direction] -= 1
                target.sendall(block)
        link.is_free[direction].wait()
        _shut(target)


def _shut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    with suppress(OSError):
        end.close()
