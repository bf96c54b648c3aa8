"""The prices that the package `vega_datasets` carries: monthly, five stocks, 2000-01 to 2010-03.

The file is read straight from the installed package. Its own loader needs pandas, which is never imported here.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from wavewright.config.extras import install_hint
from wavewright.tools.calls import ToolError
from wavewright.tools.equities.tables import FilePrices

VEGA_DATASETS = "vega_datasets"

_MONTH_NOTE = (
    "vega_datasets labels a month by its first day while the price is of a later day of that month, "
    "so a month's price may not yet have been known on its date"
)


def vega_prices() -> FilePrices:
    """Return the package's prices as a source.

    Raises:
        ToolError: the package is not installed, or has no such file.
    """
    spec = importlib.util.find_spec(VEGA_DATASETS)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    path = Path(places[0]) / "_data" / "stocks.csv" if places else None
    if path is None or not path.is_file():
        raise ToolError(
            "the prices of vega_datasets are not installed",
            hint=f"{install_hint('equities')}, or set 'prices' to a folder of CSV files",
        )
    return FilePrices(
        path=path,
        shown=f"{VEGA_DATASETS}:stocks.csv",
        currency="USD",
        source_name="vega_datasets, monthly prices of five US stocks",
        notes=(_MONTH_NOTE,),
    )
