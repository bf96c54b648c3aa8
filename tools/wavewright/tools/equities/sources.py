"""From settings to a price source."""

from __future__ import annotations

from pathlib import Path

from wavewright.tools.calls import ToolError
from wavewright.tools.equities.prices import PriceSource
from wavewright.tools.equities.settings import EquitiesSettings, PriceServiceSettings
from wavewright.tools.equities.tables import FilePrices
from wavewright.tools.equities.vega_prices import VEGA_DATASETS, vega_prices


def open_price_source(settings: EquitiesSettings, root: Path) -> PriceSource:
    """Return where prices come from.

    Raises:
        ToolError: nothing is configured, or what is configured is not installed.
    """
    where = settings.prices
    if where is None:
        raise ToolError(
            "no prices are configured",
            hint="set 'prices' for the pack 'equities': a folder of CSV files, "
            f"{VEGA_DATASETS!r} (pip install 'wavewright[equities]'), or {{provider: eodhd, …}}",
        )
    if isinstance(where, PriceServiceSettings):
        from wavewright.tools.equities.providers import EodPrices

        return EodPrices(where, settings.currency)
    if where == VEGA_DATASETS:
        return vega_prices()
    return open_price_files(where, settings, root)


def open_price_files(path: str, settings: EquitiesSettings, root: Path) -> FilePrices:
    """Return a folder or file of prices as a source."""
    return FilePrices(path=root / Path(path).expanduser(), shown=path.rstrip("/"), currency=settings.currency)
