"""Evaluate expressions over large values, each in a process of its own that has little time and
memory.

Run as a program: answers each line of its input, expressions as JSON, with what became of each. The
limits are the
promise of the reference: 64 MiB beyond what the values take, and a second of processor time, given
four times.
"""

from __future__ import annotations

import datetime as dt
import gc
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.plans.expressions import evaluate
from wavewright.planner.types import Json

NOON = dt.datetime(2010, 3, 1, 12, tzinfo=dt.UTC)
MEMORY = 64 * 2**20
SECONDS = 4


@contextmanager
def limited_evaluator() -> Generator[Callable[[list[str]], dict[str, str]]]:
    """Provide a function from expressions to, for each, `a value`, the kind of its fault, or how
    its process died.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.limited_evaluation"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as program:
        asking, answering = program.stdin, program.stdout
        assert asking is not None
        assert answering is not None

        def outcomes(expressions: list[str]) -> dict[str, str]:
            print(json.dumps(expressions), file=asking, flush=True)
            found: dict[str, str] = json.loads(answering.readline())
            return found

        yield outcomes


def large_values() -> dict[str, Json]:
    """Return a request of about 1 MiB and the outputs of steps of some ten."""
    rows: list[Json] = [
        {"code": f"c{n}", "close": n * 0.5, "tags": ["a", "b"], "note": "n" * 40}
        for n in range(60_000)
    ]
    return {
        "inputs": {
            "l": list(range(90_000)),
            "s": "x" * 700_000,
            "t": "x" * 699_999 + "y",
            "u": "é" * 350_000,
            "wide": "中" * 1000,
            "spaces": " " * 700_000,
            "few": list(range(300)),
            "nested": [[n, [n]] for n in range(40_000)],
            "words": [f"word{n}" for n in range(60_000)],
            "giants": [10**30 + n * (2**61 - 1) for n in range(20_000)],
            "pattern": "(a|b)*a(a|b){200}c",
        },
        "steps": {
            "rows": rows,
            "others": json.loads(json.dumps(rows)),
            "numbers": list(range(1_000_000)),
            "text": "lorem ipsum " * 1_000_000,
            "fields": {f"k{n}": n for n in range(200_000)},
            "giant": 1 << 3_000_000,
        },
    }


def _evaluate(expression: str, values: dict[str, Json]) -> str:
    try:
        evaluate(expression, values, NOON)
    except ExpressionError as fault:
        return "out of memory" if "than there is" in fault.message else fault.kind
    return "a value"


def _apart(expression: str, values: dict[str, Json]) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        limit = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.write(writing, _evaluate(expression, values).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as answer:
        said = answer.read()
    _, status = os.waitpid(child, 0)
    return said if status == 0 else f"died: {os.waitstatus_to_exitcode(status)}"


def main() -> None:
    """Evaluate what stands in the input."""
    values = large_values()
    for warm in ("math.round(1.5)", "'a'.matches('b')", "'%s'.format([1])", "string(now())"):
        evaluate(warm, values, NOON)
    gc.freeze()  # else a collection in a child copies what it shares with this process
    for asked in sys.stdin:
        print(json.dumps({text: _apart(text, values) for text in json.loads(asked)}), flush=True)


if __name__ == "__main__":
    main()
