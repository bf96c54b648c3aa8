"""What a project or a job sets for the pack `lore`."""

from __future__ import annotations

from pydantic import ValidationError

from wavewright.planner.language.plan import DocumentModel
from wavewright.planner.types import JsonObject
from wavewright.tools.lore.store.settings import StoreSettings
from wavewright.tools.packs import PackError


class LoreSettings(DocumentModel):
    """All settings of the pack."""

    store: StoreSettings = StoreSettings()
    """Where validated lore and checkpoints are."""
    sources: str | None = None
    """File with the tiers of sources, in place of the pack's own `sources.yml`."""


def read_settings(settings: JsonObject) -> LoreSettings:
    """Return the settings of the pack.

    Raises:
        PackError: a field is unknown or has a wrong value.
    """
    try:
        return LoreSettings.model_validate(settings)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(["lore", *map(str, fault["loc"])])
        known = ", ".join(LoreSettings.model_fields)
        raise PackError(
            f"setting {where!r}: {fault['msg'].lower()}", hint=f"the pack knows {known}"
        ) from error
