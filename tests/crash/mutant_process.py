"""A process of wavewright with a bug in it: the one that the variable BUG names.

python -m tests.crash.mutant_process COMMAND
"""

from __future__ import annotations

import os

from tests.crash.mutants import plant
from wavewright.engine.main import run_process

if __name__ == "__main__":
    plant(os.environ["BUG"])
    run_process()
