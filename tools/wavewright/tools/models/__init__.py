"""The way to language models: which is asked, how patiently, and what it costs.

A *provider* is whoever serves models; a model is named `provider:name`. This door is light: nothing of a provider's
library is imported before `open_models` is entered.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavewright.tools.models.choosing import choose_model, model_configured
    from wavewright.tools.models.endpoints import ModelConfigError
    from wavewright.tools.models.opening import check_models, open_models

__all__ = ["ModelConfigError", "check_models", "choose_model", "model_configured", "open_models"]

_HOMES = {
    "ModelConfigError": "endpoints",
    "check_models": "opening",
    "choose_model": "choosing",
    "model_configured": "choosing",
    "open_models": "opening",
}
"""The module of each public name."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
