"""The sockets on which a command serves over HTTP."""

from __future__ import annotations

import socket

from wavewright.config import exit_codes
from wavewright.config.sections import valid_host_port
from wavewright.engine.interfaces.cli.common.output import CommandError


def listener_at(place: str, option: str) -> socket.socket:
    """Return a socket that listens at `HOST:PORT`; port 0 takes a free one.

    Raises:
        CommandError: the address is not HOST:PORT, or cannot be used; names the option.
    """
    try:
        host, _, port = valid_host_port(place).rpartition(":")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host.strip("[]"), int(port)), family=family)
    except ValueError as error:
        raise CommandError(f"{option} {place!r}: {error}") from error
    except OSError as error:
        message = f"{option} {place!r} cannot be used: {error.strerror}"
        hint = "name another address; port 0 takes a free one"
        raise CommandError(message, hint=hint, exit_code=exit_codes.ENVIRONMENT) from error


def listener_address(listener: socket.socket) -> str:
    """Return `HOST:PORT` of a socket, as it stands in addresses of pages."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
