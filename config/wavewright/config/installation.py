"""The installation: optional extras with the command that installs each, and the user's state
folder.

Shell completion uses this module too, so it imports nothing heavy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Extra:
    """An optional extra of the package."""

    modules: tuple[str, ...]
    """The modules that it adds, by import name."""
    purpose: str


EXTRAS: Mapping[str, Extra] = {
    "anthropic": Extra(("anthropic",), "models of Anthropic"),
    "calendars": Extra(("exchange_calendars",), "sessions of exchanges, for the pack equities"),
    "daemon": Extra(
        ("aio_pika", "aiormq", "prometheus_client", "starlette", "structlog", "uvicorn"),
        "the daemon, and the commands that talk to its broker",
    ),
    "equities": Extra(("vega_datasets",), "monthly example prices, for `prices: vega_datasets`"),
    "google": Extra(("google.genai",), "models of Google"),
    "graph": Extra(("surrealdb",), "records and relations in SurrealDB"),
    "lsp": Extra(("lsprotocol", "pygls"), "`wavewright lsp`, the checker in an editor"),
    "mcp": Extra(("mcp",), "`wavewright mcp`, and MCP servers as tools"),
    "nlp": Extra(("spacy",), "names and relations in prose"),
    "notify": Extra(("apprise",), "notices by Slack, Teams and other services"),
    "otel": Extra(("opentelemetry.sdk", "opentelemetry.exporter"), "traces to a collector"),
    "parquet": Extra(("pyarrow",), "Parquet price files"),
    "pdf": Extra(("pypdf",), "PDF files as text"),
    "postgres": Extra(("asyncpg",), "journal, jobs and budgets in PostgreSQL"),
    "receipts": Extra(("cryptography",), "signatures of receipts"),
    "search": Extra(("ddgs",), "the search provider `ddgs`"),
    "view": Extra(("sse_starlette", "starlette", "uvicorn"), "the pages of `view` and `play`"),
    "tabletop": Extra(("rapidfuzz", "sse_starlette", "starlette", "uvicorn"), "the tabletop game"),
    "testing": Extra(
        ("hypothesis", "pytest", "starlette", "syrupy", "uvicorn"),
        "tests and snapshots of plans, outputs for --simulate, the fake model",
    ),
    "web": Extra(
        ("lxml_html_clean", "markdownify", "protego", "selectolax", "trafilatura"),
        "pages of the web as text",
    ),
    "fleet": Extra(
        ("asyncpg", "pgqueuer", "prometheus_client", "starlette", "structlog", "uvicorn"),
        "calls of tools by workers on other machines",
    ),
}


@cache
def is_installed(extra: str) -> bool:
    """Return whether all modules of an extra can be imported, without importing them; looked for
    once.

    >>> from wavewright.config import is_installed
    >>> isinstance(is_installed("daemon"), bool)
    True
    """
    return all(_is_found(module) for module in EXTRAS[extra].modules)


def extra_of(module: str) -> str | None:
    """Return the extra that adds a module, or None if none does."""
    return next(
        (
            name
            for name, extra in EXTRAS.items()
            if any(module == known or module.startswith(f"{known}.") for known in extra.modules)
        ),
        None,
    )


def install_hint(extra: str) -> str:
    """Return the command that installs an extra.

    >>> from wavewright.config import install_hint
    >>> "wavewright[daemon]" in install_hint("daemon")
    True
    """
    return f"pip install 'wavewright[{extra}]'"


def _is_found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the parent package
        return False


def user_state_dir() -> Path:
    """Return the folder where a user's programs keep state between runs, by the XDG base directory
    specification.

    >>> from wavewright.config import user_state_dir
    >>> user_state_dir().is_absolute()
    True
    """
    state_home = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (
        state_home if state_home.is_absolute() else Path.home() / ".local" / "state"
    ) / "wavewright"
