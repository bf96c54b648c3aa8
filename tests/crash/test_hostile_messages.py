"""I15: whatever comes, and however large a message may be, it keeps nobody waiting and takes little
memory.

That it is taken in or refused, and nothing else, is tried in `tests/engine/service/messages`; here are the
heaviest bodies that the settings let through, and what they cost.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine.service.messages.sample_messages import GOAL, NOW, RULES, delivered, envelope
from wavewright.engine.service.messages.decoding import decode
from wavewright.engine.service.messages.reading import MessageRejected

MOST = RULES.max_body
BLOCKS_AT_MOST = 6
"""Times as long as it takes to read an ordinary text of that size, by the processor's time of the
same machine.
"""
ORDINARY = json.dumps({f"k{number}": number for number in range(60_000)}).encode()
TAKES_AT_MOST = 64 * 2**20

HEAVY: dict[str, Callable[[], bytes]] = {
    "open brackets": lambda: b"[" * MOST,
    "open objects": lambda: (b'{"a":' * MOST)[:MOST],
    "a number": lambda: b"9" * MOST,
    "a fraction": lambda: b"0." + b"9" * (MOST - 2),
    "an exponent": lambda: b"1e" + b"9" * (MOST - 2),
    "backslashes": lambda: b'"' + b"\\" * (MOST - 1),
    "escapes": lambda: b'"' + b"\\u0041" * ((MOST - 2) // 6) + b'"',
    "surrogates": lambda: b'"' + b"\\ud83d\\ude00" * ((MOST - 2) // 12) + b'"',
    "small numbers": lambda: b"[" + b"1," * ((MOST - 3) // 2) + b"1]",
    "empty lists": lambda: b"[" + b"[]," * ((MOST - 4) // 3) + b"[]]",
    "one key again and again": lambda: b"{" + b'"a":1,' * ((MOST - 8) // 6) + b'"a":1}',
    "many keys": lambda: json.dumps({f"k{number}": 1 for number in range(90_000)}).encode()[:MOST],
    "spaces": lambda: b" " * MOST,
    "a sound envelope with a long goal": lambda: _goal("x" * (MOST - 1_000)),
    "a sound envelope with many unknown fields": lambda: json.dumps(
        envelope(GOAL) | {f"u{number}": number for number in range(60_000)}
    ).encode(),
}


def _goal(text: str) -> bytes:
    return json.dumps(envelope(GOAL | {"goal": text})).encode()


def receive(body: bytes) -> None:
    """Do with a message what the daemon does."""
    try:
        decode(delivered(body), RULES, NOW)
    except MessageRejected:
        return


@pytest.mark.parametrize("kind", HEAVY)
def test_a_heavy_message_blocks_the_loop_for_a_moment_at_most(kind: str) -> None:
    body = HEAVY[kind]()
    assert len(body) <= MOST
    receive(b"{}")

    def cost(read: Callable[[], object]) -> float:
        before = time.thread_time()
        read()
        return time.thread_time() - before

    # What else the machine does may slow one of them down, and not each.
    ordinary = min(cost(lambda: json.loads(ORDINARY)) for _ in range(3)) * MOST / len(ORDINARY)
    assert min(cost(lambda: receive(body)) for _ in range(3)) < BLOCKS_AT_MOST * ordinary


def test_heavy_messages_take_little_memory(tmp_path: Path) -> None:
    """In a process of their own, whose peak is theirs alone."""
    files = [tmp_path / f"{number}.json" for number in range(len(HEAVY))]
    for file, make in zip(files, HEAVY.values(), strict=True):
        file.write_bytes(make())

    command = [sys.executable, "-m", "tests.crash.test_hostile_messages", *map(str, files)]
    grown = int(subprocess.check_output(command, text=True))

    assert 0 <= grown < TAKES_AT_MOST


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024


if __name__ == "__main__":
    bodies = [Path(name).read_bytes() for name in sys.argv[1:]]
    receive(b"{}")
    begun = _peak()
    for one in bodies:
        receive(one)
    print(_peak() - begun)
