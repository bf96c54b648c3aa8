"""The end of a daemon in which something hangs after the signal to stop."""

from __future__ import annotations

import subprocess
import sys

HUNG = "(most recent call first)"
"""What a daemon says of its threads where it is ended because something hangs."""
HANGING = """\
import threading

from wavewright.engine.service.daemon import process

process._exit_after(0.01)
threading.Event().wait(60)
"""


def test_what_hangs_is_ended_with_a_word_about_where_it_hung() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", HANGING], capture_output=True, text=True, check=False
    )

    assert ended.returncode == 0
    assert HUNG in ended.stderr
