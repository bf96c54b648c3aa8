"""JSON texts of many small values.

The standard library builds its encoder in C anew for every text, which takes longer than writing a small one. An
*encoder* here is built once and used for ever; what it writes is what `json.JSONEncoder` would write with the same
settings, to the letter.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from json import encoder as _standard
from typing import Final, TypeAlias, cast

JsonEncoder: TypeAlias = Callable[[object], str]

_Chunks: TypeAlias = Callable[[object, int], tuple[str, ...]]


def make_encoder(*, sort_keys: bool) -> JsonEncoder:
    """Return a function that writes a value as ASCII JSON without blanks.

    It raises `ValueError` for NaN and infinities, `TypeError` for what JSON cannot express, and `RecursionError` for
    what is nested without end.
    """
    plain = json.JSONEncoder(
        ensure_ascii=True,
        allow_nan=False,
        sort_keys=sort_keys,
        separators=(",", ":"),
        check_circular=False,
    )
    build: object = getattr(_standard, "c_make_encoder", None)
    if not callable(build):
        # Not every interpreter has it, and it is not promised to stay.
        return plain.encode
    quote: object = _standard.encode_basestring_ascii
    parts = cast("_Chunks", build(None, plain.default, quote, None, ":", ",", sort_keys, False, False))
    join: Final = "".join
    return lambda value: join(parts(value, 0))
