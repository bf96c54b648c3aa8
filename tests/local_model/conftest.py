"""A small language model on this machine, behind OpenAI's chat API."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest

from wavewright.config.settings import load_settings
from wavewright.executor.budgets.memory import MemoryBudgetStore
from wavewright.planner.ports.model_port import ModelClient
from wavewright.tools.models import open_models

PROGRAMS = [Path(__file__).with_name(name) for name in ("server.mjs", "grammar.mjs")]
INSTALLED = Path(sys.prefix) / "model"


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A server with SmolLM2-135M-Instruct."""

    url: str

    def counted(self) -> list[int]:
        """Return the tokens of each answer so far, its question included, as the server counts."""
        with urlopen(f"{self.url}/counted") as response:  # noqa: S310 - an address of our own
            return [usage["total_tokens"] for usage in json.load(response)]

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make it the model."""
        return {"WAVEWRIGHT_MODEL": "openai-chat:local", "WAVEWRIGHT_BASE_URL": self.url}

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[ModelClient]:
        """Open it as the model of a project in a folder."""
        settings = load_settings(folder, self.environment)
        async with (
            MemoryBudgetStore(settings.budgets) as budgets,
            open_models(settings, budgets, environment=self.environment) as models,
        ):
            yield models


@pytest.fixture(scope="session")
def local_model() -> Iterator[LocalModel]:
    """Start the server, where the model is installed."""
    node = shutil.which("node")
    if node is None or not (INSTALLED / "installed-from").is_file():
        reason = "no language model is installed here: make model"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    # Node finds packages beside the program.
    for program in PROGRAMS:
        shutil.copyfile(program, INSTALLED / program.name)
    with subprocess.Popen(
        [node, "server.mjs", "model.gguf"], cwd=INSTALLED, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            listening = re.fullmatch(r"listening on (\d+)\n", server.stdout.readline())
            assert listening is not None, "the server of the model did not start"
            yield LocalModel(f"http://127.0.0.1:{listening[1]}/v1")
        finally:
            server.kill()
