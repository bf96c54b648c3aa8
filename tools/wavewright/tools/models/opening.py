"""Open access to models for the length of a `with` block.

Every fault of the configuration is found on entry, before anything runs; every client is closed on
exit.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from wavewright.config import Settings
from wavewright.config.redaction import Redactor, known_secrets
from wavewright.planner import NULL_REPLAY_CACHE, ReplayCache
from wavewright.planner.ports.budgets import BudgetStore
from wavewright.planner.ports.model_port import ALWAYS_CLOSED, CircuitBreaker, ModelClient
from wavewright.tools.models.cassette.errors import CassetteError
from wavewright.tools.models.endpoints import (
    Endpoint,
    ModelConfigError,
    check_names,
    configured_models,
    find_endpoint,
    is_replaying,
    thinking_level,
)

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from wavewright.tools.models.messages import OutputMode


REQUESTS_VARIABLE = "WAVEWRIGHT_MODEL_REQUESTS"
"""The variable that turns requests to models off, for this process and for those that it starts:
tests set it.
"""


def check_models(settings: Settings, environment: Mapping[str, str] = os.environ) -> None:
    """Check names, keys and addresses of the models that the settings name, without a request.

    Raises:
        ModelConfigError: something is wrong or missing.
    """
    if settings.model is None:
        raise ModelConfigError("no model is configured", "set WAVEWRIGHT_MODEL to PROVIDER:NAME")
    if environment.get(REQUESTS_VARIABLE) == "off" and not is_replaying(settings):
        raise ModelConfigError(
            f"model {settings.model!r} may not be asked here: {REQUESTS_VARIABLE} is off",
            "mark the test with @pytest.mark.wavewright_live, or replay a cassette",
        )
    check_names(settings)
    for model in configured_models(settings):
        find_endpoint(model, settings, environment)
    for level in settings.models.thinking:
        thinking_level(settings, level)


@asynccontextmanager
async def open_models(
    settings: Settings,
    budget_store: BudgetStore,
    *,
    environment: Mapping[str, str] = os.environ,
    memory: ReplayCache = NULL_REPLAY_CACHE,
    circuit: CircuitBreaker = ALWAYS_CLOSED,
    loads_libraries: bool = False,
) -> AsyncGenerator[ModelClient]:
    """Yield the models that the settings name; what `memory` holds is not asked for again.

    A question that `circuit` holds back waits to be cancelled. `loads_libraries` loads those of the
    providers now, which takes seconds, and not at the first question.

    Raises:
        ModelConfigError: something about them is wrong or missing; no request was made.

    >>> from pathlib import Path
    >>> import anyio
    >>> from wavewright.config import load_settings
    >>> from wavewright.executor import MemoryBudgetStore
    >>> from wavewright.tools import open_models
    >>> async def is_open() -> bool:
    ...     settings = load_settings(Path.cwd(), {"WAVEWRIGHT_MODEL": "ollama:qwen3"})
    ...     async with MemoryBudgetStore() as budgets, open_models(settings, budgets) as models:
    ...         return models is not None
    >>> anyio.run(is_open)
    True
    """
    check_models(settings, environment)
    from pydantic_ai.exceptions import UsageExtractionFailedWarning

    from wavewright.tools.models.clients import build_model
    from wavewright.tools.models.guarded_client import guarded_client
    from wavewright.tools.models.provider_models import ProviderModels

    # A count that cannot be believed is replaced by an estimate, and recorded as one.
    warnings.simplefilter("ignore", UsageExtractionFailedWarning)
    # The libraries warn of an unexpected body; its readable part is read, and the rest is a bad
    # answer.
    warnings.filterwarnings("ignore", "Pydantic serializer warnings", UserWarning)
    redactor = Redactor(known_secrets(settings, environment))
    recorded = _cassette_of(settings, redactor)
    async with guarded_client() as http:

        def build(endpoint: Endpoint) -> Model:
            return recorded(build_model(endpoint, http))

        models = ProviderModels(
            settings, environment, budget_store, redactor, build, memory, circuit
        )
        if loads_libraries:
            import_module("wavewright.tools.models.agent_loop")
            for name in configured_models(settings):
                models.served_model(name)
        yield models


async def output_mode_of(models: ModelClient, model: str) -> OutputMode | None:
    """Return how a server of OpenAI's chat API that is not OpenAI's is asked for a form; None for a
    provider's own, and where nothing is asked.
    """
    from wavewright.tools.models.provider_models import ProviderModels

    if not isinstance(models, ProviderModels):
        return None
    server = models.served_model(model).server
    return None if server is None else await server.mode()


def _cassette_of(settings: Settings, redactor: Redactor) -> Callable[[Model], Model]:
    """Return what puts a model behind the cassette that all models share; it stays as it is where
    there is none.

    Raises:
        ModelConfigError: the cassette is absent or damaged.
    """
    if settings.cassette is None:
        return lambda model: model
    from wavewright.tools.models.cassette.file import Cassette
    from wavewright.tools.models.cassette.model import CassetteModel

    try:
        cassette = Cassette.open(settings.cassette, settings.cassette_mode, redactor)
    except CassetteError as error:
        raise ModelConfigError(error.message, error.hint) from error
    return lambda model: CassetteModel(model, cassette)
