"""The authorities that clients of models and of MCP servers trust."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

import httpx2

if TYPE_CHECKING:
    import ssl


def kept_tls_context() -> ssl.SSLContext:
    """Return the context of all clients: reading the authorities takes longer than a question to a model near by."""
    return _context_of(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=4)
def _context_of(file: str | None, folder: str | None) -> ssl.SSLContext:
    del file, folder  # they are where it looks
    return httpx2.create_ssl_context()
