"""The sockets on which a command serves over HTTP."""

from __future__ import annotations

import socket

from wavewright.config.sections import valid_host_port
from wavewright.engine.interfaces.cli.common.output import CommandError
from wavewright.engine.service.operations.health import listening_socket


def listener_at(place: str, option: str) -> socket.socket:
    """Return a socket that listens at `HOST:PORT`; port 0 takes a free one.

    Raises:
        CommandError: the address is not HOST:PORT, or cannot be used; names the option.
    """
    try:
        return listening_socket(valid_host_port(place))
    except ValueError as error:
        raise CommandError(f"{option} {place!r}: {error}") from error
    except OSError as error:
        message = f"{option} {place!r} cannot be used: {error.strerror}"
        hint = "name another address; port 0 takes a free one"
        raise CommandError(message, hint=hint) from error


def listener_address(listener: socket.socket) -> str:
    """Return `HOST:PORT` of a socket, as it stands in addresses of pages."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
