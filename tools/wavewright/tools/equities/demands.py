"""What the engine demands of a terminal summary: stocks, benchmarks kept apart, and a schema.

Each demand that is not met is a failure that names what is missing, and the mend.
"""

from __future__ import annotations

from collections.abc import Sequence

import jsonschema_rs

from wavewright.planner.types import JsonObject, JsonSchema
from wavewright.tools.calls import ToolError
from wavewright.tools.equities.documents import AnnouncementsDocument, StockResult


def require_tickers(
    stocks: list[StockResult], announcements: list[AnnouncementsDocument], required: Sequence[str]
) -> None:
    present = {stock.code for stock in stocks} | {document.code for document in announcements}
    missing = [code for code in dict.fromkeys(required) if code.upper() not in present]
    if missing:
        raise ToolError(
            f"the summary lacks {', '.join(map(repr, missing))}; it has {', '.join(sorted(present)) or 'no stock'}",
            hint="fetch each of them and pass their documents",
        )


def refuse_benchmarks(stocks: list[StockResult], benchmarks: Sequence[str]) -> None:
    wrong = sorted({stock.code for stock in stocks} & {code.upper() for code in benchmarks})
    if wrong:
        raise ToolError(
            f"{', '.join(map(repr, wrong))} is a benchmark, for comparison only, and stands among the stocks",
            hint="fetch it with fetch_index_data and pass it as benchmark",
        )


def require_schema(summary: JsonObject, schema: JsonSchema) -> None:
    try:
        validator = jsonschema_rs.validator_for(schema)
    except ValueError as error:
        raise ToolError(
            f"the output schema is no JSON Schema: {error}", hint="mend 'output_schema'"
        ) from error
    faults = [
        f"{'.'.join(str(part) for part in error.instance_path) or 'the summary'}: {error.message}"
        for error in validator.iter_errors(summary)
    ]
    if faults:
        more = f", and {len(faults) - 3} more" if len(faults) > 3 else ""
        raise ToolError(
            f"the summary does not satisfy the output schema: {'; '.join(faults[:3])}{more}",
            hint="fetch what is missing, or ask for less in 'output_schema'",
        )
