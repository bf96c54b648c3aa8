"""Durations, as plans, settings and the command line give them.

A *duration* is written as seconds or as text with units (`90`, `"1h30m"`) and is kept as seconds.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
DURATION_PATTERN = r"^(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h|d))+$"


def parse_duration(value: object) -> object:
    """Return seconds for duration text such as `"1h30m"`; anything else passes through unchanged.

    Raises:
        ValueError: the text is not a sequence of number and unit (ms, s, m, h, d).
    """
    if isinstance(value, bool):
        msg = f'{"true" if value else "false"} is not a duration: write seconds (90) or units ("1h30m")'
        raise ValueError(msg)  # noqa: TRY004 - pydantic reports a ValueError, not a TypeError
    if not isinstance(value, str):
        return value
    if not re.fullmatch(DURATION_PATTERN, value):
        msg = f'{value!r} is not a duration: write seconds (90) or units ("1h30m", "24h", "7d")'
        raise ValueError(msg)
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _PART.findall(value))


_SecondsInput = Annotated[float, Field(gt=0)] | Annotated[str, Field(pattern=DURATION_PATTERN)]
Seconds = Annotated[
    float,
    BeforeValidator(parse_duration, json_schema_input_type=_SecondsInput),
    Field(gt=0, allow_inf_nan=False, strict=False),
]
"""A duration in seconds, greater than zero; read from a number or from text with units."""
