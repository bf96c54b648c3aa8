"""`wavewright topology`: definitions of users, permissions and queues that the broker loads at its start."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from wavewright.config import exit_codes
from wavewright.engine.cli.common.arguments import project_settings
from wavewright.engine.cli.common.output import write_file
from wavewright.engine.operations.broker_definitions import definitions


def print_topology(out: Path | None, vhost: str) -> int:
    """Print the definitions, or write them to a file.

    Raises:
        NoPasswordError: a password is missing.
        CommandError: the file cannot be written.
    """
    made = definitions(project_settings().daemon, os.environ, vhost=vhost)
    text = json.dumps(made, indent=2) + "\n"
    if out is None:
        sys.stdout.write(text)
    else:
        write_file(out, text)
    return exit_codes.OK
