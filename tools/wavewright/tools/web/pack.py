"""The pack `web` over its settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from wavewright.config.installation import install_hint, is_installed
from wavewright.planner.language.plan import Retry
from wavewright.planner.types import JsonObject
from wavewright.tools.functions.registry import make_tool
from wavewright.tools.functions.tool import Tool, ToolError
from wavewright.tools.packs import Pack
from wavewright.tools.web.addresses import MAX_URL_LENGTH
from wavewright.tools.web.pages import Page
from wavewright.tools.web.settings import WebSettings, read_settings


def pack(settings: JsonObject, root: Path) -> Pack:
    """Return the pack over these settings.

    Raises:
        PackError: a setting is unknown or has a wrong value.
    """
    del root
    return Pack(
        name="web",
        tools=(fetch_page_tool(read_settings(settings)),),
        description="Pages of the public web as text.",
    )


def fetch_page_tool(settings: WebSettings) -> Tool:
    """Return the tool `fetch_page`."""

    async def fetch_page(url: Annotated[str, Field(min_length=1, max_length=MAX_URL_LENGTH)]) -> Page:
        """Fetch a page of the public web as Markdown.

        Args:
            url: Address of the page, with http:// or https://.
        """
        if not is_installed("web"):
            raise ToolError("the extra 'web' is not installed, which reads pages", hint=install_hint("web"))
        from wavewright.tools.web.pages import read_answer
        from wavewright.tools.web.reader import shared_reader

        return await read_answer(await shared_reader(settings).get_page(url))

    return make_tool(
        fetch_page,
        effects={"read", "egress"},
        tags={"data"},
        expected_seconds=2.0,
        untrusted_output=True,
        retry=Retry(attempts=3),
        timeout="2m",
        settings=settings.model_dump(mode="json"),
    )
