"""Open the way to models for as long as somebody needs it.

Everything that is wrong with the set-up is found when it is opened, before anything runs; everything that is opened is
closed at the end.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from wavewright.config.settings import Settings
from wavewright.planner.model_port import Models
from wavewright.planner.spending import Purse
from wavewright.tools.models.choosing import check_names, configured_models, thinking_level
from wavewright.tools.models.endpoints import Endpoint, ModelConfigError, find_endpoint

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from wavewright.config.redaction import Redactor


def check_models(settings: Settings, environment: Mapping[str, str] = os.environ) -> None:
    """Check names, keys and addresses of the models that the settings name; asks nobody.

    Raises:
        ModelConfigError: something is wrong or missing.
    """
    if settings.model is None:
        raise ModelConfigError("no model is configured", "set WAVEWRIGHT_MODEL to PROVIDER:NAME")
    check_names(settings)
    for model in configured_models(settings):
        find_endpoint(model, settings, environment)
    for level in settings.models.thinking:
        thinking_level(settings, level)


@asynccontextmanager
async def open_models(
    settings: Settings, purse: Purse, *, environment: Mapping[str, str] = os.environ
) -> AsyncGenerator[Models]:
    """Yield the models that the settings name.

    Raises:
        ModelConfigError: something about them is wrong or missing; nobody was asked anything.
    """
    check_models(settings, environment)
    from wavewright.config.redaction import Redactor, known_secrets
    from wavewright.tools.models.asking import ProviderModels
    from wavewright.tools.models.http_guard import guarded_client
    from wavewright.tools.models.providers import build_model

    redactor = Redactor(known_secrets(settings, environment))
    async with guarded_client() as http:

        def build(endpoint: Endpoint) -> Model:
            return _taped(build_model(endpoint, http), settings, redactor)

        yield ProviderModels(settings, environment, purse, redactor, build)


def _taped(model: Model, settings: Settings, redactor: Redactor) -> Model:
    """Return a model behind its cassette, where there is one."""
    if settings.cassette is None:
        return model
    from wavewright.tools.models.cassette import CassetteModel

    return CassetteModel(model, settings.cassette, settings.cassette_mode, redactor)
