"""What a command does at its start, done once: `prepared_command` imports this module last into the
prepared process.

The packs' contracts, the models of settings and the prompts are made, and the garbage collector of
a copy does not walk what it shares with the prepared process.
"""

from __future__ import annotations

import contextlib
import gc
import tempfile

from wavewright.engine.interfaces.cli.service.daemon_command import check_start

with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
    check_start()
gc.collect()
gc.freeze()
